"""The largest inner products on a graphics card: exact lists of nearest rows."""

from itertools import pairwise

import numpy as np
import scipy.sparse as sp

from ..neighbor_lists import NeighborLists
from .runtime import Device
from .search_lists import CardLists, QueryPlaces
from .search_plan import plan_search
from .search_rows import NormedRows, RowGroup


class Kept:
    """What a search leaves on the card for the next one of the same rows.

    Attributes
    ----------
    group : RowGroup or None
        All rows; None before the first search, and where they do not fit at once.
    """

    def __init__(self) -> None:
        self.group: RowGroup | None = None

    @property
    def nbytes(self) -> int:
        """What it takes on the card."""
        if self.group is None:
            return 0
        return self.group.nbytes


def fill_lists(
    device: Device,
    queries: sp.csr_array,
    index: sp.csr_array,
    lists: NeighborLists,
    memory_limit: float | str | None = "auto",
    kept: Kept | None = None,
) -> None:
    """Fill the lists of all queries.

    Queries and rows that do not fit on the card at once take turns.

    Parameters
    ----------
    device : Device
    queries, index : csr_array of float64
        On the same columns, canonical. They may be the same object.
    lists : NeighborLists
    memory_limit : float, "auto" or None, default="auto"
        GiB of the card's memory; "auto" is what is free, and None never refuses.
    kept : Kept, default=None
        What earlier searches of the same index, with the same labels, on this device
        have left.

    Raises
    ------
    NotEnoughMemory
        Even the smallest blocks do not fit.
    """
    n_queries = queries.shape[0]
    if n_queries == 0 or index.shape[0] == 0:
        return
    if kept is None:
        kept = Kept()
    order = np.argsort(lists.labels, kind="stable").astype(np.int32)
    free = device.free() + kept.nbytes
    plan = plan_search(queries, index, lists, order, memory_limit, free)
    if not plan.has_all_rows:
        kept.group = None
    for first, last in pairwise(plan.query_bounds.tolist()):
        card_lists = CardLists(device, lists, first, last)
        block = queries
        if last - first < n_queries:
            block = queries[first:last]
        if plan.has_all_rows:
            _search_all_rows(device, block, index, order, card_lists, kept)
        else:
            query_rows = NormedRows(device, block)
            for start, stop in pairwise(plan.row_bounds.tolist()):
                _search_group(device, query_rows, index, order[start:stop], card_lists)
            del query_rows  # before the next block comes
        card_lists.download()


def _search_all_rows(
    device: Device,
    queries: sp.csr_array,
    index: sp.csr_array,
    order: np.ndarray,
    lists: CardLists,
    kept: Kept,
) -> None:
    """Search all rows of an index, which stay on the card."""
    if kept.group is None:
        rows = NormedRows(device, index)
        kept.group = RowGroup(device, rows, order, is_whole=True)
    query_rows = kept.group.rows
    if queries is not index:
        query_rows = NormedRows(device, queries)
    kept.group.search(query_rows, lists, QueryPlaces.find(lists, order))


def _search_group(
    device: Device,
    query_rows: NormedRows,
    index: sp.csr_array,
    numbers: np.ndarray,
    lists: CardLists,
) -> None:
    """Search some rows of an index, which do not stay on the card."""
    rows = NormedRows(device, index[numbers])
    group = RowGroup(device, rows, numbers, is_whole=False)
    group.search(query_rows, lists, QueryPlaces.find(lists, numbers))
