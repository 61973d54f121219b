"""The loop: what holds at each step, where it ends, and what must make no difference."""

import math
import warnings
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import reference
from hdsl.core import solver
from hdsl.core.atoms import Atom
from hdsl.core.oracle import Exact, Vertex
from strategies import LOSSES, make_twin, random_arrays, random_twin, twins

STEPS = ["forward", "away", "pairwise", "blended"]
ORACLES = ["exact", "heuristic", "ascent"]
STATUSES = {
    "optimal",
    "gap_not_certified",
    "max_iter",
    "no_violation",
    "callback",
    "interrupted",
    "stalled",
}
NEVER = -1.0  # a tol that no gap reaches
STEP_FIELDS = ["kind", "step_size", "i", "j", "sign", "away_i", "away_j", "away_sign", "drop"]


def run(twin, *, seed=0, oracle="exact", step="away", max_iter=1000, tol=0.0, **parameters):
    """Run the solver on our side of a problem."""
    return solver.frank_wolfe(
        twin.ours,
        oracle=oracle,
        step=step,
        max_iter=max_iter,
        tol=tol,
        rng=np.random.default_rng(seed),
        **parameters,
    )


@lru_cache
def optimum(seed, loss, scale, prior=0.0):
    """Return the bounds on the optimum of a well-scaled problem."""
    return random_twin(seed, loss=loss, scale=scale, prior=prior).dense.optimum()


# --- line search ---------------------------------------------------------------------------------


@st.composite
def lines(draw, loss):
    """A problem of T triplets, margins, a direction and a limit; X plays no part."""
    T = draw(st.integers(1, 20))
    twin = make_twin(np.eye(2), [[0, 0, 1]] * T, loss)
    m, d = draw(st.sampled_from([(5.0, 10.0), (0.0, 1.0), (1e3, 1e3), (1.0, 1e-6)]))
    margins = draw(st.lists(st.floats(-m, m), min_size=T, max_size=T))
    direction = draw(st.lists(st.floats(-d, d), min_size=T, max_size=T))
    max_step = draw(st.sampled_from([1.0, 0.3, 1e-6, 5.0]))
    direction = np.where(np.abs(direction) < 1e-12, 0.0, direction)  # less is nothing beside m
    return twin, np.array(margins), direction, max_step


@pytest.mark.parametrize("loss", LOSSES)
@settings(max_examples=150)
@given(data=st.data())
def test_line_search(loss, data):
    """The slope is zero at the step found, or the step is at a bound and the slope points out."""
    twin, margins, direction, max_step = data.draw(lines(loss))
    step = solver.line_search(twin.ours, margins, direction, max_step)
    slope = twin.dense.slope(margins, direction, step)
    # What is added up may be huge where its sum is zero; and no step lies between two floats.
    at = margins + step * direction
    size = twin.dense.omega @ np.abs(direction * twin.dense.ell1(at))
    size += step * twin.dense.curvature(margins, direction, step)
    tolerance = 1e-10 * min(1.0, abs(twin.dense.slope(margins, direction, 0.0))) + 1e-14 * size
    assert 0.0 <= step <= max_step
    if step == 0.0:
        assert slope >= -tolerance
    elif step == max_step:
        assert slope <= tolerance
    else:
        assert abs(slope) <= tolerance
    best = twin.dense.line_search(margins, direction, max_step)
    value = twin.dense.value(margins + best * direction)
    assert twin.dense.value(at) <= value + 1e-12 * (1 + abs(value))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("scale", [0.5, 10.0])
def test_line_search_on_a_model(loss, scale):
    """φ'(γ*) = 0 to 1e-10, or γ* is a bound, between atoms of well-scaled problems."""
    for seed in range(10):
        twin = random_twin(seed, loss=loss, scale=scale)
        margins, toward = twin.dense.vertices[:, 2 * seed], twin.dense.vertices[:, -1 - seed]
        step = solver.line_search(twin.ours, margins, toward - margins, 1.0)
        slope = twin.dense.slope(margins, toward - margins, step)
        assert abs(slope) <= 1e-10 or (step == 0.0 and slope > 0) or (step == 1.0 and slope < 0)


def exact_slope(loss, margins, direction, step):
    """Return T times the slope of a hinge loss in fractions, without any rounding."""
    total, step = Fraction(0), Fraction(step)
    for m, d in zip(map(Fraction, margins), map(Fraction, direction), strict=True):
        violation = max(1 - (m + step * d), Fraction(0))
        total -= d * (min(violation, 1) if loss == "smoothed_hinge" else 2 * violation)
    return total


@pytest.mark.parametrize("loss", ["smoothed_hinge", "squared_hinge"])
@given(st.lists(st.tuples(st.integers(-8, 8), st.integers(-8, 8)), min_size=1, max_size=12))
def test_line_search_is_exact_for_hinges(loss, pairs):
    """No more than the last bits of the step are wrong: the slope changes sign around it."""
    margins, direction = np.array(pairs, dtype=float).T / 4
    twin = make_twin(np.eye(2), [[0, 0, 1]] * len(pairs), loss)
    step = solver.line_search(twin.ours, margins, direction, 1.0)
    before, after = max(step - 4e-16, 0.0), min(step + 4e-16, 1.0)
    assert step == 0.0 or exact_slope(loss, margins, direction, before) <= 0
    assert step == 1.0 or exact_slope(loss, margins, direction, after) >= 0


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("size", [1e-150, 1e-9, 1e6, 1e12])
def test_line_search_far_out(loss, size):
    """Margins and directions of any size: a step in range, never a worse value, no warning."""
    twin = make_twin(np.eye(2), [[0, 0, 1]] * 3, loss)
    for direction in ([1.0, -1.0, 0.5], [1.0, 1.0, 1.0], [-1.0, -2.0, 1e-3]):
        for start in ([0.0, 0.0, 0.0], [-0.5 * size, 0.25 * size, 0.5]):
            margins, line = np.array(start), size * np.array(direction)
            step = solver.line_search(twin.ours, margins, line, 1.0)
            assert 0.0 <= step <= 1.0
            value, before = (twin.ours.value(margins + s * line) for s in (step, 0.0))
            best = twin.dense.value(margins + twin.dense.line_search(margins, line, 1.0) * line)
            assert value <= before * (1 + 1e-12)
            assert value <= best * (1 + 1e-9) + 1e-12


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("scale", "mean"), [(1.0, 10), (100.0, 15), (1e4, 30)])
def test_line_search_takes_few_passes(loss, scale, mean, monkeypatch):
    """Far fewer passes over the triplets than the 53 of a bisection, never many more."""
    passes = []
    for seed in range(5):
        twin, rng = random_twin(seed, loss=loss, scale=scale, T=100), np.random.default_rng(seed)
        original, count = twin.ours.slope_along, []

        def counted(*args, original=original, count=count):
            count.append(args)
            return original(*args)

        monkeypatch.setattr(twin.ours, "slope_along", counted)
        for _ in range(20):
            margins, toward = twin.dense.vertices[:, rng.choice(56, size=2, replace=False)].T
            del count[:]
            solver.line_search(twin.ours, margins, toward - margins, 1.0)
            passes.append(len(count))
    assert np.mean(passes) <= mean
    assert max(passes) <= 80


def test_line_search_on_a_flat_line():
    """No triplet moves, or none is violated: stay."""
    twin = make_twin(np.eye(2), [[0, 0, 1]] * 3)
    assert solver.line_search(twin.ours, np.zeros(3), np.zeros(3), 1.0) == 0.0
    assert solver.line_search(twin.ours, np.full(3, 2.0), np.ones(3), 1.0) == 0.0


# --- what holds at each step ---------------------------------------------------------------------


class Line:
    """A line whose slope is told, in place of a problem; it remembers where it was asked."""

    def __init__(self, slope, curvature=0.0):
        self.slope, self.curvature, self.asked = slope, curvature, []

    def slope_along(self, margins, direction, step):
        self.asked.append(step)
        return self.slope(step), self.curvature

    def search(self, max_step=1.0):
        return solver.line_search(self, None, None, max_step)


def test_line_search_takes_newtons_step():
    """One from the right piece is enough; one that leads past the end is cut to the end."""
    for zero, step in [(0.25, 0.25), (1.0, 1.0), (2.0, 1.0)]:
        line = Line(lambda s, zero=zero: s - zero, 1.0)
        assert line.search() == step
        assert line.asked == [0.0, step]


def test_line_search_does_not_start_uphill():
    for slope, max_step in [(0.5, 1.0), (0.0, 1.0), (np.nan, 1.0), (-1.0, 0.0)]:
        line = Line(lambda s, slope=slope: slope)
        assert line.search(max_step) == 0.0
        assert line.asked == [0.0]


