"""The search of dense rows: products of blocks of queries with all rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..neighbor_lists import NeighborLists

if TYPE_CHECKING:
    from ..cpu.workers import Workers

#: Columns that are compared at a time: rows that differ in them are done with.
COLUMNS_AT_A_TIME = 16

#: Equal rows that are checked at a time.
ROWS_AT_A_TIME = 4096

#: Inner products of dense rows that are formed at a time: 32 MiB.
DENSE_BLOCK = 2**22


def fill_dense(
    queries: np.ndarray, index: np.ndarray, lists: NeighborLists, workers: Workers
) -> None:
    """Fill the lists from products of blocks of queries with all rows."""
    from ..cpu.kernels import search as kernels

    # In float64 also where the rows are float32: neighbors must not depend on rounding.
    columns = index.T.astype(np.float64, copy=False)
    n_rows = index.shape[0]
    first_rows = first_equal_rows(index)
    later_rows = np.flatnonzero(first_rows != np.arange(n_rows))
    block_size = max(1, DENSE_BLOCK // max(1, n_rows))
    for first in range(0, len(queries), block_size):
        block = queries[first : first + block_size].astype(np.float64, copy=False)
        products = block @ columns
        # BLAS rounds by the place of a row: equal rows must have equal products.
        products[:, later_rows] = products[:, first_rows[later_rows]]
        workers.run_pieces(
            kernels.top_of_sums, len(block), n_rows, products, first, lists
        )
    lists.sort()


def first_equal_rows(X: np.ndarray) -> np.ndarray:
    """Return for each row of X the number of the first row that is equal to it.

    Rows are hashed some columns at a time, and only those whose hash another row has go
    on to the next columns.

    Examples
    --------
    >>> first_equal_rows(np.array([[1.0, 0], [0, 2], [1, 0], [0, -0.0]])).tolist()
    [0, 1, 0, 3]
    """
    n_rows, n_columns = X.shape
    first_rows = np.arange(n_rows)
    candidates = np.arange(n_rows)
    hashes = np.zeros(n_rows, dtype=np.uint64)
    for start in range(0, n_columns, COLUMNS_AT_A_TIME):
        values = X[candidates, start : start + COLUMNS_AT_A_TIME].astype(np.float64)
        words = (values + 0.0).view(np.uint64)  # -0.0 becomes 0.0
        for column in words.T:
            hashes = _mixed(hashes ^ column)
        _, groups, sizes = np.unique(hashes, return_inverse=True, return_counts=True)
        is_repeated = sizes[groups] > 1
        candidates = candidates[is_repeated]
        hashes = hashes[is_repeated]
        if not len(candidates):
            return first_rows
    _, leaders, groups = np.unique(hashes, return_index=True, return_inverse=True)
    leading_rows = candidates[leaders[groups]]
    for start in range(0, len(candidates), ROWS_AT_A_TIME):
        rows = candidates[start : start + ROWS_AT_A_TIME]
        leading = leading_rows[start : start + ROWS_AT_A_TIME]
        is_equal = (X[rows] == X[leading]).all(axis=1)
        first_rows[rows[is_equal]] = leading[is_equal]
    return first_rows


def _mixed(words: np.ndarray) -> np.ndarray:
    """Return numbers of 64 bits that depend on all bits of the given ones."""
    words = (words ^ (words >> np.uint64(31))) * np.uint64(0xBF58476D1CE4E5B9)
    return words ^ (words >> np.uint64(29))
