"""S_ij of the feature pairs that the active atoms are made of, from stored terms."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from .kernels import gradient as kernels
from .pairs import Pairs

#: Most numbers stored to score the active atoms quickly (12 bytes each); the rest is recomputed.
CROSS_TERMS_LIMIT = 1 << 26


#: Atoms whose terms are summed in one task.
ATOMS_PER_TASK = 8


def entries_directly(pairs: Pairs, i: np.ndarray, j: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Return S_ij for listed feature pairs; the rarer feature leads."""
    length = np.diff(pairs.rows.col_ptr)
    swap = length[i] > length[j]
    out = np.empty(len(i))
    pairs.workers.run(
        kernels.entries_directly, pairs.workers.pieces(len(i)), np.where(swap, j, i),
        np.where(swap, i, j), *pairs.rows.by_column, *pairs.links, w, out,
    )  # fmt: skip
    return out


class CrossTerms:
    """S_ij = Σ_s w_s v_s with a sparse v that depends on i and j alone.

    v is stored from one iteration to the next: the scores of all active atoms are then one pass
    over short lists.
    """

    def __init__(self, pairs: Pairs) -> None:
        self.pairs = pairs
        self.runs: dict[tuple[int, int], tuple[int, int]] = {}  # where the terms of (i, j) are
        self.pair = np.empty(0, dtype=np.int32)
        self.value = np.empty(0)
        self.used = 0
        self._work = np.zeros(pairs.rows.n_rows)
        col_ptr, col_idx, _ = pairs.rows.by_column
        running = np.concatenate([[0], np.cumsum(np.diff(pairs.link_ptr)[col_idx])])
        #: Most terms of a pair whose first feature this is.
        self.bound = running[col_ptr[1:]] - running[col_ptr[:-1]]
        self._atoms: np.ndarray | None = None  # those that _found belongs to
        self._found: tuple[np.ndarray, np.ndarray, int]

    @property
    def known(self) -> np.ndarray:
        """The feature pairs whose terms are stored, in their order, shape (n_known, 2)."""
        return np.array(list(self.runs), dtype=np.int64).reshape(-1, 2)

    def learn(self, known: np.ndarray) -> None:
        """Store the terms of these feature pairs, in their order."""
        self._learn(list(map(tuple, known.tolist())))

    def entries(self, atoms: np.ndarray, w: np.ndarray) -> np.ndarray:
        """Return S_ij for each atom."""
        if not len(atoms):
            return np.empty(0)
        if atoms is not self._atoms:  # the active set changes now and then only
            self._found, self._atoms = self._locate(atoms), atoms
        first, last, work = self._found
        out = np.empty(len(atoms))
        self.pairs.workers.together(
            kernels.sparse_dots, 1, work, ATOMS_PER_TASK, first, last, self.pair, self.value, w, out
        )
        lacking = (first < 0).nonzero()[0]
        if len(lacking):  # no room to store them
            out[lacking] = entries_directly(self.pairs, atoms[lacking, 0], atoms[lacking, 1], w)
        return out

    def _locate(self, atoms: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
        """Return where the terms of each atom begin and end, and how many there are."""
        keys = list(map(tuple, atoms[:, :2].tolist()))
        found = list(map(self.runs.get, keys))
        if None in found:
            self._learn(keys)
            found = [self.runs.get(key, (-1, -1)) for key in keys]
        first, last = np.ascontiguousarray(np.array(found, dtype=np.int64).T)
        return first, last, int((last - first).sum())

    def _learn(self, keys: list[tuple[int, int]]) -> None:
        """Store the terms of new feature pairs; drop those not asked for when there is no room."""
        for key in keys:
            if key in self.runs:
                continue
            pair, value = self._terms(*key)
            if self.used + len(pair) > CROSS_TERMS_LIMIT:
                self._drop_all_but(keys)
                if self.used + len(pair) > CROSS_TERMS_LIMIT:
                    return
            end = self.used + len(pair)
            if end > len(self.pair):
                self.pair, self.value = (
                    np.concatenate([a[: self.used], np.empty(max(end, 4096), dtype=a.dtype)])
                    for a in (self.pair, self.value)
                )
            self.pair[self.used : end], self.value[self.used : end] = pair, value
            self.runs[key] = self.used, end
            self.used = end

    def _terms(self, i: int, j: int) -> tuple[np.ndarray, np.ndarray]:
        if self.bound[i] > self.bound[j]:
            i, j = j, i
        pair, value = np.empty(self.bound[i], dtype=np.int32), np.empty(self.bound[i])
        n = kernels.cross_terms(
            i, j, *self.pairs.rows.by_column, *self.pairs.links, self._work, pair, value
        )
        return pair[:n], value[:n]

    def _drop_all_but(self, keys: list[tuple[int, int]]) -> None:
        """Drop the terms of feature pairs that are not in `keys`, and close the gaps."""
        kept = {key: self.runs[key] for key in keys if key in self.runs}
        taken = [np.arange(first, last) for first, last in kept.values()]
        places = np.concatenate([np.empty(0, dtype=np.int64), *taken])
        self.pair, self.value, self.used = self.pair[places], self.value[places], len(places)
        ends = np.cumsum([0, *map(len, taken)]).tolist()
        self.runs = dict(zip(kept, pairwise(ends), strict=True))
