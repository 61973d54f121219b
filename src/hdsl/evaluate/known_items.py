"""Known-item search: whether a row is found again by half of its features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy import stats
from sklearn.base import BaseEstimator

from .. import checks
from ..similarity import LearnedCosine, as_rewriter, check_result, unit_rows
from ..solver.columns import drop_unused_columns
from .errors import wilson_interval

#: Similarities that are formed at a time: 32 MiB.
BLOCK = 2**22

#: Similarities that differ by less than this share of the largest of a query are ties, so that
#: rounding does not decide between equal rows.
TIE = 1e-10


@dataclass(frozen=True, eq=False)
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
        Number of rows with fewer than 2 features: no query is made from these.
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
        n = len(self.ranks)
        if n < 2:
            return 0.0, 1.0
        error = float(np.std(1.0 / self.ranks, ddof=1) / np.sqrt(n))
        half = float(stats.t.ppf(0.5 + self.confidence / 2, n - 1)) * error
        return max(self.mrr - half, 0.0), min(self.mrr + half, 1.0)

    def recall(self, k: int) -> float:
        """Return the share of queries whose row has rank k or better."""
        return float(np.mean(self.ranks <= k))

    def __str__(self) -> str:
        low, high = self.interval
        return (
            f"MRR {self.mrr:.3f} ({low:.3f} to {high:.3f}), found first {100 * self.recall(1):.1f} "
            f"%, in the first ten {100 * self.recall(10):.1f} %"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the facts as plain values, for JSON."""
        n = len(self.ranks)
        facts: dict[str, Any] = {
            "n_queries": n,
            "n_rows": self.n_rows,
            "n_skipped": self.n_skipped,
            "confidence": self.confidence,
            "mrr": self.mrr,
            "mrr_interval": list(self.interval),
        }
        for k in (1, 10):
            n_found = int((self.ranks <= k).sum())
            facts[f"recall_at_{k}"] = self.recall(k)
            facts[f"recall_at_{k}_interval"] = list(wilson_interval(n_found, n, self.confidence))
        return facts


def known_item(
    model: Any,
    X: Any,
    *,
    rows: Any = None,
    share: float = 0.5,
    n_queries: int | None = None,
    cosine: bool = True,
    random_state: Any = None,
) -> KnownItem:
    """Return the ranks of rows that are searched by a random part of their features.

    A query has some of the values of one row of X, drawn at random. A good similarity ranks that
    row first among all rows of X. This needs no labels, and shows whether learning harms a search
    for one particular row.

    Parameters
    ----------
    model : HDSL, Similarity, pipeline, callable or None
        A fitted similarity, or another object with ``rewrite(X)``; or an object with
        ``transform(X)``, such as a pipeline, or a function of X: queries and rows are then
        transformed and compared by the cosine of the result. None is the plain cosine.
    X : array-like or sparse matrix of shape (n_rows, n_features)
    rows : array-like of int, default=None
        Rows to make queries from, such as rows held out; None is all. All rows of X are ranked.
    share : float, default=0.5
        Share of the features of a row in its query, at least one and never all.
    n_queries : int, default=None
        Size of a random sample of the rows to make queries from; None is all.
    cosine : bool, default=True
        Whether to rank by the learned cosine. Otherwise ranks are by S, or by the dot product.
    random_state : int, RandomState instance or None, default=None
        The same number makes the same queries for each model.

    Returns
    -------
    KnownItem

    Examples
    --------
    >>> X = np.array([[1.0, 1, 0, 0, 0], [0, 0, 1, 2, 0], [0, 0, 0, 0, 1]])
    >>> found = known_item(None, X, random_state=0)
    >>> found.n_skipped
    1
    >>> print(found)
    MRR 1.000 (1.000 to 1.000), found first 100.0 %, in the first ten 100.0 %
    """
    owner = "known_item"
    checks.check_number(owner, "share", share, low=0, strict=True, high=1)
    checks.check_number(owner, "n_queries", n_queries, low=1, integer=True, words=(None,))
    is_similarity = _is_similarity(model)
    is_estimator = is_similarity and isinstance(model, BaseEstimator)
    checked = model if is_estimator else BaseEstimator()
    X = checks.canonical(checks.check_matrix(checked, X, reset=not is_estimator))
    X = X.astype(np.float64, copy=False)
    chosen, n_skipped = _choose(X, rows)
    rng = checks.generator(random_state)
    if n_queries is not None and n_queries < len(chosen):
        chosen = np.sort(rng.choice(chosen, n_queries, replace=False))
    query_side, row_side = _sides(model, X.shape[1], is_similarity, cosine)
    ranks = middle_ranks(query_side(half_rows(X[chosen], share, rng)), row_side(X), chosen)
    return KnownItem(ranks, chosen, X.shape[0], n_skipped)


