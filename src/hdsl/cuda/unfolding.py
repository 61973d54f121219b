"""Two atoms that kernels read, unfolded to one number per row."""

from typing import Any

import numpy as np

from .data import CardData
from .runtime import Array

#: Numbers of no atoms: i, j, sign and a flag, of two atoms.
_NO_ATOMS = np.array([-1, -1, 0, 0, -1, -1, 0, 0])


class Unfolding:
    """Two atoms; kernels write x_i ± x_j of every row to u and v of the workspace.

    Parameters
    ----------
    card : CardData
    numbers, host_numbers : Array and ndarray of int64 of shape (SIZE,)
        The atoms on both sides, as kernels read them: i, j, sign and a flag of each. No
        atom has an i of -1. The flag of the first says whether its terms are to be
        found and stored.
    """

    #: Length of the arrays.
    SIZE = len(_NO_ATOMS)

    def __init__(
        self, card: CardData, numbers: Array, host_numbers: np.ndarray
    ) -> None:
        self.card = card
        self.numbers = numbers
        self._host_numbers = host_numbers

    def write(
        self, first: Any = None, second: Any = None, *, finds_terms: bool = False
    ) -> None:
        """Write two atoms (i, j, sign), or None for each, on the host."""
        numbers = self._host_numbers
        numbers[:] = _NO_ATOMS
        if first is not None:
            numbers[0:3] = first
            numbers[3] = finds_terms
        if second is not None:
            numbers[4:7] = second

    def queue_unfold(self) -> None:
        """Queue u and v of the atoms, in place of zeros."""
        self._queue_scatter(self.card.rows.by_feature.val)

    def queue_fold(self) -> None:
        """Queue zeros in place of u and v."""
        self._queue_scatter(None)

    def _queue_scatter(self, val: Array | None) -> None:
        rows = self.card.rows
        self.card.device.run(
            "scatter_atoms",
            rows.n,
            atoms=self.numbers,
            ptr=rows.by_feature.ptr,
            idx=rows.by_feature.idx,
            val=val,
            u=self.card.workspace.u,
            v=self.card.workspace.v,
        )
