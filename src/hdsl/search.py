"""The k largest inner products between rows, exact, by blocks of queries, never n × n."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from . import user_input
from .backends.cpu.workers import Workers

#: Time of one step by rows (WIDTH products) against one step by columns (one product, scattered).
ROW_STEP_COST = 0.3

#: The same for `top_k`, and what it takes to look at one row: of a query, and of WIDTH queries.
TOP_K_ROW_STEP_COST, TOP_K_LOOK_COST, TOP_K_BLOCK_LOOK_COST = 1.3, 0.2, 2.5

#: Inner products of dense rows that are formed at a time: 32 MiB.
DENSE_BLOCK = 2**22


class Neighbors(NamedTuple):
    """Rows of the index and their inner products, best first; `size` of them are valid."""

    scores: np.ndarray
    rows: np.ndarray
    size: np.ndarray


def top_k(
    queries: Any, index: Any, k: int, *, exclude_self: bool = False, n_jobs: int | None = None
) -> Neighbors:
    """Find, for each query, the k rows of the index of largest inner product.

    The answer is exact and the same on any number of threads. Of rows with equal inner products
    the one of smaller number comes first. Rows that share no feature with a query have the inner
    product 0 and their place among the others: before those with a negative one.

    To search by a learned similarity, rewrite the queries and leave the index as it is:
    ``top_k(model.rewrite(Q), X, k)``. That takes fewer products than to transform both.

    Parameters
    ----------
    queries : array or sparse matrix of shape (n_queries, n_features)
    index : array or sparse matrix of shape (n_rows, n_features)
    k : int
        Where the index has fewer rows, all of them are found; `size` says how many.
    exclude_self : bool, default=False
        Query r is row r of the index, and no neighbour of its own.
    n_jobs : int, default=None
        Threads. Two dense matrices are multiplied by BLAS, on as many threads as it is set to.

    Returns
    -------
    Neighbors
        ``scores`` (float64) and ``rows`` of shape (n_queries, k), ``size`` of shape (n_queries,).
        Places past `size` hold -inf and -1.

    Examples
    --------
    >>> index = np.array([[1.0, 0], [0, 2], [1, 1], [-1, 0]])
    >>> found = top_k(np.array([[1.0, 0]]), index, k=3)
    >>> found.rows.tolist(), found.scores.tolist()
    ([[0, 2, 1]], [[1.0, 1.0, 0.0]])
    """
    user_input.check_number("top_k", "k", k, low=1, integer=True)
    queries, index = _matrix(queries, "queries"), _matrix(index, "index")
    m, n = queries.shape[0], index.shape[0]
    if queries.shape[1] != index.shape[1]:
        raise ValueError(
            f"queries has {queries.shape[1]} features and index has {index.shape[1]}: they must "
            "be the same features, in the same order."
        )
    if exclude_self and m != n:
        raise ValueError(
            f"exclude_self=True says that query r is row r of the index, but there are {m} "
            f"queries and {n} rows. Pass the rows of the index as queries, or exclude_self=False."
        )
    found = _empty(m, int(k))
    if m == 0:
        return found
    _check_sizes(queries, index)
    with Workers(n_jobs) as workers:
        if sp.issparse(queries) or sp.issparse(index):
            _top_k_sparse(
                sp.csr_array(queries), sp.csr_array(index), bool(exclude_self), workers, found
            )
        else:
            _top_k_dense(queries, index, bool(exclude_self), workers, found)
    return found


def _top_k_sparse(
    queries: sp.csr_array, index: sp.csr_array, own: bool, workers: Workers, found: Neighbors
) -> None:
    from .backends.cpu import search_kernels as kernels

    queries, index, frequency = _on_shared_columns(queries, index)
    m, n = queries.shape[0], index.shape[0]
    n_blocks = -(-m // kernels.WIDTH)
    by_columns = float(frequency[queries.indices].sum(dtype=np.float64)) + TOP_K_LOOK_COST * m * n
    by_rows = n_blocks * (TOP_K_ROW_STEP_COST * index.nnz + TOP_K_BLOCK_LOOK_COST * n)
    if by_columns + index.nnz <= by_rows:  # the index has to be sorted by columns first
        workers.run(
            kernels.top_k_by_columns, workers.pieces(m), *_arrays(queries),
            *_arrays(index.tocsc()), n, own, *found,
        )  # fmt: skip
    else:
        workers.run(
            kernels.top_k_by_rows, workers.pieces(n_blocks), *_arrays(queries), *_arrays(index),
            index.shape[1], own, *found,
        )  # fmt: skip


def _top_k_dense(
    queries: np.ndarray, index: np.ndarray, own: bool, workers: Workers, found: Neighbors
) -> None:
    from .backends.cpu import search_kernels as kernels

    # In float64 also where the rows are float32: neighbours must not depend on rounding.
    columns = index.T.astype(np.float64, copy=False)
    size = max(1, DENSE_BLOCK // max(1, index.shape[0]))
    for first in range(0, len(queries), size):
        sums = queries[first : first + size].astype(np.float64, copy=False) @ columns
        workers.run(kernels.top_k_of_sums, workers.pieces(len(sums)), sums, first, own, *found)


def neighbors_by_label(
    X: sp.csr_array, labels: np.ndarray, n_same: int, n_other: int, *, n_jobs: int | None = None
) -> tuple[Neighbors, Neighbors]:
    """Find, for each row, the nearest rows of the same label and those of other labels.

    Nearest is of largest inner product, the smaller row number of equals. A row is no neighbour of
    its own.

    Parameters
    ----------
    X : csr_array of shape (n_rows, n_features), float64
    labels : ndarray of shape (n_rows,)
        Class numbers.
    n_same, n_other : int
        Neighbours wanted of the two kinds.
    n_jobs : int, default=None

    Returns
    -------
    same, other : Neighbors
    """
    from .backends.cpu import (
        search_kernels as kernels,  # compiled code is loaded when it is first needed
    )

    n = X.shape[0]
    labels = labels.astype(np.int64)
    same, other = _empty(n, n_same), _empty(n, n_other)
    X, _, frequency = _on_shared_columns(X, X)
    n_blocks = -(-n // kernels.WIDTH)
    by_columns = float(frequency[X.indices].sum(dtype=np.float64)) + n * n
    by_rows = ROW_STEP_COST * X.nnz * n_blocks
    with Workers(n_jobs) as workers:
        if by_columns <= by_rows:
            workers.run(
                kernels.top_by_columns, workers.pieces(n), *_arrays(X), labels,
                *_arrays(X.tocsc()), labels, True, *same, *other,
            )  # fmt: skip
        else:
            workers.run(
                kernels.top_by_rows, workers.pieces(n_blocks), *_arrays(X), labels, *_arrays(X),
                labels, True, X.shape[1], *same, *other,
            )  # fmt: skip
    return same, other


def narrowed(*matrices: sp.csr_array) -> tuple[list[sp.csr_array], np.ndarray | None]:
    """Return matrices of the same columns on those that are used, if these are few, and their list.

    SciPy takes arrays as long as there are columns to multiply matrices or to pick columns: where
    features are hashed to 2³¹ places and more, only this makes it possible.

    Parameters
    ----------
    *matrices : csr_array of shape (n_rows, n_columns)

    Returns
    -------
    matrices : list of csr_array of shape (n_rows, n_used)
        Values and their order stay.
    columns : ndarray of shape (n_used,) or None
        Rising; None where the matrices are returned as they are.

    Examples
    --------
    >>> X, Y = (sp.csr_array(([1.0], [k], [0, 1]), shape=(1, 2**40)) for k in (7, 9))
    >>> (X, Y), columns = narrowed(X, Y)
    >>> X.shape, columns.tolist()
    ((1, 2), [7, 9])
    """
    if matrices[0].shape[1] <= 4 * sum(X.nnz for X in matrices) + 1000:
        return list(matrices), None
    columns = np.unique(np.concatenate([X.indices for X in matrices]))
    places = (np.searchsorted(columns, X.indices) for X in matrices)
    return [
        sp.csr_array((X.data, place, X.indptr), shape=(X.shape[0], len(columns)))
        for X, place in zip(matrices, places, strict=True)
    ], columns


def _matrix(X: Any, name: str) -> Any:
    """Return X as a finite 2-D array or a canonical CSR array, of float32 or float64."""
    X = user_input.canonical(X) if sp.issparse(X) else np.asarray(X)
    if X.ndim != 2:
        raise ValueError(
            f"{name} must have shape (n_rows, n_features). Got shape {X.shape}: reshape a single "
            "row with x.reshape(1, -1)."
        )
    X = X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)
    user_input.check_finite(X, name)
    return X


def _check_sizes(queries: Any, index: Any) -> None:
    """Raise ValueError where inner products may overflow: their order would mean nothing."""
    largest = [
        float(np.abs(X.data if sp.issparse(X) else X).max(initial=0.0)) for X in (queries, index)
    ]
    if not largest[0] * largest[1] * index.shape[1] < np.finfo(np.float64).max:
        raise ValueError(
            f"Inner products may overflow: queries has values up to {largest[0]:.3g} and index up "
            f"to {largest[1]:.3g}. Scale the rows to smaller values."
        )


def _empty(n: int, k: int) -> Neighbors:
    return Neighbors(np.full((n, k), -np.inf), np.full((n, k), -1), np.zeros(n, dtype=np.int64))


def _on_shared_columns(
    queries: sp.csr_array, index: sp.csr_array
) -> tuple[sp.csr_array, sp.csr_array, np.ndarray]:
    """Return both as float64 on the columns that both use, and how often the index uses each.

    The most frequent come first: what is looked for most then lies side by side in memory. The
    entries of a row stay in the order they had.
    """
    from .backends.cpu.kernels import pairs as kernels

    same = queries is index
    (index, *others), _ = narrowed(index) if same else narrowed(index, queries)
    queries = index if same else others[0]
    d = index.shape[1]
    counts = np.zeros(d + 1, dtype=np.int64)
    kernels.count_into(index.indices, counts)
    frequency = counts[1:]
    asked = np.zeros(d, dtype=bool)
    asked[queries.indices] = True
    shared = np.flatnonzero(asked & (frequency > 0))
    shared = shared[np.argsort(-frequency[shared], kind="stable")]
    place = np.full(d, -1, dtype=np.int32)
    place[shared] = np.arange(len(shared), dtype=np.int32)
    frequency = frequency[shared]
    kept = _keep(index, place, len(shared), int(frequency.sum()))
    if same:
        return kept, kept, frequency
    n_kept = int(np.count_nonzero(place[queries.indices] >= 0))
    return _keep(queries, place, len(shared), n_kept), kept, frequency


def _keep(X: sp.csr_array, place: np.ndarray, n_columns: int, nnz: int) -> sp.csr_array:
    from .backends.cpu import search_kernels as kernels

    indptr = np.empty(X.shape[0] + 1, dtype=np.int64)
    indices, data = np.empty(nnz, dtype=np.int32), np.empty(nnz)
    kernels.keep_columns(X.indptr, X.indices, X.data, place, indptr, indices, data)
    return sp.csr_array((data, indices, indptr), shape=(X.shape[0], n_columns))


def _arrays(X: sp.csr_array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return (
        X.indptr.astype(np.int64, copy=False),
        X.indices.astype(np.int32, copy=False),
        X.data,
    )
