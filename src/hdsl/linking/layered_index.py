"""Records that are searched again and again by several similarities at a time."""

from __future__ import annotations

from copy import copy

import numpy as np

from ..cpu.kernels.layers import ListedRows, TopRows
from ..cpu.workers import Workers
from .layer_search import (
    BLOCK_SIZE,
    N_SPARE,
    ColumnsOfLayer,
    LayerSearch,
    cost_of_query,
    empty_lists,
    listed_rows,
)
from .layers import LayeredRows
from .shortlist import best_first

#: Later records that are put together before they are a part of their own, and how many
#: times as many records as at first there are when a new index is made.
SMALL_CHUNK = 4096
GROWTH = 1.5


class LayeredIndex:
    """Records that are searched again and again, kept by the columns of their features.

    Parameters
    ----------
    layered : LayeredRows
    records : range, default=None
        Those to search, numbered from 0 on in the index; None is all.
    """

    def __init__(self, layered: LayeredRows, records: range | None = None) -> None:
        if records is None:
            records = range(layered.n_records)
        self._chunks = [_Chunk.of_rows(layered, records, np.arange(len(records)))]

    @property
    def n_records(self) -> int:
        """How many records there are, removed ones included."""
        return sum(chunk.n_records for chunk in self._chunks)

    def with_records(self, layered: LayeredRows, numbers: np.ndarray) -> LayeredIndex:
        """Return an index with later records, in place of those of the same numbers."""
        index = copy(self)
        chunks = [chunk.without(numbers) for chunk in self._chunks]
        if len(chunks) > 1 and chunks[-1].n_records < SMALL_CHUNK:
            smallest = chunks.pop()
            layered = smallest.layered.followed_by(layered)
            numbers = np.concatenate([smallest.numbers, numbers])
        chunks.append(_Chunk.of_rows(layered, range(layered.n_records), numbers))
        index._chunks = chunks
        return index

    @property
    def has_grown(self) -> bool:
        """Whether so many records came later that a new index pays."""
        n_first = self._chunks[0].n_records
        return self.n_records > GROWTH * n_first + SMALL_CHUNK

    def top(
        self, queries: LayeredRows, k: int, n_jobs: int | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the k records of largest similarity to each query, by each layer.

        Returns
        -------
        records, scores : ndarray of shape (n_layers, n_queries, k)
            Best first, of equal ones the first; -1 and -inf where there are fewer than
            k records.
        """
        n_listed = k + N_SPARE
        lists = empty_lists(queries.n_records, [n_listed] * queries.n_layers)
        with Workers(n_jobs) as workers:
            first = 0
            for chunk in self._chunks:
                chunk.offer(queries, lists, first, workers)
                first += chunk.n_records
            listed = listed_rows(lists, n_listed)
            first = 0
            for chunk in self._chunks:
                chunk.score(queries, listed, first, workers)
                first += chunk.n_records
        numbers = np.concatenate([*(chunk.numbers for chunk in self._chunks), [-1]])
        records = numbers[listed.rows]
        scores = np.where(records < 0, -np.inf, listed.scores)
        records, scores = best_first(records, scores)
        return records[:, :, :k], scores[:, :, :k]


class _Chunk:
    """Records of an index that came at the same time.

    Parameters
    ----------
    layered : LayeredRows
    records : range
        Those of the rows that the index has.
    numbers : ndarray of shape (n_records,)
        Their numbers in the index, -1 where another row has it now.
    columns : list of ColumnsOfLayer
    """

    def __init__(
        self,
        layered: LayeredRows,
        records: range,
        numbers: np.ndarray,
        columns: list[ColumnsOfLayer],
    ) -> None:
        self.layered = layered
        self.numbers = numbers
        self._records = records
        self._columns = columns

    @classmethod
    def of_rows(
        cls, layered: LayeredRows, records: range, numbers: np.ndarray
    ) -> _Chunk:
        """Return records and their numbers."""
        columns = [
            ColumnsOfLayer(layer, records, BLOCK_SIZE) for layer in layered.layers
        ]
        return cls(layered, records, numbers, columns)

    @property
    def n_records(self) -> int:
        """How many records there are, those without a number included."""
        return len(self._records)

    def without(self, numbers: np.ndarray) -> _Chunk:
        """Return the same without some of the records: these have no number."""
        is_gone = np.isin(self.numbers, numbers)
        if not is_gone.any():
            return self
        rows = np.flatnonzero(is_gone)
        columns = [each.without(rows) for each in self._columns]
        remaining = np.where(is_gone, -1, self.numbers)
        return _Chunk(self.layered, self._records, remaining, columns)

    def offer(
        self,
        queries: LayeredRows,
        lists: tuple[TopRows, ...],
        first: int,
        workers: Workers,
    ) -> None:
        """Offer the records to the lists of queries, numbered from `first` on."""
        search = LayerSearch(queries, self.layered, self._widths)
        cost = cost_of_query(self._columns, queries) / max(self._n_blocks, 1)
        for number in range(self._n_blocks):
            block = tuple(columns.blocks[number] for columns in self._columns)
            row = first + number * BLOCK_SIZE
            workers.run_pieces(
                search.offer_block, queries.n_records, cost, block, row, lists
            )

    def score(
        self, queries: LayeredRows, lists: ListedRows, first: int, workers: Workers
    ) -> None:
        """Compute the similarities in the lists anew, in float64."""
        search = LayerSearch(queries, self.layered, self._widths)
        numbers = (first, first + self.n_records, self._records.start)
        n_listed = lists.rows.shape[2] * queries.n_layers
        cost = n_listed * self.layered.n_entries / self.layered.n_records
        workers.run_pieces(search.score, queries.n_records, cost, numbers, lists)

    @property
    def _widths(self) -> list[int]:
        """How many features each layer has."""
        return [columns.n_features for columns in self._columns]

    @property
    def _n_blocks(self) -> int:
        return len(self._columns[0].blocks)
