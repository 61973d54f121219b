"""Records to search by several similarities at a time: by spelling, by cosine, as learned."""

from __future__ import annotations

from copy import copy
from threading import local
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from ..cpu.kernels.layers import (
    ROUNDING,
    LayerColumns,
    LayerRows,
    LayerSpace,
    TopLists,
    top_by_layers,
)
from ..cpu.workers import Workers
from .records import RecordFeatures
from .rows import Rows

#: Records whose scores are summed at a time: 16 bits number them.
BLOCK_SIZE = 2**16

#: A feature that more than this share of the records have is frequent.
FREQUENT_SHARE = 0.004

#: Features of fewer records are not frequent,
LEAST_FREQUENT = 100

#: and so few records are compared one by one.
FEW = 64

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
        self._parts = [_Part.of_rows(layered, records, np.arange(len(records)))]

    @property
    def n_records(self) -> int:
        """How many records there are, removed ones included."""
        return sum(part.n_records for part in self._parts)

    def with_layer(self, layer: Layer) -> LayeredIndex:
        """Return an index by one more similarity, with the same columns for the others.

        The layer has all records that the index was made of, before any is appended.
        """
        (part,) = self._parts
        index = copy(self)
        index._parts = [part.with_layer(layer)]
        return index

    def top(
        self,
        queries: LayeredRows,
        k: int,
        n_jobs: int | None,
        n_lists: int | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the k records of largest similarity to each query.

        Parameters
        ----------
        queries : LayeredRows
        k : int
        n_jobs : int or None
        n_lists : int, default=None
            One for each of the last layers; None is all layers.

        Returns
        -------
        records, scores : ndarray of shape (n_lists, n_queries, k)
            Best first, of equal ones the first; -1 and -inf where there are fewer than
            k records.
        """
        shape = (n_lists or queries.n_layers, queries.n_records, k)
        lists = TopLists(scores=np.full(shape, -np.inf), rows=np.full(shape, -1))
        first = 0
        with Workers(n_jobs) as workers:
            for part in self._parts:
                part.offer(queries, lists, first, workers)
                first += part.n_records
        numbers = np.concatenate([*(part.numbers for part in self._parts), [-1]])
        records = numbers[lists.rows]
        order = np.lexsort((records, -lists.scores))
        return (
            np.take_along_axis(records, order, axis=2),
            np.take_along_axis(lists.scores, order, axis=2),
        )


class _Part:
    """Records of an index that came at the same time.

    Parameters
    ----------
    layered : LayeredRows
    records : range
        Those of the rows that the index has.
    numbers : ndarray of shape (n_records,)
        What they are called.
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
    ) -> _Part:
        """Return records and their numbers."""
        columns = [_ColumnsOfLayer(layer, records) for layer in layered.layers]
        return cls(layered, records, numbers, columns)

    @property
    def n_records(self) -> int:
        """How many records there are."""
        return len(self._records)

    def with_layer(self, layer: Layer) -> _Part:
        """Return the same records by one more similarity."""
        columns = [*self._columns, _ColumnsOfLayer(layer, self._records)]
        layered = self.layered.with_layer(layer)
        return _Part(layered, self._records, self.numbers, columns)

    def offer(
        self, queries: LayeredRows, lists: TopLists, first: int, workers: Workers
    ) -> None:
        """Offer the records to the lists of queries, numbered from `first` on."""
        arrays_of_queries = queries.arrays()
        arrays = self.layered.arrays()
        cost = self._cost(queries)
        for number in range(self._n_blocks):
            block = tuple(columns.blocks[number] for columns in self._columns)
            row = number * BLOCK_SIZE
            firsts = (self._records.start + row, first + row)
            search = _BlockSearch(arrays_of_queries, block, arrays, firsts, lists)
            workers.run_pieces(search, queries.n_records, cost)

    @property
    def _n_blocks(self) -> int:
        return len(self._columns[0].blocks)

    def _cost(self, queries: LayeredRows) -> float:
        """Return the number of multiplications of a query and a block, about."""
        pairs = zip(self._columns, queries.layers, strict=True)
        n_products = sum(columns.n_products(layer.rows) for columns, layer in pairs)
        looks = LOOK_COST * self.n_records * len(self._columns)
        return (n_products + looks) / max(self._n_blocks, 1)


