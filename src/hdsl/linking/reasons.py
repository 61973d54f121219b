"""Why two records are alike, and what pushed the probability that they are one thing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logit

from ..explain import Explanation, explain
from ..similarity import FixedPart, Similarity
from ..solver.atoms import NOTHING
from .candidates import SearchedRecords, widened
from .classifiers import PairFeatures
from .learning import Learned
from .probability import Compared, as_probability

#: Orders in which groups of numbers are replaced, each with its reverse.
N_ORDERS = 24

#: Probabilities nearer to 0 or 1 are this: log odds are finite.
NEAREST = 1e-4


class Group(NamedTuple):
    """Numbers of a pair that belong together: a name, and their columns.

    `names` are those of the columns.
    """

    name: str
    columns: list[int]
    names: list[str]


def groups_of(subjects: Iterable[tuple[str, list[str]]]) -> list[Group]:
    """Return the numbers of pairs in groups, one per subject.

    Parameters
    ----------
    subjects : iterable of (str, list of str)
        What numbers are about, and their names, in the order of the numbers. A subject
        may come twice.

    Examples
    --------
    >>> groups_of([("price", ["equal"]), ("words", ["both"]), ("price", ["far"])])[0]
    Group(name='price', columns=[0, 2], names=['equal', 'far'])
    """
    groups: dict[str, Group] = {}
    n_numbers = 0
    for subject, names in subjects:
        group = groups.setdefault(subject, Group(subject, [], []))
        group.columns.extend(range(n_numbers, n_numbers + len(names)))
        group.names.extend(names)
        n_numbers += len(names)
    return [*groups.values()]


class Contributions(NamedTuple):
    """The contributions to the probability of a pair.

    Attributes
    ----------
    probability : float
    base : float
        Log odds of known pairs, on average.
    parts : list of dict
        Groups of numbers, the strongest first: name, log_odds, the contribution of the
        group, and values, its numbers by name. The log odds of the pair are `base` plus
        all contributions.
    """

    probability: float
    base: float
    parts: list[dict[str, Any]]


def contributions(
    probability: Callable[[np.ndarray], np.ndarray],
    row: np.ndarray,
    background: np.ndarray,
    groups: Sequence[Group],
    seed: int,
) -> Contributions:
    """Return the contribution of each group of numbers to the log odds of a pair.

    In turn, the groups of another pair are replaced by those of this one; the change of
    the log odds is what the group adds. Its mean over many orders and other pairs is an
    estimate of the Shapley value. The parts add up exactly in each order, so that they
    do on average.

    Parameters
    ----------
    probability : callable
        Takes rows of numbers and returns the probability of each.
    row : ndarray of shape (n_numbers,)
        The numbers of the pair.
    background : ndarray of shape (n_others, n_numbers)
        Numbers of other pairs.
    groups : list of Group
        Each number is in one of them.
    seed : int
    """
    rng = np.random.default_rng(seed)
    n_groups = len(groups)
    rows = []
    orders = []
    for _ in range(N_ORDERS):
        order = rng.permutation(n_groups)
        other = background[rng.integers(len(background))]
        for each in (order, order[::-1]):
            orders.append(each)
            rows.append(_replaced(other, row, [groups[k].columns for k in each]))
    values = log_odds(probability(np.concatenate(rows)))
    by_order = values.reshape(len(orders), n_groups + 1)
    added = np.zeros(n_groups)
    for order, steps in zip(orders, np.diff(by_order, axis=1), strict=True):
        added[order] += steps / len(orders)
    strongest = np.argsort(-abs(added), kind="stable")
    parts = [
        {
            "name": groups[k].name,
            "log_odds": float(added[k]),
            "values": dict(
                zip(groups[k].names, row[groups[k].columns].tolist(), strict=True)
            ),
        }
        for k in strongest.tolist()
    ]
    return Contributions(
        probability=float(probability(row[None])[0]),
        base=float(by_order[:, 0].mean()),
        parts=parts,
    )


def log_odds(probability: np.ndarray) -> np.ndarray:
    """Return the log odds of probabilities, finite even of 0 and 1."""
    return logit(np.clip(probability, NEAREST, 1.0 - NEAREST))


def _replaced(
    other: np.ndarray, row: np.ndarray, columns: Sequence[list[int]]
) -> np.ndarray:
    """Return a row, and the same after each group of columns is that of another row."""
    rows = np.tile(other, (len(columns) + 1, 1))
    for number, group in enumerate(columns, start=1):
        rows[number:, group] = row[group]
    return rows


def explain_similarity(
    searched: SearchedRecords, learned: Learned, pair: np.ndarray, top: int | None
) -> Explanation:
    """Return the words, n-grams and pairs of them that make two records alike."""
    X = searched.records.matrix()[pair]
    if learned.model is None:
        cosine = FixedPart("prior", 1.0, norm="l2")
        similarity = Similarity(*NOTHING, 1.0, (cosine,), X.shape[1])
    else:
        similarity = widened(learned.model, X.shape[1])
    names = searched.records.vocabulary.names
    return explain(similarity, X[[0]], X[[1]], feature_names=names, top=top)


def explain_probability(
    searched: SearchedRecords, learned: Learned, pair: np.ndarray, n_jobs: int | None
) -> Contributions:
    """Return what pushed the probability of a pair up or down, in log odds."""
    records = searched.records
    compared = learned.agreement.compare(searched, pair[None], n_jobs)
    of_mixture = learned.mixture.log_odds(compared)
    if learned.classifier is None:
        return _by_column(learned, compared, of_mixture)
    row = learned.rows(searched, pair[None], of_mixture, n_jobs)[0]
    groups = groups_of(
        [
            *PairFeatures.standing_names(),
            *records.overlap_names(),
            *((each.subject, each.names) for each in records.strings.comparisons),
            ("single words", ["log odds"]),
            ("mixture of columns", ["log odds"]),
        ]
    )
    return contributions(
        lambda X: as_probability(learned.correct(learned.log_odds_of_rows(X))),
        row,
        learned.classifier.training.X,
        groups,
        learned.seed,
    )


def _by_column(
    learned: Learned, compared: Compared, log_odds: np.ndarray
) -> Contributions:
    """Return what each column adds to the log odds of a random pair."""
    evidence = learned.mixture.evidence(compared)[0]
    corrected = learned.correct(log_odds)
    parts: dict[str, dict[str, Any]] = {
        name: {
            "name": name,
            "log_odds": float(evidence[number]),
            "values": {"level": int(compared.levels[0, number])},
        }
        for number, name in enumerate(learned.agreement.names)
    }
    if corrected[0] != log_odds[0]:
        added = float(corrected[0] - log_odds[0])
        parts["audit"] = {"name": "audit", "log_odds": added, "values": {}}
    strongest = sorted(parts.values(), key=lambda part: -abs(part["log_odds"]))
    return Contributions(
        probability=float(as_probability(corrected)[0]),
        base=learned.mixture.prior,
        parts=strongest,
    )


def reasons(
    searched: SearchedRecords, explanation: Explanation, n: int
) -> list[tuple[str, float]]:
    """Return the words and pairs of words that add most, and the n-grams as one number."""
    values = {"spelling": 0.0}
    # A word may be learned, and in the cosine too.
    for part in explanation.parts:
        name = "spelling"
        if searched.records.vocabulary.are_words([part["i"], part["j"]]):
            name = str(part["name"])
        values[name] = values.get(name, 0.0) + float(part["value"])
    return sorted(values.items(), key=lambda item: -abs(item[1]))[:n]
