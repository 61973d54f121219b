"""Corrective steps: second derivatives, the quadratic model, the path, and files of it."""

import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import reference
from hdsl import HDSL, load
from hdsl.cpu import corrective
from hdsl.cpu.shards import ShardedLayout
from hdsl.cpu.workers import Workers
from hdsl.solver.active_set import ActiveSet
from hdsl.solver.atoms import Atom
from hdsl.solver.oracle import ORACLES
from hdsl.solver.protocols import Problem
from hdsl.solver.quadratic import RIDGE, best_change
from hdsl.solver.snapshot import Snapshots
from hdsl.solver.trace import CORRECTION_DTYPE, check_corrections, correction_records, replay
from pairwise import pairwise
from runs import NEVER, as_dict, run
from strategies import comparisons, models, random_twin, twins

LOSSES = ["smoothed_hinge", "squared_hinge", "logistic", "exponential"]

# --- second derivatives and shifts -----------------------------------------------------------


@settings(max_examples=40)
@given(data=st.data())
def test_curvature_and_shift_are_the_dense_ones(data):
    """Also by the body that every machine has, and for atoms that the model does not have."""
    twin = data.draw(twins(LOSSES, compared=comparisons))
    ours, dense = twin.ours, twin.dense
    margins = ours.margins(*data.draw(models(dense.d)))
    atoms, change = data.draw(models(dense.d))
    V = reference.atom_margins(dense, atoms)
    bend = dense.omega * ours.loss.curvature(margins)  # at a kink from either side
    expected = V.T @ (bend[:, None] * V)
    size = 1e-11 * (1.0 + np.abs(expected).max())
    found = ours.curvature(margins, atoms)
    assert_allclose(found, expected, rtol=0, atol=size)
    assert_array_equal(found, found.T)
    assert_allclose(Problem.curvature(ours, margins, atoms), expected, rtol=0, atol=10 * size)
    scale = 1e-12 * (1.0 + np.abs(V).max())
    assert_allclose(ours.shift(atoms, change), V @ change, rtol=0, atol=scale)
    assert_allclose(Problem.shift(ours, atoms, change), V @ change, rtol=0, atol=100 * scale)


def test_no_room_for_terms_makes_no_difference(monkeypatch):
    """Terms of atoms are stored or computed again: the answers have the same bits."""
    answers = []
    for limit in (1 << 25, 40, 0):
        monkeypatch.setattr(corrective, "TERMS_LIMIT", limit)
        found = run(random_twin(3, T=60), rule="corrective", max_iter=6, tol=NEVER)
        answers.append((found.weights.tobytes(), found.atoms.tobytes(), found.objective))
    assert answers[0] == answers[1] == answers[2]


def test_a_sample_of_the_comparisons_estimates_curvature(monkeypatch):
    """With fewer comparisons in the second derivatives the path still leads to the optimum."""
    twin = random_twin(4, n=30, d=12, T=300, scale=10.0)
    whole = run(twin, rule="corrective", max_iter=200, tol=1e-4)
    monkeypatch.setattr(corrective, "CURVATURE_SAMPLE", 60)
    twin = random_twin(4, n=30, d=12, T=300, scale=10.0)
    margins = twin.ours.margins(np.array([[0, 1, 1]]), np.ones(1))
    V = reference.atom_margins(twin.dense, np.array([[0, 1, 1], [2, 3, -1]]))
    few = twin.ours.curvature(margins, np.array([[0, 1, 1], [2, 3, -1]]))
    exact = V.T @ ((twin.dense.omega * twin.dense.ell2(margins))[:, None] * V)
    assert not np.allclose(few, exact)
    assert np.trace(few) == pytest.approx(np.trace(exact), rel=0.8)
    sampled = run(twin, rule="corrective", max_iter=200, tol=1e-4)
    assert whole.status == sampled.status == "optimal"
    assert sampled.objective == pytest.approx(whole.objective, abs=1e-4)


