"""The search of dense rows: products of blocks of queries with all rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..neighbor_lists import NeighborLists

if TYPE_CHECKING:
    from ..cpu.workers import Workers

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
    block_size = max(1, DENSE_BLOCK // max(1, n_rows))
    for first in range(0, len(queries), block_size):
        block = queries[first : first + block_size].astype(np.float64, copy=False)
        products = block @ columns
        workers.run_pieces(
            kernels.top_of_sums, len(block), n_rows, products, first, lists
        )
    lists.sort()
