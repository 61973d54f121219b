"""Records that come later, and where they stand among those that were searched before."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from ..similarity.products import row_products
from .earlier import EarlierRecords
from .layers import LayeredIndex, LayeredRows
from .nearest import DEPTH, NearestRecords, is_candidate
from .records import RecordFeatures, resized
from .searched import Rewrite, SearchedRecords
from .tables import Table
from .vocabulary import Tokens, Vocabulary


class NearestLists(NamedTuple):
    """The nearest records of later ones by one similarity, best first, with their scores.

    Earlier records have their numbers, and later ones come after them.
    """

    X: sp.csr_array
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
        lone_features = earlier.lone_features
        self._earlier = searched
        self._table = table
        self._side = side
        self._n_jobs = n_jobs
        vocabulary = searched.records.vocabulary
        missing = vocabulary.missing(Tokens.of_texts(table.texts()))
        n_records = Counter(chain.from_iterable(missing))
        names = [
            name for name, n in n_records.items() if n > 1 or name in lone_features
        ]
        #: Earlier records of which more features count than before.
        self.changed = np.unique(
            [lone_features[name] for name in names if name in lone_features]
        ).astype(np.int64)
        if names:
            vocabulary = vocabulary.extended(sorted(names))
        tables = searched.tables
        column_kinds = searched.records.strings.column_kinds
        later = RecordFeatures.of_tables(
            tables.emptied(table, side), vocabulary, column_kinds
        )
        changed = RecordFeatures.of_tables(
            tables.only(self.changed), vocabulary, column_kinds
        )
        self._later = _Rows.of_records(later, earlier.rewrite)
        self._changed_rows = _Rows.of_records(changed, earlier.rewrite)
        self._lists = self._search(earlier.index(side))

    def _search(self, index: LayeredIndex) -> list[NearestLists]:
        """Return the nearest records of the later ones, by each similarity."""
        depth = self._earlier.by_cosine.depth
        searched = self._earlier.searched_records(self._side)
        queries = self._later.layered(self._earlier.records.vocabulary)
        neighbors, scores = index.top(queries, depth, self._n_jobs)
        is_gone = (neighbors < 0) | np.isin(neighbors + searched.start, self.changed)
        numbers = [np.where(is_gone, -1, neighbors + searched.start)]
        values = [np.where(is_gone, -np.inf, scores)]
        queries = self._later.layered()
        rows = np.flatnonzero(
            (self.changed >= searched.start) & (self.changed < searched.stop)
        )
        if len(rows):
            changed = LayeredIndex(self._changed_rows.layered().take(rows))
            neighbors, scores = changed.top(queries, depth, self._n_jobs)
            changed_numbers = self.changed[rows]
            numbers.append(np.where(neighbors < 0, -1, changed_numbers[neighbors]))
            values.append(scores)
        if self._earlier.tables.is_single:
            neighbors, scores = LayeredIndex(queries).top(queries, depth, self._n_jobs)
            itself = np.arange(self.n_later)[:, None]
            is_gone = (neighbors < 0) | (neighbors == itself)
            numbers.append(np.where(is_gone, -1, neighbors + self.n_earlier))
            values.append(np.where(is_gone, -np.inf, scores))
        neighbors = np.concatenate(numbers, axis=2)
        scores = np.concatenate(values, axis=2)
        best = np.lexsort((neighbors, -scores))[:, :, :depth]
        neighbors = np.take_along_axis(neighbors, best, axis=2)
        scores = np.take_along_axis(scores, best, axis=2)
        neighbors[:, :, DEPTH:] = -1
        scores[:, :, DEPTH:] = -np.inf
        return [
            NearestLists(X, neighbors[layer], scores[layer])
            for layer, X in enumerate(self._later.by_layer)
        ]

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

    def met(self) -> np.ndarray:
        """Return the earlier records that later ones have among their nearest."""
        return np.unique(np.concatenate([self._met_by(lists) for lists in self._lists]))

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
        met = self._met_by(lists)
        neighbors, _ = self._lists_of(met, layer=len(self._lists) - 1)
        is_later = is_candidate(neighbors) & (neighbors >= self.n_earlier)
        numbers, _ = np.nonzero(is_later)
        pairs_of_met = np.column_stack([met[numbers], neighbors[is_later]])
        pairs = np.concatenate([pairs_of_later, pairs_of_met])
        return np.unique(np.sort(pairs, axis=1), axis=0)

    def _lists_of(
        self, records: np.ndarray, layer: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the nearest of some earlier records, sorted by number, later ones included."""
        nearest = self._earlier.nearest[layer]
        lists = self._lists[layer]
        neighbors = nearest.neighbors[records]
        scores = nearest.scores[records]
        has_changed = np.isin(records, self.changed)[:, None]
        is_stale = (has_changed | np.isin(neighbors, self.changed)) & (neighbors >= 0)
        row, rank = np.nonzero(is_stale)
        scores[row, rank] = row_products(
            self._rows_of(records[row], layer),
            self._rows_of(neighbors[row, rank], layer),
        )
        later, later_rank = np.nonzero(np.isin(lists.neighbors, records))
        entries = Entries(
            rows=np.searchsorted(records, lists.neighbors[later, later_rank]),
            numbers=self._later_numbers[later],
            scores=lists.scores[later, later_rank],
        )
        return _sorted_lists(neighbors, scores, is_stale.any(axis=1), entries)

    def _rows_of(self, records: np.ndarray, layer: int) -> sp.csr_array:
        """Return the rows of earlier records, by the features that count now."""
        changed = self._changed_rows.by_layer[layer]
        rows = resized(self._earlier.nearest[layer].X[records], changed.shape[1])
        stacked = sp.csr_array(sp.vstack([rows, changed], format="csr"))
        return stacked[self._stacked_rows(records)]

    def _features_of(self, records: np.ndarray) -> RecordFeatures:
        """Return earlier records by the features that count now."""
        features = self._earlier.records.take(records)
        features = features.resized(self._later.records.vocabulary)
        return features.followed_by(self._changed_rows.records).take(
            self._stacked_rows(records)
        )

    def _stacked_rows(self, records: np.ndarray) -> np.ndarray:
        """Return the row of each record where the changed ones stand behind all of them."""
        rows = np.arange(len(records))
        is_changed = np.isin(records, self.changed)
        position = np.searchsorted(self.changed, records[is_changed])
        rows[is_changed] = len(records) + position
        return rows

    def meet(self, records: np.ndarray) -> Meeting:
        """Return some earlier records, sorted by number, together with the later ones."""
        tables = self._earlier.tables
        n_left = tables.n_left
        joined = np.concatenate([records, self._later_numbers])
        if self._side == "left":
            is_right = (joined >= n_left) & (joined < self.n_earlier)
            joined = joined[np.argsort(is_right, kind="stable")]
        numbers = np.full(self.n_earlier + self.n_later, -1)
        numbers[joined] = np.arange(len(joined))
        row_of_number = np.full(len(numbers), -1)
        row_of_number[records] = np.arange(len(records))
        row_of_number[self._later_numbers] = len(records) + np.arange(self.n_later)
        order = row_of_number[joined]
        features = self._features_of(records).followed_by(self._later.records)
        nearest = []
        for layer, lists in enumerate(self._lists):
            neighbors, scores = self._lists_of(records, layer)
            neighbors = np.concatenate([neighbors, lists.neighbors])[order]
            scores = np.concatenate([scores, lists.scores])[order]
            X = sp.vstack([self._rows_of(records, layer), lists.X], format="csr")
            neighbors = np.where(neighbors < 0, -1, numbers[neighbors])
            nearest.append(NearestRecords(sp.csr_array(X)[order], neighbors, scores))
        searched = SearchedRecords(
            tables=tables.only(records).with_later(self._table, self._side),
            records=features.take(order),
            by_spelling=nearest[0],
            by_cosine=nearest[1],
            by_learned=nearest[-1],
        )
        return Meeting(searched, numbers)


