"""The search of sparse rows, by the columns of the features of each query."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from ..neighbor_lists import NeighborLists
from .all_pairs import fill_by_pairs, is_faster_by_pairs
from .products import add_products, on_shared_columns

if TYPE_CHECKING:
    from ..cpu.kernels.compiled import SparseArrays
    from ..cpu.workers import Workers

#: Rows whose inner products with a query are summed at a time: a number for each stays
#: in the cache of a core.
SPARSE_BLOCK = 2**15

#: Few queries of few rows are listed by NumPy: a first fit then has less to compile.
FEW = 512

#: Time to look at one row for one query, where one product takes 1.
ROW_COST = 0.5


def fill_sparse(
    queries: sp.csr_array, index: sp.csr_array, lists: NeighborLists, workers: Workers
) -> None:
    """Fill the lists from the inner products of all queries with all rows."""
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
        query_cost = (n_products + index.nnz) / n_queries + ROW_COST * n_rows
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
