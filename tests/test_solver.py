"""The loop: what holds at each step, where it ends, and what must make no difference."""

import math
import sys
import warnings
from functools import lru_cache
from itertools import cycle, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import hdsl
import reference
from hdsl.core import run as run_module
from hdsl.core import solver
from hdsl.core.atoms import Atom
from hdsl.core.oracle import ORACLES, Ascent
from hdsl.core.protocols import Oracle, Step, Vertex
from hdsl.core.snapshot import Snapshots
from hdsl.core.steps import RULES, STEP_SIZES, best_size
from hdsl.core.trace import STEP_FIELDS, replay
from runs import NEVER, Blind, as_dict, assert_same_model, covering, run
from strategies import LOSSES, make_twin, random_arrays, random_twin, twins

#: Every way to take steps.
STEPS = [*((rule, "line_search") for rule in RULES), ("forward", "2/(k+2)")]


def dense_model(twin, result):
    """Return the matrix and the margins of a result or state, from its atoms."""
    atoms = twin.inside(result.atoms)
    M = reference.model_matrix(atoms, result.weights, twin.dense.d, twin.dense.scale)
    return M, twin.dense.offset + twin.dense.margins_of(M)


# --- what holds at each step ---------------------------------------------------------------------


class Watch:
    """A callback that compares each state with the dense reference."""

    def __init__(self, twin, *, falls=True, upper=np.inf, one_atom_each=True):
        self.twin, self.dense, self.falls, self.upper = twin, twin.dense, falls, upper
        self.one_atom_each = one_atom_each
        self.size, self.models = twin.dense.margin_size(), []

    def __call__(self, state):
        dense, k = self.dense, len(self.models)
        assert state.n_iter == k
        assert (state.weights > 0).all()
        assert abs(state.weights.sum() - 1) <= 1e-12
        assert len(np.unique(state.atoms, axis=0)) == len(state.weights)
        M, margins = dense_model(self.twin, state)
        assert reference.is_psd(M)
        if self.one_atom_each:
            assert M.any(axis=0).sum() <= 2 * (k + 1)
            assert np.count_nonzero(M) <= 4 * (k + 1)
        assert_allclose(state.margins, margins, rtol=0, atol=1e-10 * self.size)
        # Margins are known to a few units in the last place, which the loss's slope magnifies.
        pull = dense.omega @ np.abs(dense.ell1(margins))
        rounding = 1e-13 * pull * self.size + (1e-13 * self.size) ** 2
        value = dense.value(margins)
        assert state.objective == pytest.approx(value, rel=1e-12, abs=100 * rounding)
        if self.falls and self.models:
            assert state.objective <= self.models[-1][2] * (1 + 1e-12) + rounding
        if state.gap_is_exact:
            tolerance = 1e-9 * (dense.score_size(margins) + pull * self.size)
            tolerance += 1e-13 * self.size**2  # slopes are as wrong as margins next to a kink
            assert state.gap == pytest.approx(dense.gap(M, margins), abs=tolerance)
            assert state.gap >= max(value - self.upper, 0.0) - tolerance
        self.models.append((state.atoms, state.weights, state.objective))


