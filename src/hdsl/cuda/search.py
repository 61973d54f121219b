"""The largest inner products on a graphics card: exact lists of nearest rows."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..memory import NotEnoughMemory
from ..neighbor_lists import NeighborLists, Neighbors
from .rows import Sparse, cut_to_fit
from .runtime import WARPS, Array, Device

#: Rows of a chunk, as many as the kernels have space for.
CHUNK_ROWS = 8192


def largest_chunk(sizes: np.ndarray) -> int:
    """Return the most entries of a chunk of rows, wherever it begins."""
    if len(sizes) <= CHUNK_ROWS:
        return int(sizes.sum())
    upto = np.concatenate([[0], np.cumsum(sizes)])
    return int((upto[CHUNK_ROWS:] - upto[:-CHUNK_ROWS]).max())


class NormedRows:
    """Sparse rows on the card, and their lengths.

    Attributes
    ----------
    n, n_columns : int
    sizes : ndarray of shape (n,)
        Entries of each row.
    matrix : Sparse
    norm : Array of shape (n,)
        Length of each row; `norms` is the copy on the host.
    """

    def __init__(self, device: Device, X: sp.csr_array) -> None:
        self.n = X.shape[0]
        self.n_columns = X.shape[1]
        self.sizes = np.diff(X.indptr).astype(np.int64)
        self.matrix = Sparse(
            ptr=device.upload(X.indptr.astype(np.int64)),
            idx=device.upload(X.indices.astype(np.int32)),
            val=device.upload(X.data),
        )
        self.norm = device.empty(self.n)
        device.run(
            "row_norms",
            self.n,
            per_block=WARPS,
            n=self.n,
            ptr=self.matrix.ptr,
            val=self.matrix.val,
            norm=self.norm,
        )
        self.norms = device.download(self.norm)
        if not np.isfinite(self.norms).all():
            raise ValueError(
                "The lengths of some rows overflow, so that the GPU cannot bound "
                "their inner products. Scale the rows to smaller values, or take "
                "device='cpu'."
            )


class RowGroup:
    """Rows of the index that are on the card together, in the order of their labels.

    Parameters
    ----------
    device : Device
    rows : NormedRows
    numbers : ndarray of int32
        The rows of the whole index that are searched, in their order.
    is_whole : bool
        Whether `rows` are the whole index, in its own order; else they are in the order
        of `numbers`.

    Attributes
    ----------
    n : int
    rows : NormedRows
    """

    def __init__(
        self, device: Device, rows: NormedRows, numbers: np.ndarray, *, is_whole: bool
    ) -> None:
        self.device = device
        self.rows = rows
        self.n = len(numbers)
        self._number = device.upload(numbers)
        if is_whole:
            self._place = self._number
            self._most_postings = largest_chunk(rows.sizes[numbers])
        else:
            self._place = device.upload(np.arange(self.n, dtype=np.int32))
            self._most_postings = largest_chunk(rows.sizes)
        self._scale = float(rows.norms.max(initial=0.0))
        self._counts = device.zeros(rows.n_columns, np.int32)
        self._feature_level = self._levels()
        self._left_out = self._lengths_left_out(
            rows, places=self._place, scale=self._scale
        )
        left_out = device.download(self._left_out).reshape(LEVELS, -1)
        self._mean_left_out = device.upload(left_out.mean(axis=1, dtype=np.float64))

    @property
    def nbytes(self) -> int:
        """What it takes on the card, together with its rows."""
        arrays = (
            self.rows.matrix.ptr,
            self.rows.matrix.idx,
            self.rows.matrix.val,
            self.rows.norm,
            self._number,
            self._counts,
            self._feature_level,
            self._left_out,
        )
        return sum(int(array.nbytes) for array in arrays)

    def _levels(self) -> Array:
        """Return the first level at which each feature is left out."""
        device = self.device
        idx = self.rows.matrix.idx
        n_features = self.rows.n_columns
        feature_level = device.empty(n_features, np.int32)
        device.run("count_features", len(idx), n=len(idx), idx=idx, counts=self._counts)
        device.run(
            "feature_levels",
            n_features,
            n_features=n_features,
            n_rows=self.n,
            counts=self._counts,
            feature_level=feature_level,
        )
        device.clear(self._counts)
        return feature_level

    def _lengths_left_out(
        self, rows: NormedRows, *, places: Array | None, scale: float
    ) -> Array:
        """Return, by level, the length of what is left out of each row.

        It is a share of `scale` or, where that is 0, of the row's own length.
        """
        left_out = self.device.empty(LEVELS * rows.n, np.float32)
        self.device.run(
            "lengths_left_out",
            rows.n,
            per_block=WARPS,
            n=rows.n,
            place=places,
            ptr=rows.matrix.ptr,
            idx=rows.matrix.idx,
            val=rows.matrix.val,
            feature_level=self._feature_level,
            norm=rows.norm,
            scale=scale,
            left_out=left_out,
        )
        return left_out

    def search(
        self, query_rows: NormedRows, lists: CardLists, places: QueryPlaces
    ) -> None:
        """Look for the neighbors of queries in all chunks, one after the other."""
        device = self.device
        query_left_out = self._lengths_left_out(query_rows, places=None, scale=0.0)
        own_place = None
        if places.own_place is not None:
            own_place = device.upload(places.own_place)
        queries = {
            "query_ptr": query_rows.matrix.ptr,
            "query_idx": query_rows.matrix.idx,
            "query_val": query_rows.matrix.val,
            "query_norm": query_rows.norm,
            "query_left_out": query_left_out,
            "own_place": own_place,
            "same_first": device.upload(places.same_first),
            "same_last": device.upload(places.same_last),
        }
        postings = device.empty(max(self._most_postings, 1), np.int64)
        for first in range(0, self.n, CHUNK_ROWS):
            n_rows = min(CHUNK_ROWS, self.n - first)
            posting_end = self._fill_postings(first, n_rows, postings)
            device.run(
                "search_chunk",
                query_rows.n,
                per_block=1,
                n_queries=query_rows.n,
                first=first,
                n_rows=n_rows,
                n_places=self.n,
                place=self._place,
                number=self._number,
                ptr=self.rows.matrix.ptr,
                idx=self.rows.matrix.idx,
                val=self.rows.matrix.val,
                left_out=self._left_out,
                scale=self._scale,
                posting_end=posting_end,
                postings=postings,
                feature_level=self._feature_level,
                mean_left_out=self._mean_left_out,
                **queries,
                **lists.arguments,
            )
        device.wait()

    def _fill_postings(self, first: int, n_rows: int, postings: Array) -> Array:
        """Queue the postings of a chunk, and return where those of each feature end."""
        device = self.device
        device.run(
            "count_postings",
            n_rows,
            per_block=WARPS,
            first=first,
            n_rows=n_rows,
            place=self._place,
            ptr=self.rows.matrix.ptr,
            idx=self.rows.matrix.idx,
            counts=self._counts,
        )
        posting_end = device.cumsum(self._counts)
        device.run(
            "fill_postings",
            n_rows,
            per_block=WARPS,
            first=first,
            n_rows=n_rows,
            place=self._place,
            ptr=self.rows.matrix.ptr,
            idx=self.rows.matrix.idx,
            val=self.rows.matrix.val,
            scale=self._scale,
            posting_end=posting_end,
            counts=self._counts,
            postings=postings,
        )
        return posting_end


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
