"""The largest inner products on a graphics card: exact lists of nearest rows, by chunks of rows."""

from itertools import pairwise

import numpy as np
import scipy.sparse as sp

from ..memory import NotEnoughMemory
from ..neighbor_lists import NeighborLists
from .runtime import THREADS, Array, Device
from .segments import cut_to_fit

#: Rows of a chunk, as many as the kernels have room for.
CHUNK_ROWS = 8192

#: Levels of what is left out of bounds, as in the kernels.
LEVELS = 8

#: Share of the card's free memory that a search may take.
FREE_SHARE = 0.9

#: Bytes of a chunk's postings and of the counts, running sums and levels of features.
POSTING_BYTES = 8
FEATURE_BYTES = 32

#: Bytes of an entry, and of a row or query with its lengths and labels.
ENTRY_BYTES = 12
ROW_BYTES = 96

_PER_WARP_BLOCK = THREADS // 32


class Kept:
    """What a search leaves on the card for the next one of the same rows.

    Attributes
    ----------
    group : _Group or None
        All rows; None before the first search, and where they do not fit at once.
    """

    def __init__(self) -> None:
        self.group: _Group | None = None

    @property
    def nbytes(self) -> int:
        """What it takes on the card."""
        return 0 if self.group is None else self.group.nbytes


