"""The search of rows with a dense embedding: matrix products, and what the features add."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from ..neighbor_lists import NeighborLists
from ..rows import Rows, count_features
from .products import on_shared_columns

if TYPE_CHECKING:
    from ..cpu.kernels.compiled import SparseArrays
    from ..cpu.workers import Workers

#: Rows and products that are looked at at a time: 32 MiB.
BLOCK_ROWS = 2**15

BLOCK_PRODUCTS = 2**22

#: Time to look at one row for one query, where one product takes 1.
ROW_COST = 1.0


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
        cost_per_row = ROW_COST + n_products / n_queries / n_rows
        errors = rounding_errors(queries, index)
        query_arrays = MixedArrays(arrays_of(sparse_queries), queries.dense)
        row_arrays = MixedArrays(arrays_of(sparse_rows), index.dense)
        n_features = sparse_rows.shape[1]

        def fill(start: int, stop: int, block: kernels.MixedBlock) -> None:
            unfolded = np.zeros(n_features)
            kernels.top_of_mixed_sums(
                start, stop, block, query_arrays, row_arrays, lists, unfolded
            )

        for first_row in range(0, n_rows, BLOCK_ROWS):
            rows = slice(first_row, min(first_row + BLOCK_ROWS, n_rows))
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
