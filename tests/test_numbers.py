"""Hard numbers: values of any size, rows without information, triplets that contradict.

Every fitted number is finite and true, or the fit is refused with a way out.
"""

import re
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, note
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import reference
from hdsl import HDSL, SimilarityKNeighborsClassifier, Solver
from hdsl.explain import explain
from hdsl.search import top_k
from hdsl.settings import nested_parameters
from hdsl.similarity import FixedPart, Similarity
from strategies import (
    hard_matrices,
    hard_parameters,
    hard_triplets,
    hard_weights,
    random_arrays,
)

# Values of all sizes in one problem may exceed what float64 can hold; warnings say so.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Rounding hides the objective"),
    pytest.mark.filterwarnings("ignore:Rows differ in length"),
]

# The rows as they are and weights of sum 1: the problem of the dense reference.
PAPER = {"init": "oracle", "norm": None}

REFUSED = re.compile(r"Scale X, for example|divide them by the largest")
TOO_LARGE = re.compile(r"scale X to smaller values|Scale the rows")


def is_refused(call, words):
    """Return whether a call raises a ValueError that matches; other errors pass through."""
    try:
        call()
    except ValueError as error:
        if not words.search(str(error)):
            raise
        return True
    return False


def contradictory(seed=0):
    """Return rows and triplets, sorted by anchor, each with its opposite."""
    X, T = random_arrays(seed, n=8, d=6, T=10)
    T = np.concatenate([T, T[:, [0, 2, 1]]])
    return X, T[np.argsort(T[:, 0], kind="stable")]


def compared_rows(model, X):
    """Return the rows as the model compares them: at unit length, or as they are."""
    if model.norm is None:
        return X
    # Squares overflow.
    X = X / np.where(X.any(axis=1), np.abs(X).max(axis=1), 1.0)[:, None]
    return X / np.where(X.any(axis=1), np.linalg.norm(X, axis=1), 1.0)[:, None]


def with_rounding(model, X, triplets, weights=None):
    """Return the dense problem of a model, its margins, and how far rounding may move them.

    Rounding is relative to the terms of a margin, which may cancel.
    """
    dense = partial(
        reference.Problem,
        triplets=triplets,
        loss=model.loss,
        scale=model.scale_,
        prior=model.prior_,
        weights=None if weights is None else np.asarray(weights) / np.max(weights),
    )
    X = compared_rows(model, X)
    problem = dense(X)
    sizes = dense(np.abs(X))
    a, p, q = sizes.X[triplets.T]
    sizes.A = a[:, :, None] * (p + q)[:, None, :]
    plus = np.column_stack([model.atoms_[:, :2], np.ones(len(model.atoms_), dtype=int)])
    rounding = 1e-14 * sizes.margins(plus, model.weights_)
    return problem, problem.margins(model.atoms_, model.weights_), rounding


def rounded(model, X, triplets, weights, along=False):
    """Return the smallest and the largest objective of a model that rounding allows.

    `along` allows for margins that were updated step by step: their error is that of
    the largest on the path, where an atom may have had all the weight.
    """
    problem, margins, rounding = with_rounding(model, X, triplets, weights)
    if along:
        steps = np.column_stack([model.trace_[name] for name in ("i", "j", "sign")])
        on_path = np.vstack(
            [model.atoms_, steps[(steps[:, 0] >= 0) & (steps[:, 1] > 0)]]
        )
        alone = [np.abs(problem.margins([a], [1.0])).max() for a in on_path]
        rounding = 10 * max([rounding.max(), *(1e-14 * size for size in alone)])
    return problem.value(margins + rounding), problem.value(margins - rounding)


def check_weights(model):
    """Check that weights are positive and sum to 1, or to at most 1 for init="zero"."""
    assert len(model.weights_) == len(model.atoms_)
    assert (model.weights_ > 0).all()
    if model.solver.init == "zero":
        assert model.weights_.sum() <= 1.0 + 1e-14
    else:
        assert_allclose(model.weights_.sum(), 1.0, rtol=1e-14)


