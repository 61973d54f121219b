"""What pushed the probability of a pair up or down, in log odds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logit

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
    """How the probability of a pair comes about.

    Attributes
    ----------
    probability : float
    base : float
        Log odds of known pairs, on average.
    parts : list of dict
        Groups of numbers, the strongest first: name, log_odds, how much the group adds,
        and values, its numbers by name. The log odds of the pair are `base` and all
        that is added.
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
    """Return how much each group of numbers adds to the log odds of a pair.

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
