"""Losses of a margin, by name.

A loss is a class with ``value``, ``derivative`` and ``curvature`` (``protocols.Loss``).
To add one, write the class and add it to ``LOSSES``; ``cli/fit.py`` lists the names for
the command line. To make it fast, give it a number in ``CODES`` and write its function
of one margin in ``cpu/kernels/losses.py`` too.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from .protocols import Loss

#: Below this margin the exponential loss goes on as its tangent: e^(10^6) is not a
#: number.
EXPONENTIAL_TAIL = -30.0


@dataclass(frozen=True)
class SmoothedHinge:
    """Hinge loss of a margin, rounded by a parabola on (0, 1): the paper's."""

    smoothness = 1.0  #: Lipschitz constant of the derivative.

    def value(self, margin: np.ndarray) -> np.ndarray:
        """Return 0 from margin 1 on, 1/2 - m below 0, (1 - m)²/2 between."""
        return 0.5 * (1.0 - np.clip(margin, 0.0, 1.0)) ** 2 - np.minimum(margin, 0.0)

    def derivative(self, margin: np.ndarray) -> np.ndarray:
        """Return the derivative."""
        return np.clip(margin, 0.0, 1.0) - 1.0

    def curvature(self, margin: np.ndarray) -> np.ndarray:
        """Return 1 on [0, 1] and 0 elsewhere."""
        return np.where((margin >= 0.0) & (margin <= 1.0), 1.0, 0.0)


@dataclass(frozen=True)
class SquaredHinge:
    """max(0, 1 - m)²."""

    smoothness = 2.0

    def value(self, margin: np.ndarray) -> np.ndarray:
        """Return the loss of each margin."""
        return np.maximum(1.0 - margin, 0.0) ** 2

    def derivative(self, margin: np.ndarray) -> np.ndarray:
        """Return the derivative."""
        return -2.0 * np.maximum(1.0 - margin, 0.0)

    def curvature(self, margin: np.ndarray) -> np.ndarray:
        """Return 2 below margin 1 and 0 from there on."""
        return np.where(margin < 1.0, 2.0, 0.0)


@dataclass(frozen=True)
class Logistic:
    """log(1 + e^-m)."""

    smoothness = 0.25

    def value(self, margin: np.ndarray) -> np.ndarray:
        """Return the loss of each margin."""
        return np.logaddexp(0.0, -margin)

    def derivative(self, margin: np.ndarray) -> np.ndarray:
        """Return the derivative."""
        e = np.exp(-np.abs(margin))
        return -np.where(margin > 0.0, e, 1.0) / (1.0 + e)

    def curvature(self, margin: np.ndarray) -> np.ndarray:
        """Return the second derivative."""
        e = np.exp(-np.abs(margin))
        return e / (1.0 + e) ** 2


@dataclass(frozen=True)
class Exponential:
    """e^-m, continued by its tangent below m = -30, so that no margin overflows."""

    smoothness = float(np.exp(-EXPONENTIAL_TAIL))

    def value(self, margin: np.ndarray) -> np.ndarray:
        """Return the loss of each margin."""
        inside = np.maximum(margin, EXPONENTIAL_TAIL)
        return np.exp(-inside) * (1.0 + (inside - margin))

    def derivative(self, margin: np.ndarray) -> np.ndarray:
        """Return the derivative."""
        return -np.exp(-np.maximum(margin, EXPONENTIAL_TAIL))

    def curvature(self, margin: np.ndarray) -> np.ndarray:
        """Return e^-m, and 0 on the tangent."""
        inside = np.maximum(margin, EXPONENTIAL_TAIL)
        return np.where(margin < EXPONENTIAL_TAIL, 0.0, np.exp(-inside))


LOSSES: dict[str, Any] = {
    "smoothed_hinge": SmoothedHinge,
    "squared_hinge": SquaredHinge,
    "logistic": Logistic,
    "exponential": Exponential,
}

#: Numbers of the losses that kernels know; others are computed by NumPy.
CODES: dict[type, int] = {
    SmoothedHinge: 0,
    SquaredHinge: 1,
    Logistic: 2,
    Exponential: 3,
}


def get(loss: str | Loss) -> Loss:
    """Return the loss of a name; a loss object comes back as it is.

    Examples
    --------
    >>> get("smoothed_hinge").value(np.array([-1.0, 0.5, 2.0])).tolist()
    [1.5, 0.125, 0.0]
    """
    return LOSSES[loss]() if isinstance(loss, str) else loss


def is_loss(candidate: Any) -> bool:
    """Return whether an object has the methods of a loss."""
    names = ("value", "derivative", "curvature")
    return all(callable(getattr(candidate, name, None)) for name in names)


class CheckedLoss:
    """A loss from outside the library: compiled code trusts its answers, so they are checked.

    It is given margins that it cannot change.

    Parameters
    ----------
    loss : Loss
    """

    def __init__(self, loss: Loss) -> None:
        self.loss = loss

    def value(self, margin: np.ndarray) -> np.ndarray:
        """Return the loss of each margin; raise ValueError unless all are finite floats."""
        return self._answer("value", margin)

    def derivative(self, margin: np.ndarray) -> np.ndarray:
        """Return the derivative."""
        return self._answer("derivative", margin)

    def curvature(self, margin: np.ndarray) -> np.ndarray:
        """Return the second derivative."""
        return self._answer("curvature", margin)

    def _answer(self, method: str, margin: np.ndarray) -> np.ndarray:
        read_only = margin.view()
        read_only.flags.writeable = False
        found = np.asarray(getattr(self.loss, method)(read_only))
        expected = f"{method}() of the loss must return one finite float per margin."
        if found.shape != margin.shape or found.dtype.kind != "f":
            raise ValueError(
                f"{expected} Got dtype {found.dtype} and shape {found.shape} for "
                f"margins of shape {margin.shape}."
            )
        bad = np.flatnonzero(~np.isfinite(found))
        if len(bad):
            raise ValueError(
                f"{expected} Got {found[bad[0]]} for the margin {margin[bad[0]]:.6g}."
            )
        return np.ascontiguousarray(found, dtype=np.float64)


def checked(loss: Loss) -> Loss:
    """Return a loss that is safe to use: one of the library as it is, another one checked."""
    return loss if type(loss) in LOSSES.values() else CheckedLoss(loss)
