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

    def fill(self, products: np.ndarray) -> None:
        """Fill all lists from the inner products of few queries with few rows, sorted."""
        is_same = self.query_labels[:, None] == self.labels
        is_other = ~is_same
        if self.leaves_self:
            np.fill_diagonal(is_same, False)
            np.fill_diagonal(is_other, False)
        _fill(self.same, self.want_same, np.where(is_same, products, -np.inf))
        _fill(self.other, self.want_other, np.where(is_other, products, -np.inf))

    def sort(self) -> None:
        """Sort all lists, best first; each has as many rows as it wants."""
        self.same.size[:] = self.want_same
        self.other.size[:] = self.want_other
        for first in range(0, len(self.query_labels), SORTED_AT_ONCE):
            block = slice(first, first + SORTED_AT_ONCE)
            _sort(self.same.scores[block], self.same.rows[block])
            _sort(self.other.scores[block], self.other.rows[block])


def _fill(neighbors: Neighbors, want: np.ndarray, products: np.ndarray) -> None:
    """Write the rows of largest product; of equal products the smaller row first."""
    n_listed = min(int(want.max(initial=0)), neighbors.rows.shape[1])
    order = np.argsort(-products, axis=1, kind="stable")[:, :n_listed]
    is_listed = np.arange(n_listed) < want[:, None]
    scores = np.take_along_axis(products, order, axis=1)
    neighbors.rows[:, :n_listed] = np.where(is_listed, order, -1)
    neighbors.scores[:, :n_listed] = np.where(is_listed, scores, -np.inf)
    neighbors.size[:] = want


def _sort(scores: np.ndarray, rows: np.ndarray) -> None:
    """Sort each list in place: falling scores, of equal ones the smaller row first."""
    order = np.lexsort((rows, -scores))
    scores[:] = np.take_along_axis(scores, order, axis=1)
    rows[:] = np.take_along_axis(rows, order, axis=1)
