"""Inner products of sparse rows: which columns they need, and whether they overflow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..input.matrices import largest_value
from ..rows import Rows, blocks_of
from ..wide_matrices import drop_unused_columns

#: Products of a block of queries.
BLOCK_PRODUCTS = 2**22


def largest_magnitude(X: Any) -> float:
    """Return the largest absolute value."""
    if isinstance(X, Rows):
        return max(largest_magnitude(block) for block in blocks_of(X))
    if sp.issparse(X):
        X = X.data
    return largest_value(X)


def check_no_overflow(
    queries: float, index: float, n_features: int, dtype: Any = np.float64
) -> None:
    """Raise ValueError where inner products may overflow: they would have no order.

    Parameters
    ----------
    queries, index : float
        The largest absolute value of each.
    n_features : int
    dtype : dtype, default=float64
        Of the sums.
    """
    if not queries * index * n_features < float(np.finfo(dtype).max):
        raise ValueError(
            f"Inner products may overflow: queries has values up to {queries:.3g} and "
            f"index up to {index:.3g}. Scale the rows to smaller values."
        )


def on_shared_columns(
    queries: sp.csr_array, index: sp.csr_array
) -> tuple[sp.csr_array, sp.csr_array, np.ndarray]:
    """Return both on the columns that both use, as float64, the most frequent first.

    Columns that are read most often are then close in memory. The entries of a row stay
    in their order.

    Returns
    -------
    queries, index : csr_array
        The same object where they were.
    frequency : ndarray of shape (n_shared_columns,)
        Rows of the index that use each column.
    """
    is_same = queries is index
    if is_same:
        (index,), _ = drop_unused_columns(index)
        queries = index
    else:
        (index, queries), _ = drop_unused_columns(index, queries)
    n_columns = index.shape[1]
    frequency = np.bincount(index.indices, minlength=n_columns)
    is_queried = np.zeros(n_columns, dtype=bool)
    is_queried[queries.indices] = True
    shared = np.flatnonzero(is_queried & (frequency > 0))
    shared = shared[np.argsort(-frequency[shared], kind="stable")]
    index_shared = sp.csr_array(index[:, shared], dtype=np.float64)
    if is_same:
        queries_shared = index_shared
    else:
        queries_shared = sp.csr_array(queries[:, shared], dtype=np.float64)
    return queries_shared, index_shared, frequency[shared]


def add_products(queries: Any, rows: Any, out: np.ndarray) -> np.ndarray:
    """Add the inner products of all queries with all rows to `out`, and return it.

    Parameters
    ----------
    queries, rows : csr_array, Rows, or the dense block of mixed rows
    out : ndarray of shape (n_queries, n_rows), float64
    """
    from ..cpu.kernels import search as kernels
    from ..cpu.rows import arrays_of

    if isinstance(queries, Rows):
        add_products(queries.sparse, rows.sparse, out)
        return add_products(queries.dense, rows.dense, out)
    if not sp.issparse(queries):
        out += queries.astype(np.float64) @ rows.astype(np.float64).T
        return out
    (queries, rows), _ = drop_unused_columns(queries, rows)
    kernels.add_products(arrays_of(queries), arrays_of(rows.tocsc()), out)
    return out


class Columns:
    """Rows by their columns, for the products of a few queries with all of them.

    The products are the same bits as those of `top_k`.

    Parameters
    ----------
    rows : csr_array of shape (n_rows, n_features)
    """

    def __init__(self, rows: sp.csr_array) -> None:
        self._columns = sp.csr_array(rows.T.tocsr(), dtype=np.float64)
        self._frequency = np.diff(self._columns.indptr)

    def products(self, queries: sp.csr_array) -> Iterator[tuple[int, sp.csr_array]]:
        """Yield the products of some queries at a time, and the number of the first.

        Products of rows without a common feature are not stored. Queries may have more
        features, which no row has, or fewer.
        """
        queries = sp.csr_array(queries, copy=True)
        queries.resize((queries.shape[0], self._columns.shape[0]))
        sums = np.append(0, np.cumsum(self._frequency[queries.indices]))
        n_products = np.diff(sums[queries.indptr])
        for block in query_blocks(n_products):
            yield block.start, sp.csr_array(queries[block] @ self._columns)


def query_blocks(n_products: np.ndarray) -> Iterator[slice]:
    """Yield blocks of queries with about BLOCK_PRODUCTS products, at least one query."""
    n_products_upto = np.cumsum(n_products)
    first = 0
    while first < len(n_products):
        limit = BLOCK_PRODUCTS
        if first > 0:
            limit += n_products_upto[first - 1]
        last = int(np.searchsorted(n_products_upto, limit, side="right"))
        last = max(first + 1, last)
        yield slice(first, last)
        first = last
