"""Rows of an index on the card, laid out for searches by chunks of rows."""

import numpy as np
import scipy.sparse as sp

from .rows import Sparse
from .runtime import WARPS, Array, Device
from .search_lists import LEVELS, CardLists, QueryPlaces

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
