"""Rows in two blocks: sparse features, and a dense embedding of the same rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp


@dataclass(frozen=True)
class MixedRows:
    """Rows with sparse features first and the columns of a dense embedding after them.

    Parameters
    ----------
    sparse : csr_array of shape (n_rows, n_sparse)
    dense : ndarray of shape (n_rows, n_dense)

    Examples
    --------
    >>> X = MixedRows(sp.csr_array([[1.0, 0.0], [0.0, 2.0]]), np.array([[3.0], [4.0]]))
    >>> X.shape, X[[1]].to_sparse().toarray().tolist()
    ((2, 3), [[0.0, 2.0, 4.0]])
    """

    sparse: sp.csr_array
    dense: np.ndarray

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows, and of columns of both blocks together."""
        n_rows, n_sparse = self.sparse.shape
        return n_rows, n_sparse + self.dense.shape[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of both blocks together."""
        return np.result_type(self.sparse.dtype, self.dense.dtype)

    def __iter__(self) -> Iterator[Any]:
        """Yield the sparse and the dense block, so that mixed rows are a pair."""
        yield self.sparse
        yield self.dense

    def __sizeof__(self) -> int:
        # Dask weighs moves by it.
        sparse = self.sparse
        n_bytes = sparse.data.nbytes + sparse.indices.nbytes + sparse.indptr.nbytes
        return int(n_bytes + self.dense.nbytes)

    def __getitem__(self, rows: Any) -> MixedRows:
        """Return some of the rows."""
        return MixedRows(self.sparse[rows], self.dense[rows])

    def map(self, function: Callable[[Any], Any]) -> MixedRows:
        """Return what a function makes of each block."""
        return MixedRows(function(self.sparse), function(self.dense))

    def astype(self, dtype: Any) -> MixedRows:
        """Return the rows with another dtype."""
        return self.map(lambda block: block.astype(dtype, copy=False))

    def with_embedding_weight(self, weight: float) -> MixedRows:
        """Return rows in whose dot products that of the embedding has a weight."""
        root = self.dense.dtype.type(math.sqrt(weight))
        return MixedRows(self.sparse, self.dense * root)

    def to_sparse(self) -> sp.csr_array:
        """Return all columns as one sparse matrix; zeros of the embedding are not stored."""
        blocks = [self.sparse, sp.csr_array(self.dense)]
        return sp.csr_array(sp.hstack(blocks, format="csr"))


def blocks_of(X: Any) -> list[Any]:
    """Return the blocks of rows: two of mixed rows, else the rows themselves."""
    if isinstance(X, MixedRows):
        return [X.sparse, X.dense]
    return [X]


def sparse_block(X: Any) -> Any:
    """Return the sparse features of mixed rows; other rows as they are."""
    if isinstance(X, MixedRows):
        return X.sparse
    return X


def count_features(X: Any) -> np.ndarray:
    """Return how many sparse features each row has a value of.

    Examples
    --------
    >>> X = MixedRows(sp.csr_array([[1.0, 0.0], [0.0, 0.0]]), np.ones((2, 3)))
    >>> count_features(X).tolist()
    [1, 0]
    """
    return np.diff(sparse_block(X).indptr)


def is_empty(row: Any) -> bool:
    """Return whether a row has no value.

    Examples
    --------
    >>> is_empty(MixedRows(sp.csr_array((1, 4)), np.array([[0.0, 2.0]])))
    False
    """
    if isinstance(row, MixedRows):
        return row.sparse.nnz == 0 and not row.dense.any()
    return row.nnz == 0


def stack_rows(X: Any, Y: Any) -> Any:
    """Return the rows of X and then those of Y, both sparse or both mixed.

    Examples
    --------
    >>> X = MixedRows(sp.csr_array([[1.0, 0.0]]), np.ones((1, 3)))
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
    if isinstance(blocks[0], MixedRows):
        sparse = stack_all([block.sparse for block in blocks])
        return MixedRows(sparse, np.vstack([block.dense for block in blocks]))
    return sp.csr_array(sp.vstack(blocks, format="csr"))


def features_as_float64(X: Any) -> Any:
    """Return rows with features in float64; an embedding beside them keeps its dtype."""
    if isinstance(X, MixedRows):
        return MixedRows(features_as_float64(X.sparse), X.dense)
    return X.astype(np.float64, copy=False)


def split_columns(X: Any, n_sparse: int) -> MixedRows:
    """Return rows with their columns from `n_sparse` on as a dense block.

    Examples
    --------
    >>> split_columns(np.array([[1.0, 0.0, 5.0]]), 2).dense.tolist()
    [[5.0]]
    """
    if isinstance(X, MixedRows):
        return X
    dense = X[:, n_sparse:]
    if sp.issparse(dense):
        dense = dense.toarray()
    return MixedRows(sp.csr_array(X[:, :n_sparse]), np.ascontiguousarray(dense))


def has_embedding(X: Any) -> bool:
    """Return whether rows have an embedding beside them: mixed rows, or a pair.

    Examples
    --------
    >>> has_embedding((sp.csr_array((2, 5)), np.ones((2, 3)))), has_embedding(np.ones((2, 3)))
    (True, False)
    """
    return isinstance(X, MixedRows) or is_pair(X)


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
