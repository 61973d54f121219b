"""Rows of X on a card, by rows and by columns."""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from ..cached import cached
from ..input.matrices import largest_value
from ..layout.feature_numbers import column_keys, number_features
from ..wide_matrices import is_wide
from .runtime import Array, Device
from .segments import Segments

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
