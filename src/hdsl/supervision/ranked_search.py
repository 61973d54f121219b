"""Ranks of judged rows among all rows that a search may show."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from .. import search
from ..mixed_rows import MixedRows
from ..similarity import Similarity
from ..similarity.cosine import COSINE
from ..similarity.known_items import TIE
from ..similarity.products import row_products
from ..triplets.graded_rows import positions_among

#: Scores that are computed at a time, 32 MB.
SCORES_AT_A_TIME = 2**22

#: So few thresholds are compared with all values one by one; more are sorted.
FEW_THRESHOLDS = 8


class SearchedPart(NamedTuple):
    """Rows that a search may show.

    Parameters
    ----------
    numbers : ndarray of int
        Sorted.
    rows : csr_array or MixedRows of shape (n_shown, n_features)
    """

    numbers: np.ndarray
    rows: sp.csr_array | MixedRows


@dataclass(frozen=True)
class RankedSearch:
    """Queries, the rows that they are searched among, and the rows whose ranks count.

    Parameters
    ----------
    queries : csr_array or MixedRows of shape (n_queries, n_features)
    rows : csr_array or MixedRows of shape (n_rows, n_features)
        All that may be shown.
    hidden_rows : ndarray of shape (n_queries,)
        For each query a row that is never shown, the query itself; -1 is none.
    judged_queries : ndarray of shape (n_judged,)
        The query of each judged row, sorted.
    judged_rows : ndarray of shape (n_judged,)
    """

    queries: sp.csr_array | MixedRows
    rows: sp.csr_array | MixedRows
    hidden_rows: np.ndarray
    judged_queries: np.ndarray
    judged_rows: np.ndarray

    @classmethod
    def of_anchors(
        cls,
        X: sp.csr_array | MixedRows,
        searched: SearchedPart,
        anchors: np.ndarray,
        judged_anchors: np.ndarray,
        judged_rows: np.ndarray,
    ) -> RankedSearch:
        """Return a search by rows of X, which do not find themselves.

        Parameters
        ----------
        X : csr_array or MixedRows of shape (n_rows, n_features)
        searched : SearchedPart
            The rows of X that may be shown.
        anchors : ndarray of int
            The rows of X that search, sorted.
        judged_anchors, judged_rows : ndarray of shape (n_judged,)
            Rows of X whose ranks count, and the anchor of each, sorted by the anchor.
        """
        return cls(
            queries=X[anchors],
            rows=searched.rows,
            hidden_rows=positions_among(anchors, searched.numbers),
            judged_queries=np.searchsorted(anchors, judged_anchors),
            judged_rows=np.searchsorted(searched.numbers, judged_rows),
        )

    def ranks(
        self, similarity: Similarity, ranking: str, n_threads: int = 1
    ) -> np.ndarray:
        """Return the rank of each judged row for its query, the middle one of ties."""
        queries = similarity.rewrite(self.queries)
        rows = similarity.index_rows(self.rows)
        lengths = np.ones(rows.shape[0])
        if ranking == COSINE:
            lengths = similarity.own_lengths(self.rows)
        thresholds = Thresholds(self._judged_scores(queries, rows, lengths), self)
        size = max(1, SCORES_AT_A_TIME // max(1, queries.shape[0]))

        def counts_of_block(start: int) -> Counts:
            """Return how many rows of a block are above the judged ones."""
            block = rows[start : start + size]
            scores = np.zeros((queries.shape[0], block.shape[0]))
            scores = search.add_products(queries, block, scores)
            scores /= lengths[start : start + size]
            self._hide(scores, start)
            return thresholds.count(scores)

        starts = range(0, rows.shape[0], size)
        with ThreadPoolExecutor(n_threads) as threads:
            counts = [*threads.map(counts_of_block, starts)]
        return thresholds.middle_ranks(counts)

    def _judged_scores(
        self, queries: Any, rows: Any, lengths: np.ndarray
    ) -> np.ndarray:
        """Return the score of each judged row for its query."""
        products = row_products(queries[self.judged_queries], rows[self.judged_rows])
        return products / lengths[self.judged_rows]

    def _hide(self, scores: np.ndarray, start: int) -> None:
        """Put the rows that are never shown last; the scores are of rows from `start` on."""
        column = self.hidden_rows - start
        is_inside = (column >= 0) & (column < scores.shape[1]) & (self.hidden_rows >= 0)
        scores[is_inside, column[is_inside]] = -np.inf


class Counts(NamedTuple):
    """How many of some rows are above each judged row, or above it or tie with it."""

    n_above: np.ndarray
    n_from: np.ndarray


class Thresholds:
    """The scores of judged rows, and how many of other rows are above them or tie with them."""

    def __init__(self, judged_scores: np.ndarray, searched: RankedSearch) -> None:
        n_queries = searched.queries.shape[0]
        numbers = np.arange(n_queries + 1)
        self.starts = np.searchsorted(searched.judged_queries, numbers)
        largest = np.zeros(n_queries)
        np.maximum.at(largest, searched.judged_queries, np.abs(judged_scores))
        tie = TIE * largest[searched.judged_queries]
        self.upper = judged_scores + tie
        self.lower = judged_scores - tie

    def count(self, scores: np.ndarray) -> Counts:
        """Return the counts of some rows; their scores have shape (n_queries, n_rows)."""
        n_above = np.zeros(len(self.upper), dtype=np.int64)
        n_from = np.zeros(len(self.upper), dtype=np.int64)
        for query, query_scores in enumerate(scores):
            judged = slice(self.starts[query], self.starts[query + 1])
            n_above[judged] = count_above(query_scores, self.upper[judged])
            n_from[judged] = len(query_scores) - count_above(
                -query_scores, -self.lower[judged]
            )
        return Counts(n_above, n_from)

    def middle_ranks(self, counts: Sequence[Counts]) -> np.ndarray:
        """Return the rank of each judged row among the rows of all counts."""
        n_above = np.sum([count.n_above for count in counts], axis=0)
        n_from = np.sum([count.n_from for count in counts], axis=0)
        n_ties = n_from - n_above  # the row itself among them
        return np.asarray(n_above + (n_ties + 1) / 2)


def count_above(values: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """Return how many values are above each threshold.

    Examples
    --------
    >>> count_above(np.array([1.0, 2.0, 3.0]), np.array([2.0, 0.0])).tolist()
    [1, 3]
    """
    if len(thresholds) <= FEW_THRESHOLDS:
        return np.array(
            [np.count_nonzero(values > threshold) for threshold in thresholds],
            dtype=np.int64,
        )
    order = np.argsort(thresholds, kind="stable")
    n_below = np.searchsorted(thresholds[order], values)
    n_reached = np.bincount(n_below, minlength=len(thresholds) + 1)
    counts = np.empty(len(thresholds), dtype=np.int64)
    counts[order] = n_reached[::-1].cumsum()[::-1][1:]
    return counts
