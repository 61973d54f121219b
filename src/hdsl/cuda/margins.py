"""Margins of all comparisons, which stay on the card."""

from typing import Any, NamedTuple

import numpy as np

from .data import CardData
from .pulls import Pulls


class Measures(NamedTuple):
    """The mean loss of some margins, and whether any of its slopes is not 0."""

    value: float
    has_slope: bool


class CUDAMargins:
    """Margins of all comparisons, on the card.

    Parameters
    ----------
    card : CardData

    Attributes
    ----------
    array : Array of shape (n_comparisons,)
    measures : Measures or None
        Where they are known.
    pulls : Pulls or None
        The gradient at these margins, where it was computed ahead.
    """

    def __init__(self, card: CardData) -> None:
        self._device = card.device
        self.array = card.device.empty(card.comparisons.n)
        self.measures: Measures | None = None
        self.pulls: Pulls | None = None

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """Return a copy on the host."""
        return self._device.download(self.array).astype(dtype or np.float64, copy=False)
