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
    from . import _kernels as kernels  # compiled code is loaded when it is first needed

    n = X.shape[0]
    labels = labels.astype(np.int64)
    same, other = (
        Neighbors(np.full((n, k), -np.inf), np.full((n, k), -1), np.zeros(n, dtype=np.int64))
        for k in (n_same, n_other)
    )
    used, frequency = _by_frequency(X)
    X = _renumber(X, used)
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


def _by_frequency(index: sp.csr_array) -> tuple[np.ndarray, np.ndarray]:
    """Return the columns in use, the most frequent first, and their counts.

    Common features then lie side by side in memory, where they are looked for most.
    """
    columns, counts = np.unique(index.indices, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    return columns[order], counts[order]


def _renumber(X: sp.csr_array, columns: np.ndarray) -> sp.csr_array:
    """Return X with its columns in that order; entries stay in the order of the old numbers."""
    order = np.argsort(columns)
    indices = order[np.searchsorted(columns, X.indices, sorter=order)].astype(np.int32)
    return sp.csr_array((X.data, indices, X.indptr), shape=(X.shape[0], len(columns)))


def _arrays(X: sp.csr_array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return X.indptr.astype(np.int64), X.indices.astype(np.int32), X.data