@pytest.mark.parametrize(("down", "up"), [(-1.0, 2.0), (-2.0, 1.0), (-1.0, 1.0), (-1.0, 1e-9)])
def test_line_search_on_a_jump_of_the_slope(down, up):
    """Where no number has slope 0, as rounding has it, the end of the smaller slope is taken."""
    line = Line(lambda s: down if s < 0.3 else up)
    found = line.search()
    assert found == pytest.approx(0.3, abs=1e-15)
    assert line.slope(found) == (down if -down < up else up)
    assert len(line.asked) < 200
    assert len(set(line.asked)) == len(line.asked)  # nowhere twice


def test_line_search_where_newton_goes_astray():
    """Steps that are too long cost passes, not the answer."""
    for curvature in (1e-3, 0.1):
        line = Line(lambda s: s**3 - 0.1, curvature)
        assert line.search() == pytest.approx(0.1 ** (1 / 3), rel=1e-12)


class Watch:
    """A callback that compares each state with the dense reference."""

    def __init__(self, twin, *, falls=True, upper=np.inf):
        self.twin, self.dense, self.falls, self.upper = twin, twin.dense, falls, upper
        self.size, self.objectives = twin.dense.margin_size(), []

    def __call__(self, state):
        dense, k = self.dense, len(self.objectives)
        assert state.n_iter == k
        assert (state.weights > 0).all()
        assert abs(state.weights.sum() - 1) <= 1e-12
        assert len(np.unique(state.atoms, axis=0)) == len(state.weights)
        atoms = self.twin.inside(state.atoms)
        M = reference.model_matrix(atoms, state.weights, dense.d, dense.scale)
        assert reference.is_psd(M)
        assert M.any(axis=0).sum() <= 2 * (k + 1)
        assert np.count_nonzero(M) <= 4 * (k + 1)
        margins = dense.offset + dense.margins_of(M)
        assert_allclose(state.margins, margins, rtol=0, atol=1e-10 * self.size)
        # Margins are known to a few units in the last place, which the loss's slope magnifies.
        pull = dense.omega @ np.abs(dense.ell1(margins))
        rounding = 1e-13 * pull * self.size + (1e-13 * self.size) ** 2
        value = dense.value(margins)
        assert state.objective == pytest.approx(value, rel=1e-12, abs=100 * rounding)
        if self.falls and self.objectives:
            assert state.objective <= self.objectives[-1] * (1 + 1e-12) + rounding
        if state.gap_is_exact:
            tolerance = 1e-9 * (dense.score_size(margins) + pull * self.size)
            tolerance += 1e-13 * self.size**2  # slopes are as wrong as margins next to a kink
            assert state.gap == pytest.approx(dense.gap(M, margins), abs=tolerance)
            assert state.gap >= value - self.upper - tolerance
        self.objectives.append(state.objective)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("oracle", ORACLES)
@pytest.mark.parametrize("loss", LOSSES)
@settings(max_examples=10)
@given(data=st.data())
def test_every_step(loss, oracle, step, data):
    twin = data.draw(twins(loss))
    watch = Watch(twin, upper=twin.dense.optimum().upper if oracle == "exact" else np.inf)
    result = run(twin, oracle=oracle, step=step, max_iter=15, callback=watch)
    assert result.status in STATUSES - {"callback", "interrupted", "gap_not_certified"}
    assert_allclose(result.trace["objective"][: len(watch.objectives)], watch.objectives)


@pytest.mark.parametrize("loss", LOSSES)
@settings(max_examples=15)
@given(data=st.data())
def test_every_step_of_fixed_sizes(loss, data):
    twin = data.draw(twins(loss))
    watch = Watch(twin, falls=False, upper=twin.dense.optimum().upper)
    result = run(twin, step="forward", step_size="2/(k+2)", max_iter=15, callback=watch)
    assert_array_equal(
        result.trace["step_size"][1:], [2.0 / (k + 2.0) for k in range(result.n_iter)]
    )


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("oracle", ORACLES)
@settings(max_examples=10)
@given(data=st.data(), seed=st.integers(0, 9))
def test_every_step_by_batches(oracle, step, data, seed):
    """Directions come from a batch, but the line search sees all triplets."""
    twin = data.draw(twins())
    batch_size, watch = data.draw(st.integers(1, twin.dense.T)), Watch(twin)
    parameters = {"oracle": oracle, "step": step, "batch_size": batch_size, "seed": seed}
    run(twin, max_iter=15, callback=watch, **parameters)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("loss", LOSSES)
def test_a_long_run_does_not_drift(loss, step):
    twin = random_twin(11, n=15, d=12, T=60, loss=loss, scale=50.0, prior=0.5)
    watch = Watch(twin)
    run(twin, oracle="heuristic", step=step, max_iter=400, callback=watch)
    assert len(watch.objectives) > 100


@pytest.mark.parametrize("step_size", ["line_search", "2/(k+2)"])
def test_margins_are_rebuilt_now_and_then(step_size):
    """An error in the cached margins, far above that of rounding, is gone some time later."""
    twin = random_twin(0, T=10, scale=8.0)

    def disturb(state):
        if state.n_iter == 500:
            state.margins += 1e-6
        if state.n_iter == 2500:
            margins = twin.dense.margins(state.atoms, state.weights)
            assert_allclose(state.margins, margins, rtol=0, atol=1e-10)

    parameters = {"step": "forward", "step_size": step_size, "oracle": "ascent", "tol": NEVER}
    result = run(twin, max_iter=2500, callback=disturb, **parameters)
    assert result.status == "max_iter"


@pytest.mark.parametrize(("drift", "rebuilt"), [(0.9e-12, False), (1.1e-12, True)])
@pytest.mark.filterwarnings("ignore:Rounding hides the objective")
def test_margins_are_rebuilt_when_they_may_be_wrong(drift, rebuilt):
    """An error is gone after the step in which the bound on it passes its limit, not before."""
    twin, after = random_twin(0, scale=8.0), []

    def disturb(state):
        if state.n_iter == 3:
            state.margins += 1e-6
            state.drift = drift
        if state.n_iter == 4:
            margins = twin.dense.margins(state.atoms, state.weights)
            after.append((np.abs(state.margins - margins).max() < 1e-12, state.drift))

    run(twin, step="pairwise", max_iter=4, tol=NEVER, callback=disturb)
    (right, left), *_ = after
    assert right == rebuilt
    assert (left == 0.0) == rebuilt


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("scale", [5.0, 50.0])
def test_drift_bounds_the_error_of_margins(step, scale, monkeypatch):
    """An error put in by hand stays below its bound, in units of the largest margin or of 1.

    Where the largest margin does not shrink, nothing but away steps may raise the bound.
    """
    monkeypatch.setattr(solver, "DRIFT_LIMIT", np.inf)
    twin, states = random_twin(3, T=60, scale=scale), []

    def compare(state):
        largest = max(1.0, np.abs(state.margins).max())
        if state.n_iter == 0:
            state.margins += 1e-9
            state.drift = 1e-9 / largest
        margins = twin.dense.margins(state.atoms, state.weights)
        assert np.abs(state.margins - margins).max() <= state.drift * largest * (1 + 1e-4)
        states.append((state.drift, largest))

    trace = run(twin, step=step, max_iter=25, tol=NEVER, callback=compare).trace
    assert len(states) == 26
    for k, ((before, large), (after, larger)) in enumerate(pairwise(states), start=1):
        if larger >= large:
            away = 1.0 + trace["step_size"][k] if trace["kind"][k] == "away" else 1.0
            assert after == pytest.approx(before * away, rel=1e-4)


def test_drift_grows_by_one_rounding_a_step():
    """And with the largest margin where that shrinks."""
    seen = []
    run(
        random_twin(0, scale=8.0), step="forward", max_iter=6, tol=NEVER,
        callback=lambda state: seen.append((state.drift, solver._largest(state.margins))),
    )  # fmt: skip
    assert seen[0][0] == 0.0
    for (drift, largest), (after, less) in pairwise(seen):
        expected = (drift + 1e-15) * max(1.0, largest / less)
        assert after == pytest.approx(expected, rel=1e-12, abs=0.0)


def test_the_size_of_margins():
    assert solver._largest(np.array([-3.0, 2.0])) == 3.0
    assert solver._largest(np.array([-3.0, 4.0])) == 4.0
    assert solver._largest(np.array([-0.5, 0.25])) == 1.0
    assert solver._largest(np.array([1.5, 1.25])) == 1.5


def test_the_result_is_free_of_drift():
    """Whatever rounding did to the margins, the objective reported is that of the atoms."""
    twin = random_twin(0, scale=8.0)

    def disturb(state):
        state.margins += 1e-3
        return state.n_iter == 3

    with pytest.warns(UserWarning, match="Rounding hides the objective: .* by the steps"):
        result = run(twin, callback=disturb)
    value = twin.dense.value(twin.dense.margins(result.atoms, result.weights))
    assert result.objective == pytest.approx(value, rel=1e-13)


