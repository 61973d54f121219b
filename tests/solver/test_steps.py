"""Line search, active set and step rules: each alone, and each step of a path."""

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import reference
from hdsl.solver.atoms import ActiveSet, Atom
from hdsl.solver.line_search import line_search
from hdsl.solver.steps import RULES
from hdsl.solver.trace import replay
from runs import NEVER, as_dict, run
from strategies import LOSSES, make_twin, random_twin

# --- line search ----------------------------------------------------------------------


def search(problem, margins, direction, max_step_size=1.0, sampled=None):
    """Return the step size found for a problem, and where the search asked for slopes."""
    asked = []

    def slopes(size):
        asked.append(size)
        return problem.slopes(margins, direction, [size])[0].tolist()

    return line_search(slopes, max_step_size, sampled), asked


@st.composite
def lines(draw, loss):
    """A problem of T triplets, margins, a direction and a limit; X plays no part."""
    T = draw(st.integers(1, 20))
    twin = make_twin(np.eye(2), [[0, 0, 1]] * T, loss)
    m, d = draw(st.sampled_from([(5.0, 10.0), (0.0, 1.0), (1e3, 1e3), (1.0, 1e-6)]))
    margins = draw(st.lists(st.floats(-m, m), min_size=T, max_size=T))
    direction = draw(st.lists(st.floats(-d, d), min_size=T, max_size=T))
    # Less is nothing beside m.
    direction = np.where(np.abs(direction) < 1e-12, 0.0, direction)
    return (
        twin,
        np.array(margins),
        direction,
        draw(st.sampled_from([1.0, 0.3, 1e-6, 5.0])),
    )


@pytest.mark.parametrize("loss", LOSSES)
@given(data=st.data())
def test_line_search_ends_at_slope_zero_or_at_a_bound(loss, data):
    twin, margins, direction, max_step_size = data.draw(lines(loss))
    sampled = data.draw(st.sampled_from([None, lambda size: (size - 0.2, 1.0)]))
    size, _ = search(twin.ours, margins, direction, max_step_size, sampled)
    there = margins + size * direction
    slope = twin.dense.slope(margins, direction, size)
    # The terms of a sum may be huge where the sum is zero; and no step lies between two
    # floats.
    terms = twin.dense.omega @ np.abs(direction * twin.dense.ell1(there))
    terms += size * twin.dense.curvature(margins, direction, size)
    first = abs(twin.dense.slope(margins, direction, 0.0))
    tolerance = 1e-10 * min(1.0, first) + 1e-12 * terms + 4e-16 * first
    tolerance += 1e-150  # the square of less is no number
    assert 0.0 <= size <= max_step_size
    assert slope >= -tolerance or size == max_step_size
    assert slope <= tolerance or size == 0.0
    best = twin.dense.line_search(margins, direction, max_step_size)
    value = twin.dense.value(margins + best * direction)
    nothing = 1e-12 * (1 + abs(value)) + 1e-15 * twin.dense.value(margins)
    assert twin.dense.value(there) <= value + nothing


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("scale", "mean"), [(1.0, 10), (100.0, 15), (1e4, 30)])
def test_line_search_between_atoms_takes_few_passes(loss, scale, mean):
    """A bisection takes 53."""
    passes = []
    rng = np.random.default_rng(0)
    for seed in range(5):
        twin = random_twin(seed, loss=loss, scale=scale, T=100)
        for _ in range(20):
            margins, toward = twin.dense.vertices[
                :, rng.choice(56, size=2, replace=False)
            ].T
            _, asked = search(twin.ours, margins, toward - margins)
            passes.append(len(asked))
    assert np.mean(passes) <= mean
    assert max(passes) <= 100  # rounding decides the last ones


def exact_slope(loss, margins, direction, step):
    """Return T times the slope of a hinge loss in fractions, without any rounding."""
    total = Fraction(0)
    step = Fraction(step)
    for m, d in zip(map(Fraction, margins), map(Fraction, direction), strict=True):
        violation = max(1 - (m + step * d), Fraction(0))
        total -= d * (min(violation, 1) if loss == "smoothed_hinge" else 2 * violation)
    return total


