"""The k largest inner products between sparse rows, exact, by blocks of queries, never n × n."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from ._workers import Workers

#: Time of one step by rows (WIDTH products) against one step by columns (one product, scattered).
ROW_STEP_COST = 0.3


class Neighbors(NamedTuple):
    """Rows of the index and their inner products, best first; `size` of them are valid."""

    scores: np.ndarray
    rows: np.ndarray
    size: np.ndarray


def top_k(
    queries: sp.csr_array, index: sp.csr_array, k: int, *, n_jobs: int | None = None
) -> Neighbors:
    """Find the k rows of the index of largest inner product with each query.

    Larger inner products come first, and the smaller row number of equals.

    Parameters
    ----------
    queries, index : csr_arrays with the same number of columns, float64
    k : int
        At most the number of rows of the index.
    n_jobs : int, default=None
        Threads; the answer does not depend on their number.

    Returns
    -------
    Neighbors
        Arrays of shape (n_queries, k).
    """
    labels = np.zeros(index.shape[0], dtype=np.int64)
    query_labels = np.full(queries.shape[0], -1, dtype=np.int64)
    _, found = _search(queries, query_labels, index, labels, 0, k, False, n_jobs)
    return found


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
    labels = labels.astype(np.int64)
    return _search(X, labels, X, labels, n_same, n_other, True, n_jobs)


def _search(
    queries: sp.csr_array,
    query_labels: np.ndarray,
    index: sp.csr_array,
    labels: np.ndarray,
    n_same: int,
    n_other: int,
    own: bool,
    n_jobs: int | None,
) -> tuple[Neighbors, Neighbors]:
    from . import _kernels as kernels  # compiled code is loaded when it is first needed

    n = queries.shape[0]
    found = tuple(
        Neighbors(np.full((n, k), -np.inf), np.full((n, k), -1), np.zeros(n, dtype=np.int64))
        for k in (n_same, n_other)
    )
    used, frequency = _by_frequency(index)
    queries, index = _renumber(queries, used), _renumber(index, used)
    n_blocks = -(-n // kernels.WIDTH)
    by_columns = float(frequency[queries.indices].sum(dtype=np.float64)) + n * index.shape[0]
    by_rows = ROW_STEP_COST * index.nnz * n_blocks
    with Workers(n_jobs) as workers:
        if by_columns <= by_rows:
            workers.run(
                kernels.top_by_columns, workers.pieces(n), *_arrays(queries),
                query_labels, *_arrays(index.tocsc()), labels, own, *found[0], *found[1],
            )  # fmt: skip
        else:
            workers.run(
                kernels.top_by_rows, workers.pieces(n_blocks), *_arrays(queries),
                query_labels, *_arrays(index), labels, own, index.shape[1], *found[0], *found[1],
            )  # fmt: skip
    return found[0], found[1]


def _by_frequency(index: sp.csr_array) -> tuple[np.ndarray, np.ndarray]:
    """Return the columns in use, the most frequent first, and their counts.

    Common features then lie side by side in memory, where they are looked for most.
    """
    columns, counts = np.unique(index.indices, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    return columns[order], counts[order]


def _renumber(X: sp.csr_array, columns: np.ndarray) -> sp.csr_array:
    """Return X with `columns` only, in that order; entries stay in the order of the old numbers."""
    order = np.argsort(columns)
    at = np.minimum(np.searchsorted(columns, X.indices, sorter=order), len(columns) - 1)
    kept = columns[order[at]] == X.indices if len(columns) else np.zeros(X.nnz, dtype=bool)
    indices = order[at].astype(np.int32)
    if kept.all():
        return sp.csr_array((X.data, indices, X.indptr), shape=(X.shape[0], len(columns)))
    running = np.concatenate([[0], np.cumsum(kept)])
    return sp.csr_array(
        (X.data[kept], indices[kept], running[X.indptr]), shape=(X.shape[0], len(columns))
    )


def _arrays(X: sp.csr_array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return X.indptr.astype(np.int64), X.indices.astype(np.int32), X.data
