"""The step that minimises a convex function along a line, from its slopes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

#: A cut of a bracket by its chord stays this share of its width away from both ends.
LEAST_SHARE = 0.05


class Point(NamedTuple):
    """A step size, and the first two derivatives of the value there."""

    size: float
    slope: float = math.nan
    curvature: float = math.nan

    @property
    def newton(self) -> float:
        """The step size that Newton's method goes to; infinite on a straight line."""
        if not self.curvature > 0.0:
            return math.inf
        return self.size - self.slope / self.curvature


@dataclass
class Bracket:
    """Two step sizes with the minimum of a convex value between them.

    Parameters
    ----------
    low : Point
        Downhill: its slope is negative.
    high : Point
        Not downhill; or the largest step size, with a slope that is not known yet.

    Examples
    --------
    >>> bracket = Bracket(Point(0.0, slope=-1.0, curvature=0.25), Point(3.0))
    >>> bracket.propose(bracket.low.newton)  # the far end first, as it is nearer
    3.0
    >>> bracket.narrow(Point(3.0, slope=1.0, curvature=1.0))
    >>> bracket.propose(bracket.high.newton)
    2.0
    >>> bracket.propose(9.0)
    1.5
    """

    low: Point
    high: Point

    @classmethod
    def among(cls, points: Sequence[Point]) -> Bracket | None:
        """Return the bracket of points by rising sizes; None where all are downhill."""
        for low, high in pairwise(points):
            if not high.slope < 0.0:
                return cls(low, high)
        return None

    @property
    def is_closed(self) -> bool:
        """Whether the slope at the high end is known."""
        return not math.isnan(self.high.slope)

    @property
    def flatter(self) -> Point:
        """The end of the smaller slope."""
        if -self.low.slope < self.high.slope:
            return self.low
        return self.high

    def contains(self, size: float) -> bool:
        """Whether a step size is between the ends."""
        return self.low.size < size < self.high.size

    def cut(self, share: float) -> float:
        """Return the step size that so much of the bracket is below."""
        return self.low.size + share * (self.high.size - self.low.size)

    def chord_share(self) -> float:
        """Return how much of the bracket is below the zero of the chord of the slopes."""
        return self.low.slope / (self.low.slope - self.high.slope)

    def propose(self, guess: float) -> float | None:
        """Return where to look next; None where no number is left between the ends.

        That is the guess if it is inside. While the high end is not known, that is
        looked at first for any guess beyond it.
        """
        if guess >= self.high.size and not self.is_closed:
            return self.high.size
        if self.contains(guess):
            return guess
        if self.is_closed:
            share = min(max(self.chord_share(), LEAST_SHARE), 1.0 - LEAST_SHARE)
            size = self.cut(share)
        else:
            size = 0.5 * (self.low.size + self.high.size)
        if self.contains(size):
            return size
        return None

    def narrow(self, point: Point) -> None:
        """Replace the end that is on the same side of the minimum as a point."""
        if point.slope < 0.0:
            self.low = point
        else:
            self.high = point


#: From a step size to the first two derivatives of the value.
Slopes = Callable[[float], tuple[float, float]]

#: A slope is zero up to this share of the first: sums of millions of terms are not
#: known better.
FLAT = 1e-13

#: A step size that changes by less than this share of it stays.
SAME_SIZE = 1e-16

#: No search looks at more step sizes.
MOST_SIZES = 200


def line_search(
    slopes: Slopes, max_step_size: float, sampled: Slopes | None = None
) -> float:
    """Return the step size in [0, max_step_size] that minimises the value.

    Newton's method on the derivative, inside a bracket. For the hinge losses the
    derivative is piecewise linear, so that a Newton step from the right piece is exact;
    for others it goes on to a relative 1e-12.

    Parameters
    ----------
    slopes : callable
    max_step_size : float
    sampled : callable, default=None
        About the same from a part of the terms: the search begins at the step that is
        best by it.

    Examples
    --------
    >>> line_search(lambda size: (2.0 * size - 1.0, 2.0), 1.0)
    0.5
    """
    point = Point(0.0, *slopes(0.0))
    if not point.slope < 0.0 or max_step_size <= 0.0:
        return 0.0
    flat = FLAT * -point.slope
    bracket = Bracket(point, Point(max_step_size))
    guess = point.newton
    if sampled is not None:
        guess = line_search(sampled, max_step_size) or guess
    for _ in range(MOST_SIZES):
        size = bracket.propose(guess)
        if size is None:
            break
        change = abs(size - point.size)
        point = Point(size, *slopes(size))
        bracket.narrow(point)
        if bracket.low.size == max_step_size:
            return max_step_size
        if abs(point.slope) <= flat or change <= SAME_SIZE * size:
            break
        guess = point.newton
    if abs(point.slope) <= flat or not bracket.is_closed:
        return point.size
    return bracket.flatter.size
