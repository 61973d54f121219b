"""Records of two sides, or of one, and the search of each side among the other one."""

from __future__ import annotations

import numpy as np

from .blocks import row_blocks
from .layers import Layer, LayeredIndex, LayeredRows
from .nearest import DEPTH, NearestRecords


class Sides:
    """Records whose nearest ones are of the other table, or of the only one.

    An index is made when it is first searched.

    Parameters
    ----------
    layered : LayeredRows
    n_left : int
        Records of the left table; all of them if there is one table.
    """

    def __init__(self, layered: LayeredRows, n_left: int) -> None:
        self.layered = layered
        self._n_left = n_left
        self._indexes: dict[range, LayeredIndex] = {}

    @property
    def depth(self) -> int:
        """Records that are looked for: in one table, each finds itself."""
        if self._n_left == self.layered.n_records:
            return DEPTH + 1
        return DEPTH

    def searched(self, side: str) -> range:
        """Return the records among which those of a side are searched."""
        n_records = self.layered.n_records
        if side == "left" and self._n_left < n_records:
            return range(self._n_left, n_records)
        return range(self._n_left)

    def index(self, side: str) -> LayeredIndex:
        """Return an index of the records among which those of a side are searched."""
        searched = self.searched(side)
        if searched not in self._indexes:
            self._indexes[searched] = LayeredIndex(self.layered, searched)
        return self._indexes[searched]

    def with_layer(self, layer: Layer) -> Sides:
        """Return the records by one more similarity."""
        sides = Sides(self.layered.with_layer(layer), self._n_left)
        for searched, index in self._indexes.items():
            sides._indexes[searched] = index.with_layer(layer)
        return sides

    def nearest(
        self,
        n_jobs: int | None,
        *,
        n_lists: int | None = None,
        records: np.ndarray | None = None,
    ) -> list[NearestRecords]:
        """Return the nearest records by each of the last layers.

        Parameters
        ----------
        n_jobs : int or None
        n_lists : int, default=None
            How many layers; None is all.
        records : array of int, default=None
            Records to search for; None is all.
        """
        n_records = self.layered.n_records
        if records is None:
            records = np.arange(n_records)
        n_lists = n_lists or self.layered.n_layers
        every = [NearestRecords.empty(n_records, self.depth) for _ in range(n_lists)]
        is_left = records < self._n_left
        for side, numbers in (("left", records[is_left]), ("right", records[~is_left])):
            for block in row_blocks(len(numbers)):
                self._search(side, numbers[block], every, n_jobs)
        for nearest in every:
            nearest.drop_self()
        return every

    def _search(
        self,
        side: str,
        records: np.ndarray,
        every: list[NearestRecords],
        n_jobs: int | None,
    ) -> None:
        """Write the nearest records of some records of a side."""
        queries = self.layered.take(records)
        neighbors, scores = self.index(side).top(
            queries, self.depth, n_jobs, n_lists=len(every)
        )
        first = self.searched(side).start
        for layer, nearest in enumerate(every):
            nearest.fill(records, neighbors[layer], scores[layer], first)