@pytest.mark.parametrize("loss", ["smoothed_hinge", "squared_hinge"])
@given(
    st.lists(st.tuples(st.integers(-8, 8), st.integers(-8, 8)), min_size=1, max_size=12)
)
def test_line_search_is_exact_for_hinges(loss, pairs):
    """At most the last bits of the step are wrong: the slope changes sign around it."""
    margins, direction = np.array(pairs, dtype=float).T / 4
    twin = make_twin(np.eye(2), [[0, 0, 1]] * len(pairs), loss)
    size, _ = search(twin.ours, margins, direction)
    before = max(size - 4e-16, 0.0)
    after = min(size + 4e-16, 1.0)
    assert size == 0.0 or exact_slope(loss, margins, direction, before) <= 0
    assert size == 1.0 or exact_slope(loss, margins, direction, after) >= 0


class Line:
    """A line of a known slope; it records where it was asked."""

    def __init__(self, slope, curvature=0.0):
        self.slope = slope
        self.curvature = curvature
        self.asked = []

    def __call__(self, size):
        self.asked.append(size)
        return self.slope(size), self.curvature


@pytest.mark.parametrize(
    ("down", "up"), [(-1.0, 2.0), (-2.0, 1.0), (-1.0, 1.0), (-1.0, 1e-9)]
)
def test_line_search_on_a_jump_of_the_slope_ends_where_it_is_smaller(down, up):
    """With rounding there may be no number of slope 0."""
    line = Line(lambda s: down if s < 0.3 else up)
    found = line_search(line, 1.0)
    assert found == pytest.approx(0.3, abs=1e-15)
    assert line.slope(found) == (down if -down < up else up)
    assert len(set(line.asked)) == len(line.asked) < 200  # nowhere twice


# --- active set -----------------------------------------------------------------------


@pytest.mark.parametrize("largest", [True, False])
def test_extreme_is_the_smallest_atom_of_equal_scores(largest):
    """Scores are equal up to rounding, and not up to more."""
    active = ActiveSet(np.array([[2, 3, 1], [0, 1, -1], [0, 1, 1]]), np.full(3, 1 / 3))
    worse = -1e-9 if largest else 1e-9
    for scores, k in [
        ([5.0, 5.0 + 2e-12, 5.0 - 2e-12], 2),
        ([5.0, 5.0, 5.0 + worse], 1),
        ([5.0, 4.0, 6.0], 2 if largest else 1),
        ([-1e12, 0.5, 0.0], 2 if largest else 0),  # relative to the larger end
    ]:
        found = active.extreme(np.array(scores), largest=largest)
        assert found == (active[k], scores[k], 1 / 3)


def test_an_atom_leaves_with_the_largest_step_away_from_it():
    """Whatever rounding leaves of its weight."""
    active = ActiveSet(np.array([[0, 1, 1], [2, 3, 1]]), np.array([0.25, 0.75]))
    gone = active.moved(None, Atom(0, 1, 1), 1 / 3 - 1e-15, True)
    assert as_dict(gone) == {(2, 3, 1): 1.0}
    assert_allclose(
        active.moved(None, Atom(0, 1, 1), 1 / 6, False).weights, [0.125, 0.875]
    )
    other = active.moved(Atom(4, 5, -1), Atom(0, 1, 1), 0.25 - 1e-15, True)
    assert other.atoms.tolist() == [[2, 3, 1], [4, 5, -1]]
    with pytest.raises(
        ValueError, match=r"moves away from \(0, 1, -1\), which is not active"
    ):
        active.moved(None, Atom(0, 1, -1), 0.1, False)


# --- step rules -----------------------------------------------------------------------


# --- the steps of a path --------------------------------------------------------------


@pytest.mark.parametrize("rule", ["forward", "away"])
@pytest.mark.parametrize("loss", LOSSES)
def test_the_path_is_that_of_the_dense_algorithm(rule, loss):
    """The same atoms, weights and step sizes as Algorithms 1 and 3 in dense matrices."""
    for seed in range(3):
        twin = random_twin(seed, loss=loss, scale=8.0, prior=0.5 * (seed % 2))
        trace = run(twin, rule=rule, max_iter=12, tol=NEVER).trace
        for k, (value, expected, size) in enumerate(
            reference.frank_wolfe(twin.dense, rule, 12)
        ):
            assert as_dict(replay(trace, k)) == pytest.approx(expected, abs=1e-8)
            assert trace["objective"][k] == pytest.approx(value, rel=1e-9)
            assert trace["step_size"][k] == pytest.approx(size, abs=1e-8)


