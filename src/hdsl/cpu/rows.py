"""Rows of X in the forms that the kernels want."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from ..cached import cached
from .kernels import sorting as kernels
from .kernels.compiled import SparseArrays
from .kernels.lines import WIDTH
from .kernels.partners import RowWorkspaces, unfold_atom
from .workers import Workers

#: Most entries of a small X, for which one way to find partners is enough, in one turn.
SMALL = 1 << 17

#: Rows whose values are taken at a time: sizes of all values at once would be many.
BLOCK = 1 << 16

#: The fullest features, with this share of the entries, are searched for partners first.
FULL_SHARE = 8

#: Ranges of keys that many items are sorted by, also on one thread.
LEAST_RANGES = 4


class KernelRows:
    """X by rows and by columns.

    Parameters
    ----------
    matrix : csr_array of shape (n_rows, n_columns), float64
        No duplicates, no stored zeros.
    workers : Workers
    n_features : int, default=None
        The first columns, which are features; the others count in inner products alone.
        None is all.
    dense : ndarray of shape (n_rows, width), default=None
        An embedding, which counts in inner products alone.
    small : int, default=SMALL

    Attributes
    ----------
    by_row : SparseArrays
        The rows, all columns.
    by_column : SparseArrays
        The columns that are features.
    is_small : bool
    lengths : ndarray of shape (n_features,)
        Entries of each feature.
    feature_bounds : ndarray
        Features shared out among the threads by the entries of X in them.
    bounds_by_turn : list of ndarray
        The same of the fullest features, if any, and of the others.
    """

    def __init__(
        self,
        matrix: sp.csr_array,
        workers: Workers,
        n_features: int | None = None,
        dense: np.ndarray | None = None,
        small: int = SMALL,
    ) -> None:
        self.dense = dense
        self.matrix = matrix
        self.workers = workers
        self.n_rows, self.n_columns = matrix.shape
        self.n_features = self.n_columns
        if n_features is not None:
            self.n_features = n_features
        self.by_row = arrays_of(matrix)
        columns = by_columns(self.by_row, self.n_columns, workers)
        indptr = columns.indptr[: self.n_features + 1]
        self.by_column = columns._replace(indptr=indptr)
        self.nnz = int(self.by_row.indptr[-1])
        self.is_small = self.nnz <= small
        self.lengths = np.diff(indptr)
        self.feature_bounds = self._shared_out(0, self.n_features)
        self.bounds_by_turn = []
        n_full = 0
        if not self.is_small:
            n_full = int(np.searchsorted(indptr, indptr[-1] // FULL_SHARE))
        if n_full:
            self.bounds_by_turn.append(self._shared_out(0, n_full))
        if self.n_features:
            self.bounds_by_turn.append(self._shared_out(n_full, self.n_features))

    def _shared_out(self, first: int, last: int) -> np.ndarray:
        """Return bounds of shares of the features [first, last)."""
        work = self.by_column.indptr[first : last + 1]
        bounds = self.workers.split(
            last - first, grain=self.workers.grain // 4, work=work - work[0]
        )
        return first + np.array(bounds)

    @cached
    def largest(self) -> np.ndarray:
        """max_j |x_j| of each row."""
        return largest_of_rows(self.matrix)

    @cached
    def sizes(self) -> np.ndarray:
        """Σ |x| of each feature's column."""
        return self.absolute_sums(np.ones(self.n_rows))

    def absolute_sums(self, x: np.ndarray) -> np.ndarray:
        """Return the sum of |X[:, j]| * x for each feature j."""
        sums = np.zeros(self.n_columns)
        indptr = self.by_row.indptr
        for first in range(0, self.n_rows, BLOCK):
            block_ptr = indptr[first : first + BLOCK + 1]
            entries = slice(block_ptr[0], block_ptr[-1])
            block = sp.csr_array(
                (
                    np.abs(self.by_row.data[entries]),
                    self.by_row.indices[entries],
                    block_ptr - block_ptr[0],
                ),
                shape=(len(block_ptr) - 1, self.n_columns),
            )
            sums += x[first : first + BLOCK] @ block
        return sums[: self.n_features]

    def mean_square(self) -> float:
        """Return ‖x‖² of a row, in the mean, its embedding included."""
        total = float(np.square(self.matrix.data).sum())
        if self.dense is not None:
            total += float(np.square(self.dense, dtype=np.float64).sum())
        return total / self.n_rows

    def unfold_atom(self, atom: tuple[int, ...], out: np.ndarray) -> None:
        """Write X e_i ± X e_j, one number per row."""
        i, j, sign = atom
        bounds = self.workers.split(self.n_rows, grain=self.workers.grain // 4)
        self.workers.run(unfold_atom, bounds, i, j, sign, self.by_column, out)

    # --- work arrays: new memory is slow at first -------------------------------------

    @cached
    def unfolded_lines(self) -> np.ndarray:
        """A line of zeros, and WIDTH numbers per row."""
        lines = empty_lines(self.n_rows + 1)
        lines[0] = 0.0
        return lines

    @cached
    def spread_lines(self) -> np.ndarray:
        """WIDTH numbers per row."""
        return empty_lines(self.n_rows)

    @cached
    def entry_lines(self) -> np.ndarray:
        """WIDTH numbers per feature."""
        return empty_lines(self.n_features)

    @cached
    def row_workspaces(self) -> RowWorkspaces:
        """What one row of S at a time is made in, on each thread."""
        return RowWorkspaces.empty(self.workers.n_threads, self.n_rows, self.n_features)


def largest_of_rows(matrix: sp.csr_array) -> np.ndarray:
    """Return max_j |x_j| of each row, 0 of an empty one."""
    largest = np.zeros(matrix.shape[0])
    full = np.flatnonzero(np.diff(matrix.indptr))
    if len(full):
        largest[full] = np.maximum.reduceat(np.abs(matrix.data), matrix.indptr[full])
    return largest


def empty_lines(n: int) -> np.ndarray:
    """Return an array of shape (n, WIDTH) whose rows are cache lines: none takes two loads."""
    memory = np.empty((n + 1) * WIDTH)
    first = -(memory.ctypes.data // 8) % WIDTH
    return memory[first : first + n * WIDTH].reshape((n, WIDTH))


def arrays_of(X: sp.csr_array | sp.csc_array) -> SparseArrays:
    """Return the arrays of a matrix as the kernels take them; shared where they have the types."""
    return SparseArrays(
        indptr=X.indptr.astype(np.int64, copy=False),
        indices=X.indices.astype(np.int32, copy=False),
        data=X.data.astype(np.float64, copy=False),
    )


class GroupedItems(NamedTuple):
    """Items in the order of their keys, and of their numbers where keys are equal.

    Attributes
    ----------
    indptr : ndarray of shape (n_keys + 1,), int64
        Where the items of each key begin and end.
    first, second : ndarray of shape (n_items,)
        Two values of each item.
    """

    indptr: np.ndarray
    first: np.ndarray
    second: np.ndarray


def grouped(
    keys: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
    n_keys: int,
    workers: Workers,
) -> GroupedItems:
    """Return two values of each item, in the order of the keys 0, …, n_keys - 1.

    Examples
    --------
    >>> keys = np.array([2, 0, 2], dtype=np.int32)
    >>> first = np.array([5, 6, 7], dtype=np.int32)
    >>> second = np.array([1, 3, 2], dtype=np.int32)
    >>> items = grouped(keys, first, second, 3, Workers(1))
    >>> items.indptr.tolist(), items.first.tolist(), items.second.tolist()
    ([0, 1, 1, 3], [6, 5, 7], [3, 1, 2])
    """
    indptr = starts(counted(keys, n_keys, workers))
    if len(keys) <= workers.grain:
        order = np.argsort(keys, kind="stable")
        return GroupedItems(indptr, first[order], second[order])
    bounds = _ranges(indptr, workers)
    result = GroupedItems(indptr, np.empty_like(first), np.empty_like(second))
    workers.run(
        kernels.sort_items,
        np.arange(len(bounds)),
        bounds,
        keys,
        first,
        second,
        indptr.copy(),
        result.first,
        result.second,
    )
    return result


def counted(keys: np.ndarray, n_keys: int, workers: Workers) -> np.ndarray:
    """Return how often each of the keys 0, …, n_keys - 1 occurs."""
    if len(keys) <= workers.grain or keys.dtype != np.int32:
        return np.bincount(keys, minlength=n_keys)
    counts = np.empty(n_keys, dtype=np.int64)
    n_ranges = workers.n_threads
    bounds = n_keys * np.arange(n_ranges + 1) // n_ranges
    workers.run(kernels.count_keys, bounds, keys, counts)
    return counts


def by_columns(rows: SparseArrays, n_columns: int, workers: Workers) -> SparseArrays:
    """Return the columns of a matrix, as CSC, from its rows."""
    if len(rows.indices) <= workers.grain:
        row_numbers = np.arange(len(rows.indptr) - 1, dtype=np.int32)
        row_of_entry = np.repeat(row_numbers, np.diff(rows.indptr))
        items = grouped(rows.indices, row_of_entry, rows.data, n_columns, workers)
        return SparseArrays(*items)
    indptr = starts(counted(rows.indices, n_columns, workers))
    bounds = _ranges(indptr, workers)
    columns = SparseArrays(
        indptr, np.empty_like(rows.indices), np.empty_like(rows.data)
    )
    workers.run(
        kernels.sort_columns,
        np.arange(len(bounds)),
        bounds,
        rows,
        indptr.copy(),
        columns.indices,
        columns.data,
    )
    return columns


def starts(counts: np.ndarray) -> np.ndarray:
    """Return where each of several lists begins, one after the other, and the end of the last.

    Examples
    --------
    >>> starts(np.array([2, 0, 3])).tolist()
    [0, 2, 2, 5]
    """
    return np.concatenate([[0], np.cumsum(counts)])


def _ranges(indptr: np.ndarray, workers: Workers) -> np.ndarray:
    """Return bounds of ranges of keys that have about as many items each."""
    n_ranges = max(workers.n_threads, LEAST_RANGES)
    shares = indptr[-1] * np.arange(n_ranges + 1) // n_ranges
    bounds = np.searchsorted(indptr, shares)
    bounds[0] = 0
    bounds[-1] = len(indptr) - 1
    return bounds