def check_model(model, X, triplets, weights):
    """Check that a fitted model is finite, is in its domain, and reports its true objective."""
    check_weights(model)
    for value in (model.scale_, model.prior_, model.objective_, model.components_.data):
        assert np.isfinite(value).all()
    low, high = rounded(model, X, triplets, weights)
    assert low * (1 - 1e-9) <= model.objective_ <= high * (1 + 1e-9)
    low, high = rounded(model, X, triplets, weights, along=True)
    assert (
        low * (1 - 1e-9)
        <= model.trace_["objective"][model.n_iter_]
        <= high * (1 + 1e-9)
    )


@given(st.data())
def test_a_fit_is_finite_and_true_or_refused(data):
    """With a line search the objective never rises."""
    X = data.draw(hard_matrices())
    T = data.draw(hard_triplets(len(X)))
    weights = data.draw(hard_weights(len(T)))
    model = HDSL(**nested_parameters(**data.draw(hard_parameters()), random_state=0))
    if is_refused(partial(model.fit, X, triplets=T, sample_weight=weights), REFUSED):
        return
    note(f"{model.status_}, {model.n_iter_} iterations, {model.scale_}, {model.prior_}")
    check_model(model, X, T, weights)
    trace = model.trace_
    assert len(trace) == model.n_iter_ + 1 <= model.solver.max_iter + 1
    assert np.isfinite(trace["objective"]).all()
    assert np.isfinite(trace["step_size"]).all()
    if model.solver.step != "blended":  # lazy steps need no gap
        assert np.isfinite(trace["gap"]).all()
    rises = np.diff(trace["objective"]) > 1e-12 * trace["objective"][:-1]
    for k in np.flatnonzero(rises):  # only by rounding
        _, high = rounded(model.at(int(k)), X, T, weights, along=True)
        low, _ = rounded(model.at(int(k) + 1), X, T, weights, along=True)
        assert low <= high * (1 + 1e-9)


@given(st.data())
def test_an_exact_gap_is_the_true_gap(data):
    X = data.draw(hard_matrices())
    X = X[:, X.any(axis=0)]  # atoms use non-empty columns only
    T = data.draw(hard_triplets(len(X)))
    parameters = {**data.draw(hard_parameters()), "oracle": "exact", "batch_size": None}
    model = HDSL(**nested_parameters(**parameters, random_state=0))
    if is_refused(partial(model.fit, X, triplets=T), REFUSED):
        return
    dense, margins, rounding = with_rounding(model, X, T)
    M = reference.model_matrix(model.atoms_, model.weights_, X.shape[1], model.scale_)
    best = dense.best_atom(margins)[0]
    best = max(best, 0.0) if model.solver.init == "zero" else best
    true = best + (M * dense.gradient(margins)).sum()
    note(f"{model.status_}, gap {model.gap_}, truly {true}")
    if model.gap_is_exact_:
        # Slopes move with the margins, and scores add up terms that may cancel.
        moved = dense.ell1(margins + rounding) - dense.ell1(margins - rounding)
        slopes = 1e-12 * np.abs(dense.ell1(margins)) + moved
        a, p, q = np.abs(dense.X[T.T]).max(axis=2)
        terms = np.max(4 * model.scale_ * a * (p + q) + np.abs(dense.offset))
        assert abs(model.gap_ - true) <= 1e-9 * abs(true) + terms * (
            dense.omega @ slopes
        )


