"""The k largest inner products between rows, exact, by blocks of queries, never n × n."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from . import memory
from .cuda.search import Task
from .input.labels import check_one_label_per_row
from .input.matrices import as_rows, largest_value
from .input.parameters import check_device, check_number
from .solver.columns import drop_unused_columns, is_wide, take_columns

if TYPE_CHECKING:
    from .cpu.rows import Arrays
    from .cpu.workers import Workers
    from .cuda.runtime import Device
    from .cuda.search import Kept

__all__ = [
    "Index",
    "Neighbors",
    "above",
    "neighbors_between",
    "neighbors_by_label",
    "top_k",
]

#: Inner products of dense rows that are formed at a time: 32 MiB.
DENSE_BLOCK = 2**22

#: Rows that sparse queries meet at a time: a number for each stays in the cache of a
#: core.
SPARSE_BLOCK = 2**15

#: Lists that are sorted at a time.
SORTED = 4096

#: Rows from which on each pair of rows meets once. Of such a meeting: the cost of a
#: pair where one product takes 1, rows of a block, rows that meet it side by side, and
#: the share of rows that have a frequent feature.
MEETING_ROWS = 2**14
PAIR_COST = 3.0
MEETING_BLOCK = 2**12
SIDE_BY_SIDE = 16
FREQUENT = 0.12

#: Features that two rows must share on average for that to pay.
LEAST_SHARED = 1.0

#: Least value over the largest whose products float32 holds; entries of a row whose sum
#: it holds.
FLOAT_RANGE = 2.0**-60
LONGEST_ROW = 2**17

#: Share of a threshold that skipped features may add, products of a block of an answer,
#: and bytes that an entry takes while blocks are joined.
SKIPPED_SHARE = 0.6
BLOCK_PRODUCTS = 2**22
ENTRY_BYTES = 48


class Neighbors(NamedTuple):
    """Rows of the index and their inner products, best first; `size` of them are valid."""

    scores: np.ndarray
    rows: np.ndarray
    size: np.ndarray


#: Time to look at one row for one query, where one product takes 1.
ROW_COST = 0.5


def _threads(n_jobs: int | None) -> Workers:
    from .cpu.workers import Workers  # compiled code is loaded by the first search

    return Workers(n_jobs)


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
    products the one with the smaller number comes first. Rows that share no feature
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


def add_products(
    queries: sp.csr_array, rows: sp.csr_array, out: np.ndarray
) -> np.ndarray:
    """Add the inner products of all queries with all rows to a dense array, and return it."""
    from .cpu.kernels import search as kernels
    from .cpu.rows import arrays_of

    (queries, rows), _ = drop_unused_columns(queries, rows)
    kernels.add_products(arrays_of(queries), arrays_of(rows.tocsc()), out)
    return out


def above(
    queries: Any,
    rows: Any,
    threshold: float,
    *,
    exclude_self: bool = False,
    memory_limit: float | str | None = "auto",
) -> sp.csr_array:
    """Return all inner products from a threshold on, exactly, as a sparse matrix.

    Most pairs are left out without being computed, so it is fast where few reach the
    threshold. For a learned similarity, ``above(model.rewrite(Q), model.index_rows(X),
    threshold)``; for the learned cosine, rows of ``model.transform(X, cosine=True)`` on
    both sides.

    Parameters
    ----------
    queries : array or sparse matrix of shape (n_queries, n_features)
    rows : array or sparse matrix of shape (n_rows, n_features)
    threshold : float > 0
        Pairs without a common feature have the inner product 0 and are never in the
        answer.
    exclude_self : bool, default=False
        Query r is row r of `rows`, and is not compared with itself.
    memory_limit : float, "auto" or None, default="auto"
        GiB that the answer may take; "auto" is what is free. Its size is foretold from
        the first blocks of queries on.

    Returns
    -------
    csr_array of shape (n_queries, n_rows), float64

    Examples
    --------
    >>> X = np.array([[1.0, 0], [0.6, 0.8], [0, 1]])
    >>> above(X, X, 0.7, exclude_self=True).toarray().tolist()
    [[0.0, 0.0, 0.0], [0.0, 0.0, 0.8], [0.0, 0.8, 0.0]]
    """
    check_number("above", "threshold", threshold, low=0, strict=True)
    given = ("queries", queries), ("rows", rows)
    Q, X = (sp.csr_array(as_rows(M, name), dtype=np.float64) for name, M in given)
    if Q.shape[1] != X.shape[1] or (exclude_self and Q.shape[0] != X.shape[0]):
        raise ValueError(
            f"queries has shape {Q.shape} and rows {X.shape}: they must have the same "
            "features and, with exclude_self=True, be the same rows."
        )
    _check_products(_largest(Q), _largest(X), X.shape[1])
    parts = []
    size = 0
    share = 0.0
    for block in _blocks_above(
        *_on_shared_columns(Q, X), float(threshold), exclude_self
    ):
        parts.append(block)
        size = size + ENTRY_BYTES * block.nnz
        share = share + block.shape[0] / max(1, Q.shape[0])
        memory.check_fits(
            "The answer",
            int(size / (share or 1.0)),
            memory_limit,
            ("take a higher threshold", "ask for some of the queries at a time"),
        )
    return sp.csr_array(sp.vstack(parts, format="csr"))


def _blocks_above(
    Q: sp.csr_array,
    X: sp.csr_array,
    frequency: np.ndarray,
    threshold: float,
    exclude_self: bool,
) -> Iterator[sp.csr_array]:
    """Yield the answers of blocks of queries; features are sorted by their frequency.

    The most frequent features of a query, as many as add at most a share of the
    threshold to any inner product, are skipped: ⟨q', x⟩ ≤ ‖q'‖ ‖x‖. Products of the
    others are added up, and inner products are computed of the pairs whose sum can
    still reach the threshold.
    """
    Q.sort_indices()
    # squares of shares of them do not overflow
    q = _largest(Q) or 1.0
    x = _largest(X) or 1.0
    norms = x * np.sqrt((X / x).power(2).sum(axis=1))
    by_column = X.T.tocsr()
    row = np.repeat(np.arange(Q.shape[0]), np.diff(Q.indptr))
    largest = norms.max(initial=0.0)
    square = (Q.data / q) ** 2
    squares = np.append(0.0, np.cumsum(square))
    before = q * np.sqrt(np.maximum(squares[1:] - squares[Q.indptr[row]], 0.0))
    is_skipped = before * largest <= SKIPPED_SHARE * threshold
    skipped = q * np.sqrt(np.bincount(row, square * is_skipped, Q.shape[0]))
    skipped[skipped * largest > 0.9 * threshold] = (
        0.0  # by rounding: such a row skips nothing
    )
    is_skipped &= skipped[row] > 0.0
    rest = sp.csr_array(
        (np.where(is_skipped, 0.0, Q.data), Q.indices, Q.indptr), shape=Q.shape
    )
    n_products = np.cumsum(
        np.bincount(row, frequency[Q.indices] * ~is_skipped, Q.shape[0])
    )
    first = 0
    while first < max(1, Q.shape[0]):
        done = n_products[first - 1] if first else 0.0
        last = max(
            first + 1, int(np.searchsorted(n_products, done + BLOCK_PRODUCTS, "right"))
        )
        part = rest[first:last].copy()
        part.eliminate_zeros()
        sums = (part @ by_column).tocoo()
        at = first + sums.row
        bound = (
            sums.data + skipped[at] * norms[sums.col]
        )  # rounding is far below 1e-9 of it
        is_near = bound >= threshold - 1e-9 * (threshold + abs(bound))
        is_near &= (at != sums.col) | (not exclude_self)
        left = at[is_near]
        right = sums.col[is_near]
        scores = np.asarray(Q[left].multiply(X[right]).sum(axis=1)).ravel()
        k = scores >= threshold
        shape = (min(last, Q.shape[0]) - first, X.shape[0])
        yield sp.csr_array((scores[k], (left[k] - first, right[k])), shape=shape)
        first = last


class _OnCard(NamedTuple):
    """An index on a card: the card, rows on their own columns, and what it keeps there."""

    name: str
    device: Device
    rows: sp.csr_array
    columns: np.ndarray | None
    kept: Kept


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
        self._given = X
        self._largest = _largest(self.rows)
        self._on_card: _OnCard | None = None
        self._lock = threading.Lock()  # what is kept serves one search at a time

    def __reduce__(self) -> tuple[type[Index], tuple[Any]]:
        """Return what copies and pickles are made of: nothing that is on a card."""
        return type(self), (self._given,)

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
        is_same = queries is self._given or queries is self.rows
        index = self.rows
        queries = index if is_same else as_rows(queries, "queries")
        m = queries.shape[0]
        n = index.shape[0]
        if queries.shape[1] != index.shape[1]:
            raise ValueError(
                f"queries has {queries.shape[1]} features and index has "
                f"{index.shape[1]}: they must be the same features, in the same order."
            )
        if exclude_self and m != n:
            raise ValueError(
                "exclude_self=True says that query r is row r of the index, but there "
                f"are {m} queries and {n} rows. Pass the rows of the index as queries, "
                "or exclude_self=False."
            )
        if int(k) > n:  # places that no row fills
            what = f"A list of {k} neighbours for each of {m} queries"
            memory.check_fits(what, 16 * m * int(k), "auto", ("take a smaller k",))
        found = _empty(m, int(k))
        if m == 0:
            return found
        _check_products(_largest(queries), self._largest, index.shape[1])
        # All rows have another label than the queries, so all of them go to one list.
        labels = np.zeros(m, dtype=np.int64), np.ones(n, dtype=np.int64)
        leaves_self = bool(exclude_self)
        k = min(int(k), n - leaves_self)
        wanted = np.zeros(m, dtype=np.int64), np.full(m, k, dtype=np.int64)
        lists = Task(*labels, leaves_self, *wanted, _empty(m, 0), found)
        if device != "cpu":
            with self._lock:
                self._search_on_card(queries, lists, device, memory_limit)
            return found
        with _threads(n_jobs) as workers:
            if sp.issparse(queries) or sp.issparse(index):
                index = sp.csr_array(index)
                queries = index if is_same else sp.csr_array(queries)
                _search_sparse(queries, index, lists, workers)
            else:
                _search_dense(queries, index, lists, workers)
        return found

    def _search_on_card(
        self, queries: Any, lists: Task, name: str, memory_limit: float | str | None
    ) -> None:
        """Fill the lists on a graphics card."""
        from .cuda import runtime
        from .cuda import search as on_card

        # what an error leaves behind is of no use
        held = self._on_card
        self._on_card = None
        name = "cuda:0" if name == "cuda" else name
        if held is None or held.name != name:
            held = None  # before the next one comes
            device = runtime.get_device(name)  # raises where there is none
            rows = sp.csr_array(self.rows, dtype=np.float64)
            columns = None
            if is_wide(rows):  # columns that only queries have add nothing
                columns = (
                    np.unique(rows.indices) if rows.nnz else np.zeros(1, dtype=np.int64)
                )
                rows = take_columns(rows, columns)
            held = _OnCard(name, device, rows, columns, on_card.Kept())
        if queries is self.rows:
            queries = held.rows
        else:
            queries = sp.csr_array(queries, dtype=np.float64)
            queries = (
                queries if held.columns is None else take_columns(queries, held.columns)
            )
        on_card.fill_lists(
            held.device, queries, held.rows, lists, memory_limit, held.kept
        )
        held.device.release()  # others may want what the queries took
        self._on_card = held


def neighbors_by_label(
    X: sp.csr_array,
    labels: np.ndarray,
    n_same: int,
    n_other: int,
    *,
    n_jobs: int | None = None,
    device: str = "cpu",
    memory_limit: float | str | None = "auto",
) -> tuple[Neighbors, Neighbors]:
    """Find, for each row, the nearest rows with the same label and those with other labels.

    The nearest rows are those with the largest inner products; of equals the one with
    the smaller number comes first. A row is not its own neighbor.

    Parameters
    ----------
    X : csr_array of shape (n_rows, n_features), float64
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
    X = sp.csr_array(as_rows(X), dtype=np.float64)
    check_one_label_per_row(labels, X.shape[0])
    codes = np.unique(labels, return_inverse=True)[1]
    if device == "cpu":
        rows = X, codes
        return neighbors_between(
            rows, rows, n_same, n_other, exclude_self=True, n_jobs=n_jobs
        )
    from .cuda import runtime
    from .cuda import search as on_card

    card = runtime.get_device(device)  # raises where there is none
    (index,), _ = drop_unused_columns(X)
    lists = _lists_by_label(codes, codes, n_same, n_other, True)
    on_card.fill_lists(card, index, index, lists, memory_limit)
    return lists.same, lists.other


