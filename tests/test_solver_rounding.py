"""The loop in floating point: margins that drift, objectives that rounding hides."""

import warnings
from itertools import cycle, pairwise

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from hdsl.solver import run as run_module
from hdsl.solver.protocols import Step
from hdsl.solver.steps import RULES
from runs import NEVER, Watch, covering, run
from strategies import LOSSES, random_twin


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
