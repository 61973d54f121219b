"""Sparse matrices on the card, laid out for segmented sums."""

import numpy as np

from .runtime import THREADS, Array, Device

#: Columns of numbers that are summed side by side, as in the kernels.
WIDTH = 8

#: Threads that share a segment, as in the kernels.
LANES = 8

#: Chunks have about as many entries as so many groups of threads need to share the
#: work.
GROUPS = 1 << 14
SHORTEST = 32
LONGEST = 256


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
    block : int
        Chunks do not cross multiples of this index: so many entries of what is gathered
        from fit in the card's cache.

    Attributes
    ----------
    n_slots : int
        Room that chunks need, in numbers per column.
    """

    def __init__(
        self,
        device: Device,
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
        wanted = int(ptr[-1]) // GROUPS
        self.limit = min(max(1 << max(wanted - 1, 0).bit_length(), SHORTEST), LONGEST)
        length = np.diff(ptr)
        is_long = length > self.limit
        segments = np.flatnonzero(is_long)
        long_of = np.cumsum(is_long, dtype=np.int32) - np.int32(1)
        *chunks, slots = self._chunks(
            segments, ptr, max(n_source - 1, 0) // block, block
        )
        self.n_chunks = self.n_slots = len(chunks[0])
        self.long_of = device.upload(long_of)
        self.long_ptr = device.upload(slots)
        self.chunk_first, self.chunk_last, self.chunk_slot = map(device.upload, chunks)

    def _chunks(
        self, segments: np.ndarray, ptr: np.ndarray, n_cuts: int, block: int
    ) -> tuple[np.ndarray, ...]:
        """Return first, last and slot of the chunks by blocks, and the slots of each segment."""
        n = len(segments)
        if not n:
            nothing = np.zeros(0, dtype=np.int64)
            return nothing, nothing, nothing.astype(np.int32), np.zeros(1, np.int64)
        ends = np.empty((n, n_cuts + 2), dtype=np.int64)
        ends[:, 0] = ptr[segments]
        ends[:, -1] = ptr[segments + 1]
        if n_cuts:
            cuts = self.device.empty(n * n_cuts, np.int64)
            self.device.run(
                "cut_segments",
                n * n_cuts,
                n,
                n_cuts,
                block,
                self.device.upload(segments),
                self.ptr,
                self.idx,
                cuts,
            )
            ends[:, 1:-1] = self.device.download(cuts).reshape(n, n_cuts)
        first = ends[:, :-1].ravel()
        last = ends[:, 1:].ravel()
        counts = -(-(last - first) // self.limit)
        piece = np.repeat(np.arange(len(first)), counts)
        number = np.arange(len(piece)) - np.repeat(np.cumsum(counts) - counts, counts)
        chunk_first = first[piece] + number * self.limit
        chunk_last = np.minimum(chunk_first + self.limit, last[piece])
        per_segment = counts.reshape(n, n_cuts + 1).sum(axis=1)
        segment_ptr = np.concatenate([[0], np.cumsum(per_segment)])
        order = np.argsort(piece % (n_cuts + 1), kind="stable")
        return (
            chunk_first[order],
            chunk_last[order],
            order.astype(np.int32),
            segment_ptr,
        )

    @property
    def entries(self) -> tuple[Array, ...]:
        """What kernels need to find the entries of a segment."""
        return self.n, self.ptr, self.limit, self.long_of, self.long_ptr, self.idx

    def sum(
        self,
        query: Array | None,
        source: Array,
        slots: Array,
        out: Array | None,
        *,
        val: Array | None = None,
        absolute: bool = False,
    ) -> None:
        """Queue the sums of all segments, for the columns of a query or for one.

        Without `out` those of the chunks are queued alone.
        """
        val = self.val if val is None else val
        groups = {"per_block": THREADS // LANES}
        given = val, source, int(absolute), slots
        if self.n_chunks:
            chunks = (
                self.n_chunks,
                self.chunk_first,
                self.chunk_last,
                self.chunk_slot,
                self.idx,
            )
            self.device.run(
                "gather_chunks", self.n_chunks, query, *chunks, *given, **groups
            )
        if out is not None:
            self.device.run(
                "gather_dense", self.n, query, *self.entries, *given, out, **groups
            )


def cut_to_fit(sizes: np.ndarray, room: float) -> np.ndarray:
    """Return where blocks begin that fit in the room, or have one size only, and the end."""
    upto = np.cumsum(sizes)
    bounds = [0]
    while bounds[-1] < len(sizes):
        before = upto[bounds[-1] - 1] if bounds[-1] else 0
        end = int(np.searchsorted(upto, before + room, side="right"))
        bounds.append(max(end, bounds[-1] + 1))
    return np.array(bounds)
