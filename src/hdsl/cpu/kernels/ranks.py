"""Compiled loops that rank some rows among all rows of a search."""

from typing import NamedTuple

import numpy as np

from .compiled import kernel

#: So few thresholds are compared with all scores one by one.
FEW = 16


class Thresholds(NamedTuple):
    """Scores that are compared with those of all rows, sorted for each query.

    Attributes
    ----------
    starts : ndarray of shape (n_queries + 1,), int64
        Where the thresholds of each query begin and end.
    upper : ndarray of shape (n_thresholds,), float64
        A larger score is above the threshold.
    lower : ndarray of shape (n_thresholds,), float64
        A score from this on is above the threshold or ties with it.
    """

    starts: np.ndarray
    upper: np.ndarray
    lower: np.ndarray


class Counts(NamedTuple):
    """How many of some rows are above each threshold, or above it or tie with it.

    Attributes
    ----------
    n_above, n_from : ndarray of shape (n_thresholds,), int64
    """

    n_above: np.ndarray
    n_from: np.ndarray


@kernel()
def _count_by_threshold(products, lengths, first, last, thresholds, counts):
    """Compare all scores of a query with each of its thresholds."""
    for k in range(first, last):
        upper = thresholds.upper[k]
        lower = thresholds.lower[k]
        n_above = 0
        n_from = 0
        for row in range(lengths.size):
            n_above += products[row] > upper * lengths[row]
            n_from += products[row] >= lower * lengths[row]
        counts.n_above[k] += n_above
        counts.n_from[k] += n_from


@kernel()
def _count_by_row(products, lengths, first, last, thresholds, counts):
    """Look for the score of each row among the thresholds of a query."""
    least = thresholds.lower[first]
    for row in range(lengths.size):
        score = products[row] / lengths[row]
        if score < least:
            continue
        low = first
        high = last
        while low < high:
            middle = (low + high) // 2
            if thresholds.lower[middle] <= score:
                low = middle + 1
            else:
                high = middle
        if low == first:
            continue
        counts.n_from[low - 1] += 1
        while low > first and thresholds.upper[low - 1] >= score:
            low -= 1
        if low > first:
            counts.n_above[low - 1] += 1
    # A row above one threshold is above all smaller ones.
    for k in range(last - 2, first - 1, -1):
        counts.n_from[k] += counts.n_from[k + 1]
        counts.n_above[k] += counts.n_above[k + 1]


@kernel()
def count_ranks(products, lengths, thresholds, counts):
    """Count the rows of a block whose score for a query is above its thresholds.

    The score is the product, shape (n_queries, n_rows), over the length of the row. The
    counts are 0 before.
    """
    for query in range(products.shape[0]):
        first = thresholds.starts[query]
        last = thresholds.starts[query + 1]
        if last - first > FEW:
            _count_by_row(products[query], lengths, first, last, thresholds, counts)
        else:
            _count_by_threshold(
                products[query], lengths, first, last, thresholds, counts
            )
