"""Comparisons of rows with rows that stand for classes: their centers, or means of landmarks."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .. import search

#: Classes other than its own that a row is compared with.
N_CENTERS = 5


class ClassRows(NamedTuple):
    """Rows that stand for classes.

    Parameters
    ----------
    rows : csr_array of shape (n_rows, n_features)
        Those that anchors of other classes are compared with.
    of_class : ndarray of shape (n_rows,)
        Their classes.
    first : int
        Row number of the first one.
    """

    rows: Any
    of_class: np.ndarray
    first: int


class Anchors(NamedTuple):
    """Rows that are compared.

    Parameters
    ----------
    numbers, codes : ndarray of shape (n_anchors,)
        Their row numbers and class numbers.
    own : ndarray of shape (n_anchors,)
        What stands for the class of each, counted from the first row that stands for a class.
    """

    numbers: np.ndarray
    codes: np.ndarray
    own: np.ndarray


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
    X: Any, anchors: Anchors, classes: ClassRows, *, n_jobs: int | None = None, device: str = "cpu"
) -> ClassComparisons:
    """Return comparisons of rows with one of their class and the nearest of other classes.

    Parameters
    ----------
    X : csr_array of shape (n_anchors, n_features)
        The anchors' rows.
    anchors : Anchors
    classes : ClassRows
    n_jobs, device
        As in ``hdsl.search.top_k``.

    Returns
    -------
    ClassComparisons
        Anchors in their order, the nearest of other classes first.
    """
    numbers, codes, own = anchors
    near = search.top_k(X, classes.rows, N_CENTERS + 1, n_jobs=n_jobs, device=device).rows
    is_other = (near >= 0) & (classes.of_class[near] != codes[:, None])
    is_other &= np.cumsum(is_other, axis=1) <= N_CENTERS
    place, column = np.nonzero(is_other)
    pairs = classes.first + np.column_stack([own[place], near[place, column]])
    compared = np.column_stack([numbers[place], pairs])
    count = np.bincount(place, minlength=len(numbers))
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