@pytest.mark.parametrize(
    ("loss", "oracle", "steps", "batches"), covering(LOSSES, ORACLES, STEPS, [False, True])
)
@settings(max_examples=10)
@given(
    data=st.data(), max_iter=st.sampled_from([15, 60]), tol=st.sampled_from([0.0, 1e-4, 0.1]),
    seed=st.integers(0, 9),
)  # fmt: skip
def test_every_step(loss, oracle, steps, batches, data, max_iter, tol, seed):
    """Directions may come from a batch, but the line search sees all triplets.

    The callback sees every model, and the trace rebuilds it. Whatever the problem, "optimal" means
    that the gap is small; the watch compares the gap of the last model with the reference.
    """
    twin, (rule, step_size) = data.draw(twins(loss)), steps
    batch_size = data.draw(st.integers(1, twin.dense.T)) if batches else None
    upper = twin.dense.optimum().upper if oracle == "exact" else np.inf
    watch = Watch(
        twin, falls=step_size == "line_search", upper=upper, one_atom_each=rule != "corrective"
    )
    result = run(
        twin, oracle=oracle, rule=rule, step_size=step_size, batch_size=batch_size,
        max_iter=max_iter, tol=tol, seed=seed, callback=watch,
    )  # fmt: skip
    n_iter, trace, is_stalled = result.n_iter, result.trace, result.status == "stalled"
    assert result.status in {"optimal", "max_iter", "no_violation", "stalled"}
    assert result.n_exact_checks <= math.log2(max(n_iter, 1)) + 2
    if result.status == "max_iter":
        assert n_iter == max_iter
        assert np.isfinite(result.gap)  # lazy steps may leave any other gap unknown
    elif is_stalled:  # no float step improves anything
        M, margins = dense_model(twin, result)
        size = twin.dense.score_size(margins) + twin.dense.margin_size() ** 2
        assert twin.dense.gap(M, margins) <= tol + 1e-6 * size
    else:
        assert result.gap_is_exact
        assert result.gap <= tol
    assert len(watch.models) == n_iter + (not is_stalled)
    assert len(trace) == n_iter + 1
    if step_size == "2/(k+2)":
        assert_array_equal(trace["step_size"][1:], [2.0 / (k + 2.0) for k in range(n_iter)])
    models = watch.models + [(result.atoms, result.weights, result.objective)] * is_stalled
    for k, (atoms, weights, objective) in enumerate(models):
        again, row = replay(trace, k, result.corrections), trace[k]
        assert_array_equal(again.atoms, atoms)
        assert_allclose(again.weights, weights, rtol=0, atol=1e-12)
        assert row["objective"] == pytest.approx(objective, rel=1e-12 * is_stalled, abs=0)
        assert (row["n_atoms"], row["n_features"]) == (len(atoms), len(np.unique(atoms[:, :2])))


@pytest.mark.parametrize("step_size", STEP_SIZES)
@settings(max_examples=30)
@given(twin=twins())
def test_rate_of_forward_steps(step_size, twin):
    """f - f* ≤ 16Lλ²/(k+2) (Proposition 1)."""
    result = run(twin, rule="forward", step_size=step_size, max_iter=40)
    k = np.arange(1, result.n_iter + 1)
    bound = 16 * twin.dense.lipschitz() * twin.dense.scale**2 / (k + 2)
    excess = result.trace["objective"][1:] - twin.dense.optimum().upper
    assert (excess <= bound * (1 + 1e-12) + 1e-14).all()  # the bound is 0 where all rows are equal


# --- rounding ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("loss", "rule"), [*zip(cycle(LOSSES), RULES, strict=False)])
def test_a_long_run_does_not_drift(loss, rule):
    twin = random_twin(11, n=15, d=12, T=60, loss=loss, scale=50.0, prior=0.5)
    watch = Watch(twin, one_atom_each=rule != "corrective")
    run(twin, oracle="heuristic", rule=rule, max_iter=250, callback=watch)
    assert len(watch.models) > (20 if rule == "corrective" else 100)


@pytest.mark.parametrize("is_rebuilt", [False, True])
@pytest.mark.filterwarnings("ignore:Rounding hides the objective")
def test_margins_are_rebuilt_when_drift_passes_its_limit(is_rebuilt):
    twin, after = random_twin(0, scale=8.0), []

    def disturb(state):
        if state.n_iter == 3:
            state.margins += 1e-6
            state.drift = (1.1 if is_rebuilt else 0.9) * run_module.DRIFT_LIMIT
        if state.n_iter == 4:
            margins = twin.dense.margins(state.atoms, state.weights)
            after.append((np.abs(state.margins - margins).max() < 1e-12, state.drift == 0.0))

    run(twin, rule="pairwise", max_iter=4, tol=NEVER, callback=disturb)
    assert after == [(is_rebuilt, is_rebuilt)]


