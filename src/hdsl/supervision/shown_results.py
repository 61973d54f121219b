"""Logs of the plain cosine: only what it showed first could be clicked.

Ranks of clicked rows among all rows favour the order that showed them: a row that
another order brings up has no click yet. It is credited with what the rows had that
were shown last, which are the most like it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..similarity.cosine import COSINE
from ..similarity.products import row_products
from ..similarity.unlearned import unlearned
from ..triplets.graded_rows import GradedRows, Wins, count_wins, graded_rows
from .ranked_search import RankedSearch, SearchedPart

#: A log shows the first results of the plain cosine where so many of the rows that win
#: comparisons are among so many times as many first rows as their anchor is compared
#: with. Matches that are compared with near misses are so for 97 or 98 %, and what a
#: model brings up in their place is known to be wrong.
SHARE_AMONG_FIRST = 0.995

TIMES_AS_MANY = 1.5

#: Anchors that this is found out by, and those that are looked at first.
N_TRIED = 200

N_TRIED_FIRST = 10

#: Rows that these are looked for among, at first.
N_SAMPLED = 10_000

#: A click at rank r is worth r to this power, where weights say the rank. How much less
#: people look at rank r is not known: a larger power than theirs speaks for any other
#: order, a smaller one only against some that are better.
POWER_OF_WEIGHTS = 1 / 2

#: The same where the place by cosine stands for the rank: these may be judgements of
#: people who look at all that is shown.
POWER_OF_PLACES = 1 / 3

#: The share of the rows of an anchor that were shown last.
SHARE_LAST = 0.4


class ShownRows(NamedTuple):
    """Rows that were shown for anchors, and what each is worth.

    Parameters
    ----------
    anchors, rows : ndarray of shape (n_shown,)
        Sorted by the anchor.
    places : ndarray of shape (n_shown,)
        1 for the row that is nearest to the anchor by plain cosine, and so on.
    credits : ndarray of shape (n_shown,)
        The weight of the comparisons that a row wins, per comparison that it is in.
    """

    anchors: np.ndarray
    rows: np.ndarray
    places: np.ndarray
    credits: np.ndarray

    def take(self, chosen: np.ndarray) -> ShownRows:
        """Return some of them, chosen by a mask."""
        return ShownRows(
            self.anchors[chosen],
            self.rows[chosen],
            self.places[chosen],
            self.credits[chosen],
        )


def shown_rows(X: Any, triplets: np.ndarray, weights: np.ndarray | None) -> ShownRows:
    """Return the rows that anchors are compared with, those that never win among them.

    People look at the first results most: a row that was clicked far down is worth
    more. Weights are taken to say so, else places do.

    Examples
    --------
    >>> X = np.array([[1.0, 0.0], [0.8, 0.6], [0.6, 0.8], [0.0, 1.0]])
    >>> shown = shown_rows(X, np.array([[0, 1, 2], [0, 1, 3], [0, 3, 2]]), np.array([1, 1, 4]))
    >>> shown.rows.tolist(), shown.places.tolist(), shown.credits.tolist()
    ([1, 2, 3], [1, 2, 3], [1.0, 0.0, 1.0])
    """
    worth = None
    if weights is not None:
        worth = weights**POWER_OF_WEIGHTS
    wins = count_wins(triplets, worth)
    credits = wins.won / wins.n_comparisons
    places = _places(X, wins.anchors, wins.rows)
    if weights is None:
        credits *= places**POWER_OF_PLACES
    shown = ShownRows(wins.anchors, wins.rows, places, credits)
    return shown.take(shown.anchors != shown.rows)


def _places(X: Any, anchors: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the place of each row among those of its anchor by plain cosine, from 1.

    Anchors are sorted.
    """
    compared = X[rows]
    lengths = np.sqrt(row_products(compared, compared))
    lengths[lengths == 0] = 1.0
    cosines = row_products(X[anchors], compared) / lengths
    order = np.lexsort((-cosines, anchors))
    _, first = np.unique(anchors, return_index=True)
    n_before = np.repeat(first, np.diff(np.append(first, len(anchors))))
    places = np.empty(len(anchors), dtype=np.int64)
    places[order] = np.arange(len(anchors)) - n_before + 1
    return places


