"""Fits with an embedding beside the features."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

import hdsl
from hdsl import HDSL, Rows, Solver
from hdsl.cpu.layout import CPULayout
from hdsl.cpu.workers import Workers
from hdsl.evaluate.choose import FIXED_WEIGHT, WEIGHTS
from hdsl.settings import nested_parameters
from hdsl.solver.losses import get as get_loss

N_WORDS = 120
WIDTH = 8


def make_rows(n_rows=150, signal=1.0, seed=0):
    """Words and an embedding of rows of three classes; `signal` is what the embedding knows."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n_rows)
    words = sp.random(n_rows, N_WORDS, 0.08, random_state=seed, format="lil")
    for row, label in enumerate(y):
        words[row, rng.integers(0, N_WORDS)] = 1.0
        if rng.random() < 0.7:
            words[row, 10 * label + rng.integers(0, 5)] = 1.0
    centers = rng.normal(size=(3, WIDTH))
    noise = rng.normal(size=(n_rows, WIDTH))
    Z = (signal * centers[y] + noise).astype(np.float32)
    return sp.csr_array(words), Z, y


X, Z, Y = make_rows()
SMALL = {"random_state": 0, "prior": 2.0, "scale": 0.5, "max_iter": 4}


@pytest.fixture(scope="module")
def model():
    return HDSL(**nested_parameters(embedding_weight=0.5, **SMALL)).fit((X, Z), Y)


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


# --- what is learned ------------------------------------------------------------------


def test_the_similarity_is_that_of_its_formula(model):
    x = unit(X.toarray())
    z = unit(Z.astype(np.float64))
    M = model.matrix().toarray()[:N_WORDS, :N_WORDS]
    expected = 2.0 * (x @ x.T + 0.5 * z @ z.T) + x @ M @ x.T
    assert_allclose(model.similarity((X, Z)), expected, atol=1e-5)
    assert_allclose(
        model.pair_score((X, Z), (X[::-1], Z[::-1])),
        np.diag(expected[:, ::-1]),
        atol=1e-5,
    )


@pytest.mark.filterwarnings("ignore:Nothing is learned")
@pytest.mark.parametrize("weight", [0.25, 1.0, 3.0])
def test_a_chosen_prior_has_no_rounding_of_the_embedding(weight):
    model = HDSL(
        embedding_weight=weight, solver=Solver(max_iter=2), random_state=0
    ).fit((X, Z), Y)
    chosen = model.prior_ * (1.0 + weight)
    assert chosen == float(f"{chosen:.5g}")


def test_no_column_of_the_embedding_is_paired(model):
    assert len(model.atoms_)
    assert (model.atoms_[:, :2] < N_WORDS).all()
    assert model.n_features_in_ == N_WORDS + WIDTH
    assert model.embedding_width_ == WIDTH


def test_margins_of_the_layout_are_those_of_both_blocks():
    rows = Rows(X, unit(Z))
    rng = np.random.default_rng(1)
    triplets = np.array([rng.permutation(len(Y))[:3] for _ in range(60)])
    layout = CPULayout(rows, triplets, workers=Workers(1))
    problem = layout.problem(get_loss("smoothed_hinge"), 1.0, 3.0)
    inner = (X @ X.T).toarray() + rows.dense @ rows.dense.T
    a, p, n = triplets.T
    expected = 3.0 * (inner[a, p] - inner[a, n])
    order = np.argsort(a, kind="stable")
    margins = problem.margins(np.empty((0, 3), dtype=np.int64), np.empty(0))
    assert_allclose(margins, expected[order], atol=1e-6)
    own = np.square(X.toarray()).sum(axis=1) + 1.0
    assert_allclose(layout.statistics().own_similarity, own[a].mean(), rtol=1e-5)


@pytest.mark.parametrize(
    ("embedding", "rows"),
    [
        (None, (X, Z)),
        (None, Rows(X, Z)),
        (WIDTH, Rows(X, Z)),
        (WIDTH, sp.csr_matrix(sp.hstack([X, Z]))),
        (slice(-WIDTH, None), sp.csr_array(sp.hstack([X, Z]))),
        (slice(N_WORDS, None), np.hstack([X.toarray(), Z])),
        (
            [f"z{k}" for k in range(WIDTH)],
            pd.DataFrame(
                np.hstack([X.toarray(), Z]),
                columns=[f"w{k}" for k in range(N_WORDS)]
                + [f"z{k}" for k in range(WIDTH)],
            ),
        ),
    ],
    ids=["pair", "rows", "rows and width", "sparse", "slice", "dense", "names"],
)
def test_all_forms_of_rows_learn_the_same(model, embedding, rows):
    other = HDSL(
        **nested_parameters(embedding=embedding, embedding_weight=0.5, **SMALL)
    ).fit(rows, Y)
    assert_array_equal(other.atoms_, model.atoms_)
    assert_array_equal(other.weights_, model.weights_)
    assert_allclose(
        other.similarity(rows[:5] if not isinstance(rows, tuple) else (X[:5], Z[:5])),
        model.similarity((X[:5], Z[:5])),
        rtol=1e-5,
    )


def test_rewritten_rows_come_as_the_rows_came(model):
    queries = model.rewrite((X, Z))
    index = model.index_rows(Rows(X, Z))
    S = model.similarity((X, Z))
    by_words = (queries.sparse @ index.sparse.T).toarray()
    assert_allclose(by_words + queries.dense @ index.dense.T, S, atol=1e-5)
    both = sp.csr_matrix(sp.hstack([X, Z]))
    rewritten = model.rewrite(both)
    assert isinstance(rewritten, sp.csr_matrix)
    assert_allclose((rewritten @ model.index_rows(both).T).toarray(), S, atol=1e-5)
    left = model.transform(both.toarray())
    assert_allclose(left @ left.T, S, atol=1e-5)
    limited = model.rewrite((X, Z), max_terms=3)
    assert np.diff(limited.sparse.indptr).max() <= 3
    assert_allclose(limited.dense, queries.dense)