@pytest.mark.parametrize(("rule", "scale", "error"), covering(RULES, [5.0, 50.0], [0.0, 1e-9]))
def test_drift_bounds_the_error_of_margins(rule, scale, error, monkeypatch):
    """An error stays below its bound, in units of the largest margin or of 1.

    Each step adds one rounding. Away steps raise the bound, and so do margins that shrink.
    """
    monkeypatch.setattr(run_module, "DRIFT_LIMIT", np.inf)
    twin, states = random_twin(3, T=60, scale=scale), []

    def compare(state):
        largest = max(1.0, np.abs(state.margins).max())
        if state.n_iter == 0:
            assert state.drift == 0.0
            state.margins += error
            state.drift = error / largest
        margins = twin.dense.margins(state.atoms, state.weights)
        bound = state.drift * largest * (1 + 1e-4) + 1e-13 * largest  # of the reference itself
        assert np.abs(state.margins - margins).max() <= bound
        states.append((state.drift, largest))

    max_iter = 12 if rule == "corrective" else 25  # it converges soon
    trace = run(twin, rule=rule, max_iter=max_iter, tol=NEVER, callback=compare).trace
    assert len(states) == max_iter + 1
    for k, ((before, large), (after, larger)) in enumerate(pairwise(states), start=1):
        away = 1.0 + trace["step_size"][k] if trace["kind"][k] == "away" else 1.0
        rounding = 1e-14 if trace["kind"][k] == "correct" else 1e-15
        expected = (before * away + rounding) * max(1.0, large / larger)
        assert after == pytest.approx(expected, rel=1e-6, abs=0.0)


@pytest.mark.parametrize(("share", "n_warnings"), [(0.5e-6, 0), (2e-6, 1)])
def test_the_objective_is_that_of_the_atoms(share, n_warnings):
    """A warning says so where rounding has moved the objective visibly."""
    twin = random_twin(0, scale=8.0)

    def disturb(state):
        state.objective *= 1.0 + share
        return state.n_iter == 3

    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        result = run(twin, callback=disturb)
    assert ["Rounding hides the objective" in str(w.message) for w in found] == [True] * n_warnings
    value = twin.dense.value(twin.dense.margins(result.atoms, result.weights))
    assert result.objective == pytest.approx(value, rel=1e-13)


@pytest.mark.parametrize("is_refused", [False, True])
def test_a_step_that_raises_the_objective_is_refused(is_refused, monkeypatch):
    """The model stays and the trace says so. A rise that rounding explains is accepted."""
    twin = random_twin(0, scale=8.0)
    rise = (2.0 if is_refused else 0.5) * run_module.RISE_LIMIT

    def step(margins, move, size):
        value, largest = twin.ours.value(margins), twin.ours.largest_margin(margins)
        return Step(margins, move.max_step_size, value * (1 + rise), largest)

    monkeypatch.setattr(twin.ours, "step", step)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the margins are not those of the step
        result = run(twin, oracle="ascent", rule="pairwise", max_iter=8, tol=NEVER)
    first, *others = result.trace[["step_size", "drop", "n_atoms", "objective"]].tolist()
    if is_refused:
        assert others == [(0.0, False, 1, first[3])] * 8
        assert_array_equal(result.weights, [1.0])
    else:
        assert all(step_size > 0.0 for step_size, *_ in others)
        assert others[0][1]


# --- where it begins -----------------------------------------------------------------------------


@settings(max_examples=30)
@given(twins())
def test_the_start_is_the_oracles_atom_at_zero(twin):
    first = run(twin, max_iter=0).trace[0]
    atom = twin.inside(np.array([[first["i"], first["j"], first["sign"]]]))
    best, _ = twin.dense.best_atom(twin.dense.offset)
    score = twin.dense.scores(twin.dense.offset, atom)[0]
    assert score >= best - 1e-12 * twin.dense.score_size(twin.dense.offset)


def test_a_random_start_may_be_any_atom():
    """The same one for the same seed."""
    twin = random_twin(0, d=3)
    starts = [run(twin, init="random", max_iter=0, seed=s).atoms[0].tolist() for s in range(100)]
    assert {tuple(atom) for atom in starts} == set(reference.all_atoms(3))
    assert run(twin, init="random", max_iter=0, seed=7).atoms[0].tolist() == starts[7]


