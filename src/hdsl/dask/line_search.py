"""A line search in few rounds of several step sizes each: a round is a question of a cluster."""

from collections.abc import Callable

import numpy as np

from ..solver.bracket import Bracket, Point
from ..solver.line_search import line_search

#: Step sizes of the first round, in parts of the longest step or of 1.
FIRST_SIZES = np.array([1 / 64, 1 / 16, 1 / 4, 1 / 2, 3 / 4, 1.0])

#: Parts of a bracket that each later round looks at.
INSIDE = (0.25, 0.5, 0.75)

#: Newton's method ends at a change by this share of the step size: its next error is
#: the square.
CLOSE = 1e-8

#: A slope is zero up to this share of the first one.
FLAT = 4e-16


def search(slopes: Callable[[np.ndarray], np.ndarray], max_step_size: float) -> float:
    """Return the step size that minimises a convex value.

    Parameters
    ----------
    slopes : callable
        From step sizes to the first two derivatives at each, shape (n, 2).
    max_step_size : float

    Examples
    --------
    >>> search(lambda sizes: np.column_stack([2.0 * sizes - 1.0, 0.0 * sizes + 2.0]), 1.0)
    0.5
    """
    if not max_step_size > 0.0:
        return 0.0

    def look(sizes: np.ndarray) -> list[Point]:
        pairs = zip(sizes.tolist(), slopes(sizes).tolist(), strict=True)
        return [Point(size, *derivatives) for size, derivatives in pairs]

    sizes = [0.0, *min(1.0, max_step_size) * FIRST_SIZES, max_step_size]
    points = look(np.unique(sizes))
    if not points[0].slope < 0.0:
        return 0.0
    flat = FLAT * -points[0].slope
    while True:
        bracket = Bracket.among(points)
        if bracket is None:
            return float(max_step_size)
        low = bracket.low
        high = bracket.high
        if abs(high.slope) <= flat:  # the minimum, or one of many: the first is wanted
            return line_search(
                lambda size: slopes(np.array([size]))[0].tolist(), max_step_size
            )
        inside = sizes_inside(bracket)
        if abs(low.newton - low.size) <= CLOSE * low.size or not len(inside):
            if not low.curvature > 0.0:
                return low.size
            return min(max(low.newton, low.size), high.size)
        if abs(high.newton - high.size) <= CLOSE * high.size:
            return max(high.newton, low.size)
        points = [low, *look(inside), high]


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
