"""Comparisons from grades, and grades from comparisons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..input.matrices import INDEX_LIMIT
from .rows import Judgements


def draw(
    count: np.ndarray,
    group: np.ndarray,
    n: int | None,
    rng: np.random.Generator | None,
    parameter: str,
) -> tuple[np.ndarray, np.ndarray]:
    """Return candidates as lines and offsets; line r has candidates 0, 1, …, ``count[r] - 1``.

    Without n, all candidates. Otherwise at most n per group, drawn uniformly without
    replacement. Lines of a group are consecutive. `parameter` is the name of n in
    messages.
    """
    stop = np.cumsum(count)
    if n is None:
        total = int(count.sum())
        if total > INDEX_LIMIT:
            raise ValueError(
                f"{total} triplets would be made, more than can be handled: set "
                f"{parameter}."
            )
        chosen = np.arange(total)
    else:
        assert rng is not None
        last_lines = np.flatnonzero(np.diff(group, append=-1))
        group_sizes = np.diff(stop[last_lines], prepend=0)
        chosen = sample_ranges(group_sizes, n, rng)
    line = np.searchsorted(stop, chosen, side="right")
    return line, chosen - (stop - count)[line]


def sample_ranges(sizes: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Return at most n distinct numbers of each range, sorted; the ranges are consecutive from 0.

    All subsets of a range are equally likely.
    """
    drawn = [
        rng.choice(size, min(size, n), replace=False, shuffle=False)
        for size in sizes.tolist()
    ]
    first = np.repeat(np.cumsum(sizes) - sizes, np.minimum(sizes, n))
    return np.sort(first + np.concatenate([*drawn, np.empty(0, dtype=np.int64)]))


def compare_grades(
    group: np.ndarray,
    anchors: np.ndarray,
    *,
    items: np.ndarray,
    grades: np.ndarray,
    n_per_group: int | None = None,
    rng: np.random.Generator | None = None,
) -> Judgements:
    """Return triplets (anchor, item, item of lower grade), weighted by the difference of grades.

    Items of the same group, an event or an anchor, are compared, groups in the order of
    their first line; at most `n_per_group` triplets per group are drawn.
    """
    order = np.lexsort((grades, group))
    group = group[order]
    anchors = anchors[order]
    items = items[order]
    grades = grades[order]
    begins_group = np.diff(group, prepend=-1) != 0
    begins_grade = begins_group | (np.diff(grades, prepend=np.nan) != 0)
    # Items of lower grade are between the first of the group and the first of equal
    # grade.
    lines = np.arange(len(order))
    first = np.maximum.accumulate(np.where(begins_group, lines, 0))
    n_lower = np.maximum.accumulate(np.where(begins_grade, lines, 0)) - first
    line, offset = draw(n_lower, group, n_per_group, rng, "n_per_anchor")
    lower = first[line] + offset
    difference = grades[line] - grades[lower]
    triplets = np.column_stack([anchors[line], items[line], items[lower]])
    # An item with two grades is not compared with itself.
    differs = triplets[:, 1] != triplets[:, 2]
    return Judgements(triplets[differs], difference[differs])


def group_numbers(*columns: np.ndarray) -> np.ndarray:
    """Return a number per line, equal if all columns are equal, by first appearance."""
    known: dict[Any, int] = {}
    keys = zip(*(column.tolist() for column in columns), strict=True)
    return np.fromiter((known.setdefault(key, len(known)) for key in keys), np.int64)


class Wins(NamedTuple):
    """Rows that anchors were compared with, and how often and how much each wins.

    Parameters
    ----------
    anchors, rows : ndarray of shape (n_compared,)
        Sorted by the anchor, then by the row.
    won, lost : ndarray of shape (n_compared,)
        The weight of the comparisons that a row wins, and of those that it loses.
    n_comparisons : ndarray of shape (n_compared,)
    """

    anchors: np.ndarray
    rows: np.ndarray
    won: np.ndarray
    lost: np.ndarray
    n_comparisons: np.ndarray


def count_wins(triplets: np.ndarray, weights: np.ndarray | None) -> Wins:
    """Return what rows win and lose against others, for each anchor.

    Examples
    --------
    >>> wins = count_wins(np.array([[0, 1, 2], [0, 1, 3]]), np.array([1.0, 4.0]))
    >>> wins.rows.tolist(), wins.won.tolist(), wins.lost.tolist()
    ([1, 2, 3], [5.0, 0.0, 0.0], [0.0, 1.0, 4.0])
    """
    if weights is None:
        weights = np.ones(len(triplets))
    anchors = np.concatenate([triplets[:, 0], triplets[:, 0]])
    rows = np.concatenate([triplets[:, 1], triplets[:, 2]])
    width = np.int64(rows.max(initial=0)) + 1
    distinct, number = np.unique(anchors * width + rows, return_inverse=True)
    n_pairs = len(distinct)
    number = number.reshape(2, -1)
    return Wins(
        anchors=distinct // width,
        rows=distinct % width,
        won=np.bincount(number[0], weights, minlength=n_pairs),
        lost=np.bincount(number[1], weights, minlength=n_pairs),
        n_comparisons=np.bincount(number.ravel(), minlength=n_pairs),
    )


@dataclass(frozen=True)
class GradedRows:
    """Rows that anchors were compared with, and the grade of each, above 0.

    Parameters
    ----------
    anchors, rows : ndarray of shape (n_judged,)
        Sorted by the anchor.
    grades : ndarray of shape (n_judged,)
    """

    anchors: np.ndarray
    rows: np.ndarray
    grades: np.ndarray

    def take(self, chosen: np.ndarray) -> GradedRows:
        """Return some of the rows, chosen by a mask."""
        return GradedRows(self.anchors[chosen], self.rows[chosen], self.grades[chosen])


def graded_rows(wins: Wins) -> GradedRows:
    """Return the rows that win comparisons with an anchor, and the share that they win.

    An anchor that is compared with itself is left out.

    Examples
    --------
    >>> wins = count_wins(np.array([[0, 1, 2], [0, 2, 3], [0, 2, 1]]), None)
    >>> graded_rows(wins).grades.round(2).tolist()
    [0.5, 0.67]
    """
    is_graded = (wins.won > 0) & (wins.anchors != wins.rows)
    won = wins.won[is_graded]
    return GradedRows(
        anchors=wins.anchors[is_graded],
        rows=wins.rows[is_graded],
        grades=won / (won + wins.lost[is_graded]),
    )


def rows_to_show(compared: np.ndarray, n_rows: int) -> np.ndarray:
    """Return the rows that a search may show: all but those that are only anchors.

    Examples
    --------
    >>> rows_to_show(np.array([[3, 0, 1], [0, 1, 2]]), 5).tolist()
    [0, 1, 2, 4]
    """
    is_shown = np.ones(n_rows, dtype=bool)
    is_shown[compared[:, 0]] = False
    is_shown[compared[:, 1:].ravel()] = True
    return np.flatnonzero(is_shown)


def positions_among(rows: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return where rows stand among others, which are sorted; -1 where they do not.

    Examples
    --------
    >>> positions_among(np.array([2, 5, 9]), np.array([1, 2, 9])).tolist()
    [1, -1, 2]
    """
    positions = np.searchsorted(others, rows).clip(max=len(others) - 1)
    positions[others[positions] != rows] = -1
    return positions
