"""Compiled loops over short lists of numbered records with scores, best first."""

from typing import NamedTuple

import numpy as np

from .compiled import kernel


class ListEntries(NamedTuple):
    """Records that come into lists.

    Attributes
    ----------
    indptr : ndarray of shape (n_lists + 1,), int64
        Where the entries of each list begin and end.
    numbers : ndarray of shape (n_entries,), int64
    scores : ndarray of shape (n_entries,), float64
    """

    indptr: np.ndarray
    numbers: np.ndarray
    scores: np.ndarray


@kernel()
def merge_lists(start, stop, opened, neighbors, scores, entries, depth):
    """Sort the lists of opened rows [start, stop), with the entries that come into them.

    The first `depth` remain, best first, of equal scores the smaller number.
    """
    for k in range(start, stop):
        row = opened[k]
        n_sorted = 0
        for position in range(neighbors.shape[1]):
            number = np.int64(neighbors[row, position])
            score = scores[row, position]
            neighbors[row, position] = -1
            scores[row, position] = -np.inf
            if number >= 0:
                n_sorted = _insert(
                    neighbors[row], scores[row], n_sorted, number, score, depth
                )
        for entry in range(entries.indptr[row], entries.indptr[row + 1]):
            number = entries.numbers[entry]
            score = entries.scores[entry]
            n_sorted = _insert(
                neighbors[row], scores[row], n_sorted, number, score, depth
            )


@kernel()
def _insert(neighbors, scores, n_sorted, number, score, depth):
    """Insert a record into the first ones of a list; return how many these are now."""
    position = n_sorted
    while position > 0 and (
        scores[position - 1] < score
        or (scores[position - 1] == score and neighbors[position - 1] > number)
    ):
        position -= 1
    if position >= depth:
        return n_sorted
    n_after = min(n_sorted + 1, depth)
    for k in range(n_after - 1, position, -1):
        neighbors[k] = neighbors[k - 1]
        scores[k] = scores[k - 1]
    neighbors[position] = number
    scores[position] = score
    return n_after