class _BlockSearch:
    """The search among the records of a block, on several threads."""

    def __init__(
        self,
        queries: tuple[LayerRows, ...],
        block: tuple[LayerColumns, ...],
        rows: tuple[LayerRows, ...],
        firsts: tuple[int, int],
        lists: TopLists,
    ) -> None:
        self._queries = queries
        self._block = block
        self._rows = rows
        self._firsts = firsts
        self._lists = lists
        self._spaces = local()

    def __call__(self, start: int, stop: int) -> None:
        """Search for queries [start, stop)."""
        if not hasattr(self._spaces, "space"):
            self._spaces.space = self._new_space()
        top_by_layers(
            start,
            stop,
            self._queries,
            self._block,
            self._rows,
            self._firsts,
            self._lists,
            self._spaces.space,
        )

    def _new_space(self) -> LayerSpace:
        """Return what a thread writes to."""
        n_layers = len(self._block)
        n_rows = len(self._block[0].factors)
        k = self._lists.scores.shape[2]
        firsts = np.cumsum([0, *(len(columns.indptr) - 1 for columns in self._block)])
        return LayerSpace(
            sums=np.empty((n_layers, n_rows), dtype=np.float32),
            missing=np.empty(n_layers, dtype=np.float32),
            rounding=np.empty(n_layers, dtype=np.float32),
            upper=np.empty(n_rows, dtype=np.float32),
            is_open=np.empty(n_rows, dtype=np.uint8),
            seed_scores=np.empty(k),
            seed_rows=np.empty(k, dtype=np.int64),
            unfolded=np.zeros(firsts[-1]),
            firsts=firsts,
        )


class _ColumnsOfLayer:
    """The features of records in one layer, by column, in blocks of records."""

    def __init__(self, layer: Layer, records: range) -> None:
        indptr = layer.rows.arrays.indptr
        indices = layer.rows.arrays.indices
        indices = indices[indptr[records.start] : indptr[records.stop]]
        n_rows = len(records)
        self.n_features = 1 + int(indices.max(initial=-1))
        n_records = np.bincount(indices, minlength=self.n_features)
        self._is_frequent = n_records > max(FREQUENT_SHARE * n_rows, LEAST_FREQUENT)
        if n_rows <= FEW:
            self._is_frequent[:] = True
        self._n_products = np.where(self._is_frequent, 0, n_records)
        self.blocks = [
            self._block(layer.take(np.array(records[first : first + BLOCK_SIZE])))
            for first in range(0, n_rows, BLOCK_SIZE)
        ]

    def _block(self, layer: Layer) -> LayerColumns:
        """Return a block of records."""
        rows = layer.rows.times(layer.scales)
        is_frequent = self._is_frequent[rows.arrays.indices]
        frequent_lengths = np.sqrt(rows.with_features(is_frequent).squares())
        others = rows.with_features(~is_frequent)
        arrays = (
            others.arrays.data.astype(np.float32),
            others.arrays.indices,
            others.arrays.indptr,
        )
        shape = (rows.n_rows, self.n_features)
        columns = sp.csr_array(arrays, shape=shape).tocsc()
        return LayerColumns(
            indptr=columns.indptr.astype(np.int64),
            positions=columns.indices.astype(np.uint16),
            values=columns.data,
            is_frequent=self._is_frequent,
            frequent_lengths=frequent_lengths.astype(np.float32) * (1.0 + ROUNDING),
            factors=layer.factors.astype(np.float32),
            longest=float(np.sqrt(rows.squares().max(initial=0.0))),
        )

    def n_products(self, queries: Rows) -> float:
        """Return the products of one of some queries with all records, about."""
        n_queries = min(queries.n_rows, N_SAMPLED)
        arrays = queries.arrays
        features = arrays.indices[: arrays.indptr[n_queries]]
        known = features[features < self.n_features]
        return float(self._n_products[known].sum() / max(n_queries, 1))