def _is_similarity(model: Any) -> bool:
    return hasattr(model, "rewrite") or hasattr(model, "similarity_")


def _choose(X: sp.csr_array, rows: Any) -> tuple[np.ndarray, int]:
    """Return the rows that have 2 features or more, and how many others there are."""
    n = X.shape[0]
    given = np.arange(n) if rows is None else np.asarray(rows)
    if given.ndim != 1 or given.dtype.kind not in "iu":
        raise ValueError(
            f"rows must be a vector of row numbers of X. Got {given.dtype} of shape {given.shape}."
        )
    if len(given) and not (given.min() >= 0 and given.max() < n):
        raise ValueError(f"rows must be from 0 to {n - 1}, as X has {n} rows.")
    chosen = given[np.diff(X.indptr)[given] >= 2].astype(np.int64)
    if not len(chosen):
        raise ValueError(
            f"None of the {len(given)} rows has 2 features or more: a part of a row cannot be "
            "searched for."
        )
    return chosen, len(given) - len(chosen)


def half_rows(X: sp.csr_array, share: float, rng: np.random.Generator) -> sp.csr_array:
    """Return rows with a random share of their values: at least one, and not all."""
    sizes = np.diff(X.indptr)
    n_drawn = np.clip(np.rint(share * sizes), 1, sizes - 1).astype(np.int64)
    row = np.repeat(np.arange(len(sizes)), sizes)
    order = np.lexsort((rng.random(X.nnz), row))  # the values of each row, shuffled
    place = np.arange(X.nnz) - np.repeat(X.indptr[:-1], sizes)
    drawn = np.sort(order[place < np.repeat(n_drawn, sizes)])
    indptr = np.concatenate([[0], np.cumsum(n_drawn)])
    return sp.csr_array((X.data[drawn], X.indices[drawn], indptr), shape=X.shape)


def _sides(
    model: Any, n_features: int, is_similarity: bool, cosine: bool
) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """Return what to do with queries and with rows, so that their dot products rank."""
    if is_similarity:
        similarity = as_rewriter(model, n_features, "model")
        similarity = LearnedCosine(similarity) if cosine else similarity
        return similarity.rewrite, similarity.index_rows
    if not (model is None or callable(model) or hasattr(model, "transform")):
        raise ValueError(
            "model must be a fitted similarity, an object with transform(X), a function of X, or "
            f"None for the cosine. Got {model!r} instead."
        )
    transform = getattr(model, "transform", model)

    def embed(X: sp.csr_array) -> Any:
        Z = X if transform is None else transform(X)
        Z = sp.csr_array(Z) if sp.issparse(Z) else np.asarray(Z)
        if Z.ndim != 2 or Z.shape[0] != X.shape[0]:
            raise ValueError(
                f"model must return one row per row of X. Got shape {Z.shape} for {X.shape[0]} "
                "rows."
            )
        checks.check_finite(Z, "The transform of X")
        Z = Z.astype(np.float64, copy=False)
        return unit_rows(Z) if cosine else Z

    return embed, embed


def middle_ranks(queries: Any, index: Any, own: np.ndarray) -> np.ndarray:
    """Return the middle rank of row `own[q]` of the index for each query q, by blocks."""
    if sp.issparse(queries) and sp.issparse(index):
        (queries, index), _ = drop_unused_columns(sp.csr_array(queries), sp.csr_array(index))
    columns = sp.csr_array(index.T) if sp.issparse(index) else index.T
    ranks = np.empty(len(own))
    size = max(1, BLOCK // index.shape[0])
    for first in range(0, len(own), size):
        block = slice(first, first + size)
        with np.errstate(over="ignore", invalid="ignore"):
            scores = queries[block] @ columns
        scores = scores.toarray() if sp.issparse(scores) else np.asarray(scores)
        check_result(scores, "The similarity")
        rest = scores - np.take_along_axis(scores, own[block, None], axis=1)
        tie = TIE * np.abs(scores).max(axis=1, keepdims=True)
        n_ties = (np.abs(rest) <= tie).sum(axis=1)  # the row itself among them
        ranks[block] = (rest > tie).sum(axis=1) + (n_ties + 1) / 2
    return ranks
