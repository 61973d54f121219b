"""Records to search by several similarities at a time: by spelling, by cosine, as learned."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from threading import local
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from ..cpu.kernels.layers import (
    LayerColumns,
    LayerRows,
    LayerSpace,
    NearLists,
    TopLists,
    compare_beyond,
    compare_shortlist,
    score_listed,
    top_by_layers,
)
from ..cpu.workers import Workers
from .records import RecordFeatures
from .rows import Rows

#: Records whose scores are summed at a time: 16 bits number them.
BLOCK_SIZE = 2**16

#: Multiplications that it takes to look at one record.
COMPARISON_COST = 100

#: Records beyond those that are asked for: sums in float32 may miss the last ones.
N_SPARE = 4

#: What sums in float32 may be too small by.
ROUNDING = 1e-4

#: Later records that are put together before they are a part of their own, and how many
#: times as many records as at first there are when a new index is made.
SMALL_CHUNK = 4096
GROWTH = 1.5

#: Queries that say how much time the others take.
N_SAMPLED = 1000

#: Time to look at one record by one similarity, where one product takes 1.
LOOK_COST = 0.5


class Layer(NamedTuple):
    """The features of records in one layer, a scale and a factor of each record."""

    rows: Rows
    scales: np.ndarray
    factors: np.ndarray

    @classmethod
    def of_rows(cls, rows: Rows) -> Layer:
        """Return rows as they are: scales and factors are 1."""
        return cls(rows, np.ones(rows.n_rows), np.ones(rows.n_rows))

    @property
    def n_features(self) -> int:
        """The largest number of a feature, and one."""
        return 1 + int(self.rows.arrays.indices.max(initial=-1))

    def take(self, records: np.ndarray) -> Layer:
        """Return some of the records."""
        return Layer(
            self.rows.take(records), self.scales[records], self.factors[records]
        )

    def followed_by(self, later: Layer) -> Layer:
        """Return these records and later ones."""
        return Layer(
            self.rows.followed_by(later.rows),
            np.concatenate([self.scales, later.scales]),
            np.concatenate([self.factors, later.factors]),
        )

    def arrays(self) -> LayerRows:
        """Return what the kernels take."""
        return LayerRows(
            arrays=self.rows.arrays,
            scales=np.ascontiguousarray(self.scales),
            factors=np.ascontiguousarray(self.factors),
        )


class LayeredRows(NamedTuple):
    """Rows of records in layers of features, each of which makes one more similarity.

    The similarity of two records by a layer is that by the layer before, times the
    factors of both, plus the inner product of their features of the layer, times the
    scales of both.
    """

    layers: tuple[Layer, ...]

    @classmethod
    def of_records(cls, records: RecordFeatures) -> LayeredRows:
        """Return records by spelling and by cosine."""
        grams = records.grams
        gram_factors, word_scales = records.cosine_factors.T
        by_spelling = Layer(grams.rows, grams.inverse_lengths, gram_factors)
        by_cosine = Layer(records.words.rows, word_scales, gram_factors)
        return cls((by_spelling, by_cosine))

    @property
    def n_layers(self) -> int:
        """Similarities."""
        return len(self.layers)

    @property
    def n_records(self) -> int:
        """How many records there are."""
        return self.layers[0].rows.n_rows

    @property
    def n_entries(self) -> int:
        """Features of all records and layers."""
        return sum(len(layer.rows.arrays.data) for layer in self.layers)

    def with_layer(self, layer: Layer) -> LayeredRows:
        """Return the records with one more similarity."""
        return LayeredRows((*self.layers, layer))

    def take(self, records: np.ndarray) -> LayeredRows:
        """Return some of the records."""
        return LayeredRows(tuple(layer.take(records) for layer in self.layers))

    def followed_by(self, later: LayeredRows) -> LayeredRows:
        """Return these records and later ones."""
        pairs = zip(self.layers, later.layers, strict=True)
        return LayeredRows(tuple(first.followed_by(second) for first, second in pairs))

    def arrays(self) -> tuple[LayerRows, ...]:
        """Return what the kernels take."""
        return tuple(layer.arrays() for layer in self.layers)

    def similarities(self, pairs: np.ndarray, n_jobs: int | None) -> list[np.ndarray]:
        """Return the similarities of pairs of records by each layer."""
        similarities = []
        similarity = np.zeros(len(pairs))
        for layer in self.layers:
            products = layer.rows.products(pairs, n_jobs)
            products *= layer.scales[pairs].prod(axis=1)
            similarity = similarity * layer.factors[pairs].prod(axis=1) + products
            similarities.append(similarity)
        return similarities


class Shortlist(NamedTuple):
    """The records that are nearest to each of some by a similarity, and what others have.

    Attributes
    ----------
    records : ndarray of shape (n_queries, n_shortlist), int32
        Numbers in an index; -1 where there are no more.
    scores : ndarray of shape (n_queries, n_shortlist), float32
        Their similarities.
    beyond : ndarray of shape (n_queries,)
        No other record has a larger similarity.
    """

    records: np.ndarray
    scores: np.ndarray
    beyond: np.ndarray

    @classmethod
    def empty(cls, n_queries: int, n_shortlist: int) -> Shortlist:
        """Return records to fill."""
        shape = (n_queries, n_shortlist)
        return cls(
            records=np.full(shape, -1, dtype=np.int32),
            scores=np.zeros(shape, dtype=np.float32),
            beyond=np.zeros(n_queries),
        )

    @classmethod
    def of_lists(cls, records: np.ndarray, scores: np.ndarray) -> Shortlist:
        """Return the records of lists, best first."""
        beyond = np.zeros(len(records))
        if records.shape[1]:
            is_full = records[:, -1] >= 0
            beyond[is_full] = scores[is_full, -1] + ROUNDING
        return cls(records.astype(np.int32), scores.astype(np.float32), beyond)

    def fill(self, queries: np.ndarray, shortlist: Shortlist) -> None:
        """Write the nearest records of some queries."""
        self.records[queries] = shortlist.records
        self.scores[queries] = shortlist.scores
        self.beyond[queries] = shortlist.beyond

    def take(self, queries: np.ndarray) -> Shortlist:
        """Return the nearest records of some queries."""
        return Shortlist(
            self.records[queries], self.scores[queries], self.beyond[queries]
        )


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

    def with_layer(self, layer: Layer) -> LayeredIndex:
        """Return an index by one more similarity, with the same columns for the others.

        The layer has all records that the index was made of, before any is appended.
        """
        (chunk,) = self._chunks
        index = copy(self)
        index._chunks = [chunk.with_layer(layer)]
        return index

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
        records, scores, _ = self.top_and_shortlist(queries, k, 0, n_jobs)
        return records, scores

    def top_and_shortlist(
        self, queries: LayeredRows, k: int, n_shortlist: int, n_jobs: int | None
    ) -> tuple[np.ndarray, np.ndarray, Shortlist]:
        """Return what `top` returns, and more records by the last layer.

        These have similarities in 32 bits.
        """
        sizes = np.full(queries.n_layers, k + N_SPARE)
        sizes[-1] = max(k, n_shortlist) + N_SPARE
        shape = (queries.n_layers, queries.n_records, max(sizes))
        lists = TopLists(np.full(shape, -np.inf), np.full(shape, -1), sizes)
        with Workers(n_jobs) as workers:
            first = 0
            for chunk in self._chunks:
                chunk.offer(queries, lists, first, workers)
                first += chunk.n_records
            rows, scores = _best_first(lists.rows, lists.scores)
            numbers = np.concatenate([*(chunk.numbers for chunk in self._chunks), [-1]])
            shortlist = Shortlist.of_lists(
                numbers[rows[-1, :, :n_shortlist]], scores[-1, :, :n_shortlist]
            )
            n_listed = k + N_SPARE
            listed = TopLists(
                scores=np.ascontiguousarray(scores[:, :, :n_listed]),
                rows=np.ascontiguousarray(rows[:, :, :n_listed]),
                sizes=np.full(queries.n_layers, n_listed),
            )
            first = 0
            for chunk in self._chunks:
                chunk.score(queries, listed, first, workers)
                first += chunk.n_records
        records = numbers[listed.rows]
        scores = np.where(records < 0, -np.inf, listed.scores)
        records, scores = _best_first(records, scores)
        return records[:, :, :k], scores[:, :, :k], shortlist


def _best_first(
    records: np.ndarray, scores: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return lists with the best first, of equal ones the first."""
    order = np.lexsort((records, -scores))
    return (
        np.take_along_axis(records, order, axis=-1),
        np.take_along_axis(scores, order, axis=-1),
    )


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
        self._columns = _ColumnsOfLayer(layered.layers[-1], records)
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
        shape = (1, queries.n_records, k + N_SPARE)
        lists = NearLists(
            scores=np.full(shape, -np.inf),
            rows=np.full(shape, -1),
            shortlist=shortlist.records,
            shortlist_scores=shortlist.scores,
            beyond=shortlist.beyond,
        )
        first = self._records.start
        rows = self._layered.arrays()
        search = _Search(queries.arrays(), rows, lists, self._widths)
        cost = self._layered.n_entries / max(self._layered.n_records, 1)
        looks = LOOK_COST * BLOCK_SIZE + self._columns.n_products(
            queries.layers[-1].rows
        )
        with Workers(n_jobs) as workers:
            shortlist_cost = COMPARISON_COST * shortlist.records.shape[1]
            workers.run_pieces(
                search.shortlist, queries.n_records, shortlist_cost, first
            )
            for number, block in enumerate(self._columns.blocks):
                row = number * BLOCK_SIZE
                firsts = (first + row, row)
                workers.run_pieces(
                    search.beyond, queries.n_records, looks, (block,), firsts
                )
            listed = TopLists(lists.scores, lists.rows, np.array([k + N_SPARE]))
            search = _Search(queries.arrays(), rows, listed, self._widths)
            numbers = (0, len(self._records), first)
            workers.run_pieces(search.listed, queries.n_records, k * cost, numbers)
        records, scores = _best_first(lists.rows[0], lists.scores[0])
        return records[:, :k], scores[:, :k]