@given(
    hard_matrices(),
    hard_matrices(),
    st.sampled_from([np.float64, np.float32]),
    st.data(),
)
def test_results_on_finite_rows_are_finite_or_refused(X, Y, dtype, data):
    """Sparse and dense rows agree."""
    d = min(X.shape[1], Y.shape[1])
    X, Y = (
        np.clip(Z[:, :d], *np.array([-1, 1]) * np.finfo(dtype).max).astype(dtype)
        for Z in (X, Y)
    )
    size = data.draw(st.sampled_from([1e-60, 1e-9, 1.0, 1e12, 1e60, 1e300]))
    prior = data.draw(st.sampled_from([0.0, 1e-60, 1.0, 1e60, 1e300]))
    atoms = np.array([[0, 1, 1], [0, 1, -1]])
    fixed = (FixedPart("prior", prior),)
    S = Similarity(atoms, np.array([0.25, 0.75]), size, fixed, d)
    knn = SimilarityKNeighborsClassifier(1, similarity=S)
    for use in (
        lambda kind: S.transform(kind(X)),
        lambda kind: S.rewrite(kind(X)),
        lambda kind: S.pairwise(kind(X), kind(Y)),
        lambda kind: S.pair_score(kind(X[:2]), kind(Y[:2])),
        lambda kind: top_k(kind(X), kind(Y), 1).scores,
        lambda kind: knn.fit(kind(Y), np.arange(len(Y))).kneighbors(kind(X))[0],
    ):
        found = []
        for kind in (np.asarray, sp.csr_array):
            is_refused(lambda: found.append(use(kind)), TOO_LARGE)  # noqa: B023 - called at once
        found = [Z.toarray() if sp.issparse(Z) else Z for Z in found]
        assert all(np.isfinite(Z).all() for Z in found)
        if len(found) == 2:
            size_of = np.abs(found[0]).max(initial=0.0)
            assert_allclose(*found, rtol=1e-5, atol=1e-5 * float(size_of))


# --- single cases ---------------------------------------------------------------------


def test_automatic_scale_is_refused_where_no_number_fits():
    """Margins are close to underflow, beside one large value that no triplet names."""
    X = np.zeros((5, 3))
    X[:4, :2] = 1e-160 * np.array([[1, 0], [1, 1], [0, 1], [1, 2]])
    X[4, 2] = 1.0
    with pytest.raises(ValueError, match="Scale X, for example"):
        HDSL(norm=None).fit(X, triplets=[[0, 1, 2], [3, 0, 1]])


def test_only_the_ratios_of_weights_matter():
    """A sum of weights that overflows or vanishes is refused."""
    X, T = random_arrays(0)
    for size in (1e308, 5e-324):
        with pytest.raises(ValueError, match="Only the ratios of weights matter"):
            HDSL().fit(X, triplets=T, sample_weight=np.full(len(T), size))
    weights = np.linspace(1, 2, len(T))
    fits = [
        HDSL(solver=Solver(max_iter=20), random_state=0).fit(
            X, triplets=T, sample_weight=size * weights
        )
        for size in (1.0, 2.0**-490, 2.0**490)
    ]
    assert fits[0].objective_ == fits[1].objective_ == fits[2].objective_


def test_a_stalled_run_reports_its_exact_gap():
    X, T = contradictory()
    model = HDSL(
        10.0,
        **nested_parameters(prior=0.5, oracle="exact", max_iter=5000, tol=0.0, **PAPER),
    )
    model.fit(X, triplets=T)
    assert model.status_ == "stalled"
    assert abs(model.gap_) < 1e-12
    assert model.gap_is_exact_


def test_rewrite_of_float32_handles_small_priors():
    """float32 ranges from 1e-45 to 1e38; the prior for rows of 1e30 is 1e-60."""
    fixed = (FixedPart("prior", 1e-60),)
    S = Similarity(np.array([[0, 1, 1]]), np.ones(1), 1e-60, fixed, 2)
    X = np.array([[1e30, 0]], dtype=np.float32)
    for kind in (np.asarray, sp.csr_array):
        Z = S.rewrite(kind(X))
        assert Z.dtype == np.float32
        assert_allclose(
            Z.toarray() if sp.issparse(Z) else Z, [[2e-30, 1e-30]], rtol=1e-6
        )


# --- messages -------------------------------------------------------------------------


def test_explaining_a_row_rather_than_itself_says_no_difference():
    fixed = (FixedPart("prior", 1.0),)
    S = Similarity(np.array([[0, 1, 1]]), np.ones(1), 1.0, fixed, 3)
    text = "S(x, y) - S(x, z) = 0: y and z differ in no feature and no pair of features that counts"
    assert repr(explain(S, [1, 1, 0], [1, 0, 1], rather_than=[1, 0, 1])) == text