def test_rounding_that_can_be_seen_is_told():
    """And no less than that: a millionth of the objective."""
    for share, told in [(0.5e-6, 0), (2e-6, 1)]:
        twin = random_twin(0, scale=8.0)

        def disturb(state, share=share):
            state.objective *= 1.0 + share
            return state.n_iter == 3

        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            result = run(twin, callback=disturb)
        assert result.status == "callback"
        assert len(found) == told


# --- the parts of the loop -----------------------------------------------------------------------


def active_set(*atoms):
    """Return a set of atoms of equal weight."""
    return solver.ActiveSet(np.array(atoms), np.full(len(atoms), 1 / len(atoms)))


@pytest.mark.parametrize("largest", [True, False])
def test_the_smallest_atom_of_equal_scores(largest):
    """Scores are equal up to rounding, whatever the order of the atoms; not up to more."""
    active = active_set([2, 3, 1], [0, 1, -1], [0, 1, 1])
    assert active.extreme(np.array([5.0, 5.0 + 2e-12, 5.0 - 2e-12]), largest=largest) == 2
    assert (
        active.extreme(np.array([5.0, 5.0, 5.0 + (-1e-9 if largest else 1e-9)]), largest=largest)
        == 1
    )
    assert active.extreme(np.array([5.0, 4.0, 6.0]), largest=largest) == (2 if largest else 1)
    # near is relative to the larger of the two ends
    assert active.extreme(np.array([-1e12, 0.5, 0.0]), largest=True) == 2


def outlook(scores, vertex, *, gap, gap_estimate=np.inf, tol=1e-3):
    """Return what a step rule sees of three atoms of equal weight: mean score, vertex and gap."""
    active = active_set([0, 1, 1], [2, 3, 1], [4, 5, 1])
    scores = np.array(scores)
    state = SimpleNamespace(active=active, gap_estimate=gap_estimate)
    vertex = Vertex(scores.mean() + gap, Atom(*vertex))
    return SimpleNamespace(
        state=state, scores=scores, score=scores.mean(), vertex=vertex, gap=gap, tol=tol
    )


def test_a_forward_step_is_taken_where_an_away_step_is_no_steeper():
    new = Atom(0, 7, -1)
    for gap, kind in ((2.5, "forward"), (2.0, "forward"), (1.5, "away")):
        move = solver.away(outlook([1.0, 3.0, 5.0], new, gap=gap))
        assert move.kind == kind
    assert (move.toward, move.away) == (None, Atom(0, 1, 1))
    assert move.max_step == pytest.approx(0.5)  # 1/3 of the weight, over the 2/3 of the others


def test_a_pairwise_step_needs_two_atoms():
    look = outlook([5.0, 3.0, 1.0], [0, 7, -1], gap=9.0)
    move = solver.pairwise(look)
    assert move[:3] == ("pairwise", Atom(0, 7, -1), Atom(4, 5, 1))
    assert move.max_step == pytest.approx(1 / 3)
    look.vertex = Vertex(1.0, Atom(4, 5, 1))
    assert solver.pairwise(look) == ("forward", Atom(4, 5, 1), None, 1.0)


@pytest.mark.parametrize(
    ("gap", "estimate", "kind", "after"),
    [
        (5.0, np.inf, "forward", 5.0),  # the first time the gap is asked for
        (4.0, np.inf, "forward", 4.0),  # as good as a shift from worst to best, which gives 4
        (3.9, np.inf, "pairwise", 3.9),
        (0.5, 100.0, "pairwise", 10.0),  # a poor vertex is not believed at once
        (1e-5, np.inf, "pairwise", 1e-3),  # nor is less than tol ever asked for
        (9.0, 2.0, "pairwise", 2.0),  # a shift is worth it: the oracle is not asked
    ],
)
def test_a_blended_step_asks_when_shifts_are_no_longer_worth_it(gap, estimate, kind, after):
    look = outlook([5.0, 3.0, 1.0], [0, 7, -1], gap=gap, gap_estimate=estimate)
    move = solver.blended(look)
    assert move.kind == kind
    assert look.state.gap_estimate == pytest.approx(after)
    if kind == "pairwise":
        assert (move.toward, move.away) == (Atom(0, 1, 1), Atom(4, 5, 1))
        assert move.max_step == pytest.approx(1 / 3)


def test_an_active_atom_may_be_better_than_the_oracles():
    """A heuristic's vertex gives way to a better atom of the model, whose scores are known."""
    twin = random_twin(0, scale=8.0)
    some = np.array([[2, 3, 1], [0, 1, -1], [1, 4, 1], [5, 6, -1]])
    weights = np.array([0.1, 0.2, 0.3, 0.4])
    margins = twin.ours.margins(some, weights)
    gradient = twin.ours.gradient(margins)
    iterate = solver.Iterate(0, solver.ActiveSet(some, weights))
    state = solver.State(iterate, margins, twin.ours.value(margins), twin.ours.data.features)
    scores = twin.dense.scores(margins, some)
    assert scores.max() > twin.dense.scores(margins, [(0, 1, 1)])[0]
    rng = np.random.default_rng(0)
    look = solver.Outlook(state, gradient, Blind(), rng, 0.0)
    assert not look.asked
    assert_allclose(look.scores, scores, atol=1e-12)
    assert look.vertex.atom == Atom(*some[scores.argmax()].tolist())
    assert look.vertex.score == pytest.approx(scores.max())
    assert look.score == pytest.approx(weights @ scores)
    assert look.gap == pytest.approx(scores.max() - weights @ scores)
    assert look.asked
    unscored = solver.Outlook(state, gradient, Blind(), rng, 0.0)
    assert unscored.vertex.atom == Atom(0, 1, 1)
    assert unscored.score == pytest.approx(weights @ scores)


def test_the_oracles_atom_may_be_better_than_the_active_ones():
    """And the score of the model comes from what is known: its atoms' scores, or its margins."""
    twin, rng = random_twin(0, scale=8.0), np.random.default_rng(0)
    some, weights = np.array([[2, 3, 1], [0, 1, -1]]), np.array([0.25, 0.75])
    margins = twin.ours.margins(some, weights)
    iterate = solver.Iterate(0, solver.ActiveSet(some, weights))
    state = solver.State(iterate, margins, twin.ours.value(margins), twin.ours.data.features)
    best = Vertex(1e9, Atom(4, 5, 1))
    looks = [
        solver.Outlook(
            state,
            SimpleNamespace(scores=lambda atoms: np.array([2.0, 4.0]), dot=lambda margins: 7.0,
                            covers_all=True),
            lambda gradient, rng: best,
            rng,
            0.0,
        )
        for _ in range(2)
    ]  # fmt: skip
    assert looks[0].scores.tolist() == [2.0, 4.0]
    assert (looks[0].score, looks[0].vertex) == (3.5, best)
    assert (looks[1].score, looks[1].vertex) == (7.0, best)
    assert "scores" not in vars(looks[1])  # nobody asked for them


def test_a_shift_that_is_just_worth_it_asks_no_oracle():
    look = outlook([7.0, 3.0, 1.0], [0, 7, -1], gap=9.0, gap_estimate=4.0)
    assert solver.blended(look).kind == "pairwise"
    assert look.state.gap_estimate == 4.0


def test_moving_away_from_an_atom():
    """It leaves when the step is as long as can be, whatever rounding leaves of its weight."""
    active = solver.ActiveSet(np.array([[0, 1, 1], [2, 3, 1]]), np.array([0.25, 0.75]))
    gone = active.moved(None, Atom(0, 1, 1), 1 / 3 - 1e-15, True)
    assert (gone.atoms.tolist(), gone.weights.tolist()) == ([[2, 3, 1]], [1.0])
    less = active.moved(None, Atom(0, 1, 1), 1 / 6, False)
    assert_allclose(less.weights, [0.125, 0.875])
    other = active.moved(Atom(4, 5, -1), Atom(0, 1, 1), 0.25 - 1e-15, True)
    assert other.atoms.tolist() == [[2, 3, 1], [4, 5, -1]]
    with pytest.raises(ValueError, match=r"moves away from \(0, 1, -1\), which is not active"):
        active.moved(None, Atom(0, 1, -1), 0.1, False)


def test_a_point_inside_a_bracket():
    """The middle where one slope is not known, else where the chord crosses zero, off the ends."""
    assert solver._between(1.0, 3.0, -1.0, np.nan) == 2.0
    assert solver._between(1.0, 3.0, -1.0, 3.0) == pytest.approx(1.5)
    assert solver._between(0.0, 1.0, -1e-9, 1.0) == pytest.approx(0.05)
    assert solver._between(0.0, 1.0, -1.0, 1e-9) == pytest.approx(0.95)


