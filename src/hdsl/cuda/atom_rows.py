"""Rows of many atoms on a card: what each atom takes of each row of X.

Row r of Z holds x_ri ± x_rj of the atoms that have a feature of row r. What an atom
adds to the similarity of rows a and b is z_a z_b.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from .atom_codes import atom_codes
from .data import CardData
from .rows import Sparse
from .runtime import WARPS, Array
from .segments import cut_to_fit

#: Most entries of Z at a time (28 bytes each); where there are more, blocks of atoms
#: take turns.
ENTRIES_LIMIT = 1 << 27


class AtomBlock(NamedTuple):
    """The rows of atoms [first, last) of a list; `z` numbers them from 0."""

    first: int
    last: int
    z: Sparse


class _Remembered(NamedTuple):
    """The rows of a list of atoms, and the position of each by its code."""

    atoms: np.ndarray
    positions: dict[int, int]
    block: AtomBlock


class AtomRows:
    """Makes the rows of lists of atoms, and remembers the last list.

    Parameters
    ----------
    card : CardData
    """

    def __init__(self, card: CardData) -> None:
        self.card = card
        self.device = card.device
        self._mark = self.device.zeros(card.rows.n_numbers, np.int32)
        self._remembered: _Remembered | None = None

    def reset(self) -> None:
        """Drop the rows that are remembered, and all marks."""
        self._remembered = None
        self.device.clear(self._mark)

    def find(self, codes: list[int]) -> tuple[AtomBlock, list[int]] | None:
        """Return remembered rows that have all atoms, and where they are, or None."""
        if self._remembered is None:
            return None
        positions = self._remembered.positions
        if not positions.keys() >= set(codes):
            return None
        return self._remembered.block, [positions[code] for code in codes]

    def blocks(self, atoms: np.ndarray) -> Iterator[AtomBlock]:
        """Yield the rows of blocks of atoms; where there is one, it is remembered."""
        if not len(atoms):
            return
        ends = atoms[:, :2]
        n_entries = np.where(ends < 0, 0, self.card.rows.feature_sizes[ends])
        sizes = n_entries.sum(axis=1)
        if sizes.sum() > ENTRIES_LIMIT:
            self._remembered = None
            bounds = cut_to_fit(sizes, ENTRIES_LIMIT).tolist()
            for first, last in pairwise(bounds):
                yield AtomBlock(first, last, self._rows(atoms[first:last]))
            return
        if not self._remembers(atoms):
            self._remembered = None  # its memory is free before the next one comes
            codes = atom_codes(atoms, self.card.rows.n_features)
            positions = {code: k for k, code in enumerate(codes)}
            block = AtomBlock(0, len(atoms), self._rows(atoms))
            self._remembered = _Remembered(atoms.copy(), positions, block)
        assert self._remembered is not None
        yield self._remembered.block

    def _remembers(self, atoms: np.ndarray) -> bool:
        """Return whether the rows of a list are remembered."""
        if self._remembered is None:
            return False
        return np.array_equal(self._remembered.atoms, atoms)

    def _rows(self, atoms: np.ndarray) -> Sparse:
        """Return the rows of some atoms; features of -1 have no values."""
        device = self.device
        n_rows = self.card.rows.n
        ends = atoms[:, :2].ravel()
        order = np.argsort(ends, kind="stable")
        order = order[ends[order] >= 0]
        features, counts = np.unique(ends[order], return_counts=True)
        packed = device.upload_together(
            features=features,
            starts=np.concatenate([[0], np.cumsum(counts)]),
            atoms=atoms.ravel(),
        )
        atom_of_end = device.upload((order // 2).astype(np.int32))
        lists = {
            "list_ptr": packed.starts,
            "list_atom": atom_of_end,
            "atoms": packed.atoms,
        }
        per_row = device.empty(n_rows, np.int32)
        ptr = device.zeros(n_rows + 1, np.int64)

        self._queue_marks(packed.features, is_set=True)
        self._queue_rows(lists, counts=per_row, ptr=None, atom=None, z=None)
        device.copy(ptr[1:], device.cumsum(per_row))
        n_entries = int(device.download(ptr[n_rows:])[0])
        unsorted_atom = device.empty(n_entries, np.int32)
        unsorted_z = device.empty(n_entries)
        self._queue_rows(lists, counts=None, ptr=ptr, atom=unsorted_atom, z=unsorted_z)
        self._queue_marks(packed.features, is_set=False)

        out = Sparse(
            ptr=ptr,
            idx=device.empty(n_entries, np.int32),
            val=device.empty(n_entries),
        )
        device.run(
            "sort_rows",
            n_rows,
            per_block=WARPS,
            n_rows=n_rows,
            ptr=ptr,
            atom=unsorted_atom,
            z=unsorted_z,
            out_atom=out.idx,
            out_z=out.val,
        )
        return out

    def _queue_marks(self, features: Array, *, is_set: bool) -> None:
        """Queue marks 1, 2, … of some features, or their end."""
        self.device.run(
            "mark_features",
            len(features),
            n=len(features),
            features=features,
            is_set=int(is_set),
            mark=self._mark,
        )

    def _queue_rows(
        self,
        lists: dict[str, Array],
        *,
        counts: Array | None,
        ptr: Array | None,
        atom: Array | None,
        z: Array | None,
    ) -> None:
        """Queue the counts of the atoms of each row, or the atoms and their numbers."""
        rows = self.card.rows
        self.device.run(
            "atom_rows",
            rows.n,
            per_block=WARPS,
            n_rows=rows.n,
            row_ptr=rows.by_row.ptr,
            row_idx=rows.by_row.idx,
            row_val=rows.by_row.val,
            mark=self._mark,
            **lists,
            counts=counts,
            ptr=ptr,
            atom=atom,
            z=z,
        )
