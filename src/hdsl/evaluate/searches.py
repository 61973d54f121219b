"""How well queries find what was judged relevant, by plain cosine and as learned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np

from ..search import top_k
from ..similarity.cosine import PlainCosine, ranked_by, ranking_of
from ..similarity.pairwise import as_rewriter
from ..similarity.rewriter import Rewriter
from .chance import McNemar, mcnemar
from .rankings import RankingQuality, ranking_quality
from .rows import checked_rows

#: Names of the measures that are shown, without the k that counts.
SHOWN = {"ndcg": "nDCG@", "mrr": "MRR", "recall": "recall@"}

#: Documents of a ranking; deeper ones have a reciprocal rank of 0.
DEPTH = 100


@dataclass(frozen=True, eq=False, repr=False)
class SearchComparison:
    """How well queries rank documents by plain cosine and as learned, and what it shows.

    Parameters
    ----------
    before, after : RankingQuality
        Of the plain cosine and as the model ranks, query by query.
    n_documents : int
        Documents that were ranked.
    """

    before: RankingQuality
    after: RankingQuality
    n_documents: int

    def __repr__(self) -> str:
        return f"<SearchComparison: {self.sentence}>"

    @property
    def n_queries(self) -> int:
        """The number of queries."""
        return len(self.before.ndcgs)

    @property
    def test(self) -> McNemar:
        """The sign test of the nDCG per query: A is the cosine and B as learned."""
        return mcnemar(-self.before.ndcgs, -self.after.ndcgs)

    @property
    def verdict(self) -> str:
        """Either "better", "worse", or "no difference": 0 is in the interval of the gain."""
        _, low, high = self.after.gain(self.before, "ndcg")
        if low > 0.0:
            return "better"
        if high < 0.0:
            return "worse"
        return "no difference"

    @property
    def sentence(self) -> str:
        """What the learned order gains or loses, in words."""
        gain, low, high = self.after.gain(self.before, "ndcg")
        test = self.test
        sentence = (
            f"{test.only_a:,} of {self.n_queries:,} queries better, "
            f"{test.only_b:,} worse: nDCG@{self.before.k} {gain:+.3f} "
            f"({low:+.3f} to {high:+.3f})."
        )
        if self.verdict == "no difference":
            return f"{sentence} The difference is not more than chance."
        if self.verdict == "worse":
            return f"{sentence} Use the cosine, or give more judgements."
        return sentence

    def names(self) -> dict[str, str]:
        """Return the measures that are shown, with their names."""
        k = self.before.k
        return {
            measure: f"{name}{k}" if name.endswith("@") else name
            for measure, name in SHOWN.items()
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the facts as plain values, for JSON."""
        measures = {}
        for measure, name in self.names().items():
            gain, low, high = self.after.gain(self.before, measure)
            measures[name] = {
                "cosine": _mean_of(self.before, measure),
                "learned": _mean_of(self.after, measure),
                "gain": gain,
                "gain_interval": _finite([low, high]),
            }
        return {
            "n_queries": self.n_queries,
            "n_documents": self.n_documents,
            "n_better": self.test.only_a,
            "n_worse": self.test.only_b,
            "measures": measures,
            "verdict": self.verdict,
            "sentence": self.sentence,
        }


def _mean_of(quality: RankingQuality, measure: str) -> dict[str, Any]:
    """Return the mean of a measure and its interval."""
    mean = float(quality.values(measure).mean())
    return {"mean": mean, "interval": list(quality.interval(measure))}


def _finite(limits: list[float]) -> list[float | None]:
    """Return limits with None for infinite ones, which JSON has not."""
    return [limit if np.isfinite(limit) else None for limit in limits]


def compare_searches(
    model: Rewriter,
    queries: Any,
    documents: Any,
    relevant: Sequence[Any],
    *,
    k: int = 10,
    leave_out: Any = None,
    n_jobs: int | None = None,
) -> SearchComparison:
    """Return how well queries find what was judged relevant, before and after learning.

    Parameters
    ----------
    model : HDSL, Similarity
        Fitted, or another object with ``rewrite(X)``.
    queries : array-like or sparse matrix of shape (n_queries, n_features)
    documents : array-like or sparse matrix of shape (n_documents, n_features)
    relevant : sequence of n_queries collections of ints, or mappings of ints to grades
        Numbers of the documents that are relevant, as for `ranking_quality`.
    k : int, default=10
        Documents that count. Reciprocal ranks count down to 100 documents.
    leave_out : array-like of int of shape (n_queries,), default=None
        For each query the number of a document that is no result, such as the query
        itself; -1 is none.
    n_jobs : int, default=None

    Returns
    -------
    SearchComparison
        Of the plain cosine and the learned one.

    Examples
    --------
    >>> from hdsl import HDSL
    >>> X = np.array([[1.0, 0, 1], [0, 1, 1], [2, 0, 0], [0, 3, 0]])
    >>> model = HDSL(scale=1.0, prior=1.0).fit(X, triplets=[[2, 0, 1], [3, 1, 0]])
    >>> searches = compare_searches(model, X[2:], X[:2], [{0}, {1}])
    >>> searches.before.ndcg, searches.verdict
    (1.0, 'no difference')
    """
    Q = checked_rows(model, queries)
    D = checked_rows(model, documents)
    depth = max(DEPTH, k)
    n_ranked = min(depth + 1, D.shape[0])  # one may be left out
    _check_relevant(relevant, D.shape[0])
    left_out = _left_out(leave_out, Q.shape[0])
    learned = ranked_by(ranking_of(model), as_rewriter(model, D.shape[1], "model"))
    plain = PlainCosine(model)
    by_cosine = top_k(plain.rewrite(Q), plain.index_rows(D), n_ranked, n_jobs=n_jobs)
    by_learned = top_k(
        learned.rewrite(Q), learned.index_rows(D), n_ranked, n_jobs=n_jobs
    )
    return SearchComparison(
        before=ranking_quality(_results(by_cosine.rows, left_out, depth), relevant, k),
        after=ranking_quality(_results(by_learned.rows, left_out, depth), relevant, k),
        n_documents=D.shape[0],
    )


def _check_relevant(relevant: Sequence[Any], n_documents: int) -> None:
    """Raise ValueError with the first relevant document that is no number of one."""
    for query, documents in enumerate(relevant):
        for document in documents:
            is_number = isinstance(document, Integral)
            if not is_number or not 0 <= document < n_documents:
                raise ValueError(
                    f"relevant[{query}] has {document!r}, but the documents are "
                    f"numbered from 0 to {n_documents - 1}."
                )


def _left_out(leave_out: Any, n_queries: int) -> list[int]:
    """Return the document of each query that is no result, -1 for none."""
    if leave_out is None:
        return [-1] * n_queries
    left_out = np.asarray(leave_out)
    if left_out.shape != (n_queries,) or left_out.dtype.kind not in "iu":
        raise ValueError(
            f"leave_out must have one number of a document per query, {n_queries} in "
            f"all. Got shape {left_out.shape} of dtype {left_out.dtype}."
        )
    return left_out.tolist()


def _results(rankings: np.ndarray, left_out: list[int], depth: int) -> list[list[int]]:
    """Return the first of each ranking, without the document that is no result."""
    return [
        [row for row in ranking if row != document][:depth]
        for ranking, document in zip(rankings.tolist(), left_out, strict=True)
    ]