def test_a_batch_has_each_triplet_once(monkeypatch):
    """Sorted, none twice, another batch for every iteration."""
    twin, batches = random_twin(8, scale=8.0), []
    original = twin.ours.gradient

    def noting(margins, subset=None):
        batches.append(subset)
        return original(margins, subset)

    monkeypatch.setattr(twin.ours, "gradient", noting)
    run(twin, batch_size=20, max_iter=20, tol=NEVER)
    assert len(batches) == 22  # one for the start, one for each model
    for subset in batches:
        assert len(subset) == 20
        assert (np.diff(subset) > 0).all()
    assert len({tuple(subset) for subset in batches}) == 22


@pytest.mark.parametrize(
    ("oracle", "batch_size", "enough"),
    [("exact", None, 2), ("exact", 7, 1000), ("ascent", None, 1000)],
)
def test_steps_of_length_zero_end_the_run(oracle, batch_size, enough, monkeypatch):
    """The exact oracle would say the same again; another may still find a way down."""
    monkeypatch.setattr(solver, "line_search", lambda *args: 0.0)
    twin = random_twin(0, n=5, d=4, T=8, scale=8.0)
    result = run(twin, oracle=oracle, batch_size=batch_size, max_iter=2000, tol=NEVER)
    assert (result.status, result.n_iter) == ("stalled", enough)
    assert len(result.trace) == enough + 1
    assert not result.trace["step_size"][1:].any()
    assert len(result.atoms) == 1
    assert np.isfinite(result.gap)
    assert result.gap_is_exact == (enough == 2)


def test_a_step_now_and_then_is_progress(monkeypatch):
    """Only steps of length 0 one after the other end a run."""
    original, calls = solver.line_search, []

    def every_second(*args):
        calls.append(args)
        return original(*args) if len(calls) % 2 else 0.0

    monkeypatch.setattr(solver, "line_search", every_second)
    assert run(random_twin(0, scale=8.0), max_iter=30, tol=NEVER).status == "max_iter"


def test_a_step_that_would_only_be_rounding_is_not_taken(monkeypatch):
    """Where the objective would rise the model stays, and the trace says so."""
    twin = random_twin(0, scale=8.0)
    whole = run(twin, max_iter=8, tol=NEVER).trace
    original = twin.ours.advance

    def rising(margins, direction, size):
        return original(margins, direction, size)[0], twin.ours.value(margins) * (1 + 1e-12)

    monkeypatch.setattr(twin.ours, "advance", rising)
    monkeypatch.setattr(solver, "line_search", lambda *args: args[-1])  # as long as can be
    result = run(twin, oracle="ascent", step="pairwise", max_iter=8, tol=NEVER)
    assert_array_equal(result.weights, [1.0])
    assert result.objective == whole["objective"][0]
    for name in ("step_size", "drop"):
        assert not result.trace[name][1:].any()
    assert (result.trace["objective"] == whole["objective"][0]).all()


@pytest.mark.parametrize(
    ("room", "batch_size", "status", "checks"),
    [(0, None, "optimal", 1), (-1, None, "gap_not_certified", 0), (-1, 29, "gap_not_certified", 1)],
)
def test_a_check_that_costs_too_much_is_left_out(room, batch_size, status, checks, monkeypatch):
    """Just affordable, and not: then the status says so. A batch's gap is looked at once more."""
    twin = random_twin(1, T=30, scale=5.0)
    monkeypatch.setattr(solver, "EXACT_CHECK_LIMIT", float(twin.ours.data.reach.sum()) + room)
    result = run(twin, oracle="ascent", batch_size=batch_size, tol=0.3, max_iter=5000)
    assert result.status == status
    assert result.gap_is_exact == (status == "optimal")
    assert (result.n_exact_checks >= 1) == (checks == 1)
    assert result.gap <= 0.3
    upper, _ = optimum(1, "smoothed_hinge", 5.0)
    assert result.objective <= upper + 0.3


def test_a_gap_of_just_tol_is_small_enough():
    """The run ends at the first such gap, and the exact oracle's needs no check."""
    twin = random_twin(1, scale=5.0)
    gaps = run(twin, oracle="exact", max_iter=12, tol=NEVER).trace["gap"]
    k = int(np.argmin(gaps))
    result = run(twin, oracle="exact", tol=gaps[k])
    assert (result.status, result.n_iter) == ("optimal", k)
    assert result.gap == gaps[k]
    assert result.n_exact_checks == 0


def test_a_check_that_finds_just_tol_says_optimal():
    """Of a gap that is larger by the last bit it does not."""
    twin, rng = random_twin(1, scale=5.0), np.random.default_rng(0)
    for missing, verdict in [(False, "optimal"), (True, None)]:
        loop = solver._Run(twin.ours, Blind(), solver.forward, None, NEVER, rng)
        state = loop.start("oracle")
        loop.rebuild(state)
        gradient = twin.ours.gradient(state.margins)
        gap = solver.Outlook(state, gradient, Exact(), rng, NEVER).gap
        assert gap > 0.0
        loop.tol = np.nextafter(gap, 0.0) if missing else gap
        look = solver.Outlook(state, gradient, Blind(), rng, loop.tol)
        said, full = loop.check(state, look)
        assert (said, full.gap, loop.n_checks) == (verdict, gap, 1)


def test_defaults():
    """Ascent, away steps, exact line searches, from the oracle's atom, to a gap of 1e-3."""
    twin = random_twin(1, scale=5.0)
    found = solver.frank_wolfe(twin.ours, rng=np.random.default_rng(0))
    said = run(twin, oracle="ascent", step="away", step_size="line_search", init="oracle", tol=1e-3)
    assert_same_model(found, said)
    assert found.n_iter == said.n_iter > run(twin, oracle="ascent", tol=2e-3).n_iter


def test_a_thousand_iterations_by_default():
    twin = random_twin(1, scale=5.0)
    result = solver.frank_wolfe(
        twin.ours, step="forward", step_size="2/(k+2)", tol=NEVER, rng=np.random.default_rng(0)
    )
    assert (result.status, result.n_iter) == ("max_iter", 1000)


def test_a_gap_that_is_not_known_is_not_exact():
    """Lazy steps ask for no vertex; the last model's gap is always asked for."""
    trace = run(random_twin(0, scale=8.0), step="blended", max_iter=40).trace
    unknown = np.isnan(trace["gap"])
    assert 0 < unknown.sum() < len(trace) - 1
    assert_array_equal(trace["gap_is_exact"], ~unknown)
    assert not unknown[-1]


def test_a_run_that_goes_on_shows_what_is_new_and_counts_all_seconds():
    twin, seen = random_twin(1, scale=5.0), []
    first = run(twin, max_iter=3, callback=lambda state: seen.append(state.n_iter))
    assert seen == [0, 1, 2, 3]
    first.trace["seconds"] = [0.0, 1.0, 2.0, 500.0]
    second = run(twin, max_iter=6, earlier=first, callback=lambda state: seen.append(state.n_iter))
    assert seen == [0, 1, 2, 3, 4, 5, 6]
    assert second.trace["seconds"][:3].tolist() == [0.0, 1.0, 2.0]
    assert (second.trace["seconds"][3:] >= 500.0).all()


def test_checks_in_vain_wait_twice_as_long_each_time():
    """Checks at 0, 1, 3, 7, 15; each begins by computing the margins anew."""
    twin, at = random_twin(0, scale=8.0), []
    rng = np.random.default_rng(0)
    loop = solver._Run(twin.ours, Blind(), solver.forward, None, NEVER, rng)
    state = loop.start("oracle")
    margins = state.margins.copy()
    for k in range(20):
        state.iterate = state.iterate._replace(n_iter=k)
        state.margins = margins + 1e-3
        look = solver.Outlook(state, twin.ours.gradient(margins), Blind(), rng, NEVER)
        before = loop.n_checks
        verdict, found = loop.check(state, look)
        assert verdict is None
        if loop.n_checks > before:
            at.append(k)
            assert found.is_exact
            assert_array_equal(state.margins, margins)
        else:
            assert found is look
    assert at == [0, 1, 3, 7, 15]


@pytest.mark.parametrize(
    ("scale", "status"), [(50.0, "no_violation"), (0.5, "optimal"), (8.0, "max_iter")]
)
def test_the_callback_sees_every_model(scale, status):
    """The last one too, however the run ends."""
    twin = random_twin(0, T=3 if status == "no_violation" else 30, scale=scale)
    seen = []
    result = run(twin, tol=1e-3, max_iter=20, callback=lambda state: seen.append(state.n_iter))
    assert result.status == status
    assert seen == list(range(result.n_iter + 1))