def are_first_results(
    X: Any, searched: SearchedPart, wins: Wins, rng: np.random.Generator
) -> bool:
    """Return whether the rows that win comparisons are the first ones by plain cosine.

    Most comparisons are no such log. A few anchors and a sample of the rows, among
    which no row has a larger rank than among all, are enough to see that.

    Parameters
    ----------
    X : csr_array or MixedRows of shape (n_rows, n_features)
    searched : SearchedPart
    wins : Wins
        Of the rows that anchors were compared with.
    rng : numpy.random.Generator
        Draws the anchors that are looked at, and the sample.
    """
    others = wins.anchors[wins.anchors != wins.rows]
    n_shown = np.bincount(others, minlength=X.shape[0])
    anchors = np.unique(others)
    if len(anchors) > N_TRIED:
        anchors = np.sort(rng.choice(anchors, N_TRIED, replace=False))
    judged = graded_rows(wins)
    judged = judged.take(np.isin(judged.anchors, anchors))
    most_behind = (1.0 - SHARE_AMONG_FIRST) * len(judged.rows)
    few = judged.take(np.isin(judged.anchors, anchors[:N_TRIED_FIRST]))
    sample = searched
    if len(searched.numbers) > N_SAMPLED:
        sample = searched.sample(N_SAMPLED, few.rows, rng)
    if _n_behind(X, sample, few, n_shown) > most_behind:
        return False
    n_behind = _n_behind(X, searched, judged, n_shown)
    return len(judged.rows) > 0 and n_behind <= most_behind


def _n_behind(
    X: Any, searched: SearchedPart, judged: GradedRows, n_shown: np.ndarray
) -> int:
    """Return how many judged rows are not among the first ones for their anchors.

    `n_shown` has the number of rows that each row of X is compared with.
    """
    if not len(judged.rows):
        return 0
    ranked = RankedSearch.of_anchors(
        X, searched, np.unique(judged.anchors), judged.anchors, judged.rows
    )
    ranks = ranked.ranks(unlearned(X), (COSINE,))[COSINE]
    return int(np.count_nonzero(ranks > TIMES_AS_MANY * n_shown[judged.anchors]))


def credit_of_unseen(shown: ShownRows) -> float:
    """Return the mean credit of the rows that were shown last for their anchor."""
    _, number = np.unique(shown.anchors, return_inverse=True)
    n_shown = np.bincount(number)[number]
    is_last = shown.places > (1.0 - SHARE_LAST) * n_shown
    return float(shown.credits[is_last].mean())


def credited_gains(
    ranks: np.ndarray, credits: np.ndarray, queries: np.ndarray, unseen: float
) -> np.ndarray:
    """Return Σ (credit - unseen) / log2(1 + rank) of each query; all are divided by one number.

    That is the largest possible mean. Queries are numbered from 0, and sorted.

    Examples
    --------
    >>> credited_gains(np.array([1.0, 2.0]), np.array([1.0, 0.0]), np.array([0, 0]), 0.0).tolist()
    [1.0]
    """
    worth = credits - unseen
    order = np.lexsort((-worth, queries))
    n_shown = np.bincount(queries)
    first = np.cumsum(n_shown) - n_shown
    best_ranks = np.arange(len(queries)) - first[queries] + 1
    best_worth = np.maximum(worth[order], 0.0)
    best = np.bincount(queries, best_worth / np.log2(1.0 + best_ranks)).mean()
    if best == 0:
        best = 1.0
    return np.bincount(queries, worth / np.log2(1.0 + ranks)) / best
