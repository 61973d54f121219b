"""Pairs that are most worth asking a person about."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .assignment import first_free
from .bridges import pairs_held
from .entities import components
from .sure_pairs import SURE

#: Other pairs of a record are asked about too, from this probability on.
LIKELY = 0.1

#: Where this share of the linked records has several links, things have several records.
MIN_SHARE_OF_GROUPS = 0.2

#: An answer counts as if it decided on no more pairs: else all questions would be about
#: improbable links of the largest entities.
MOST_DECIDED = 10


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


class Worth(NamedTuple):
    """How much is learned by the answer to each pair, shape (n_pairs,).

    Attributes
    ----------
    hangs : ndarray of bool
        Whether an entity of several records falls apart if the pair does not match.
    change : ndarray
        Expected number of pairs of records whose answer the most likely one is not.
    """

    hangs: np.ndarray
    change: np.ndarray


def worth_of_answers(
    pairs: np.ndarray,
    probability: np.ndarray,
    n_records: int,
    *,
    is_first_round: bool = False,
) -> Worth:
    """Return how much is learned by the answers to pairs.

    A link that alone holds two parts of an entity together decides on all pairs between
    them, and a pair of two entities on all pairs between these.

    Parameters
    ----------
    pairs : ndarray of shape (n_pairs, 2)
        All candidates, each once.
    probability : ndarray of shape (n_pairs,)
        1 and 0 where the answer is known.
    n_records : int
    is_first_round : bool, default=False
        Whether no answer is known: then no entity hangs by a link.

    Examples
    --------
    >>> pairs = np.array([[0, 1], [1, 2], [3, 4]])
    >>> worth_of_answers(pairs, np.array([1.0, 0.7, 0.6]), 5).hangs.tolist()
    [False, True, False]
    """
    is_link = probability >= 0.5
    links = pairs[is_link]
    group = components(links, n_records)
    sizes = np.bincount(group)[group]
    n_decided = sizes[pairs[:, 0]] * sizes[pairs[:, 1]]
    n_decided[group[pairs[:, 0]] == group[pairs[:, 1]]] = 1
    held = pairs_held(links, n_records)
    n_decided[is_link] = np.maximum(held, 1)
    hangs = np.zeros(len(pairs), dtype=bool)
    if not is_first_round:
        hangs[is_link] = (held > 1) & (probability[is_link] < SURE)
    doubt = np.minimum(probability, 1.0 - probability)
    return Worth(hangs, doubt * np.minimum(n_decided, MOST_DECIDED))


def doubtful_pairs(
    pairs: np.ndarray, probability: np.ndarray, worth: Worth, n: int, *, by_record: bool
) -> np.ndarray:
    """Return the numbers of the pairs to ask about.

    Those by which entities hang come first, then those that change most.

    Parameters
    ----------
    pairs : ndarray of shape (n_pairs, 2)
        Without an answer.
    probability : ndarray of shape (n_pairs,)
    worth : Worth
    n : int
    by_record : bool
        Whether all likely pairs of the left record of a doubtful pair are asked about,
        so that the answers tell the whole group. Otherwise each record is asked about
        at most once.
    """
    order = np.lexsort((-worth.change, ~worth.hangs))
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
