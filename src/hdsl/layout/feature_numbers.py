"""Numbers of features: the columns that are paired, the fullest first."""

from typing import NamedTuple

import numpy as np

from ..input.matrices import INDEX_LIMIT


class FeatureNumbers(NamedTuple):
    """The columns that are features, and the number of each column.

    Parameters
    ----------
    features : ndarray of shape (n_features,)
        What the columns are called; their numbers are positions here.
    numbers : ndarray of int32 of shape (n_columns,)
        Columns that are no features have the last numbers.
    n_numbers : int
    """

    features: np.ndarray
    numbers: np.ndarray
    n_numbers: int


def check_count(n: int, what: str, fewer: str) -> None:
    """Raise ValueError for more things than 32 bits can number."""
    if n > INDEX_LIMIT:
        raise ValueError(
            f"There are {n} {what}, but at most {INDEX_LIMIT} can be numbered: give "
            f"fewer {fewer}."
        )


def number_features(
    length: np.ndarray,
    names: np.ndarray | None,
    min_rows: int,
    wanted: np.ndarray | None,
) -> FeatureNumbers:
    """Return the columns that are features, and a number for each column.

    Features are the columns of `min_rows` rows and more, or as full as the second
    fullest, the fullest first, and those wanted. The other columns have the last
    numbers. With this numbering nothing depends on the number of columns, and loops
    over one column after the other have nearly equal lengths, which processors predict.

    Parameters
    ----------
    length : ndarray of shape (n_columns,)
        Rows per column; empty ones have no number.
    names : ndarray of shape (n_columns,) or None
        What the columns are called in `wanted` and in the answer; None is 0, 1, 2, …
    min_rows : int
    wanted : ndarray or None

    Examples
    --------
    >>> features, number, n = number_features(np.array([1, 3, 0, 2]), None, 2, np.array([2]))
    >>> features.tolist(), number[[1, 3, 0]].tolist(), n
    ([1, 3, 2], [0, 1, 3], 4)
    """
    order = np.argsort(-length, kind="stable")[: np.count_nonzero(length)]
    check_count(len(order), "features with a non-zero value", "columns")
    used = order
    if names is not None:
        used = names[order].astype(np.int64)
    # A pair has two features: the two fullest columns always are.
    fewest_rows = length[order[:2]].min(initial=min_rows)
    is_feature = length[order] >= fewest_rows
    if wanted is not None:
        is_feature |= np.isin(used, wanted)
    features = used[is_feature]
    if wanted is not None:
        features = np.append(features, np.setdiff1d(wanted, used))
    n_others = int(np.count_nonzero(~is_feature))
    numbers = np.zeros(len(length), dtype=np.int32)
    numbers[order[is_feature]] = np.arange(len(order) - n_others)
    numbers[order[~is_feature]] = len(features) + np.arange(n_others)
    return FeatureNumbers(features, numbers, len(features) + n_others)
