"""Scores and similarities of atoms at pairs of rows."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .active_atoms import ActiveAtoms, atom_codes
from .kernels import atoms as kernels
from .kernels.arrays import SparseArrays
from .pairs import Pairs
from .sorting import starts
from .term_store import StoredTerms, TermStore
from .workers import GRAIN

#: Terms of an atom that are summed one after the other.
PIECE = 1 << 16


class AtomValues(NamedTuple):
    """z of atoms and of some rows of X.

    Attributes
    ----------
    Z : SparseArrays
        By rows; those that are not wanted may be empty.
    columns : ndarray
        The columns of the atoms.
    n_columns : int
    """

    Z: SparseArrays
    columns: np.ndarray
    n_columns: int


class Atoms:
    """Scores and similarities of atoms at pairs of rows.

    Many atoms share a pass over the pairs with the few active features of each row.
    Where atoms come one by one, from one question to the next, the terms of each are
    stored: a pass over them is several times shorter. They are z_a z_b; of a small X
    those of S_ij alone, less than half as many, since the diagonal of its C costs
    little.

    Parameters
    ----------
    pairs : Pairs
    """

    def __init__(self, pairs: Pairs) -> None:
        self.pairs = pairs
        self._rows = pairs.rows
        self._workers = pairs.workers
        self._store = TermStore()
        self.forget()

    def forget(self) -> None:
        """Drop active rows. Terms of single atoms do not depend on the questions before."""
        self._active: ActiveAtoms | None = None

    def activate(self, atoms: np.ndarray) -> ActiveAtoms:
        """Return active atoms that have these ones, perhaps among others."""
        active = self._active
        if active is not None and np.array_equal(atoms, active.atoms):
            return active
        codes = self._codes(atoms)
        if active is None or not active.has(codes):
            active = ActiveAtoms(self._rows, atoms, codes)
            self._active = active
        return active

    def _codes(self, atoms: np.ndarray) -> list[int]:
        return atom_codes(atoms, self._rows.n_columns)

    def _row_grain(self, rows: SparseArrays) -> int:
        """Return how many pairs are worth a thread."""
        entries_per_row = rows.indptr[-1] / self._rows.n_rows
        return int(GRAIN / (4 * entries_per_row + 1)) + 1

    # --- many atoms in a pass ---------------------------------------------------------

    def similarities(self, atoms: np.ndarray, factors: np.ndarray) -> np.ndarray:
        """Return Σ_k factors_k z_ak z_bk of each pair, of one atom or more."""
        pairs = self.pairs
        out = pairs.pool.empty()
        active = self.activate(atoms)
        rows = active.active.rows
        M = active.matrix(active.numbers(atoms), factors)

        def write(start: int, stop: int) -> None:
            product = np.zeros(active.n_features)
            kernels.similarities(start, stop, pairs.by_row, rows, M, out, product)

        bounds = self._workers.split(
            self._rows.n_rows, grain=self._row_grain(rows), work=pairs.by_row.indptr
        )
        self._workers.run(write, bounds)
        return out

    def terms_of(self, atoms: np.ndarray, is_wanted: np.ndarray) -> AtomValues:
        """Return z of atoms and of the rows of X that are wanted."""
        active = self.activate(atoms)
        return AtomValues(
            Z=active.values_of_rows(is_wanted),
            columns=active.numbers(atoms),
            n_columns=len(active.signs),
        )

    # --- scores -----------------------------------------------------------------------

    def scores(
        self, atoms: np.ndarray, w: np.ndarray, diagonal: Callable[[], np.ndarray]
    ) -> np.ndarray:
        """Return Σ_s w_s z_a z_b of each atom; ``diagonal()`` returns C_jj of all features."""
        codes = self._codes(atoms)
        if not codes:
            return np.empty(0)
        if self._active is not None and self._active.has(codes):
            return self._scores_in_a_pass(atoms, w)
        stored = self._store.terms(codes, lambda k: self._find_terms(atoms[k].tolist()))
        if stored is None:
            return self._scores_in_a_pass(atoms, w)
        out = self._sum_terms(stored, w)
        if self._rows.is_small:
            # The last entry is that of a feature without values.
            entries = np.append(diagonal(), 0.0)
            out += entries[atoms[:, 0]] + entries[atoms[:, 1]]
        return out

    def _scores_in_a_pass(self, atoms: np.ndarray, w: np.ndarray) -> np.ndarray:
        """Return the scores of atoms from a pass over all pairs."""
        pairs = self.pairs
        active = self.activate(atoms)
        n_shares = len(pairs.score_bounds) - 1
        sums = kernels.ScoreSums(
            diagonals=np.zeros((n_shares, active.n_features)),
            entries=np.zeros((n_shares, len(active.signs))),
        )

        def add(start: int, stop: int) -> None:
            kernels.scores(
                start,
                stop,
                pairs.score_bounds,
                pairs.by_row,
                w,
                active.active,
                sums,
                np.zeros(active.n_features),
            )

        shares = np.array([0, n_shares])
        if self._row_grain(active.active.rows) < pairs.n_pairs:
            shares = np.arange(n_shares + 1)
        self._workers.run(add, shares)
        numbers = active.numbers(atoms)
        diagonal = sums.diagonals.sum(axis=0)
        entries = sums.entries.sum(axis=0)
        squares = diagonal[active.ends[numbers]].sum(axis=1)
        return squares + active.signs[numbers] * entries[numbers]

    # --- terms of single atoms --------------------------------------------------------

    def _sum_terms(self, stored: StoredTerms, w: np.ndarray) -> np.ndarray:
        """Return the weighted sum of the terms of each atom."""
        pieces = stored.pieces
        sizes = pieces.last - pieces.first
        is_cut = self.pairs.n_pairs > PIECE and bool((sizes > PIECE).any())
        atom = np.arange(len(sizes))
        if is_cut:
            atom = np.repeat(atom, sizes // PIECE + 1)
            n_before = np.arange(len(atom)) - np.searchsorted(atom, atom)
            first = pieces.first[atom] + PIECE * n_before
            last = np.minimum(first + PIECE, pieces.last[atom])
            pieces = kernels.Pieces(first, last)
        work = starts(pieces.last - pieces.first)
        bounds = self._workers.split(len(atom), grain=GRAIN // 2, work=work)
        out = np.empty(len(atom))
        self._workers.run(kernels.sum_terms, bounds, pieces, stored.terms, w, out)
        if is_cut:
            return np.bincount(atom, out)
        return out

    def _find_terms(self, atom: list[int]) -> kernels.Terms:
        """Return the terms of an atom at the pairs where they are not zero."""
        pairs = self.pairs
        u = np.empty(self._rows.n_rows)
        v = np.empty(self._rows.n_rows)
        i, j, sign = atom
        if self._rows.is_small:
            self._rows.unfold_atom((i, -1, 1), u)
            self._rows.unfold_atom((-1, j, sign), v)
        else:
            self._rows.unfold_atom((i, j, sign), u)
            np.multiply(u, 0.5, out=v)
        bounds = np.array(
            self._workers.split(len(u), grain=GRAIN, work=pairs.by_row.indptr)
        )
        counts = np.zeros(len(bounds) - 1, dtype=np.int64)
        shares = np.arange(len(bounds))
        sparse = kernels.Terms(pairs.pool.empty().view(np.int32), pairs.pool.empty())
        self._workers.run(
            kernels.atom_terms,
            shares,
            bounds,
            kernels.AtomRows(u, v),
            pairs.by_row,
            sparse,
            counts,
        )
        source = pairs.by_row.indptr[bounds]
        target = starts(counts)
        n_terms = target[-1]
        terms = kernels.Terms(np.empty(n_terms, dtype=np.int32), np.empty(n_terms))

        def move(start: int, stop: int) -> None:
            for share in range(start, stop):
                before = slice(source[share], source[share] + counts[share])
                after = slice(target[share], target[share + 1])
                terms.pairs[after] = sparse.pairs[before]
                terms.values[after] = sparse.values[before]

        self._workers.run(move, shares)
        return terms
