"""Kernels over comparisons: losses and their derivatives along a direction.

A loss without a code is computed by NumPy from its own methods, and reaches the kernels
as numbers.
"""

from typing import NamedTuple

import numpy as np

from ...solver import losses
from .compiled import REORDERED, kernel

#: Comparisons summed one after the other; longer sums are made of such partial sums.
CHUNK = 4096

SMOOTHED_HINGE = losses.SmoothedHinge.code
SQUARED_HINGE = losses.SquaredHinge.code
LOGISTIC = losses.Logistic.code

TAIL = losses.EXPONENTIAL_TAIL


class MarginLine(NamedTuple):
    """Margins that move along a direction.

    Attributes
    ----------
    margins, direction : ndarray of shape (n_comparisons,)
    weights : ndarray of shape (n_comparisons,) or (1,)
        The weights of the comparisons; one number where they are all equal.
    """

    margins: np.ndarray
    direction: np.ndarray
    weights: np.ndarray


@kernel()
def loss(code, margin, order):
    """Return the loss of a margin (order 0) or its first or second derivative."""
    if code == SMOOTHED_HINGE:
        return _smoothed_hinge(margin, order)
    if code == SQUARED_HINGE:
        return _squared_hinge(margin, order)
    if code == LOGISTIC:
        return _logistic(margin, order)
    return _exponential(margin, order)


@kernel()
def _smoothed_hinge(margin, order):
    """Return a hinge rounded by a parabola on (0, 1), or a derivative of it."""
    clipped = min(max(margin, 0.0), 1.0)
    if order == 0:
        return 0.5 * (1.0 - clipped) * (1.0 - clipped) - min(margin, 0.0)
    if order == 1:
        return clipped - 1.0
    return 1.0 if clipped == margin else 0.0


@kernel()
def _squared_hinge(margin, order):
    """Return the square of the hinge, or a derivative of it."""
    is_curved = margin < 1.0
    below = 1.0 - margin if is_curved else 0.0
    if order == 0:
        return below * below
    if order == 1:
        return -2.0 * below
    return 2.0 if is_curved else 0.0


@kernel()
def _logistic(margin, order):
    """Return log(1 + exp(-margin)), or a derivative of it; nothing overflows."""
    is_won = margin > 0.0
    e = np.exp(-abs(margin))
    if order == 0:
        return np.log1p(e) + (0.0 if is_won else -margin)
    if order == 1:
        return -(e if is_won else 1.0) / (1.0 + e)
    return e / ((1.0 + e) * (1.0 + e))


@kernel()
def _exponential(margin, order):
    """Return exp(-margin), which goes on as its tangent, or a derivative of it."""
    e = np.exp(-max(margin, TAIL))
    if order == 0:
        return e * (1.0 + max(TAIL - margin, 0.0))
    if order == 1:
        return -e
    return e if margin >= TAIL else 0.0


@kernel(fastmath=REORDERED)
def along(start, stop, code, line, step_size, moved, sums):
    """Write the weighted loss and its first two derivatives in the step size, by chunks.

    They are those at margins + step size · direction, which is written to `moved`
    unless that is empty.
    """
    margins = line.margins
    direction = line.direction
    weights = line.weights
    for chunk in range(start, stop):
        value = 0.0
        slope = 0.0
        curvature = 0.0
        for t in range(chunk * CHUNK, min((chunk + 1) * CHUNK, margins.size)):
            margin = margins[t] + step_size * direction[t]
            weight = weights[t if weights.size > 1 else 0]
            value += weight * loss(code, margin, 0)
            slope += weight * direction[t] * loss(code, margin, 1)
            curvature += weight * direction[t] ** 2 * loss(code, margin, 2)
            if moved.size > 0:
                moved[t] = margin
        sums[chunk, 0] = value
        sums[chunk, 1] = slope
        sums[chunk, 2] = curvature


@kernel(fastmath=REORDERED)
def along_hinge(start, stop, _code, line, step_size, moved, sums):
    """Write what `along` writes, of the smoothed hinge with equal weights: the usual case.

    It compiles by itself. Loops without branches and with unsigned numbers of
    comparisons fill vector registers.
    """
    margins = line.margins
    direction = line.direction
    weight = line.weights[0]
    n = margins.size
    for chunk in range(start, stop):
        end = (chunk + 1) * CHUNK
        end = end if end < n else n
        first = np.uint64(chunk * CHUNK)
        last = np.uint64(end)
        value = 0.0
        slope = 0.0
        curvature = 0.0
        for t in range(first, last):
            change = direction[t]
            margin = margins[t] + step_size * change
            clipped = margin if margin > 0.0 else 0.0
            clipped = clipped if clipped < 1.0 else 1.0
            below_zero = margin if margin < 0.0 else 0.0
            value += 0.5 * (1.0 - clipped) * (1.0 - clipped) - below_zero
            slope += change * (clipped - 1.0)
            curvature += change * change if clipped == margin else 0.0
        if moved.size > 0:
            for t in range(first, last):
                moved[t] = margins[t] + step_size * direction[t]
        sums[chunk, 0] = weight * value
        sums[chunk, 1] = weight * slope
        sums[chunk, 2] = weight * curvature
