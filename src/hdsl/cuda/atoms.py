"""Many atoms at once on a card: margins of models and corrections, scores, second derivatives.

Row r of Z holds x_ri ± x_rj of the atoms that have a feature of row r. Everything else
is a pass over the pairs of compared rows, or over a sample of the comparisons, with two
short rows each.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..solver.protocols import curvature_stride
from .runtime import THREADS, Array
from .segments import cut_to_fit

if TYPE_CHECKING:
    from .gradient import Pulls
    from .on_card import OnCard

#: Most entries of Z at a time (28 bytes each); where there are more, blocks of atoms
#: take turns.
ENTRIES_LIMIT = 1 << 27

#: Numbers of the sample that are laid out at a time, and of the sums of its parts.
SAMPLE_LIMIT = 1 << 25
PARTS_LIMIT = 1 << 22
MOST_PARTS = 64

#: Chunks of pairs that a warp looks at: most of them, and fewest pairs of each.
MOST_CHUNKS = 4096
SHORTEST = 128

#: Most atoms of a question whose terms are stored one by one (half as many again have
#: room), first room for terms (12 bytes each), and most of all. Parts that the score of
#: such an atom is summed in, as in the kernels.
MOST_SINGLE = 512
LEAST_TERMS = 1 << 24
TERMS_LIMIT = 1 << 27
SCORE_PARTS = 32

_WARPS = THREADS // 32


class Z(NamedTuple):
    """Rows of some atoms: numbers in a list of atoms, where rows begin, atoms in each, values."""

    first: int
    last: int
    ptr: Array
    atom: Array
    value: Array

    @property
    def arrays(self) -> tuple[Array, Array, Array]:
        """The rows as CSR arrays."""
        return self.ptr, self.atom, self.value


def _chunks(card: OnCard) -> tuple[int, int]:
    """Return the length of chunks of pairs, and their number."""
    chunk = max(SHORTEST, -(-card.n_pairs // MOST_CHUNKS))
    return chunk, -(-card.n_pairs // chunk)


def most_terms(n_pairs: int) -> int:
    """Return the most terms that there is room for."""
    return min(TERMS_LIMIT, MOST_SINGLE * n_pairs)


class TermSums:
    """Σ_s w_s z_a z_b of single atoms, whose terms z_a z_b are found once and stored.

    A step finds the terms of its atom, and queues the sums of all atoms that are
    stored. Whether there is room for some atoms depends on these alone: what is stored
    changes no answer. Atoms go by their codes, which are found faster than tuples.

    Parameters
    ----------
    card : OnCard
    """

    def __init__(self, card: OnCard) -> None:
        self.card = card
        self.device = card.device
        device = card.device
        (self._chunk, self._n_chunks) = _chunks(card)
        self._told = device.zeros(8, np.int64)
        self._host_told = device.host(8, np.int64)
        self._upto = device.empty(self._n_chunks + 2, np.int64)
        self._most = 3 * MOST_SINGLE // 2
        self._most_terms = most_terms(card.n_pairs)
        # Numbers of atoms and of terms, and of each atom where its terms begin, and how
        # many.
        n = 4 + 2 * self._most
        self._store = device.zeros(n, np.int64)
        self._host_store = device.host(n, np.int64)
        self._part = device.empty(SCORE_PARTS * self._most)
        self._sums = device.empty(self._most)
        self._host_sums = device.host(self._most)
        self._sizes: dict[int, int] = {}  # of dropped ones too
        self._number = 0  # of the last change
        self._expected: int | None = None  # whose terms are being found
        self.room = device.empty(1, np.int32), device.empty(1)
        self.clear()

    def clear(self) -> None:
        """Drop all terms."""
        self._places: dict[int, int] = {}
        self.device.clear(self._store)

    def code(self, i: Any, j: Any, sign: Any) -> Any:
        """Return the number of an atom, or those of many."""
        return 2 * (i * self.card.n_features + j) + (sign > 0)

    def expect(self, atom: int | None) -> bool:
        """Return whether the terms of an atom are to be found."""
        is_known = atom is None or atom in self._places
        self._expected = None if is_known or len(self._places) == self._most else atom
        return self._expected is not None

    def queue_terms(self, told: Array) -> None:
        """Queue the search for the terms of an atom that is unfolded, where it is told to."""
        card = self.card
        for room in ((None, None), self.room):
            self.device.run(
                "atom_terms",
                self._n_chunks,
                told,
                card.n_pairs,
                self._chunk,
                *card.pairs,
                card.u,
                self._upto,
                card.ticket,
                len(self.room[0]),
                self._store,
                *room,
                per_block=_WARPS,
            )

    def queue(self, w: Array) -> None:
        """Queue the sums of all atoms that are stored, with one number per pair of rows."""
        self.device.run(
            "term_sums",
            len(self._part),
            self._store,
            *self.room,
            w,
            self._part,
            self.card.ticket,
            self._sums,
            per_block=1,
        )
        self.device.copy(self._host_sums, self._sums)
        self.device.copy(self._host_store, self._store)

    def take(self, pulls: Pulls | None = None) -> None:
        """Take note of what was found, and of whose numbers the sums are; the queue has run."""
        self._number += 1
        if pulls is not None:
            pulls.number = self._number
        if self._expected is not None:
            at = len(self._places)
            self._sizes[self._expected] = int(self._host_store[3 + 2 * at])
            if self._host_store[0] > at:
                self._places[self._expected] = at

    def sums(self, atoms: list[int], pulls: Pulls) -> np.ndarray | None:
        """Return the sums of some atoms; None where there is no room for all of their terms."""
        if not all(map(self._places.__contains__, atoms)) and not self._find(atoms):
            return None
        if pulls.number != self._number:
            self.queue(pulls.w)
            self.device.wait()
            self.expect(None)
            self.take(pulls)
        return self._host_sums[[*map(self._places.__getitem__, atoms)]]

    def _find(self, atoms: list[int]) -> bool:
        """Have the terms of all these atoms, and drop the others where there is no room."""
        if (
            len(atoms) > MOST_SINGLE
            or sum(self._sizes.get(a, 0) for a in atoms) > TERMS_LIMIT
        ):
            return False
        while not all(map(self._add, atoms)):
            if len(self._places) < self._most and len(self.room[0]) < self._most_terms:
                self._grow()
            elif self._places.keys() <= set(atoms):
                return False
            else:
                self.clear()
        return True

    def _grow(self) -> None:
        n = min(max(2 * len(self.room[0]), LEAST_TERMS), self._most_terms)
        before = self.room
        self.room = (self.device.empty(n, np.int32), self.device.empty(n))
        for target, source in zip(self.room, before, strict=True):
            self.device.copy(target, source)

    def _add(self, atom: int) -> bool:
        if self.expect(atom):
            ends = divmod(atom >> 1, self.card.n_features)
            sign = 2 * (atom & 1) - 1
            self._host_told[:] = *ends, sign, 1, -1, -1, 0, 0
            self.device.copy(self._told, self._host_told)
            self.card.unfold(self._told)
            self.queue_terms(self._told)
            self.card.unfold(self._told, back=True)
            self.device.copy(self._host_store, self._store)
            self.device.wait()
            self.take()
        return atom in self._places


class Atoms:
    """Sums over pairs of rows, or over comparisons, for a list of atoms.

    Parameters
    ----------
    card : OnCard
    """

    def __init__(self, card: OnCard) -> None:
        self.card = card
        self.device = card.device
        self._mark = self.device.zeros(card.n_numbers, np.int32)
        self._last: tuple[bytes, dict[int, int], Z] | None = None
        self.terms = TermSums(card)

    def forget(self) -> None:
        """Drop the rows that are known, and all marks."""
        self._last = None
        self.device.clear(self._mark)

    # --- Z ----------------------------------------------------------------------------

    def _blocks(self, atoms: np.ndarray) -> Iterator[Z]:
        """Yield the rows of blocks of atoms; where there is one, it is remembered."""
        if not len(atoms):
            return
        ends = atoms[:, :2]
        sizes = np.where(ends < 0, 0, self.card.lengths[ends]).sum(axis=1)
        if sizes.sum() > ENTRIES_LIMIT:
            self._last = None
            bounds = cut_to_fit(sizes, ENTRIES_LIMIT).tolist()
            for first, last in pairwise(bounds):
                yield self._rows(atoms[first:last], first)
            return
        key = atoms.tobytes()
        if self._last is None or self._last[0] != key:
            self._last = None  # before the next comes
            codes = self.terms.code(*atoms.T).tolist()
            places = dict(zip(codes, range(len(atoms)), strict=True))
            self._last = key, places, self._rows(atoms, 0)
        yield self._last[2]

    def _rows(self, atoms: np.ndarray, first: int) -> Z:
        """Return the rows of some atoms; features of -1 have no values."""
        card = self.card
        device = self.device
        ends = atoms[:, :2].ravel()
        n = len(atoms)
        order = np.argsort(ends, kind="stable")
        order = order[ends[order] >= 0]
        features, counts = np.unique(ends[order], return_counts=True)
        m = len(features)
        told = device.upload(
            np.concatenate([features, [0], np.cumsum(counts), atoms.ravel()])
        )
        listed = told[:m]
        lists = (
            told[m : 2 * m + 1],
            device.upload((order // 2).astype(np.int32)),
            told[2 * m + 1 :],
        )
        per_row = device.empty(card.n_rows, np.int32)
        ptr = device.zeros(card.n_rows + 1, np.int64)
        known = card.n_rows, *card.by_row, self._mark, *lists
        warps = {"per_block": _WARPS}
        device.run("mark_features", m, m, listed, 1, self._mark)
        device.run("atom_rows", card.n_rows, *known, per_row, None, None, None, **warps)
        device.copy(ptr[1:], device.cumsum(per_row))
        size = int(device.download(ptr[card.n_rows :])[0])
        atom = device.empty(size, np.int32)
        value = device.empty(size)
        device.run("atom_rows", card.n_rows, *known, None, ptr, atom, value, **warps)
        device.run("mark_features", m, m, listed, 0, self._mark)
        out = device.empty(size, np.int32), device.empty(size)
        device.run(
            "sort_rows", card.n_rows, card.n_rows, ptr, atom, value, *out, **warps
        )
        return Z(first, first + n, ptr, *out)

    # --- what is asked for ------------------------------------------------------------

    def values(
        self, atoms: np.ndarray, factors: np.ndarray, out: Array, base: float
    ) -> None:
        """Queue out = base · out + Σ_k factor_k z_ak z_bk for all pairs of rows."""
        card = self.card
        device = self.device
        for z in self._blocks(atoms):
            device.run(
                "pair_values",
                card.n_pairs,
                card.n_pairs,
                *card.pairs,
                *z.arrays,
                device.upload(factors[z.first : z.last]),
                1.0,
                base,
                out,
            )
            base = 1.0
        if not len(atoms) and base == 0.0:
            device.clear(out)

    def scores(self, atoms: np.ndarray, pulls: Pulls) -> np.ndarray:
        """Return Σ_s w_s z_ak z_bk over all pairs, for each atom; the same bits for any others.

        Active atoms are some of the last correction; where they come one by one, the
        terms of each are stored.
        """
        codes = self.terms.code(*atoms.T).tolist()
        if self._last is not None and all(
            map(self._last[1].__contains__, reversed(codes))
        ):
            return self._scores(self._last[2], pulls.w)[
                [self._last[1][code] for code in codes]
            ]
        found = self.terms.sums(codes, pulls)
        if found is None:
            blocks = (self._scores(z, pulls.w) for z in self._blocks(atoms))
            found = np.concatenate([np.empty(0), *blocks])
        return found

    def _scores(self, z: Z, w: Array) -> np.ndarray:
        card = self.card
        device = self.device
        n = z.last - z.first
        chunk, n_chunks = _chunks(card)
        part = device.empty(n_chunks * n)
        out = device.empty(n)
        device.run(
            "score_parts",
            n_chunks,
            card.n_pairs,
            chunk,
            n,
            *card.pairs,
            w,
            *z.arrays,
            part,
            per_block=_WARPS,
        )
        device.run("add_parts", n, n_chunks, n, part, out, per_block=1)
        return device.download(out)

    def curvature(
        self, atoms: np.ndarray, code: int, factor: float, margins: Array
    ) -> np.ndarray:
        """Return Σ_t factor b_t v_t v_tᵀ over a sample, shape (n_atoms, n_atoms).

        v_t is what the atoms add to the margin of a comparison, and b_t its weight
        times the second derivative of its loss.
        """
        card = self.card
        device = self.device
        n = len(atoms)
        if not n:
            return np.zeros((0, 0))
        stride = curvature_stride(
            card.n, n, lambda step: len(self._curved(code, margins, step))
        )
        listed = self._curved(code, margins, stride)
        n_rows = max(1, SAMPLE_LIMIT // n)
        n_listed = len(listed)
        factor = factor * (card.n / -(-card.n // stride))
        n_parts = max(1, min(MOST_PARTS, PARTS_LIMIT // n**2, n_listed // 256))
        K = device.zeros(n * n)
        part = device.empty(n_parts * n * n)
        V = device.empty(min(n_rows, n_listed) * n)
        for first in range(0, n_listed, n_rows):
            size = min(n_rows, n_listed - first)
            device.clear(V)
            for z in self._blocks(atoms):
                device.run(
                    "sample_rows",
                    size,
                    code,
                    size,
                    listed[first:],
                    factor,
                    margins,
                    *card.weighting,
                    card.side,
                    *card.pairs,
                    *z.arrays,
                    z.first,
                    n,
                    V,
                )
            tiles = (-(-n // 64)) ** 2 * n_parts
            device.run("gram_parts", tiles, size, n, n_parts, V, part, per_block=1)
            device.run("add_gram", n * n, n, n_parts, part, K)
        return device.download(K).reshape(n, n)

    def _curved(self, code: int, margins: Array, stride: int) -> Array:
        """Return which of every stride-th comparison have a loss that is curved."""
        device = self.device
        n = -(-self.card.n // stride)
        known = (code, n, stride, margins)
        is_curved = device.empty(n, np.int32)
        device.run("curved", n, *known, None, is_curved)
        upto = device.cumsum(is_curved)
        listed = device.empty(int(device.download(upto[n - 1 :])[0]), np.int32)
        device.run("curved", n, *known, upto, listed)
        return listed
