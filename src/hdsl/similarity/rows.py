"""Rows divided by their lengths."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

#: Rows that are scaled at a time: what is computed of them stays in a cache.
PART_ROWS = 4096


def unit_rows(X: Any, columns: np.ndarray | None = None) -> Any:
    """Return the rows of X divided by their Euclidean length over some columns.

    A row without a value in these columns stays as it is.

    Parameters
    ----------
    X : ndarray or sparse array of shape (n_rows, n_features)
    columns : ndarray, default=None
        Sorted; None is all.

    Examples
    --------
    >>> unit_rows(np.array([[3.0, 4.0, 12.0]]), np.array([0, 1])).tolist()
    [[0.6, 0.8, 2.4]]
    """
    if not sp.issparse(X):
        counted = X if columns is None else X[:, columns]
        largest = np.abs(counted).max(axis=1, initial=0.0)
        scaled = counted / np.where(largest > 0.0, largest, 1.0)[:, None]
        return divide_rows(X, _lengths(largest, np.square(scaled).sum(axis=1)))
    largest = np.zeros(X.shape[0], dtype=X.dtype)
    squares = np.zeros(X.shape[0])
    for rows, entries, counts in _parts(X):
        values = np.abs(X.data[entries])
        if columns is not None:
            place = np.minimum(
                np.searchsorted(columns, X.indices[entries]), len(columns) - 1
            )
            values[columns[place] != X.indices[entries]] = 0.0
        full = np.flatnonzero(counts)
        if len(full):
            first = (X.indptr[rows] - entries.start)[full]
            at = rows.start + full
            largest[at] = np.maximum.reduceat(values, first)
            unit = np.where(largest[rows] > 0.0, largest[rows], 1.0)
            values = values / np.repeat(unit, counts)
            squares[at] = np.add.reduceat(np.square(values, dtype=np.float64), first)
    return divide_rows(X, _lengths(largest, squares))


def _lengths(largest: np.ndarray, squares: np.ndarray) -> np.ndarray:
    """Return the length of each row, 1 for an empty one; squares are relative to the largest."""
    return np.where(largest > 0.0, largest * np.sqrt(squares), 1.0)


def lengths_from_squares(squares: np.ndarray) -> np.ndarray:
    """Return the lengths of rows from their S(x, x), 1 for a row without."""
    return np.sqrt(np.where(squares > 0.0, squares, 1.0))


def divide_rows(X: Any, lengths: np.ndarray) -> Any:
    """Return the rows of X, each divided by its own number, in the dtype of X."""
    lengths = lengths.astype(X.dtype)
    if not sp.issparse(X):
        return X / lengths[:, None]
    data = np.empty(X.nnz, dtype=np.result_type(X.data, lengths))
    for rows, entries, counts in _parts(X):
        np.divide(X.data[entries], np.repeat(lengths[rows], counts), out=data[entries])
    return sp.csr_array((data, X.indices, X.indptr), shape=X.shape)


def _parts(X: sp.csr_array) -> Iterator[tuple[slice, slice, np.ndarray]]:
    """Yield a few thousand rows at a time, their entries, and how many each row has."""
    for start in range(0, X.shape[0], PART_ROWS):
        rows = slice(start, min(start + PART_ROWS, X.shape[0]))
        ends = X.indptr[start : rows.stop + 1]
        yield rows, slice(int(ends[0]), int(ends[-1])), np.diff(ends)
