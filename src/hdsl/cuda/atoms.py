"""Many atoms at once on a card: similarities of pairs of rows, and scores.

Each is a pass over the pairs of compared rows, with two short rows of Z each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from .comparisons import CardData
from .pulls import Pulls
from .rows import Sparse, cut_to_fit
from .runtime import WARPS, Array


def atom_code(atom: Sequence[int], n_features: int) -> int:
    """Return the code of an atom (i, j, sign).

    Examples
    --------
    >>> atom_code((1, 2, -1), n_features=10), atom_code((1, 2, 1), n_features=10)
    (24, 25)
    """
    i, j, sign = atom
    return int(2 * (i * n_features + j) + (sign > 0))


def atom_codes(atoms: np.ndarray, n_features: int) -> list[int]:
    """Return the code of each row (i, j, sign)."""
    i, j, sign = atoms.T
    return (2 * (i * n_features + j) + (sign > 0)).tolist()


def atom_of_code(code: int, n_features: int) -> tuple[int, int, int]:
    """Return the atom of a code.

    Examples
    --------
    >>> atom_of_code(24, n_features=10)
    (1, 2, -1)
    """
    i, j = divmod(code >> 1, n_features)
    sign = 2 * (code & 1) - 1
    return i, j, sign


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


#: Most atoms of a question whose terms are stored; half as many again have space.
MOST_SINGLE = 512

#: First space for terms, of 12 bytes each, and the most.
LEAST_TERMS = 1 << 24
TERMS_LIMIT = 1 << 27

#: Parts that the sum of an atom is made of, as in the kernels.
SCORE_PARTS = 32

#: Most chunks of pairs that warps look at, and fewest pairs of each.
MOST_CHUNKS = 4096
SHORTEST = 128


def pair_chunks(n_pairs: int) -> tuple[int, int]:
    """Return the length of chunks of pairs, and their number."""
    length = max(SHORTEST, -(-n_pairs // MOST_CHUNKS))
    return length, -(-n_pairs // length)


def most_terms(n_pairs: int) -> int:
    """Return the most terms that there is space for."""
    return min(TERMS_LIMIT, MOST_SINGLE * n_pairs)


class TermSpace(NamedTuple):
    """Space for terms z_a z_b of pairs {a, b}: the pair and the product of each."""

    pair: Array
    value: Array


class AtomTerms:
    """Σ_s w_s z_a z_b over the pairs s = {a, b}, for single atoms with stored terms.

    A step finds the terms of its atom, and queues the sums of all atoms that are
    stored. Whether there is space for some atoms depends on these alone: what is stored
    changes no answer. Atoms go by their codes.

    The store on the card is a list of numbers: how many atoms and how many terms it
    has, and then, of each atom, where its terms begin and how many it has. Kernels
    write the last two of an atom that does not fit as well, after all others.

    Parameters
    ----------
    card : CardData
    """

    #: Where the store has its number of atoms, and the list of atoms.
    _N_ATOMS = 0
    _ATOMS = 2

    def __init__(self, card: CardData) -> None:
        self.card = card
        self.device = card.device
        device = card.device
        self._chunk_length, self._n_chunks = pair_chunks(card.comparisons.n_pairs)
        self._most_atoms = 3 * MOST_SINGLE // 2
        self._most_terms = most_terms(card.comparisons.n_pairs)
        self._unfolding_numbers = device.zeros(Unfolding.SIZE, np.int64)
        self._host_unfolding_numbers = device.host(Unfolding.SIZE, np.int64)
        self._unfolding = Unfolding(
            card, self._unfolding_numbers, self._host_unfolding_numbers
        )
        self._n_upto = device.empty(self._n_chunks + 2, np.int64)
        store_size = self._ATOMS + 2 * (self._most_atoms + 1)
        self._store = device.zeros(store_size, np.int64)
        self._host_store = device.host(store_size, np.int64)
        self._partial = device.empty(SCORE_PARTS * self._most_atoms)
        self._sums = device.empty(self._most_atoms)
        self._host_sums = device.host(self._most_atoms)
        self._n_terms: dict[int, int] = {}  # of dropped atoms too
        self._version = 0  # of the sums on the host
        self._expected: int | None = None  # whose terms are being found
        self._space = TermSpace(device.empty(1, np.int32), device.empty(1))
        self.clear()

    def clear(self) -> None:
        """Drop all terms."""
        self._positions: dict[int, int] = {}
        self.device.clear(self._store)

    @property
    def capacity(self) -> int:
        """How many terms there is space for."""
        return len(self._space.pair)

    def expect(self, atom: Any) -> bool:
        """Return whether the terms of an atom are to be found; None is no atom."""
        self._expected = None
        if atom is not None:
            self._expect_code(atom_code(atom, self.card.rows.n_features))
        return self._expected is not None

    def _expect_code(self, code: int) -> None:
        is_full = len(self._positions) == self._most_atoms
        is_known = code in self._positions
        self._expected = None
        if not is_known and not is_full:
            self._expected = code

    def queue_find(self, unfolding: Unfolding) -> None:
        """Queue the search for the terms of an unfolded atom, where its flag is set.

        They are counted, and then listed where there is space for them.
        """
        self._queue_find(unfolding, None, None)
        self._queue_find(unfolding, self._space.pair, self._space.value)

    def _queue_find(
        self, unfolding: Unfolding, pair: Array | None, value: Array | None
    ) -> None:
        comparisons = self.card.comparisons
        self.device.run(
            "atom_terms",
            self._n_chunks,
            per_block=WARPS,
            atom=unfolding.numbers,
            n_pairs=comparisons.n_pairs,
            chunk=self._chunk_length,
            a=comparisons.pairs.a,
            b=comparisons.pairs.b,
            u=self.card.workspace.u,
            n_upto=self._n_upto,
            ticket=self.card.workspace.ticket,
            capacity=self.capacity,
            store=self._store,
            pair=pair,
            value=value,
        )

    def queue_sums(self, w: Array) -> None:
        """Queue the sums of all atoms that are stored, with one number per pair."""
        self.device.run(
            "term_sums",
            len(self._partial),
            per_block=1,
            store=self._store,
            pair=self._space.pair,
            value=self._space.value,
            w=w,
            partial=self._partial,
            ticket=self.card.workspace.ticket,
            out=self._sums,
        )
        self.device.copy(self._host_sums, self._sums)
        self.device.copy(self._host_store, self._store)

    def take_results(self, pulls: Pulls | None = None) -> None:
        """Take note of what the queue has done, which has run.

        Parameters
        ----------
        pulls : Pulls, default=None
            Whose numbers the sums were made with.
        """
        self._version += 1
        if pulls is not None:
            pulls.term_version = self._version
        if self._expected is None:
            return
        position = len(self._positions)
        n_terms = self._host_store[self._ATOMS + 2 * position + 1]
        self._n_terms[self._expected] = int(n_terms)
        if self._host_store[self._N_ATOMS] > position:
            self._positions[self._expected] = position

    def sums(self, codes: list[int], pulls: Pulls) -> np.ndarray | None:
        """Return the sums of some atoms; None where their terms do not fit together."""
        has_all = self._positions.keys() >= set(codes)
        if not has_all and not self._find(codes):
            return None
        if pulls.term_version != self._version:
            self.queue_sums(pulls.w)
            self.device.wait()
            self._expected = None
            self.take_results(pulls)
        return self._host_sums[[self._positions[code] for code in codes]]

    def _find(self, codes: list[int]) -> bool:
        """Have the terms of all these atoms; drop others where there is no space."""
        n_known_terms = sum(self._n_terms.get(code, 0) for code in codes)
        if len(codes) > MOST_SINGLE or n_known_terms > TERMS_LIMIT:
            return False
        while not all(self._add(code) for code in codes):
            has_place = len(self._positions) < self._most_atoms
            if has_place and self.capacity < self._most_terms:
                self._grow()
            elif self._positions.keys() <= set(codes):
                return False
            else:
                self.clear()
        return True

    def _grow(self) -> None:
        """Double the space, and keep what is there."""
        n_terms = min(max(2 * self.capacity, LEAST_TERMS), self._most_terms)
        smaller = self._space
        self._space = TermSpace(
            self.device.empty(n_terms, np.int32), self.device.empty(n_terms)
        )
        self.device.copy(self._space.pair, smaller.pair)
        self.device.copy(self._space.value, smaller.value)

    def _add(self, code: int) -> bool:
        """Find the terms of an atom, and return whether they are stored."""
        self._expect_code(code)
        if self._expected is not None:
            atom = atom_of_code(code, self.card.rows.n_features)
            self._unfolding.write(atom, finds_terms=True)
            self.device.copy(self._unfolding_numbers, self._host_unfolding_numbers)
            self._unfolding.queue_unfold()
            self.queue_find(self._unfolding)
            self._unfolding.queue_fold()
            self.device.copy(self._host_store, self._store)
            self.device.wait()
            self.take_results()
        return code in self._positions


class Atoms:
    """Sums over pairs of rows for a list of atoms.

    Parameters
    ----------
    card : CardData

    Attributes
    ----------
    rows : AtomRows
    terms : AtomTerms
    """

    def __init__(self, card: CardData) -> None:
        self.card = card
        self.device = card.device
        self.rows = AtomRows(card)
        self.terms = AtomTerms(card)

    def reset(self) -> None:
        """Drop the rows that are remembered."""
        self.rows.reset()

    def queue_similarities(
        self, atoms: np.ndarray, factors: np.ndarray, out: Array
    ) -> None:
        """Queue Σ_k factor_k z_ak z_bk of every pair {a, b} of rows."""
        if not len(atoms):
            self.device.clear(out)
        for block in self.rows.blocks(atoms):
            self._queue_block(block, factors, out)

    def _queue_block(self, block: AtomBlock, factors: np.ndarray, out: Array) -> None:
        """Queue the similarities of a block of atoms, or add them to those before."""
        comparisons = self.card.comparisons
        base = 1.0
        if block.first == 0:
            base = 0.0
        self.device.run(
            "pair_values",
            comparisons.n_pairs,
            n_pairs=comparisons.n_pairs,
            a=comparisons.pairs.a,
            b=comparisons.pairs.b,
            ptr=block.z.ptr,
            idx=block.z.idx,
            val=block.z.val,
            weight=self.device.upload(factors[block.first : block.last]),
            factor=1.0,
            base=base,
            out=out,
        )

    def scores(self, atoms: np.ndarray, pulls: Pulls) -> np.ndarray:
        """Return Σ_s w_s z_ak z_bk of each atom k; others change no bit of it.

        Active atoms are some of the last correction, whose rows are remembered. Where
        they come one by one, the terms of each are stored.
        """
        codes = atom_codes(atoms, self.card.rows.n_features)
        remembered = self.rows.find(codes)
        if remembered is not None:
            block, positions = remembered
            return self._block_scores(block, pulls.w)[positions]
        sums = self.terms.sums(codes, pulls)
        if sums is not None:
            return sums
        blocks = self.rows.blocks(atoms)
        scores = [self._block_scores(block, pulls.w) for block in blocks]
        return np.concatenate([np.empty(0), *scores])

    def _block_scores(self, block: AtomBlock, w: Array) -> np.ndarray:
        """Return the scores of a block: chunks of pairs are summed, and then these."""
        device = self.device
        comparisons = self.card.comparisons
        n_atoms = block.last - block.first
        chunk_length, n_chunks = pair_chunks(comparisons.n_pairs)
        partial = device.empty(n_chunks * n_atoms)
        scores = device.empty(n_atoms)
        device.run(
            "score_parts",
            n_chunks,
            per_block=WARPS,
            n_pairs=comparisons.n_pairs,
            chunk=chunk_length,
            n_atoms=n_atoms,
            a=comparisons.pairs.a,
            b=comparisons.pairs.b,
            w=w,
            ptr=block.z.ptr,
            atom=block.z.idx,
            z=block.z.val,
            partial=partial,
        )
        device.run(
            "add_parts",
            n_atoms,
            per_block=1,
            n_parts=n_chunks,
            n_atoms=n_atoms,
            partial=partial,
            out=scores,
        )
        return device.download(scores)