def test_the_start_counts_as_a_step_of_size_1():
    result = run(random_twin(0), max_iter=0)
    assert (result.status, result.n_iter, len(result.trace)) == ("max_iter", 0, 1)
    assert_array_equal(result.weights, [1.0])
    first = result.trace[0]
    assert (first["kind"], first["step_size"], first["drop"]) == ("start", 1.0, False)
    assert (first["n_atoms"], first["n_features"]) == (1, 2)
    assert [first[name] for name in ("away_i", "away_j", "away_sign")] == [-1, -1, 0]
    assert 0.0 < first["seconds"] < 1000.0
    assert np.isnan(first["validation_score"])


def test_default_options():
    assert solver.Options() == solver.Options(best_size, "oracle", None, 1000, 1e-3)
    twin, rng = random_twin(1, scale=5.0), np.random.default_rng(0)
    found = solver.frank_wolfe(twin.ours, Ascent(), RULES["away"], rng=rng)
    assert_same_model(found, run(twin, oracle="ascent", tol=1e-3))


def test_a_run_that_continues_an_earlier_one():
    """The callback sees the new models only; the trace and its seconds are those of both."""
    twin, seen = random_twin(1, scale=5.0), []
    first = run(twin, max_iter=3)
    first.trace["seconds"] = [0.0, 1.0, 2.0, 500.0]
    second = run(twin, max_iter=6, earlier=first, callback=lambda state: seen.append(state.n_iter))
    assert seen == [4, 5, 6]
    assert second.trace["seconds"][:3].tolist() == [0.0, 1.0, 2.0]
    assert (second.trace["seconds"][3:] >= 500.0).all()
    whole = run(twin, max_iter=6)
    assert as_dict(second) == pytest.approx(as_dict(whole), abs=1e-12)
    for name in STEP_FIELDS:
        assert second.trace[name].tolist() == pytest.approx(whole.trace[name].tolist(), abs=1e-12)
    assert as_dict(replay(second.trace, 6)) == pytest.approx(as_dict(second), abs=1e-12)


# --- where it ends -------------------------------------------------------------------------------

#: Problems by name: from a loss, both sides.
PROBLEMS = {
    "small scale": lambda loss: random_twin(1, loss=loss, scale=0.5),
    "large scale": lambda loss: random_twin(1, loss=loss, scale=5.0),
    "prior": lambda loss: random_twin(1, loss=loss, scale=5.0, prior=1.0),
    "one triplet": lambda loss: random_twin(0, n=3, T=1, loss=loss, scale=0.5),
    "two features": lambda loss: make_twin(*random_arrays(0, d=2, density=1.0), loss, scale=2.0),
    "contradiction": lambda loss: make_twin(
        [[2, 1, 0, 0], [1, 2, 0, 0], [0, 0, 0, 0], [0, 0, 1, 1]], [[0, 1, 2], [0, 2, 1]], loss
    ),
}


@lru_cache
def optimum(problem, loss):
    """Return the bounds on the optimum of one of the problems."""
    return PROBLEMS[problem](loss).dense.optimum()


def converges_fast(problem, loss, oracle, steps):
    """Whether the steps do: those of fixed sizes need good atoms."""
    return steps[1] == "line_search" or oracle == "exact"


@pytest.mark.parametrize(
    ("problem", "loss", "oracle", "steps"),
    covering(PROBLEMS, LOSSES, ORACLES, STEPS, allowed=converges_fast),
)
def test_every_run_ends_at_a_certified_optimum(problem, loss, oracle, steps):
    """A gap that a heuristic claims is checked, and seldom in vain."""
    twin, (rule, step_size) = PROBLEMS[problem](loss), steps
    tol = 1e-2 if rule == "forward" else 1e-8
    parameters = {"oracle": oracle, "rule": rule, "step_size": step_size}
    result = run(twin, max_iter=20_000, tol=tol, **parameters)
    upper, lower = optimum(problem, loss)
    assert result.status in {"optimal", "no_violation"}
    assert result.gap_is_exact
    assert result.gap <= tol
    assert result.gap == pytest.approx(twin.dense.gap(*dense_model(twin, result)), abs=1e-9)
    assert lower - 1e-12 <= result.objective <= upper + tol
    assert result.n_exact_checks <= math.log2(max(result.n_iter, 1)) + 2