class _Chunk:
    """Records of an index that came at the same time.

    Parameters
    ----------
    layered : LayeredRows
    records : range
        Those of the rows that the index has.
    numbers : ndarray of shape (n_records,)
        Their numbers in the index, -1 where another row has it now.
    columns : list of _ColumnsOfLayer
    """

    def __init__(
        self,
        layered: LayeredRows,
        records: range,
        numbers: np.ndarray,
        columns: list[_ColumnsOfLayer],
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
        columns = [_ColumnsOfLayer(layer, records) for layer in layered.layers]
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

    def with_layer(self, layer: Layer) -> _Chunk:
        """Return the same records by one more similarity."""
        columns = [*self._columns, _ColumnsOfLayer(layer, self._records)]
        layered = self.layered.with_layer(layer)
        return _Chunk(layered, self._records, self.numbers, columns)

    def offer(
        self, queries: LayeredRows, lists: TopLists, first: int, workers: Workers
    ) -> None:
        """Offer the records to the lists of queries, numbered from `first` on."""
        search = _Search(queries.arrays(), self.layered.arrays(), lists, self._widths)
        cost = self._cost(queries)
        for number in range(self._n_blocks):
            block = tuple(columns.blocks[number] for columns in self._columns)
            row = number * BLOCK_SIZE
            workers.run_pieces(
                search.block, queries.n_records, cost, block, first + row
            )

    def score(
        self, queries: LayeredRows, lists: TopLists, first: int, workers: Workers
    ) -> None:
        """Compute the similarities in the lists anew, in float64."""
        search = _Search(queries.arrays(), self.layered.arrays(), lists, self._widths)
        numbers = (first, first + self.n_records, self._records.start)
        cost = lists.sizes.sum() * self.layered.n_entries / self.layered.n_records
        workers.run_pieces(search.listed, queries.n_records, cost, numbers)

    @property
    def _widths(self) -> list[int]:
        """How many features each layer has."""
        return [columns.n_features for columns in self._columns]

    @property
    def _n_blocks(self) -> int:
        return len(self._columns[0].blocks)

    def _cost(self, queries: LayeredRows) -> float:
        """Return the number of multiplications of a query and a block, about."""
        pairs = zip(self._columns, queries.layers, strict=True)
        n_products = sum(columns.n_products(layer.rows) for columns, layer in pairs)
        looks = LOOK_COST * self.n_records * len(self._columns)
        return (n_products + looks) / max(self._n_blocks, 1)


class _Search:
    """The search for the best records of queries, on several threads."""

    def __init__(
        self,
        queries: tuple[LayerRows, ...],
        rows: tuple[LayerRows, ...],
        lists: TopLists | NearLists,
        widths: Iterable[int],
    ) -> None:
        self._queries = queries
        self._rows = rows
        self._lists = lists
        self._spaces = local()
        self._firsts = np.cumsum([0, *widths])

    def block(
        self,
        start: int,
        stop: int,
        block: tuple[LayerColumns, ...],
        first: int,
    ) -> None:
        """Search a block of records for queries [start, stop)."""
        space = self._space(len(block[0].factors))
        top_by_layers(start, stop, self._queries, block, first, self._lists, space)

    def listed(self, start: int, stop: int, numbers: tuple[int, int, int]) -> None:
        """Compute the similarities of listed records for queries [start, stop)."""
        space = self._space(1)
        score_listed(
            start, stop, self._queries, self._rows, numbers, self._lists, space
        )

    def shortlist(self, start: int, stop: int, first: int) -> None:
        """Search the near records of queries [start, stop)."""
        compare_shortlist(
            start, stop, self._queries, self._rows, first, self._lists, self._space(1)
        )

    def beyond(
        self,
        start: int,
        stop: int,
        block: tuple[LayerColumns],
        firsts: tuple[int, int],
    ) -> None:
        """Search a block of records that are not near queries [start, stop)."""
        compare_beyond(
            start,
            stop,
            self._queries,
            block,
            self._rows,
            firsts,
            self._lists,
            self._space(len(block[0].factors)),
        )

    def _space(self, n_rows: int) -> LayerSpace:
        """Return what this thread writes to, for a block of so many rows."""
        space = getattr(self._spaces, "space", None)
        if space is None or len(space.marks) != n_rows:
            space = LayerSpace(
                upper=np.empty((len(self._rows), n_rows), dtype=np.float32),
                marks=np.empty(n_rows, dtype=np.uint8),
                unfolded=np.zeros(self._firsts[-1]),
                firsts=self._firsts,
            )
            self._spaces.space = space
        return space


class _ColumnsOfLayer:
    """The features of records in one layer, by column, in blocks of records."""

    def __init__(self, layer: Layer, records: range) -> None:
        indptr = layer.rows.arrays.indptr
        indices = layer.rows.arrays.indices
        indices = indices[indptr[records.start] : indptr[records.stop]]
        n_rows = len(records)
        self.n_features = 1 + int(indices.max(initial=-1))
        self._n_records = np.bincount(indices, minlength=self.n_features)
        self.blocks = [
            self._block(layer.take(np.array(records[first : first + BLOCK_SIZE])))
            for first in range(0, n_rows, BLOCK_SIZE)
        ]

    def without(self, rows: np.ndarray) -> _ColumnsOfLayer:
        """Return the same with zeros as features of some records."""
        columns = copy(self)
        columns.blocks = list(self.blocks)
        for number in np.unique(rows // BLOCK_SIZE).tolist():
            block = self.blocks[number]
            is_inside = rows // BLOCK_SIZE == number
            positions = (rows[is_inside] - number * BLOCK_SIZE).astype(np.uint16)
            is_gone = np.isin(block.positions, positions)
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
