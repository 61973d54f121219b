"""Ranks of judged rows among all rows that a search may show."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy.sparse as sp

from .. import search
from ..mixed_rows import MixedRows
from ..similarity.cosine import COSINE, LearnedCosine
from ..similarity.known_items import TIE
from ..similarity.products import row_products
from ..similarity.rewriter import Rewriter
from ..triplets.graded_rows import positions_among

if TYPE_CHECKING:
    from ..cpu.kernels.ranks import Counts

#: The rank of rows that tie: the middle one of theirs, or the first one.
MIDDLE = "middle"
FIRST = "first"

#: Scores that are computed at a time, 32 MB.
SCORES_AT_A_TIME = 2**22


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

    @classmethod
    def of(cls, X: sp.csr_array | MixedRows, numbers: np.ndarray) -> SearchedPart:
        """Return rows of X, which are not copied where they are all."""
        if len(numbers) == X.shape[0]:
            return cls(numbers, X)
        return cls(numbers, X[numbers])

    def sample(
        self, n: int, others: np.ndarray, rng: np.random.Generator
    ) -> SearchedPart:
        """Return some of the rows, drawn at random, and all of the others."""
        drawn = rng.choice(self.numbers, n, replace=False)
        numbers = np.unique(np.concatenate([drawn, others]))
        return SearchedPart(numbers, self.rows[np.searchsorted(self.numbers, numbers)])


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
        self,
        similarity: Rewriter,
        rankings: Sequence[str],
        n_threads: int = 1,
        ties: str = MIDDLE,
    ) -> dict[str, np.ndarray]:
        """Return the ranks of the judged rows for their queries, by each way to rank rows.

        Ties have their middle rank, or all the first one. Products are computed once
        for all ways.
        """
        queries = similarity.rewrite(self.queries)
        judged_rows = self.rows[self.judged_rows]
        judged = similarity.index_rows(judged_rows)
        products = row_products(queries[self.judged_queries], judged)
        ways = []
        for ranking in rankings:
            lengths = lengths_of_rows(similarity, judged_rows, ranking)
            ways.append(RankedRows(self, products / lengths))
        size = max(1, SCORES_AT_A_TIME // max(1, queries.shape[0]))

        def counts_of_block(start: int) -> list[Counts]:
            """Return how many rows of a block are above the judged ones, in each way."""
            rows = self.rows[start : start + size]
            scores = np.zeros((queries.shape[0], rows.shape[0]))
            scores = search.add_products(queries, similarity.index_rows(rows), scores)
            self._hide(scores, start)
            return [
                way.count(scores, lengths_of_rows(similarity, rows, ranking))
                for ranking, way in zip(rankings, ways, strict=True)
            ]

        starts = range(0, self.rows.shape[0], size)
        with ThreadPoolExecutor(n_threads) as threads:
            counts = [*threads.map(counts_of_block, starts)]
        return {
            ranking: way.ranks([of_block[k] for of_block in counts], ties)
            for k, (ranking, way) in enumerate(zip(rankings, ways, strict=True))
        }

    def _hide(self, scores: np.ndarray, start: int) -> None:
        """Put the rows that are never shown last; the scores are of rows from `start` on."""
        column = self.hidden_rows - start
        is_inside = (column >= 0) & (column < scores.shape[1]) & (self.hidden_rows >= 0)
        scores[is_inside, column[is_inside]] = -np.inf


def lengths_of_rows(
    similarity: Rewriter, rows: sp.csr_array | MixedRows, ranking: str
) -> np.ndarray:
    """Return what products with rows are divided by, in one way to rank them."""
    if ranking == COSINE:
        return LearnedCosine(similarity).lengths(rows)
    return np.ones(rows.shape[0])


class RankedRows:
    """Judged rows in one way to rank, and how many of other rows are above or tie with them.

    Parameters
    ----------
    searched : RankedSearch
    judged_scores : ndarray of shape (n_judged,)
    """

    def __init__(self, searched: RankedSearch, judged_scores: np.ndarray) -> None:
        from ..cpu.kernels.ranks import Thresholds

        n_queries = searched.queries.shape[0]
        numbers = np.arange(n_queries + 1)
        largest = np.zeros(n_queries)
        np.maximum.at(largest, searched.judged_queries, np.abs(judged_scores))
        tie = TIE * largest[searched.judged_queries]
        self.order = np.lexsort((judged_scores, searched.judged_queries))
        self.thresholds = Thresholds(
            starts=np.searchsorted(searched.judged_queries, numbers).astype(np.int64),
            upper=(judged_scores + tie)[self.order],
            lower=(judged_scores - tie)[self.order],
        )

    def count(self, products: np.ndarray, lengths: np.ndarray) -> Counts:
        """Return the counts of some rows, whose products with queries are over their lengths."""
        from ..cpu.kernels.ranks import Counts, count_ranks

        n_judged = len(self.order)
        counts = Counts(np.zeros(n_judged, np.int64), np.zeros(n_judged, np.int64))
        count_ranks(products, lengths, self.thresholds, counts)
        return counts

    def ranks(self, counts: Sequence[Counts], ties: str) -> np.ndarray:
        """Return the rank of each judged row among the rows of all counts."""
        n_above = np.sum([count.n_above for count in counts], axis=0)
        n_from = np.sum([count.n_from for count in counts], axis=0)
        n_ties = n_from - n_above  # the row itself among them
        ranks = np.empty(len(self.order))
        ranks[self.order] = n_above + 1.0
        if ties == MIDDLE:
            ranks[self.order] = n_above + (n_ties + 1) / 2
        return ranks
