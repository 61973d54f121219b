"""Scores and similarities of atoms at pairs of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import scipy.sparse as sp

from .comparisons import Pairs
from .kernels import atoms as kernels
from .kernels.atoms import Terms
from .kernels.compiled import SparseArrays
from .rows import KernelRows, arrays_of, grouped, starts
from .workers import Workers


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
    terms_limit : int, default=2**26
        Largest number of terms that are stored, 12 bytes each.
    piece : int, default=2**16
        Terms of an atom that are summed one after the other.
    """

    def __init__(
        self, pairs: Pairs, *, terms_limit: int = 1 << 26, piece: int = 1 << 16
    ) -> None:
        self.pairs = pairs
        self._piece = piece
        self._rows = pairs.rows
        self._workers = pairs.workers
        self._store = TermStore(terms_limit)
        self.reset()

    def reset(self) -> None:
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
        return int(self._workers.grain / (4 * entries_per_row + 1)) + 1

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
        out = self._sum_terms(*stored, w)
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
        diagonals = np.zeros((n_shares, active.n_features))
        entries = np.zeros((n_shares, len(active.signs)))

        def add(start: int, stop: int) -> None:
            kernels.scores(
                start,
                stop,
                pairs.score_bounds,
                pairs.by_row,
                w,
                active.active,
                diagonals,
                entries,
                np.zeros(active.n_features),
            )

        shares = np.array([0, n_shares])
        if self._row_grain(active.active.rows) < pairs.n_pairs:
            shares = np.arange(n_shares + 1)
        self._workers.run(add, shares)
        numbers = active.numbers(atoms)
        squares = diagonals.sum(axis=0)[active.ends[numbers]].sum(axis=1)
        return squares + active.signs[numbers] * entries.sum(axis=0)[numbers]

    # --- terms of single atoms --------------------------------------------------------

    def _sum_terms(
        self, first: np.ndarray, last: np.ndarray, terms: Terms, w: np.ndarray
    ) -> np.ndarray:
        """Return the weighted sum of the terms of each atom, from first[k] to last[k]."""
        sizes = last - first
        atom = np.arange(len(sizes))
        piece = self._piece
        is_cut = self.pairs.n_pairs > piece and bool((sizes > piece).any())
        if is_cut:
            atom = np.repeat(atom, sizes // piece + 1)
            n_before = np.arange(len(atom)) - np.searchsorted(atom, atom)
            first = first[atom] + piece * n_before
            last = np.minimum(first + piece, last[atom])
        work = starts(last - first)
        bounds = self._workers.split(
            len(atom), grain=self._workers.grain // 2, work=work
        )
        out = np.empty(len(atom))
        self._workers.run(kernels.sum_terms, bounds, first, last, terms, w, out)
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
            self._workers.split(
                len(u), grain=self._workers.grain, work=pairs.by_row.indptr
            )
        )
        counts = np.zeros(len(bounds) - 1, dtype=np.int64)
        shares = np.arange(len(bounds))
        sparse = kernels.Terms(pairs.pool.empty().view(np.int32), pairs.pool.empty())
        self._workers.run(
            kernels.atom_terms,
            shares,
            bounds,
            u,
            v,
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


class ActiveAtoms:
    """Atoms, and the rows of X in their features.

    Those of a small X are made by SciPy: a first fit then has less to compile.

    Parameters
    ----------
    rows : KernelRows
    atoms : ndarray of shape (n_atoms, 3)
    codes : list of int
        Of these atoms.

    Attributes
    ----------
    atoms : ndarray of shape (n_atoms, 3)
    ends : ndarray of shape (n_atoms, 2)
        Their features, as numbers of active ones; the last number stands for features
        of which X has no value.
    signs : ndarray of shape (n_atoms,), float64
    n_features : int
        The number of active features, and one for features of which X has no value.
    active : ActiveFeatures
    """

    def __init__(self, rows: KernelRows, atoms: np.ndarray, codes: list[int]) -> None:
        self.atoms = atoms.copy()
        self._rows = rows
        self._workers = rows.workers
        self._number = {code: k for k, code in enumerate(codes)}
        features = np.unique(atoms[:, :2])
        features = features[features >= 0]
        n_features = len(features)
        numbers = np.full(rows.n_columns + 1, -1, dtype=np.int32)
        numbers[features] = np.arange(n_features)
        self.n_features = n_features + 1
        pairs = atoms[:, :2]
        self.ends = np.where(pairs >= 0, numbers[pairs], n_features).astype(np.int32)
        self.signs = atoms[:, 2].astype(np.float64)
        if rows.is_small:
            active_rows = arrays_of(rows.matrix[:, features])
        else:
            active_rows = self._active_rows(numbers)
        self.active = kernels.ActiveFeatures(active_rows, self._graph())

    def _active_rows(self, numbers: np.ndarray) -> SparseArrays:
        """Return the rows of X in the features that have a number."""
        by_row = self._rows.by_row

        def find(start: int, stop: int, active: SparseArrays) -> None:
            kernels.active_rows(start, stop, by_row, numbers, active)

        return counted_rows(find, by_row.indptr, self._workers)

    def _graph(self) -> kernels.AtomGraph:
        """Return the atoms of each active feature."""
        first_end = np.arange(0, 2 * len(self.ends), 2, dtype=np.int32)
        i = self.ends[:, 0]
        j = self.ends[:, 1]
        items = grouped(
            np.append(i, j),
            np.append(j, i),
            np.append(first_end, first_end + np.int32(1)),
            self.n_features,
            self._workers,
        )
        return kernels.AtomGraph(items.indptr, neighbors=items.first, ends=items.second)

    def has(self, codes: list[int]) -> bool:
        """Return whether all these atoms are among the active ones."""
        # The last ones are new in most cases.
        return all(code in self._number for code in reversed(codes))

    def numbers(self, atoms: np.ndarray) -> np.ndarray:
        """Return the numbers of these atoms among the active ones."""
        if np.array_equal(atoms, self.atoms):
            return np.arange(len(atoms))
        codes = atom_codes(atoms, self._rows.n_columns)
        return np.array([self._number[code] for code in codes], dtype=np.int64)

    def matrix(self, numbers: np.ndarray, factors: np.ndarray) -> SparseArrays:
        """Return M = Σ factor · z zᵀ of some of the atoms on the active features, as CSR."""
        n = self.n_features
        i = self.ends[numbers, 0]
        j = self.ends[numbers, 1]
        diagonal = np.arange(n)
        ends = np.append(i, j)
        squares = np.bincount(ends, np.append(factors, factors), n)
        products = factors * self.signs[numbers]
        row = np.concatenate([diagonal, i, j])
        column = np.concatenate([diagonal, j, i])
        values = np.concatenate([squares, products, products])
        order = np.argsort(row, kind="stable")
        return SparseArrays(
            np.searchsorted(row[order], np.arange(n + 1)),
            column[order].astype(np.int32),
            values[order],
        )

    def values_of_rows(self, is_wanted: np.ndarray) -> SparseArrays:
        """Return z of all atoms and of the rows of X that are wanted, as CSR.

        The other rows are empty where X is large.
        """
        rows = self.active.rows
        graph = self.active.graph
        atom = graph.ends // 2
        is_second = graph.ends % 2 == 1
        signs = np.where(is_second, self.signs[atom], 1.0)
        M = SparseArrays(graph.indptr, atom.astype(np.int32), signs)
        n_atoms = len(self.signs)
        if self._rows.is_small:
            M_by_row = sp.csr_array(
                (M.data, M.indices, M.indptr), shape=(self.n_features, n_atoms)
            )
            X = sp.csr_array(
                (rows.data, rows.indices, rows.indptr),
                shape=(self._rows.n_rows, self.n_features),
            )
            return arrays_of(X @ M_by_row)

        def find(start: int, stop: int, values: SparseArrays) -> None:
            position = np.full(n_atoms, -1)
            kernels.product_rows(start, stop, rows, is_wanted, M, position, values)

        return counted_rows(find, rows.indptr, self._workers)


def atom_codes(atoms: np.ndarray, n_columns: int) -> list[int]:
    """Return a number for each atom: it is looked up faster than a tuple.

    Examples
    --------
    >>> atom_codes(np.array([[0, 1, 1], [0, 1, -1]]), n_columns=3)
    [13, 12]
    """
    i, j, sign = atoms.T
    pair_codes = (i + 1) * (n_columns + 1) + j + 1
    return (2 * pair_codes + (sign > 0)).tolist()


def counted_rows(
    find: Callable[..., None], work: np.ndarray, workers: Workers
) -> SparseArrays:
    """Return rows as CSR arrays, which ``find(start, stop, rows)`` counts and then writes."""
    n_rows = len(work) - 1
    bounds = workers.split(n_rows, grain=workers.grain // 16, work=work)
    indptr = np.zeros(n_rows + 1, dtype=np.int64)
    counts = SparseArrays(indptr, np.empty(0, dtype=np.int32), np.empty(0))
    workers.run(find, bounds, counts)
    np.cumsum(indptr, out=indptr)
    n_entries = indptr[-1]
    rows = SparseArrays(
        indptr, np.empty(n_entries, dtype=np.int32), np.empty(n_entries)
    )
    if n_entries:
        workers.run(find, bounds, rows)
    return rows


class TermStore:
    """The terms of single atoms at pairs of rows, found once and then stored by codes.

    What is stored changes no answer: whether the terms of some atoms fit depends on
    these atoms alone.

    Parameters
    ----------
    limit : int
        Largest number of terms that are stored, 12 bytes each.
    """

    _number: dict[int, int]  # by codes
    _indptr: np.ndarray
    _terms: Terms

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._sizes: dict[int, int] = {}  # of dropped atoms too
        self._clear(0)

    def terms(
        self, codes: list[int], find: Callable[[int], Terms]
    ) -> tuple[np.ndarray, np.ndarray, Terms] | None:
        """Return where the terms of these atoms begin and end, and all terms.

        ``find(k)`` finds those of the k-th atom. None where they do not fit.
        """
        is_missing = not self._number.keys() >= set(codes)
        if is_missing and not self._add_missing(codes, find):
            return None
        number = np.array([self._number[code] for code in codes])
        return self._indptr[number], self._indptr[number + 1], self._terms

    def _add_missing(self, codes: list[int], find: Callable[[int], Terms]) -> bool:
        """Add the terms of the atoms that are not stored; return whether all fit."""
        wanted = set(codes)
        n_wanted = sum(self._size(code) for code in codes)
        for k, code in enumerate(codes):
            if code not in self._number and n_wanted <= self._limit:
                terms = find(k)
                n_wanted += len(terms.pairs) - self._size(code)
                self._sizes[code] = len(terms.pairs)
                self._reserve(code, wanted)
                self._add(code, terms)
        if n_wanted > self._limit:
            self._clear(0)
            return False
        return True

    def _size(self, code: int) -> int:
        """Return the number of terms of an atom, 0 where it is not known."""
        return self._sizes.get(code, 0)

    def _reserve(self, code: int, wanted: set[int]) -> None:
        """See to it that the terms of one more atom fit; drop atoms that are not wanted."""
        n_terms = int(self._indptr[-1]) + self._sizes[code]
        if n_terms <= len(self._terms.pairs):
            return
        kept = list(self._number)
        if n_terms > self._limit:
            kept = [known for known in kept if known in wanted]
        n_terms = sum(self._sizes[known] for known in [*kept, code])
        self._move(kept, max(n_terms, min(5 * n_terms // 4, self._limit)))

    def _move(self, codes: Iterable[int], size: int) -> None:
        """Move the terms of these atoms, and no others, to arrays of this size."""
        terms = self._terms
        indptr = self._indptr
        number = self._number
        self._clear(size)
        for code in codes:
            k = number[code]
            piece = slice(indptr[k], indptr[k + 1])
            self._add(code, Terms(terms.pairs[piece], terms.values[piece]))

    def _add(self, code: int, terms: Terms) -> None:
        """Add the terms of an atom, which fit."""
        first = self._indptr[-1]
        last = first + len(terms.pairs)
        self._indptr = np.append(self._indptr, last)
        self._terms.pairs[first:last] = terms.pairs
        self._terms.values[first:last] = terms.values
        self._number[code] = len(self._number)

    def _clear(self, size: int) -> None:
        """Drop all terms; make new arrays of this size."""
        self._number = {}
        self._indptr = np.zeros(1, dtype=np.int64)
        self._terms = Terms(np.empty(size, dtype=np.int32), np.empty(size))
