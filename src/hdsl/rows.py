"""Rows in two blocks, sparse features and a dense embedding, and rows at unit length."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp


class Rows:
    """Rows of words and vectors: sparse features, and a dense embedding beside them.

    Pass them wherever `hdsl` takes rows. `train_test_split`, `cross_val_score`,
    `GridSearchCV` and `Pipeline` of scikit-learn split and pass them like a matrix.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_rows, n_features)
        Features of the rows, such as words or codes.
    Z : array-like of shape (n_rows, width)
        The embedding of the same rows.

    Attributes
    ----------
    sparse : csr_array of shape (n_rows, n_features)
    dense : ndarray of shape (n_rows, width)

    Examples
    --------
    >>> from hdsl import Rows
    >>> rows = Rows([[1.0, 0.0], [0.0, 2.0]], [[3.0], [4.0]])
    >>> rows
    <Rows of shape (2, 3): 2 sparse features, then an embedding of width 1>
    >>> rows.shape, len(rows), rows[[1]].dense.tolist()
    ((2, 3), 2, [[4.0]])
    """

    sparse: sp.csr_array
    dense: np.ndarray

    def __init__(self, X: Any, Z: Any) -> None:
        for block in (X, Z):
            if hasattr(block, "__dask_graph__"):
                raise TypeError(
                    "Rows hold features and an embedding that are in memory. Got a "
                    "Dask collection: hdsl.dask.HDSL takes the tuple (X, Z) of such, "
                    "or call compute() first."
                )
        if sp.issparse(Z):
            raise ValueError(
                f"An embedding is dense. Got a sparse one of shape {Z.shape}: is the "
                "order right? Features come first, then the embedding."
            )
        self.sparse = _as_csr(X)
        self.dense = np.asarray(Z)
        if self.dense.ndim != 2:
            raise ValueError(
                f"An embedding must have shape (n_rows, width). Got shape "
                f"{self.dense.shape}."
            )
        if len(self.dense) != self.sparse.shape[0]:
            raise ValueError(
                f"Features and embedding must be of the same rows. Got "
                f"{self.sparse.shape[0]} rows of features and {len(self.dense)} of the "
                "embedding."
            )

    @classmethod
    def stack(cls, blocks: Sequence[Rows]) -> Rows:
        """Return the rows of all blocks, one after the other.

        Examples
        --------
        >>> rows = Rows([[1.0, 0.0]], [[3.0]])
        >>> Rows.stack([rows, rows]).shape
        (2, 3)
        """
        sparse = stack_all([block.sparse for block in blocks])
        return cls(sparse, np.vstack([block.dense for block in blocks]))

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows, and of columns of both blocks together."""
        n_rows, n_features = self.sparse.shape
        return n_rows, n_features + self.dense.shape[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of both blocks together."""
        return np.result_type(self.sparse.dtype, self.dense.dtype)

    def __len__(self) -> int:
        """Return the number of rows."""
        return int(self.sparse.shape[0])

    def __repr__(self) -> str:
        return (
            f"<Rows of shape {self.shape}: {self.sparse.shape[1]:,} sparse features, "
            f"then an embedding of width {self.dense.shape[1]:,}>"
        )

    def __sizeof__(self) -> int:
        # Dask weighs moves by it.
        sparse = self.sparse
        n_bytes = sparse.data.nbytes + sparse.indices.nbytes + sparse.indptr.nbytes
        return int(n_bytes + self.dense.nbytes)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        raise TypeError(
            "Rows of words and vectors are not an array: pass them to hdsl, or use "
            "their blocks, rows.sparse and rows.dense, or rows.to_sparse() with all "
            "columns. They are not a frame either: set_output(transform='default')."
        )

    def __iter__(self) -> Iterator[Rows]:
        """Yield one row at a time, as Rows."""
        for row in range(len(self)):
            yield self[row]

    def __getitem__(self, key: Any) -> Rows:
        """Return some of the rows: by numbers, a mask or a slice; a number gives one row."""
        rows = _row_key(key)
        return Rows(self.sparse[rows], self.dense[rows])

    def map(self, function: Callable[[Any], Any]) -> Rows:
        """Return what a function makes of each block."""
        return Rows(function(self.sparse), function(self.dense))

    def astype(self, dtype: Any) -> Rows:
        """Return the rows with another dtype."""
        return self.map(lambda block: block.astype(dtype, copy=False))

    def with_embedding_weight(self, weight: float) -> Rows:
        """Return rows in whose dot products that of the embedding has a weight."""
        root = self.dense.dtype.type(math.sqrt(weight))
        return Rows(self.sparse, self.dense * root)

    def to_sparse(self) -> sp.csr_array:
        """Return all columns as one sparse matrix; zeros of the embedding are not stored."""
        blocks = [self.sparse, sp.csr_array(self.dense)]
        return sp.csr_array(sp.hstack(blocks, format="csr"))


def _as_csr(X: Any) -> sp.csr_array:
    """Return features as a CSR array; an array shares the memory of one."""
    if isinstance(X, sp.csr_array):
        return X
    if not sp.issparse(X):
        X = np.asarray(X)
    if len(X.shape) != 2:
        raise ValueError(
            f"Features must have shape (n_rows, n_features). Got shape {X.shape}."
        )
    return sp.csr_array(X)


def _row_key(key: Any) -> Any:
    """Return what selects rows of both blocks; scikit-learn indexes by (rows, ...)."""
    if isinstance(key, tuple):
        if len(key) != 2 or not (key[1] is Ellipsis or key[1] == slice(None)):
            raise IndexError(
                "Rows have no columns to select: use rows.sparse and rows.dense."
            )
        key, _ = key
    if isinstance(key, slice):
        return key
    numbers = np.asarray(key)
    if numbers.ndim == 0:
        return np.array([operator.index(key)])
    if numbers.size == 0:
        return numbers.astype(np.intp)
    return numbers


def blocks_of(X: Any) -> list[Any]:
    """Return the blocks of rows: two of mixed rows, else the rows themselves."""
    if isinstance(X, Rows):
        return [X.sparse, X.dense]
    return [X]


def sparse_block(X: Any) -> Any:
    """Return the sparse features of mixed rows; other rows as they are."""
    if isinstance(X, Rows):
        return X.sparse
    return X


def count_features(X: Any) -> np.ndarray:
    """Return how many sparse features each row has a value of.

    Examples
    --------
    >>> X = Rows(sp.csr_array([[1.0, 0.0], [0.0, 0.0]]), np.ones((2, 3)))
    >>> count_features(X).tolist()
    [1, 0]
    """
    return np.diff(sparse_block(X).indptr)


def is_empty(row: Any) -> bool:
    """Return whether a row has no value.

    Examples
    --------
    >>> is_empty(Rows(sp.csr_array((1, 4)), np.array([[0.0, 2.0]])))
    False
    """
    if isinstance(row, Rows):
        return row.sparse.nnz == 0 and not row.dense.any()
    return row.nnz == 0


def stack_rows(X: Any, Y: Any) -> Any:
    """Return the rows of X and then those of Y, both sparse or both mixed.

    Examples
    --------
    >>> X = Rows(sp.csr_array([[1.0, 0.0]]), np.ones((1, 3)))
    >>> stack_rows(X, X).shape
    (2, 5)
    """
    return stack_all([X, Y])


def stack_all(blocks: Sequence[Any]) -> Any:
    """Return the rows of all blocks, one after the other; all are sparse or all mixed.

    Examples
    --------
    >>> stack_all([sp.csr_array(np.eye(2)), sp.csr_array(np.ones((1, 2)))]).shape
    (3, 2)
    """
    if isinstance(blocks[0], Rows):
        return Rows.stack(blocks)
    return sp.csr_array(sp.vstack(blocks, format="csr"))


def features_as_float64(X: Any) -> Any:
    """Return rows with features in float64; an embedding beside them keeps its dtype."""
    if isinstance(X, Rows):
        return Rows(features_as_float64(X.sparse), X.dense)
    return X.astype(np.float64, copy=False)


def split_columns(X: Any, n_sparse: int) -> Rows:
    """Return rows with their columns from `n_sparse` on as a dense block.

    Examples
    --------
    >>> split_columns(np.array([[1.0, 0.0, 5.0]]), 2).dense.tolist()
    [[5.0]]
    """
    if isinstance(X, Rows):
        return X
    dense = X[:, n_sparse:]
    if sp.issparse(dense):
        dense = dense.toarray()
    return Rows(sp.csr_array(X[:, :n_sparse]), np.ascontiguousarray(dense))


def has_embedding(X: Any) -> bool:
    """Return whether rows have an embedding beside them: Rows, or a pair.

    Examples
    --------
    >>> has_embedding((sp.csr_array((2, 5)), np.ones((2, 3)))), has_embedding(np.ones((2, 3)))
    (True, False)
    """
    return isinstance(X, Rows) or is_pair(X)


def is_pair(X: Any) -> bool:
    """Return whether X is a tuple (sparse features, dense embedding) of two matrices.

    Examples
    --------
    >>> is_pair((sp.csr_array((2, 5)), np.ones((2, 3)))), is_pair(([1.0, 2.0], [3.0, 4.0]))
    (True, False)
    """
    if not isinstance(X, tuple) or len(X) != 2:
        return False
    return sp.issparse(X[0]) or all(
        len(getattr(block, "shape", ())) == 2 for block in X
    )


# --- unit length ----------------------------------------------------------------------

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
    return largest * np.sqrt(np.square(relative).sum(axis=1))  # nothing overflows


def _lengths_of_sparse(X: sp.csr_array, columns: np.ndarray | None) -> np.ndarray:
    """Return the length of each row of a sparse X over some columns."""
    largest = np.zeros(X.shape[0], dtype=X.dtype)
    squares = np.zeros(X.shape[0])
    for rows, entries, counts in _spans(X):
        values = np.abs(X.data[entries])
        if columns is not None:
            values[~_is_among(X.indices[entries], columns)] = 0.0
        filled = np.flatnonzero(counts)
        if not len(filled):
            continue
        first_entries = (X.indptr[rows] - entries.start)[filled]
        filled_rows = rows.start + filled
        largest[filled_rows] = np.maximum.reduceat(values, first_entries)
        relative = values / np.repeat(_ones_for_zeros(largest[rows]), counts)
        squares[filled_rows] = np.add.reduceat(
            np.square(relative, dtype=np.float64), first_entries
        )
    return largest * np.sqrt(squares)


def _is_among(indices: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Return whether each index is one of some sorted columns."""
    if not len(columns):
        return np.zeros(len(indices), dtype=bool)
    positions = np.searchsorted(columns, indices).clip(max=len(columns) - 1)
    return columns[positions] == indices


def _ones_for_zeros(values: np.ndarray) -> np.ndarray:
    """Return what is divided by: values that are not negative, 1 instead of 0."""
    return np.where(values > 0.0, values, 1.0)


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
    for rows, entries, counts in _spans(X):
        divisors = np.repeat(lengths[rows], counts)
        np.divide(X.data[entries], divisors, out=data[entries])
    return sp.csr_array((data, X.indices, X.indptr), shape=X.shape)


def _spans(X: sp.csr_array) -> Iterator[tuple[slice, slice, np.ndarray]]:
    """Yield a few thousand rows of X, their stored values, and how many each row has."""
    for start in range(0, X.shape[0], ROWS_AT_A_TIME):
        stop = min(start + ROWS_AT_A_TIME, X.shape[0])
        ends = X.indptr[start : stop + 1]
        entries = slice(int(ends[0]), int(ends[-1]))
        yield slice(start, stop), entries, np.diff(ends)
