"""The rows of largest inner product: `top_k`, `Index` for repeated searches, and by label."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import scipy.sparse as sp

from .. import memory
from ..input.labels import check_one_label_per_row
from ..input.matrices import as_rows
from ..input.parameters import check_device, check_number
from ..neighbor_lists import NeighborLists, Neighbors, empty_neighbors
from ..rows import Rows
from ..wide_matrices import drop_unused_columns, is_wide, take_columns
from .fill import fill_lists
from .products import check_no_overflow, largest_magnitude

#: Bytes of a row number and an inner product in an answer.
ENTRY_BYTES = 16


def top_k(
    queries: Any,
    index: Any,
    k: int,
    *,
    exclude_self: bool = False,
    n_jobs: int | None = None,
    device: str = "cpu",
    memory_limit: float | str | None = "auto",
) -> Neighbors:
    """Find, for each query, the k rows of the index with the largest inner products.

    The answer is exact and the same for any number of threads. Rows with equal inner
    products come in the order of their numbers; for two dense matrices this holds for
    equal rows only, as BLAS may round other equal products differently. Rows that share
    no feature with a query have the inner product 0, so they come before rows with a
    negative one.

    To search by a learned similarity, rewrite the queries alone:
    ``top_k(model.rewrite(Q), model.index_rows(X), k)``. This needs fewer products than
    transforming both. To search the same rows on a GPU again and again, make an
    `Index`.

    Parameters
    ----------
    queries : array or sparse matrix of shape (n_queries, n_features)
    index : array or sparse matrix of shape (n_rows, n_features)
    k : int
        If the index has fewer rows, all are returned; `size` is their number.
    exclude_self : bool, default=False
        Query r is row r of the index, and a row is not its own neighbor.
    n_jobs : int, default=None
        Number of threads. BLAS multiplies two dense matrices, with its own number of
        threads.
    device : {"cpu", "cuda", "cuda:1", ...}, default="cpu"
        Device of the search. "cuda" is one NVIDIA GPU (``pip install hdsl[cuda]``),
        which finds the same rows, up to ties that rounding decides. It is faster for
        thousands of queries.
    memory_limit : float, "auto" or None, default="auto"
        GiB of the GPU's memory that the search may use; "auto" is the free memory.
        Queries and rows that do not fit are processed in blocks.

    Returns
    -------
    Neighbors
        ``scores`` (float64) and ``rows`` of shape (n_queries, k), ``size`` of shape
        (n_queries,). Entries past `size` are -inf and -1.

    Examples
    --------
    >>> index = np.array([[1.0, 0], [0, 2], [1, 1], [-1, 0]])
    >>> found = top_k(np.array([[1.0, 0]]), index, k=3)
    >>> found.rows.tolist(), found.scores.tolist()
    ([[0, 2, 1]], [[1.0, 1.0, 0.0]])
    """
    return Index(index).top_k(
        queries,
        k,
        exclude_self=exclude_self,
        n_jobs=n_jobs,
        device=device,
        memory_limit=memory_limit,
    )


class Index:
    """Rows to search, checked once and kept on a GPU from one search there to the next.

    A search on a GPU first copies the rows to it and counts their features. An index
    keeps both there, if they fit, until it is searched on another GPU or deleted. A
    search on the CPU keeps nothing.

    Parameters
    ----------
    X : array or sparse matrix of shape (n_rows, n_features)
        Not to be changed afterwards.

    Attributes
    ----------
    rows : ndarray or csr_array of shape (n_rows, n_features)
        To be read only.

    Examples
    --------
    >>> index = Index(np.array([[1.0, 0], [0, 2], [1, 1], [-1, 0]]))
    >>> index.top_k(np.array([[1.0, 0]]), k=3).rows.tolist()
    [[0, 2, 1]]
    """

    def __init__(self, X: Any) -> None:
        self.rows = as_rows(X, "index")
        self._given_rows = X
        self._largest = largest_magnitude(self.rows)
        self._largest_of_embedding = 0.0
        if isinstance(self.rows, Rows):
            self._largest_of_embedding = largest_magnitude(self.rows.dense)
        self._card_index: CardIndex | None = None
        self._lock = threading.Lock()  # a card serves one search at a time

    def __reduce__(self) -> tuple[type[Index], tuple[Any]]:
        """Return the state for copies and pickles, without data on a card."""
        return type(self), (self._given_rows,)

    def top_k(
        self,
        queries: Any,
        k: int,
        *,
        exclude_self: bool = False,
        n_jobs: int | None = None,
        device: str = "cpu",
        memory_limit: float | str | None = "auto",
    ) -> Neighbors:
        """Find, for each query, the k rows with the largest inner products.

        Parameters and the answer are those of the function `top_k`.
        """
        check_number("top_k", "k", k, low=1, integer=True)
        check_device("top_k", device)
        is_same = queries is self._given_rows or queries is self.rows
        query_rows = self.rows
        if not is_same:
            query_rows = as_rows(queries, "queries")
        self._check_queries(query_rows, exclude_self)
        n_queries = query_rows.shape[0]
        memory.check_fits(
            f"A list of {k} neighbours for each of {n_queries} queries",
            ENTRY_BYTES * n_queries * int(k),
            "auto",
            ("take a smaller k",),
        )
        neighbors = empty_neighbors(n_queries, int(k))
        if n_queries == 0:
            return neighbors
        lists = self._lists(neighbors, bool(exclude_self))
        if device == "cpu" or isinstance(self.rows, Rows):
            fill_lists(query_rows, self.rows, lists, n_jobs)
        else:
            card_queries = query_rows
            if is_same:
                card_queries = None
            self._fill_on_card(card_queries, lists, device, memory_limit)
        return neighbors

    def _check_queries(self, queries: Any, exclude_self: bool) -> None:
        """Raise ValueError unless the queries can be compared with the rows."""
        n_queries, n_features = queries.shape
        n_rows = self.rows.shape[0]
        if isinstance(queries, Rows) != isinstance(self.rows, Rows):
            raise ValueError(
                "queries and index must both be hdsl.Rows(features, embedding), or "
                f"neither. Got {type(queries).__name__} and {type(self.rows).__name__}."
            )
        if n_features != self.rows.shape[1]:
            raise ValueError(
                f"queries has {n_features} features and index has "
                f"{self.rows.shape[1]}: they must be the same features, in the same "
                "order."
            )
        if exclude_self and n_queries != n_rows:
            raise ValueError(
                "exclude_self=True says that query r is row r of the index, but there "
                f"are {n_queries} queries and {n_rows} rows. Pass the rows of the "
                "index as queries, or exclude_self=False."
            )
        if n_queries:
            check_no_overflow(largest_magnitude(queries), self._largest, n_features)
        if n_queries and isinstance(queries, Rows):
            check_no_overflow(
                largest_magnitude(queries.dense),
                self._largest_of_embedding,
                queries.dense.shape[1],
                np.result_type(queries.dense, self.rows.dense),
            )

    def _lists(self, neighbors: Neighbors, leaves_self: bool) -> NeighborLists:
        """Return the lists to fill, without a label: all rows go to the same list.

        All queries have label 0 and all rows label 1, so that the list of rows with
        other labels takes them all.
        """
        n_queries, k = neighbors.rows.shape
        n_rows = self.rows.shape[0]
        n_candidates = n_rows - leaves_self
        return NeighborLists(
            query_labels=np.zeros(n_queries, dtype=np.int64),
            labels=np.ones(n_rows, dtype=np.int64),
            leaves_self=leaves_self,
            want_same=np.zeros(n_queries, dtype=np.int64),
            want_other=np.full(n_queries, min(k, n_candidates), dtype=np.int64),
            same=empty_neighbors(n_queries, 0),
            other=neighbors,
        )

    def _fill_on_card(
        self,
        queries: Any,
        lists: NeighborLists,
        device: str,
        memory_limit: float | str | None,
    ) -> None:
        """Fill the lists on a graphics card; None as queries stands for the rows."""
        device_name = device
        if device == "cuda":
            device_name = "cuda:0"
        with self._lock:
            card_index = self._card_index
            self._card_index = None  # what an error leaves on the card is of no use
            if card_index is None or card_index.device_name != device_name:
                card_index = None  # gives its memory back before the next one comes
                card_index = CardIndex(self.rows, device_name)
            card_index.fill_lists(queries, lists, memory_limit)
            self._card_index = card_index


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

    The nearest rows have the largest inner products; equal ones come in the order of
    their numbers. A row is not its own neighbor.

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
    query_rows, query_labels = queries
    index_rows, labels = index
    lists = _empty_lists(
        query_labels, labels, n_same, n_other, leaves_self=exclude_self
    )
    fill_lists(query_rows, index_rows, lists, n_jobs)
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


class CardIndex:
    """Rows on one card, with the data that searches keep there.

    Parameters
    ----------
    X : ndarray or csr_array of shape (n_rows, n_features)
    device_name : str
        Such as "cuda:1". An error is raised where there is no such card.
    """

    def __init__(self, X: Any, device_name: str) -> None:
        from ..cuda import runtime
        from ..cuda import search as card_search

        self.device_name = device_name
        self._device = runtime.get_device(device_name)
        self._rows = sp.csr_array(X, dtype=np.float64)
        self._columns: np.ndarray | None = None  # None is all
        if is_wide(self._rows):
            self._columns = _used_columns(self._rows)
            self._rows = take_columns(self._rows, self._columns)
        self._kept = card_search.Kept()

    def fill_lists(
        self,
        queries: Any,
        lists: NeighborLists,
        memory_limit: float | str | None,
    ) -> None:
        """Fill the lists; None as queries stands for the rows themselves."""
        from ..cuda import search as card_search

        if queries is None:
            query_rows = self._rows
        else:
            query_rows = sp.csr_array(queries, dtype=np.float64)
            if self._columns is not None:  # columns that only queries have add nothing
                query_rows = take_columns(query_rows, self._columns)
        card_search.fill_lists(
            self._device, query_rows, self._rows, lists, memory_limit, self._kept
        )
        self._device.release()  # others may want what the queries took


def _used_columns(X: sp.csr_array) -> np.ndarray:
    """Return the columns that have a value; column 0 if there are none."""
    if X.nnz == 0:
        return np.zeros(1, dtype=np.int64)
    return np.unique(X.indices)
