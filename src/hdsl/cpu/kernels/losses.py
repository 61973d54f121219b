"""Losses of one margin: one function per loss, of the margin and the order of the derivative.

A loss without such a function is computed by NumPy from its own methods, and reaches the kernels as
numbers: its code is GIVEN.
"""

import numpy as np

from ...solver import losses
from .compiler import kernel

GIVEN, SMOOTHED_HINGE, SQUARED_HINGE, LOGISTIC, EXPONENTIAL = -1, 0, 1, 2, 3

CODES: dict[type, int] = {
    losses.SmoothedHinge: SMOOTHED_HINGE,
    losses.SquaredHinge: SQUARED_HINGE,
    losses.Logistic: LOGISTIC,
    losses.Exponential: EXPONENTIAL,
}

#: That of ``core.losses``, written out: what is compiled depends on this folder alone.
TAIL = -30.0


@kernel(inline="always")
def smoothed_hinge(m, order):
    """Hinge loss, rounded by a parabola on (0, 1); no branches, so that loops fill registers."""
    y = m if m > 0.0 else 0.0
    y = y if y < 1.0 else 1.0
    if order == 0:
        return 0.5 * (1.0 - y) * (1.0 - y) - (m if m < 0.0 else 0.0)
    if order == 1:
        return y - 1.0
    return 1.0 if y == m else 0.0


@kernel()
def squared_hinge(m, order):
    """max(0, 1 - m)²."""
    if not m < 1.0:
        return 0.0
    if order == 0:
        return (1.0 - m) * (1.0 - m)
    return 2.0 * (m - 1.0) if order == 1 else 2.0


@kernel()
def logistic(m, order):
    """log(1 + e^-m)."""
    if order == 0:
        return np.log1p(np.exp(-m)) if m > 0.0 else np.log1p(np.exp(m)) - m
    if order == 1:
        return -np.exp(-m) / (1.0 + np.exp(-m)) if m > 0.0 else -1.0 / (1.0 + np.exp(m))
    e = np.exp(-abs(m))
    return e / ((1.0 + e) * (1.0 + e))


@kernel()
def exponential(m, order):
    """e^-m, continued by its tangent below the tail."""
    if order == 0:
        return np.exp(-m) if m >= TAIL else np.exp(-TAIL) * (1.0 + TAIL - m)
    if order == 1:
        return -np.exp(-max(m, TAIL))
    return np.exp(-m) if m >= TAIL else 0.0


@kernel()
def loss(code, m, order):
    """Return the loss of a margin (order 0) or its first or second derivative."""
    if code == SMOOTHED_HINGE:
        return smoothed_hinge(m, order)
    if code == SQUARED_HINGE:
        return squared_hinge(m, order)
    if code == LOGISTIC:
        return logistic(m, order)
    if code == EXPONENTIAL:
        return exponential(m, order)
    return m  # GIVEN: the number is what was asked for
