"""Corrective steps: the quadratic model, the path, and the table of what changed."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import reference
from hdsl.solver.oracle import ORACLES
from hdsl.solver.quadratic import RIDGE, best_change
from hdsl.solver.trace import CORRECTION_DTYPE, check_corrections, replay
from pairwise import pairwise
from runs import NEVER, as_dict, run
from strategies import random_twin, twins

LOSSES = ["smoothed_hinge", "squared_hinge", "logistic", "exponential"]

# --- the quadratic model --------------------------------------------------------------


@given(seed=st.integers(0, 10**6), n=st.integers(2, 30))
def test_rounding_chooses_no_move(seed, n):
    """A move levels two scores; which of them leads next must not depend on their last bits."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(n, n))
    K = A.T @ A
    scores = rng.normal(size=n)
    weights = rng.dirichlet(np.ones(n))
    tol = 0.05 * float(scores.max() - scores @ weights)
    noise = 1.0 + 1e-14 * rng.normal(size=(n, n))
    first = best_change(K, scores, weights, tol)
    again = best_change(K * noise * noise.T, scores * noise[0], weights, tol)
    assert_allclose(again, first, atol=1e-10)


@given(seed=st.integers(0, 10**6), n=st.integers(1, 6), rank=st.integers(0, 6))
def test_best_change_solves_the_quadratic_model(seed, n, rank):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(rank, n))
    K = A.T @ A
    scores = rng.normal(size=n)
    weights = rng.random(n) * (rng.random(n) < 0.7)
    weights[0] += 0.1
    weights /= weights.sum()
    found = best_change(K, scores, weights, 1e-10)
    v = weights + found
    assert v.min() >= -1e-15
    assert abs(found.sum()) <= 1e-14
    ridged = K + RIDGE * K.diagonal().mean() * np.eye(n)
    slope = scores - ridged @ found
    if rank:  # optimal: no atom scores more than those that have a weight
        assert slope.max() - slope[v > 1e-12].min() <= 1e-6 * (1 + np.abs(scores).max())
    best = reference.best_change(ridged, scores, weights)
    gain = lambda d: scores @ d - d @ ridged @ d / 2  # noqa: E731
    assert gain(found) >= gain(best) - 1e-6 * (1 + abs(gain(best)))


# --- the path -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("loss", "oracle", "init", "prior", "batch_size"),
    pairwise(
        LOSSES, sorted(ORACLES), ["zero", "oracle", "random"], [0.0, 0.3], [None, 20]
    ),
)
def test_the_objective_never_rises_and_replay_is_the_run(
    loss, oracle, init, prior, batch_size
):
    twin = random_twin(5, n=20, d=15, T=80, loss=loss, scale=5.0, prior=prior)
    seen = []
    keep = lambda state: seen.append((state.objective, as_dict(state)))  # noqa: E731
    found = run(
        twin,
        oracle=oracle,
        rule="corrective",
        init=init,
        batch_size=batch_size,
        max_iter=12,
        tol=1e-7,
        callback=keep,
    )
    values = np.array([value for value, _ in seen])
    assert (np.diff(values) <= 1e-13 * values[:-1]).all()
    for k, (_, model) in enumerate(seen):
        assert as_dict(replay(found.trace, k, found.corrections)) == model
    assert set(found.trace["kind"][1:]) <= {"correct", "forward"}
    total = found.weights.sum()
    assert total <= 1 + 1e-12 if init == "zero" else abs(total - 1) <= 1e-12


@pytest.mark.parametrize(("loss", "init"), pairwise(LOSSES, ["zero", "oracle"]))
def test_the_end_is_certified_and_far_fewer_iterations_are_needed(loss, init):
    twin = random_twin(6, n=30, d=12, T=200, loss=loss, scale=3.0)
    ours = run(
        twin, oracle="ascent", rule="corrective", init=init, max_iter=300, tol=1e-5
    )
    away = run(twin, oracle="ascent", rule="away", init=init, max_iter=5000, tol=1e-5)
    assert ours.status in ("optimal", "no_violation")
    assert ours.gap_is_exact
    assert ours.objective <= away.objective + 1e-5
    assert ours.n_iter <= max(6, away.n_iter / 3)
    margins = twin.dense.margins(ours.atoms, ours.weights)
    best = twin.dense.best_atom(margins)[0]
    best = max(best, 0.0) if init == "zero" else best
    own = ours.weights @ twin.dense.scores(margins, ours.atoms)
    assert ours.gap == pytest.approx(best - own, abs=1e-9)


@settings(max_examples=10)
@given(twin=twins("smoothed_hinge"))
def test_weights_of_the_final_atoms_are_the_best_there_are(twin):
    """The restricted problem is solved to the gap that is left."""
    found = run(twin, rule="corrective", max_iter=100, tol=1e-6)
    if found.status != "optimal":
        return
    V = reference.atom_margins(twin.dense, twin.inside(found.atoms))
    value = reference.best_value_of_weights(twin.dense, V)
    assert found.objective <= value + 1e-6 + 1e-9


# --- the table of corrections ---------------------------------------------------------


GOOD = [(1, 0, 1, 1, 0.5), (2, 1, 2, -1, 0.5), (2, -1, -1, 1, 0.0)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({0: (0, 0, 1, 1, 0.5)}, "rising"),
        ({2: (9, 0, 1, 1, 0.5)}, "rising"),
        ({1: (0, 0, 1, 1, 0.5)}, "rising"),
        ({0: (1, 1, 0, 1, 0.5)}, "expected"),
        ({0: (1, 0, 99, 1, 0.5)}, "expected"),
        ({0: (1, 0, 1, 2, 0.5)}, "expected"),
        ({0: (1, 0, 1, 1, np.nan)}, "between"),
        ({0: (1, 0, 1, 1, 1.5)}, "between"),
        ({0: (1, 0, 1, 1, -0.5)}, "between"),
    ],
)
def test_damaged_corrections_are_refused(change, message):
    rows = [change.get(k, row) for k, row in enumerate(GOOD)]
    check_corrections(np.array(GOOD, CORRECTION_DTYPE), 3, 5)
    with pytest.raises(ValueError, match=message):
        check_corrections(np.array(rows, CORRECTION_DTYPE), 3, 5)
    with pytest.raises(ValueError, match="dtype"):
        check_corrections(np.zeros(3), 3, 5)


def test_corrections_that_leave_no_model_are_refused():
    found = run(random_twin(0), rule="corrective", max_iter=3, tol=NEVER)
    damaged = found.corrections.copy()
    damaged["weight"] = 0.0
    with pytest.raises(ValueError, match="sum to"):
        replay(found.trace, 3, damaged)
