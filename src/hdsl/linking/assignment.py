"""Pairs that use each record at most once."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import min_weight_full_bipartite_matching

#: A value in the matching must not be 0.
TINY = 1e-9


def first_free(pairs: np.ndarray) -> np.ndarray:
    """Return the numbers of the pairs whose records are in no pair chosen before.

    Examples
    --------
    >>> first_free(np.array([[0, 1], [1, 2], [2, 3]])).tolist()
    [0, 2]
    """
    taken: set[int] = set()
    chosen = []
    for number, pair in enumerate(pairs.tolist()):
        if taken.isdisjoint(pair):
            taken.update(pair)
            chosen.append(number)
    return np.array(chosen, dtype=np.int64)


def best_assignment(pairs: np.ndarray, worth: np.ndarray) -> np.ndarray:
    """Return which pairs of left and right records have the largest sum of worth.

    Parameters
    ----------
    pairs : ndarray of shape (n_pairs, 2)
        At least one.
    worth : ndarray of shape (n_pairs,)
        0 or more.

    Returns
    -------
    ndarray of bool of shape (n_pairs,)

    Examples
    --------
    >>> pairs = np.array([[0, 5], [0, 6], [1, 5]])
    >>> best_assignment(pairs, np.array([0.9, 0.8, 0.7])).tolist()
    [False, True, True]
    """
    _, left = np.unique(pairs[:, 0], return_inverse=True)
    _, right = np.unique(pairs[:, 1], return_inverse=True)
    # Each left record has a column of its own, which stands for no match.
    unmatched = np.arange(left.max() + 1)
    rows = np.concatenate([left, unmatched])
    columns = np.concatenate([right, right.max() + 1 + unmatched])
    values = np.concatenate([worth + TINY, np.full(len(unmatched), TINY)])
    # SciPy takes indices of 32 bits only.
    ends = (rows.astype(np.int32), columns.astype(np.int32))
    table = sp.csr_array((values, ends))
    _, column_of_row = min_weight_full_bipartite_matching(table, maximize=True)
    return column_of_row[left] == right