@pytest.mark.parametrize(
    ("size", "oracle", "rule", "batch_size"),
    covering([(0.01, 2.0), (50.0, 0.0)], ORACLES, RULES, [None, 5]),
)
def test_a_run_ends_where_no_triplet_is_violated(size, oracle, rule, batch_size):
    """At the start where the prior satisfies all triplets, on the way where a model does."""
    X = np.array([[1.0, 0.0, 0.5], [1.0, 0.0, 0.0], [0.0, 1.0, 0.5], [0.0, 1.0, 0.0]])
    T = [(0, 1, 2), (0, 1, 3), (1, 0, 2), (1, 0, 3), (2, 3, 0), (2, 3, 1), (3, 2, 0), (3, 2, 1)]
    for loss in ("smoothed_hinge", "squared_hinge"):
        twin = make_twin(X, T, loss, *size)
        result = run(twin, oracle=oracle, rule=rule, batch_size=batch_size, init="random", seed=1)
        assert (result.status, result.n_iter > 0) == ("no_violation", size[1] == 0.0)
        assert (result.objective, result.gap, result.gap_is_exact) == (0.0, 0.0, True)


@pytest.mark.parametrize(("oracle", "rule"), covering(ORACLES, RULES))
def test_rounding_alone_ends_a_run(oracle, rule):
    """With tol = 0, also where every score at the optimum is rounding around 0."""
    cancelling = make_twin([[1.0, 2.0], [2.0, 1.0]], [[0, 0, 1], [1, 0, 1], [0, 1, 0]])
    small, tolerance = random_twin(0, T=6, scale=0.5), 1e-3 if rule == "forward" else 1e-12
    for twin, excess in [(small, tolerance), (cancelling, 1e-9)]:
        result = run(twin, oracle=oracle, rule=rule, max_iter=2000)
        assert result.status in {"optimal", "stalled", "max_iter"}
        assert result.objective <= twin.dense.optimum().upper + excess


@pytest.mark.parametrize(
    ("loss", "rule", "scale", "oracle"), covering(LOSSES, RULES, [1e-9, 1e12], ORACLES)
)
def test_extreme_scales(loss, rule, scale, oracle):
    """Numbers stay finite and the run ends."""
    twin = random_twin(3, loss=loss, scale=scale)
    result = run(twin, oracle=oracle, rule=rule, max_iter=60, tol=1e-3)
    objectives = result.trace["objective"]
    assert np.isfinite([result.objective, *result.weights, *objectives]).all()
    assert (result.weights > 0).all()
    assert abs(result.weights.sum() - 1) <= 1e-12
    assert (np.diff(objectives) <= 1e-12 * objectives[:-1]).all()
    if scale < 1:  # nothing can be learned: the loss of a margin of 0
        assert result.status == "optimal"
        assert result.objective == pytest.approx(twin.dense.ell(np.zeros(1))[0], abs=1e-8)


@pytest.mark.parametrize(
    ("oracle", "batch_size", "enough"),
    [("exact", None, 2), ("exact", 7, 1000), ("ascent", None, 1000)],
)
def test_steps_of_size_zero_end_the_run(oracle, batch_size, enough, monkeypatch):
    """The exact oracle would answer the same again; another one may still find a way down."""
    twin = random_twin(0, n=5, d=4, T=8, scale=8.0)
    monkeypatch.setattr(twin.ours, "step", lambda *args: None)
    result = run(twin, oracle=oracle, batch_size=batch_size, max_iter=2000, tol=NEVER)
    assert (result.status, result.n_iter) == ("stalled", enough)
    assert len(result.trace) == enough + 1
    assert not result.trace["step_size"][1:].any()
    assert len(result.atoms) == 1
    assert np.isfinite(result.gap)
    assert result.gap_is_exact == (enough == 2)


def test_only_steps_of_size_zero_in_a_row_end_the_run(monkeypatch):
    twin = random_twin(0, scale=8.0)
    steps = cycle([twin.ours.step, lambda *args: None])
    monkeypatch.setattr(twin.ours, "step", lambda *args: next(steps)(*args))
    assert run(twin, max_iter=30, tol=NEVER).status == "max_iter"


# --- exact checks --------------------------------------------------------------------------------


class Modest(Oracle):
    """An oracle that always claims the gap to be small."""

    def __call__(self, gradient, rng):
        return Vertex(-1e9, Atom(0, 1, 1))


