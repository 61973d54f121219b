"""The line search that begins with a part of the comparisons, against the usual one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdsl.solver import losses
from hdsl.solver.line_search import line_search, search_in_rounds


class Line:
    """Slopes of a mean loss along a line, and how often they were asked for."""

    def __init__(self, loss, seed, shift, spread, n=300):
        rng = np.random.default_rng(seed)
        self.loss, self.n_rounds = losses.get(loss), 0
        self.margins = rng.normal(size=n) + shift
        self.direction = (rng.normal(size=n) + 0.2) * spread * (rng.random(n) < 0.7)

    def one(self, size):
        there = self.margins + size * self.direction
        first = self.direction * self.loss.derivative(there)
        return float(first.mean()), float((self.direction**2 * self.loss.curvature(there)).mean())

    def asked(self, size):
        self.n_rounds += 1
        return self.one(size)

    def begin(self, sizes):
        """Return the slopes at 0, and at all sizes those of a part of the line."""
        self.n_rounds += 1
        whole, few = (self.margins, self.direction), slice(None, None, 7)
        first = self.one(0.0)
        self.margins, self.direction = (array[few] for array in whole)
        part = np.array([self.one(size) for size in sizes])
        self.margins, self.direction = whole
        return first, part

    def value(self, size):
        return float(self.loss.value(self.margins + size * self.direction).mean())


@given(
    st.sampled_from(sorted(losses.LOSSES)), st.integers(0, 10**6), st.floats(-2.0, 3.0),
    st.floats(0.01, 100.0), st.sampled_from([0.0, 0.1, 1.0, 3.0]),
)  # fmt: skip
def test_rounds_find_the_same_step_size(loss, seed, shift, spread, limit):
    line = Line(loss, seed, shift, spread)
    one, found = line_search(line.one, limit), search_in_rounds(line.begin, line.asked, limit)
    assert 0.0 <= found <= limit
    assert line.n_rounds <= 60
    # All points of a flat bottom are best.
    is_flat = line.value(found) == pytest.approx(line.value(one), rel=1e-14, abs=1e-16)
    assert is_flat or found == pytest.approx(one, rel=1e-9)


def test_a_part_of_the_comparisons_saves_rounds():
    """As in the first steps of a path: large changes of some margins, so that curvature falls."""
    rounds, calls = [], []
    for seed in range(20):
        line, rng = Line("smoothed_hinge", seed, 0.0, 1.0, n=20_000), np.random.default_rng(seed)
        line.margins[:] = 0.0
        line.direction = rng.lognormal(0.0, 1.0, size=20_000) * rng.choice(
            [0, 0, 0, 1, 1, -0.5], 20_000
        )
        asked = []
        line_search(lambda size, line=line, asked=asked: asked.append(size) or line.one(size), 1.0)
        search_in_rounds(line.begin, line.asked, 1.0)
        rounds.append(line.n_rounds)
        calls.append(len(asked))
    assert np.mean(rounds) < 0.8 * np.mean(calls)