# --- the weight -----------------------------------------------------------------------


def test_a_useless_embedding_gets_no_weight_and_a_useful_one_some():
    words, noise, y = make_rows(n_rows=240, signal=0.0)
    useless = HDSL(random_state=0, solver=Solver(max_iter=2), prior=4.0).fit(
        (words, noise), y
    )
    useful = HDSL(random_state=0, solver=Solver(max_iter=2), prior=4.0).fit(
        (words, make_rows(n_rows=240, signal=2.0)[1]), y
    )
    assert useless.embedding_weight_ == 0.0 < useful.embedding_weight_
    plain = HDSL(random_state=0, solver=Solver(max_iter=2), prior=4.0).fit(words, y)
    without = HDSL(
        random_state=0, solver=Solver(max_iter=2), prior=4.0, embedding_weight=0.0
    )
    assert_array_equal(without.fit((words, noise), y).atoms_, plain.atoms_)


@pytest.mark.filterwarnings("ignore:Nothing is learned")
def test_choice_lists_all_weights_and_the_priors_tried_with_the_chosen_one():
    model = HDSL(random_state=0, solver=Solver(max_iter=3)).fit((X, Z), Y)
    table = pd.DataFrame(model.choice_)
    unlearned = table[np.isinf(table["prior"])]
    assert sorted(unlearned["embedding_weight"]) == sorted(WEIGHTS)
    best = unlearned.sort_values("score", ascending=False).iloc[0]
    assert model.embedding_weight_ == best["embedding_weight"]
    learned = table[np.isfinite(table["prior"])]
    assert set(learned["embedding_weight"]) == {model.embedding_weight_}
    (chosen,) = np.flatnonzero(table["chosen"])
    assert table["prior"][chosen] in (np.inf, pytest.approx(model.prior_))


def test_too_few_rows_have_a_fixed_weight():
    few = HDSL(random_state=0, solver=Solver(max_iter=2)).fit((X[:30], Z[:30]), Y[:30])
    assert few.embedding_weight_ == FIXED_WEIGHT


@pytest.mark.filterwarnings("ignore:Nothing is learned")
def test_validation_rows_are_pairs_too():
    chosen = HDSL(random_state=0, solver=Solver(max_iter=2)).fit(
        (X[:100], Z[:100]), Y[:100], X_val=(X[100:], Z[100:]), y_val=Y[100:]
    )
    assert chosen.embedding_weight_ in WEIGHTS


# --- paths and files ------------------------------------------------------------------


def test_a_path_goes_on_with_its_weight(model):
    whole = HDSL(
        **nested_parameters(embedding_weight=0.5, **SMALL | {"max_iter": 8})
    ).fit((X, Z), Y)
    half = (
        HDSL(**nested_parameters(embedding_weight=0.5, **SMALL))
        .fit((X, Z), Y)
        .partial_fit((X, Z), Y)
    )
    assert half.embedding_weight_ == 0.5
    assert half.n_iter_ == whole.n_iter_
    assert half.objective_ == pytest.approx(whole.objective_, rel=1e-2)
    with pytest.raises(ValueError, match="embedding_weight"):
        half.set_params(embedding_weight=2.0).partial_fit((X, Z), Y)


def test_a_saved_model_has_its_embedding(model, tmp_path):
    model.save(tmp_path / "model.hdsl")
    again = hdsl.load(tmp_path / "model.hdsl")
    assert_array_equal(again.similarity((X, Z)), model.similarity((X, Z)))
    assert again.embedding_weight_ == 0.5
    assert again.embedding_width_ == WIDTH
    assert again.at(1).similarity_.fixed[1].weight == pytest.approx(1.0)


# --- explanations ---------------------------------------------------------------------


def test_an_explanation_has_one_part_for_the_embedding(model):
    explanation = model.explain((X[[0]], Z[0]), (X[[1]], Z[[1]]))
    parts = explanation.parts[explanation.parts["kind"] == "embedding"]
    assert parts["name"].tolist() == ["meaning"]
    z = unit(Z.astype(np.float64))
    assert parts["value"][0] == pytest.approx(2.0 * 0.5 * z[0] @ z[1], rel=1e-5)
    S = model.similarity((X[[0]], Z[[0]]), (X[[1]], Z[[1]]))
    assert explanation.total == pytest.approx(S[0, 0], rel=1e-5)
    assert {"i", "j"} <= set(model.importance((X, Z)).pairs.dtype.names)


# --- bad input ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("embedding", "rows", "words"),
    [
        (0, (X, Z), "embedding"),
        ("z", (X, Z), "embedding"),
        (3, (X, Z), "8 columns"),
        (N_WORDS, X, "features must"),
        (slice(0, 4), X, "last columns"),
        (["a"], X, "no column names"),
        (None, (Z, X), "order"),
        (None, (X, Z[:-1]), "same rows"),
    ],
)
def test_wrong_embeddings_are_refused(embedding, rows, words):
    with pytest.raises(ValueError, match=words):
        HDSL(embedding=embedding).fit(rows, Y)


def test_rows_of_another_shape_are_refused(model):
    with pytest.raises(ValueError, match="fitted on"):
        model.similarity((X, Z[:, :3]))
    with pytest.raises(ValueError, match="features"):
        model.similarity(X)