@pytest.mark.filterwarnings("ignore:Rounding hides the objective")
def test_each_check_in_vain_doubles_the_wait():
    """Each check begins by computing the margins anew."""
    twin = random_twin(0, scale=8.0)

    def disturb(state):
        margins = twin.ours.margins(state.active.atoms, state.weights)
        is_fresh = np.array_equal(state.margins, margins)
        assert is_fresh == (state.gap_is_exact or state.n_iter == 0)
        state.margins += 1e-3

    result = run(twin, oracle=Modest(), rule="forward", max_iter=20, tol=NEVER, callback=disturb)
    assert np.flatnonzero(result.trace["gap_is_exact"]).tolist() == [0, 1, 3, 7, 15]
    assert result.n_exact_checks == 5


@pytest.mark.parametrize("rule", RULES)
def test_a_claimed_gap_is_not_believed(rule):
    twin = random_twin(0, n=30, d=15, T=200, scale=20.0)
    result = run(twin, oracle=Blind(), rule=rule, max_iter=300, tol=1e-4)
    is_optimal = twin.dense.gap(*dense_model(twin, result)) <= 1e-4
    assert result.status == ("optimal" if is_optimal else "max_iter")
    assert 2 <= result.n_exact_checks <= math.log2(result.n_iter) + 2


def test_a_blended_step_uses_what_a_check_found():
    """After a check in vain its vertex competes with a shift, as if it was just asked for."""
    kinds = []

    def look(state):
        if state.gap_is_exact and state.gap > 1e-4:
            assert state.gap_estimate == state.gap

    for seed in range(6):
        twin = random_twin(seed, n=30, d=15, T=200, scale=20.0)
        parameters = {"rule": "blended", "max_iter": 100, "tol": 1e-4, "callback": look}
        trace = run(twin, oracle=Blind(), **parameters).trace
        for k in np.flatnonzero(trace["gap_is_exact"][:-1]):
            active = replay(trace, k)
            margins = twin.dense.margins(active.atoms, active.weights)
            local = np.ptp(twin.dense.scores(margins, active.atoms))
            kinds.append(str(trace["kind"][k + 1]))
            assert kinds[-1] == ("forward" if local <= trace["gap"][k] else "pairwise")
    assert kinds.count("forward") > 6


@pytest.mark.parametrize(
    ("is_affordable", "batch_size", "status"),
    [(True, None, "optimal"), (False, None, "gap_not_certified"), (False, 29, "gap_not_certified")],
)
def test_a_check_that_costs_too_much_is_left_out(is_affordable, batch_size, status, monkeypatch):
    """The status says so. The gap of a batch is computed once more over all triplets."""
    twin = random_twin(1, T=30, scale=5.0)
    limit = twin.ours.exact_search_cost() - (not is_affordable)
    monkeypatch.setattr(solver, "EXACT_CHECK_LIMIT", limit)
    result = run(twin, oracle="ascent", batch_size=batch_size, tol=0.3, max_iter=5000)
    assert result.status == status
    assert result.gap_is_exact == is_affordable
    assert (result.n_exact_checks >= 1) == (is_affordable or batch_size is not None)
    assert result.gap <= 0.3
    assert result.objective <= optimum("large scale", "smoothed_hinge").upper + 0.3


def test_a_gap_of_exactly_tol_is_small_enough():
    """The exact oracle's gap needs no check; a check of another one's finds the same."""
    twin = random_twin(1, scale=5.0)
    gaps = run(twin, max_iter=12, tol=NEVER).trace["gap"]
    k = int(np.argmin(gaps))
    result = run(twin, tol=gaps[k])
    assert (result.status, result.n_iter) == ("optimal", k)
    assert (result.gap, result.n_exact_checks) == (gaps[k], 0)
    gap = run(twin, oracle=Blind(), max_iter=0).gap
    assert gap > 0.0
    for tol, status in [(gap, "optimal"), (np.nextafter(gap, 0.0), "max_iter")]:
        result = run(twin, oracle=Blind(), max_iter=0, tol=tol)
        assert (result.status, result.gap, result.n_exact_checks) == (status, gap, 1)
        assert result.gap_is_exact