def test_the_first_line_of_a_trace():
    """The start counts as a step of length 1 toward the only atom, away from none."""
    first = run(random_twin(0), max_iter=0).trace[0]
    assert (first["kind"], first["step_size"], first["drop"]) == ("start", 1.0, False)
    assert (first["n_atoms"], first["n_features"]) == (1, 2)
    assert [first[name] for name in ("away_i", "away_j", "away_sign")] == [-1, -1, 0]
    assert 0.0 < first["seconds"] < 1000.0
    assert np.isnan(first["validation_score"])


# --- the paths of the paper ----------------------------------------------------------------------


@pytest.mark.parametrize("step", ["forward", "away"])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("prior", [0.0, 0.5])
def test_path_is_that_of_the_dense_algorithm(step, loss, prior):
    """The same atoms, weights and step sizes as Algorithms 1 and 3 in dense matrices."""
    for seed in range(3):
        twin = random_twin(seed, loss=loss, scale=8.0, prior=prior)
        trace = run(twin, step=step, max_iter=12, tol=NEVER).trace
        for k, (value, expected, size) in enumerate(reference.frank_wolfe(twin.dense, step, 12)):
            atoms, weights = solver.replay(trace, k)
            found = dict(zip(map(tuple, atoms.tolist()), weights, strict=True))
            assert found == pytest.approx(expected, abs=1e-8)
            assert trace["objective"][k] == pytest.approx(value, rel=1e-9)
            assert trace["step_size"][k] == pytest.approx(size, abs=1e-8)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("loss", LOSSES)
def test_each_step_obeys_its_rule(step, loss):
    """Toward the best atom or away from the worst, as long as is best, and as the rule says.

    After a pairwise step its two atoms score the same, so which is worse next is rounding: paths
    part, but each step can be judged from where it starts.
    """
    for seed in range(3):
        twin = random_twin(seed, loss=loss, scale=8.0, prior=0.5 * (seed % 2))
        trace = run(twin, step=step, max_iter=40, tol=NEVER).trace
        models = [as_dict(*solver.replay(trace, k)) for k in range(len(trace))]
        for k, row in enumerate(trace[1:]):
            assert_step(twin.dense, step, row, models[k], models[k + 1])
        kinds = {"forward": {"forward"}, "away": {"forward", "away"}}
        assert set(trace["kind"][1:]) <= kinds.get(step, {"forward", "pairwise"})


def as_dict(atoms, weights):
    """Return {atom: weight}."""
    return dict(zip(map(tuple, atoms.tolist()), weights.tolist(), strict=True))


def assert_step(dense, rule, row, before, after):
    """Compare one step of a trace with what the rule asks for at the model before it."""
    everyone, tolerance = reference.all_atoms(dense.d), 1e-9
    margins = dense.margins(list(before), list(before.values()))
    column = dict(zip(everyone, dense.vertices.T, strict=True))
    score = dict(zip(everyone, dense.scores(margins, everyone), strict=True))
    here = sum(weight * score[atom] for atom, weight in before.items())
    best, worst = max(score.values()), min(score[atom] for atom in before)
    toward, away = (
        tuple(int(row[name]) for name in names)
        for names in (("i", "j", "sign"), ("away_i", "away_j", "away_sign"))
    )
    if row["kind"] == "forward":
        assert score[toward] >= best - tolerance
        assert rule != "away" or best - here >= here - worst - tolerance
        line, limit = column[toward] - margins, 1.0
        change = {atom: -weight for atom, weight in before.items()}
        change[toward] = change.get(toward, 0.0) + 1.0
    elif row["kind"] == "away":
        assert score[away] <= worst + tolerance
        assert here - worst >= best - here - tolerance
        line, limit = margins - column[away], before[away] / (1 - before[away])
        change = {atom: weight - (atom == away) for atom, weight in before.items()}
    else:
        known = before if rule == "blended" else score
        assert score[toward] >= max(score[atom] for atom in known) - tolerance
        assert score[away] <= worst + tolerance
        line, limit, change = column[toward] - column[away], before[away], {toward: 1, away: -1}
    size = row["step_size"]
    slope = dense.slope(margins, line, size)
    longest = size >= limit * (1 - 1e-14)
    assert abs(slope) <= 1e-10 or (longest and slope < 0)
    assert row["drop"] == (row["kind"] != "forward" and longest)
    assert not (row["drop"] and away in after)  # not even with a residue of rounding
    expected = {atom: before.get(atom, 0.0) + size * change.get(atom, 0.0) for atom in after}
    assert after == pytest.approx(expected, abs=1e-12)
    assert all(before[atom] + size * change[atom] <= 1e-12 for atom in set(before) - set(after))


@settings(max_examples=30)
@given(twins())
def test_start_is_the_oracles_atom_at_zero(twin):
    first = run(twin, max_iter=0).trace[0]
    atom = twin.inside(np.array([[first["i"], first["j"], first["sign"]]]))
    best, _ = twin.dense.best_atom(twin.dense.offset)
    score = twin.dense.scores(twin.dense.offset, atom)[0]
    assert first["kind"] == "start"
    assert score >= best - 1e-12 * twin.dense.score_size(twin.dense.offset)


def test_random_start():
    """Any atom may come, the same one for the same seed."""
    twin = random_twin(0, d=3)
    starts = [run(twin, init="random", max_iter=0, seed=s).atoms[0].tolist() for s in range(100)]
    assert {tuple(atom) for atom in starts} == set(reference.all_atoms(3))
    assert run(twin, init="random", max_iter=0, seed=7).atoms[0].tolist() == starts[7]


def test_blended_asks_the_oracle_rarely():
    """Lazy: shifts inside the active set need no oracle, and leave the gap unknown."""
    trace = run(random_twin(2, scale=8.0), step="blended", max_iter=60).trace
    lazy = np.isnan(trace["gap"])
    assert 0.2 < lazy.mean() < 1.0
    for k in np.flatnonzero(trace["kind"] == "pairwise"):
        before = {tuple(atom) for atom in solver.replay(trace, k - 1)[0].tolist()}
        row = trace[k]
        assert (row["i"], row["j"], row["sign"]) in before
        assert (row["away_i"], row["away_j"], row["away_sign"]) in before


# --- where it ends -------------------------------------------------------------------------------


@pytest.mark.parametrize("step_size", ["line_search", "2/(k+2)"])
@settings(max_examples=30)
@given(twin=twins())
def test_rate_of_forward_steps(step_size, twin):
    """f - f* ≤ 16Lλ²/(k+2) (Proposition 1)."""
    result = run(twin, step="forward", step_size=step_size, max_iter=40)
    k = np.arange(1, result.n_iter + 1)
    bound = 16 * twin.dense.lipschitz() * twin.dense.scale**2 / (k + 2)
    excess = result.trace["objective"][1:] - twin.dense.optimum().upper
    assert (excess <= bound * (1 + 1e-12)).all()


@pytest.mark.parametrize("step", ["away", "pairwise", "blended"])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("scale", "prior"), [(0.5, 0.0), (5.0, 0.0), (5.0, 1.0)])
def test_all_steps_reach_the_optimum(loss, step, scale, prior):
    for seed in range(3):
        twin = random_twin(seed, loss=loss, scale=scale, prior=prior)
        result = run(twin, step=step, max_iter=20_000, tol=1e-9)
        upper, lower = optimum(seed, loss, scale, prior)
        assert result.status in {"optimal", "no_violation"}
        assert result.gap <= 1e-9
        assert result.gap_is_exact
        assert lower - 1e-12 <= result.objective <= upper + 1e-8


@pytest.mark.parametrize("step_size", ["line_search", "2/(k+2)"])
@pytest.mark.parametrize("loss", LOSSES)
def test_forward_steps_approach_the_optimum(loss, step_size):
    twin = random_twin(0, loss=loss, scale=5.0)
    result = run(twin, step="forward", step_size=step_size, max_iter=3000, tol=1e-2)
    upper, lower = optimum(0, loss, 5.0)
    assert result.status == "optimal"
    assert lower - 1e-12 <= result.objective <= upper + 1e-2


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("oracle", ORACLES)
@pytest.mark.parametrize("loss", LOSSES)
def test_every_oracle_ends_certified(loss, oracle, step):
    """A gap that a heuristic claims is checked, and seldom in vain."""
    tol = 1e-2 if step == "forward" else 1e-6
    twin = random_twin(1, loss=loss, scale=5.0)
    result = run(twin, oracle=oracle, step=step, max_iter=20_000, tol=tol)
    upper, lower = optimum(1, loss, 5.0)
    M = reference.model_matrix(result.atoms, result.weights, twin.dense.d, twin.dense.scale)
    assert result.status == "optimal"
    assert result.gap_is_exact
    assert result.gap <= tol
    assert result.gap == pytest.approx(twin.dense.gap(M, twin.dense.margins_of(M)), abs=1e-9)
    assert lower - 1e-12 <= result.objective <= upper + tol
    assert result.n_exact_checks <= math.log2(max(result.n_iter, 1)) + 2


