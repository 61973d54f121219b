"""Where the loop ends: at a certified optimum, by rounding, by a callback or an interrupt."""

import math
import sys
from functools import lru_cache

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import hdsl
from hdsl.solver import loop
from hdsl.solver.oracle import ORACLES
from hdsl.solver.steps import RULES
from hdsl.solver.trace import STEP_FIELDS, replay
from pairwise import pairwise
from runs import NEVER, Blind, as_dict, assert_same_model, dense_model, run
from strategies import LOSSES, make_twin, random_arrays, random_twin

# --- where it ends --------------------------------------------------------------------


#: Problems by name: from a loss, both sides.
PROBLEMS = {
    "small scale": lambda loss: random_twin(1, loss=loss, scale=0.5),
    "large scale": lambda loss: random_twin(1, loss=loss, scale=5.0),
    "prior": lambda loss: random_twin(1, loss=loss, scale=5.0, prior=1.0),
    "one triplet": lambda loss: random_twin(0, n=3, T=1, loss=loss, scale=0.5),
    "two features": lambda loss: make_twin(
        *random_arrays(0, d=2, density=1.0), loss, scale=2.0
    ),
    "contradiction": lambda loss: make_twin(
        [[2, 1, 0, 0], [1, 2, 0, 0], [0, 0, 0, 0], [0, 0, 1, 1]],
        [[0, 1, 2], [0, 2, 1]],
        loss,
    ),
}


@lru_cache
def optimum(problem, loss):
    """Return the bounds on the optimum of one of the problems."""
    return PROBLEMS[problem](loss).dense.optimum()


@pytest.mark.parametrize(
    ("problem", "loss", "oracle", "rule"), pairwise(PROBLEMS, LOSSES, ORACLES, RULES)
)
def test_every_run_ends_at_a_certified_optimum(problem, loss, oracle, rule):
    """A gap that a heuristic claims is checked, and seldom in vain."""
    twin = PROBLEMS[problem](loss)
    tol = 1e-2 if rule == "forward" else 1e-8
    result = run(twin, oracle=oracle, rule=rule, max_iter=20_000, tol=tol)
    upper, lower = optimum(problem, loss)
    assert result.status in {"optimal", "no_violation"}
    assert result.gap_is_exact
    assert result.gap <= tol
    assert result.gap == pytest.approx(
        twin.dense.gap(*dense_model(twin, result)), abs=1e-9
    )
    assert lower - 1e-12 <= result.objective <= upper + tol
    assert result.n_exact_checks <= math.log2(max(result.n_iter, 1)) + 2


@pytest.mark.parametrize(
    ("size", "oracle", "rule", "batch_size"),
    pairwise([(0.01, 2.0), (50.0, 0.0)], ORACLES, RULES, [None, 5]),
)
def test_a_run_ends_where_no_triplet_is_violated(size, oracle, rule, batch_size):
    """At the start where the prior satisfies all triplets, on the way where a model does."""
    X = np.array([[1.0, 0.0, 0.5], [1.0, 0.0, 0.0], [0.0, 1.0, 0.5], [0.0, 1.0, 0.0]])
    T = [
        (0, 1, 2),
        (0, 1, 3),
        (1, 0, 2),
        (1, 0, 3),
        (2, 3, 0),
        (2, 3, 1),
        (3, 2, 0),
        (3, 2, 1),
    ]
    for loss in ("smoothed_hinge", "squared_hinge"):
        twin = make_twin(X, T, loss, *size)
        result = run(
            twin, oracle=oracle, rule=rule, batch_size=batch_size, init="random", seed=1
        )
        assert (result.status, result.n_iter > 0) == ("no_violation", size[1] == 0.0)
        assert (result.objective, result.gap, result.gap_is_exact) == (0.0, 0.0, True)


@pytest.mark.parametrize(("oracle", "rule"), pairwise(ORACLES, RULES))
def test_rounding_alone_ends_a_run(oracle, rule, monkeypatch):
    """With tol = 0, also where every score at the optimum is rounding around 0."""
    monkeypatch.setattr(loop, "IDLE_LIMIT", 200)
    cancelling = make_twin([[1.0, 2.0], [2.0, 1.0]], [[0, 0, 1], [1, 0, 1], [0, 1, 0]])
    small = random_twin(0, T=6, scale=0.5)
    tolerance = 1e-3 if rule == "forward" else 1e-12
    for twin, excess in [(small, tolerance), (cancelling, 1e-9)]:
        result = run(twin, oracle=oracle, rule=rule, max_iter=800)
        assert result.status in {"optimal", "stalled", "max_iter"}
        assert result.objective <= twin.dense.optimum().upper + excess


