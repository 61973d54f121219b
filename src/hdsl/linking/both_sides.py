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
from ..search.all_pairs import round_robin
from .layer_search import LOOK_COST, ColumnsOfLayer, LayerSearch, empty_lists
from .layers import LayeredRows

#: Groups of a side: as many for any number of threads, so that sums are the same bits.
N_GROUPS = 16

#: Most records of a group.
GROUP_SIZE = 2**13

#: Records that are compared with a group before an interrupt is served.
N_AT_A_TIME = 2**9


class Meeting(NamedTuple):
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

    def top(self, sizes: list[int], workers: Workers) -> tuple[TopRows, ...]:
        """Return the best records of the other side by each layer, in no order.

        `sizes` are how many, by each layer. Scores are sums in float32.
        """
        widths = [columns.n_features for columns in self._columns]
        search = LayerSearch(self._layered, self._layered, widths)
        lists = empty_lists(self._layered.n_records, sizes)
        cost = self._cost()

        def compare(start: int, stop: int, meetings: list[Meeting]) -> None:
            for meeting in meetings[start:stop]:
                self._compare(meeting, search, lists)

        for meetings in self._rounds():
            workers.run_pieces(compare, len(meetings), cost, meetings)
        return lists

    def _compare(
        self, meeting: Meeting, search: LayerSearch, lists: tuple[TopRows, ...]
    ) -> None:
        """Compare records with a group, some at a time."""
        group = self._group(meeting.group)
        block = tuple(columns.blocks[meeting.group] for columns in self._columns)
        limits = np.stack([each.scores[group.start : group.stop, 0] for each in lists])
        if (
            meeting.is_same
        ):  # each record meets every one: one of the two lists is enough
            limits[:] = np.inf
        records = meeting.records
        for start in range(records.start, records.stop, N_AT_A_TIME):
            stop = min(start + N_AT_A_TIME, records.stop)
            search.compare(start, stop, block, group.start, lists, limits)

    def _group(self, number: int) -> range:
        """Return the records of a group."""
        first = number * self._group_size
        return self._right[first : first + self._group_size]

    def _rounds(self) -> Iterator[list[Meeting]]:
        """Yield meetings that write to different lists."""
        for pairs in self._pairs_of_groups():
            meetings = [
                Meeting(self._members(left), right, self._is_single and left == right)
                for left, right in pairs
            ]
            yield [
                meeting
                for meeting in meetings
                if len(meeting.records) and len(self._group(meeting.group))
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

    def _cost(self) -> float:
        """Return the number of multiplications of one meeting, about."""
        pairs = zip(self._columns, self._layered.layers, strict=True)
        n_products = sum(columns.n_products(layer.rows) for columns, layer in pairs)
        looks = LOOK_COST * len(self._right) * len(self._columns)
        per_query = (n_products + looks) / self._n_groups
        return per_query * len(self._members(0))
