"""The step that minimises a convex function along a line, from its slopes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

#: Step size, slope and curvature.
Point = tuple[float, float, float]

#: Points beyond a step of Newton's, in such steps.
BEYOND = (1.5, 2.2, 3.3)

#: Newton's method is at its end where it moves by this share of the step size.
CLOSE = 1e-10


def line_search(slopes: Callable[[float], tuple[float, float]], max_step_size: float) -> float:
    """Return the step size in [0, max_step_size] that minimises the value.

    Newton's method on the derivative, inside a bracket. For the hinge losses the derivative is
    piecewise linear, so that a Newton step from the right piece is exact; for others it goes on to
    a relative 1e-12.

    Parameters
    ----------
    slopes : callable
        From a step size to the first two derivatives of the value.
    max_step_size : float

    Examples
    --------
    >>> line_search(lambda size: (2.0 * size - 1.0, 2.0), 1.0)
    0.5
    """
    slope, curvature = slopes(0.0)
    if not slope < 0.0 or max_step_size <= 0.0:
        return 0.0
    tiny = 4e-16 * -slope
    low, low_slope, high, high_slope = 0.0, slope, max_step_size, np.nan
    step = 0.0
    for _ in range(200):
        guess = step - slope / curvature if curvature > 0.0 else np.inf
        if guess >= high and np.isnan(high_slope):
            guess = high  # is the far end still downhill?
        elif not low < guess < high:
            guess = _between(low, high, low_slope, high_slope)
        if not low < guess <= high or (guess == high and not np.isnan(high_slope)):
            break  # no number left between the two
        moved, step = abs(guess - step), guess
        slope, curvature = slopes(step)
        if slope < 0.0:
            low, low_slope = step, slope
            if step == max_step_size:
                return max_step_size
        else:
            high, high_slope = step, slope
        if abs(slope) <= tiny or moved <= 1e-16 * step:
            break
    if abs(slope) <= tiny or np.isnan(high_slope):
        return step
    return low if -low_slope < high_slope else high


def search_in_rounds(
    slopes: Callable[[Sequence[float]], np.ndarray], max_step_size: float
) -> float:
    """Return the step size that `line_search` finds, up to rounding, in few rounds of questions.

    For a value that is far away: a round asks for several step sizes at once. The first asks for
    both ends of the bracket; the others for Newton's guess from its low end and for points beyond
    it, where the root is as a rule since curvature falls, and for guesses from the high end.

    Parameters
    ----------
    slopes : callable
        From step sizes to the first two derivatives of the value at each, shape (n, 2).
    max_step_size : float

    Examples
    --------
    >>> search_in_rounds(lambda sizes: np.array([(2.0 * size - 1.0, 2.0) for size in sizes]), 1.0)
    0.5
    """
    if max_step_size <= 0.0:
        return 0.0
    low, high = _rows_of([0.0, float(max_step_size)], slopes)
    if not low[1] < 0.0:
        return 0.0
    if high[1] < 0.0:
        return high[0]
    tiny = 4e-16 * -low[1]
    for _ in range(200):
        first, *others = _guesses(low, high)
        asked = sorted({guess for guess in (first, *others) if low[0] < guess < high[0]})
        if not asked:
            break
        for point in _rows_of(asked, slopes):
            step, slope, bend = point
            # Where nothing bends all around are as good, and the first guess is the smallest.
            if abs(slope) <= max(tiny, CLOSE * step * bend) and (bend > 0.0 or step == first):
                last = step - slope / bend if abs(slope) > tiny else step
                return min(max(last, low[0]), high[0])
            if slope < 0.0:
                low = point
            else:
                high = point
                break
    return low[0] if -low[1] < high[1] else high[0]


def _guesses(low: Point, high: Point) -> list[float]:
    """Return where the slope may be zero, first Newton's guess from the low end."""
    (a, slope, bend), (b, high_slope, high_bend) = low, high
    move = -slope / bend if bend > 0.0 else np.inf
    found = [a + move, *(a + factor * move for factor in BEYOND)]
    found.append(_between(a, b, slope, high_slope))
    if high_bend > 0.0 and b < 2.0 * a:  # from afar it is no better than the chord
        found.append(b - high_slope / high_bend)
    return found


def _rows_of(sizes: list[float], slopes: Callable[[Sequence[float]], np.ndarray]) -> list[Point]:
    """Return step size, slope and curvature at each of some sizes."""
    return [(size, *found) for size, found in zip(sizes, slopes(sizes).tolist(), strict=True)]


def _between(low: float, high: float, low_slope: float, high_slope: float) -> float:
    """Return a point inside a bracket: where the chord crosses zero, away from both ends."""
    if np.isnan(high_slope):
        return 0.5 * (low + high)
    share = low_slope / (low_slope - high_slope)
    return low + min(max(share, 0.05), 0.95) * (high - low)
