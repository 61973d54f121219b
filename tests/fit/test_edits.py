"""Pairs of features that a person takes away, or forces: at once, and learned again without."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import reference
from hdsl import HDSL, Solver, load
from hdsl.solver import losses
from small_fits import LABELS, ROWS, T, X

NAMES = np.array([f"word{k}" for k in range(X.shape[1])], dtype=object)
TOL = 1e-4


@pytest.fixture(scope="module")
def model():
    return HDSL(scale=20.0, prior=1.0, random_state=0, solver=Solver(max_iter=5)).fit(
        X, triplets=T
    )


D = X.shape[1]


def exact():
    """Return a model that is solved to the tolerance."""
    solver = Solver(oracle="exact", tol=TOL, max_iter=400)
    return HDSL(scale=20.0, prior=1.0, solver=solver)


def pairs_of(model):
    return {tuple(atom[:2]) for atom in model.atoms_.tolist()}


def test_what_is_taken_away_is_the_part_of_the_pairs(model, tmp_path):
    i, j = model.atoms_[0, :2].tolist()
    edited = model.without([f"word{j} ~ word{i}"], feature_names=NAMES)
    is_pair = (model.atoms_[:, :2] == [i, j]).all(axis=1)
    rest = model.similarity(X) - reference_part(model, is_pair)
    assert_allclose(edited.similarity(X), rest, atol=1e-9)
    assert (i, j) not in pairs_of(edited)
    assert edited.status_ == "edited"
    assert edited.forbidden_pairs_.tolist() == [[i, j]]
    assert (i, j) in pairs_of(model)
    assert_array_equal(edited.at(1).similarity(X), edited.similarity(X))
    assert not len(edited.at(0).weights_)
    edited.save(tmp_path / "m.hdsl")
    loaded = load(tmp_path / "m.hdsl")
    assert_array_equal(loaded.similarity(X), edited.similarity(X))
    assert loaded.forbidden_pairs_.tolist() == [[i, j]]
    again = loaded.without([(10, 11)])
    assert [i, j] in again.forbidden_pairs_.tolist()
    assert [10, 11] in again.forbidden_pairs_.tolist()
    edited.report(tmp_path / "page.html", X)


def reference_part(model, is_part):
    """Return what some atoms add to S of all rows, written out."""
    U = X / np.linalg.norm(X, axis=1, keepdims=True)
    M = reference.model_matrix(
        model.atoms_[is_part], model.weights_[is_part], D, model.scale_
    )
    return U @ M @ U.T


def test_the_rest_is_learned_again_to_its_optimum_and_never_takes_the_pairs(model):
    """No allowed atom promises more than the tolerance; by all atoms, one by one."""
    full = exact().fit(X, triplets=T)
    strongest = full.atoms_[np.argsort(-full.weights_)[:3], :2]
    edited = full.without(strongest)
    before = mean_loss(edited, edited.atoms_, edited.weights_)
    edited.partial_fit(X, triplets=T)
    forbidden = {tuple(pair) for pair in strongest.tolist()}
    assert not forbidden & pairs_of(edited)
    assert edited.objective_ < before
    assert edited.objective_ >= full.objective_ - TOL
    step = 1e-4
    for i in range(D):
        for j in range(i + 1, D):
            for sign in (-1, 1):
                atoms = np.vstack([edited.atoms_, [i, j, sign]])
                weights = np.append((1 - step) * edited.weights_, step)
                descent = edited.objective_ - mean_loss(edited, atoms, weights)
                if (i, j) not in forbidden:
                    assert descent <= step * 2e-2
    assert edited.fit(X, triplets=T).forbidden_pairs_ is None


def mean_loss(model, atoms, weights):
    """Return the mean loss of comparisons, written out."""
    U = X / np.linalg.norm(X, axis=1, keepdims=True)
    S = U @ (np.eye(D) + reference.model_matrix(atoms, weights, D, model.scale_)) @ U.T
    margins = S[T[:, 0], T[:, 1]] - S[T[:, 0], T[:, 2]]
    return losses.get(model.loss).value(margins).mean()


def test_without_a_judgement_it_is_the_model_that_never_had_it():
    """To the gap of the solver, from the model that had it."""
    model = exact().fit(X, triplets=T)
    model.partial_fit(X, triplets=T[1:])
    never = exact().fit(X, triplets=T[1:])
    assert model.status_ == never.status_ == "optimal"
    assert abs(model.objective_ - never.objective_) <= TOL
    assert_allclose(model.similarity(X), never.similarity(X), atol=0.5)


def test_a_run_is_not_resumed_where_other_pairs_are_forbidden(model, tmp_path):
    path = tmp_path / "run.ckpt"
    learned = {tuple(pair) for pair in model.atoms_[:, :2].tolist()}
    unlearned = next(
        (i, j) for i in range(D) for j in range(i + 1, D) if (i, j) not in learned
    )
    first = model.without(model.atoms_[:1, :2]).set_params(solver__tol=0.0)
    other = first.without([unlearned])
    assert_array_equal(other.weights_, first.weights_)

    def interrupt(state):
        if state.n_iter == 5:
            raise KeyboardInterrupt

    first.partial_fit(X, triplets=T, checkpoint=path, callback=interrupt)
    assert path.exists()
    with pytest.raises(ValueError, match="path so far"):
        other.partial_fit(X, triplets=T, checkpoint=path)


def test_a_forced_pair_counts_as_one_feature():
    model = HDSL(prior=2.0, random_state=0, solver=Solver(max_iter=2)).fit(ROWS, LABELS)
    forced = model.without([(4, 5)]).with_pairs([(4, 5), (6, 7)])
    M = model.without([(4, 5)]).similarity(ROWS)
    U = ROWS / np.linalg.norm(ROWS[:, model.columns_], axis=1, keepdims=True)
    added = [U[:, i] + U[:, j] for i, j in ((4, 5), (6, 7))]
    expected = M + 2.0 * sum(np.outer(z, z) for z in added)
    assert_allclose(forced.similarity(ROWS), expected, atol=1e-9)
    assert forced.weights_.sum() <= 1.0 + 1e-9
    assert forced.forbidden_pairs_.tolist() == []
    stronger = model.with_pairs([(6, 7)], 5.0)
    difference = stronger.similarity(ROWS) - model.similarity(ROWS)
    assert_allclose(difference, 5.0 * np.outer(added[1], added[1]), atol=1e-9)


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (["word1 ~ word99"], "'word99' is not a feature of the model"),
        ([("wrd1", "word2")], "Did you mean 'word1'"),
        ([(0, 99)], "numbered from 0 to 11"),
        ([(3, 3)], "two different features"),
        (["word1"], "as 'cat ~ dog'"),
        ([], "There is no pair"),
    ],
)
def test_pairs_that_are_none_are_named(model, pairs, message):
    with pytest.raises(ValueError, match=message):
        model.without(pairs, feature_names=NAMES)
    with pytest.raises(ValueError, match=message):
        model.with_pairs(pairs, feature_names=NAMES)


def test_names_are_needed_for_names(model):
    with pytest.raises(ValueError, match="no names of features"):
        model.without([("a", "b")])
    with pytest.raises(ValueError, match="'weight'"):
        model.with_pairs([(0, 1)], -1.0)
