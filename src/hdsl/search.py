"""The k largest inner products between sparse rows, exact, a row at a time, never n × n."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from ._workers import Workers


class NeighborsByLabel(NamedTuple):
    """Nearest rows of the same and of other labels, best first, and how many there are."""

    same: np.ndarray
    same_size: np.ndarray
    other: np.ndarray
    other_size: np.ndarray


def neighbors_by_label(
    X: sp.csr_array, labels: np.ndarray, n_same: int, n_other: int, *, n_jobs: int | None = None
) -> NeighborsByLabel:
    """Find the rows of largest inner product with each row, by same and by other label.

    Larger inner products come first, and the smaller row number of equals.

    Parameters
    ----------
    X : csr_array of shape (n_rows, n_features), float64
    labels : ndarray of shape (n_rows,)
        Class numbers.
    n_same, n_other : int
        Neighbours wanted of the same label (the row itself left out) and of other labels.
    n_jobs : int, default=None

    Returns
    -------
    NeighborsByLabel
    """
    from . import _kernels as kernels  # compiled code is loaded when it is first needed

    n = X.shape[0]
    columns = X.tocsc()
    found = NeighborsByLabel(
        np.full((n, n_same), -1, dtype=np.int64),
        np.zeros(n, dtype=np.int64),
        np.full((n, n_other), -1, dtype=np.int64),
        np.zeros(n, dtype=np.int64),
    )
    with Workers(n_jobs) as workers:
        workers.run(
            kernels.top_by_label, _blocks(n, workers.n_threads), X.indptr.astype(np.int64),
            X.indices.astype(np.int32), X.data, columns.indptr.astype(np.int64),
            columns.indices.astype(np.int32), columns.data, labels.astype(np.int64), *found,
        )  # fmt: skip
    return found


def _blocks(n: int, n_threads: int) -> list[int]:
    """Cut n rows into several blocks a thread, so that none waits long for the other."""
    n_blocks = min(n, 8 * n_threads) if n_threads > 1 else 1
    return [n * k // n_blocks for k in range(n_blocks + 1)]
