"""The nearest rows of the same label and of other labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from ..input.labels import check_one_label_per_row
from ..input.matrices import as_rows
from ..neighbor_lists import NeighborLists, Neighbors, empty_neighbors
from ..rows import Rows
from ..wide_matrices import drop_unused_columns
from .mixed import fill_mixed
from .sparse import fill_sparse


def neighbors_by_label(
    X: Any,
    labels: np.ndarray,
    n_same: int,
    n_other: int,
    *,
    n_jobs: int | None = None,
    device: str = "cpu",
    memory_limit: float | str | None = "auto",
) -> tuple[Neighbors, Neighbors]:
    """Find, for each row, the nearest rows of its label and of other labels.

    The nearest rows are those with the largest inner products; of equals the one with
    the smaller number comes first. A row is not its own neighbor.

    Parameters
    ----------
    X : csr_array or Rows of shape (n_rows, n_features), float64
        Mixed rows are searched on the CPU.
    labels : ndarray of shape (n_rows,)
        Class numbers.
    n_same, n_other : int
        Number of neighbors of each kind.
    n_jobs : int, default=None
    device, memory_limit
        As in `top_k`.

    Returns
    -------
    same, other : Neighbors
    """
    X = as_rows(X)
    if not isinstance(X, Rows):
        X = sp.csr_array(X, dtype=np.float64)
    check_one_label_per_row(labels, X.shape[0])
    codes = np.unique(labels, return_inverse=True)[1]
    if device == "cpu" or isinstance(X, Rows):
        labelled_rows = (X, codes)
        return neighbors_between(
            labelled_rows,
            labelled_rows,
            n_same,
            n_other,
            exclude_self=True,
            n_jobs=n_jobs,
        )
    from ..cuda import runtime
    from ..cuda import search as card_search

    card = runtime.get_device(device)  # raises where there is none
    (index,), _ = drop_unused_columns(X)
    lists = _empty_lists(codes, codes, n_same, n_other, leaves_self=True)
    card_search.fill_lists(card, index, index, lists, memory_limit)
    return lists.same, lists.other


def neighbors_between(
    queries: tuple[Any, np.ndarray],
    index: tuple[Any, np.ndarray],
    n_same: int,
    n_other: int,
    *,
    exclude_self: bool = False,
    n_jobs: int | None = None,
) -> tuple[Neighbors, Neighbors]:
    """Find, for each query, the nearest rows of an index by label.

    Parameters
    ----------
    queries, index : tuple of (csr_array of float64 or Rows, ndarray)
        Rows, and their class numbers.
    n_same, n_other : int
        Number of neighbors of each kind.
    exclude_self : bool, default=False
        Query r is row r of the index.
    n_jobs : int, default=None

    Returns
    -------
    same, other : Neighbors
        As `neighbors_by_label` returns them.
    """
    from ..cpu.workers import Workers

    query_rows, query_labels = queries
    index_rows, labels = index
    lists = _empty_lists(
        query_labels, labels, n_same, n_other, leaves_self=exclude_self
    )
    fill = fill_sparse
    if isinstance(index_rows, Rows):
        fill = fill_mixed
    with Workers(n_jobs) as workers:
        fill(query_rows, index_rows, lists, workers)
    return lists.same, lists.other


def _empty_lists(
    query_labels: np.ndarray,
    labels: np.ndarray,
    n_same: int,
    n_other: int,
    *,
    leaves_self: bool,
) -> NeighborLists:
    """Return empty lists, each as long as there are rows for it at most.

    A list that waited for more rows would never be full, and only full ones leave rows
    out early.
    """
    query_labels = query_labels.astype(np.int64)
    labels = labels.astype(np.int64)
    n_queries = len(query_labels)
    n_labels = max(query_labels.max(initial=-1), labels.max(initial=-1)) + 1
    label_size = np.bincount(labels, minlength=n_labels)[query_labels]
    return NeighborLists(
        query_labels=query_labels,
        labels=labels,
        leaves_self=leaves_self,
        want_same=np.minimum(n_same, label_size - leaves_self),
        want_other=np.minimum(n_other, len(labels) - label_size),
        same=empty_neighbors(n_queries, n_same),
        other=empty_neighbors(n_queries, n_other),
    )
