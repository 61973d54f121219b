"""Kernels over comparisons: losses and their derivatives along a direction.

`omega` holds the weights of the comparisons; one number where they are all equal. A
loss without a code is computed by NumPy from its own methods, and reaches the kernels
as numbers.
"""

import numpy as np

from ...solver import losses
from .compiled import CHUNK, REORDERED, kernel

SMOOTHED_HINGE = losses.SmoothedHinge.code
SQUARED_HINGE = losses.SquaredHinge.code
LOGISTIC = losses.Logistic.code
EXPONENTIAL = losses.Exponential.code

TAIL = losses.EXPONENTIAL_TAIL


@kernel()
def loss(code, m, order):
    """Return the loss of a margin (order 0) or its first or second derivative."""
    if code == SMOOTHED_HINGE:
        y = min(max(m, 0.0), 1.0)
        if order == 0:
            return 0.5 * (1.0 - y) * (1.0 - y) - min(m, 0.0)
        return y - 1.0 if order == 1 else (1.0 if y == m else 0.0)
    if code == SQUARED_HINGE:
        gap = 1.0 - m if m < 1.0 else 0.0
        if order == 0:
            return gap * gap
        return -2.0 * gap if order == 1 else (2.0 if m < 1.0 else 0.0)
    if code == LOGISTIC:
        e = np.exp(-abs(m))
        if order == 0:
            return np.log1p(e) + (0.0 if m > 0.0 else -m)
        return (
            -(e if m > 0.0 else 1.0) / (1.0 + e)
            if order == 1
            else e / ((1.0 + e) * (1.0 + e))
        )
    e = np.exp(-max(m, TAIL))  # the exponential goes on as its tangent
    if order == 0:
        return e * (1.0 + max(TAIL - m, 0.0))
    return -e if order == 1 else (e if m >= TAIL else 0.0)


@kernel(fastmath=REORDERED)
def along(start, stop, code, margins, direction, step, omega, moved, sums):
    """Write the weighted loss and its first two derivatives in `step`, by chunks of comparisons.

    They are those at margins + step * direction, which is written to `moved` unless
    that is empty.
    """
    for c in range(start, stop):
        value = 0.0
        slope = 0.0
        bend = 0.0
        for t in range(c * CHUNK, min((c + 1) * CHUNK, margins.size)):
            x = margins[t] + step * direction[t]
            weight = omega[t if omega.size > 1 else 0]
            value += weight * loss(code, x, 0)
            slope += weight * direction[t] * loss(code, x, 1)
            bend += weight * direction[t] ** 2 * loss(code, x, 2)
            if moved.size > 0:
                moved[t] = x
        sums[c, 0] = value
        sums[c, 1] = slope
        sums[c, 2] = bend


@kernel(fastmath=REORDERED)
def along_hinge(start, stop, _code, margins, direction, step, omega, moved, sums):
    """Write what `along` writes, of the smoothed hinge with equal weights: the usual case.

    It compiles by itself. Without branches and signed numbers of places, loops fill
    registers.
    """
    for c in range(start, stop):
        end = (c + 1) * CHUNK
        end = end if end < margins.size else margins.size
        first = np.uint64(c * CHUNK)
        last = np.uint64(end)
        value = 0.0
        slope = 0.0
        bend = 0.0
        for t in range(first, last):
            d = direction[t]
            x = margins[t] + step * d
            y = x if x > 0.0 else 0.0
            y = y if y < 1.0 else 1.0
            value += 0.5 * (1.0 - y) * (1.0 - y) - (x if x < 0.0 else 0.0)
            slope += d * (y - 1.0)
            bend += d * d if y == x else 0.0
        for t in range(first, last if moved.size > 0 else first):
            moved[t] = margins[t] + step * direction[t]
        sums[c, 0] = omega[0] * value
        sums[c, 1] = omega[0] * slope
        sums[c, 2] = omega[0] * bend
