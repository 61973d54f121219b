"""What is remembered of atoms: rows of Z = X U, and the terms of single atoms."""

from __future__ import annotations

import numpy as np

from .comparisons import Pairs
from .kernels import atoms as kernels
from .rows import Arrays
from .workers import GRAIN

#: Most terms of atoms that are stored (12 bytes each).
TERMS_LIMIT = 1 << 26

Terms = tuple[np.ndarray, np.ndarray]  # numbers of pairs, values

Key = tuple[int, ...]


class Atoms:
    """Scores and similarities of atoms at pairs of rows.

    Many atoms share a pass over the pairs with Z, whose rows are short. Where atoms come one by
    one, from one question to the next, the terms z_a z_b of each are stored: a pass over them is
    several times shorter.

    Parameters
    ----------
    pairs : Pairs
    """

    def __init__(self, pairs: Pairs) -> None:
        self.pairs, self._rows, self._workers = pairs, pairs.rows, pairs.workers
        self._terms: dict[Key, Terms] = {}
        self._n_terms: dict[Key, int] = {}  # of dropped ones too
        self.forget()

    def forget(self) -> None:
        """Drop Z. Terms of single atoms do not depend on the questions before, and stay."""
        self._place: dict[Key, int] = {}
        self._Z: Arrays | None = None

    def rows(self, atoms: np.ndarray) -> tuple[Arrays, np.ndarray, int]:
        """Return the CSR arrays of a Z with these atoms, their columns, and the number of columns.

        Features -1 are columns of zeros.
        """
        keys = _keys(atoms)
        if not self._has_rows(keys):
            self._Z = self._make_rows(atoms)
            self._place = {key: k for k, key in enumerate(keys)}
        assert self._Z is not None
        places = np.array([self._place[key] for key in keys], dtype=np.int64)
        return self._Z, places, len(self._place)

    def similarities(self, atoms: np.ndarray, factors: np.ndarray) -> np.ndarray:
        """Return Σ_k factors_k z_ak z_bk of each pair."""
        pairs, out = self.pairs, np.zeros(self.pairs.n_pairs)
        if len(atoms):
            Z, places, n_atoms = self.rows(atoms)
            by_atom = np.zeros(n_atoms)
            by_atom[places] = factors
            bounds = self._workers.split(self._rows.n_rows, grain=self._grain(Z), work=pairs.ptr)
            self._workers.run(kernels.similarities, bounds, pairs.ptr, pairs.b, Z, by_atom, out)
        return out

    def scores(self, atoms: np.ndarray, w: np.ndarray) -> np.ndarray:
        """Return Σ_s w_s z_a z_b of each atom."""
        keys, pairs = _keys(atoms), self.pairs
        if not keys:
            return np.empty(0)
        if not self._has_rows(keys) and self._store(keys):
            terms = [self._terms[key] for key in keys]
            n_terms = [len(pair) for pair, _ in terms]
            out, is_long = np.empty(len(keys)), sum(n_terms) > GRAIN

            def add_up(start: int, stop: int) -> None:
                for k in range(start, stop):
                    out[k] = kernels.sum_terms(*terms[k], w)

            self._workers.run(
                add_up, self._workers.pieces(len(keys)) if is_long else [0, len(keys)]
            )
            return out
        Z, places, n_atoms = self.rows(atoms)
        out = np.empty((len(pairs.score_bounds) - 1, n_atoms))
        is_long = self._grain(Z) < pairs.n_pairs
        parts = np.arange(len(out) + 1) if is_long else [0, len(out)]
        self._workers.run(kernels.scores, parts, pairs.score_bounds, pairs.ptr, pairs.b, w, Z, out)
        return out.sum(axis=0)[places]

    def _grain(self, Z: Arrays) -> int:
        """Return how many pairs are worth a thread."""
        return int(GRAIN / (4 * Z[0][-1] / self._rows.n_rows + 1)) + 1

    # --- rows of Z -------------------------------------------------------------------------------

    def _has_rows(self, keys: list[Key]) -> bool:
        return self._Z is not None and all(key in self._place for key in keys)

    def _make_rows(self, atoms: np.ndarray) -> Arrays:
        rows, n = self._rows, self._rows.n_rows
        i, j, sign = (np.ascontiguousarray(part) for part in atoms.T)
        work = int(rows.lengths[i].sum() + rows.lengths[j].sum())
        bounds = self._workers.split(n, grain=GRAIN * n // (8 * work + 1) + 1)
        ptr = np.zeros(n + 1, dtype=np.int64)
        given = i, j, sign.astype(np.float64), rows.by_column
        nothing = np.empty(0, dtype=np.int32), np.empty(0)
        self._workers.run(kernels.atom_rows, bounds, *given, ptr[1:], *nothing)
        np.cumsum(ptr, out=ptr)
        atom, value = np.empty(ptr[-1], dtype=np.int32), np.empty(ptr[-1])
        self._workers.run(kernels.atom_rows, bounds, *given, ptr[:-1].copy(), atom, value)
        return ptr, atom, value

    # --- terms of single atoms -------------------------------------------------------------------

    def _store(self, keys: list[Key]) -> bool:
        """Store the terms of all these atoms; return False where there is no room for them."""
        total = 0
        for key in keys:
            if key not in self._n_terms:
                self._terms[key] = self._find_terms(key)
                self._n_terms[key] = len(self._terms[key][0])
            total += self._n_terms[key]
            if total > TERMS_LIMIT:
                self._terms = {}
                return False
        if sum(len(pair) for pair, _ in self._terms.values()) > TERMS_LIMIT:
            self._terms = {key: self._terms[key] for key in keys if key in self._terms}
        for key in keys:
            if key not in self._terms:
                self._terms[key] = self._find_terms(key)
        return True

    def _find_terms(self, key: Key) -> Terms:
        (i, j, sign), pairs, (ptr, idx, _) = key, self.pairs, self._rows.by_column
        u = np.zeros(self._rows.n_rows)
        self._rows.add_atom(i, j, sign, u)
        rows = np.union1d(idx[ptr[i] : ptr[i + 1]], idx[ptr[j] : ptr[j + 1]])
        at = np.concatenate([[0], np.cumsum(pairs.ptr[rows + 1] - pairs.ptr[rows])])
        bounds = np.array(self._workers.split(len(rows), grain=GRAIN, work=at))
        counts = np.zeros(len(bounds) - 1, dtype=np.int64)
        found = np.empty(at[-1], dtype=np.int32), np.empty(at[-1])
        self._workers.run(
            kernels.atom_terms, np.arange(len(bounds)), bounds, rows, at, u, pairs.ptr, pairs.b,
            *found, counts,
        )  # fmt: skip
        first = at[bounds[:-1]]
        pair, value = (
            np.concatenate([part[a : a + n] for a, n in zip(first, counts, strict=True)])
            for part in found
        )
        return pair, value


def _keys(atoms: np.ndarray) -> list[Key]:
    return list(map(tuple, atoms.tolist()))
