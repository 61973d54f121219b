"""The step that minimises a convex function along a line, from its slopes."""

from collections.abc import Callable

import numpy as np

#: From a step size to the first two derivatives of the value.
Slopes = Callable[[float], tuple[float, float]]


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
    slope, curvature = slopes(0.0)
    if not slope < 0.0 or max_step_size <= 0.0:
        return 0.0
    tiny = 1e-13 * -slope  # sums of millions of terms are not known better
    low = 0.0
    low_slope = slope
    high = max_step_size
    high_slope = np.nan
    step = 0.0
    start = 0.0 if sampled is None else line_search(sampled, max_step_size)
    for _ in range(200):
        guess = start or (step - slope / curvature if curvature > 0.0 else np.inf)
        start = 0.0
        if guess >= high and np.isnan(high_slope):
            guess = high  # is the far end still downhill?
        elif not low < guess < high:
            guess = _between(low, high, low_slope, high_slope)
        if not low < guess <= high or (guess == high and not np.isnan(high_slope)):
            break  # no number left between the two
        moved = abs(guess - step)
        step = guess
        slope, curvature = slopes(step)
        if slope < 0.0:
            low = step
            low_slope = slope
            if step == max_step_size:
                return max_step_size
        else:
            high = step
            high_slope = slope
        if abs(slope) <= tiny or moved <= 1e-16 * step:
            break
    if abs(slope) <= tiny or np.isnan(high_slope):
        return step
    return low if -low_slope < high_slope else high


def _between(low: float, high: float, low_slope: float, high_slope: float) -> float:
    """Return a point inside a bracket: where the chord crosses zero, away from both ends."""
    if np.isnan(high_slope):
        return 0.5 * (low + high)
    share = low_slope / (low_slope - high_slope)
    return low + min(max(share, 0.05), 0.95) * (high - low)
