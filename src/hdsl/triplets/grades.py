"""Items of one group compared by their grades."""

from typing import Any

import numpy as np

from .draws import draw
from .rows import Judgements


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
