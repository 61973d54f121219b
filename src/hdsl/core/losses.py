"""Losses of a margin: value, derivative, curvature and smoothness constant.

The formulas themselves are in ``_kernels``, once; this module gives them names and arrays.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Loss:
    """A convex, differentiable, non-increasing loss of a margin.

    Attributes
    ----------
    name : str
        As the user spells it.
    code : int
        As the kernels know it.
    smoothness : float
        Lipschitz constant of the derivative.
    reaches_zero : bool
        Whether a large enough margin costs nothing at all.
    piecewise_linear : bool
        Whether the derivative is piecewise linear, so that Newton's line search is exact.
    """

    name: str
    code: int
    smoothness: float
    reaches_zero: bool
    piecewise_linear: bool

    def value(self, margin: np.ndarray) -> np.ndarray:
        """Return the loss of each margin."""
        return self._apply("loss_values", margin)

    def derivative(self, margin: np.ndarray) -> np.ndarray:
        """Return the derivative of the loss at each margin."""
        return self._apply("loss_derivatives", margin)

    def curvature(self, margin: np.ndarray) -> np.ndarray:
        """Return the second derivative of the loss at each margin, 0 at a kink."""
        return self._apply("loss_curvatures", margin)

    def _apply(self, kernel: str, margin: np.ndarray) -> np.ndarray:
        from ..backends.cpu import kernels  # compiled code is loaded when it is first needed

        margin = np.asarray(margin, dtype=np.float64)
        out = np.empty(margin.size)
        getattr(kernels, kernel)(self.code, margin.ravel(), out)
        return out.reshape(margin.shape)


LOSSES = {
    loss.name: loss
    for loss in (
        # 0 from margin 1 on, 1/2 - m below 0, (1 - m)²/2 between: the paper's.
        Loss("smoothed_hinge", 0, 1.0, reaches_zero=True, piecewise_linear=True),
        # max(0, 1 - m)²
        Loss("squared_hinge", 1, 2.0, reaches_zero=True, piecewise_linear=True),
        # log(1 + e^-m)
        Loss("logistic", 2, 0.25, reaches_zero=False, piecewise_linear=False),
        # e^-m, continued below m = -30 by its tangent so that no margin overflows
        Loss("exponential", 3, math.exp(30.0), reaches_zero=False, piecewise_linear=False),
    )
}


def get(name: str) -> Loss:
    """Return the loss of that name.

    Examples
    --------
    >>> get("smoothed_hinge").value(np.array([-1.0, 0.5, 2.0])).tolist()
    [1.5, 0.125, 0.0]
    """
    return LOSSES[name]