def neighbors_between(
    queries: tuple[sp.csr_array, np.ndarray],
    index: tuple[sp.csr_array, np.ndarray],
    n_same: int,
    n_other: int,
    *,
    exclude_self: bool = False,
    n_jobs: int | None = None,
) -> tuple[Neighbors, Neighbors]:
    """Find, for each query, the nearest rows of an index, as `neighbors_by_label` does.

    Parameters
    ----------
    queries, index : tuple of (csr_array of float64, ndarray)
        Rows, and their class numbers.
    n_same, n_other : int
        Number of neighbors of each kind.
    exclude_self : bool, default=False
        Query r is row r of the index.
    n_jobs : int, default=None

    Returns
    -------
    same, other : Neighbors
    """
    (X, query_labels) = queries
    (Y, labels) = index
    lists = _lists_by_label(query_labels, labels, n_same, n_other, exclude_self)
    with _threads(n_jobs) as workers:
        _search_sparse(X, Y, lists, workers)
    return lists.same, lists.other


def _lists_by_label(
    query_labels: np.ndarray,
    labels: np.ndarray,
    n_same: int,
    n_other: int,
    leaves_self: bool,
) -> Task:
    """Return empty lists; none waits for more rows than there are: full ones leave rows out."""
    query_labels = query_labels.astype(np.int64)
    labels = labels.astype(np.int64)
    n_labels = max(query_labels.max(initial=-1), labels.max(initial=-1)) + 1
    n = len(query_labels)
    size = np.bincount(labels, minlength=n_labels)[query_labels]
    wanted = (
        np.minimum(n_same, size - leaves_self),
        np.minimum(n_other, len(labels) - size),
    )
    return Task(
        query_labels,
        labels,
        leaves_self,
        *wanted,
        _empty(n, n_same),
        _empty(n, n_other),
    )