# --- callbacks, interrupts -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("k", "rule", "status"), covering([0, 1, 7], RULES, ["callback", "interrupted"])
)
def test_a_stopped_run_has_the_model_so_far(k, rule, status):
    twin, seen = random_twin(0, scale=8.0), []

    def stop(state):
        seen.append(state.n_iter)
        if state.n_iter == k and status == "interrupted":
            raise KeyboardInterrupt
        return state.n_iter == k

    result = run(twin, rule=rule, callback=stop)
    assert (result.status, result.n_iter) == (status, k)
    assert seen == list(range(k + 1))
    assert_same_model(result, run(random_twin(0, scale=8.0), rule=rule, max_iter=k))


class Interrupt:
    """Raises KeyboardInterrupt before a line of the library, counted from the first iteration."""

    def __init__(self, moment):
        self.moment, self.count, self.has_begun = moment, 0, False

    def __call__(self, frame, event, argument):
        if not frame.f_code.co_filename.startswith(hdsl.__path__[0]):
            return None
        if event == "line" and self.has_begun:
            self.count += 1
            if self.count == self.moment:
                raise KeyboardInterrupt
        return self

    def run(self, **parameters):
        def begin(snapshot):
            self.has_begun = True

        twin, before = random_twin(0, scale=8.0), sys.gettrace()
        sys.settrace(self)
        try:
            return run(twin, max_iter=8, snapshots=Snapshots(None, begin), **parameters)
        finally:
            sys.settrace(before)


@pytest.mark.parametrize(
    ("oracle", "rule"),
    [
        ("exact", "away"), ("ascent", "blended"), ("heuristic", "pairwise"), (Blind(), "forward"),
        ("exact", "corrective"),
    ],
)  # fmt: skip
def test_an_interrupt_at_any_moment_leaves_a_whole_model(oracle, rule):
    """Ctrl-C comes inside a step, not between two: model, trace and objective still agree."""
    twin, parameters = random_twin(0, scale=8.0), {"oracle": oracle, "rule": rule}
    counter = Interrupt(moment=None)
    whole = counter.run(**parameters)
    for moment in np.linspace(1, counter.count, num=60, dtype=int).tolist():
        result = Interrupt(moment).run(**parameters)
        assert result.status == "interrupted"
        assert_array_equal(result.trace[STEP_FIELDS], whole.trace[STEP_FIELDS][: result.n_iter + 1])
        assert as_dict(result) == as_dict(replay(result.trace, result.n_iter, result.corrections))
        value = twin.dense.value(twin.dense.margins(result.atoms, result.weights))
        assert result.objective == pytest.approx(value, rel=1e-12)
        assert result.trace["objective"][-1] == pytest.approx(value, rel=1e-12)
        assert not result.trace["gap_is_exact"][np.isnan(result.trace["gap"])].any()


# --- batches -------------------------------------------------------------------------------------


def test_a_batch_has_each_triplet_once(monkeypatch):
    """Sorted, none twice, and another batch in every iteration."""
    twin, batches = random_twin(8, scale=8.0), []
    gradient = twin.ours.gradient
    monkeypatch.setattr(
        twin.ours, "gradient", lambda *args: batches.append(args[1]) or gradient(*args)
    )
    run(twin, batch_size=20, max_iter=20, tol=NEVER)
    assert len(batches) == 22  # one for the start, one for each model
    assert all(len(batch) == 20 and (np.diff(batch) > 0).all() for batch in batches)
    assert len({tuple(batch) for batch in batches}) == 22


@pytest.mark.parametrize(("oracle", "rule"), covering(ORACLES, RULES))
def test_batches_are_reproducible(oracle, rule):
    twin = random_twin(8, scale=8.0)
    parameters = {"oracle": oracle, "rule": rule, "batch_size": 6, "max_iter": 40}
    one, two, other = (run(twin, seed=seed, **parameters) for seed in (4, 4, 5))
    assert_same_model(one, two)
    assert_array_equal(one.trace[STEP_FIELDS], two.trace[STEP_FIELDS])
    assert not np.array_equal(one.trace["step_size"], other.trace["step_size"])


