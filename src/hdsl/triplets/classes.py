"""Comparisons of rows with rows that stand for classes: their centers, or means of landmarks."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .. import search

#: Classes other than its own that a row is compared with.
N_CENTERS = 5


class ClassComparisons(NamedTuple):
    """Comparisons of some anchors with rows that stand for classes.

    Parameters
    ----------
    compared : ndarray of shape (n, 3)
        Anchor, row of its class, row of another class.
    place : ndarray of shape (n,)
        Position of each anchor among the anchors.
    share : ndarray of shape (n_anchors,)
        1 / number of comparisons of each anchor.
    """

    compared: np.ndarray
    place: np.ndarray
    share: np.ndarray


def class_comparisons(
    X: Any,
    anchors: np.ndarray,
    codes: np.ndarray,
    own: np.ndarray,
    others: Any,
    of_class: np.ndarray,
    first: int,
    *,
    n_jobs: int | None = None,
    device: str = "cpu",
) -> ClassComparisons:
    """Return comparisons of rows with one of their class and the nearest of other classes.

    Parameters
    ----------
    X : csr_array of shape (n_anchors, n_features)
        The anchors' rows.
    anchors, codes : ndarray of shape (n_anchors,)
        Their row numbers and class numbers.
    own : ndarray of shape (n_anchors,)
        What stands for the class of each, counted from `first`.
    others : csr_array of shape (n_others, n_features)
        Rows that stand for classes; those of other classes than the anchor's are searched.
    of_class : ndarray of shape (n_others,)
        Their classes.
    first : int
        Row number of the first row that stands for a class.
    n_jobs, device
        As in ``hdsl.search.top_k``.

    Returns
    -------
    ClassComparisons
        Anchors in their order, the nearest of other classes first.
    """
    near = search.top_k(X, others, N_CENTERS + 1, n_jobs=n_jobs, device=device).rows
    is_other = (near >= 0) & (of_class[near] != codes[:, None])
    is_other &= np.cumsum(is_other, axis=1) <= N_CENTERS
    place, column = np.nonzero(is_other)
    compared = np.column_stack([anchors[place], first + own[place], first + near[place, column]])
    count = np.bincount(place, minlength=len(anchors))
    return ClassComparisons(compared, place, 1.0 / np.maximum(count, 1))


def class_factors(total: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Return factors, one per class, that give each class the same sum of weights.

    Parameters
    ----------
    total, codes : ndarray of shape (n_rows,)
        Weight and class of each row.

    Examples
    --------
    >>> class_factors(np.array([1.0, 1.0, 2.0, 4.0]), np.array([0, 0, 1, 1])).tolist()
    [2.0, 0.6666666666666666]
    """
    of_class = np.bincount(codes, total)
    mean = of_class.sum() / np.count_nonzero(of_class)
    return mean / np.where(of_class > 0.0, of_class, 1.0)
