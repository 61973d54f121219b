"""Many atoms at once on a card: margins of models and corrections, scores, second derivatives.

Row r of Z holds x_ri ± x_rj of the atoms that have a feature of row r. Everything else is a pass
over the pairs of compared rows, or over a sample of the comparisons, with two short rows each.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..solver.atoms import Key, Terms, TermStore, as_keys
from ..solver.protocols import curvature_stride
from .runtime import THREADS, Array
from .segments import cut_to_fit

if TYPE_CHECKING:
    from .on_card import OnCard

#: Most entries of Z at a time (28 bytes each); where there are more, blocks of atoms take turns.
ENTRIES_LIMIT = 1 << 27

#: Numbers of the sample that are laid out at a time, and of the sums of its parts.
SAMPLE_LIMIT, PARTS_LIMIT, MOST_PARTS = 1 << 25, 1 << 22, 64

#: Chunks of pairs whose scores are summed separately: most of them, and fewest pairs of each.
MOST_CHUNKS, SHORTEST = 4096, 128

#: Most atoms whose terms are stored one by one, and most terms of all (12 bytes each). Pairs that a
#: warp looks at, and parts that the score of an atom is summed in, as in the kernels.
MOST_SINGLE, TERMS_LIMIT, TERM_CHUNK, SCORE_PARTS = 512, 1 << 27, 1024, 32

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


class Atoms:
    """Sums over pairs of rows, or over comparisons, for a list of atoms.

    Parameters
    ----------
    card : OnCard
    """

    def __init__(self, card: OnCard) -> None:
        self.card, self.device = card, card.device
        self._mark = self.device.zeros(card.n_numbers, np.int32)
        self._last: tuple[bytes, dict[Key, int], Z] | None = None
        self._store = TermStore(TERMS_LIMIT)

    def forget(self) -> None:
        """Drop the rows that are known, and all marks."""
        self._last = None
        self.device.clear(self._mark)

    # --- Z ---------------------------------------------------------------------------------------

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
            places = dict(zip(as_keys(atoms), range(len(atoms)), strict=True))
            self._last = key, places, self._rows(atoms, 0)
        yield self._last[2]

    def _rows(self, atoms: np.ndarray, first: int) -> Z:
        """Return the rows of some atoms; features of -1 have no values."""
        card, device = self.card, self.device
        ends, n = atoms[:, :2].ravel(), len(atoms)
        order = np.argsort(ends, kind="stable")
        order = order[ends[order] >= 0]
        features, counts = np.unique(ends[order], return_counts=True)
        m = len(features)
        told = device.upload(np.concatenate([features, [0], np.cumsum(counts), atoms.ravel()]))
        listed = told[:m]
        lists = told[m : 2 * m + 1], device.upload((order // 2).astype(np.int32)), told[2 * m + 1 :]
        per_row = device.empty(card.n_rows, np.int32)
        ptr = device.zeros(card.n_rows + 1, np.int64)
        known = card.n_rows, *card.by_row, self._mark, *lists
        warps = {"per_block": _WARPS}
        device.run("mark_features", m, m, listed, 1, self._mark)
        device.run("atom_rows", card.n_rows, *known, per_row, None, None, None, **warps)
        device.copy(ptr[1:], device.cumsum(per_row))
        size = int(device.download(ptr[card.n_rows :])[0])
        atom, value = device.empty(size, np.int32), device.empty(size)
        device.run("atom_rows", card.n_rows, *known, None, ptr, atom, value, **warps)
        device.run("mark_features", m, m, listed, 0, self._mark)
        out = device.empty(size, np.int32), device.empty(size)
        device.run("sort_rows", card.n_rows, card.n_rows, ptr, atom, value, *out, **warps)
        return Z(first, first + n, ptr, *out)

    # --- what is asked for -----------------------------------------------------------------------

    def values(self, atoms: np.ndarray, factors: np.ndarray, out: Array, base: float) -> None:
        """Queue out = base · out + Σ_k factor_k z_ak z_bk for all pairs of rows."""
        card, device = self.card, self.device
        for z in self._blocks(atoms):
            device.run(
                "pair_values", card.n_pairs, card.n_pairs, *card.pairs, *z.arrays,
                device.upload(factors[z.first : z.last]), 1.0, base, out,
            )  # fmt: skip
            base = 1.0
        if not len(atoms) and base == 0.0:
            device.clear(out)

    def scores(self, atoms: np.ndarray, w: Array) -> np.ndarray:
        """Return Σ_s w_s z_ak z_bk over all pairs, for each atom; the same bits for any others.

        Active atoms are some of the last correction; where they come one by one, the terms of each
        are stored.
        """
        keys = as_keys(atoms)
        if self._last is not None:
            places = [self._last[1].get(key, -1) for key in keys]
            if -1 not in places:
                return self._scores(self._last[2], w)[places]
        terms = self._store.all_of(keys, self._find_terms) if len(keys) <= MOST_SINGLE else None
        if terms is not None:
            return self._summed(terms, w)
        return np.concatenate([np.empty(0), *(self._scores(z, w) for z in self._blocks(atoms))])

    def _find_terms(self, key: Key) -> Terms:
        card, device, n_chunks = self.card, self.device, -(-self.card.n_pairs // TERM_CHUNK)
        told = device.upload(np.array([*key, 0, -1, -1, 0, 0]))
        known, warps = (card.n_pairs, *card.pairs, card.u), {"per_block": _WARPS}
        counts = device.empty(n_chunks, np.int32)
        card.unfold(told)
        device.run("atom_terms", n_chunks, *known, counts, None, None, None, **warps)
        upto = device.cumsum(counts)
        n = int(device.download(upto[n_chunks - 1 :])[0])
        found = device.empty(n, np.int32), device.empty(n)
        device.run("atom_terms", n_chunks, *known, None, upto, *found, **warps)
        card.unfold(told, back=True)
        return *found, (*map(device.address, found), n)

    def _summed(self, terms: list[Terms], w: Array) -> np.ndarray:
        device, n = self.device, len(terms)
        lists = np.array([of_atom for _, _, of_atom in terms], dtype=np.int64).reshape(-1, 3)
        part, out = device.empty(SCORE_PARTS * n), device.empty(n)
        device.run("term_parts", SCORE_PARTS * n, n, device.upload(lists), w, part, per_block=1)
        device.run("add_parts", n, SCORE_PARTS, n, 1.0, part, out, per_block=1)
        return device.download(out)

    def _scores(self, z: Z, w: Array) -> np.ndarray:
        card, device, n = self.card, self.device, z.last - z.first
        chunk = max(SHORTEST, -(-card.n_pairs // MOST_CHUNKS))
        n_chunks = -(-card.n_pairs // chunk)
        part, out = device.empty(n_chunks * n), device.empty(n)
        device.run(
            "score_parts", n_chunks, card.n_pairs, chunk, n, *card.pairs, w, *z.arrays, part,
            per_block=_WARPS,
        )  # fmt: skip
        device.run("add_parts", n, n_chunks, n, 1.0, part, out, per_block=1)
        return device.download(out)

    def curvature(self, atoms: np.ndarray, code: int, factor: float, margins: Array) -> np.ndarray:
        """Return Σ_t factor b_t v_t v_tᵀ over a sample, shape (n_atoms, n_atoms).

        v_t is what the atoms add to the margin of a comparison, and b_t its weight times the second
        derivative of its loss.
        """
        card, device, n = self.card, self.device, len(atoms)
        if not n:
            return np.zeros((0, 0))
        stride = curvature_stride(card.n, n, lambda step: len(self._curved(code, margins, step)))
        listed, n_rows = self._curved(code, margins, stride), max(1, SAMPLE_LIMIT // n)
        n_listed, factor = len(listed), factor * (card.n / -(-card.n // stride))
        n_parts = max(1, min(MOST_PARTS, PARTS_LIMIT // n**2, n_listed // 256))
        K, part = device.zeros(n * n), device.empty(n_parts * n * n)
        V = device.empty(min(n_rows, n_listed) * n)
        for first in range(0, n_listed, n_rows):
            size = min(n_rows, n_listed - first)
            device.clear(V)
            for z in self._blocks(atoms):
                device.run(
                    "sample_rows", size, code, size, listed[first:], factor, margins,
                    *card.weighting, card.side, *card.pairs, *z.arrays, z.first, n, V,
                )  # fmt: skip
            tiles = (-(-n // 64)) ** 2 * n_parts
            device.run("gram_parts", tiles, size, n, n_parts, V, part, per_block=1)
            device.run("add_gram", n * n, n, n_parts, part, K)
        return device.download(K).reshape(n, n)

    def _curved(self, code: int, margins: Array, stride: int) -> Array:
        """Return which of every stride-th comparison have a loss that is curved."""
        device, n = self.device, -(-self.card.n // stride)
        known, is_curved = (code, n, stride, margins), device.empty(n, np.int32)
        device.run("curved", n, *known, None, is_curved)
        upto = device.cumsum(is_curved)
        listed = device.empty(int(device.download(upto[n - 1 :])[0]), np.int32)
        device.run("curved", n, *known, upto, listed)
        return listed
