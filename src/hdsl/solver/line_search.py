"""The step that minimises a convex function along a line, from its slopes."""

from collections.abc import Callable

from .bracket import Bracket, Point

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
