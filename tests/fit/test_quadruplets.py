"""Fits to quadruplets, "a and b are more alike than c and d": as triplets, and dense."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

import hdsl
import reference
from pairwise import pairwise
from small_fits import (
    ORACLES,
    STEPS,
    X_VAL,
    N,
    T,
    X,
    as_quadruplets,
    assert_same_model,
    small,
)


def random_quadruplets(seed, n, size=80):
    """Return quadruplets that are no triplets: four distinct rows."""
    rng = np.random.default_rng(seed)
    return np.array([rng.choice(n, size=4, replace=False) for _ in range(size)])


Q = random_quadruplets(0, N)
Q_VAL = random_quadruplets(1, len(X_VAL))


def slow_objective(model, rows, quadruplets, weights=None):
    """Return the weighted mean loss of S(a, b) - S(c, d), from the dense matrix."""
    S = (
        rows
        @ (model.matrix().toarray() + model.prior_ * np.eye(rows.shape[1]))
        @ rows.T
    )
    a, b, c, d = quadruplets.T
    loss = reference.LOSSES[model.loss][0](S[a, b] - S[c, d])
    return np.average(loss, weights=weights)


# --- as triplets ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "oracle", "prior", "batch_size"),
    # Corrective steps solve a model to a few percent, so that rounding shows.
    pairwise(
        [step for step in STEPS if step != "corrective"],
        ORACLES,
        [0.0, 0.1],
        [None, 30],
    ),
)
def test_quadruplets_of_one_anchor_learn_as_triplets(step, oracle, prior, batch_size):
    # Pairwise steps make scores of atoms equal in the end; then rounding chooses.
    model = small(
        step=step, oracle=oracle, prior=prior, batch_size=batch_size, max_iter=12
    )
    by_triplets = clone(model).fit(X, triplets=T)
    by_quadruplets = model.fit(X, quadruplets=as_quadruplets(T))
    assert_array_equal(by_quadruplets.atoms_, by_triplets.atoms_)
    assert_allclose(by_quadruplets.weights_, by_triplets.weights_, rtol=1e-9)
    assert by_quadruplets.objective_ == pytest.approx(by_triplets.objective_, rel=1e-9)
    assert by_quadruplets.n_triplets_ == len(T)


def test_the_order_within_a_pair_does_not_matter():
    model = small(oracle="exact").fit(X, quadruplets=Q)
    swapped = small(oracle="exact").fit(X, quadruplets=Q[:, [1, 0, 3, 2]])
    assert_array_equal(swapped.atoms_, model.atoms_)
    assert_allclose(swapped.weights_, model.weights_, rtol=1e-9)


def test_automatic_scale_and_prior_of_one_anchor_are_those_of_triplets():
    by_triplets, by_quadruplets = (
        small(scale="auto", prior="auto", max_iter=1).fit(X, **learn)
        for learn in ({"triplets": T}, {"quadruplets": as_quadruplets(T)})
    )
    assert by_quadruplets.scale_ == pytest.approx(by_triplets.scale_, rel=1e-12)
    assert by_quadruplets.prior_ == pytest.approx(by_triplets.prior_, rel=1e-12)


# --- against dense algebra ------------------------------------------------------------


@settings(max_examples=25)
@given(
    seed=st.integers(0, 99),
    loss=st.sampled_from(sorted(reference.LOSSES)),
    step=st.sampled_from(STEPS),
    oracle=st.sampled_from(ORACLES),
    prior=st.sampled_from([0.0, 0.1]),
    is_weighted=st.booleans(),
)
def test_the_objective_is_the_mean_loss_and_falls(
    seed, loss, step, oracle, prior, is_weighted
):
    quadruplets = random_quadruplets(seed, N, 40)
    weights = np.random.default_rng(seed).random(40) if is_weighted else None
    model = small(loss=loss, step=step, oracle=oracle, prior=prior, max_iter=10)
    model.fit(X, quadruplets=quadruplets, sample_weight=weights)
    assert (np.diff(model.trace_["objective"]) <= 1e-13).all()
    for k in (0, model.n_iter_):
        expected = slow_objective(model.at(k), X, quadruplets, weights)
        assert model.trace_["objective"][k] == pytest.approx(expected, rel=1e-10)


def test_an_exact_gap_bounds_the_best_objective():
    tight = small(oracle="exact", max_iter=3000, tol=1e-6).fit(X, quadruplets=Q)
    assert (tight.status_, tight.gap_is_exact_) == ("optimal", True)
    early = small(oracle="exact", max_iter=5).fit(X, quadruplets=Q)
    assert early.objective_ - early.gap_ <= tight.objective_ <= early.objective_


# --- validation, going on, files ------------------------------------------------------


def test_a_path_goes_on_with_quadruplets_triplets_and_labels():
    model = small(max_iter=10).partial_fit(X, quadruplets=Q)
    assert_same_model(model, small(max_iter=10).fit(X, quadruplets=Q))
    model.partial_fit(X_VAL, quadruplets=Q_VAL)
    assert (model.n_iter_, model.n_triplets_) == (20, len(Q_VAL))
    assert model.objective_ == pytest.approx(
        slow_objective(model, X_VAL, Q_VAL), rel=1e-10
    )
    model.partial_fit(X, triplets=T)
    model.set_params(warm_start=True).fit(X, quadruplets=Q)
    assert model.n_iter_ == len(model.trace_) - 1 == 40
    assert model.objective_ == pytest.approx(slow_objective(model, X, Q), rel=1e-10)


def test_a_stored_model_of_quadruplets_answers_and_goes_on(tmp_path):
    model = small(prior=0.1).fit(sp.csr_array(X), quadruplets=Q)
    model.save(tmp_path / "model.hdsl")
    stored = hdsl.load(tmp_path / "model.hdsl")
    assert_same_model(stored, model)
    assert stored.n_triplets_ == len(Q)
    assert_array_equal(stored.similarity(X), model.similarity(X))
    assert_same_model(
        stored.partial_fit(X, quadruplets=Q), model.partial_fit(X, quadruplets=Q)
    )


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_bad_quadruplets_are_refused_and_leave_the_model_unchanged(method):
    model = small().fit(X, quadruplets=Q)
    before = pickle.dumps(model)
    for learn, message in [
        (
            {"triplets": T, "quadruplets": Q},
            "takes triplets or quadruplets, but got both",
        ),
        (
            {"quadruplets": T},
            r"must have shape \(n_quadruplets, 4\).* Got shape \(80, 3\)",
        ),
        ({"triplets": Q}, r"must have shape \(n_triplets, 3\).* Got shape \(80, 4\)"),
        ({"quadruplets": [[3, 5, 5, 3]]}, r"compares the pair \(3, 5\) with itself"),
        ({"quadruplets": Q + N}, r"quadruplets\[0\] names row \d+, but X has 40 rows"),
        ({"quadruplets": Q + 0.5}, "must hold integers"),
        ({"quadruplets": Q, "sample_weight": [1.0]}, "one per quadruplet"),
    ]:
        with pytest.raises(ValueError, match=message):
            getattr(model, method)(X, **learn)
    assert pickle.dumps(model) == before
