"""Rows of X on a card, by rows and by columns."""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..cached import cached
from ..input.matrices import largest_value
from ..layout import column_keys, number_features
from ..wide_matrices import is_wide
from .runtime import THREADS, Array, Device

#: Columns of numbers that are summed side by side, as in the kernels.
WIDTH = 8

#: Threads that share a segment, as in the kernels.
LANES = 8

#: Segments that a block sums at a time.
SEGMENTS_PER_BLOCK = THREADS // LANES

#: Groups of LANES threads that share the work: a chunk has about as many entries as it
#: takes to give one to each.
GROUPS = 1 << 14

#: Fewest and most entries of a chunk.
SHORTEST = 32
LONGEST = 256


class Chunks(NamedTuple):
    """Chunks of long segments, in the order in which they are summed.

    Attributes
    ----------
    first, last : ndarray of int64 of shape (n_chunks,)
        Each has the entries from `first` to before `last`.
    slot : ndarray of int32 of shape (n_chunks,)
        Where the sum of each goes. Slots of a segment are neighbors.
    slot_ptr : ndarray of int64 of shape (n_long + 1,)
        Where the slots of each long segment begin.
    """

    first: np.ndarray
    last: np.ndarray
    slot: np.ndarray
    slot_ptr: np.ndarray


class Segments:
    """Segments of (index, value) entries, the long ones cut into chunks.

    Cuts depend on the matrix alone, so sums have the same order on every card.

    Parameters
    ----------
    device : Device
    ptr : ndarray of int64 of shape (n + 1,)
        Where segments begin, on the host.
    idx : Array of int32
        On the device; rising in each segment.
    val : Array of float64 or None
        On the device; None where each sum brings its own.
    n_source : int
        Indices are below it.
    block : int
        Chunks do not cross multiples of this index. What they gather from, so many
        entries at a time, fits in the card's cache.

    Attributes
    ----------
    n : int
        Number of segments.
    limit : int
        Most entries of a chunk, and of a segment that is not cut.
    n_slots : int
        Number of chunks; a sum needs so many numbers per column for them.
    """

    def __init__(
        self,
        device: Device,
        *,
        ptr: np.ndarray,
        idx: Array,
        val: Array | None,
        n_source: int,
        block: int,
    ) -> None:
        self.device = device
        self.n = len(ptr) - 1
        self.idx = idx
        self.val = val
        self.ptr = device.upload(ptr)
        self.limit = _chunk_length(int(ptr[-1]))
        is_long = np.diff(ptr) > self.limit
        n_cuts = max(n_source - 1, 0) // block
        chunks = self._cut(np.flatnonzero(is_long), ptr, n_cuts, block)
        self.n_slots = len(chunks.slot)
        self._long_of = device.upload(np.cumsum(is_long, dtype=np.int32) - np.int32(1))
        self._slot_ptr = device.upload(chunks.slot_ptr)
        self._chunk_first = device.upload(chunks.first)
        self._chunk_last = device.upload(chunks.last)
        self._chunk_slot = device.upload(chunks.slot)

    def _cut(
        self, segments: np.ndarray, ptr: np.ndarray, n_cuts: int, block: int
    ) -> Chunks:
        """Return the chunks of long segments.

        A segment is cut where its indices pass a multiple of `block`, into pieces, some
        of which may be empty. A piece is cut into chunks of `limit` entries and a rest.
        Chunks are numbered by segment, and this number is their slot. They are summed
        by block: below 0 1 2 9, then 3 4 5 6 10 11, then 7 8 12. ::

            index        0         block         2 block         n_source
            segment 3    |   piece   |     piece    |    piece     |
            chunks       [ 0][ 1][ 2][ 3][ 4][ 5][ 6][ 7][ 8]
            segment 8    |   piece   |     piece    |    piece     |
            chunks       [ 9]        [10][11]        [12]
        """
        n_pieces = n_cuts + 1
        cuts = self._cuts(segments, n_cuts, block)
        bounds = np.column_stack([ptr[segments], cuts, ptr[segments + 1]])
        piece_first = bounds[:, :-1].ravel()
        piece_last = bounds[:, 1:].ravel()
        n_chunks = -(-(piece_last - piece_first) // self.limit)
        n_before = np.cumsum(n_chunks) - n_chunks
        piece_of_chunk = np.repeat(np.arange(len(n_chunks)), n_chunks)
        number_in_piece = np.arange(len(piece_of_chunk)) - n_before[piece_of_chunk]
        first = piece_first[piece_of_chunk] + number_in_piece * self.limit
        last = np.minimum(first + self.limit, piece_last[piece_of_chunk])
        block_of_chunk = piece_of_chunk % n_pieces
        slot = np.argsort(block_of_chunk, kind="stable")
        n_slots = n_chunks.reshape(-1, n_pieces).sum(axis=1)
        return Chunks(
            first=first[slot],
            last=last[slot],
            slot=slot.astype(np.int32),
            slot_ptr=np.concatenate([[0], np.cumsum(n_slots)]),
        )

    def _cuts(self, segments: np.ndarray, n_cuts: int, block: int) -> np.ndarray:
        """Return the first entry of each segment from each multiple of `block` on."""
        n = len(segments)
        if n * n_cuts == 0:
            return np.empty((n, n_cuts), dtype=np.int64)
        cuts = self.device.empty(n * n_cuts, np.int64)
        self.device.run(
            "cut_segments",
            n * n_cuts,
            n_segments=n,
            n_cuts=n_cuts,
            block=block,
            segment=self.device.upload(segments),
            ptr=self.ptr,
            idx=self.idx,
            cuts=cuts,
        )
        return self.device.download(cuts).reshape(n, n_cuts)

    @property
    def entries(self) -> dict[str, Any]:
        """Arguments of kernels that sum segments, but for the values."""
        return {
            "n": self.n,
            "ptr": self.ptr,
            "limit": self.limit,
            "long_of": self._long_of,
            "slot_ptr": self._slot_ptr,
            "idx": self.idx,
        }

    def sum(
        self,
        query: Array | None,
        source: Array,
        slots: Array,
        out: Array,
        *,
        val: Array | None = None,
        absolute: bool = False,
    ) -> None:
        """Queue the sums of all segments: out[q] = Σ_k val[k] source[idx[k]].

        Parameters
        ----------
        query : Array or None
            How many columns `source` has, which stand side by side, then the features
            they are for; None is one column.
        source : Array
        slots : Array
            Space for the sums of chunks, WIDTH · n_slots numbers.
        out : Array
        val : Array, default=None
            In place of the segments' own values.
        absolute : bool, default=False
            Whether |val| counts.
        """
        if val is None:
            val = self.val
        self.sum_chunks(query, source, slots, val=val, absolute=absolute)
        self.device.run(
            "gather_segments",
            self.n,
            per_block=SEGMENTS_PER_BLOCK,
            query=query,
            **self.entries,
            val=val,
            source=source,
            absolute=int(absolute),
            slots=slots,
            out=out,
        )

    def sum_chunks(
        self,
        query: Array | None,
        source: Array,
        slots: Array,
        *,
        val: Array | None = None,
        absolute: bool = False,
    ) -> None:
        """Queue the sums of the chunks of long segments alone."""
        if self.n_slots == 0:
            return
        if val is None:
            val = self.val
        self.device.run(
            "gather_chunks",
            self.n_slots,
            per_block=SEGMENTS_PER_BLOCK,
            query=query,
            n_chunks=self.n_slots,
            chunk_first=self._chunk_first,
            chunk_last=self._chunk_last,
            chunk_slot=self._chunk_slot,
            idx=self.idx,
            val=val,
            source=source,
            absolute=int(absolute),
            slots=slots,
        )


def _chunk_length(n_entries: int) -> int:
    """Return the length of chunks: a power of 2 with which all groups have work."""
    per_group = n_entries // GROUPS
    power = 1 << max(per_group - 1, 0).bit_length()
    return min(max(power, SHORTEST), LONGEST)


def cut_to_fit(sizes: np.ndarray, limit: float) -> np.ndarray:
    """Return where blocks of items begin whose sizes fit in a limit, and the end.

    An item that is larger than the limit is a block of its own.

    Examples
    --------
    >>> cut_to_fit(np.array([3, 3, 9, 1, 1]), 6.0).tolist()
    [0, 2, 3, 5]
    """
    size_upto = np.concatenate([[0], np.cumsum(sizes)])
    bounds = [0]
    while bounds[-1] < len(sizes):
        first = bounds[-1]
        end = np.searchsorted(size_upto, size_upto[first] + limit, side="right") - 1
        bounds.append(max(int(end), first + 1))
    return np.array(bounds)


#: Rows whose numbers, WIDTH for each, fit in a part of the card's cache.
ROW_BLOCK = 1 << 18


class Sparse(NamedTuple):
    """A sparse matrix on the card, by rows or by columns.

    Attributes
    ----------
    ptr : Array of int64
        Where each row or column begins, and the end.
    idx : Array of int32
        Rising in each.
    val : Array of float64
    """

    ptr: Array
    idx: Array
    val: Array


class RowSizes(NamedTuple):
    """max_j |x_j| of each row, and sums of (x_j / max)² and of (x_j / max)⁴."""

    largest: Array
    second: Array
    fourth: Array


class CardRows:
    """The rows of X on a card.

    Parameters
    ----------
    X : csr_array of shape (n, n_columns)
    device : Device
    is_compared : ndarray of bool of shape (n,)
        The rows that comparisons name.
    columns : ndarray or None
        Columns that are features although they may be rare or empty.
    min_rows : int
        Columns that fewer rows have are no features.

    Attributes
    ----------
    n, n_features : int
    n_numbers : int
        Features, and then rare columns: rows have the numbers of both.
    features : ndarray of shape (n_features,)
        The columns of X that are features, the fullest first. Feature numbers are
        positions here.
    feature_sizes : ndarray of shape (n_features,)
        Rows that have each feature.
    by_row : Sparse
        X by rows; indices are features, and then rare columns.
    by_feature : Segments
        X by features, without rare columns.
    block : int
        Sums over rows are made of sums over blocks of so many.
    dense : Array of float32 of shape (n, width), or None
        An embedding.
    """

    def __init__(
        self,
        X: sp.csr_array,
        device: Device,
        is_compared: np.ndarray,
        columns: np.ndarray | None = None,
        min_rows: int = 1,
    ) -> None:
        self.device = device
        self.dense: Array | None = None
        self.n = X.shape[0]
        self.block = ROW_BLOCK
        names = None
        indices = X.indices
        n_columns = X.shape[1]
        if is_wide(X):
            names, indices = np.unique(indices, return_inverse=True)
            n_columns = len(names)
        column = device.upload(np.asarray(indices, dtype=np.int32))
        column_sizes = self._column_sizes(column, n_columns)
        used = sp.csr_array((X.data, indices, X.indptr), shape=(self.n, n_columns))
        keys = column_keys(used, is_compared, largest_value(X.data))
        numbered = number_features(column_sizes, keys, names, min_rows, columns)
        self.features = numbered.features
        self.n_numbers = numbered.n_numbers
        number = numbered.numbers
        self.n_features = len(self.features)

        used = np.flatnonzero(column_sizes)
        sizes = np.zeros(self.n_numbers, dtype=np.int64)
        sizes[number[used]] = column_sizes[used]
        self.feature_sizes = sizes[: self.n_features]
        ptr = np.concatenate([[0], np.cumsum(sizes)])

        feature = device.take(device.upload(number), column)
        row_ptr = device.upload(X.indptr.astype(np.int64))
        feature_ptr = device.upload(ptr)
        value = device.upload(X.data)
        by_number = self._transposed(feature, row_ptr, value, feature_ptr)
        self.by_row = self._transposed(
            by_number.idx, feature_ptr, by_number.val, row_ptr
        )
        ptr = ptr[: self.n_features + 1]
        self.by_feature = Segments(
            device,
            ptr=ptr,
            idx=by_number.idx[: ptr[-1]],
            val=by_number.val[: ptr[-1]],
            n_source=self.n,
            block=self.block,
        )

    def _column_sizes(self, column: Array, n_columns: int) -> np.ndarray:
        """Return how many rows have each column."""
        counts = self.device.zeros(n_columns, np.int32)
        self.device.run(
            "count_features", len(column), n=len(column), idx=column, counts=counts
        )
        return self.device.download(counts).astype(np.int64)

    def _transposed(self, idx: Array, ptr: Array, val: Array, out_ptr: Array) -> Sparse:
        """Return X by columns where it comes by rows, or by rows where by columns."""
        nnz = len(idx)
        out = Sparse(
            ptr=out_ptr,
            idx=self.device.empty(nnz, np.int32),
            val=self.device.empty(nnz),
        )
        self.device.run(
            "transpose",
            nnz,
            n=nnz,
            n_segments=len(ptr) - 1,
            order=self.device.argsort(idx),
            ptr=ptr,
            val=val,
            out_idx=out.idx,
            out_val=out.val,
        )
        return out

    @cached
    def sizes(self) -> RowSizes:
        """What the norm of each row is made of, without overflow."""
        sizes = RowSizes(
            largest=self.device.empty(self.n),
            second=self.device.empty(self.n),
            fourth=self.device.empty(self.n),
        )
        self.device.run(
            "row_sizes",
            self.n,
            n_rows=self.n,
            ptr=self.by_row.ptr,
            val=self.by_row.val,
            largest=sizes.largest,
            second=sizes.second,
            fourth=sizes.fourth,
        )
        return sizes

    def values_per_row(self) -> np.ndarray:
        """Return how many values each row has, rare columns included."""
        return np.diff(self.device.download(self.by_row.ptr))