class Blind:
    """An oracle that has only ever heard of one atom."""

    def __call__(self, gradient, rng):
        """Return the first atom and its true score."""
        return Vertex(float(gradient.scores(np.array([[0, 1, 1]]))[0]), Atom(0, 1, 1))


@pytest.mark.parametrize("step", STEPS)
def test_a_blind_oracle_is_checked_seldom(step, monkeypatch):
    """Gaps claimed in vain cost no more than log2(k) + 2 exact searches, and none is believed."""
    monkeypatch.setitem(solver.ORACLES, "heuristic", Blind)
    twin = random_twin(0, n=30, d=15, T=200, scale=20.0)
    result = run(twin, oracle="heuristic", step=step, max_iter=300, tol=1e-4)
    M = reference.model_matrix(result.atoms, result.weights, 15, 20.0)
    true_gap = twin.dense.gap(M, twin.dense.margins_of(M))
    assert result.status in {"max_iter", "optimal"}
    assert (result.status == "optimal") == (true_gap <= 1e-4)
    assert 2 <= result.n_exact_checks <= math.log2(result.n_iter) + 2


@settings(max_examples=25)
@given(twins(), st.sampled_from(STEPS), st.sampled_from(ORACLES), st.sampled_from([1e-1, 1e-4]))
def test_optimal_means_a_small_gap(twin, step, oracle, tol):
    """On any problem: whoever says optimal has a gap below tol, whoever stops early is at it."""
    result = run(twin, step=step, oracle=oracle, max_iter=150, tol=tol)
    atoms = twin.inside(result.atoms)
    M = reference.model_matrix(atoms, result.weights, twin.dense.d, twin.dense.scale)
    margins = twin.dense.offset + twin.dense.margins_of(M)
    pull = twin.dense.omega @ np.abs(twin.dense.ell1(margins))
    size = twin.dense.score_size(margins) + pull * twin.dense.margin_size()
    size += 1e-2 * twin.dense.margin_size() ** 2  # slopes are as wrong as margins next to a kink
    assert result.objective == pytest.approx(
        twin.dense.value(margins), rel=1e-12, abs=1e-12 * pull * twin.dense.margin_size()
    )
    assert result.status in {"optimal", "max_iter", "no_violation", "stalled"}
    if result.status in {"optimal", "no_violation"}:
        assert result.gap_is_exact
        assert twin.dense.gap(M, margins) <= tol + 1e-11 * size
    if result.status == "max_iter":
        assert result.n_iter == 150
    if result.status == "stalled":  # no float step improves anything
        assert twin.dense.gap(M, margins) <= tol + 1e-6 * size
    assert result.n_exact_checks <= math.log2(max(result.n_iter, 1)) + 2


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("oracle", ORACLES)
@pytest.mark.parametrize("loss", ["smoothed_hinge", "squared_hinge"])
def test_no_violated_triplet(loss, oracle, step):
    """All triplets are satisfied by the prior alone: nothing to learn, gap 0."""
    X, T = [[2.0, 1.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 1.0]], [[0, 1, 2], [1, 0, 2]]
    result = run(make_twin(X, T, loss, prior=1.0), oracle=oracle, step=step)
    assert (result.status, result.n_iter) == ("no_violation", 0)
    assert (result.objective, result.gap, result.gap_is_exact) == (0.0, 0.0, True)


@pytest.mark.parametrize("loss", ["smoothed_hinge", "squared_hinge"])
@pytest.mark.parametrize("batch_size", [None, 5])
def test_violations_end_on_the_way(loss, batch_size):
    """Separable triplets and a large scale: the loss reaches 0, not a gap below tol."""
    X = np.array([[1.0, 0.0, 0.5], [1.0, 0.0, 0.0], [0.0, 1.0, 0.5], [0.0, 1.0, 0.0]])
    T = [(0, 1, 2), (0, 1, 3), (1, 0, 2), (1, 0, 3), (2, 3, 0), (2, 3, 1), (3, 2, 0), (3, 2, 1)]
    result = run(make_twin(X, T, loss, scale=50.0), batch_size=batch_size, init="random", seed=1)
    assert result.status == "no_violation"
    assert (result.objective, result.gap, result.gap_is_exact) == (0.0, 0.0, True)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("loss", LOSSES)
def test_one_triplet(loss, step):
    """T = 1: the best atom alone is the optimum, or the triplet is satisfied."""
    for seed in range(5):
        twin = random_twin(seed, n=3, T=1, loss=loss, scale=0.5)
        result = run(twin, step=step, tol=1e-9)
        best = twin.dense.ell(twin.dense.vertices.max())
        assert result.status in {"optimal", "no_violation"}
        assert result.objective == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("oracle", ORACLES)
@pytest.mark.parametrize(
    ("loss", "least"),
    [
        ("smoothed_hinge", 0.5),
        ("squared_hinge", 1.0),
        ("logistic", math.log(2)),
        ("exponential", 1.0),
    ],
)
def test_contradictory_triplets(loss, least, oracle, step):
    """(a, p, q) and (a, q, p) cannot both hold; an atom of margin 0 is the best there is."""
    X = np.zeros((4, 4))
    X[0, :2], X[1, :2], X[3, 2:] = [2.0, 1.0], [1.0, 2.0], [1.0, 1.0]
    twin = make_twin(X, [[0, 1, 2], [0, 2, 1]], loss)
    tol = 1e-3 if step == "forward" else 1e-9
    result = run(twin, oracle=oracle, step=step, tol=tol, max_iter=2000)
    assert result.status == "optimal"
    assert least - 1e-12 <= result.objective <= least + tol


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("oracle", ORACLES)
def test_scores_that_cancel(oracle, step):
    """At this optimum every score is rounding around 0, which no bound may take for more."""
    twin = make_twin([[1.0, 2.0], [2.0, 1.0]], [[0, 0, 1], [1, 0, 1], [0, 1, 0]])
    result = run(twin, oracle=oracle, step=step, max_iter=30)
    assert result.objective == pytest.approx(twin.dense.optimum().upper, abs=1e-9)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("scale", [1e-9, 1e12])
@pytest.mark.parametrize("oracle", ORACLES)
def test_scales_far_out(loss, step, scale, oracle):
    """Numbers stay numbers and the run ends; values that rise would be rounding only."""
    twin = random_twin(3, loss=loss, scale=scale)
    result = run(twin, oracle=oracle, step=step, max_iter=60, tol=1e-3)
    assert result.status in STATUSES
    for numbers in (result.weights, result.objective, result.trace["objective"]):
        assert np.isfinite(numbers).all()
    assert (result.weights > 0).all()
    assert abs(result.weights.sum() - 1) <= 1e-12
    assert (np.diff(result.trace["objective"]) <= 1e-12 * result.trace["objective"][:-1]).all()
    if scale < 1:  # nothing can be learned: the loss of a margin of 0
        assert result.status == "optimal"
        assert result.objective == pytest.approx(twin.dense.ell(np.zeros(1))[0], abs=1e-8)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("oracle", ORACLES)
def test_tol_zero_ends_by_itself_or_at_max_iter(oracle, step):
    """Where floats allow no further progress the loop does not go on for ever."""
    twin = random_twin(0, T=6, scale=0.5)
    result = run(twin, oracle=oracle, step=step, max_iter=5000)
    assert result.status in {"optimal", "stalled", "max_iter"}
    if step != "forward":
        assert result.objective <= optimum_of(twin) + 1e-12


def optimum_of(twin):
    """Return the value that the reference reaches."""
    return twin.dense.optimum().upper


@pytest.mark.parametrize("step", STEPS)
def test_two_features(step):
    """Two atoms are all there are."""
    X, T = random_arrays(0, d=2, density=1.0)
    for loss in LOSSES:
        twin = make_twin(X, T, loss, scale=2.0)
        result = run(twin, step=step, tol=1e-3 if step == "forward" else 1e-9, max_iter=5000)
        assert result.status == "optimal"
        assert len(result.atoms) <= 2
        assert result.objective <= optimum_of(twin) + 1e-3


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("max_iter", [0, 5, 10, 20])
def test_the_gap_at_the_end_is_known(step, max_iter):
    """Lazy steps may leave the gap of an iteration open, but not that of the result."""
    result = run(random_twin(0, scale=8.0), step=step, max_iter=max_iter, tol=1e-6)
    M = reference.model_matrix(result.atoms, result.weights, 8, 8.0)
    dense = random_twin(0, scale=8.0).dense
    assert result.status == "max_iter"
    assert result.gap == pytest.approx(dense.gap(M, dense.margins_of(M)), abs=1e-9)


def test_max_iter_zero_is_the_start():
    result = run(random_twin(0), max_iter=0)
    assert (result.status, result.n_iter, len(result.trace)) == ("max_iter", 0, 1)
    assert_array_equal(result.weights, [1.0])


# --- the trace, callbacks, interrupts ------------------------------------------------------------


