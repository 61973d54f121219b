"""Which queries and which rows of a search are on the card at the same time."""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from ..memory import NotEnoughMemory
from ..neighbor_lists import NeighborLists
from .search_rows import largest_chunk
from .segments import cut_to_fit

#: Share of the card's free memory that a search may take.
FREE_SHARE = 0.9

#: Bytes of a posting of a chunk, and of the counts, running sums and levels of a
#: feature.
POSTING_BYTES = 8
FEATURE_BYTES = 32

#: Bytes of an entry of a row, of a row or query with its lengths and labels, and of a
#: row in a list.
ENTRY_BYTES = 12
ROW_BYTES = 96
LISTED_BYTES = 12

_GIB = 2**30


class SearchPlan(NamedTuple):
    """Blocks of queries and groups of rows: where each begins, and the end."""

    query_bounds: np.ndarray
    row_bounds: np.ndarray

    @property
    def has_all_rows(self) -> bool:
        """Whether all rows are on the card at once."""
        return len(self.row_bounds) == 2


class SearchSizes(NamedTuple):
    """Bytes of a search: of each query, of each row, and of what all share."""

    per_query: np.ndarray
    per_row: np.ndarray
    shared: int

    @property
    def total(self) -> int:
        """Of all queries and rows."""
        return self.shared + int(self.per_row.sum() + self.per_query.sum())


def plan_search(
    queries: sp.csr_array,
    index: sp.csr_array,
    lists: NeighborLists,
    order: np.ndarray,
    memory_limit: float | str | None,
    free: int,
) -> SearchPlan:
    """Return blocks of queries and groups of rows that fit on the card together.

    Parameters
    ----------
    queries, index : csr_array
    lists : NeighborLists
    order : ndarray of shape (n_rows,)
        Rows of the index, in the order of which groups are made.
    memory_limit : float, "auto" or None
        GiB; "auto" is what is free, and None never refuses.
    free : int
        Free bytes on the card, and those that the index takes there already.

    Raises
    ------
    NotEnoughMemory
    """
    sizes = _sizes(queries, index, lists, order)
    all_at_once = SearchPlan(
        query_bounds=np.array([0, len(sizes.per_query)]),
        row_bounds=np.array([0, len(sizes.per_row)]),
    )
    if memory_limit is None:
        return all_at_once
    is_limit = memory_limit != "auto"
    limit = FREE_SHARE * free
    if is_limit:
        limit = float(memory_limit) * _GIB
    if sizes.total <= limit:
        return all_at_once
    # Rows take half of what is left at most, queries the rest.
    for_both = limit - sizes.shared
    for_rows = min(float(sizes.per_row.sum()), for_both / 2)
    for_queries = for_both - for_rows
    largest_row = int(sizes.per_row.max(initial=0))
    largest_query = int(sizes.per_query.max(initial=0))
    if for_rows < largest_row or for_queries < largest_query:
        raise NotEnoughMemory(
            "The search on the GPU",
            needed=sizes.shared + 2 * max(largest_row, largest_query),
            allowed=int(limit),
            is_limit=is_limit,
            options=("give fewer columns", "take device='cpu'"),
        )
    return SearchPlan(
        query_bounds=cut_to_fit(sizes.per_query, for_queries),
        row_bounds=cut_to_fit(sizes.per_row, for_rows),
    )


def _sizes(
    queries: sp.csr_array,
    index: sp.csr_array,
    lists: NeighborLists,
    order: np.ndarray,
) -> SearchSizes:
    """Return the sizes of a search, of rows in an order."""
    n_listed = lists.same.rows.shape[1] + lists.other.rows.shape[1]
    query_entries = np.diff(queries.indptr).astype(np.int64)
    row_entries = np.diff(index.indptr)[order].astype(np.int64)
    n_postings = largest_chunk(row_entries)
    return SearchSizes(
        per_query=ENTRY_BYTES * query_entries + ROW_BYTES + LISTED_BYTES * n_listed,
        per_row=ENTRY_BYTES * row_entries + ROW_BYTES,
        shared=FEATURE_BYTES * index.shape[1] + POSTING_BYTES * n_postings,
    )
