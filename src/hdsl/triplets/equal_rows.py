"""Rows that are equal: keys to tell them apart by, and the distinct ones."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ..rows import Rows

#: Entries of X that are hashed at a time, so that they stay in the cache.
BLOCK = 1 << 16

#: A key has two words. Each begins with a constant of its own, as a hash does not
#: depend on the other.
SEEDS = np.array([0x9E3779B97F4A7C15, 0xD1B54A32D192ED03], dtype=np.uint64)


def row_keys(X: sp.csr_array | Rows) -> np.ndarray:
    """Return a key of 128 bits per row: equal for equal rows, and different for others.

    Each entry is hashed with its column, and a key is the sum of these hashes, so that
    the order of the entries does not matter. Two of a billion different rows have the
    same key with a probability of about 10^-21.

    Parameters
    ----------
    X : csr_array or Rows of shape (n_rows, n_columns)
        Canonical: no duplicates, no stored zeros. The number of columns does not
        matter.

    Returns
    -------
    ndarray of uint64 of shape (n_rows, 2)

    Examples
    --------
    >>> X = sp.csr_array(([1.0, 1.0, 1.0], ([0, 1, 2], [5, 5 + 2**32, 5])))
    >>> keys = row_keys(X)
    >>> (keys[0] == keys[1]).any(), (keys[0] == keys[2]).all()
    (np.False_, np.True_)
    """
    if isinstance(X, Rows):
        return row_keys(X.sparse) + _dense_keys(X.dense, X.sparse.shape[1])
    keys = np.zeros((X.shape[0], len(SEEDS)), dtype=np.uint64)
    n_entries = int(X.indptr[-1])
    ends = np.searchsorted(X.indptr, np.arange(BLOCK, n_entries, BLOCK), side="right")
    bounds = np.unique(np.concatenate([[0], ends, [X.shape[0]]]))
    for start, stop in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        ptr = X.indptr[start : stop + 1]
        is_full = ptr[1:] > ptr[:-1]
        if not is_full.any():
            continue
        entries = slice(ptr[0], ptr[-1])
        columns = X.indices[entries].astype(np.uint64)
        values = X.data[entries].astype(np.float64).view(np.uint64)
        first = ptr[:-1][is_full] - ptr[0]
        rows = start + np.flatnonzero(is_full)
        for k, seed in enumerate(SEEDS):
            hashes = mixed(mixed(columns + seed) ^ values)
            keys[rows, k] = np.add.reduceat(hashes, first)
    return keys


def _dense_keys(dense: np.ndarray, first_column: int) -> np.ndarray:
    """Return the keys of the rows of an embedding whose columns follow other ones."""
    n_rows, width = dense.shape
    keys = np.zeros((n_rows, len(SEEDS)), dtype=np.uint64)
    columns = first_column + np.arange(width, dtype=np.uint64)
    n_at_once = max(1, BLOCK // max(1, width))
    for k, seed in enumerate(SEEDS):
        hashed_columns = mixed(columns + seed)
        for start in range(0, n_rows, n_at_once):
            rows = slice(start, start + n_at_once)
            # Zero has one sign.
            values = (dense[rows].astype(np.float64) + 0.0).view(np.uint64)
            keys[rows, k] = mixed(hashed_columns ^ values).sum(axis=1, dtype=np.uint64)
    return keys


def mixed(words: np.ndarray) -> np.ndarray:
    """Return numbers of 64 bits whose bits each depend on all bits of the given ones.

    This is the finisher of splitmix64 (Steele, Lea and Flood, 2014). It is one to one.
    """
    words = words ^ (words >> np.uint64(30))
    words *= np.uint64(0xBF58476D1CE4E5B9)
    words ^= words >> np.uint64(27)
    words *= np.uint64(0x94D049BB133111EB)
    words ^= words >> np.uint64(31)
    return words


def distinct_rows(
    keys: np.ndarray, labels: np.ndarray, weights: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the first of each group of equal rows with equal labels, and the weight of each group.

    Rows of weight 0 are left out. Without weights each row weighs 1, so the weight of a
    group is the number of its rows.

    Parameters
    ----------
    keys : ndarray of shape (n_rows, 2)
        Those of `row_keys`.
    labels : ndarray of shape (n_rows,)
    weights : ndarray of shape (n_rows,) or None

    Examples
    --------
    >>> keys = np.array([[7, 7], [4, 4], [7, 7]], dtype=np.uint64)
    >>> rows, weights = distinct_rows(keys, np.array([0, 0, 0]), None)
    >>> rows.tolist(), weights.tolist()
    ([0, 1], [2.0, 1.0])
    """
    if weights is None:
        rows = np.arange(len(keys))
        weights = np.ones(len(keys))
    else:
        rows = np.flatnonzero(weights)
        weights = weights[rows]
    columns = [labels[rows], keys[rows, 1], keys[rows, 0]]
    order = np.lexsort(columns)  # stable: the first of a group leads it
    is_new = np.ones(len(rows), dtype=bool)
    is_new[1:] = False
    for column in columns:
        is_new[1:] |= np.diff(column[order]) != 0
    group = np.empty(len(rows), dtype=np.int64)
    group[order] = np.cumsum(is_new) - 1
    first = order[is_new]
    by_appearance = np.argsort(first)
    return rows[first[by_appearance]], np.bincount(group, weights)[by_appearance]
