"""Sorts by counting, of items by their keys and of the entries of rows by their columns.

Few items are sorted by NumPy: a small fit has less to compile.
"""

from typing import NamedTuple

import numpy as np

from .kernels import sorting as kernels
from .kernels.arrays import SparseArrays
from .workers import GRAIN, Workers

#: Ranges of keys that many items are sorted by, also on one thread.
LEAST_RANGES = 4


class GroupedItems(NamedTuple):
    """Items in the order of their keys, and of their numbers where keys are equal.

    Attributes
    ----------
    indptr : ndarray of shape (n_keys + 1,), int64
        Where the items of each key begin and end.
    first, second : ndarray of shape (n_items,)
        Two values of each item.
    """

    indptr: np.ndarray
    first: np.ndarray
    second: np.ndarray


def counted(keys: np.ndarray, n_keys: int, workers: Workers) -> np.ndarray:
    """Return how often each of the keys 0, …, n_keys - 1 occurs."""
    if len(keys) <= GRAIN or keys.dtype != np.int32:
        return np.bincount(keys, minlength=n_keys)
    counts = np.empty(n_keys, dtype=np.int64)
    n_ranges = workers.n_threads
    bounds = n_keys * np.arange(n_ranges + 1) // n_ranges
    workers.run(kernels.count_keys, bounds, keys, counts)
    return counts


def grouped(
    keys: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
    n_keys: int,
    workers: Workers,
) -> GroupedItems:
    """Return two values of each item, in the order of the keys 0, …, n_keys - 1.

    Examples
    --------
    >>> keys = np.array([2, 0, 2], dtype=np.int32)
    >>> first = np.array([5, 6, 7], dtype=np.int32)
    >>> second = np.array([1, 3, 2], dtype=np.int32)
    >>> items = grouped(keys, first, second, 3, Workers(1))
    >>> items.indptr.tolist(), items.first.tolist(), items.second.tolist()
    ([0, 1, 1, 3], [6, 5, 7], [3, 1, 2])
    """
    indptr = starts(counted(keys, n_keys, workers))
    if len(keys) <= GRAIN:
        order = np.argsort(keys, kind="stable")
        return GroupedItems(indptr, first[order], second[order])
    bounds = _ranges(indptr, workers)
    result = kernels.Items(np.empty_like(first), np.empty_like(second))
    workers.run(
        kernels.sort_items,
        np.arange(len(bounds)),
        bounds,
        keys,
        kernels.Items(first, second),
        indptr.copy(),
        result,
    )
    return GroupedItems(indptr, result.first, result.second)


def by_columns(rows: SparseArrays, n_columns: int, workers: Workers) -> SparseArrays:
    """Return the columns of a matrix, as CSC, from its rows."""
    if len(rows.indices) <= GRAIN:
        row_numbers = np.arange(len(rows.indptr) - 1, dtype=np.int32)
        row_of_entry = np.repeat(row_numbers, np.diff(rows.indptr))
        items = grouped(rows.indices, row_of_entry, rows.data, n_columns, workers)
        return SparseArrays(*items)
    indptr = starts(counted(rows.indices, n_columns, workers))
    bounds = _ranges(indptr, workers)
    columns = SparseArrays(
        indptr, np.empty_like(rows.indices), np.empty_like(rows.data)
    )
    workers.run(
        kernels.sort_columns,
        np.arange(len(bounds)),
        bounds,
        rows,
        indptr.copy(),
        columns.indices,
        columns.data,
    )
    return columns


def starts(counts: np.ndarray) -> np.ndarray:
    """Return where each of several lists begins, one after the other, and the end of the last.

    Examples
    --------
    >>> starts(np.array([2, 0, 3])).tolist()
    [0, 2, 2, 5]
    """
    return np.concatenate([[0], np.cumsum(counts)])


def _ranges(indptr: np.ndarray, workers: Workers) -> np.ndarray:
    """Return bounds of ranges of keys that have about as many items each."""
    n_ranges = max(workers.n_threads, LEAST_RANGES)
    shares = indptr[-1] * np.arange(n_ranges + 1) // n_ranges
    bounds = np.searchsorted(indptr, shares)
    bounds[0] = 0
    bounds[-1] = len(indptr) - 1
    return bounds
