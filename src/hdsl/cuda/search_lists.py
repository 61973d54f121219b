"""Lists of a block of queries on the card, and what they are looked for among."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..neighbor_lists import NeighborLists, Neighbors
from .runtime import Array, Device

#: Levels of what is left out of bounds, as in the kernels.
LEVELS = 8


class _CardNeighbors(NamedTuple):
    """Lists of one kind on the card: their width, rows wanted, and rows so far."""

    width: int
    want: Array
    scores: Array
    rows: Array
    size: Array


class CardLists:
    """The lists of queries [first, last) on the card.

    Parameters
    ----------
    device : Device
    lists : NeighborLists
        Of all queries, on the host.
    first, last : int

    Attributes
    ----------
    most_level : Array
        Of each query the highest level of what may be left out of its bounds, which a
        search adapts.
    """

    def __init__(
        self, device: Device, lists: NeighborLists, first: int, last: int
    ) -> None:
        self.device = device
        self.host = lists
        self.block = slice(first, last)
        self._same = self._upload(lists.want_same, lists.same)
        self._other = self._upload(lists.want_other, lists.other)
        highest = np.full(last - first, LEVELS - 1, dtype=np.int32)
        self.most_level = device.upload(highest)

    def _upload(self, want: np.ndarray, neighbors: Neighbors) -> _CardNeighbors:
        upload = self.device.upload
        return _CardNeighbors(
            width=neighbors.rows.shape[1],
            want=upload(want[self.block].astype(np.int32)),
            scores=upload(neighbors.scores[self.block]),
            rows=upload(neighbors.rows[self.block].astype(np.int32)),
            size=upload(neighbors.size[self.block].astype(np.int32)),
        )

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments of the kernel that fills the lists."""
        return {
            "same_width": self._same.width,
            "want_same": self._same.want,
            "same_scores": self._same.scores,
            "same_rows": self._same.rows,
            "same_size": self._same.size,
            "other_width": self._other.width,
            "want_other": self._other.want,
            "other_scores": self._other.scores,
            "other_rows": self._other.rows,
            "other_size": self._other.size,
            "most_level": self.most_level,
        }

    def download(self) -> None:
        """Copy the lists back."""
        self._download(self._same, self.host.same)
        self._download(self._other, self.host.other)

    def _download(self, filled: _CardNeighbors, neighbors: Neighbors) -> None:
        if filled.width == 0:
            return
        neighbors.scores[self.block] = self.device.download(filled.scores)
        neighbors.rows[self.block] = self.device.download(filled.rows)
        neighbors.size[self.block] = self.device.download(filled.size)


class QueryPlaces(NamedTuple):
    """Where queries and their labels are among rows that are sorted by label.

    Attributes
    ----------
    own_place : ndarray of int64 or None
        Where each query itself is, which is no candidate; -1 where it is not among the
        rows, and None where all rows are candidates.
    same_first, same_last : ndarray of int64
        Where rows of its label begin and end.
    """

    own_place: np.ndarray | None
    same_first: np.ndarray
    same_last: np.ndarray

    @classmethod
    def find(cls, lists: CardLists, numbers: np.ndarray) -> QueryPlaces:
        """Return the places of a block of queries among rows of some numbers."""
        row_labels = lists.host.labels[numbers]
        query_labels = lists.host.query_labels[lists.block]
        own_place = None
        if lists.host.leaves_self:
            place_of_row = np.full(len(lists.host.labels), -1, dtype=np.int64)
            place_of_row[numbers] = np.arange(len(numbers))
            own_place = place_of_row[lists.block]
        same_first = np.searchsorted(row_labels, query_labels, side="left")
        same_last = np.searchsorted(row_labels, query_labels, side="right")
        return cls(own_place, same_first.astype(np.int64), same_last.astype(np.int64))
