"""The k rows of largest inner product: `top_k`, and `Index` for repeated searches."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import scipy.sparse as sp

from .. import memory
from ..input.matrices import as_rows
from ..input.parameters import check_device, check_number
from ..neighbor_lists import NeighborLists, Neighbors, empty_neighbors
from ..rows import Rows
from .dense import fill_dense
from .mixed import fill_mixed
from .on_card import CardIndex
from .products import check_no_overflow, largest_magnitude
from .sparse import fill_sparse

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

    The answer is exact and the same for any number of threads. Of rows with equal inner
    products the one with the smaller number comes first; of two dense matrices, that is
    promised of equal rows, as BLAS may round other equal products differently. Rows
    that share no feature
    with a query have the inner product 0, so they come before rows with a negative one.

    To search by a learned similarity, rewrite the queries alone:
    ``top_k(model.rewrite(Q), model.index_rows(X), k)``. That takes fewer products than
    to transform both. To search the same rows on a GPU again and again, make an `Index`
    of them.

    Parameters
    ----------
    queries : array or sparse matrix of shape (n_queries, n_features)
    index : array or sparse matrix of shape (n_rows, n_features)
    k : int
        If the index has fewer rows, all of them are found; `size` says how many.
    exclude_self : bool, default=False
        Query r is row r of the index, and a row is not its own neighbor.
    n_jobs : int, default=None
        Threads. Two dense matrices are multiplied by BLAS, which has its own number of
        threads.
    device : {"cpu", "cuda", "cuda:1", ...}, default="cpu"
        Where the search runs. "cuda" is one NVIDIA GPU (``pip install hdsl[cuda]``):
        the same rows, up to ties that rounding decides. It pays for thousands of
        queries.
    memory_limit : float, "auto" or None, default="auto"
        GiB of the GPU's memory that the search may take; "auto" is what is free.
        Queries and rows that do not fit take turns.

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
    keeps both there, where they fit, until it is searched on another GPU or nobody
    holds it any more. A search on the CPU keeps nothing.

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
        """Return what copies and pickles are made of: nothing that is on a card."""
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
            self._fill_on_cpu(query_rows, lists, n_jobs)
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

    def _fill_on_cpu(
        self, queries: Any, lists: NeighborLists, n_jobs: int | None
    ) -> None:
        """Fill the lists on threads."""
        from ..cpu.workers import Workers  # compiled code is loaded by the first search

        is_same = queries is self.rows
        with Workers(n_jobs) as workers:
            if isinstance(self.rows, Rows):
                fill_mixed(queries, self.rows, lists, workers)
                return
            if not sp.issparse(queries) and not sp.issparse(self.rows):
                fill_dense(queries, self.rows, lists, workers)
                return
            sparse_rows = sp.csr_array(self.rows)
            sparse_queries = sparse_rows
            if not is_same:
                sparse_queries = sp.csr_array(queries)
            fill_sparse(sparse_queries, sparse_rows, lists, workers)

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