def _search_sparse(
    queries: sp.csr_array, index: sp.csr_array, lists: Task, workers: Workers
) -> None:
    """Fill the lists from the inner products of all queries with all rows."""
    from .cpu.kernels import search as kernels
    from .cpu.rows import arrays_of

    if not queries.shape[0]:
        return
    is_same = queries is index and lists.leaves_self
    queries, index, frequency = _on_shared_columns(queries, index)
    n_products = float(frequency[queries.indices].sum(dtype=np.float64))
    chosen = np.arange(queries.shape[0])
    n = index.shape[0]
    by_row = arrays_of(queries)
    if is_same and n >= MEETING_ROWS and n_products > LEAST_SHARED * n * n:
        chosen = _search_among(index, by_row, frequency, lists, workers)
    cost = (n_products + index.nnz) / queries.shape[0] + ROW_COST * n

    def search_block(block: sp.csr_array, first: int) -> None:
        given = chosen, by_row, arrays_of(block.tocsc()), lists.arrays, first

        def fill(start: int, stop: int) -> None:
            kernels.top_by_columns(start, stop, *given, np.zeros(block.shape[0]))

        workers.run_pieces(fill, len(chosen), cost * block.shape[0] / n)

    for first in range(0, n if len(chosen) else 0, SPARSE_BLOCK):
        search_block(
            index[first : first + SPARSE_BLOCK] if n > SPARSE_BLOCK else index, first
        )
    _finish(lists)


