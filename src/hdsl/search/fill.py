"""Lists of nearest rows on threads: of sparse rows, of dense ones, and of both side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from ..neighbor_lists import NeighborLists
from ..rows import Rows, count_features
from .all_pairs import fill_by_pairs, is_faster_by_pairs
from .products import BLOCK_PRODUCTS, add_products, on_shared_columns

if TYPE_CHECKING:
    from ..cpu.kernels.compiled import SparseArrays
    from ..cpu.workers import Workers


#: Rows whose inner products with a query are summed at a time: a number for each stays
#: in the cache of a core.
SPARSE_BLOCK = 2**15

#: Few queries of few rows are listed by NumPy: a first fit then has less to compile.
FEW = 512

#: Time to look at one row for one query, where one product takes 1.
SPARSE_ROW_COST = 0.5
MIXED_ROW_COST = 1.0

#: Rows that mixed queries are compared with at a time.
MIXED_BLOCK = 2**15

#: Equal rows that are checked at a time.
ROWS_AT_A_TIME = 4096

#: Inner products of dense rows that are formed at a time: 32 MiB.
DENSE_BLOCK = 2**22


def fill_lists(
    queries: Any, index: Any, lists: NeighborLists, n_jobs: int | None
) -> None:
    """Fill the lists from the inner products of all queries with all rows, sorted.

    Parameters
    ----------
    queries, index : ndarray, sparse array or Rows
        Both are `Rows`, or neither; the same object if rows are searched among
        themselves.
    lists : NeighborLists
    n_jobs : int or None
    """
    from ..cpu.workers import Workers  # compiled code is loaded by the first search

    with Workers(n_jobs) as workers:
        if isinstance(index, Rows):
            fill_mixed(queries, index, lists, workers)
        elif sp.issparse(queries) or sp.issparse(index):
            sparse_index = sp.csr_array(index)
            sparse_queries = sparse_index
            if queries is not index:
                sparse_queries = sp.csr_array(queries)
            fill_sparse(sparse_queries, sparse_index, lists, workers)
        else:
            fill_dense(queries, index, lists, workers)


# --- sparse rows ----------------------------------------------------------------------


def fill_sparse(
    queries: sp.csr_array, index: sp.csr_array, lists: NeighborLists, workers: Workers
) -> None:
    """Fill the lists of sparse rows, by the columns of the features of each query."""
    n_queries = queries.shape[0]
    if n_queries == 0:
        return
    is_among_themselves = queries is index and lists.leaves_self
    queries, index, frequency = on_shared_columns(queries, index)
    n_rows = index.shape[0]
    if max(n_queries, n_rows) <= FEW:
        lists.fill(add_products(queries, index, np.zeros((n_queries, n_rows))))
        return
    n_products = float(frequency[queries.indices].sum(dtype=np.float64))
    waiting = np.arange(n_queries)
    if is_among_themselves and is_faster_by_pairs(n_queries, n_products):
        waiting = fill_by_pairs(index, frequency, lists, workers)
    if len(waiting) and n_rows:
        query_cost = (n_products + index.nnz) / n_queries + SPARSE_ROW_COST * n_rows
        _fill_by_columns(waiting, queries, index, lists, query_cost / n_rows, workers)
    lists.sort()


def _fill_by_columns(
    waiting: np.ndarray,
    queries: sp.csr_array,
    index: sp.csr_array,
    lists: NeighborLists,
    cost_per_row: float,
    workers: Workers,
) -> None:
    """Fill the lists of the waiting queries, one block of the index after the other."""
    from ..cpu.kernels import search as kernels
    from ..cpu.rows import arrays_of

    query_arrays = arrays_of(queries)

    def fill(
        start: int, stop: int, block: SparseArrays, first: int, n_rows: int
    ) -> None:
        sums = np.zeros(n_rows)
        kernels.top_by_columns(
            start, stop, waiting, query_arrays, block, first, lists, sums
        )

    for first in range(0, index.shape[0], SPARSE_BLOCK):
        block = index[first : first + SPARSE_BLOCK]
        n_rows = block.shape[0]
        columns = arrays_of(block.tocsc())
        cost = cost_per_row * n_rows
        workers.run_pieces(fill, len(waiting), cost, columns, first, n_rows)


# --- dense rows -----------------------------------------------------------------------


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


def first_equal_rows(X: np.ndarray, columns_at_a_time: int = 16) -> np.ndarray:
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
    for start in range(0, n_columns, columns_at_a_time):
        values = X[candidates, start : start + columns_at_a_time].astype(np.float64)
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


# --- rows with a dense embedding ------------------------------------------------------


def fill_mixed(
    queries: Rows, index: Rows, lists: NeighborLists, workers: Workers
) -> None:
    """Fill the lists from the inner products of all queries with all rows.

    Products of the embeddings are made by BLAS in their own dtype. Where they may be
    large enough, they are computed anew, so that rounding decides nothing.
    """
    from ..cpu.kernels import search as kernels
    from ..cpu.kernels.compiled import MixedArrays
    from ..cpu.rows import arrays_of

    n_queries = queries.shape[0]
    n_rows = index.shape[0]
    if n_queries and n_rows:
        sparse_queries, sparse_rows, frequency = on_shared_columns(
            queries.sparse, index.sparse
        )
        n_products = float(frequency[sparse_queries.indices].sum(dtype=np.float64))
        cost_per_row = MIXED_ROW_COST + n_products / n_queries / n_rows
        errors = rounding_errors(queries, index)
        query_arrays = MixedArrays(arrays_of(sparse_queries), queries.dense)
        row_arrays = MixedArrays(arrays_of(sparse_rows), index.dense)
        n_features = sparse_rows.shape[1]

        def fill(start: int, stop: int, block: kernels.MixedBlock) -> None:
            unfolded = np.zeros(n_features)
            kernels.top_of_mixed_sums(
                start, stop, block, query_arrays, row_arrays, lists, unfolded
            )

        for first_row in range(0, n_rows, MIXED_BLOCK):
            rows = slice(first_row, min(first_row + MIXED_BLOCK, n_rows))
            columns = _columns_of(sparse_rows[rows])
            dense_rows = index.dense[rows].T
            n_at_once = max(1, BLOCK_PRODUCTS // dense_rows.shape[1])
            for first_query in range(0, n_queries, n_at_once):
                chosen = slice(first_query, min(first_query + n_at_once, n_queries))
                sums = queries.dense[chosen] @ dense_rows
                block = kernels.MixedBlock(
                    first_query=first_query,
                    first_row=first_row,
                    columns=columns,
                    sums=sums,
                    errors=errors[chosen],
                )
                cost = cost_per_row * sums.shape[1]
                workers.run_pieces(fill, len(sums), cost, block)
    lists.sort()


def rounding_errors(queries: Rows, rows: Rows) -> np.ndarray:
    """Return for each query what a product with any of the rows may be too small by.

    A sum of n products is off by at most n times the relative error of a number, times
    the sum of their sizes, which is at most the product of the lengths.
    """
    dtype = np.result_type(queries.dense, rows.dense)
    n_products = queries.dense.shape[1] + int(count_features(queries).max(initial=0))
    relative = (n_products + 8) * float(np.finfo(dtype).eps)
    longest = float(_lengths(rows).max(initial=0.0))
    return relative * longest * _lengths(queries)


def _lengths(rows: Rows) -> np.ndarray:
    """Return the length of each row in float64, without a copy of all of them."""
    squares = np.einsum("ij,ij->i", rows.dense, rows.dense, dtype=np.float64)
    features = rows.sparse
    return np.sqrt(squares + np.asarray(features.multiply(features).sum(axis=1)))


def _columns_of(rows: sp.csr_array) -> SparseArrays:
    """Return rows by their columns, as kernels take them."""
    from ..cpu.rows import arrays_of

    return arrays_of(rows.tocsc())