@pytest.mark.parametrize("rule", sorted(RULES.keys() - {"corrective"}))
def test_each_step_obeys_its_rule(rule):
    """Toward the best atom or away from the worst, with the best size, and as the rule says.

    After a pairwise step its two atoms score the same, so rounding decides which is
    worse next: paths part, but each step can be judged from where it starts.
    """
    kinds = set()
    has_drops = False
    for seed, loss in enumerate(LOSSES):
        twin = random_twin(seed, loss=loss, scale=8.0, prior=0.5 * (seed % 2))
        trace = run(twin, rule=rule, max_iter=40, tol=NEVER).trace
        models = [as_dict(replay(trace, k)) for k in range(len(trace))]
        for k, row in enumerate(trace[1:]):
            assert_step(twin.dense, rule, row, models[k], models[k + 1])
        kinds |= set(trace["kind"][1:].tolist())
        has_drops |= trace["drop"].any()
    assert kinds <= {"forward", rule, "pairwise" if rule == "blended" else rule}
    assert rule == "blended" or rule in kinds
    assert has_drops == (rule != "forward")


def assert_step(dense, rule, row, before, after):
    """Compare one step of a trace with what the rule asks for at the model before it."""
    everyone = reference.all_atoms(dense.d)
    tolerance = 1e-9
    margins = dense.margins(list(before), list(before.values()))
    column = dict(zip(everyone, dense.vertices.T, strict=True))
    score = dict(zip(everyone, dense.scores(margins, everyone), strict=True))
    here = sum(weight * score[atom] for atom, weight in before.items())
    best = max(score.values())
    worst = min(score[atom] for atom in before)
    toward, away = (
        tuple(int(row[prefix + part]) for part in ("i", "j", "sign"))
        for prefix in ("", "away_")
    )
    change = Counter()
    if row["kind"] != "away":
        known = before if (rule, row["kind"]) == ("blended", "pairwise") else score
        assert score[toward] >= max(score[atom] for atom in known) - tolerance
        change[toward] += 1.0
    if row["kind"] != "forward":
        assert score[away] <= worst + tolerance
        change[away] -= 1.0
    if row["kind"] != "pairwise":
        for atom, weight in before.items():
            change[atom] += weight if row["kind"] == "away" else -weight
    if rule == "away":
        steeper = (here - worst) - (best - here)
        assert (steeper if row["kind"] == "away" else -steeper) >= -tolerance
    line = sum(rate * column[atom] for atom, rate in change.items())
    limit = min(before[atom] / -rate for atom, rate in change.items() if rate < 0)
    size = row["step_size"]
    slope = dense.slope(margins, line, size)
    longest = size >= limit * (1 - 1e-14)
    assert abs(slope) <= 1e-10 or (longest and slope < 0)
    assert row["drop"] == (row["kind"] != "forward" and longest)
    assert not (row["drop"] and away in after)  # not even with a residue of rounding
    expected = {atom: before.get(atom, 0.0) + size * change[atom] for atom in after}
    assert after == pytest.approx(expected, abs=1e-12)
    assert all(
        before[atom] + size * change[atom] <= 1e-12 for atom in set(before) - set(after)
    )


def test_blended_steps_ask_the_oracle_rarely():
    """Shifts inside the active set leave the gap unknown, and so not exact; not the last gap."""
    trace = run(random_twin(2, scale=8.0), rule="blended", max_iter=60).trace
    lazy = np.isnan(trace["gap"])
    assert 0.2 < lazy.mean() < 1.0
    assert not lazy[-1]
    assert (trace["gap_is_exact"] == ~lazy).all()
    for k in np.flatnonzero(trace["kind"] == "pairwise"):
        before = as_dict(replay(trace, k - 1))
        row = trace[k]
        for prefix in ("", "away_"):
            assert tuple(row[prefix + part] for part in ("i", "j", "sign")) in before