def _search_among(
    X: sp.csr_array,
    by_row: Arrays,
    frequency: np.ndarray,
    lists: Task,
    workers: Workers,
) -> np.ndarray:
    """Fill the lists of rows that are searched for among themselves; return those left to fill.

    Each pair of rows meets once, for the lists of both: groups of rows meet in turns,
    as the teams of a league do, so that each is in one task at a time. Inner products
    are summed in float32 first, up to an error of a share of each: values must be
    positive, and not too far apart. Rows with inner products of 0 in their lists are
    left: of all rows that have it the first count.
    """
    from .cpu.kernels import search as kernels
    from .cpu.rows import arrays_of

    n = X.shape[0]
    largest = _largest(X)
    longest = int(np.diff(X.indptr).max())
    if X.data.min() < FLOAT_RANGE * largest or longest > LONGEST_ROW:
        return np.arange(n)
    n_frequent = int(np.searchsorted(-frequency, -FREQUENT * n))
    n_features = max(
        n_frequent, int(np.searchsorted(-frequency, -1))
    )  # those of several rows
    shared = X[:, :n_features] / largest
    shared.sort_indices()
    near = *arrays_of(shared)[:2], shared.data.astype(np.float32)
    scale = (1.0 - (longest + 8) * 2.0**-23) / largest / largest
    n_groups = 2 * max(
        1, min(4 * n // MEETING_ROWS, max(n // MEETING_ROWS, 2 * workers.n_threads))
    )
    bounds = np.arange(n_groups + 1) * n // n_groups
    n_entries = int(np.diff(near[0][bounds]).max())
    low = np.where([lists.want_same > 0, lists.want_other > 0], -np.inf, np.inf).astype(
        np.float32
    )

    def fill(start: int, stop: int, pairs: np.ndarray) -> None:
        room = (
            _lines(MEETING_BLOCK // kernels.PART, n_frequent, kernels.PART),
            np.empty(n_features - n_frequent + 2, dtype=np.int32),
            np.empty(n_entries, dtype=np.uint16),
            np.empty(n_entries, dtype=np.float32),
            _lines(SIDE_BY_SIDE, MEETING_BLOCK),
            _lines(MEETING_BLOCK),
            np.zeros(X.shape[1]),
        )
        kernels.meet(
            start, stop, pairs, bounds, near, by_row, lists.arrays, low, scale, room
        )

    one = np.arange(n_groups)
    other = np.arange(n_groups)
    for turn in range(n_groups):
        cost = PAIR_COST * (n // n_groups) ** 2
        workers.run_pieces(fill, len(one), cost, np.stack([one, other], axis=1))
        turned = np.append(0, 1 + (np.arange(n_groups - 1) + turn) % (n_groups - 1))
        one = turned[: n_groups // 2]
        other = turned[: n_groups // 2 - 1 : -1]
    # A list that wants nothing has scores of -inf.
    is_left = np.hstack(
        [found.scores[:, :1] == 0.0 for found in (lists.same, lists.other)]
    ).any(1)
    lists.same.scores[is_left] = lists.other.scores[is_left] = -np.inf
    return np.flatnonzero(is_left)


def _lines(*shape: int) -> np.ndarray:
    """Return room for float32 that starts at a line of the cache."""
    size = int(np.prod(shape))
    room = np.empty(size + 16, dtype=np.float32)
    return room[-room.ctypes.data // 4 % 16 :][:size].reshape(shape)


def _search_dense(
    queries: np.ndarray, index: np.ndarray, lists: Task, workers: Workers
) -> None:
    """Fill the lists from products of blocks of queries with all rows."""
    from .cpu.kernels import search as kernels

    # In float64 also where the rows are float32: neighbors must not depend on rounding.
    columns = index.T.astype(np.float64, copy=False)
    block = max(1, DENSE_BLOCK // max(1, index.shape[0]))
    for first in range(0, len(queries), block):
        sums = queries[first : first + block].astype(np.float64, copy=False) @ columns
        workers.run_pieces(
            kernels.top_of_sums, len(sums), index.shape[0], sums, first, lists.arrays
        )
    _finish(lists)


def _finish(lists: Task) -> None:
    """Sort all lists; all have the rows that they want: none wants more than there are."""
    lists.same.size[:], lists.other.size[:] = lists.want_same, lists.want_other
    for first in range(0, len(lists.query_labels), SORTED):
        for scores, rows, _ in (lists.same, lists.other):
            parts = scores[first : first + SORTED], rows[first : first + SORTED]
            order = np.lexsort((parts[1], -parts[0]))
            for part in parts:
                part[:] = np.take_along_axis(part, order, axis=1)


def _largest(X: Any) -> float:
    """Return the largest absolute value."""
    return largest_value(X.data if sp.issparse(X) else X)


def _check_products(queries: float, index: float, n_features: int) -> None:
    """Raise ValueError where inner products may overflow, since they could not be ordered."""
    if not queries * index * n_features < np.finfo(np.float64).max:
        raise ValueError(
            f"Inner products may overflow: queries has values up to {queries:.3g} and "
            f"index up to {index:.3g}. Scale the rows to smaller values."
        )


def _empty(n: int, k: int) -> Neighbors:
    return Neighbors(
        np.full((n, k), -np.inf), np.full((n, k), -1), np.zeros(n, dtype=np.int64)
    )


def _on_shared_columns(
    queries: sp.csr_array, index: sp.csr_array
) -> tuple[sp.csr_array, sp.csr_array, np.ndarray]:
    """Return both as float64 on the columns that both use, and how often the index uses each.

    The most frequent columns come first, so that those read most often are close in
    memory. The entries of a row stay in their order.
    """
    is_same = queries is index
    matrices, _ = (
        drop_unused_columns(index) if is_same else drop_unused_columns(index, queries)
    )
    index = matrices[0]
    queries = matrices[-1]
    d = index.shape[1]
    frequency = np.bincount(index.indices, minlength=d)
    is_queried = np.zeros(d, dtype=bool)
    is_queried[queries.indices] = True
    shared = np.flatnonzero(is_queried & (frequency > 0))
    shared = shared[np.argsort(-frequency[shared], kind="stable")]
    kept = sp.csr_array(index[:, shared], dtype=np.float64)
    others = kept if is_same else sp.csr_array(queries[:, shared], dtype=np.float64)
    return others, kept, frequency[shared]
