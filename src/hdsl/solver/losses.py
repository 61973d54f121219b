"""Losses of a margin, by name.

A loss is a class with ``value``, ``derivative`` and ``curvature`` (``protocols.Loss``).
To add one, write the class here and list it in ``LOSSES``. NumPy computes it on one
thread. To make it fast, give it a ``code``, and write its branch in the functions of
one margin: ``cpu/kernels/losses.py`` and ``cuda/kernels/base.cu``.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .protocols import Loss


@dataclass(frozen=True)
class SmoothedHinge:
    """Hinge loss of a margin, rounded by a parabola on (0, 1): the paper's."""

    #: What parameters call it.
    name: ClassVar[str] = "smoothed_hinge"

    #: The number by which kernels know it; None has no kernel.
    code: ClassVar[int | None] = 0

    #: Lipschitz constant of the derivative.
    smoothness: ClassVar[float] = 1.0

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

    name: ClassVar[str] = "squared_hinge"
    code: ClassVar[int | None] = 1
    smoothness: ClassVar[float] = 2.0

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

    name: ClassVar[str] = "logistic"
    code: ClassVar[int | None] = 2
    smoothness: ClassVar[float] = 0.25

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


#: Below this margin the exponential loss continues as its tangent: e^(10^6) is not a
#: number. ``cuda/kernels/base.cu`` has it too.
EXPONENTIAL_TAIL = -30.0


@dataclass(frozen=True)
class Exponential:
    """e^-m, continued by its tangent below m = -30, so that no margin overflows."""

    name: ClassVar[str] = "exponential"
    code: ClassVar[int | None] = 3
    smoothness: ClassVar[float] = float(np.exp(-EXPONENTIAL_TAIL))

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
    cls.name: cls for cls in (SmoothedHinge, SquaredHinge, Logistic, Exponential)
}


def get(loss: str | Loss) -> Loss:
    """Return the loss of a name; a loss object comes back as it is.

    Examples
    --------
    >>> get("smoothed_hinge").value(np.array([-1.0, 0.5, 2.0])).tolist()
    [1.5, 0.125, 0.0]
    """
    if isinstance(loss, str):
        return LOSSES[loss]()
    return loss


def kernel_code(loss: Loss) -> int | None:
    """Return the number by which kernels know a loss; None where NumPy computes it.

    A subclass of a loss of the library has no kernel: it may have another formula.

    Examples
    --------
    >>> kernel_code(Logistic())
    2
    """
    if is_of_library(loss):
        return loss.code  # type: ignore[attr-defined]
    return None


def is_of_library(loss: Loss) -> bool:
    """Return whether a loss is listed, and not a child of one that is."""
    return type(loss) in LOSSES.values()


def has_kernel(name: str) -> bool:
    """Return whether kernels know the loss of a name, which a graphics card needs."""
    return LOSSES[name].code is not None


def names_with_kernel() -> list[str]:
    """Return the names of the losses that kernels know.

    Examples
    --------
    >>> names_with_kernel()
    ['smoothed_hinge', 'squared_hinge', 'logistic', 'exponential']
    """
    return [name for name in LOSSES if has_kernel(name)]


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
        answer = np.asarray(getattr(self.loss, method)(read_only))
        expected = f"{method}() of the loss must return one finite float per margin."
        if answer.shape != margin.shape or answer.dtype.kind != "f":
            raise ValueError(
                f"{expected} Got dtype {answer.dtype} and shape {answer.shape} for "
                f"margins of shape {margin.shape}."
            )
        not_finite = np.flatnonzero(~np.isfinite(answer))
        if len(not_finite):
            k = not_finite[0]
            raise ValueError(
                f"{expected} Got {answer[k]} for the margin {margin[k]:.6g}."
            )
        return np.ascontiguousarray(answer, dtype=np.float64)


def checked(loss: Loss) -> Loss:
    """Return a loss that is safe to use: one of the library as it is, another one checked."""
    if is_of_library(loss):
        return loss
    return CheckedLoss(loss)
