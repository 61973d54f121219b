"""Fits that learn inside an embedding, beside features and alone."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

import hdsl
from devices import DEVICES
from hdsl import HDSL, Rows, SimilarityKNeighborsClassifier, Solver
from hdsl.cuda import runtime
from hdsl.input.embeddings import LEAST_WIDTH
from hdsl.settings import nested_parameters

WIDTH = 40
SMALL = {"random_state": 0, "prior": 4.0, "embedding_weight": 0.5, "max_iter": 6}


def make_rows(n_rows=240, seed=0):
    """Words and vectors of two classes that differ in three of many noisy directions."""
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=n_rows)
    X = sp.random(n_rows, 80, 0.08, random_state=seed, format="lil")
    for row, label in enumerate(y):
        X[row, rng.integers(80)] = 1.0
        if rng.random() < 0.5:
            X[row, 5 * label + rng.integers(5)] = 1.0
    Z = rng.normal(size=(n_rows, WIDTH))
    Z[:, :3] += 1.5 * (2 * y[:, None] - 1)
    turn, _ = np.linalg.qr(rng.normal(size=(WIDTH, WIDTH)))
    return Rows(sp.csr_array(X), (Z @ turn).astype(np.float32)), y


ROWS, Y = make_rows()
TRAIN = np.arange(160)
TEST = np.arange(160, 240)


@pytest.fixture(scope="module")
def model():
    return HDSL(**nested_parameters(embedding_scale=32.0, **SMALL)).fit(ROWS, Y)


def errors(model, rows):
    knn = SimilarityKNeighborsClassifier(3, similarity=model).fit(rows[TRAIN], Y[TRAIN])
    return np.mean(knn.predict(rows[TEST]) != Y[TEST])


# --- words and an embedding -----------------------------------------------------------


def test_the_similarity_is_that_of_its_formula(model):
    x = ROWS.sparse.toarray()
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    z = ROWS.dense / np.linalg.norm(ROWS.dense, axis=1, keepdims=True)
    M = model.matrix().toarray()[:80, :80]
    W = model.embedding_matrix()
    assert len(model.atoms_)
    assert W.any()
    expected = 4.0 * (x @ x.T + 0.5 * z @ z.T) + x @ M @ x.T + z @ W @ z.T
    assert_allclose(model.similarity(ROWS), expected, atol=1e-4)
    documents = model.index_rows(ROWS)
    queries = model.rewrite(ROWS)
    assert_allclose(documents.dense, z, atol=1e-6)  # nothing learned is in the index
    assert_allclose(queries.dense, 2.0 * z + z @ W, atol=1e-4)


def test_the_learned_matrix_is_positive_and_its_trace_is_bounded(model):
    W = model.embedding_matrix()
    assert np.linalg.eigvalsh(W)[0] >= -1e-9
    assert 0.0 < np.trace(W) <= 32.0 * (1 + 1e-9)
    share = np.trace(W) / 32.0 + model.weights_.sum()
    assert share <= 1.0 + 1e-6
    lengths = np.linalg.norm(model.directions_, axis=1)
    assert (np.diff(lengths) <= 0).all()


def test_scale_zero_leaves_the_embedding_as_it_is():
    frozen = HDSL(**nested_parameters(embedding_scale=0.0, **SMALL)).fit(ROWS, Y)
    assert frozen.directions_ is None
    assert not frozen.embedding_matrix().any()
    assert frozen.embedding_scale_ == 0.0


def test_learning_inside_lowers_the_error():
    frozen = HDSL(**nested_parameters(embedding_scale=0.0, **SMALL)).fit(
        ROWS[TRAIN], Y[TRAIN]
    )
    inside = HDSL(**nested_parameters(embedding_scale=32.0, **SMALL)).fit(
        ROWS[TRAIN], Y[TRAIN]
    )
    assert errors(inside, ROWS) < errors(frozen, ROWS)


def test_the_path_has_every_model(model):
    for n_iter in (0, 3, 6):
        then = model.at(n_iter)
        again = HDSL(
            **nested_parameters(
                embedding_scale=32.0, **SMALL | {"max_iter": n_iter or 1}
            )
        )
        again.fit(ROWS, Y)
        if n_iter:
            assert_allclose(
                then.similarity(ROWS), again.similarity(ROWS), rtol=1e-6, atol=1e-6
            )
    assert model.at(0).directions_ is None
    assert_array_equal(model.at(6).directions_, model.directions_)


def test_a_path_goes_on(model):
    part = HDSL(
        **nested_parameters(embedding_scale=32.0, **SMALL | {"max_iter": 3})
    ).fit(ROWS, Y)
    part.partial_fit(ROWS, Y)
    assert part.n_iter_ == 6
    assert part.objective_ == pytest.approx(model.objective_, rel=0.02)
    assert_allclose(part.at(3).directions_, model.at(3).directions_, atol=1e-6)


def test_threads_and_files_change_nothing(model, tmp_path):
    two = HDSL(**nested_parameters(embedding_scale=32.0, n_jobs=2, **SMALL)).fit(
        ROWS, Y
    )
    assert_array_equal(two.directions_, model.directions_)
    model.save(tmp_path / "model.hdsl")
    loaded = hdsl.load(tmp_path / "model.hdsl")
    assert_array_equal(loaded.directions_, model.directions_)
    assert loaded.embedding_scale_ == 32.0
    assert_array_equal(loaded.at(3).directions_, model.at(3).directions_)
    assert_array_equal(loaded.similarity(ROWS), model.similarity(ROWS))


def test_a_checkpoint_goes_on_as_if_nothing_had_happened(model, tmp_path):
    path = tmp_path / "run.ckpt"
    options = {"embedding_scale": 32.0, **SMALL}
    again = HDSL(**nested_parameters(**options))
    again.fit(ROWS, Y, checkpoint=path, callback=stop_at_five)
    again.fit(ROWS, Y, checkpoint=path)
    assert_array_equal(again.directions_, model.directions_)
    assert_array_equal(again.weights_, model.weights_)


def stop_at_five(state):
    return state.n_iter == 5


@pytest.mark.parametrize("rows", [ROWS, ROWS.dense], ids=["words and vectors", "dense"])
def test_a_few_labels_learn_a_little_inside(rows):
    """Where nothing can be held out, the least of the bounds is taken, as the prior is."""
    few = np.concatenate([np.flatnonzero(y == Y)[:6] for y in (0, 1)])
    model = HDSL(random_state=0).fit(rows[few], Y[few])
    own = model.prior_ * model.embedding_weight_
    assert model.embedding_scale_ == pytest.approx(2.0 * own)
    assert model.directions_ is not None
    frozen = HDSL(embedding_scale=0.0, random_state=0).fit(rows[few], Y[few])
    assert frozen.directions_ is None


@pytest.fixture(params=DEVICES)
def device(request, monkeypatch):
    monkeypatch.setattr(
        runtime, "get_device", lambda name="cuda": DEVICES[request.param]
    )


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("rows", [ROWS, ROWS.dense], ids=["words and vectors", "dense"])
@pytest.mark.parametrize("step", ["corrective", "away"])
def test_a_card_learns_what_the_cpu_learns(rows, step):
    options = SMALL | {"embedding_scale": 32.0, "step": step}
    here = HDSL(**nested_parameters(**options)).fit(rows, Y)
    card = HDSL(**nested_parameters(device="cuda", **options)).fit(rows, Y)
    assert card.directions_ is not None
    assert card.n_iter_ == here.n_iter_
    assert_allclose(card.trace_["objective"], here.trace_["objective"], atol=1e-7)
    assert_allclose(card.similarity(rows), here.similarity(rows), atol=1e-3)
    card.set_params(device="cpu", solver__max_iter=2).partial_fit(rows, Y)
    assert card.n_iter_ >= here.n_iter_
    assert card.objective_ <= here.objective_ + 1e-7


@pytest.mark.usefixtures("device")
def test_a_card_chooses_what_the_cpu_chooses():
    options = {"random_state": 0, "max_iter": 4}
    here = HDSL(**nested_parameters(**options)).fit(ROWS.dense, Y)
    card = HDSL(**nested_parameters(device="cuda", **options)).fit(ROWS.dense, Y)
    assert here.embedding_scale_ > 0.0
    assert card.embedding_scale_ == pytest.approx(here.embedding_scale_, rel=1e-9)
    assert card.prior_ == pytest.approx(here.prior_, rel=1e-9)
    assert_allclose(card.objective_, here.objective_, atol=1e-7)


# --- dense rows alone -----------------------------------------------------------------


def test_dense_rows_are_an_embedding_as_a_whole(tmp_path):
    Z = ROWS.dense
    options = {"prior": 4.0, "embedding_scale": 32.0, "random_state": 0}
    model = HDSL(**nested_parameters(**options)).fit(Z[TRAIN], Y[TRAIN])
    assert model.embedding_width_ == WIDTH
    assert len(model.atoms_) == 0
    assert model.gap_is_exact_
    unlearned = model.at(0)
    assert errors(model, Z) < errors(unlearned, Z)
    z = Z / np.linalg.norm(Z, axis=1, keepdims=True)
    expected = 4.0 * z @ z.T + z @ model.embedding_matrix() @ z.T
    assert_allclose(model.similarity(Z), expected, atol=1e-4)
    for answer in (model.transform(Z), model.rewrite(Z), model.index_rows(Z)):
        assert isinstance(answer, np.ndarray)
    assert model.transform(Z).shape[1] == len(model.get_feature_names_out())
    explanation = model.explain(Z[0], Z[1])
    assert {*explanation.parts["name"]} == {"meaning", "meaning, learned"}
    assert explanation.total == pytest.approx(expected[0, 1], abs=1e-4)
    model.save(tmp_path / "model.hdsl")
    loaded = hdsl.load(tmp_path / "model.hdsl")
    assert_array_equal(loaded.similarity(Z), model.similarity(Z))


@pytest.mark.parametrize(
    "rows",
    [
        np.abs(ROWS.dense),
        ROWS.dense[:, : LEAST_WIDTH - 1],
        sp.csr_array(ROWS.dense),
        np.where(np.abs(ROWS.dense) > 0.2, ROWS.dense, 0.0),
    ],
    ids=["one sign", "few columns", "sparse", "zeros"],
)
def test_other_rows_are_features(rows):
    model = HDSL(prior=4.0, random_state=0, solver=Solver(max_iter=1)).fit(rows, Y)
    assert model.embedding_width_ == 0
    assert model.directions_ is None
    assert len(model.atoms_)


def test_none_pairs_the_columns_of_dense_rows():
    options = {"prior": 4.0, "random_state": 0, "max_iter": 1}
    model = HDSL(**nested_parameters(embedding=None, **options)).fit(ROWS.dense, Y)
    assert len(model.atoms_)
    whole = HDSL(
        **nested_parameters(embedding=WIDTH, embedding_scale=8.0, **options)
    ).fit(ROWS.dense, Y)
    assert len(whole.directions_)