class Entries(NamedTuple):
    """Records that come into lists: the row of each list, the record and its score."""

    rows: np.ndarray
    numbers: np.ndarray
    scores: np.ndarray


def _sorted_lists(
    neighbors: np.ndarray, scores: np.ndarray, is_unsorted: np.ndarray, entries: Entries
) -> tuple[np.ndarray, np.ndarray]:
    """Write entries into lists, and sort these and the unsorted ones, best first."""
    is_open = is_unsorted.copy()
    is_open[entries.rows] = True
    rows, ranks = np.nonzero((neighbors >= 0) & is_open[:, None])
    every = Entries(
        rows=np.concatenate([rows, entries.rows]),
        numbers=np.concatenate([neighbors[rows, ranks], entries.numbers]),
        scores=np.concatenate([scores[rows, ranks], entries.scores]),
    )
    order = np.lexsort((every.numbers, -every.scores, every.rows))
    rows = every.rows[order]
    ranks = np.arange(len(rows)) - np.searchsorted(rows, rows)
    is_kept = ranks < DEPTH
    order = order[is_kept]
    rows = rows[is_kept]
    ranks = ranks[is_kept]
    neighbors[is_open] = -1
    scores[is_open] = -np.inf
    neighbors[rows, ranks] = every.numbers[order]
    scores[rows, ranks] = every.scores[order]
    return neighbors, scores


class _Rows(NamedTuple):
    """Records by spelling, by cosine, and perhaps as learned."""

    records: RecordFeatures
    by_layer: list[sp.csr_array]

    @classmethod
    def of_records(cls, records: RecordFeatures, rewrite: Rewrite | None) -> _Rows:
        by_layer = [records.grams, records.X]
        if rewrite is not None:
            by_layer.append(rewrite(records.X))
        return cls(records, by_layer)

    def layered(self, vocabulary: Vocabulary | None = None) -> LayeredRows:
        """Return the records in layers, by the features of an earlier vocabulary or by all."""
        learned = None
        if len(self.by_layer) > 2:
            learned = self.by_layer[2]
        return LayeredRows.of_records(self.records, learned, vocabulary)
