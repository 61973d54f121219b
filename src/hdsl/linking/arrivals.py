"""Records that come later, and where they stand among those that were searched before."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from itertools import chain, islice
from typing import NamedTuple

import numpy as np

from .earlier import EarlierRecords
from .layered_index import LayeredIndex
from .layers import Layer, LayeredRows
from .lists import Entries, merge_into
from .nearest import DEPTH, NearestRecords, is_candidate, unique_pairs
from .records import RecordFeatures
from .rows import joined_values
from .searched import SearchedRecords
from .sides import Sides
from .string_similarities import StringSimilarities
from .tables import Table
from .vocabulary import TextReader, Tokens


class NearestLists(NamedTuple):
    """The nearest records of later ones by one similarity, best first, with their scores.

    Earlier records have their numbers, and later ones come after them.
    """

    neighbors: np.ndarray
    scores: np.ndarray


class Meeting(NamedTuple):
    """Earlier and later records together.

    Attributes
    ----------
    searched : SearchedRecords
    numbers : ndarray of shape (n_earlier + n_later,)
        The number of each record in `searched`, -1 where it is not there.
    """

    searched: SearchedRecords
    numbers: np.ndarray

    def renumbered(self, pairs: np.ndarray) -> np.ndarray:
        """Return pairs by the numbers of `searched`, the smaller one first."""
        return np.sort(self.numbers[pairs], axis=1)


class Arrivals:
    """Later records of one side, each searched for among the earlier ones.

    An earlier record has a later one among its nearest where it is among the nearest of
    the later one, as if they had been searched together. A word that one earlier record
    had alone counts from now on if a later one has it too.

    Parameters
    ----------
    earlier : EarlierRecords
    table : Table
        The later records.
    side : {"left", "right"}
    n_jobs : int or None
    """

    def __init__(
        self,
        earlier: EarlierRecords,
        table: Table,
        side: str,
        n_jobs: int | None,
    ) -> None:
        searched = earlier.searched
        self._earlier = searched
        self._table = table
        self._side = side
        self._n_jobs = n_jobs
        reader = TextReader(searched.records.vocabulary, keeps_missing=True)
        missing = reader.missing(Tokens.of_texts(table.texts()))
        n_records = Counter(chain.from_iterable(missing))
        lone_features = earlier.lone_features
        self._earlier_lone_features = lone_features
        names = [
            name for name, n in n_records.items() if n > 1 or name in lone_features
        ]
        #: The later record of each feature that none else has.
        self._lone_features = {
            name: record
            for record, names_of_record in enumerate(missing, start=self.n_earlier)
            for name in names_of_record
            if n_records[name] == 1 and name not in lone_features
        }
        self._counting = {*names}
        #: Earlier records of which more features count than before.
        self.changed = np.unique(
            [lone_features[name] for name in names if name in lone_features]
        ).astype(np.int64)
        self._is_changed = np.zeros(self.n_earlier, dtype=bool)
        self._is_changed[self.changed] = True
        if names:
            reader = reader.extended(sorted(names))
        tables = searched.tables.only(self.changed).with_later(table, side)
        #: Changed records and later ones, in the order of their numbers.
        numbers = np.concatenate([self.changed, self._later_numbers])
        if side == "left":
            numbers = numbers[np.argsort(self._is_right(numbers), kind="stable")]
        strings = self._strings(numbers)
        records = RecordFeatures.of_tables(tables, reader, strings)
        layered = earlier.layered(records)
        is_later = numbers >= self.n_earlier
        rows = np.concatenate([np.flatnonzero(~is_later), np.flatnonzero(is_later)])
        self._records = records.take(rows)
        self._layered = layered.take(rows)
        self._lists = self._search(earlier.index(side))

    def _strings(self, numbers: np.ndarray) -> StringSimilarities:
        """Return the comparisons of the texts of changed records and of later ones."""
        earlier = self._earlier.records.strings
        tables = self._earlier.tables.emptied(self._table, self._side)
        later = StringSimilarities.of_tables(tables, earlier.column_kinds)
        return earlier.joined(later, numbers)

    def _is_right(self, numbers: np.ndarray) -> np.ndarray:
        """Return which records are of the right one of two tables."""
        n_left = self._earlier.tables.n_left
        is_right = (numbers >= n_left) & (numbers < self.n_earlier)
        return is_right | (numbers >= self.n_earlier) & (self._side == "right")

    def _search(self, index: LayeredIndex) -> list[NearestLists]:
        """Return the nearest records of the later ones, by each similarity."""
        sides = self._earlier.sides
        depth = sides.depth
        searched = sides.searched(self._side)
        later = np.arange(len(self.changed), self._layered.n_records)
        queries = self._layered.take(later)
        neighbors, scores = index.top(queries, depth, self._n_jobs)
        is_gone = (neighbors < 0) | np.isin(neighbors + searched.start, self.changed)
        numbers = [np.where(is_gone, -1, neighbors + searched.start)]
        values = [np.where(is_gone, -np.inf, scores)]
        # Rows that the index does not have: those that changed, and in one table the
        # later ones.
        is_searched = (self.changed >= searched.start) & (self.changed < searched.stop)
        rows = np.flatnonzero(is_searched)
        if self._earlier.tables.is_single:
            rows = np.concatenate([rows, later])
        if len(rows):
            others = LayeredIndex(self._layered.take(rows))
            neighbors, scores = others.top(queries, depth, self._n_jobs)
            is_gone = (neighbors < 0) | (rows[neighbors] == later[:, None])
            number_of_row = np.concatenate([self.changed, self._later_numbers])
            numbers.append(np.where(is_gone, -1, number_of_row[rows[neighbors]]))
            values.append(np.where(is_gone, -np.inf, scores))
        neighbors = np.concatenate(numbers, axis=2)
        scores = np.concatenate(values, axis=2)
        best = np.lexsort((neighbors, -scores))[:, :, :depth]
        neighbors = np.take_along_axis(neighbors, best, axis=2)
        scores = np.take_along_axis(scores, best, axis=2)
        neighbors[:, :, DEPTH:] = -1
        scores[:, :, DEPTH:] = -np.inf
        return [*map(NearestLists, neighbors, scores)]

    @property
    def n_earlier(self) -> int:
        """Earlier records."""
        return self._earlier.tables.n_records

    @property
    def n_later(self) -> int:
        """Later records."""
        return len(self._table.ids)

    @property
    def _later_numbers(self) -> np.ndarray:
        """The numbers of the later records, which follow the earlier ones."""
        return self.n_earlier + np.arange(self.n_later)

    def lone_features(self, numbers: np.ndarray) -> dict[str, int]:
        """Return the record of each feature that no other has, earlier or later.

        `numbers` are those of all records from now on.
        """
        every = self._earlier_lone_features | self._lone_features
        for name in self._counting:
            every.pop(name, None)
        if (numbers == np.arange(len(numbers))).all():
            return every
        return {name: int(numbers[record]) for name, record in every.items()}

    def met(self) -> np.ndarray:
        """Return the earlier records that later ones have among their nearest."""
        return np.unique(np.concatenate([self._met_by(lists) for lists in self._lists]))

    @cached_property
    def _met(self) -> np.ndarray:
        """The earlier records that later ones have among their nearest by the last layer."""
        return self._met_by(self._lists[-1])

    def _met_by(self, lists: NearestLists) -> np.ndarray:
        is_earlier = (lists.neighbors >= 0) & (lists.neighbors < self.n_earlier)
        return np.unique(lists.neighbors[is_earlier])

    def candidates(self) -> np.ndarray:
        """Return the pairs with a later record in which one is a candidate of the other.

        Later records come after the earlier ones, in pairs too.
        """
        lists = self._lists[-1]
        later, _ = np.nonzero(is_candidate(lists.neighbors))
        pairs_of_later = np.column_stack(
            [later + self.n_earlier, lists.neighbors[is_candidate(lists.neighbors)]]
        )
        met = self._met
        neighbors, _ = self._lists_of_met
        is_later = is_candidate(neighbors) & (neighbors >= self.n_earlier)
        numbers, _ = np.nonzero(is_later)
        pairs_of_met = np.column_stack([met[numbers], neighbors[is_later]])
        pairs = np.concatenate([pairs_of_later, pairs_of_met])
        return unique_pairs(np.sort(pairs, axis=1))

    def _lists_of(
        self, records: np.ndarray, layer: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the nearest of some earlier records, sorted by number, later ones included."""
        is_met, rows = _positions(records, self._met)
        if layer == len(self._lists) - 1 and is_met.all():
            neighbors, scores = self._lists_of_met
            return neighbors[rows], scores[rows]
        return self._merged_lists(records, layer)

    @cached_property
    def _lists_of_met(self) -> tuple[np.ndarray, np.ndarray]:
        """The nearest records of those that later ones have among theirs, by the last layer."""
        return self._merged_lists(self._met, len(self._lists) - 1)

    def _merged_lists(
        self, records: np.ndarray, layer: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the nearest of some earlier records, with the later ones among them."""
        nearest = self._earlier.nearest[layer]
        lists = self._lists[layer]
        neighbors = nearest.neighbors[records].astype(np.int64)
        scores = nearest.scores[records]
        is_stale = self._is_changed[records, None] | self._is_changed[neighbors]
        is_stale &= neighbors >= 0
        row, rank = np.nonzero(is_stale)
        if len(row):
            pairs = np.column_stack([records[row], neighbors[row, rank]])
            scores[row, rank] = self._similarity(pairs, layer)
        is_hit, rows = _positions(lists.neighbors, records)
        later, later_rank = np.nonzero(is_hit)
        entries = Entries(
            rows=rows[is_hit],
            numbers=self._later_numbers[later],
            scores=lists.scores[later, later_rank],
        )
        merge_into(neighbors, scores, is_stale.any(axis=1), entries)
        return neighbors, scores

    def _similarity(self, pairs: np.ndarray, layer: int) -> np.ndarray:
        """Return the similarity by a layer of earlier records, by the features that count now.

        One record of each pair has changed, or both.
        """
        is_first = self._is_changed[pairs[:, :1]]
        pairs = np.where(is_first, pairs, pairs[:, ::-1])
        rows = np.searchsorted(self.changed, pairs[:, 0])
        have_changed = self._is_changed[pairs[:, 1]]
        similarity = np.empty(len(pairs))
        unchanged = np.column_stack([rows, pairs[:, 1]])[~have_changed]
        similarity[~have_changed] = self._similarity_with(
            self._earlier.sides.layered, unchanged, layer
        )
        others = np.searchsorted(self.changed, pairs[have_changed, 1])
        changed = np.column_stack([rows[have_changed], others])
        similarity[have_changed] = self._similarity_with(self._layered, changed, layer)
        return similarity

    def _similarity_with(
        self, others: LayeredRows, pairs: np.ndarray, layer: int
    ) -> np.ndarray:
        """Return the similarity by a layer of changed records with others."""
        similarity = np.zeros(len(pairs))
        layers = zip(self._layered.layers, others.layers, strict=True)
        for changed, other in islice(layers, layer + 1):
            products = changed.rows.products_with(other.rows, pairs, self._n_jobs)
            scales = changed.scales[pairs[:, 0]] * other.scales[pairs[:, 1]]
            factors = changed.factors[pairs[:, 0]] * other.factors[pairs[:, 1]]
            similarity = similarity * factors + products * scales
        return similarity

    def _rows(self, numbers: np.ndarray) -> np.ndarray:
        """Return the rows of records behind which the changed and the later ones stand anew."""
        rows = numbers.copy()
        is_later = numbers >= self.n_earlier
        rows[is_later] += len(self.changed)
        is_changed = np.zeros(len(numbers), dtype=bool)
        is_changed[~is_later] = self._is_changed[numbers[~is_later]]
        position = np.searchsorted(self.changed, numbers[is_changed])
        rows[is_changed] = self.n_earlier + position
        return rows

    def meet(self, records: np.ndarray) -> Meeting:
        """Return some earlier records, sorted by number, together with the later ones."""
        tables = self._earlier.tables
        joined = np.concatenate([records, self._later_numbers])
        if self._side == "left":
            joined = joined[np.argsort(self._is_right(joined), kind="stable")]
        numbers = np.full(self.n_earlier + self.n_later, -1)
        numbers[joined] = np.arange(len(joined))
        rows = self._rows(joined)
        features = self._earlier.records.joined(self._records, rows)
        layered = LayeredRows.of_records(features)
        learned = self._earlier.sides.layered.layers[2:]
        for earlier, later in zip(learned, self._layered.layers[2:], strict=True):
            layered = layered.with_layer(_joined_layer(earlier, later, rows))
        order = np.argsort(np.argsort(joined, kind="stable"), kind="stable")
        nearest = []
        for layer, lists in enumerate(self._lists):
            neighbors, scores = self._lists_of(records, layer)
            neighbors = np.concatenate([neighbors, lists.neighbors])[order]
            scores = np.concatenate([scores, lists.scores])[order]
            neighbors = np.where(neighbors < 0, -1, numbers[neighbors])
            nearest.append(NearestRecords(neighbors, scores))
        together = tables.only(records).with_later(self._table, self._side)
        sides = Sides(layered, together.n_left)
        if len(records) == self.n_earlier:
            new = numbers[np.concatenate([self.changed, self._later_numbers])]
            sides = self._earlier.sides.grown(
                layered, together.n_left, self._layered, new
            )
        searched = SearchedRecords(
            tables=together, records=features, sides=sides, nearest=nearest
        )
        return Meeting(searched, numbers)


def _joined_layer(first: Layer, later: Layer, rows: np.ndarray) -> Layer:
    """Return some records of a layer and of later ones, numbered after these."""
    return Layer(
        rows=first.rows.joined(later.rows, rows),
        scales=joined_values(first.scales, later.scales, rows),
        factors=joined_values(first.factors, later.factors, rows),
    )


def _positions(
    numbers: np.ndarray, sorted_numbers: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return which numbers are among sorted ones, and the positions of those that are."""
    positions = np.searchsorted(sorted_numbers, numbers)
    ends = np.append(sorted_numbers, -1)
    return ends[positions] == np.where(numbers < 0, -2, numbers), positions
