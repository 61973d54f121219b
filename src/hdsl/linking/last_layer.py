"""The search by one more similarity, from the records near by that before."""

from __future__ import annotations

import numpy as np

from ..cpu.kernels.layers import ListedRows, NearLists
from ..cpu.workers import Workers
from .layer_search import (
    BLOCK_SIZE,
    LOOK_COST,
    N_SPARE,
    ColumnsOfLayer,
    LayerSearch,
)
from .layers import LayeredRows
from .shortlist import Shortlist, best_first

#: Multiplications that it takes to look at one record.
COMPARISON_COST = 100


class LastLayerIndex:
    """Records that are searched by one more similarity, with those near by that before.

    Few other records are compared: how similar they are at most is known.

    Parameters
    ----------
    layered : LayeredRows
    records : range
        Those to search.
    """

    def __init__(self, layered: LayeredRows, records: range) -> None:
        self._layered = layered
        self._records = records
        self._columns = ColumnsOfLayer(layered.layers[-1], records, BLOCK_SIZE)
        self._widths = [layer.n_features for layer in layered.layers]

    def top(
        self, queries: LayeredRows, shortlist: Shortlist, k: int, n_jobs: int | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the k records of largest similarity by the last layer to each query.

        Returns
        -------
        records, scores : ndarray of shape (n_queries, k)
            As by `LayeredIndex.top`.
        """
        shape = (queries.n_records, k + N_SPARE)
        lists = NearLists(
            scores=np.full(shape, -np.inf),
            rows=np.full(shape, -1, dtype=np.int32),
            shortlist=shortlist.records,
            shortlist_scores=shortlist.scores,
            beyond=shortlist.beyond,
        )
        first = self._records.start
        search = LayerSearch(queries, self._layered, self._widths)
        last_rows = queries.layers[-1].rows
        near_cost = COMPARISON_COST * shortlist.records.shape[1]
        look_cost = LOOK_COST * BLOCK_SIZE + self._columns.n_products(last_rows)
        with Workers(n_jobs) as workers:
            workers.run_pieces(
                search.compare_near, queries.n_records, near_cost, first, lists
            )
            for number, block in enumerate(self._columns.blocks):
                row = number * BLOCK_SIZE
                workers.run_pieces(
                    search.compare_beyond,
                    queries.n_records,
                    look_cost,
                    (block,),
                    (first + row, row),
                    lists,
                )
            # The same bits as those of pairs: not from similarities in 32 bits.
            listed = ListedRows(lists.scores[None], lists.rows[None])
            n_entries = self._layered.n_entries / max(self._layered.n_records, 1)
            numbers = (0, len(self._records), first)
            workers.run_pieces(
                search.score, queries.n_records, k * n_entries, numbers, listed
            )
        records, scores = best_first(lists.rows, lists.scores)
        return records[:, :k], scores[:, :k]
