"""Pairs that are most worth asking a person about."""

from __future__ import annotations

import numpy as np

from .assignment import first_free

#: Other pairs of a record are asked about too, from this probability on.
LIKELY = 0.1

#: Where this share of the linked records has several links, things have several records.
MIN_SHARE_OF_GROUPS = 0.2


def have_groups(pairs: np.ndarray, probability: np.ndarray) -> bool:
    """Return whether many records have several matches.

    Examples
    --------
    >>> pairs = np.array([[0, 1], [0, 2], [3, 4]])
    >>> have_groups(pairs, np.array([0.9, 0.8, 0.9]))
    True
    >>> have_groups(pairs, np.array([0.9, 0.2, 0.9]))
    False
    """
    _, n_links = np.unique(pairs[probability >= 0.5], return_counts=True)
    return bool(len(n_links)) and bool((n_links > 1).mean() >= MIN_SHARE_OF_GROUPS)


def doubtful_pairs(
    pairs: np.ndarray, probability: np.ndarray, n: int, *, by_record: bool
) -> np.ndarray:
    """Return the numbers of the pairs to ask about, the least certain ones first.

    Parameters
    ----------
    pairs : ndarray of shape (n_pairs, 2)
        Without an answer.
    probability : ndarray of shape (n_pairs,)
    n : int
    by_record : bool
        Whether all likely pairs of the left record of a doubtful pair are asked about,
        so that the answers tell the whole group. Otherwise each record is asked about
        at most once.
    """
    order = np.argsort(abs(probability - 0.5), kind="stable")
    if not by_record:
        return order[first_free(pairs[order])][:n]
    likely = order[probability[order] >= LIKELY]
    questions: dict[int, None] = {}
    used: set[int] = set()
    for number in order.tolist():
        if len(questions) >= n:
            break
        if not used.isdisjoint(pairs[number].tolist()):
            continue
        anchor = pairs[number, 0]
        has_anchor = (pairs[likely] == anchor).any(axis=1)
        group = dict.fromkeys([number, *likely[has_anchor].tolist()])
        questions |= group
        used.update(pairs[[*group]].ravel().tolist())
    return np.array([*questions][:n], dtype=np.int64)


def spread_pairs(pairs: np.ndarray, score: np.ndarray, n: int) -> np.ndarray:
    """Return the numbers of pairs from the most to the least alike, each record once.

    Parameters
    ----------
    pairs : ndarray of shape (n_pairs, 2)
        Without an answer.
    score : ndarray of shape (n_pairs,)
        It has no meaning but its order.
    n : int
    """
    order = np.argsort(-score, kind="stable")
    free = order[first_free(pairs[order])]
    spread = np.linspace(0, max(len(free) - 1, 0), min(n, len(free)))
    return free[spread.astype(int)]
