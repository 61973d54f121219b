"""A line search in few rounds of several step sizes each: a round is a question of a cluster."""

from collections.abc import Callable

import numpy as np

from ..solver.line_search import Bracket, Point, line_search

#: From step sizes to the first two derivatives of the value at each, shape (n, 2).
Slopes = Callable[[np.ndarray], np.ndarray]

#: Step sizes of the first round, in parts of the longest step or of 1.
FIRST_SIZES = np.array([1 / 64, 1 / 16, 1 / 4, 1 / 2, 3 / 4, 1.0])

#: Parts of a bracket that each later round looks at.
INSIDE = (0.25, 0.5, 0.75)

#: Newton's method ends at a change by this share of the step size: its next error is
#: the square.
CLOSE = 1e-8

#: A slope is zero up to this share of the first one.
FLAT = 4e-16


def search(slopes: Slopes, max_step_size: float) -> float:
    """Return the step size that minimises a convex value.

    Parameters
    ----------
    slopes : callable
    max_step_size : float

    Examples
    --------
    >>> search(lambda sizes: np.column_stack([2.0 * sizes - 1.0, 0.0 * sizes + 2.0]), 1.0)
    0.5
    """
    if not max_step_size > 0.0:
        return 0.0
    first_sizes = min(1.0, max_step_size) * FIRST_SIZES
    points = look(slopes, np.unique([0.0, *first_sizes, max_step_size]))
    start = points[0]
    if not start.slope < 0.0:
        return 0.0
    bracket = Bracket.among(points)
    if bracket is None:
        return float(max_step_size)
    while True:
        if abs(bracket.high.slope) <= FLAT * -start.slope:
            return first_minimum(slopes, max_step_size)
        sizes = sizes_inside(bracket)
        minimum = minimum_of(bracket, is_last=not len(sizes))
        if minimum is not None:
            return minimum
        bracket = narrowed(bracket, look(slopes, sizes))


def look(slopes: Slopes, sizes: np.ndarray) -> list[Point]:
    """Return the points at step sizes, in one round."""
    pairs = zip(sizes.tolist(), slopes(sizes).tolist(), strict=True)
    return [Point(size, slope, curvature) for size, (slope, curvature) in pairs]


def first_minimum(slopes: Slopes, max_step_size: float) -> float:
    """Return the first of several minima, as a search of one size per round finds it."""

    def slopes_at(size: float) -> tuple[float, float]:
        slope, curvature = slopes(np.array([size]))[0].tolist()
        return slope, curvature

    return line_search(slopes_at, max_step_size)


def minimum_of(bracket: Bracket, *, is_last: bool) -> float | None:
    """Return the minimum where Newton's method hardly moves from an end; None where it does.

    `is_last` says that there is no step size between the ends, so that it is at the low
    end.
    """
    low = bracket.low
    high = bracket.high
    if is_last or abs(low.newton - low.size) <= CLOSE * low.size:
        if not low.curvature > 0.0:
            return low.size
        return min(max(low.newton, low.size), high.size)
    if abs(high.newton - high.size) <= CLOSE * high.size:
        return max(high.newton, low.size)
    return None


def narrowed(bracket: Bracket, points: list[Point]) -> Bracket:
    """Return the bracket of the minimum among the ends of a bracket and points inside."""
    narrower = Bracket.among([bracket.low, *points, bracket.high])
    assert narrower is not None  # its high end is not downhill
    return narrower


def sizes_inside(bracket: Bracket) -> np.ndarray:
    """Return the step sizes to look at in a closed bracket, rising.

    They are those of Newton's method from both ends, of the chord, and a few between.

    Examples
    --------
    >>> sizes_inside(Bracket(Point(0.0, -1.0, 2.0), Point(1.0, 2.0, 0.0))).round(2).tolist()
    [0.25, 0.33, 0.5, 0.75]
    """
    shares = [bracket.chord_share(), *INSIDE]
    sizes = [bracket.low.newton, bracket.high.newton, *map(bracket.cut, shares)]
    return np.unique([size for size in sizes if bracket.contains(size)])