@pytest.mark.parametrize(("oracle", "batch_size"), covering(ORACLES, [30, 31]))
def test_a_batch_of_all_is_no_batch(oracle, batch_size):
    twin = random_twin(8, T=30, scale=8.0)
    all_ = run(twin, oracle=oracle, max_iter=40, seed=2)
    batch = run(twin, oracle=oracle, max_iter=40, seed=2, batch_size=batch_size)
    assert_same_model(all_, batch)
    assert_array_equal(all_.trace["gap_is_exact"], batch.trace["gap_is_exact"])


def test_a_batch_of_weight_0_does_not_end_the_run():
    """It names no direction, but other triplets are violated."""
    weights = np.repeat([1.0, 0.0], [2, 10])
    twin = make_twin(*random_arrays(1, T=12), scale=0.5, weights=weights)
    result = run(twin, batch_size=2, max_iter=30, callback=Watch(twin))
    assert result.status == "optimal"
    assert result.objective == pytest.approx(twin.dense.optimum().upper, abs=1e-9)


# --- what must make no difference ----------------------------------------------------------------


def two_forms(change):
    """Return one problem in two forms."""
    rng, (X, T) = np.random.default_rng(0), random_arrays(10, T=20)
    times, rows, order = (
        rng.integers(1, 4, len(T)),
        rng.permutation(len(X)),
        rng.permutation(len(T)),
    )
    other, scale = {
        "repetitions for weights": ((X, np.repeat(T, times, axis=0)), 8.0),
        "order of triplets": ((X, T[order]), 8.0),
        "order of rows": ((X[rows], np.argsort(rows)[T]), 8.0),
        "scale in the data": ((np.sqrt(3.0) * X, T), 8.0 / 3.0),
    }[change]
    weights = None if "weights" in change else times[order] if "triplets" in change else times
    return (
        make_twin(X, T, scale=8.0, weights=times), make_twin(*other, scale=scale, weights=weights)
    )  # fmt: skip


CHANGES = ["repetitions for weights", "order of triplets", "order of rows", "scale in the data"]


@pytest.mark.parametrize(("change", "oracle", "rule"), covering(CHANGES, ORACLES, RULES))
def test_the_form_of_a_problem_makes_no_difference(change, oracle, rule):
    """To the path where that is well defined, to the optimum where ties part the paths."""
    forms = two_forms(change)
    if rule in {"forward", "away"}:
        a, b = (run(twin, oracle=oracle, rule=rule, max_iter=20, tol=NEVER) for twin in forms)
        for name in set(STEP_FIELDS) - {"step_size"}:
            assert_array_equal(a.trace[name], b.trace[name])
        assert_allclose(a.trace["step_size"], b.trace["step_size"], rtol=1e-8, atol=1e-10)
        assert_allclose(a.trace["objective"], b.trace["objective"], rtol=1e-12)
    else:
        a, b = (run(twin, oracle=oracle, rule=rule, tol=1e-9) for twin in forms)
        assert a.objective == pytest.approx(b.objective, abs=1e-9)


@pytest.mark.parametrize(("oracle", "rule", "batch_size"), covering(ORACLES, RULES, [None, 7]))
def test_empty_columns_change_only_feature_numbers(oracle, rule, batch_size):
    X, T = random_arrays(12)
    where = np.sort(np.random.default_rng(0).choice(24, size=8, replace=False))
    wide = np.zeros((len(X), 24))
    wide[:, where] = X
    parameters = {"oracle": oracle, "rule": rule, "batch_size": batch_size, "max_iter": 30}
    narrow = run(make_twin(X, T, scale=8.0), **parameters)
    found = run(make_twin(wide, T, scale=8.0), **parameters)
    assert_array_equal(found.atoms[:, :2], where[narrow.atoms[:, :2]])
    assert_array_equal(found.atoms[:, 2], narrow.atoms[:, 2])
    assert_array_equal(found.weights, narrow.weights)
    assert_array_equal(found.trace["objective"], narrow.trace["objective"])
    for name in ("i", "j", "away_i", "away_j"):
        mapped = np.where(narrow.trace[name] < 0, -1, where[narrow.trace[name]])
        assert_array_equal(found.trace[name], mapped)
