"""The step that minimises a convex function along a line, from its slopes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

#: Step sizes at which a part of the comparisons is asked for slopes, in parts of the longest step.
SIZES = 1.5 ** np.arange(-23.0, 1.0)

#: Newton's method ends with a move by this share of the step size: the next one is the square.
CLOSE = 1e-7


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
    begin: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]],
    slopes: Callable[[float], tuple[float, float]],
    max_step_size: float,
) -> float:
    """Return the step size that `line_search` finds, up to rounding, in few questions.

    For a value that is far away and dear. The first question brings the slopes at 0, and those of a
    part of the comparisons at many step sizes. They say where Newton's method starts: near the end,
    as a rule, where it needs few steps.

    Parameters
    ----------
    begin : callable
        From step sizes to the first two derivatives of the value at 0, and of a part of the value
        at each of the sizes, shape (n, 2).
    slopes : callable
        From a step size to the first two derivatives of the value.
    max_step_size : float

    Examples
    --------
    >>> at = lambda size: (2.0 * size - 1.0, 2.0)
    >>> search_in_rounds(lambda sizes: (at(0.0), np.array([at(x) for x in sizes])), at, 1.0)
    0.5
    """
    if max_step_size <= 0.0:
        return 0.0
    sizes = max_step_size * SIZES
    (slope, bend), part = begin(sizes)
    if not slope < 0.0:
        return 0.0
    tiny = 4e-16 * -slope
    low, low_slope, high, high_slope = 0.0, slope, float(max_step_size), np.nan
    from_low = -slope / bend if bend > 0.0 else np.inf  # Newton's guess from the low end
    guess = min(float(_guess(sizes, part, from_low)), high)
    for _ in range(200):
        slope, bend = slopes(guess)
        if slope < 0.0:
            low, low_slope = guess, slope
            from_low = guess - slope / bend if bend > 0.0 else np.inf
            if guess == max_step_size:
                return guess
        else:
            high, high_slope = guess, slope
        if bend <= 0.0 and abs(slope) <= tiny:  # all around are as good: which one is it?
            return line_search(slopes, max_step_size)
        move = -slope / bend if bend > 0.0 else np.inf * -slope
        if abs(slope) <= tiny or abs(move) <= CLOSE * guess:
            return min(max(guess + move, low), high)
        guess += move
        if guess >= high and np.isnan(high_slope):
            guess = high
        elif not low < guess < high:
            is_inside = low < from_low < high
            guess = from_low if is_inside else _between(low, high, low_slope, high_slope)
        if not low < guess <= high or (guess == high and not np.isnan(high_slope)):
            break
    if np.isnan(high_slope):
        return low
    return low if -low_slope < high_slope else high


def _guess(sizes: np.ndarray, part: np.ndarray, newton: float) -> float:
    """Return where slopes at rising sizes cross zero; `newton` is the guess from 0."""
    slopes, bends = part.T
    k = int(np.argmax(slopes >= 0.0))
    if not slopes[k] >= 0.0:
        return float(sizes[-1])
    if k == 0:
        return newton
    width = sizes[k] - sizes[k - 1]
    t = np.linspace(0.0, 1.0, 257)
    between = (
        (1 + 2 * t) * (1 - t) ** 2 * slopes[k - 1]
        + t * (1 - t) ** 2 * width * bends[k - 1]
        + t**2 * (3 - 2 * t) * slopes[k]
        + t**2 * (t - 1) * width * bends[k]
    )  # the cubic with these slopes and bends at both ends
    at = max(int(np.argmax(between >= 0.0)), 1)
    return _between(*(sizes[k - 1] + width * t[at - 1 : at + 1]), *between[at - 1 : at + 1])


def _between(low: float, high: float, low_slope: float, high_slope: float) -> float:
    """Return a point inside a bracket: where the chord crosses zero, away from both ends."""
    if np.isnan(high_slope):
        return 0.5 * (low + high)
    share = low_slope / (low_slope - high_slope)
    return low + min(max(share, 0.05), 0.95) * (high - low)