def with_empty_columns(X, seed=0):
    """Return X with empty columns put in, and where its own columns went."""
    rng = np.random.default_rng(seed)
    where = np.sort(rng.choice(3 * X.shape[1], size=X.shape[1], replace=False))
    wide = np.zeros((len(X), 3 * X.shape[1]))
    wide[:, where] = X
    return wide, where


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("batch_size", [None, 7])
def test_replay_is_the_model_of_each_iteration(step, batch_size):
    X, T = random_arrays(6)
    wide, _ = with_empty_columns(X)
    twin, states = make_twin(wide, T, scale=8.0), []

    def remember(state):
        states.append((state.atoms.copy(), state.weights.copy(), state.objective))

    result = run(twin, step=step, batch_size=batch_size, max_iter=80, callback=remember)
    assert result.trace["drop"].any() == (step != "forward")
    for k, (atoms, weights, objective) in enumerate(states):
        again = solver.replay(result.trace, k)
        assert_array_equal(again[0], atoms)
        assert_allclose(again[1], weights, rtol=0, atol=1e-12)
        row = result.trace[k]
        assert row["n_atoms"] == len(atoms)
        assert row["n_features"] == len(np.unique(atoms[:, :2]))
        assert row["objective"] == objective
    final = solver.replay(result.trace, result.n_iter)
    assert_array_equal(final[0], result.atoms)
    assert_allclose(final[1], result.weights, rtol=0, atol=1e-12)
    assert (np.diff(result.trace["seconds"]) >= 0).all()


@pytest.mark.parametrize("step", STEPS)
@settings(max_examples=20)
@given(twin=twins(), seed=st.integers(0, 9))
def test_replay_on_any_problem(step, twin, seed):
    result = run(twin, step=step, oracle="heuristic", max_iter=20, seed=seed)
    atoms, weights = solver.replay(result.trace, result.n_iter)
    assert result.n_iter == len(result.trace) - 1
    assert_array_equal(atoms, result.atoms)
    assert_allclose(weights, result.weights, rtol=0, atol=1e-12)


@pytest.mark.parametrize("k", [0, 1, 7])
def test_callback_stops(k):
    seen = []

    def stop(state):
        seen.append(state.n_iter)
        return state.n_iter == k

    result = run(random_twin(0, scale=8.0), callback=stop)
    assert (result.status, result.n_iter) == ("callback", k)
    assert seen == list(range(k + 1))
    assert_same_model(result, run(random_twin(0, scale=8.0), max_iter=k))


@pytest.mark.parametrize("k", [0, 1, 7])
@pytest.mark.parametrize("step", STEPS)
def test_interrupt_keeps_the_model_so_far(k, step):
    def interrupt(state):
        if state.n_iter == k:
            raise KeyboardInterrupt

    result = run(random_twin(0, scale=8.0), step=step, callback=interrupt)
    assert (result.status, result.n_iter) == ("interrupted", k)
    assert_same_model(result, run(random_twin(0, scale=8.0), step=step, max_iter=k))


@pytest.mark.parametrize("method", ["advance", "gradient", "direction", "slope_along"])
@pytest.mark.parametrize("step", ["away", "blended"])
@pytest.mark.parametrize("call", [2, 12])
def test_interrupt_anywhere_leaves_a_whole_model(method, step, call, monkeypatch):
    """Ctrl-C comes inside a step, not between two: model, trace and objective still agree."""
    twin, calls = random_twin(0, scale=8.0), []
    original = getattr(twin.ours, method)

    def interrupt_once(*args, **kwargs):
        calls.append(method)
        if len(calls) == call:
            raise KeyboardInterrupt
        return original(*args, **kwargs)

    monkeypatch.setattr(twin.ours, method, interrupt_once)
    result = run(twin, step=step, max_iter=30)
    assert len(calls) >= call
    assert result.status == "interrupted"
    atoms, weights = solver.replay(result.trace, result.n_iter)
    assert result.n_iter >= 0
    assert_array_equal(atoms, result.atoms)
    assert_allclose(weights, result.weights, rtol=0, atol=1e-12)
    value = twin.dense.value(twin.dense.margins(result.atoms, result.weights))
    assert result.objective == pytest.approx(value, rel=1e-12)
    assert result.trace["objective"][-1] == pytest.approx(value, rel=1e-12)
    assert_array_equal(result.trace["gap_is_exact"], ~np.isnan(result.trace["gap"]))


def assert_same_model(a, b):
    """Compare two results bit for bit."""
    assert_array_equal(a.atoms, b.atoms)
    assert_array_equal(a.weights, b.weights)
    assert a.objective == b.objective


# --- places of a run -----------------------------------------------------------------------------


def place_of(twin, n_iter, **parameters):
    """Return the whole run, and its place before one of its iterations."""
    places = []

    def keep(place):
        found = {name: array.copy() for name, array in place().items()}
        if found["counts"][0] == n_iter:
            places.append(found)

    return run(twin, keep=keep, **parameters), places[0]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("oracle", ORACLES)
@pytest.mark.parametrize(("batch_size", "n_iter"), [(None, 0), (None, 11), (7, 5)])
def test_a_run_goes_on_from_its_place(oracle, step, batch_size, n_iter):
    """To the same end in the same way, and the callback sees each model once."""
    parameters = {"oracle": oracle, "step": step, "batch_size": batch_size, "max_iter": 25}
    whole, place = place_of(random_twin(6, scale=8.0), n_iter, **parameters)
    twin, seen = random_twin(6, scale=8.0), []
    solver.check_place(place, twin.ours, oracle)
    again = run(
        twin, seed=99, place=place, callback=lambda state: seen.append(state.n_iter), **parameters
    )
    assert_same_model(again, whole)
    assert (again.status, again.n_exact_checks) == (whole.status, whole.n_exact_checks)
    assert seen == list(range(n_iter, whole.n_iter + 1))
    for name in set(whole.trace.dtype.names) - {"seconds"}:
        assert_array_equal(again.trace[name], whole.trace[name])
    assert (np.diff(again.trace["seconds"]) >= 0).all()


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("oracle", ORACLES)
def test_who_goes_to_a_place_is_there(oracle, step):
    """All that a run says of where it is, it says again when it has gone there."""
    places, parameters = [], {"oracle": oracle, "step": step, "init": "random", "max_iter": 30}
    parameters["tol"] = 1e-4  # so that there are checks
    run(random_twin(6, scale=8.0), keep=lambda place: places.append(place()), **parameters)
    for place in places:
        problem = random_twin(6, scale=8.0).ours
        solver.check_place(place, problem, oracle)
        loop = solver._Run(
            problem, solver.ORACLES[oracle](), solver.STEPS[step], None, 1e-4,
            np.random.default_rng(9),
        )  # fmt: skip
        state = loop.go_to(place)
        again = loop.place(state)
        assert again.keys() == place.keys()
        assert 0.0 <= again["floats"][2] - place["floats"][2] < 1000.0
        again["floats"][2] = place["floats"][2]
        again["trace"]["seconds"][-1] = place["trace"]["seconds"][-1]
        for name in ("gap", "gap_is_exact"):  # of the model before, until the iteration is done
            again["trace"][name][-1] = place["trace"][name][-1]
        for name, array in place.items():
            assert (name, again[name].dtype) == (name, array.dtype)
            assert again[name].tobytes() == array.tobytes(), name
        move = state.iterate.move
        assert (move is None) == (state.n_iter == 0)
        if move is not None:
            assert (move.toward is None) == (move.kind == "away")
            assert (move.away is None) == (move.kind == "forward")


@pytest.mark.parametrize("step", ["away", "blended"])
def test_what_a_check_in_vain_learned_is_kept(step, monkeypatch):
    """When the next check comes, and what the checker remembers, are part of the place."""

    class Remembering(Blind):
        def memory(self):
            return {}

        def recall(self, memory, problem):
            assert not memory

    monkeypatch.setitem(solver.ORACLES, "heuristic", Remembering)
    parameters = {"oracle": "heuristic", "step": step, "max_iter": 40, "tol": 1e-4}
    whole, place = place_of(random_twin(0, scale=20.0), 9, **parameters)
    assert place["counts"][3] > 0
    assert "checker.base" in place
    again = run(random_twin(0, scale=20.0), place=place, **parameters)
    assert_same_model(again, whole)
    assert again.n_exact_checks == whole.n_exact_checks
    problem = random_twin(0, scale=20.0).ours
    for name in ("value", "base_value", "base", "last"):
        half = {k: v for k, v in place.items() if k != f"checker.{name}"}
        with pytest.raises(ValueError, match=f"'checker.{name}' is missing"):
            solver.check_place(half, problem, "heuristic")


