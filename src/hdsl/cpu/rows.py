"""Rows of X in the forms that the kernels want."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import scipy.sparse as sp

from ..solver.columns import is_wide
from .kernels.compiler import COMMON_BLOCK, WIDTH
from .kernels.pairs import ends_below
from .workers import GRAIN, Workers

#: Rows, pairs of rows and features are numbered by 32 bits.
INDEX_LIMIT = int(np.iinfo(np.int32).max)

#: Least number of entries of X that are one task of a pass over X, and the most tasks.
ENTRY_BLOCK, MOST_BLOCKS = 8192, 1024

#: From so many rows on, R leaves the caches. Features that one row in COMMON_SHARE has are then
#: visited by rows, at most MOST_COMMON of them, in COMMON_PARTS parts.
MANY_ROWS, COMMON_SHARE, MOST_COMMON, COMMON_PARTS = 50_000, 512, 8192, 32


class Rows:
    """X by rows and by columns.

    Parameters
    ----------
    matrix : csr_array of shape (n_rows, n_features), float64
        Canonical: sorted, no duplicates, no stored zeros.
    workers : Workers
    """

    def __init__(self, matrix: sp.csr_array, workers: Workers) -> None:
        self.matrix, self.workers = matrix, workers
        self.n_rows, self.n_features = matrix.shape
        self.row_ptr = matrix.indptr.astype(np.int64)
        self.row_idx, self.row_val = np.asarray(matrix.indices, dtype=np.int32), matrix.data
        columns = matrix.tocsc()
        self.col_ptr = columns.indptr.astype(np.int64)
        self.col_idx, self.col_val = np.asarray(columns.indices, dtype=np.int32), columns.data
        self.nnz = int(self.row_ptr[-1])

    @property
    def by_row(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The CSR arrays."""
        return self.row_ptr, self.row_idx, self.row_val

    @property
    def by_column(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The CSC arrays."""
        return self.col_ptr, self.col_idx, self.col_val

    @cached_property
    def squared_norms(self) -> np.ndarray:
        """‖x‖² of each row."""
        return np.bincount(self._row_of_value(), np.square(self.row_val), self.n_rows)

    @cached_property
    def largest(self) -> np.ndarray:
        """max_j |x_j| of each row."""
        out = np.zeros(self.n_rows)
        np.maximum.at(out, self._row_of_value(), np.abs(self.row_val))
        return out

    @cached_property
    def column_sizes(self) -> np.ndarray:
        """Σ|x| of each feature, and a little more, so that sums of other orders stay below."""
        column = np.repeat(np.arange(self.n_features), self.lengths)
        return np.bincount(column, np.abs(self.col_val), self.n_features) * (1.0 + 1e-9)

    @cached_property
    def lengths(self) -> np.ndarray:
        """Number of values of each feature."""
        return np.diff(self.col_ptr)

    def n_values(self) -> np.ndarray:
        """Return how many values each row rests on, (Σx²)² / Σx⁴: all of them where they are alike.

        Sizes are relative to the row's largest, whose fourth power may not be a number.
        """
        row = self._row_of_value()
        squares = np.square(self.row_val / np.where(self.largest > 0, self.largest, 1.0)[row])
        second, fourth = (np.bincount(row, part, self.n_rows) for part in (squares, squares**2))
        return np.divide(second**2, fourth, out=np.zeros(self.n_rows), where=fourth > 0)

    def _row_of_value(self) -> np.ndarray:
        return np.repeat(np.arange(self.n_rows), np.diff(self.row_ptr))

    @cached_property
    def feature_bounds(self) -> np.ndarray:
        """Features shared out among the threads by the entries of X in them."""
        return np.array(self.workers.split(self.n_features, grain=GRAIN, work=self.col_ptr))

    @cached_property
    def feature_blocks(self) -> np.ndarray:
        """Bounds of blocks of features, for any number of threads.

        Common features come COMMON_BLOCK in a block, the others with about equally many entries.
        """
        n_common = self.n_common
        common = np.arange(0, n_common, COMMON_BLOCK)
        before = int(self.col_ptr[n_common])
        n_blocks = max(1, min(MOST_BLOCKS, (self.nnz - before) // ENTRY_BLOCK))
        wanted = before + np.arange(n_blocks) * (self.nnz - before) // n_blocks
        others = np.maximum(np.searchsorted(self.col_ptr, wanted), n_common)
        return np.unique(np.concatenate([common, others, [self.n_features]]))

    @cached_property
    def n_common(self) -> int:
        """Number of common features, whose entries are visited by rows: none for few rows.

        They must be the first of each row.
        """
        if self.n_rows < MANY_ROWS or not self.matrix.has_sorted_indices:
            return 0
        return int((self.lengths[:MOST_COMMON] >= self.n_rows // COMMON_SHARE).sum())

    @cached_property
    def common(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Where the common features of each row end, the parts of the rows, and room for sums."""
        end, n_parts = np.empty(self.n_rows, dtype=np.int64), COMMON_PARTS if self.n_common else 0
        ends_below(self.row_ptr, self.row_idx, self.n_common, end)
        parts = np.arange(n_parts + 1) * self.n_rows // max(n_parts, 1)
        return end, parts, np.empty((n_parts, self.n_common, WIDTH))


def number_features(X: sp.csr_array) -> tuple[np.ndarray, np.ndarray]:
    """Return the non-empty columns of X, the fullest first, and X's indices as positions in them.

    With this numbering nothing depends on the number of columns, and loops over one column after
    the other have nearly equal lengths, which processors predict.
    """
    columns, indices = None, X.indices
    if is_wide(X):
        columns, indices = np.unique(indices, return_inverse=True)
    length = np.bincount(indices)
    n_features = int(np.count_nonzero(length))
    check_count(n_features, "features with a non-zero value", "columns")
    features = np.argsort(-length, kind="stable")[:n_features]
    position = np.empty(len(length), dtype=np.int32)
    position[features] = np.arange(len(features), dtype=np.int32)
    return features if columns is None else columns[features].astype(np.int64), position[indices]


def check_count(n: int, what: str, of: str) -> None:
    """Raise ValueError for more things than 32 bits can number."""
    if n > INDEX_LIMIT:
        raise ValueError(
            f"There are {n} {what}, but at most {INDEX_LIMIT} can be numbered: fit on fewer {of}."
        )