def test_shards_share_the_sample(monkeypatch):
    """Together they take the comparisons that one machine takes."""
    monkeypatch.setattr(corrective, "CURVATURE_SAMPLE", 60)
    atoms = np.array([[0, 1, 1], [2, 3, -1], [4, 7, 1]])
    weights = np.random.default_rng(0).random(300)
    found = []
    for n_shards in (1, 5):
        layout = partial(ShardedLayout, workers=Workers(1), n_shards=n_shards)
        twin = random_twin(4, n=30, d=12, T=300, scale=10.0, weights=weights, layout=layout)
        margins = twin.ours.margins(atoms[:1], np.ones(1))
        found.append(twin.ours.curvature(margins, atoms))
    assert_allclose(found[1], found[0], rtol=1e-12, atol=1e-12)


# --- the quadratic model ------------------------------------------------------------------------


@settings(max_examples=60)
@given(seed=st.integers(0, 10**6), n=st.integers(2, 30))
def test_rounding_chooses_no_move(seed, n):
    """A move levels two scores; which of them leads next must not depend on their last bits."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(n, n))
    K, scores, weights = A.T @ A, rng.normal(size=n), rng.dirichlet(np.ones(n))
    tol = 0.05 * float(scores.max() - scores @ weights)
    noise = 1.0 + 1e-14 * rng.normal(size=(n, n))
    first = best_change(K, scores, weights, tol)
    again = best_change(K * noise * noise.T, scores * noise[0], weights, tol)
    assert_allclose(again, first, atol=1e-10)


@settings(max_examples=60)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 6), rank=st.integers(0, 6))
def test_best_change_solves_the_quadratic_model(seed, n, rank):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(rank, n))
    K, scores = A.T @ A, rng.normal(size=n)
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


# --- the path -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("loss", "oracle", "init", "prior", "batch_size"),
    pairwise(LOSSES, sorted(ORACLES), ["zero", "oracle", "random"], [0.0, 0.3], [None, 20]),
)
def test_the_objective_never_rises_and_replay_is_the_run(loss, oracle, init, prior, batch_size):
    twin, seen = random_twin(5, n=20, d=15, T=80, loss=loss, scale=5.0, prior=prior), []
    keep = lambda state: seen.append((state.objective, as_dict(state)))  # noqa: E731
    found = run(
        twin, oracle=oracle, rule="corrective", init=init, batch_size=batch_size, max_iter=12,
        tol=1e-7, callback=keep,
    )  # fmt: skip
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
    ours = run(twin, oracle="ascent", rule="corrective", init=init, max_iter=300, tol=1e-5)
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


def test_threads_make_no_difference():
    X, y = small_data(300, 60)
    fit = partial(HDSL, step="corrective", n_targets=3, n_impostors=5, max_iter=8, random_state=0)
    one, two = (fit(n_jobs=n).fit(X, y) for n in (1, 2))
    assert one.weights_.tobytes() == two.weights_.tobytes()
    assert one.corrections_.tobytes() == two.corrections_.tobytes()


def test_a_run_goes_on_from_a_snapshot_to_the_same_bytes():
    taken, options = [], {"rule": "corrective", "oracle": "ascent", "max_iter": 9, "tol": NEVER}
    twin = random_twin(1, scale=8.0)
    whole = run(twin, **options, snapshots=Snapshots(None, lambda take: taken.append(take())))
    for k in (0, 1, 4):
        twin = random_twin(1, scale=8.0)
        again = run(twin, **options, snapshots=Snapshots(taken[k], lambda take: None))
        assert again.weights.tobytes() == whole.weights.tobytes()
        assert again.corrections.tobytes() == whole.corrections.tobytes()


# --- the table of corrections --------------------------------------------------------------------


def test_records_hold_what_changed():
    before = ActiveSet(np.array([[0, 1, 1], [0, 2, 1], [1, 2, -1]]), np.array([0.2, 0.3, 0.1]), 0.4)
    after = before.corrected(
        np.array([[0, 1, 1], [0, 2, 1], [1, 2, -1], [3, 4, 1]]), np.array([0.2, 0.4, 1e-17, 0.1])
    )
    rows = correction_records(7, before, after)
    assert rows.tolist() == [
        (7, 0, 2, 1, 0.4), (7, 1, 2, -1, 0.0), (7, 3, 4, 1, 0.1), (7, -1, -1, 1, after.zero)
    ]  # fmt: skip
    assert after.zero == pytest.approx(0.3)
    assert after[0] == Atom(0, 1, 1)


GOOD = [(1, 0, 1, 1, 0.5), (2, 1, 2, -1, 0.5), (2, -1, -1, 1, 0.0)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({0: (0, 0, 1, 1, 0.5)}, "rising"), ({2: (9, 0, 1, 1, 0.5)}, "rising"),
        ({1: (0, 0, 1, 1, 0.5)}, "rising"), ({0: (1, 1, 0, 1, 0.5)}, "expected"),
        ({0: (1, 0, 99, 1, 0.5)}, "expected"), ({0: (1, 0, 1, 2, 0.5)}, "expected"),
        ({0: (1, 0, 1, 1, np.nan)}, "between"), ({0: (1, 0, 1, 1, 1.5)}, "between"),
        ({0: (1, 0, 1, 1, -0.5)}, "between"),
    ],
)  # fmt: skip
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


# --- estimators and files -------------------------------------------------------------------------


def small_data(n=80, d=30, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    X = rng.random((n, d)) * (rng.random((n, d)) < 0.3)
    X[np.arange(n), y] += 0.5
    return X, y


@pytest.fixture(scope="module")
def fitted():
    X, y = small_data()
    return HDSL(step="corrective", n_targets=3, n_impostors=3, max_iter=8, tol=0.0).fit(X, y)


def test_a_model_file_keeps_the_path(fitted):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.hdsl")
        fitted.save(path)
        loaded = load(path)
    assert_array_equal(loaded.corrections_, fitted.corrections_)
    for n in range(len(fitted.trace_)):
        for a, b in ((loaded.at(n), fitted.at(n)), (fitted.at(n), replayed(fitted, n))):
            assert_array_equal(a.atoms_, b.atoms_)
            assert_array_equal(a.weights_, b.weights_)
        assert (fitted.at(n).corrections_["n_iter"] <= n).all()


def replayed(model, n):
    active = replay(model.trace_, n, model.corrections_)
    copied = model.at(n)
    copied.atoms_, copied.weights_ = active.atoms, active.weights
    return copied


def test_other_steps_have_no_corrections():
    X, y = small_data()
    model = HDSL(n_targets=2, n_impostors=2, max_iter=5).fit(X, y)
    assert len(model.corrections_) == 0


@pytest.mark.filterwarnings("ignore::UserWarning")  # there are few rows to choose by
@pytest.mark.parametrize("way", ["warm_start", "partial_fit", "early_stopping", "mine_every"])
def test_ways_to_fit(way):
    X, y = small_data()
    model = HDSL(step="corrective", n_targets=3, n_impostors=3, max_iter=5, tol=0.0, random_state=0)
    if way in ("early_stopping", "mine_every"):
        model.set_params(**{way: True if way == "early_stopping" else 2})
        model.fit(X, y)
    else:
        model.fit(X, y)
        model.set_params(step="away" if way == "partial_fit" else "corrective", warm_start=True)
        (model.partial_fit if way == "partial_fit" else model.fit)(X, y)
        assert model.n_iter_ == 10
    active = replay(model.trace_, model.n_iter_, model.corrections_)
    assert_array_equal(active.atoms, model.atoms_)
    assert_allclose(active.weights, model.weights_, rtol=1e-12)
    assert len(model.corrections_)
