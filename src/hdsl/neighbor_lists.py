"""Lists of nearest rows: what a search returns, and what it fills on any machine."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

#: Lists that are sorted at a time.
SORTED_AT_ONCE = 4096


class Neighbors(NamedTuple):
    """Rows of the index and their inner products, best first; `size` are valid."""

    scores: np.ndarray
    rows: np.ndarray
    size: np.ndarray


def empty_neighbors(n_queries: int, k: int) -> Neighbors:
    """Return lists of k rows for each query, without any row yet."""
    return Neighbors(
        scores=np.full((n_queries, k), -np.inf),
        rows=np.full((n_queries, k), -1),
        size=np.zeros(n_queries, dtype=np.int64),
    )


class NeighborLists(NamedTuple):
    """Queries and rows with class numbers, and the lists to fill.

    Each query has two lists: rows of its label, and rows of other labels. Kernels of
    the CPU take it as it is.

    Parameters
    ----------
    query_labels : ndarray of shape (n_queries,), int64
    labels : ndarray of shape (n_rows,), int64
    leaves_self : bool
        Query r is row r of the index, which is then no candidate.
    want_same, want_other : ndarray of shape (n_queries,), int64
        Length of each list, never more than there are rows for it.
    same, other : Neighbors
        Empty to begin with.
    """

    query_labels: np.ndarray
    labels: np.ndarray
    leaves_self: bool
    want_same: np.ndarray
    want_other: np.ndarray
    same: Neighbors
    other: Neighbors

    def sort(self) -> None:
        """Sort all lists, best first; each has as many rows as it wants."""
        self.same.size[:] = self.want_same
        self.other.size[:] = self.want_other
        for first in range(0, len(self.query_labels), SORTED_AT_ONCE):
            block = slice(first, first + SORTED_AT_ONCE)
            _sort(self.same.scores[block], self.same.rows[block])
            _sort(self.other.scores[block], self.other.rows[block])


def _sort(scores: np.ndarray, rows: np.ndarray) -> None:
    """Sort each list in place: falling scores, of equal ones the smaller row first."""
    order = np.lexsort((rows, -scores))
    scores[:] = np.take_along_axis(scores, order, axis=1)
    rows[:] = np.take_along_axis(rows, order, axis=1)
