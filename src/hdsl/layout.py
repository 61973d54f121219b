"""What all machines do alike when they lay out rows and comparisons.

Columns become features with numbers, comparisons have four sides, and the size of a layout
is guessed from a sample.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from .input.matrices import INDEX_LIMIT

#: Rows that sums of columns are made of at a time: sizes of all values would be many.
ROWS_AT_ONCE = 1 << 16


class FeatureNumbers(NamedTuple):
    """The columns that are features, and the number of each column.

    Parameters
    ----------
    features : ndarray of shape (n_features,)
        What the columns are called; their numbers are positions here.
    others : ndarray of shape (n_others,)
        The other columns with a value, whose numbers follow.
    numbers : ndarray of int32 of shape (n_columns,)
    """

    features: np.ndarray
    others: np.ndarray
    numbers: np.ndarray

    @property
    def n_numbers(self) -> int:
        """How many numbers there are."""
        return len(self.features) + len(self.others)


def check_count(n: int, what: str, fewer: str) -> None:
    """Raise ValueError for more things than 32 bits can number."""
    if n > INDEX_LIMIT:
        raise ValueError(
            f"There are {n} {what}, but at most {INDEX_LIMIT} can be numbered: give "
            f"fewer {fewer}."
        )


def compared_rows(
    compared: np.ndarray, weights: np.ndarray | None, n_rows: int
) -> np.ndarray:
    """Return which rows a comparison of positive weight names.

    Examples
    --------
    >>> compared_rows(np.array([[0, 1, 4], [0, 1, 3]]), np.array([1.0, 0.0]), 5).tolist()
    [True, True, False, False, True]
    """
    is_compared = np.zeros(n_rows, dtype=bool)
    if weights is not None:
        compared = compared[weights > 0.0]
    is_compared[compared] = True
    return is_compared


def column_keys(X: sp.csr_array, is_compared: np.ndarray, largest: float) -> np.ndarray:
    """Return two sums over the compared rows for each column, by which columns are ordered.

    The first is the number of rows that have a value. The second tells most columns
    apart that are equally full: the sum of |x_j| (Σ_k |x_k|)². Neither changes where a
    row is repeated instead of weighed, or where columns come in another order.

    Parameters
    ----------
    X : csr_array of shape (n_rows, n_columns)
    is_compared : ndarray of bool of shape (n_rows,)
    largest : float
        The largest absolute value, so that nothing overflows.

    Returns
    -------
    ndarray of shape (2, n_columns)
    """
    keys = np.zeros((2, X.shape[1]))
    factor = 1.0 / largest if largest > 0.0 else 1.0
    for first in range(0, X.shape[0], ROWS_AT_ONCE):
        indptr = X.indptr[first : first + ROWS_AT_ONCE + 1]
        entries = slice(indptr[0], indptr[-1])
        indices = X.indices[entries]
        counts = is_compared[first : first + ROWS_AT_ONCE].astype(np.float64)
        shape = (len(counts), X.shape[1])
        sizes = np.abs(X.data[entries]) * factor
        block = sp.csr_array((sizes, indices, indptr - indptr[0]), shape=shape)
        keys[1] += block.T @ (counts * block.sum(axis=1) ** 2)
        ones = sp.csr_array((np.ones_like(sizes), indices, block.indptr), shape=shape)
        keys[0] += ones.T @ counts
    return keys


def number_features(
    length: np.ndarray,
    keys: np.ndarray,
    names: np.ndarray | None,
    min_rows: int,
    wanted: np.ndarray | None,
) -> FeatureNumbers:
    """Return the columns that are features, and a number for each column.

    Features are the columns of `min_rows` rows and more, or as full as the second
    fullest, and those wanted. The order is that of `keys`, the largest first: it hardly
    depends on the order of the columns, and not on empty ones, and loops over one column
    after the other have nearly equal lengths, which processors predict. The other
    columns have the last numbers.

    Parameters
    ----------
    length : ndarray of shape (n_columns,)
        Rows per column; empty ones have no number.
    keys : ndarray of shape (2, n_columns)
        Those of `column_keys`. Sums that differ by rounding are equal.
    names : ndarray of shape (n_columns,) or None
        What the columns are called in `wanted` and in the answer; None is 0, 1, 2, …
    min_rows : int
    wanted : ndarray or None

    Examples
    --------
    >>> length = np.array([1, 3, 0, 2, 1])
    >>> keys = np.array([[1, 3, 0, 2, 1], [0.2, 0.1, 0.0, 0.5, 0.3]])
    >>> numbered = number_features(length, keys, None, 2, np.array([2]))
    >>> numbered.features.tolist(), numbered.others.tolist()
    ([1, 3, 2], [4, 0])
    >>> numbered.numbers[[1, 3, 4, 0]].tolist()
    [0, 1, 3, 4]
    """
    order = np.lexsort((-keys[1].astype(np.float32), -keys[0]))
    order = order[length[order] > 0]
    check_count(len(order), "features with a non-zero value", "columns")
    used = order
    if names is not None:
        used = names[order].astype(np.int64)
    # A pair has two features: the two fullest columns always are.
    fewest_rows = np.sort(length)[-2:].min(initial=min_rows)
    is_feature = length[order] >= fewest_rows
    if wanted is not None:
        is_feature |= np.isin(used, wanted)
    features = used[is_feature]
    if wanted is not None:
        features = np.append(features, np.setdiff1d(wanted, used))
    others = used[~is_feature]
    numbers = np.zeros(len(length), dtype=np.int32)
    numbers[order[is_feature]] = np.arange(np.count_nonzero(is_feature))
    numbers[order[~is_feature]] = len(features) + np.arange(len(others))
    return FeatureNumbers(features, others, numbers)


# --- comparisons -----------------------------------------------------------------------


def sides_of(columns: Iterable[np.ndarray]) -> tuple[np.ndarray, ...]:
    """Return rows a, b, c and d of comparisons, triplets or quadruplets.

    Examples
    --------
    >>> sides_of(np.array([[5, 6, 7]]).T)
    (array([5]), array([6]), array([5]), array([7]))
    """
    sides = tuple(columns)
    if len(sides) == 4:
        return sides
    anchor, positive, negative = sides
    return anchor, positive, anchor, negative


# --- sizes ------------------------------------------------------------------------------

#: Anchors of the sample, and pairs of rows.
SAMPLE = 500


class PerComparison(NamedTuple):
    """How much a comparison adds to a layout, in the mean."""

    pairs: float  # distinct pairs of rows per comparison
    shared: float  # features that both rows of a pair have


def per_comparison(X: sp.csr_array, compared: np.ndarray) -> PerComparison:
    """Guess the distinct pairs of rows per comparison, and the shared features per pair."""
    n_rows = np.int64(X.shape[0])
    sample = sample_by_anchors(compared, X.shape[0])
    a, b, c, d = sides_of(sample.T)
    # Numbers, not rows: an interrupt while rows are compared is no KeyboardInterrupt.
    pairs = np.unique(np.append(a * n_rows + b, c * n_rows + d))
    first, second = np.divmod(evenly_spaced(pairs), n_rows)
    ones = np.ones(X.nnz, dtype=np.int8)
    has_feature = sp.csr_array((ones, X.indices, X.indptr), shape=X.shape)
    n_shared = has_feature[first].multiply(has_feature[second]).nnz
    return PerComparison(len(pairs) / len(sample), n_shared / len(first))


def sample_by_anchors(compared: np.ndarray, n_rows: int) -> np.ndarray:
    """Return the comparisons that start from a sample of the anchors."""
    is_anchor = np.zeros(n_rows, dtype=bool)
    is_anchor[compared[:, 0]] = True
    anchors = np.flatnonzero(is_anchor)
    is_sampled = np.zeros(n_rows, dtype=bool)
    is_sampled[evenly_spaced(anchors)] = True
    return compared[is_sampled[compared[:, 0]]]


def evenly_spaced(items: np.ndarray) -> np.ndarray:
    """Return a sample of items: all where there are few."""
    n_sampled = min(len(items), SAMPLE)
    return items[np.linspace(0, len(items) - 1, n_sampled).astype(int)]
