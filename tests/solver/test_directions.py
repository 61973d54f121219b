"""Directions of an embedding beside pairs of features: against dense algebra, and their path."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from hdsl.cpu.layout import CPULayout
from hdsl.cpu.workers import Workers
from hdsl.rows import Rows
from hdsl.solver import losses
from hdsl.solver.atoms import are_directions
from hdsl.solver.directions import principal_directions, top_eigenvectors
from hdsl.solver.loop import Options, Restarts, frank_wolfe
from hdsl.solver.oracle import ORACLES
from hdsl.solver.steps import RULES
from hdsl.solver.trace import replay

LOSSES = ["smoothed_hinge", "squared_hinge", "logistic", "exponential"]


def laid_out(X, Z, triplets, *, n_jobs=1):
    """Return a layout of features X and an embedding Z, and the comparisons in its order."""
    rows = Rows(sp.csr_array(X), np.asarray(Z, dtype=np.float64))
    layout = CPULayout(rows, triplets, workers=Workers(n_jobs))
    order = np.argsort(triplets[:, 0], kind="stable")
    return layout, triplets[order]


def make_problem(seed, *, loss="smoothed_hinge", n=24, d=10, width=5, T=90, **options):
    """Return a problem with clusters of rows that neither features nor embedding show fully."""
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n)
    X = (rng.random((n, d)) < 0.3 + 0.3 * (np.arange(d) % 3 == y[:, None])) * 1.0
    X[0, :2] = 1.0
    Z = rng.normal(size=(n, width)) + 0.7 * np.eye(3, width)[y]
    Z /= np.linalg.norm(Z, axis=1, keepdims=True)
    triplets = rng.integers(n, size=(T, 3))
    right = y[triplets[:, 0]] == y[triplets[:, 1]]
    triplets[~right, 1] = (triplets[~right, 0] + 1) % n
    layout, _ = laid_out(X, Z, triplets, **options)
    return layout.problem(losses.get(loss), 2.0, 0.5, 3.0)


def solve(problem, rule, oracle="ascent", *, latest=None, save=None, **options):
    """Return the result of a run, perhaps from a restart point."""
    restarts = None
    if save is not None or latest is not None:
        restarts = Restarts(latest, save or (lambda take: None))
    options = {"init": "zero", "max_iter": 30, "tol": -1.0} | options
    callback = options.pop("callback", None)
    earlier = options.pop("earlier", None)
    return frank_wolfe(
        problem,
        ORACLES[oracle](),
        RULES[rule],
        Options(**options),
        rng=np.random.default_rng(0),
        callback=callback,
        restarts=restarts,
        earlier=earlier,
    )


@pytest.mark.parametrize("rule", sorted(RULES))
@pytest.mark.parametrize("batch_size", [None, 30])
@pytest.mark.parametrize("init", ["zero", "oracle"])
def test_every_rule_goes_down_and_its_path_can_be_replayed(rule, batch_size, init):
    problem = make_problem(1)
    models = []
    keep = lambda state: models.append((state.objective, state.active))  # noqa: E731
    found = solve(problem, rule, batch_size=batch_size, init=init, callback=keep)
    values = np.array([value for value, _ in models])
    assert (np.diff(values) <= 1e-12).all()
    assert values[-1] < 0.9 * values[0]
    assert are_directions(found.atoms).any()
    for k, (_, active) in enumerate(models):
        again = replay(found.trace, k, found.corrections)
        user = problem.to_user(active.atoms)
        assert {*map(tuple, again.atoms)} == {*map(tuple, user)}
        assert_allclose(np.sort(again.weights), np.sort(active.weights), atol=1e-12)
        total = active.weights.sum() + (active.zero or 0.0)
        assert total == pytest.approx(1.0)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_gap_is_certified(loss):
    """The value of the optimum is not below f - gap, and is reached."""
    problem = make_problem(2, loss=loss)
    best = solve(problem, "corrective", "exact", max_iter=300, tol=1e-6)
    assert best.gap_is_exact
    assert best.gap <= 1e-4
    gaps = []
    for rule in ("forward", "away", "corrective"):
        found = solve(make_problem(2, loss=loss), rule, "exact", max_iter=40)
        bounds = found.trace["objective"] - found.trace["gap"]
        assert (bounds <= best.objective + 1e-9).all()
        gaps.append(found.objective - best.objective)
    assert min(gaps) <= 1e-3


def test_a_gap_below_tol_is_checked_with_both_kinds():
    found = solve(make_problem(3), "corrective", max_iter=300, tol=1e-2)
    assert found.status == "optimal"
    assert found.gap_is_exact


@pytest.mark.parametrize("rule", ["corrective", "away"])
def test_a_run_goes_on_from_a_rest_and_from_a_result(rule):
    taken = []
    whole = solve(
        make_problem(4), rule, max_iter=130, save=lambda take: taken.append(take())
    )
    assert taken
    again = solve(make_problem(4), rule, max_iter=130, latest=taken[0])
    assert_array_equal(again.atoms, whole.atoms)
    assert_array_equal(again.weights, whole.weights)
    assert_array_equal(again.directions, whole.directions)

    part = solve(make_problem(4), rule, max_iter=3)
    longer = solve(make_problem(4), rule, max_iter=9, earlier=part)
    assert longer.n_iter == 9
    assert longer.objective < part.objective
    assert_array_equal(longer.directions[: len(part.directions)], part.directions)


def test_threads_change_no_bit():
    many = {"n": 5000, "T": 4000, "width": 16}
    one, two = (
        solve(make_problem(5, n_jobs=n_jobs, **many), "corrective", max_iter=4)
        for n_jobs in (1, 2)
    )
    assert_array_equal(one.weights, two.weights)
    assert_array_equal(one.directions, two.directions)


def test_rows_without_features_learn_in_the_embedding_alone():
    rng = np.random.default_rng(6)
    Z = rng.normal(size=(30, 4))
    triplets = rng.integers(30, size=(60, 3))
    layout, _ = laid_out(np.zeros((30, 0)), Z, triplets)
    problem = layout.problem(losses.get("smoothed_hinge"), 1.0, 0.5, 3.0)
    for rule in RULES:
        found = solve(problem, rule, max_iter=10)
        assert are_directions(found.atoms).all()
        assert found.gap_is_exact or rule == "blended"


@given(st.integers(1, 6), st.integers(1, 8), st.integers(0, 10**6))
def test_principal_directions_are_the_same_matrix(n, width, seed):
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(n, width))
    values = rng.random(n)
    V = principal_directions(vectors, values)
    assert_allclose(V.T @ V, (vectors.T * values) @ vectors, atol=1e-10)
    products = V @ V.T
    assert_allclose(products, np.diag(np.diag(products)), atol=1e-10)
    assert (np.diff(np.diag(products)) <= 1e-12).all()


def test_the_eigenvectors_of_a_wide_block_are_those_of_a_narrow_one(monkeypatch):
    rng = np.random.default_rng(0)
    A = rng.normal(size=(60, 60))
    G = A + A.T
    values, vectors = top_eigenvectors(G, 5)
    monkeypatch.setattr("hdsl.solver.directions.WIDE", 10)
    again, same = top_eigenvectors(G, 5)
    assert_allclose(again, values, rtol=1e-9)
    assert_allclose(same, vectors, atol=1e-7)
    assert_allclose(vectors @ G, values[:, None] * vectors, atol=1e-9)


def test_directions_that_are_not_unit_vectors_are_refused():
    problem = make_problem(7)
    part = solve(problem, "corrective", max_iter=2)
    bad = replace(part, directions=2 * part.directions)
    with pytest.raises(ValueError, match="unit vector"):
        solve(make_problem(7), "corrective", max_iter=4, earlier=bad)
