"""What is remembered of atoms: the rows in their features, and the terms of single atoms."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from ..solver.atoms import Key, Terms, TermStore, as_keys
from .comparisons import Pairs
from .kernels import atoms as kernels
from .rows import Arrays, arrays_of, grouped, starts
from .workers import GRAIN

#: Most terms of atoms that are stored (12 bytes each).
TERMS_LIMIT = 1 << 26

#: Active features whose columns are short, and have less than one in so many entries of X, are read
#: by columns, on one thread.
COLUMNS_SHARE = 8


class Active(NamedTuple):
    """Some atoms, and the rows of X in their features alone."""

    atoms: np.ndarray
    rows: Arrays
    graph: Arrays
    ends: np.ndarray  # of each atom, shape (n_atoms, 2), as active features
    signs: np.ndarray
    place: dict[Key, int]

    @property
    def n_features(self) -> int:
        """The number of active features, and one more for features of which X has no value."""
        return len(self.graph[0]) - 1


class Atoms:
    """Scores and similarities of atoms at pairs of rows.

    Many atoms share a pass over the pairs with the few active features of each row. Where atoms
    come one by one, from one question to the next, the terms z_a z_b of each are stored: a pass
    over them is several times shorter.

    Parameters
    ----------
    pairs : Pairs
    """

    def __init__(self, pairs: Pairs) -> None:
        self.pairs, self._rows, self._workers = pairs, pairs.rows, pairs.workers
        self._store = TermStore(TERMS_LIMIT)
        self.forget()

    def forget(self) -> None:
        """Drop active rows. Terms of single atoms do not depend on the questions before."""
        self._active: Active | None = None

    def active(self, atoms: np.ndarray) -> tuple[Active, np.ndarray]:
        """Return what has these atoms, perhaps with others, and their numbers there."""
        if self._active is not None and np.array_equal(atoms, self._active.atoms):
            return self._active, np.arange(len(atoms))
        keys = as_keys(atoms)
        if self._active is None or not self._covers(keys):
            self._active = self._make_active(atoms, keys)
        places = np.array([self._active.place[key] for key in keys], dtype=np.int64)
        return self._active, places

    def similarities(self, atoms: np.ndarray, factors: np.ndarray) -> np.ndarray:
        """Return Σ_k factors_k z_ak z_bk of each pair."""
        pairs, out = self.pairs, np.zeros(self.pairs.n_pairs)
        if len(atoms):
            active, places = self.active(atoms)
            (i, j), mixed = active.ends[places].T, factors * active.signs[places]
            n, ends, every = active.n_features, np.append(i, j), np.arange(active.n_features)
            squares = np.bincount(ends, np.append(factors, factors), n)
            row, entries = np.append(every, ends), np.concatenate([squares, mixed, mixed])
            column, order = np.concatenate([every, j, i]), np.argsort(row, kind="stable")
            ptr = np.searchsorted(row[order], np.arange(n + 1))
            M = ptr, column[order].astype(np.int32), entries[order]
            bounds = self._workers.split(
                self._rows.n_rows, grain=self._grain(active.rows), work=pairs.ptr
            )
            given = pairs.ptr, pairs.b, active.rows, M, out
            self._workers.run(
                lambda *part: kernels.similarities(*part, *given, np.zeros(n)), bounds
            )
        return out

    def scores(self, atoms: np.ndarray, w: np.ndarray) -> np.ndarray:
        """Return Σ_s w_s z_a z_b of each atom."""
        keys, pairs = as_keys(atoms), self.pairs
        if not keys:
            return np.empty(0)
        terms = None if self._covers(keys) else self._store.all_of(keys, self._find_terms)
        if terms is not None:
            n_terms = [len(pair) for pair, _ in terms]
            out, is_long = np.empty(len(keys)), sum(n_terms) > GRAIN

            def add_up(start: int, stop: int) -> None:
                for k in range(start, stop):
                    out[k] = kernels.sum_terms(*terms[k], w)

            self._workers.run(add_up, self._workers.split(len(keys)) if is_long else [0, len(keys)])
            return out
        active, places = self.active(atoms)
        n_parts = len(pairs.score_bounds) - 1
        n = active.n_features
        squares, mixed = np.zeros((n_parts, n)), np.zeros((n_parts, len(active.signs)))
        is_long = self._grain(active.rows) < pairs.n_pairs
        parts = np.arange(n_parts + 1) if is_long else [0, n_parts]
        given = pairs.score_bounds, pairs.ptr, pairs.b, w, active.rows, active.graph, squares, mixed
        self._workers.run(lambda *part: kernels.scores(*part, *given, np.zeros(n)), parts)
        diagonal = squares.sum(axis=0)[active.ends[places]].sum(axis=1)
        return diagonal + active.signs[places] * mixed.sum(axis=0)[places]

    def terms_of(self, atoms: np.ndarray, rows: np.ndarray) -> tuple[Arrays, np.ndarray, int]:
        """Return z of atoms and of some rows of X as CSR arrays, and the columns of the atoms.

        Rows are marked; the others are empty. The last number is that of the columns.
        """
        active, places = self.active(atoms)
        (graph_ptr, _, end), n_atoms = active.graph, len(active.signs)
        sign = np.where(end % 2, active.signs[end // 2], 1.0)
        ends = graph_ptr, (end // 2).astype(np.int32), sign
        return self._product(active.rows, ends, n_atoms, rows), places, n_atoms

    def _grain(self, rows: Arrays) -> int:
        """Return how many pairs are worth a thread."""
        return int(GRAIN / (4 * rows[0][-1] / self._rows.n_rows + 1)) + 1

    # --- active rows -----------------------------------------------------------------------------

    def _covers(self, keys: list[Key]) -> bool:
        return self._active is not None and all(key in self._active.place for key in keys)

    def _make_active(self, atoms: np.ndarray, keys: list[Key]) -> Active:
        features = np.unique(atoms[:, :2])
        features = features[features >= 0]
        n = len(features)
        place = np.full(self._rows.n_columns + 1, -1, dtype=np.int32)
        place[features] = np.arange(n)
        n_entries = int(self._rows.lengths[features].sum())
        if n_entries <= GRAIN < self._rows.nnz - COLUMNS_SHARE * n_entries:
            rows = self._from_columns(features)
        else:
            rows = self._found(
                self._rows.by_row[0],
                lambda start, stop, *out: kernels.active_rows(
                    start, stop, self._rows.by_row, place, *out
                ),
            )
        ends = np.where(atoms[:, :2] >= 0, place[atoms[:, :2]], n).astype(np.int32)
        number = np.arange(0, 2 * len(atoms), 2, dtype=np.int32)
        keyed = np.append(ends[:, 0], ends[:, 1]), np.append(ends[:, 1], ends[:, 0])
        numbers = np.append(number, number + np.int32(1))
        graph = grouped(*keyed, numbers, n + 1, self._workers)
        signs = atoms[:, 2].astype(np.float64)
        place_of = {key: k for k, key in enumerate(keys)}
        return Active(atoms.copy(), rows, graph, ends, signs, place_of)

    def _from_columns(self, features: np.ndarray) -> Arrays:
        """Return the rows in a few features from their columns: quicker than to read all rows."""
        ptr, idx, val = self._rows.by_column
        at = starts(self._rows.lengths[features])
        entries = np.repeat(ptr[features] - at[:-1], np.diff(at)) + np.arange(at[-1])
        shape = self._rows.n_rows, len(features)
        return arrays_of(sp.csc_array((val[entries], idx[entries], at), shape=shape).tocsr())

    def _product(self, rows: Arrays, M: Arrays, n_columns: int, wanted: np.ndarray) -> Arrays:
        """Return the product of rows and a matrix of few entries; rows not wanted are empty."""
        return self._found(
            rows[0],
            lambda start, stop, *out: kernels.product_rows(
                start, stop, wanted, rows, M, np.full(n_columns, -1), *out
            ),
        )

    def _found(self, work: np.ndarray, find: Callable[..., None]) -> Arrays:
        """Return rows as CSR arrays: ``find(start, stop, at, idx, val)`` counts, then writes."""
        n = self._rows.n_rows
        bounds = self._workers.split(n, grain=GRAIN // 16, work=work)
        at = np.zeros(n + 1, dtype=np.int64)
        self._workers.run(find, bounds, at, np.empty(0, dtype=np.int32), np.empty(0))
        np.cumsum(at, out=at)
        out = at, np.empty(at[-1], dtype=np.int32), np.empty(at[-1])
        if at[-1]:
            self._workers.run(find, bounds, *out)
        return out

    # --- terms of single atoms -------------------------------------------------------------------

    def _find_terms(self, key: Key) -> Terms:
        (i, j, sign), pairs, u = key, self.pairs, np.zeros(self._rows.n_rows)
        self._rows.add_atom(i, j, sign, u)
        rows = np.flatnonzero(u != 0.0)
        at = starts(pairs.ptr[rows + 1] - pairs.ptr[rows])
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