@pytest.mark.parametrize(
    ("loss", "rule", "scale", "oracle"), pairwise(LOSSES, RULES, [1e-9, 1e12], ORACLES)
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
        assert result.objective == pytest.approx(
            twin.dense.ell(np.zeros(1))[0], abs=1e-8
        )


@pytest.mark.parametrize(
    ("oracle", "batch_size", "enough"),
    [("exact", None, 2), ("exact", 7, 100), ("ascent", None, 100)],
)
def test_steps_of_size_zero_end_the_run(oracle, batch_size, enough, monkeypatch):
    """The exact oracle would answer the same again; another one may still find a way down."""
    twin = random_twin(0, n=5, d=4, T=8, scale=8.0)
    monkeypatch.setattr(twin.ours, "step", lambda *args: None)
    monkeypatch.setattr(loop, "IDLE_LIMIT", 100)
    result = run(twin, oracle=oracle, batch_size=batch_size, max_iter=2000, tol=NEVER)
    assert (result.status, result.n_iter) == ("stalled", enough)
    assert len(result.trace) == enough + 1
    assert not result.trace["step_size"][1:].any()
    assert len(result.atoms) == 1
    assert np.isfinite(result.gap)
    assert result.gap_is_exact == (enough == 2)


# --- exact checks ---------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES)
def test_a_claimed_gap_is_not_believed(rule):
    twin = random_twin(0, n=30, d=15, T=200, scale=20.0)
    result = run(twin, oracle=Blind(), rule=rule, max_iter=300, tol=1e-4)
    is_optimal = twin.dense.gap(*dense_model(twin, result)) <= 1e-4
    assert result.status == ("optimal" if is_optimal else "max_iter")
    assert 2 <= result.n_exact_checks <= math.log2(result.n_iter) + 2


@pytest.mark.parametrize(
    ("is_affordable", "batch_size", "status"),
    [
        (True, None, "optimal"),
        (False, None, "gap_not_certified"),
        (False, 29, "gap_not_certified"),
    ],
)
def test_a_check_that_costs_too_much_is_left_out(
    is_affordable, batch_size, status, monkeypatch
):
    """The status says so. The gap of a batch is computed once more over all triplets."""
    twin = random_twin(1, T=30, scale=5.0)
    limit = twin.ours.exact_search_cost() - (not is_affordable)
    monkeypatch.setattr(hdsl.solver.loop, "EXACT_CHECK_LIMIT", limit)
    result = run(twin, oracle="ascent", batch_size=batch_size, tol=0.3, max_iter=5000)
    assert result.status == status
    assert result.gap_is_exact == is_affordable
    assert (result.n_exact_checks >= 1) == (is_affordable or batch_size is not None)
    assert result.gap <= 0.3
    assert result.objective <= optimum("large scale", "smoothed_hinge").upper + 0.3


# --- callbacks, interrupts ------------------------------------------------------------


@pytest.mark.parametrize(
    ("k", "rule", "status"), pairwise([0, 1, 7], RULES, ["callback", "interrupted"])
)
def test_a_stopped_run_has_the_model_so_far(k, rule, status):
    twin = random_twin(0, scale=8.0)
    seen = []

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
        self.moment = moment
        self.count = 0
        self.has_begun = False

    def __call__(self, frame, event, argument):
        if not frame.f_code.co_filename.startswith(hdsl.__path__[0]):
            return None
        if event == "line" and self.has_begun:
            self.count += 1
            if self.count == self.moment:
                raise KeyboardInterrupt
        return self

    def run(self, **parameters):
        def begin(state):
            self.has_begun = True

        twin = random_twin(0, scale=8.0)
        before = sys.gettrace()
        sys.settrace(self)
        try:
            return run(twin, max_iter=5, callback=begin, **parameters)
        finally:
            sys.settrace(before)


@pytest.mark.parametrize(
    ("oracle", "rule"),
    [
        ("exact", "away"),
        ("ascent", "blended"),
        ("heuristic", "pairwise"),
        (Blind(), "forward"),
        ("exact", "corrective"),
    ],
)
def test_an_interrupt_at_any_moment_leaves_a_whole_model(oracle, rule):
    """Ctrl-C comes inside a step, not between two: model, trace and objective still agree."""
    twin = random_twin(0, scale=8.0)
    parameters = {"oracle": oracle, "rule": rule}
    counter = Interrupt(moment=None)
    whole = counter.run(**parameters)
    for moment in np.linspace(1, counter.count, num=20, dtype=int).tolist():
        result = Interrupt(moment).run(**parameters)
        assert result.status == "interrupted"
        assert_array_equal(
            result.trace[STEP_FIELDS], whole.trace[STEP_FIELDS][: result.n_iter + 1]
        )
        assert as_dict(result) == as_dict(
            replay(result.trace, result.n_iter, result.corrections)
        )
        value = twin.dense.value(twin.dense.margins(result.atoms, result.weights))
        assert result.objective == pytest.approx(value, rel=1e-12)
        assert result.trace["objective"][-1] == pytest.approx(value, rel=1e-12)
        assert not result.trace["gap_is_exact"][np.isnan(result.trace["gap"])].any()
