"""What searches by several similarities share: features by column, and what threads do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from threading import local

import numpy as np
import scipy.sparse as sp

from ..cpu.kernels.layers import (
    N_LISTED,
    LayerColumns,
    LayerSpace,
    ListedRows,
    NearLists,
    TopRows,
    compare_beyond,
    compare_groups,
    compare_shortlist,
    score_listed,
    top_by_layers,
)
from .layers import Layer, LayeredRows
from .rows import Rows
from .shortlist import best_first

#: Records whose scores are summed at a time: 16 bits number them.
BLOCK_SIZE = 2**16

#: Records beyond those that are asked for: sums in float32 may miss the last ones.
N_SPARE = 4

#: Queries that say how much time the others take.
N_SAMPLED = 1000

#: Time to look at one record by one similarity, where one product takes 1.
LOOK_COST = 0.5


class LayerSearch:
    """The search for the best records of queries, as threads do it.

    Parameters
    ----------
    queries, rows : LayeredRows
        The records that are searched for, and those among which they are.
    widths : iterable of int
        How many features each layer has.
    """

    def __init__(
        self, queries: LayeredRows, rows: LayeredRows, widths: Iterable[int]
    ) -> None:
        self._queries = queries.arrays()
        self._rows = rows.arrays()
        self._spaces = local()
        self._firsts = np.cumsum([0, *widths])

    def offer_block(
        self,
        start: int,
        stop: int,
        block: tuple[LayerColumns, ...],
        first: int,
        lists: tuple[TopRows, ...],
    ) -> None:
        """Offer a block of records, from number `first` on, to queries [start, stop)."""
        space = self._space(len(block[0].factors))
        top_by_layers(start, stop, self._queries, block, first, lists, space)

    def compare(
        self,
        start: int,
        stop: int,
        block: tuple[LayerColumns, ...],
        first: int,
        lists: tuple[TopRows, ...],
        limits: np.ndarray,
    ) -> None:
        """Offer queries [start, stop) and a block of records to the lists of each other."""
        space = self._space(len(block[0].factors))
        compare_groups(start, stop, self._queries, block, first, lists, limits, space)

    def score(
        self, start: int, stop: int, numbers: tuple[int, int, int], lists: ListedRows
    ) -> None:
        """Compute the similarities of listed records for queries [start, stop)."""
        space = self._space(1)
        score_listed(start, stop, self._queries, self._rows, numbers, lists, space)

    def compare_near(self, start: int, stop: int, first: int, lists: NearLists) -> None:
        """Offer the near records to queries [start, stop)."""
        space = self._space(1, lists.shortlist.shape[1])
        compare_shortlist(start, stop, self._queries, self._rows, first, lists, space)

    def compare_beyond(
        self,
        start: int,
        stop: int,
        block: tuple[LayerColumns],
        firsts: tuple[int, int],
        lists: NearLists,
    ) -> None:
        """Offer a block of records that are not near to queries [start, stop)."""
        space = self._space(len(block[0].factors))
        compare_beyond(
            start, stop, self._queries, block, self._rows, firsts, lists, space
        )

    def _space(self, n_rows: int, n_listed: int = N_LISTED) -> LayerSpace:
        """Return what this thread writes to, for a block of so many rows.

        `n_listed` are the rows that are compared together.
        """
        earlier: LayerSpace | None = getattr(self._spaces, "space", None)
        if earlier is not None:
            has_width = earlier.upper.shape[1] == n_rows
            has_length = len(earlier.listed) >= n_listed
            if has_width and has_length:
                return earlier
        space = LayerSpace(
            upper=np.empty((len(self._rows), n_rows), dtype=np.float32),
            listed=np.empty(n_listed, dtype=np.int32),
            similarities=np.empty(n_listed),
            unfolded=np.zeros(self._firsts[-1]),
            firsts=self._firsts,
        )
        self._spaces.space = space
        return space


def empty_lists(n_queries: int, sizes: Iterable[int]) -> tuple[TopRows, ...]:
    """Return lists to fill, of one size per layer."""
    return tuple(
        TopRows(
            scores=np.full((n_queries, size), -np.inf, dtype=np.float32),
            rows=np.full((n_queries, size), -1, dtype=np.int32),
        )
        for size in sizes
    )


def best_rows_first(lists: TopRows, queries: np.ndarray) -> TopRows:
    """Return the lists of some queries with the best rows first, of equal ones the first."""
    rows, scores = best_first(lists.rows[queries], lists.scores[queries])
    return TopRows(scores, rows)


def listed_rows(lists: tuple[TopRows, ...], n_listed: int) -> ListedRows:
    """Return the first rows of each list, best first, whose scores are to be computed."""
    rows = np.stack([each.rows[:, :n_listed] for each in lists])
    return ListedRows(np.full(rows.shape, -np.inf), rows)


class ColumnsOfLayer:
    """The features of records in one layer, by column, in blocks of records."""

    def __init__(self, layer: Layer, records: range, block_size: int) -> None:
        indptr = layer.rows.arrays.indptr
        indices = layer.rows.arrays.indices
        indices = indices[indptr[records.start] : indptr[records.stop]]
        self._block_size = block_size
        self.n_rows = len(records)
        self.n_features = 1 + int(indices.max(initial=-1))
        self._n_records = np.bincount(indices, minlength=self.n_features)
        self.blocks = [
            self._block(layer.take(np.array(records[first : first + block_size])))
            for first in range(0, len(records), block_size)
        ]

    def without(self, rows: np.ndarray) -> ColumnsOfLayer:
        """Return the same with zeros as features of some records."""
        columns = copy(self)
        columns.blocks = list(self.blocks)
        block_of_row = rows // self._block_size
        for number in np.unique(block_of_row).tolist():
            block = self.blocks[number]
            is_inside = block_of_row == number
            positions = rows[is_inside] - number * self._block_size
            is_gone = np.isin(block.positions, positions.astype(np.uint16))
            values = np.where(is_gone, np.float32(0.0), block.values)
            columns.blocks[number] = block._replace(values=values)
        return columns

    def _block(self, layer: Layer) -> LayerColumns:
        """Return a block of records."""
        rows = layer.rows.times(layer.scales)
        arrays = rows.arrays
        rounded = arrays.data.astype(np.float32)
        columns = sp.csr_array(
            (rounded, arrays.indices, arrays.indptr),
            shape=(rows.n_rows, self.n_features),
        ).tocsc()
        return LayerColumns(
            indptr=columns.indptr.astype(np.int64),
            positions=columns.indices.astype(np.uint16),
            values=columns.data,
            factors=layer.factors.astype(np.float32),
            longest=float(np.sqrt(rows.squares().max(initial=0.0))),
        )

    def n_products(self, queries: Rows) -> float:
        """Return the products of one of some queries with all records, about."""
        n_queries = min(queries.n_rows, N_SAMPLED)
        arrays = queries.arrays
        features = arrays.indices[: arrays.indptr[n_queries]]
        known = features[features < self.n_features]
        return float(self._n_records[known].sum() / max(n_queries, 1))


def cost_of_query(columns: Sequence[ColumnsOfLayer], queries: LayeredRows) -> float:
    """Return the number of multiplications of one of the queries and all records, about."""
    pairs = zip(columns, queries.layers, strict=True)
    n_products = sum(each.n_products(layer.rows) for each, layer in pairs)
    n_looks = sum(each.n_rows for each in columns)
    return n_products + LOOK_COST * n_looks
