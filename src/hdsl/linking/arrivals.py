"""Records that come later, and where they stand among those that were searched before."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from .layers import LayeredIndex, LayeredRows
from .nearest import DEPTH, NearestRecords, is_candidate
from .records import RecordFeatures
from .searched import Rewrite, SearchedRecords
from .tables import Table, Tables


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
    the later one, as if they had been searched together.

    Parameters
    ----------
    earlier : SearchedRecords
    index : LayeredIndex
        Of the earlier records among which those of the side are searched.
    table : Table
        The later records.
    side : {"left", "right"}
    rewrite : callable or None
        Returns rows whose dot products are the learned similarity; None: it is the
        cosine.
    n_jobs : int or None
    """

    def __init__(
        self,
        earlier: SearchedRecords,
        index: LayeredIndex,
        table: Table,
        side: str,
        *,
        rewrite: Rewrite | None,
        n_jobs: int | None,
    ) -> None:
        self._earlier = earlier
        self._table = table
        self._side = side
        self._records = RecordFeatures.of_tables(
            earlier.tables.emptied(table, side), earlier.records.vocabulary
        )
        X_by_layer = [self._records.grams, self._records.X]
        if rewrite is not None:
            X_by_layer.append(rewrite(self._records.X))
        layered = LayeredRows.of_records(self._records, *X_by_layer[2:])
        depth = earlier.by_cosine.depth
        neighbors, scores = index.top(layered, depth, n_jobs)
        first = earlier.first_searched(side)
        neighbors = np.where(neighbors < 0, -1, neighbors + first)
        if earlier.tables.is_single:
            among_later = LayeredIndex(layered).top(layered, depth, n_jobs)
            neighbors, scores = self._with_later(neighbors, scores, *among_later)
        self._lists = [
            NearestLists(X, neighbors[layer], scores[layer])
            for layer, X in enumerate(X_by_layer)
        ]

    def _with_later(
        self,
        neighbors: np.ndarray,
        scores: np.ndarray,
        later_neighbors: np.ndarray,
        later_scores: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the nearest of earlier and of other later records."""
        itself = np.arange(self.n_later)[:, None]
        is_other = (later_neighbors >= 0) & (later_neighbors != itself)
        later = np.where(is_other, later_neighbors + self.n_earlier, -1)
        later_scores = np.where(is_other, later_scores, -np.inf)
        both = np.concatenate([neighbors, later], axis=2)
        both_scores = np.concatenate([scores, later_scores], axis=2)
        order = np.argsort(-both_scores, axis=2, kind="stable")
        best = order[:, :, : neighbors.shape[2]]
        neighbors = np.take_along_axis(both, best, axis=2)
        scores = np.take_along_axis(both_scores, best, axis=2)
        neighbors[:, :, DEPTH:] = -1
        scores[:, :, DEPTH:] = -np.inf
        return neighbors, scores

    @property
    def n_earlier(self) -> int:
        """Earlier records."""
        return self._earlier.tables.n_records

    @property
    def n_later(self) -> int:
        """Later records."""
        return len(self._table.ids)

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
        neighbors, _ = self._lists_of(met, self._earlier.by_learned, lists)
        is_later = is_candidate(neighbors) & (neighbors >= self.n_earlier)
        numbers, _ = np.nonzero(is_later)
        pairs_of_met = np.column_stack([met[numbers], neighbors[is_later]])
        pairs = np.concatenate([pairs_of_later, pairs_of_met])
        return np.unique(np.sort(pairs, axis=1), axis=0)

    def _lists_of(
        self, records: np.ndarray, nearest: NearestRecords, lists: NearestLists
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the nearest of some earlier records, sorted by number, later ones included."""
        later, rank = np.nonzero(np.isin(lists.neighbors, records))
        row = np.searchsorted(records, lists.neighbors[later, rank])
        neighbors = nearest.neighbors[records]
        scores = nearest.scores[records]
        is_met = np.isin(np.arange(len(records)), row)
        old_row, old_rank = np.nonzero((neighbors >= 0) & is_met[:, None])
        rows = np.concatenate([old_row, row])
        numbers = np.concatenate([neighbors[old_row, old_rank], self.n_earlier + later])
        values = np.concatenate([scores[old_row, old_rank], lists.scores[later, rank]])
        order = np.lexsort((numbers, -values, rows))
        rows = rows[order]
        place = np.arange(len(rows)) - np.searchsorted(rows, rows)
        order = order[place < DEPTH]
        rows = rows[place < DEPTH]
        place = place[place < DEPTH]
        neighbors[is_met] = -1
        scores[is_met] = -np.inf
        neighbors[rows, place] = numbers[order]
        scores[rows, place] = values[order]
        return neighbors, scores

    def meet(self, records: np.ndarray) -> Meeting:
        """Return some earlier records, sorted by number, together with the later ones."""
        tables = self._earlier.tables
        n_left = tables.n_left
        left_rows = records[records < n_left]
        later = self.n_earlier + np.arange(self.n_later)
        left = tables.left.take(left_rows)
        right = None
        joined = np.concatenate([records, later])
        order = np.arange(len(joined))
        if tables.is_single:
            left = left.followed_by(self._table)
        else:
            right = tables.right.take(records[records >= n_left] - n_left)
            if self._side == "right":
                right = right.followed_by(self._table)
            else:
                left = left.followed_by(self._table)
                is_right = (joined >= n_left) & (joined < self.n_earlier)
                order = np.argsort(is_right, kind="stable")
        numbers = np.full(self.n_earlier + self.n_later, -1)
        numbers[joined[order]] = np.arange(len(joined))
        features = self._earlier.records.take(records).followed_by(self._records)
        nearest = [
            self._nearest(records, by, lists, numbers, order)
            for by, lists in zip(self._earlier.nearest, self._lists, strict=True)
        ]
        searched = SearchedRecords(
            tables=Tables(left, right),
            records=features.take(order),
            by_spelling=nearest[0],
            by_cosine=nearest[1],
            by_learned=nearest[-1],
        )
        return Meeting(searched, numbers)

    def _nearest(
        self,
        records: np.ndarray,
        nearest: NearestRecords,
        lists: NearestLists,
        numbers: np.ndarray,
        order: np.ndarray,
    ) -> NearestRecords:
        """Return the nearest of earlier and later records, by their new numbers."""
        neighbors, scores = self._lists_of(records, nearest, lists)
        neighbors = np.concatenate([neighbors, lists.neighbors])[order]
        scores = np.concatenate([scores, lists.scores])[order]
        X = sp.csr_array(sp.vstack([nearest.X[records], lists.X], format="csr"))
        return NearestRecords(
            X[order], np.where(neighbors < 0, -1, numbers[neighbors]), scores
        )
