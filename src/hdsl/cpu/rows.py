"""Rows of X in the forms that the kernels want."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from .kernels.compiled import WIDTH
from .workers import GRAIN, Workers

#: The arrays of a sparse matrix: pointers (int64), indices (int32), values (float64).
Arrays = tuple[np.ndarray, np.ndarray, np.ndarray]


class Rows:
    """X by rows and by columns.

    Parameters
    ----------
    matrix : csr_array of shape (n_rows, n_columns), float64
        No duplicates, no stored zeros.
    workers : Workers
    n_features : int, default=None
        The first columns, which are features; the others count in inner products alone. None is
        all.
    """

    def __init__(
        self, matrix: sp.csr_array, workers: Workers, n_features: int | None = None
    ) -> None:
        self.matrix, self.workers = matrix, workers
        self.n_rows, self.n_columns = matrix.shape
        self.n_features = self.n_columns if n_features is None else n_features
        ptr, *others = arrays_of(matrix.tocsc())
        self.by_row, self.by_column = arrays_of(matrix), (ptr[: self.n_features + 1], *others)
        self.nnz = int(self.by_row[0][-1])
        self.lengths = np.diff(self.by_column[0])
        self._largest: np.ndarray | None = None
        #: Features shared out among the threads by the entries of X in them.
        self.feature_bounds = workers.split(
            self.n_features, grain=GRAIN // 4, work=self.by_column[0]
        )
        self._rooms: tuple[np.ndarray, ...] | None = None
        self._single_rooms: tuple[np.ndarray, ...] | None = None

    @property
    def largest(self) -> np.ndarray:
        """max_j |x_j| of each row."""
        if self._largest is None:
            ptr, _, val = self.by_row
            full = np.diff(ptr) > 0
            self._largest = np.zeros(self.n_rows)
            if full.any():
                self._largest[full] = np.maximum.reduceat(np.abs(val), ptr[:-1][full])
        return self._largest

    def add_atom(self, i: int, j: int, sign: int, u: np.ndarray) -> None:
        """Add X e_i ± X e_j to u, one number per row."""
        ptr, idx, val = self.by_column
        for feature, factor in ((i, 1.0), (j, float(sign))):
            own = slice(ptr[feature], ptr[feature + 1])
            u[idx[own]] += factor * val[own]

    @property
    def rooms(self) -> tuple[np.ndarray, ...]:
        """Room for WIDTH numbers per row, twice, and per feature: new memory is slow at first."""
        if self._rooms is None:
            self._rooms = tuple(lines(n) for n in (self.n_rows, self.n_rows, self.n_features))
        return self._rooms

    @property
    def single_rooms(self) -> tuple[np.ndarray, ...]:
        """Rooms for one row of S per thread: numbers, lists and flags of rows and of features."""
        if self._single_rooms is None:
            sizes = self.n_rows, self.n_features + 1
            self._single_rooms = tuple(
                np.zeros((self.workers.n_threads, n), dtype=dtype)
                for dtype in (np.float64, np.int32, np.bool_)
                for n in sizes
            )
        return self._single_rooms


def lines(n: int) -> np.ndarray:
    """Return an array of shape (n, WIDTH) whose rows are cache lines: none takes two loads."""
    room = np.empty((n + 1) * WIDTH)
    first = -(room.ctypes.data // 8) % WIDTH
    return room[first : first + n * WIDTH].reshape((n, WIDTH))


def arrays_of(X: sp.csr_array | sp.csc_array) -> Arrays:
    """Return the arrays of a matrix as the kernels take them; shared where they have the types."""
    return (
        X.indptr.astype(np.int64, copy=False),
        X.indices.astype(np.int32, copy=False),
        X.data.astype(np.float64, copy=False),
    )
