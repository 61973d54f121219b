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
from .ranked_search import FIRST, RankedSearch, SearchedPart

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

#: Groups of rows of about the same cosine, which only their places tell apart.
N_GROUPS = 50

#: The power of a place by cosine that stands for the rank is found within these limits.
MOST_POWER = 1.0

#: Newton's steps, many more than a concave function of one number needs.
N_STEPS = 50

TOLERANCE = 1e-6

#: A lower bound is so many standard errors below: 95 % are above.
BOUND_ERRORS = 1.645

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
        How often a row wins, corrected by its place.
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
    more, and the log says how much. Places by cosine stand for its ranks, and weights
    only say which comparisons count.

    Examples
    --------
    >>> X = np.array([[1.0, 0.0], [0.8, 0.6], [0.6, 0.8], [0.0, 1.0]])
    >>> shown = shown_rows(X, np.array([[0, 1, 2], [0, 1, 3], [0, 3, 2]]), None)
    >>> shown.rows.tolist(), shown.places.tolist(), shown.credits.round(2).tolist()
    ([1, 2, 3], [1, 2, 3], [1.0, 0.0, 0.5])
    """
    if weights is not None:
        triplets = triplets[weights > 0]
    wins = count_wins(triplets, None)
    credits = win_rates(wins)
    cosines = _cosines(X, wins)
    places = _places(cosines, wins.anchors)
    credits *= places ** power_of_places(credits, places, cosines)
    shown = ShownRows(wins.anchors, wins.rows, places, credits)
    return shown.take(shown.anchors != shown.rows)


def power_of_log(X: Any, triplets: np.ndarray) -> float:
    """Return how fast people stop to look, as a log of the first results by cosine says."""
    wins = count_wins(triplets, None)
    cosines = _cosines(X, wins)
    places = _places(cosines, wins.anchors)
    return power_of_places(win_rates(wins), places, cosines)


def win_rates(wins: Wins) -> np.ndarray:
    """Return how often each row wins of the times that it was shown.

    A row that is clicked is compared with all others of an event that are not, most of
    them, and else with the few that are: its share of comparisons is too large. Of a
    row that is always shown, what it loses is the less the more it wins, and the slope
    says how much a loss counts in wins.

    Examples
    --------
    >>> clicks = [(0, 1, 2), (0, 1, 3), (0, 1, 4), (0, 2, 1), (0, 2, 3), (0, 2, 4)]
    >>> win_rates(count_wins(np.array(clicks), None)).tolist()
    [0.5, 0.5, 0.0, 0.0]
    """
    _, first, sizes = np.unique(wins.anchors, return_index=True, return_counts=True)
    won = wins.won - np.repeat(np.add.reduceat(wins.won, first) / sizes, sizes)
    lost = wins.lost - np.repeat(np.add.reduceat(wins.lost, first) / sizes, sizes)
    product = float(won @ lost)
    losses = wins.lost
    if product < 0.0:
        losses = losses * (float(won @ won) / -product)
    total = wins.won + losses
    total[total == 0.0] = 1.0
    return np.asarray(wins.won / total)


def power_of_places(
    shares: np.ndarray, places: np.ndarray, cosines: np.ndarray
) -> float:
    """Return how fast people stop to look: at place r with a chance of r to minus this power.

    Rows of about the same cosine are about as relevant. Where some of them stand first,
    and others behind nearer rows of another anchor, what they are clicked less there is
    due to their place. The shares are fitted by a group's mean times r to minus the
    power, as in a Poisson regression; of the estimate a lower bound is taken, since a
    power that is too large speaks for any other order.

    Parameters
    ----------
    shares : ndarray of shape (n_shown,)
        How often a row wins.
    places : ndarray of shape (n_shown,)
        From 1.
    cosines : ndarray of shape (n_shown,)

    Examples
    --------
    >>> places = np.tile([1, 2, 3, 4], 5000)
    >>> round(power_of_places(places**-0.5, places, np.zeros(20000)), 1)
    0.5
    """
    order = np.argsort(cosines, kind="stable")
    n_groups = min(N_GROUPS, len(order))
    groups = np.empty(len(order), dtype=np.int64)
    groups[order] = np.arange(len(order)) * n_groups // max(1, len(order))
    logs = np.log(places)
    won = np.bincount(groups, shares, minlength=n_groups)
    won_at = float(shares @ logs)
    power = 0.0
    information = 0.0
    for _ in range(N_STEPS):
        chances = np.exp(-power * logs)
        total = np.bincount(groups, chances, minlength=n_groups)
        mean = np.bincount(groups, chances * logs, minlength=n_groups) / total
        squares = np.bincount(groups, chances * logs**2, minlength=n_groups) / total
        information = float(won @ (squares - mean**2))
        if information <= 0.0:
            return 0.0
        step = (float(won @ mean) - won_at) / information
        power = float(np.clip(power + step, -MOST_POWER, 2.0 * MOST_POWER))
        if abs(step) < TOLERANCE:
            break
    bound = power - BOUND_ERRORS / np.sqrt(information)
    return float(np.clip(bound, 0.0, MOST_POWER))


def _cosines(X: Any, wins: Wins) -> np.ndarray:
    """Return the cosine of each row with its anchor."""
    anchors = X[wins.anchors]
    rows = X[wins.rows]
    squares = row_products(anchors, anchors) * row_products(rows, rows)
    lengths = np.sqrt(squares)
    lengths[lengths == 0] = 1.0
    return np.asarray(row_products(anchors, rows) / lengths)


def _places(cosines: np.ndarray, anchors: np.ndarray) -> np.ndarray:
    """Return the place of each row among those of its anchor by plain cosine, from 1.

    Anchors are sorted.
    """
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
    # Of rows that are equal, a search may show any.
    ranks = ranked.ranks(unlearned(X), (COSINE,), ties=FIRST)[COSINE]
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