def test_a_blended_step_takes_what_a_check_found(monkeypatch):
    """After a check in vain the vertex that it found competes with a shift, as if just asked."""
    notes, check = [], solver._Run.check

    def noted(self, state, look):
        verdict, found = check(self, state, look)
        if found is not look and verdict is None:
            notes.append((state.n_iter, np.ptp(found.scores), found.gap))
        return verdict, found

    monkeypatch.setattr(solver._Run, "check", noted)
    monkeypatch.setitem(solver.ORACLES, "heuristic", Blind)
    kinds = []
    for seed in range(6):
        twin = random_twin(seed, n=30, d=15, T=200, scale=20.0)
        trace = run(twin, oracle="heuristic", step="blended", max_iter=200, tol=1e-4).trace
        for n_iter, local, gap in notes:
            if n_iter + 1 < len(trace):
                kinds.append(str(trace["kind"][n_iter + 1]))
                assert kinds[-1] == ("forward" if local <= gap else "pairwise")
        notes.clear()
    assert kinds.count("forward") > 6


def bad_places(place):
    """Yield the name of an array of a place, and what it may not be."""
    d = 8
    yield from ((name, array[np.newaxis]) for name, array in place.items())
    yield from ((name, array.astype("f4")) for name, array in place.items() if name != "trace")
    for name in ("margins", "floats", "counts", "oracle.counts", "oracle.value", "oracle.base"):
        yield name, place[name][:-1]
        yield name, np.append(place[name], place[name][:1])
    for name in ("oracle.base_value", "oracle.last", "checker.counts"):
        yield name, place[name][:-1]
    yield "atoms", place["atoms"][:, :2]
    yield "atoms", place["atoms"] + d
    yield "weights", 2 * place["weights"]
    yield "known", np.column_stack([place["known"], place["known"]])
    for pair in ([-1, 2], [3, 3], [3, 2], [0, d]):
        yield "known", np.array([[0, 1], pair])
    for k in range(6):
        counts = place["counts"].copy()
        counts[k] = {2: -2, 5: 0}.get(k, -1)
        yield "counts", counts
    yield "counts", place["counts"] - [1, 0, 0, 0, 0, 0]  # fewer iterations than the trace has
    for number in (np.nan, np.inf):
        yield "margins", np.append(place["margins"][:-1], number)
    yield "floats", np.array([np.nan, 1.0, 1.0])
    yield "random", place["random"][:-1]
    yield "trace", place["trace"][:0]


def test_what_is_no_place_is_refused():
    """Compiled loops trust the numbers of a place: anything odd is named before they run."""
    twin = random_twin(6, scale=8.0)
    _, place = place_of(twin, 11, oracle="exact", max_iter=25)
    solver.check_place(place, twin.ours, "exact")
    solver.check_place({**place, "known": np.array([[0, 7]])}, twin.ours, "exact")
    for name, array in bad_places(place):
        with pytest.raises(ValueError, match=r"\w"):
            solver.check_place({**place, name: array}, twin.ours, "exact")
    for name in place:
        with pytest.raises(ValueError, match=name):
            solver.check_place({k: v for k, v in place.items() if k != name}, twin.ours, "exact")
    with pytest.raises(ValueError, match=r"'oracle.more' is missing or not known"):
        solver.check_place({**place, "oracle.more": place["margins"]}, twin.ours, "exact")


@pytest.mark.parametrize("recent", [[-1], [8]])
def test_a_last_vertex_that_there_is_not_is_refused(recent):
    twin = random_twin(6, scale=8.0)
    _, place = place_of(twin, 11, oracle="ascent", max_iter=25)
    for allowed in ([0], [7]):
        solver.check_place({**place, "oracle.recent": np.array(allowed)}, twin.ours, "ascent")
    with pytest.raises(ValueError, match=r"oracle\.recent"):
        solver.check_place({**place, "oracle.recent": np.array(recent)}, twin.ours, "ascent")


# --- batches -------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("oracle", ORACLES)
def test_batches_are_reproducible(oracle, step):
    twin = random_twin(8, scale=8.0)
    parameters = {"oracle": oracle, "step": step, "batch_size": 6, "max_iter": 40}
    one, two, other = (run(twin, seed=seed, **parameters) for seed in (4, 4, 5))
    assert_same_model(one, two)
    assert_array_equal(one.trace[STEP_FIELDS], two.trace[STEP_FIELDS])
    assert not np.array_equal(one.trace["step_size"], other.trace["step_size"])


@pytest.mark.parametrize("oracle", ORACLES)
@pytest.mark.parametrize("batch_size", [30, 31, 1000])
def test_a_batch_of_all_is_no_batch(oracle, batch_size):
    twin = random_twin(8, T=30, scale=8.0)
    all_ = run(twin, oracle=oracle, max_iter=40, seed=2)
    batch = run(twin, oracle=oracle, max_iter=40, seed=2, batch_size=batch_size)
    assert_same_model(all_, batch)
    assert_array_equal(all_.trace["gap_is_exact"], batch.trace["gap_is_exact"])


def test_a_batch_of_weightless_triplets():
    """Triplets of weight 0 may be all that a batch holds: no direction, but no failure either."""
    X, T = random_arrays(0, T=12)
    weights = np.zeros(12)
    weights[:2] = 1.0
    twin = make_twin(X, T, scale=8.0, weights=weights)
    result = run(twin, batch_size=2, max_iter=30, callback=Watch(twin))
    assert np.isfinite(result.objective)


# --- what must make no difference ----------------------------------------------------------------


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("oracle", ORACLES)
def test_weights_are_repetitions(oracle, step):
    X, T = random_arrays(9, T=15)
    times = np.random.default_rng(0).integers(1, 4, size=15)
    weighted = make_twin(X, T, scale=8.0, weights=times)
    assert_same_run(weighted, make_twin(X, np.repeat(T, times, axis=0), scale=8.0), oracle, step)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("oracle", ORACLES)
def test_the_order_of_triplets_does_not_matter(oracle, step):
    X, T = random_arrays(10)
    weights = np.random.default_rng(0).random(len(T)) + 0.1
    order = np.random.default_rng(1).permutation(len(T))
    shuffled = make_twin(X, T[order], scale=8.0, weights=weights[order])
    assert_same_run(make_twin(X, T, scale=8.0, weights=weights), shuffled, oracle, step)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("oracle", ORACLES)
def test_the_order_of_rows_does_not_matter(oracle, step):
    X, T = random_arrays(10)
    order = np.random.default_rng(1).permutation(len(X))
    shuffled = make_twin(X[order], np.argsort(order)[T], scale=8.0)
    assert_same_run(make_twin(X, T, scale=8.0), shuffled, oracle, step)


def assert_same_run(one, two, oracle, step):
    """The same path where that is well defined, the same optimum where ties part the paths."""
    if step in {"forward", "away"}:
        a, b = (run(twin, oracle=oracle, step=step, max_iter=20, tol=NEVER) for twin in (one, two))
        for name in STEP_FIELDS:
            if name == "step_size":
                assert_allclose(a.trace[name], b.trace[name], rtol=1e-8, atol=1e-10)
            else:
                assert_array_equal(a.trace[name], b.trace[name])
        assert_allclose(a.trace["objective"], b.trace["objective"], rtol=1e-12)
    else:
        a, b = (run(twin, oracle=oracle, step=step, tol=1e-9) for twin in (one, two))
        assert a.objective == pytest.approx(b.objective, abs=1e-9)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("oracle", ORACLES)
@pytest.mark.parametrize("batch_size", [None, 7])
def test_empty_columns_change_only_numbers(oracle, step, batch_size):
    X, T = random_arrays(12)
    wide, where = with_empty_columns(X)
    parameters = {"oracle": oracle, "step": step, "batch_size": batch_size, "max_iter": 30}
    narrow = run(make_twin(X, T, scale=8.0), **parameters)
    found = run(make_twin(wide, T, scale=8.0), **parameters)
    assert_array_equal(found.atoms[:, :2], where[narrow.atoms[:, :2]])
    assert_array_equal(found.atoms[:, 2], narrow.atoms[:, 2])
    assert_array_equal(found.weights, narrow.weights)
    assert_array_equal(found.trace["objective"], narrow.trace["objective"])
    for name in ("i", "j", "away_i", "away_j"):
        mapped = np.where(narrow.trace[name] < 0, -1, where[narrow.trace[name]])
        assert_array_equal(found.trace[name], mapped)


@settings(max_examples=10)
@given(st.floats(0.1, 10.0), st.floats(0.1, 10.0))
def test_scale_and_data_trade_off(scale, factor):
    """Margins are of degree 1 in the scale and of degree 2 in X: the same problem twice."""
    X, T = random_arrays(13)
    one = run(make_twin(X, T, scale=scale), tol=1e-9)
    two = run(make_twin(X * np.sqrt(factor), T, scale=scale / factor), tol=1e-9)
    assert one.objective == pytest.approx(two.objective, abs=1e-8)
