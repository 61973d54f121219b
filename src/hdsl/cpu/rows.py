"""Rows of X in the forms that the kernels want."""

import numpy as np
import scipy.sparse as sp

from ..cached import cached
from .kernels.arrays import SparseArrays
from .kernels.lines import WIDTH
from .kernels.partners import RowWorkspaces, unfold_atom
from .sorting import by_columns
from .workers import GRAIN, Workers

#: Most entries of a small X, for which one way to find partners is enough, in one turn.
SMALL = 1 << 17

#: Rows whose values are taken at a time: sizes of all values at once would be many.
BLOCK = 1 << 16

#: The fullest features, with this share of the entries, are searched for partners first.
FULL_SHARE = 8


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
        self.is_small = self.nnz <= SMALL
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
        bounds = self.workers.split(last - first, grain=GRAIN // 4, work=work - work[0])
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
        bounds = self.workers.split(self.n_rows, grain=GRAIN // 4)
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
