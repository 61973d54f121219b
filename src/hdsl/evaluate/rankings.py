"""How well rows and documents are ranked: known items, and judgements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy import stats

from ..input.matrices import as_rows
from ..input.parameters import check_number, check_word, generator
from ..similarity.cosine import LearnedCosine
from ..similarity.pairwise import as_rewriter
from ..similarity.products import check_result
from ..similarity.rows import unit_rows
from ..solver.columns import drop_unused_columns
from .errors import checked_rows, wilson_interval

MEASURES = ("mrr", "precision", "ndcg")

#: Similarities that are formed at a time: 32 MiB.
BLOCK = 2**22

#: Similarities that differ by less than this share of the largest of a query are ties,
#: so that rounding does not decide between equal rows.
TIE = 1e-10


# --- intervals ------------------------------------------------------------------------


def mean_interval(values: np.ndarray, confidence: float = 0.95) -> tuple[float, float]:
    """Return Student's interval of a mean; infinite for fewer than 2 values.

    Examples
    --------
    >>> low, high = mean_interval(np.array([0.0, 1.0, 2.0]))
    >>> round(low, 2), round(high, 2)
    (-1.48, 3.48)
    """
    n = len(values)
    if n < 2:
        return -np.inf, np.inf
    error = float(np.std(values, ddof=1) / np.sqrt(n))
    half = float(stats.t.ppf(0.5 + confidence / 2, n - 1)) * error
    return float(values.mean()) - half, float(values.mean()) + half


def _share_interval(values: np.ndarray, confidence: float) -> tuple[float, float]:
    """Return Student's interval of a mean that lies in [0, 1]."""
    low, high = mean_interval(values, confidence)
    return max(low, 0.0), min(high, 1.0)


