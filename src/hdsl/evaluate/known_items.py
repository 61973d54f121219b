"""How well a search finds a particular row by a part of its features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..input.matrices import as_rows
from ..input.parameters import check_number, generator
from ..rows import Rows, count_features, unit_rows
from ..similarity.cosine import COSINE, LearnedCosine, as_rewriter, ranking_with
from ..similarity.products import check_result, products
from ..wide_matrices import drop_unused_columns
from .comparisons import checked_rows
from .errors import share_interval, wilson_interval

#: Similarities that are formed at a time: 32 MiB.
BLOCK = 2**22

#: Similarities that differ by less than this share of the largest of a query are ties,
#: so that rounding does not decide between equal rows.
TIE = 1e-10


@dataclass(frozen=True, eq=False, repr=False)
class KnownItem:
    """Ranks of rows for queries made of a part of their features.

    Parameters
    ----------
    ranks : ndarray of shape (n_queries,)
        From 1; the middle rank among ties.
    rows : ndarray of shape (n_queries,)
        Row numbers that the queries were made from.
    n_rows : int
        Number of rows that were ranked.
    n_skipped : int
        Number of rows with fewer than 2 features, which make no query.
    confidence : float
        Of the intervals.
    """

    ranks: np.ndarray
    rows: np.ndarray
    n_rows: int
    n_skipped: int
    confidence: float = 0.95

    @property
    def mrr(self) -> float:
        """The mean reciprocal rank: 1 if every row is found first."""
        return float(np.mean(1.0 / self.ranks))

    @property
    def interval(self) -> tuple[float, float]:
        """Student's interval of the mean reciprocal rank, inside [0, 1]."""
        return share_interval(1.0 / self.ranks, self.confidence)

    def recall(self, k: int) -> float:
        """Return the share of queries whose row has rank k or better."""
        return float(np.mean(self.ranks <= k))

    def __repr__(self) -> str:
        return f"<KnownItem: {self}>"

    def __str__(self) -> str:
        low, high = self.interval
        return (
            f"MRR {self.mrr:.3f} ({low:.3f} to {high:.3f}), found first "
            f"{100 * self.recall(1):.1f} %, in the first ten "
            f"{100 * self.recall(10):.1f} %"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the facts as plain values, for JSON."""
        n_queries = len(self.ranks)
        facts: dict[str, Any] = {
            "n_queries": n_queries,
            "n_rows": self.n_rows,
            "n_skipped": self.n_skipped,
            "confidence": self.confidence,
            "mrr": self.mrr,
            "mrr_interval": list(self.interval),
        }
        for k in (1, 10):
            n_hits = int((self.ranks <= k).sum())
            interval = wilson_interval(n_hits, n_queries, self.confidence)
            facts[f"recall_at_{k}"] = self.recall(k)
            facts[f"recall_at_{k}_interval"] = list(interval)
        return facts


def known_item(
    model: Any,
    X: Any,
    *,
    rows: Any = None,
    share: float = 0.5,
    n_queries: int | None = None,
    cosine: bool | None = None,
    random_state: Any = None,
) -> KnownItem:
    """Return the ranks of rows in searches by a random part of their features.

    A query has some of the values of one row of X, drawn at random. A good similarity
    ranks that row first among all rows of X. This needs no labels, and shows whether
    learning harms a search for one particular row.

    Parameters
    ----------
    model : HDSL, Similarity, pipeline, callable or None
        A fitted similarity, or another object with ``rewrite(X)``; or an object with
        ``transform(X)``, such as a pipeline, or a function of X: queries and rows are
        then transformed and compared by the cosine of the result. None is the plain
        cosine.
    X : array-like or sparse matrix of shape (n_rows, n_features)
    rows : array-like of int, default=None
        Rows to make queries from, such as held-out rows; None is all. All rows of X are
        ranked.
    share : float, default=0.5
        Share of the features of a row in its query, at least one and never all.
    n_queries : int, default=None
        Size of a random sample of the rows to make queries from; None is all.
    cosine : bool or None, default=None
        Whether to rank by the learned cosine. Otherwise ranks are by S, or by the dot
        product. None follows ``ranking_`` of the model.
    random_state : int, RandomState instance or None, default=None
        The same number makes the same queries for each model.

    Returns
    -------
    KnownItem

    Examples
    --------
    >>> X = np.array([[1.0, 1, 0, 0, 0], [0, 0, 1, 2, 0], [0, 0, 0, 0, 1]])
    >>> search = known_item(None, X, random_state=0)
    >>> search.n_skipped
    1
    >>> print(search)
    MRR 1.000 (1.000 to 1.000), found first 100.0 %, in the first ten 100.0 %
    """
    owner = "known_item"
    cosine = ranking_with(model, cosine) == COSINE
    check_number(owner, "share", share, low=0, strict=True, high=1)
    check_number(owner, "n_queries", n_queries, low=1, integer=True, words=(None,))
    is_similarity = hasattr(model, "rewrite") or hasattr(model, "similarity_")
    if is_similarity:
        X = checked_rows(model, X)
    else:
        X = checked_rows(None, X)
    candidates = _row_numbers(rows, X.shape[0])
    targets = _rows_to_search(X, candidates)
    n_skipped = len(candidates) - len(targets)
    rng = generator(random_state)
    if n_queries is not None and n_queries < len(targets):
        targets = np.sort(rng.choice(targets, n_queries, replace=False))
    if is_similarity:
        sides = _sides_of_similarity(model, X.shape[1], cosine)
    else:
        sides = _sides_of_transform(model, cosine)
    queries = sides.query(half_rows(X[targets], share, rng))
    ranks = _ranks(queries, sides.row(X), targets)
    return KnownItem(ranks, targets, X.shape[0], n_skipped)


def _row_numbers(rows: Any, n_rows: int) -> np.ndarray:
    """Return row numbers of X as an array, all of them for None; ValueError if bad."""
    if rows is None:
        return np.arange(n_rows)
    rows = np.asarray(rows)
    if rows.ndim != 1 or rows.dtype.kind not in "iu":
        raise ValueError(
            f"rows must be a vector of row numbers of X. Got {rows.dtype} of shape "
            f"{rows.shape}."
        )
    if len(rows) and not (rows.min() >= 0 and rows.max() < n_rows):
        raise ValueError(
            f"rows must be from 0 to {n_rows - 1}, as X has {n_rows} rows."
        )
    return rows


def _rows_to_search(X: sp.csr_array, rows: np.ndarray) -> np.ndarray:
    """Return the rows that have 2 features or more; raise ValueError if there is none."""
    n_values = count_features(X)[rows]
    targets = rows[n_values >= 2].astype(np.int64)
    if not len(targets):
        raise ValueError(
            f"None of the {len(rows)} rows has 2 features or more: a part of a row "
            "cannot be searched for."
        )
    return targets


class _Sides(NamedTuple):
    """What to do with queries and with rows, so that their dot products rank."""

    query: Callable[[Any], Any]
    row: Callable[[Any], Any]


def _sides_of_similarity(model: Any, n_features: int, cosine: bool) -> _Sides:
    """Return both sides of a learned similarity, or of its cosine."""
    similarity = as_rewriter(model, n_features, "model")
    if cosine:
        similarity = LearnedCosine(similarity)
    return _Sides(similarity.rewrite, similarity.index_rows)


def _sides_of_transform(model: Any, cosine: bool) -> _Sides:
    """Return both sides of an object with ``transform``, of a function, or of None."""
    if not (model is None or callable(model) or hasattr(model, "transform")):
        raise ValueError(
            "model must be a fitted similarity, an object with transform(X), a "
            f"function of X, or None for the cosine. Got {model!r} instead."
        )
    transform = getattr(model, "transform", model)

    def embed(X: sp.csr_array) -> Any:
        Z = X
        if transform is not None:
            Z = transform(X)
        Z = as_rows(Z, "The transform of X")
        if Z.shape[0] != X.shape[0]:
            raise ValueError(
                f"model must return one row per row of X. Got shape {Z.shape} for "
                f"{X.shape[0]} rows."
            )
        if not isinstance(Z, Rows):
            Z = Z.astype(np.float64, copy=False)
        if cosine:
            return unit_rows(Z)
        return Z

    return _Sides(query=embed, row=embed)


def _ranks(queries: Any, rows: Any, targets: np.ndarray) -> np.ndarray:
    """Return the rank of each target among all rows, by dot products, block by block."""
    if isinstance(rows, Rows):
        return _ranks_of_mixed(queries, rows, targets)
    if sp.issparse(queries) and sp.issparse(rows):
        (queries, rows), _ = drop_unused_columns(
            sp.csr_array(queries), sp.csr_array(rows)
        )
        rows = sp.csc_array(rows)  # whose transpose has rows
    ranks = np.empty(len(targets))
    n_at_a_time = max(1, BLOCK // rows.shape[0])
    for first in range(0, len(targets), n_at_a_time):
        block = slice(first, first + n_at_a_time)
        with np.errstate(over="ignore", invalid="ignore"):
            scores = queries[block] @ rows.T
        if sp.issparse(scores):
            scores = scores.toarray()
        scores = check_result(scores, "The similarity")
        ranks[block] = middle_ranks(scores, targets[block])
    return ranks


def _ranks_of_mixed(queries: Rows, rows: Rows, targets: np.ndarray) -> np.ndarray:
    """Return the rank of each target among rows with an embedding."""
    ranks = np.empty(len(targets))
    n_at_a_time = max(1, BLOCK // rows.shape[0])
    for first in range(0, len(targets), n_at_a_time):
        block = slice(first, first + n_at_a_time)
        scores = check_result(products(queries[block], rows), "The similarity")
        ranks[block] = middle_ranks(scores, targets[block])
    return ranks


def half_rows(X: Any, share: float, rng: np.random.Generator) -> Any:
    """Return rows with a random share of their values: at least one, and not all.

    Of mixed rows these are the sparse ones; the embedding stays as it is.
    """
    if isinstance(X, Rows):
        if not X.sparse.shape[1]:
            return X
        return Rows(half_rows(X.sparse, share, rng), X.dense)
    sizes = np.diff(X.indptr)
    n_kept = np.clip(np.rint(share * sizes), 1, sizes - 1).astype(np.int64)
    rows = np.repeat(np.arange(len(sizes)), sizes)
    shuffled = np.argsort(rows + rng.random(X.nnz), kind="stable")  # row by row
    position_in_row = np.arange(X.nnz) - np.repeat(X.indptr[:-1], sizes)
    kept = np.sort(shuffled[position_in_row < np.repeat(n_kept, sizes)])
    indptr = np.concatenate([[0], np.cumsum(n_kept)])
    return sp.csr_array((X.data[kept], X.indices[kept], indptr), shape=X.shape)


def middle_ranks(scores: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Return the rank of entry `targets[k]` of row k of the scores, the middle one of ties.

    Examples
    --------
    >>> middle_ranks(np.array([[3.0, 1.0, 1.0], [2.0, 5.0, 1.0]]), np.array([2, 1])).tolist()
    [2.5, 1.0]
    """
    leads = scores - np.take_along_axis(scores, targets[:, None], axis=1)
    tie = TIE * np.abs(scores).max(axis=1, keepdims=True)
    n_ties = (np.abs(leads) <= tie).sum(axis=1)  # the target itself among them
    return np.asarray((leads > tie).sum(axis=1) + (n_ties + 1) / 2)
