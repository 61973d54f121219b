"""What held-out queries gain from a search among all rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import scipy.sparse as sp

from ..mixed_rows import MixedRows, sparse_block
from ..search_gain import SearchGain
from ..similarity.cosine import COSINE, PRODUCT
from ..similarity.known_items import half_rows
from ..similarity.rewriter import Rewriter
from ..similarity.unlearned import unlearned
from ..triplets.graded_rows import count_wins, graded_rows
from .ranked_search import RankedSearch, SearchedPart
from .shown_results import (
    ShownRows,
    are_first_results,
    credit_of_unseen,
    credited_gains,
    shown_rows,
)

#: Most queries of a part that look for judged rows and for themselves, and most scores
#: of queries and rows: a search takes seconds.
MOST_JUDGED = 200

MOST_KNOWN = 300

#: Clicks say little each: more queries are looked at.
MOST_OF_LOG = 1000

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
    measure : callable
        From the ranks of the judged rows to the gain of each query.
    rankings : tuple of str
        The ways to rank rows that are looked at.
    max_harm : float
        The share of the gain of the plain cosine that may be lost.
    is_of_judgements : bool
        Whether queries search for rows that were judged, not for themselves.
    decides : bool
        Whether candidates are compared by their gains, not by held-out comparisons.
    """

    searched: RankedSearch
    measure: Callable[[np.ndarray], np.ndarray]
    rankings: tuple[str, ...]
    max_harm: float
    is_of_judgements: bool
    decides: bool = False

    def gains(
        self, similarity: Rewriter, rankings: Sequence[str], n_threads: int = 1
    ) -> dict[str, np.ndarray]:
        """Return the gain of each query, by each way to rank rows."""
        ranks = self.searched.ranks(similarity, rankings, n_threads)
        return {ranking: self.measure(ranks[ranking]) for ranking in rankings}


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
    return SearchJudge(
        ranked,
        np.reciprocal,
        rankings=(COSINE,),
        max_harm=MAX_HARM_TO_KNOWN_ROWS,
        is_of_judgements=False,
    )


def search_judged_rows(
    X: sp.csr_array | MixedRows,
    shown: np.ndarray,
    triplets: np.ndarray,
    weights: np.ndarray | None,
    rng: np.random.Generator,
) -> SearchJudge | None:
    """Return a judge that searches for the positives of anchors among all rows that may be shown.

    The grade of a row is the share of its comparisons with an anchor that it wins.
    Where the comparisons are a log of the first results of the plain cosine, see
    `shown_results`.

    Parameters
    ----------
    X : csr_array or MixedRows of shape (n_rows, n_features)
    shown : ndarray of int
        The rows that may be shown, sorted.
    triplets : ndarray of shape (n_triplets, 3)
    weights : ndarray of shape (n_triplets,) or None
    rng : numpy.random.Generator
    """
    searched = SearchedPart.of(X, shown)
    wins = count_wins(triplets, weights)
    (trial_rng,) = rng.spawn(1)
    if are_first_results(X, searched, wins, trial_rng):
        results = shown_rows(X, triplets, weights)
        return _search_shown_rows(X, searched, results, rng)
    judged = graded_rows(wins)
    anchors = draw_queries(np.unique(judged.anchors), MOST_JUDGED, len(shown), rng)
    if not len(anchors):
        return None
    judged = judged.take(np.isin(judged.anchors, anchors))
    queries = np.searchsorted(anchors, judged.anchors)
    return SearchJudge(
        RankedSearch.of_anchors(X, searched, anchors, judged.anchors, judged.rows),
        partial(discounted_gains, grades=judged.grades, queries=queries),
        rankings=(COSINE, PRODUCT),
        max_harm=MAX_HARM_TO_JUDGED_ROWS,
        is_of_judgements=True,
    )


def _search_shown_rows(
    X: sp.csr_array | MixedRows,
    searched: SearchedPart,
    results: ShownRows,
    rng: np.random.Generator,
) -> SearchJudge:
    """Return a judge of a log: what it gains for certain is learned, and nothing else."""
    unseen = credit_of_unseen(results)
    n_searched = len(searched.numbers)
    anchors = draw_queries(np.unique(results.anchors), MOST_OF_LOG, n_searched, rng)
    results = results.take(np.isin(results.anchors, anchors))
    queries = np.searchsorted(anchors, results.anchors)
    return SearchJudge(
        RankedSearch.of_anchors(X, searched, anchors, results.anchors, results.rows),
        partial(
            credited_gains, credits=results.credits, queries=queries, unseen=unseen
        ),
        rankings=(COSINE, PRODUCT),
        max_harm=0.0,
        is_of_judgements=True,
        decides=True,
    )


def gain_by_clicks(
    similarity: Rewriter,
    ranking: str,
    X: sp.csr_array | MixedRows,
    shown: np.ndarray,
    triplets: np.ndarray,
    weights: np.ndarray | None,
) -> SearchGain | None:
    """Return what clicks on the first results by cosine say of a similarity; None of others.

    Parameters
    ----------
    similarity : Rewriter
    ranking : {"cosine", "product"}
        How it ranks rows.
    X, shown, triplets, weights
        As in `search_judged_rows`.
    """
    from ..evaluate.intervals import mean_interval  # SciPy's statistics load slowly

    judge = search_judged_rows(X, shown, triplets, weights, np.random.default_rng(0))
    if judge is None or not judge.decides:
        return None
    before = judge.gains(unlearned(X), (COSINE,))[COSINE]
    after = judge.gains(similarity, (ranking,))[ranking]
    return SearchGain.of(before, after, mean_interval)


def draw_queries(
    queries: np.ndarray, n_most: int, n_rows: int, rng: np.random.Generator
) -> np.ndarray:
    """Return the queries, sorted, or a sample that is searched in seconds."""
    n_most = min(n_most, max(1, MOST_SCORES // max(1, n_rows)))
    if len(queries) <= n_most:
        return queries
    return np.sort(rng.choice(queries, n_most, replace=False))
