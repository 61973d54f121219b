"""Lists of the records that are nearest to each of some, best first."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..cpu.kernels.layers import TopRows

#: What sums in float32 may be too small by.
ROUNDING = 1e-4


class Shortlist(NamedTuple):
    """The records that are nearest to each of some by a similarity, and what others have.

    Attributes
    ----------
    records : ndarray of shape (n_queries, n_shortlist), int32
        Numbers in an index; -1 where there are no more.
    scores : ndarray of shape (n_queries, n_shortlist), float32
        Their similarities.
    beyond : ndarray of shape (n_queries,)
        No other record has a larger similarity.
    """

    records: np.ndarray
    scores: np.ndarray
    beyond: np.ndarray

    @classmethod
    def empty(cls, n_queries: int, n_shortlist: int) -> Shortlist:
        """Return records to fill."""
        shape = (n_queries, n_shortlist)
        return cls(
            records=np.full(shape, -1, dtype=np.int32),
            scores=np.zeros(shape, dtype=np.float32),
            beyond=np.zeros(n_queries),
        )

    @classmethod
    def of_lists(cls, lists: TopRows, n_shortlist: int, first: int) -> Shortlist:
        """Return the first records of lists, best first, numbered from row `first` on."""
        rows = lists.rows[:, :n_shortlist]
        scores = lists.scores[:, :n_shortlist]
        beyond = np.zeros(len(rows))
        is_full = rows[:, -1] >= 0
        beyond[is_full] = scores[is_full, -1] + ROUNDING
        return cls(np.where(rows < 0, -1, rows - first), scores, beyond)

    def fill(self, queries: np.ndarray, shortlist: Shortlist) -> None:
        """Write the nearest records of some queries."""
        self.records[queries] = shortlist.records
        self.scores[queries] = shortlist.scores
        self.beyond[queries] = shortlist.beyond

    def take(self, queries: np.ndarray) -> Shortlist:
        """Return the nearest records of some queries."""
        return Shortlist(
            self.records[queries], self.scores[queries], self.beyond[queries]
        )


def best_first(
    records: np.ndarray, scores: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return lists with the best first, of equal ones the first."""
    order = np.lexsort((records, -scores))
    return (
        np.take_along_axis(records, order, axis=-1),
        np.take_along_axis(scores, order, axis=-1),
    )
