"""Rows divided by their lengths."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..rows import Rows, blocks_of

#: Rows that are scaled at a time: what is computed of them stays in a cache.
ROWS_AT_A_TIME = 4096


def unit_rows(X: Any, columns: np.ndarray | None = None) -> Any:
    """Return the rows of X divided by their Euclidean length over some columns.

    A row without a value in these columns stays as it is.

    Parameters
    ----------
    X : ndarray, sparse array or Rows of shape (n_rows, n_features)
    columns : ndarray, default=None
        Sorted; None is all. Mixed rows take None.

    Examples
    --------
    >>> unit_rows(np.array([[3.0, 4.0, 12.0]]), np.array([0, 1])).tolist()
    [[0.6, 0.8, 2.4]]
    """
    lengths = np.zeros(X.shape[0])
    for block in blocks_of(X):
        lengths = np.hypot(lengths, _lengths(block, columns))
    return divide_rows(X, _ones_for_zeros(lengths))


def _lengths(X: Any, columns: np.ndarray | None) -> np.ndarray:
    """Return the length of each row over some columns."""
    if sp.issparse(X):
        return _lengths_of_sparse(X, columns)
    return _lengths_of_dense(X, columns)


def _lengths_of_dense(X: np.ndarray, columns: np.ndarray | None) -> np.ndarray:
    """Return the length of each row of a dense X over some columns."""
    if columns is not None:
        X = X[:, columns]
    largest = np.abs(X).max(axis=1, initial=0.0)
    relative = X / _ones_for_zeros(largest)[:, None]
    return _lengths_of_relative(largest, np.square(relative).sum(axis=1))


def _lengths_of_sparse(X: sp.csr_array, columns: np.ndarray | None) -> np.ndarray:
    """Return the length of each row of a sparse X over some columns."""
    largest = np.zeros(X.shape[0], dtype=X.dtype)
    squares = np.zeros(X.shape[0])
    for span in _spans(X):
        values = np.abs(X.data[span.entries])
        if columns is not None:
            values[~_is_among(X.indices[span.entries], columns)] = 0.0
        filled = np.flatnonzero(span.counts)
        if not len(filled):
            continue
        first_entries = (X.indptr[span.rows] - span.entries.start)[filled]
        filled_rows = span.rows.start + filled
        largest[filled_rows] = np.maximum.reduceat(values, first_entries)
        relative = values / np.repeat(_ones_for_zeros(largest[span.rows]), span.counts)
        squares[filled_rows] = np.add.reduceat(
            np.square(relative, dtype=np.float64), first_entries
        )
    return _lengths_of_relative(largest, squares)


def _is_among(indices: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Return whether each index is one of some sorted columns."""
    if not len(columns):
        return np.zeros(len(indices), dtype=bool)
    positions = np.searchsorted(columns, indices).clip(max=len(columns) - 1)
    return columns[positions] == indices


def _ones_for_zeros(values: np.ndarray) -> np.ndarray:
    """Return what is divided by: values that are not negative, 1 instead of 0."""
    return np.where(values > 0.0, values, 1.0)


def _lengths_of_relative(largest: np.ndarray, squares: np.ndarray) -> np.ndarray:
    """Return the length of each row.

    `squares` is the sum of squares in relation to the largest value, which cannot
    overflow.
    """
    return largest * np.sqrt(squares)


def lengths_from_squares(squares: np.ndarray) -> np.ndarray:
    """Return the lengths of rows from their S(x, x), 1 for a row without."""
    return np.sqrt(_ones_for_zeros(squares))


def divide_rows(X: Any, lengths: np.ndarray) -> Any:
    """Return the rows of X, each divided by its own number, in the dtype of X."""
    if isinstance(X, Rows):
        return X.map(lambda block: divide_rows(block, lengths))
    lengths = lengths.astype(X.dtype)
    if not sp.issparse(X):
        return X / lengths[:, None]
    data = np.empty(X.nnz, dtype=np.result_type(X.data, lengths))
    for span in _spans(X):
        divisors = np.repeat(lengths[span.rows], span.counts)
        np.divide(X.data[span.entries], divisors, out=data[span.entries])
    return sp.csr_array((data, X.indices, X.indptr), shape=X.shape)


class _Span(NamedTuple):
    """Consecutive rows of a CSR matrix, their stored values, and how many each row has."""

    rows: slice
    entries: slice
    counts: np.ndarray


def _spans(X: sp.csr_array) -> Iterator[_Span]:
    """Yield a few thousand rows of X at a time."""
    for start in range(0, X.shape[0], ROWS_AT_A_TIME):
        stop = min(start + ROWS_AT_A_TIME, X.shape[0])
        ends = X.indptr[start : stop + 1]
        entries = slice(int(ends[0]), int(ends[-1]))
        yield _Span(slice(start, stop), entries, np.diff(ends))
