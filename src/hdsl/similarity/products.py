"""Dot products of rows, and what is checked of them."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from ..rows import ROWS_AT_A_TIME, Rows, blocks_of
from ..wide_matrices import drop_unused_columns


def products(A: Any, B: Any) -> np.ndarray:
    """Return the dot products of all rows of A with all rows of B, dense; they may overflow.

    Examples
    --------
    >>> products(sp.csr_array([[1.0, 2.0]]), np.array([[3.0, 0.0], [0.0, 4.0]])).tolist()
    [[3.0, 8.0]]
    """
    if isinstance(A, Rows):
        dense = products(A.dense.astype(np.float64), B.dense.astype(np.float64))
        sums = products(A.sparse, B.sparse) + dense
        return sums.astype(np.result_type(A.dtype, B.dtype), copy=False)
    if sp.issparse(A) and sp.issparse(B):
        (A, B), _ = drop_unused_columns(sp.csr_array(A), sp.csr_array(B))
    with np.errstate(over="ignore", invalid="ignore"):
        all_products = A @ B.T
    if sp.issparse(all_products):
        return all_products.toarray()
    return np.asarray(all_products)


def row_products(A: Any, B: Any) -> np.ndarray:
    """Return the dot product of each row of A with the same row of B; it may overflow.

    Examples
    --------
    >>> row_products(sp.csr_array([[1.0, 2.0], [0.0, 5.0]]), np.array([[3.0, 4.0]] * 2)).tolist()
    [11.0, 20.0]
    """
    if isinstance(A, Rows):
        dense = dense_row_products(A.dense, B.dense)
        sums = row_products(A.sparse, B.sparse) + dense
        return sums.astype(np.result_type(A.dtype, B.dtype), copy=False)
    with np.errstate(over="ignore", invalid="ignore"):
        if not (sp.issparse(A) or sp.issparse(B)):
            return np.einsum("ij,ij->i", A, B)
        if A is B:
            squares = sp.csr_array((np.square(A.data), A.indices, A.indptr), A.shape)
            return np.asarray(squares.sum(axis=1))
        (A, B), _ = drop_unused_columns(sp.csr_array(A), sp.csr_array(B))
        return np.asarray(A.multiply(B).sum(axis=1)).ravel()


def dense_row_products(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Return the dot products of rows of embeddings, summed in float64, some at a time."""
    sums = np.empty(len(A))
    for start in range(0, len(A), ROWS_AT_A_TIME):
        rows = slice(start, start + ROWS_AT_A_TIME)
        left = A[rows].astype(np.float64)
        right = B[rows].astype(np.float64)
        sums[rows] = np.einsum("ij,ij->i", left, right)
    return sums


def check_result(Z: Any, what: str) -> Any:
    """Return Z, computed from finite rows; raise ValueError if it overflowed."""
    if isinstance(Z, Rows):
        for block in blocks_of(Z):
            check_result(block, what)
        return Z
    values = Z
    if sp.issparse(Z):
        values = Z.data
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum()) or np.isfinite(values).all():
            return Z
    ways = "scale X to smaller values"
    if values.dtype == np.float32:
        ways += " or pass it as float64"
    raise ValueError(f"{what} is too large for {values.dtype}: {ways}.")
