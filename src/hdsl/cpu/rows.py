"""Rows of X in the forms that the kernels want, and sorts by counting."""

import weakref
from itertools import product

import numpy as np
import scipy.sparse as sp

from ..cached import cached
from .kernels import pairs as kernels
from .kernels.arrays import SparseArrays
from .kernels.compiled import WIDTH
from .kernels.partners import unfold_atom
from .workers import GRAIN, Workers

#: The arrays of a sparse matrix: pointers (int64), indices (int32), values (float64).
Arrays = tuple[np.ndarray, np.ndarray, np.ndarray]

#: Ranges of keys that many items are sorted by, also on one thread.
LEAST_RANGES = 4

#: Most entries of a small X, for which one way to find partners is enough, in one turn.
SMALL = 1 << 17

#: Rows whose values are taken at a time.
BLOCK = 1 << 16


class Rows:
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
        self.n_features = self.n_columns if n_features is None else n_features
        self.by_row = arrays_of(matrix)
        ptr, *others = by_columns(self.by_row, self.n_columns, workers)
        self.by_column = ptr[: self.n_features + 1], *others
        self.nnz = int(self.by_row[0][-1])
        self.is_small = self.nnz <= SMALL
        self.lengths = np.diff(self.by_column[0])
        #: Features shared out among the threads by the entries of X in them.
        self.feature_bounds = self._shared_out(0, self.n_features)
        ptr = self.by_column[0]
        full = 0 if self.is_small else int(np.searchsorted(ptr, ptr[-1] // 8))
        #: The same of the fullest features, if any, and of the others.
        self.bounds_by_turn = [
            self._shared_out(*turn)
            for turn in ((0, full), (full, self.n_features))
            if any(turn)
        ]

    def _shared_out(self, first: int, last: int) -> np.ndarray:
        work = self.by_column[0][first : last + 1]
        split = self.workers.split(last - first, grain=GRAIN // 4, work=work - work[0])
        return first + np.array(split)

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
        total = np.zeros(self.n_columns)
        (ptr, idx, val) = self.by_row
        for k in range(
            0, self.n_rows, BLOCK
        ):  # sizes of all values at once would be many
            at = ptr[k : k + BLOCK + 1]
            given = np.abs(val[at[0] : at[-1]]), idx[at[0] : at[-1]], at - at[0]
            total += x[k : k + BLOCK] @ sp.csr_array(
                given, shape=(len(at) - 1, self.n_columns)
            )
        return total[: self.n_features]

    def mean_square(self) -> float:
        """Return ‖x‖² of a row, in the mean, its embedding included."""
        total = float(np.square(self.matrix.data).sum())
        if self.dense is not None:
            total += float(np.square(self.dense, dtype=np.float64).sum())
        return total / self.n_rows

    def unfold_atom(self, atom: tuple[int, ...], u: np.ndarray) -> None:
        """Write X e_i ± X e_j, one number per row."""
        bounds = self.workers.split(self.n_rows, grain=GRAIN // 4)
        self.workers.run(unfold_atom, bounds, *atom, self.by_column, u)

    @cached
    def rooms(self) -> tuple[np.ndarray, ...]:
        """Room for WIDTH numbers per row, twice, and per feature: new memory is slow at first.

        The first of them begins with a line of zeros.
        """
        rooms = tuple(lines(n) for n in (self.n_rows + 1, self.n_rows, self.n_features))
        rooms[0][0] = 0.0
        return rooms

    @cached
    def single_rooms(self) -> tuple[np.ndarray, ...]:
        """Rooms for one row of S per thread: numbers, lists and flags of rows and of features."""
        kinds = product(
            (np.float64, np.int32, np.bool_), (self.n_rows, self.n_features + 1)
        )
        return tuple(
            np.zeros((self.workers.n_threads, n), dtype=dtype) for dtype, n in kinds
        )


class _Lent(weakref.ref):
    """Tells when an array is gone, and has its memory."""

    room: np.ndarray


class Recycled:
    """Arrays of one length whose memory serves again when nobody holds them: new one is slow.

    Parameters
    ----------
    n : int
    """

    def __init__(self, n: int) -> None:
        self._n = n
        self._lent = dict[int, _Lent]()
        self._back = list[_Lent]()

    def empty(self) -> np.ndarray:
        """Return an array whose values are open."""
        room = (
            np.empty(self._n) if not self._back else self._taken_back(self._back.pop())
        )
        out = np.frombuffer(room.data)  # parts of it hold it, not `room`
        # No Python runs where an array is freed: an interrupt there would be lost.
        lent = _Lent(out, self._back.append)
        lent.room = room
        self._lent[id(lent)] = lent
        return out

    def _taken_back(self, lent: _Lent) -> np.ndarray:
        del self._lent[id(lent)]
        return lent.room


def largest_of_rows(matrix: sp.csr_array) -> np.ndarray:
    """Return max_j |x_j| of each row, 0 of an empty one."""
    largest = np.zeros(matrix.shape[0])
    full = np.flatnonzero(np.diff(matrix.indptr))
    if len(full):
        largest[full] = np.maximum.reduceat(np.abs(matrix.data), matrix.indptr[full])
    return largest


def lines(n: int) -> np.ndarray:
    """Return an array of shape (n, WIDTH) whose rows are cache lines: none takes two loads."""
    room = np.empty((n + 1) * WIDTH)
    first = -(room.ctypes.data // 8) % WIDTH
    return room[first : first + n * WIDTH].reshape((n, WIDTH))


def arrays_of(X: sp.csr_array | sp.csc_array) -> SparseArrays:
    """Return the arrays of a matrix as the kernels take them; shared where they have the types."""
    return SparseArrays(
        indptr=X.indptr.astype(np.int64, copy=False),
        indices=X.indices.astype(np.int32, copy=False),
        data=X.data.astype(np.float64, copy=False),
    )


def counted(keys: np.ndarray, n: int, workers: Workers) -> np.ndarray:
    """Return how often each of the keys 0, …, n - 1 occurs."""
    if len(keys) <= GRAIN or keys.dtype != np.int32:
        return np.bincount(keys, minlength=n)
    counts = np.empty(n, dtype=np.int64)
    n_ranges = workers.n_threads
    workers.run(
        kernels.count_keys, n * np.arange(n_ranges + 1) // n_ranges, keys, counts
    )
    return counts


def grouped(
    keys: np.ndarray, first: np.ndarray, second: np.ndarray, n: int, workers: Workers
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return where each of n keys begins, and two values of each item, by keys and then in order.

    Few items are sorted by NumPy: a small fit has less to compile.

    Examples
    --------
    >>> given = np.array([[2, 0, 2], [5, 6, 7], [1, 3, 2]], dtype=np.int32)
    >>> ptr, first, second = grouped(*given, 3, Workers(1))
    >>> ptr.tolist(), first.tolist(), second.tolist()
    ([0, 1, 1, 3], [6, 5, 7], [3, 1, 2])
    """
    ptr = starts(counted(keys, n, workers))
    if len(keys) <= GRAIN:
        order = np.argsort(keys, kind="stable")
        return ptr, first[order], second[order]
    bounds = _ranges(ptr, workers)
    out = (np.empty_like(first), np.empty_like(second))
    given = bounds, keys, first, second, ptr.copy(), *out
    workers.run(kernels.sort_items, np.arange(len(bounds)), *given)
    return ptr, *out


def by_columns(rows: Arrays, n_columns: int, workers: Workers) -> Arrays:
    """Return the columns of a matrix, as CSC, from its rows."""
    if len(rows[1]) <= GRAIN:
        numbers = np.repeat(
            np.arange(len(rows[0]) - 1, dtype=np.int32), np.diff(rows[0])
        )
        return grouped(rows[1], numbers, rows[2], n_columns, workers)
    ptr = starts(counted(rows[1], n_columns, workers))
    out = (np.empty_like(rows[1]), np.empty_like(rows[2]))
    bounds = _ranges(ptr, workers)
    workers.run(
        kernels.sort_columns, np.arange(len(bounds)), bounds, rows, ptr.copy(), *out
    )
    return ptr, *out


def starts(counts: np.ndarray) -> np.ndarray:
    """Return where each of several lists begins, one after the other, and the end of the last."""
    return np.concatenate([[0], np.cumsum(counts)])


def _ranges(ptr: np.ndarray, workers: Workers) -> np.ndarray:
    """Return bounds of ranges of keys that have about as many items each."""
    n = max(workers.n_threads, LEAST_RANGES)
    bounds = np.searchsorted(ptr, ptr[-1] * np.arange(n + 1) // n)
    bounds[[0, -1]] = 0, len(ptr) - 1
    return bounds
