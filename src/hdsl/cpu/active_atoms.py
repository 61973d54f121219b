"""The features of atoms, and the rows of X in these alone."""

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp

from .kernels import atoms as kernels
from .kernels.arrays import SparseArrays
from .rows import KernelRows, arrays_of
from .sorting import grouped
from .workers import GRAIN, Workers


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


def counted_rows(
    find: Callable[..., None], work: np.ndarray, workers: Workers
) -> SparseArrays:
    """Return rows as CSR arrays, which ``find(start, stop, rows)`` counts and then writes."""
    n_rows = len(work) - 1
    bounds = workers.split(n_rows, grain=GRAIN // 16, work=work)
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
