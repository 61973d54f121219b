"""What held-out queries gain from a search among all rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from ..mixed_rows import MixedRows, sparse_block
from ..similarity import Similarity
from ..similarity.cosine import COSINE, PRODUCT
from ..similarity.known_items import half_rows
from ..triplets.graded_rows import graded_rows, positions_among
from .ranked_search import RankedSearch

#: Most queries of a part that look for judged rows and for themselves, and most scores
#: of queries and rows: a search takes seconds.
MOST_JUDGED = 200

MOST_KNOWN = 300

MOST_SCORES = 2**27

#: The share of the gain of the plain cosine that may be lost. All rows teach more than the
#: sample of the choice, and move known rows farther: 3 % there are up to 5 %.
MAX_HARM_TO_JUDGED_ROWS = 0.01

MAX_HARM_TO_KNOWN_ROWS = 0.03


@dataclass(frozen=True)
class SearchJudge:
    """What each held-out query gains from a search among all rows, from 0 to 1.

    Parameters
    ----------
    searched : RankedSearch
    grades : ndarray of shape (n_judged,) or None
        Of the judged rows, positive: a query gains the normalized sum of grade /
        log2(1 + rank). None where one row is looked for: it gains 1 / rank.
    rankings : tuple of str
        The ways to rank rows that are looked at.
    max_harm : float
        The share of the gain of the plain cosine that may be lost.
    """

    searched: RankedSearch
    grades: np.ndarray | None
    rankings: tuple[str, ...]
    max_harm: float

    def gains(
        self, similarity: Similarity, ranking: str, n_threads: int = 1
    ) -> np.ndarray:
        """Return the gain of each query, where rows are ranked in one of the ways."""
        ranks = self.searched.ranks(similarity, ranking, n_threads)
        if self.grades is None:
            return 1.0 / ranks
        return discounted_gains(ranks, self.grades, self.searched.judged_queries)


def discounted_gains(
    ranks: np.ndarray, grades: np.ndarray, queries: np.ndarray
) -> np.ndarray:
    """Return Σ grade / log2(1 + rank) of each query as a share of the largest possible.

    Ranks count however deep they are. Queries are numbered from 0, and sorted.

    Examples
    --------
    >>> discounted_gains(np.array([2.0, 1.0, 1.0]), np.array([1.0, 0.5, 1.0]), np.array([0, 0, 1]))
    array([0.8597187, 1.       ])
    """
    order = np.lexsort((-grades, queries))
    n_judged = np.bincount(queries)
    first = np.cumsum(n_judged) - n_judged
    best_ranks = np.arange(len(queries)) - first[queries] + 1
    best = np.bincount(queries, grades[order] / np.log2(1.0 + best_ranks))
    return np.bincount(queries, grades / np.log2(1.0 + ranks)) / best


def search_known_rows(
    X: sp.csr_array | MixedRows, rows: np.ndarray, rng: np.random.Generator
) -> SearchJudge | None:
    """Return a judge that looks for rows of X by half of their features, among all of them."""
    searched = rows[np.diff(sparse_block(X).indptr)[rows] >= 2]
    searched = draw_queries(searched, MOST_KNOWN, X.shape[0], rng)
    if not len(searched):
        return None
    ranked = RankedSearch(
        queries=half_rows(X[searched], 0.5, rng),
        rows=X,
        hidden_rows=np.full(len(searched), -1),
        judged_queries=np.arange(len(searched)),
        judged_rows=searched,
    )
    return SearchJudge(ranked, None, (COSINE,), MAX_HARM_TO_KNOWN_ROWS)


def search_judged_rows(
    X: sp.csr_array | MixedRows,
    shown: np.ndarray,
    triplets: np.ndarray,
    weights: np.ndarray | None,
    rng: np.random.Generator,
) -> SearchJudge | None:
    """Return a judge that searches for the positives of anchors among all rows that may be shown.

    The grade of a row is the share of its comparisons with an anchor that it wins.

    Parameters
    ----------
    X : csr_array or MixedRows of shape (n_rows, n_features)
    shown : ndarray of int
        The rows that may be shown, sorted.
    triplets : ndarray of shape (n_triplets, 3)
    weights : ndarray of shape (n_triplets,) or None
    rng : numpy.random.Generator
    """
    judged = graded_rows(triplets, weights)
    anchors = draw_queries(np.unique(judged.anchors), MOST_JUDGED, len(shown), rng)
    if not len(anchors):
        return None
    judged = judged.take(np.isin(judged.anchors, anchors))
    ranked = RankedSearch(
        queries=X[anchors],
        rows=X[shown],
        hidden_rows=positions_among(anchors, shown),
        judged_queries=np.searchsorted(anchors, judged.anchors),
        judged_rows=np.searchsorted(shown, judged.rows),
    )
    return SearchJudge(
        ranked, judged.grades, (COSINE, PRODUCT), MAX_HARM_TO_JUDGED_ROWS
    )


def draw_queries(
    queries: np.ndarray, n_most: int, n_rows: int, rng: np.random.Generator
) -> np.ndarray:
    """Return the queries, sorted, or a sample that is searched in seconds."""
    n_most = min(n_most, max(1, MOST_SCORES // max(1, n_rows)))
    if len(queries) <= n_most:
        return queries
    return np.sort(rng.choice(queries, n_most, replace=False))
