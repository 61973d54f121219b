"""The search of two sides in each other: each pair of records is compared once.

Both records of a pair are offered to the lists of the other one. The records of each
side are divided into groups, and in each round every group meets one of the other side,
so that threads write to different lists. One table is both sides: its groups meet each
other, and each meets itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ..cpu.kernels.layers import TopRows
from ..cpu.workers import Workers
from ..progress import Progress
from ..search.all_pairs import round_robin
from .layer_search import (
    ColumnsOfLayer,
    LayerSearch,
    cost_of_query,
    empty_lists,
)
from .layers import LayeredRows

#: Groups of a side: as many for any number of threads, so that sums are the same bits.
N_GROUPS = 16

#: Most records of a group.
GROUP_SIZE = 2**13

#: Records that are compared with a group before an interrupt is served.
N_AT_A_TIME = 2**9


class Comparison(NamedTuple):
    """Records that are compared with a group.

    Attributes
    ----------
    records : range
    group : int
        The number of the group.
    is_same : bool
        The records are those of the group.
    """

    records: range
    group: int
    is_same: bool


class BothSides:
    """Records of two sides, or of one, that are searched for in each other.

    Parameters
    ----------
    layered : LayeredRows
    n_left : int
        Records of the left side; all of them if there is one table.
    """

    def __init__(self, layered: LayeredRows, n_left: int) -> None:
        n_records = layered.n_records
        self._layered = layered
        self._is_single = n_left == n_records
        self._left = range(n_left)
        self._right = range(n_left, n_records)
        if self._is_single:
            self._right = self._left
        largest = max(len(self._left), len(self._right))
        n_groups = max(N_GROUPS, -(-largest // GROUP_SIZE))
        self._n_groups = n_groups + n_groups % 2
        self._group_size = max(1, -(-len(self._right) // self._n_groups))
        self._columns = [
            ColumnsOfLayer(layer, self._right, self._group_size)
            for layer in layered.layers
        ]

    def top(
        self, sizes: list[int], workers: Workers, progress: Progress
    ) -> tuple[TopRows, ...]:
        """Return the best records of the other side by each layer, in no order.

        `sizes` are how many, by each layer. Scores are sums in float32.
        """
        widths = [columns.n_features for columns in self._columns]
        search = LayerSearch(self._layered, self._layered, widths)
        lists = empty_lists(self._layered.n_records, sizes)
        cost_per_query = cost_of_query(self._columns, self._layered) / self._n_groups
        cost = cost_per_query * len(self._members(0))

        def compare(start: int, stop: int, comparisons: list[Comparison]) -> None:
            for comparison in comparisons[start:stop]:
                self._compare(comparison, search, lists)

        progress.stage("searching by cosine", self._n_groups)
        for comparisons in progress.each(self._rounds()):
            workers.run_pieces(compare, len(comparisons), cost, comparisons)
        return lists

    def _compare(
        self, comparison: Comparison, search: LayerSearch, lists: tuple[TopRows, ...]
    ) -> None:
        """Compare records with a group, some at a time."""
        group = self._group(comparison.group)
        block = tuple(columns.blocks[comparison.group] for columns in self._columns)
        limits = np.stack([each.scores[group.start : group.stop, 0] for each in lists])
        # Of a group and itself each record meets every one: one of two lists is enough.
        if comparison.is_same:
            limits[:] = np.inf
        records = comparison.records
        for start in range(records.start, records.stop, N_AT_A_TIME):
            stop = min(start + N_AT_A_TIME, records.stop)
            search.compare(start, stop, block, group.start, lists, limits)

    def _group(self, number: int) -> range:
        """Return the records of a group."""
        first = number * self._group_size
        return self._right[first : first + self._group_size]

    def _rounds(self) -> Iterator[list[Comparison]]:
        """Yield comparisons that write to different lists."""
        for pairs in self._pairs_of_groups():
            comparisons = [
                Comparison(
                    self._members(left), right, self._is_single and left == right
                )
                for left, right in pairs
            ]
            yield [
                comparison
                for comparison in comparisons
                if len(comparison.records) and len(self._group(comparison.group))
            ]

    def _members(self, number: int) -> range:
        """Return the records of the left side that are together."""
        size = -(-len(self._left) // self._n_groups)
        first = number * size
        return self._left[first : first + size]

    def _pairs_of_groups(self) -> Iterator[list[tuple[int, int]]]:
        """Yield rounds: pairs of groups, each group of a side once."""
        groups = range(self._n_groups)
        if self._is_single:
            yield [(group, group) for group in groups]
            for pairs in round_robin(self._n_groups):
                yield [(int(left), int(right)) for left, right in pairs]
            return
        for turn in groups:
            yield [(group, (group + turn) % self._n_groups) for group in groups]
