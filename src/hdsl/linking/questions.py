"""Pairs to ask a person about: those most worth it, and random links to audit."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit
from scipy.stats import beta

from .entities import components, first_free
from .learning import MAX_STRETCH, Correction


def pairs_held(links: np.ndarray, n_records: int) -> np.ndarray:
    """Return the number of pairs of records that each link alone holds together.

    Without the link a group would fall into two parts: it holds as many pairs as the
    product of their sizes. A link that other links replace holds 0.

    Parameters
    ----------
    links : ndarray of shape (n_links, 2)
        Each once.
    n_records : int

    Examples
    --------
    >>> pairs_held(np.array([[0, 1], [1, 2], [0, 2], [2, 3]]), n_records=4).tolist()
    [0, 0, 0, 3]
    """
    group = components(links, n_records)
    sizes = np.bincount(group, minlength=1)
    neighbors: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for number, (first, second) in enumerate(links.tolist()):
        neighbors[first].append((second, number))
        neighbors[second].append((first, number))
    held = np.zeros(len(links), dtype=np.int64)
    walk = _Walk(neighbors)
    for root in neighbors:
        if root not in walk.order:
            n_records_of_group = int(sizes[group[root]])
            for number, n_below in walk.bridges(root):
                held[number] = n_below * (n_records_of_group - n_below)
    return held


class _Walk:
    """A depth-first walk along links, in which a link back makes up for those it spans.

    Parameters
    ----------
    neighbors : dict of int to list of (int, int)
        The records that each record is linked with, and the numbers of these links.
    """

    def __init__(self, neighbors: dict[int, list[tuple[int, int]]]) -> None:
        self._neighbors = neighbors
        #: When each record was reached.
        self.order: dict[int, int] = {}
        self._earliest: dict[int, int] = {}
        self._n_below: dict[int, int] = {}

    def bridges(self, root: int) -> list[tuple[int, int]]:
        """Return links that nothing makes up for, and the number of records behind each."""
        bridges = []
        self._reach(root)
        path = [(root, -1, iter(self._neighbors[root]))]
        while path:
            record, number, others = path[-1]
            step = next(others, None)
            if step is None:
                path.pop()
                if path:
                    parent, _, _ = path[-1]
                    self._return(record, parent)
                    if self._earliest[record] > self.order[parent]:
                        bridges.append((number, self._n_below[record]))
                continue
            other, link = step
            if link == number:
                continue
            if other in self.order:
                earliest = min(self._earliest[record], self.order[other])
                self._earliest[record] = earliest
            else:
                self._reach(other)
                path.append((other, link, iter(self._neighbors[other])))
        return bridges

    def _reach(self, record: int) -> None:
        self.order[record] = len(self.order)
        self._earliest[record] = self.order[record]
        self._n_below[record] = 1

    def _return(self, record: int, parent: int) -> None:
        """Tell the parent of a record what was seen behind it."""
        self._n_below[parent] += self._n_below[record]
        earliest = min(self._earliest[parent], self._earliest[record])
        self._earliest[parent] = earliest


#: A link that is as probable does not hang by a question.
SURE = 0.98

#: Other pairs of a record are asked about too, from this probability on.
LIKELY = 0.1

#: Where this share of the linked records has several links, things have several records.
MIN_SHARE_OF_GROUPS = 0.2

#: The bound of an audit holds in this share of audits.
CONFIDENCE = 0.95

#: Standard deviations that chance exceeds in 1 of 20 cases.
ONE_SIDED = 1.645

#: Answers of an audit that count as much as what was thought before.
PRIOR_ANSWERS = 10.0

#: Probabilities nearer to 0 or 1 are this where log odds are asked for.
NEAREST = 1e-9

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

    Those by which entities hang come first, then those that change most: in turn a link
    and a pair that is none, so that the answers tell both sides of the threshold.

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
    turn = np.empty(len(order), dtype=np.int64)
    for is_link in (True, False):
        of_side = order[(probability[order] >= 0.5) == is_link]
        turn[of_side] = np.arange(len(of_side))
    order = np.lexsort((-worth.change, turn, ~worth.hangs))
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


class Audit(NamedTuple):
    """Result of an audit: answers to a random sample of links.

    Attributes
    ----------
    n_links, n_audited, n_wrong : int
        Numbers of all links, of audited links and of wrong ones among these.
    most_wrong : float
        Upper bound of the share of wrong links, which holds in 95 of 100 audits.
    """

    n_links: int
    n_audited: int
    n_wrong: int
    most_wrong: float

    @classmethod
    def of_answers(cls, n_links: int, n_audited: int, n_wrong: int) -> Audit:
        """Return the exact bound by Clopper and Pearson.

        Examples
        --------
        >>> print(Audit.of_answers(2310, 100, 0).sentence())
        None of 100 is wrong: of 2,310 links at most 3.0 % are (95 %).
        """
        bound = 1.0
        if n_wrong < n_audited:
            bound = float(beta.ppf(CONFIDENCE, n_wrong + 1, n_audited - n_wrong))
        if n_audited >= n_links:
            bound = n_wrong / max(n_links, 1)
        return cls(n_links, n_audited, n_wrong, bound)

    def sentence(self) -> str:
        """Return the audit in words."""
        wrong = "None"
        if self.n_wrong:
            wrong = f"{self.n_wrong:,}"
        verb = "is" if self.n_wrong <= 1 else "are"
        share = np.ceil(1000 * self.most_wrong - 1e-9) / 10
        return (
            f"{wrong} of {self.n_audited:,} {verb} wrong: of {self.n_links:,} links at "
            f"most {share:.1f} % are (95 %)."
        )


def correction_by_audit(
    log_odds: np.ndarray, audit: Audit, threshold: float
) -> Correction:
    """Return how an audit corrects the log odds of pairs.

    The share of wrong links is then that of the answers, and of what was thought before,
    which counts as ten answers.

    Parameters
    ----------
    log_odds : ndarray of shape (n_links,)
        Those of all links that were drawn from, not yet corrected by this audit.
    audit : Audit
    threshold : float
        The links begin there.
    """
    pivot = float(logit(np.clip(threshold, NEAREST, 1.0 - NEAREST)))
    expected = float(np.mean(expit(-log_odds)))
    total = audit.n_audited + PRIOR_ANSWERS
    share = (audit.n_wrong + PRIOR_ANSWERS * expected) / total

    def excess(correction: Correction) -> float:
        return float(np.mean(expit(-correction(log_odds)))) - share

    if share > expected:
        span = float(abs(log_odds).max()) + logit(1.0 - NEAREST)
        shift = brentq(lambda shift: excess(Correction(shift)), -span, 0.0)
        return Correction(shift=shift)
    widest = Correction(stretch=MAX_STRETCH, pivot=pivot)
    if excess(widest) >= 0.0 or excess(Correction()) <= 0.0:
        return Correction()
    stretch = brentq(
        lambda stretch: excess(Correction(stretch=stretch, pivot=pivot)),
        1.0,
        MAX_STRETCH,
    )
    return Correction(stretch=stretch, pivot=pivot)


def within_budget(probability: np.ndarray, max_false: float) -> int:
    """Return how many of the most probable links have so few wrong ones among them.

    As many wrong links as chance may bring in 19 of 20 cases stay within the budget.

    Parameters
    ----------
    probability : ndarray of shape (n_links,)
        The most probable first.
    max_false : float
        Share of links that may be wrong.

    Examples
    --------
    >>> within_budget(np.array([1.0, 1.0, 0.9, 0.2]), max_false=0.25)
    3
    """
    numbers = np.arange(1, len(probability) + 1)
    expected = np.cumsum(1.0 - probability)
    deviation = np.sqrt(np.cumsum(probability * (1.0 - probability)))
    is_within = expected + ONE_SIDED * deviation <= max_false * numbers
    # Equal probabilities are links together, or not at all.
    is_last = np.append(probability[1:] < probability[:-1], True)[: len(numbers)]
    fitting = np.flatnonzero(is_within & is_last)
    return int(fitting[-1]) + 1 if len(fitting) else 0