def fill_lists(
    device: Device,
    queries: sp.csr_array,
    index: sp.csr_array,
    task: NeighborLists,
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
    task : NeighborLists
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
    m = queries.shape[0]
    n = index.shape[0]
    if not m or not n:
        return
    kept = Kept() if kept is None else kept
    order = np.argsort(task.labels, kind="stable").astype(np.int32)
    blocks, groups = plan_blocks(
        device, queries, index, order, task, memory_limit, kept.nbytes
    )
    is_whole = len(groups) == 2
    if not is_whole:
        kept.group = None
    for a, b in pairwise(blocks.tolist()):
        is_same = queries is index and b - a == m
        if is_same and kept.group is not None:
            asked = kept.group.rows
        else:
            asked = _Rows(device, queries if b - a == m else queries[a:b])
        lists = _Lists(device, task, a, b)
        for first, last in pairwise(groups.tolist()):
            group = kept.group
            if group is None:
                part = index if is_whole else index[order[first:last]]
                rows = asked if is_same and is_whole else _Rows(device, part)
                group = _Group(device, rows, order[first:last], is_whole)
                kept.group = group if is_whole else None
                del rows
            group.search(asked, lists, _places(task, order, first, last, a, b))
            del group  # before the next one comes
        lists.download(task, a, b)
        del asked, lists


def plan_blocks(
    device: Device,
    queries: sp.csr_array,
    index: sp.csr_array,
    order: np.ndarray,
    task: NeighborLists,
    memory_limit: float | str | None,
    n_kept: int = 0,
) -> tuple[np.ndarray, np.ndarray]:
    """Return blocks of queries and groups of rows, in the given order, that fit on the card.

    They are where each begins, and the end. `n_kept` bytes of the rows are there.

    Raises
    ------
    NotEnoughMemory
    """
    sizes = np.diff(index.indptr)[order].astype(np.int64)
    n_chunk = _largest_chunk(sizes)
    fixed = FEATURE_BYTES * index.shape[1] + POSTING_BYTES * n_chunk
    lists = 12 * (task.same[0].shape[1] + task.other[0].shape[1])
    of_rows = ENTRY_BYTES * sizes + ROW_BYTES
    of_queries = (
        ENTRY_BYTES * np.diff(queries.indptr).astype(np.int64) + ROW_BYTES + lists
    )
    total = fixed + int(of_rows.sum() + of_queries.sum())
    whole = np.array([0, len(of_queries)]), np.array([0, len(of_rows)])
    if memory_limit is None:
        return whole
    is_limit = memory_limit != "auto"
    free = FREE_SHARE * (device.free() + n_kept)
    limit = float(memory_limit) * 2**30 if is_limit else free
    if total <= limit:
        return whole
    room = limit - fixed
    for_rows = min(float(of_rows.sum()), room / 2)
    least = int(of_rows.max(initial=0)), int(of_queries.max(initial=0))
    if for_rows < least[0] or room - for_rows < least[1]:
        raise NotEnoughMemory(
            "The search on the GPU",
            fixed + 2 * max(least),
            int(limit),
            is_limit,
            ("give fewer columns", "take device='cpu'"),
        )
    return cut_to_fit(of_queries, room - for_rows), cut_to_fit(of_rows, for_rows)


def _largest_chunk(sizes: np.ndarray) -> int:
    """Return the most entries of a chunk, wherever it begins."""
    if len(sizes) <= CHUNK_ROWS:
        return int(sizes.sum())
    upto = np.concatenate([[0], np.cumsum(sizes)])
    return int((upto[CHUNK_ROWS:] - upto[:-CHUNK_ROWS]).max())


def _places(
    task: NeighborLists, order: np.ndarray, first: int, last: int, a: int, b: int
) -> tuple[np.ndarray | None, np.ndarray, np.ndarray]:
    """Return, for queries [a, b), their own place in a group and where their label is in it."""
    labels = task.labels[order[first:last]]
    asked = task.query_labels[a:b]
    low = np.searchsorted(labels, asked, side="left")
    high = np.searchsorted(labels, asked, side="right")
    itself = None
    if task.leaves_self:
        place = np.full(len(order), -1, dtype=np.int64)
        place[order[first:last]] = np.arange(last - first)
        itself = place[a:b]
    return itself, low.astype(np.int64), high.astype(np.int64)


class _Rows:
    """Sparse rows on the card, and their lengths."""

    def __init__(self, device: Device, X: sp.csr_array) -> None:
        self.n = X.shape[0]
        self.n_columns = X.shape[1]
        self.nnz = X.nnz
        ptr = X.indptr.astype(np.int64)
        idx = X.indices.astype(np.int32)
        self.ptr, self.idx, self.val = map(device.upload, (ptr, idx, X.data))
        self.norm = device.empty(self.n)
        device.run(
            "row_norms",
            self.n,
            self.n,
            self.ptr,
            self.val,
            self.norm,
            per_block=_PER_WARP_BLOCK,
        )
        self.norms = device.download(self.norm)
        if not np.isfinite(self.norms).all():
            raise ValueError(
                "The lengths of some rows overflow, so that the GPU cannot bound "
                "their inner products. Scale the rows to smaller values, or take "
                "device='cpu'."
            )
        self.sizes = np.diff(ptr)

    @property
    def arrays(self) -> tuple[Array, Array, Array]:
        """CSR arrays."""
        return self.ptr, self.idx, self.val


class _Lists:
    """The lists of queries [a, b) on the card."""

    def __init__(self, device: Device, task: NeighborLists, a: int, b: int) -> None:
        self.device = device
        self.same = self._upload(task.want_same, task.same, a, b)
        self.other = self._upload(task.want_other, task.other, a, b)
        self.most_level = device.upload(np.full(b - a, LEVELS - 1, dtype=np.int32))

    def _upload(
        self, want: np.ndarray, found: tuple[np.ndarray, ...], a: int, b: int
    ) -> tuple:
        scores, rows, size = found
        parts = want[a:b].astype(np.int32), scores[a:b], rows[a:b].astype(np.int32)
        return (
            scores.shape[1],
            *map(self.device.upload, (*parts, size[a:b].astype(np.int32))),
        )

    def download(self, task: NeighborLists, a: int, b: int) -> None:
        """Copy the lists back."""
        for given, found in ((self.same, task.same), (self.other, task.other)):
            if given[0]:
                for array, target in zip(given[2:], found, strict=True):
                    target[a:b] = self.device.download(array)


class _Group:
    """Rows of the index that are on the card together, in the order of their labels.

    Parameters
    ----------
    device : Device
    rows : _Rows
    numbers : ndarray of int32
        The rows of the whole index that are searched, in their order.
    is_whole : bool
        Whether `rows` are the whole index, in its own order; else they are in the order
        of `numbers`.
    """

    def __init__(
        self, device: Device, rows: _Rows, numbers: np.ndarray, is_whole: bool
    ) -> None:
        self.device = device
        self.rows = rows
        self.n = len(numbers)
        self.most_postings = _largest_chunk(
            rows.sizes[numbers] if is_whole else rows.sizes
        )
        self.number = device.upload(numbers)
        self.place = self.number
        if not is_whole:
            self.place = device.upload(np.arange(self.n, dtype=np.int32))
        self.scale = float(rows.norms.max(initial=0.0))
        self.counts = device.zeros(rows.n_columns, np.int32)
        self.level = device.empty(rows.n_columns, np.int32)
        device.run("count_features", rows.nnz, rows.nnz, rows.idx, self.counts)
        device.run(
            "feature_levels",
            rows.n_columns,
            rows.n_columns,
            self.n,
            self.counts,
            self.level,
        )
        device.clear(self.counts)
        self.part = self._parts(rows, self.place, self.scale)
        some = self.device.download(self.part).reshape(LEVELS, -1)
        self.mean_part = device.upload(some.mean(axis=1, dtype=np.float64))

    @property
    def nbytes(self) -> int:
        """What it takes on the card, together with its rows."""
        arrays = (
            *self.rows.arrays,
            self.rows.norm,
            self.number,
            self.counts,
            self.level,
            self.part,
        )
        return sum(int(array.nbytes) for array in arrays)

    def _parts(self, rows: _Rows, place: Array | None, scale: float) -> Array:
        part = self.device.empty(LEVELS * rows.n, np.float32)
        self.device.run(
            "row_parts",
            rows.n,
            rows.n,
            place,
            *rows.arrays,
            self.level,
            rows.norm,
            scale,
            part,
            per_block=_PER_WARP_BLOCK,
        )
        return part

    def search(
        self,
        asked: _Rows,
        lists: _Lists,
        places: tuple[np.ndarray | None, np.ndarray, np.ndarray],
    ) -> None:
        """Look for the neighbors of some queries in all chunks, one after the other."""
        device = self.device
        rows = self.rows
        query_part = self._parts(asked, None, 0.0)
        itself, low, high = (None if x is None else device.upload(x) for x in places)
        postings = device.empty(max(self.most_postings, 1), np.int64)
        for first in range(0, self.n, CHUNK_ROWS):
            size = min(CHUNK_ROWS, self.n - first)
            chunk = first, size, self.place
            device.run(
                "count_postings",
                size,
                *chunk,
                rows.ptr,
                rows.idx,
                self.counts,
                per_block=_PER_WARP_BLOCK,
            )
            upto = device.cumsum(self.counts)
            device.run(
                "fill_postings",
                size,
                *chunk,
                *rows.arrays,
                self.scale,
                upto,
                self.counts,
                postings,
                per_block=_PER_WARP_BLOCK,
            )
            device.run(
                "search_chunk",
                asked.n,
                asked.n,
                first,
                size,
                self.n,
                self.place,
                self.number,
                *rows.arrays,
                self.part,
                self.scale,
                upto,
                postings,
                self.level,
                self.mean_part,
                *asked.arrays,
                asked.norm,
                query_part,
                itself,
                low,
                high,
                *lists.same,
                *lists.other,
                lists.most_level,
                per_block=1,
            )
        device.wait()