# --- known items ----------------------------------------------------------------------


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
        return _share_interval(1.0 / self.ranks, self.confidence)

    def recall(self, k: int) -> float:
        """Return the share of queries whose row has rank k or better."""
        return float(np.mean(self.ranks <= k))

    def __str__(self) -> str:
        low, high = self.interval
        return (
            f"MRR {self.mrr:.3f} ({low:.3f} to {high:.3f}), found first "
            f"{100 * self.recall(1):.1f} %, in the first ten "
            f"{100 * self.recall(10):.1f} %"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the facts as plain values, for JSON."""
        facts: dict[str, Any] = {
            "n_queries": len(self.ranks),
            "n_rows": self.n_rows,
            "n_skipped": self.n_skipped,
            "confidence": self.confidence,
            "mrr": self.mrr,
            "mrr_interval": list(self.interval),
        }
        for k in (1, 10):
            found = int((self.ranks <= k).sum()), len(self.ranks)
            facts[f"recall_at_{k}"] = self.recall(k)
            facts[f"recall_at_{k}_interval"] = list(
                wilson_interval(*found, self.confidence)
            )
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
        Rows to make queries from, such as rows held out; None is all. All rows of X are
        ranked.
    share : float, default=0.5
        Share of the features of a row in its query, at least one and never all.
    n_queries : int, default=None
        Size of a random sample of the rows to make queries from; None is all.
    cosine : bool, default=True
        Whether to rank by the learned cosine. Otherwise ranks are by S, or by the dot
        product.
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
    check_number(owner, "share", share, low=0, strict=True, high=1)
    check_number(owner, "n_queries", n_queries, low=1, integer=True, words=(None,))
    is_similarity = hasattr(model, "rewrite") or hasattr(model, "similarity_")
    X = checked_rows(model if is_similarity else None, X)
    chosen, n_skipped = _choose(X, rows)
    rng = generator(random_state)
    if n_queries is not None and n_queries < len(chosen):
        chosen = np.sort(rng.choice(chosen, n_queries, replace=False))
    query_side, row_side = _sides(model, X.shape[1], is_similarity, cosine)
    queries = query_side(half_rows(X[chosen], share, rng))
    index = row_side(X)
    if sp.issparse(queries) and sp.issparse(index):
        (queries, index), _ = drop_unused_columns(
            sp.csr_array(queries), sp.csr_array(index)
        )
        index = sp.csc_array(index)  # whose transpose has rows
    ranks = np.empty(len(chosen))
    size = max(1, BLOCK // X.shape[0])
    for first in range(0, len(chosen), size):
        block = slice(first, first + size)
        with np.errstate(over="ignore", invalid="ignore"):
            found = queries[block] @ index.T
        scores = check_result(
            found.toarray() if sp.issparse(found) else found, "The similarity"
        )
        ranks[block] = middle_ranks(scores, chosen[block])
    return KnownItem(ranks, chosen, X.shape[0], n_skipped)


def _choose(X: sp.csr_array, rows: Any) -> tuple[np.ndarray, int]:
    """Return the rows that have 2 features or more, and how many others there are."""
    n = X.shape[0]
    given = np.arange(n) if rows is None else np.asarray(rows)
    if given.ndim != 1 or given.dtype.kind not in "iu":
        raise ValueError(
            f"rows must be a vector of row numbers of X. Got {given.dtype} of shape "
            f"{given.shape}."
        )
    if len(given) and not (given.min() >= 0 and given.max() < n):
        raise ValueError(f"rows must be from 0 to {n - 1}, as X has {n} rows.")
    chosen = given[np.diff(X.indptr)[given] >= 2].astype(np.int64)
    if not len(chosen):
        raise ValueError(
            f"None of the {len(given)} rows has 2 features or more: a part of a row "
            "cannot be searched for."
        )
    return chosen, len(given) - len(chosen)


def half_rows(X: sp.csr_array, share: float, rng: np.random.Generator) -> sp.csr_array:
    """Return rows with a random share of their values: at least one, and not all."""
    sizes = np.diff(X.indptr)
    n_drawn = np.clip(np.rint(share * sizes), 1, sizes - 1).astype(np.int64)
    row = np.repeat(np.arange(len(sizes)), sizes)
    order = np.argsort(row + rng.random(X.nnz), kind="stable")  # each row, shuffled
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
            "model must be a fitted similarity, an object with transform(X), a "
            f"function of X, or None for the cosine. Got {model!r} instead."
        )
    transform = getattr(model, "transform", model)

    def embed(X: sp.csr_array) -> Any:
        Z = as_rows(X if transform is None else transform(X), "The transform of X")
        if Z.shape[0] != X.shape[0]:
            raise ValueError(
                f"model must return one row per row of X. Got shape {Z.shape} for "
                f"{X.shape[0]} rows."
            )
        Z = Z.astype(np.float64, copy=False)
        return unit_rows(Z) if cosine else Z

    return embed, embed


def middle_ranks(scores: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Return the middle rank of entry `targets[q]` of row q of the scores."""
    rest = scores - np.take_along_axis(scores, targets[:, None], axis=1)
    tie = TIE * np.abs(scores).max(axis=1, keepdims=True)
    n_ties = (np.abs(rest) <= tie).sum(axis=1)  # the row itself among them
    return np.asarray((rest > tie).sum(axis=1) + (n_ties + 1) / 2)


# --- judgements -----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class RankingQuality:
    """How well queries rank what is relevant for them.

    Parameters
    ----------
    reciprocal_ranks : ndarray of shape (n_queries,)
        1 / rank of the first relevant document, 0 where none was found.
    precisions : ndarray of shape (n_queries,)
        Share of relevant documents among the first k.
    ndcgs : ndarray of shape (n_queries,)
        Discounted gain of the first k, Σ grade / log2(1 + rank), as a share of the
        largest possible.
    k : int
    confidence : float
        Of the intervals.
    """

    reciprocal_ranks: np.ndarray
    precisions: np.ndarray
    ndcgs: np.ndarray
    k: int
    confidence: float = 0.95

    @property
    def mrr(self) -> float:
        """The mean reciprocal rank."""
        return float(self.reciprocal_ranks.mean())

    @property
    def precision(self) -> float:
        """The mean precision at k."""
        return float(self.precisions.mean())

    @property
    def ndcg(self) -> float:
        """The mean nDCG at k."""
        return float(self.ndcgs.mean())

    def values(self, measure: str) -> np.ndarray:
        """Return the value of each query, for "mrr", "precision" or "ndcg"."""
        check_word("RankingQuality.values", "measure", measure, MEASURES)
        values = {
            "mrr": self.reciprocal_ranks,
            "precision": self.precisions,
            "ndcg": self.ndcgs,
        }
        return values[measure]

    def interval(self, measure: str) -> tuple[float, float]:
        """Return Student's interval of the mean of a measure, inside [0, 1]."""
        return _share_interval(self.values(measure), self.confidence)

    def gain(self, before: RankingQuality, measure: str) -> tuple[float, float, float]:
        """Return the mean gain over another ranking of the same queries, and its interval.

        The interval is Student's, of the differences per query.
        """
        mine = self.values(measure)
        theirs = before.values(measure)
        if len(mine) != len(theirs) or self.k != before.k:
            raise ValueError(
                f"The rankings have {len(mine)} and {len(theirs)} queries at k = "
                f"{self.k} and {before.k}: a gain needs the same queries at the same k."
            )
        return float((mine - theirs).mean()), *mean_interval(
            mine - theirs, self.confidence
        )

    def __str__(self) -> str:
        names = {
            "mrr": "MRR",
            "precision": f"precision@{self.k}",
            "ndcg": f"nDCG@{self.k}",
        }
        parts = []
        for measure, name in names.items():
            low, high = self.interval(measure)
            parts.append(
                f"{name} {self.values(measure).mean():.3f} ({low:.3f} to {high:.3f})"
            )
        return ", ".join(parts)


def ranking_quality(
    found: Sequence[Any] | np.ndarray, relevant: Sequence[Any], k: int = 10
) -> RankingQuality:
    """Return how well rankings agree with judgements.

    Parameters
    ----------
    found : sequence of n_queries sequences of ids
        What was found, best first; None and -1 stand for nothing. Ranks count as deep
        as it goes.
    relevant : sequence of n_queries collections of ids, or mappings of ids to grades
        What is relevant; a collection has the grade 1 for each. Documents that are not
        in it have the grade 0.
    k : int, default=10

    Returns
    -------
    RankingQuality

    Examples
    --------
    >>> quality = ranking_quality([[3, 1, 2], [5, 4, 6]], [{1, 2}, {4: 1.0, 5: 3.0}], k=2)
    >>> quality.mrr, quality.precision, round(quality.ndcg, 3)
    (0.75, 0.75, 0.693)
    """
    check_number("ranking_quality", "k", k, low=1, integer=True)
    if len(found) != len(relevant) or not len(found):
        raise ValueError(
            f"There are {len(found)} rankings and {len(relevant)} judgements: one of "
            "each per query, and at least one query, is expected."
        )
    pairs = enumerate(zip(found, relevant, strict=True))
    rows = [_measure(q, ids, one, int(k)) for q, (ids, one) in pairs]
    ranks, precisions, ndcgs = np.array(rows).T
    return RankingQuality(ranks, precisions, ndcgs, k=int(k))


def _measure(q: int, ids: Any, relevant: Any, k: int) -> tuple[float, float, float]:
    given = relevant if isinstance(relevant, Mapping) else dict.fromkeys(relevant, 1.0)
    grades = {one: float(grade) for one, grade in given.items() if grade != 0}
    if not grades or not all(
        np.isfinite(grade) and grade > 0 for grade in grades.values()
    ):
        raise ValueError(
            f"Query {q} has no relevant document, or a grade that is negative or not "
            "finite: leave such queries out."
        )
    ids = ids.tolist() if isinstance(ids, np.ndarray) else list(ids)
    hits = [one for one in ids if one in grades]
    if len(set(hits)) < len(hits):
        raise ValueError(
            f"The ranking of query {q} has a relevant document twice: list it once."
        )
    first = next((rank for rank, one in enumerate(ids, 1) if one in grades), None)
    gains = np.array([grades.get(one, 0.0) for one in ids[:k]])
    ideal = np.sort(list(grades.values()))[::-1][:k]
    discounts = 1.0 / np.log2(np.arange(2, k + 2))
    ndcg = gains @ discounts[: len(gains)] / (ideal @ discounts[: len(ideal)])
    return (
        0.0 if first is None else 1.0 / first,
        float((gains > 0).sum() / k),
        float(ndcg),
    )
