"""S_ij of the feature pairs that the active atoms are made of, from stored terms."""

from __future__ import annotations

import numpy as np

from .kernels import gradient as kernels
from .pairs import Pairs

#: Most numbers stored to score the active atoms quickly (12 bytes each); the rest is recomputed.
CROSS_TERMS_LIMIT = 1 << 26


#: Atoms whose terms are summed in one task.
ATOMS_PER_TASK = 8


def entries_directly(pairs: Pairs, i: np.ndarray, j: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Return S_ij for listed feature pairs; the rarer feature leads."""
    length = pairs.rows.lengths
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
        #: Feature pairs whose terms are stored, sorted: i * d + j, where their terms begin and end.
        self.runs = np.empty((3, 0), dtype=np.int64)
        self.pair = np.empty(0, dtype=np.int32)
        self.value = np.empty(0)
        self.used = 0
        self._n_features = pairs.rows.n_features
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
        keys, begins, ends = self.runs
        return np.column_stack(np.divmod(keys[np.lexsort((ends, begins))], self._n_features))

    def learn(self, known: np.ndarray) -> None:
        """Store the terms of these feature pairs, in their order."""
        self._learn(self._keys_of(known))

    def _keys_of(self, atoms: np.ndarray) -> np.ndarray:
        return atoms[:, 0] * self._n_features + atoms[:, 1]

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
        keys = self._keys_of(atoms)
        at = self._find(keys)
        if (at < 0).any():
            self._learn(keys)
            at = self._find(keys)
        runs = np.column_stack([self.runs, [-1, -1, -1]])  # column -1 is for what is not stored
        _, first, last = np.ascontiguousarray(runs[:, at])
        return first, last, int((last - first).sum())

    def _find(self, keys: np.ndarray) -> np.ndarray:
        """Return the position of each key among the sorted ones, -1 where it is not there."""
        stored = self.runs[0]
        if not len(stored):
            return np.full(len(keys), -1)
        at = np.minimum(np.searchsorted(stored, keys), len(stored) - 1)
        return np.where(stored[at] == keys, at, -1)

    def _learn(self, keys: np.ndarray) -> None:
        """Store the terms of new feature pairs; drop those not asked for when there is no room."""
        for key in keys[self._find(keys) < 0].tolist():
            if self._find(np.array([key]))[0] >= 0:  # it came twice
                continue
            pair, value = self._terms(*divmod(key, self._n_features))
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
            self._store(key, self.used, end)
            self.used = end

    def _store(self, key: int, begin: int, end: int) -> None:
        """Note where the terms of a new feature pair are."""
        at = int(np.searchsorted(self.runs[0], key))
        new = [[key], [begin], [end]]
        self.runs = np.concatenate([self.runs[:, :at], new, self.runs[:, at:]], axis=1)

    def _terms(self, i: int, j: int) -> tuple[np.ndarray, np.ndarray]:
        if self.bound[i] > self.bound[j]:
            i, j = j, i
        pair, value = np.empty(self.bound[i], dtype=np.int32), np.empty(self.bound[i])
        n = kernels.cross_terms(
            i, j, *self.pairs.rows.by_column, *self.pairs.links, self._work, pair, value
        )
        return pair[:n], value[:n]

    def _drop_all_but(self, keys: np.ndarray) -> None:
        """Drop the terms of feature pairs that are not in `keys`, and close the gaps."""
        at = self._find(keys)
        at, first = np.unique(at[at >= 0], return_index=True)
        kept = self.runs[:, at[np.argsort(first)]]  # in the order of `keys`
        taken = [np.arange(begin, end) for _, begin, end in kept.T]
        places = np.concatenate([np.empty(0, dtype=np.int64), *taken])
        ends = np.cumsum(kept[2] - kept[1])
        self.pair, self.value, self.used = self.pair[places], self.value[places], len(places)
        self.runs = np.array([kept[0], ends - (kept[2] - kept[1]), ends])[:, np.argsort(kept[0])]
