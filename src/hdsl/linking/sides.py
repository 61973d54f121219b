"""Records of two sides, or of one, and the search of each side among the other one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..cpu.kernels.layers import ListedRows
from ..cpu.workers import Workers
from ..progress import Progress
from .blocks import row_blocks
from .both_sides import BothSides
from .last_layer import LastLayerIndex
from .layer_search import N_SPARE, LayerSearch, best_rows_first, listed_rows
from .layered_index import LayeredIndex
from .layers import Layer, LayeredRows
from .nearest import DEPTH, NearestRecords
from .shortlist import Shortlist, best_first

#: Records that are known to be nearest by the cosine: the more of them, the fewer others
#: need to be compared by the learned similarity.
N_SHORTLIST = 128

#: Records that are searched for together, so that their lists stay small.
QUERIES_AT_A_TIME = 2**14


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
        return Sides(self.layered.with_layer(layer), self._n_left)

    def grown(
        self, layered: LayeredRows, n_left: int, later: LayeredRows, numbers: np.ndarray
    ) -> Sides:
        """Return more records, with the indexes that there are.

        Parameters
        ----------
        layered : LayeredRows
            All records, with those of the left table first.
        n_left : int
        later : LayeredRows
            The records that come, and those that are others now.
        numbers : ndarray of shape (n_later,)
            Their numbers among all.
        """
        sides = Sides(layered, n_left)
        for side in ("left", "right"):
            index = self._indexes.get(self.searched(side))
            searched = sides.searched(side)
            is_inside = (numbers >= searched.start) & (numbers < searched.stop)
            if index is None or searched in sides._indexes:
                continue
            rows = np.flatnonzero(is_inside)
            if len(rows):
                index = index.with_records(
                    later.take(rows), numbers[rows] - searched.start
                )
            if not index.has_grown:
                sides._indexes[searched] = index
        return sides

    def search(
        self, n_jobs: int | None, progress: Progress | None = None
    ) -> tuple[list[NearestRecords], Shortlist]:
        """Return the nearest records by each layer, and more of them by the last one."""
        n_records = self.layered.n_records
        n_listed = self.depth + N_SPARE
        sizes = [n_listed] * self.layered.n_layers
        sizes[-1] = max(n_listed, N_SHORTLIST + N_SPARE)
        every = [
            NearestRecords.empty(n_records, self.depth)
            for _ in range(self.layered.n_layers)
        ]
        shortlist = Shortlist.empty(n_records, N_SHORTLIST)
        both_sides = BothSides(self.layered, self._n_left)
        widths = [layer.n_features for layer in self.layered.layers]
        with Workers(n_jobs) as workers:
            tops = both_sides.top(sizes, workers, progress or Progress(0))
            for side, records in self._queries(np.arange(n_records)):
                lists = tuple(best_rows_first(top, records) for top in tops)
                first = self.searched(side).start
                nearby = Shortlist.of_lists(lists[-1], N_SHORTLIST, first)
                shortlist.fill(records, nearby)
                listed = listed_rows(lists, n_listed)
                neighbors, scores = self._scored(records, listed, widths, workers)
                for layer, nearest in enumerate(every):
                    nearest.fill(records, neighbors[layer], scores[layer], first=0)
        for nearest in every:
            nearest.drop_self()
        return every, shortlist

    def _scored(
        self,
        records: np.ndarray,
        listed: ListedRows,
        widths: list[int],
        workers: Workers,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return lists of records by their similarities in float64, best first.

        `widths` are how many features each layer has.
        """
        layered = self.layered
        queries = layered.take(records)
        search = LayerSearch(queries, layered, widths)
        cost = listed.rows.shape[2] * layered.n_entries / layered.n_records
        every_record = (0, layered.n_records, 0)
        workers.run_pieces(search.score, len(records), cost, every_record, listed)
        return best_first(listed.rows, listed.scores)

    def search_last(
        self,
        shortlist: Shortlist,
        n_jobs: int | None,
        records: np.ndarray | None = None,
        progress: Progress | None = None,
    ) -> NearestRecords:
        """Return the nearest records by the last layer.

        Parameters
        ----------
        shortlist : Shortlist
            By the layer before.
        n_jobs : int or None
        records : array of int, default=None
            Records to search for, each once; None is all.
        progress : Progress, default=None
        """
        n_records = self.layered.n_records
        nearest = NearestRecords.empty(n_records, self.depth)
        if records is None:
            records = np.arange(n_records)
        if progress is None:
            progress = Progress(0)
        indexes: dict[range, LastLayerIndex] = {}
        queries = [*self._queries(records)]
        progress.stage("searching as learned", len(queries))
        for side, numbers in progress.each(queries):
            searched = self.searched(side)
            if searched not in indexes:
                indexes[searched] = LastLayerIndex(self.layered, searched)
            neighbors, scores = indexes[searched].top(
                self.layered.take(numbers), shortlist.take(numbers), self.depth, n_jobs
            )
            nearest.fill(numbers, neighbors, scores, searched.start)
        nearest.drop_self()
        return nearest

    def _queries(self, records: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
        """Yield some thousand records of one side at a time."""
        is_left = records < self._n_left
        for side, numbers in (("left", records[is_left]), ("right", records[~is_left])):
            for block in row_blocks(len(numbers), QUERIES_AT_A_TIME):
                yield side, numbers[block]
