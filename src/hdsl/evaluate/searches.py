"""How well rankings, and searches by cosine and as learned, find what was judged relevant."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from ..input.parameters import check_number, check_word
from ..search import top_k
from ..similarity.cosine import (
    PlainCosine,
    Rewriter,
    as_rewriter,
    ranked_by,
    ranking_of,
)
from ..similarity.query_memory import QueryMemory
from .comparisons import checked_rows
from .errors import McNemar, mcnemar, mean_interval, share_interval

MEASURES = ("mrr", "precision", "ndcg", "recall")

#: Sums of larger grades may overflow: these are divided by the largest.
LARGEST_GRADE = 1e100


@dataclass(frozen=True, eq=False, repr=False)
class RankingQuality:
    """Quality of the rankings of queries.

    Parameters
    ----------
    reciprocal_ranks : ndarray of shape (n_queries,)
        1 / rank of the first relevant document, or 0.
    precisions : ndarray of shape (n_queries,)
        Share of relevant documents among the first k.
    ndcgs : ndarray of shape (n_queries,)
        Discounted gain of the first k, Σ grade / log2(1 + rank), as a share of the
        largest possible.
    k : int
    confidence : float
        Of the intervals.
    recalls : ndarray of shape (n_queries,), default=None
        Share of all relevant documents that are among the first k.
    """

    reciprocal_ranks: np.ndarray
    precisions: np.ndarray
    ndcgs: np.ndarray
    k: int
    confidence: float = 0.95
    recalls: np.ndarray | None = None

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

    @property
    def recall(self) -> float:
        """The mean recall at k."""
        return float(self.values("recall").mean())

    def values(self, measure: str) -> np.ndarray:
        """Return the value of each query, for "mrr", "precision", "ndcg" or "recall"."""
        check_word("RankingQuality.values", "measure", measure, MEASURES)
        values = {
            "mrr": self.reciprocal_ranks,
            "precision": self.precisions,
            "ndcg": self.ndcgs,
            "recall": self.recalls,
        }
        of_queries = values[measure]
        if of_queries is None:
            raise ValueError("The recall of these rankings was not measured.")
        return of_queries

    def interval(self, measure: str) -> tuple[float, float]:
        """Return Student's interval of the mean of a measure, inside [0, 1]."""
        return share_interval(self.values(measure), self.confidence)

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
        gains = mine - theirs
        low, high = mean_interval(gains, self.confidence)
        return float(gains.mean()), low, high

    def __repr__(self) -> str:
        return f"<RankingQuality: {self}>"

    def __str__(self) -> str:
        names = {
            "mrr": "MRR",
            "precision": f"precision@{self.k}",
            "ndcg": f"nDCG@{self.k}",
        }
        sentences = []
        for measure, name in names.items():
            mean = self.values(measure).mean()
            low, high = self.interval(measure)
            sentences.append(f"{name} {mean:.3f} ({low:.3f} to {high:.3f})")
        return ", ".join(sentences)


def ranking_quality(
    found: Sequence[Any] | np.ndarray, relevant: Sequence[Any], k: int = 10
) -> RankingQuality:
    """Return how well rankings agree with judgements.

    Parameters
    ----------
    found : sequence of n_queries sequences of ids
        Ids of the documents found, best first; None and -1 stand for nothing. All ranks
        count.
    relevant : sequence of n_queries collections of ids, or mappings of ids to grades
        The relevant documents of each query; in a collection each has grade 1. All
        others have grade 0.
    k : int, default=10

    Returns
    -------
    RankingQuality

    Examples
    --------
    >>> quality = ranking_quality([[3, 1, 2], [5, 4, 6]], [{1, 2}, {4: 1.0, 5: 3.0}], k=2)
    >>> quality.mrr, quality.precision, quality.recall, round(quality.ndcg, 3)
    (0.75, 0.75, 0.75, 0.693)
    """
    check_number("ranking_quality", "k", k, low=1, integer=True)
    if len(found) != len(relevant) or not len(found):
        raise ValueError(
            f"There are {len(found)} rankings and {len(relevant)} judgements: one of "
            "each per query, and at least one query, is expected."
        )
    queries = [
        _measure(query, ids, judgements, int(k))
        for query, (ids, judgements) in enumerate(zip(found, relevant, strict=True))
    ]
    return RankingQuality(
        reciprocal_ranks=np.array([query.reciprocal_rank for query in queries]),
        precisions=np.array([query.precision for query in queries]),
        ndcgs=np.array([query.ndcg for query in queries]),
        k=int(k),
        recalls=np.array([query.recall for query in queries]),
    )


class _QueryQuality(NamedTuple):
    """The measures of one query."""

    reciprocal_rank: float
    precision: float
    ndcg: float
    recall: float


def _measure(query: int, ids: Any, relevant: Any, k: int) -> _QueryQuality:
    """Return the measures of a ranking of ids, of which the first k count."""
    grades = _grades(query, relevant)
    if isinstance(ids, np.ndarray):
        ids = ids.tolist()
    ids = list(ids)
    hit_ranks = [rank for rank, item in enumerate(ids, 1) if item in grades]
    hits = [ids[rank - 1] for rank in hit_ranks]
    if len(set(hits)) < len(hits):
        raise ValueError(
            f"The ranking of query {query} has a relevant document twice: list it once."
        )
    reciprocal_rank = 0.0
    if hit_ranks:
        reciprocal_rank = 1.0 / hit_ranks[0]
    gains = np.array([grades.get(item, 0.0) for item in ids[:k]])
    best_gains = np.sort(list(grades.values()))[::-1][:k]
    if best_gains[0] > LARGEST_GRADE:  # sums of such would overflow
        gains = gains / best_gains[0]
        best_gains = best_gains / best_gains[0]
    return _QueryQuality(
        reciprocal_rank=reciprocal_rank,
        precision=float((gains > 0).sum() / k),
        ndcg=_discounted(gains) / _discounted(best_gains),
        recall=float((gains > 0).sum() / len(grades)),
    )


def _grades(query: int, relevant: Any) -> dict[Any, float]:
    """Return the grade of each relevant document; raise ValueError if there is none."""
    if not isinstance(relevant, Mapping):
        relevant = dict.fromkeys(relevant, 1.0)
    if None in relevant or -1 in relevant:
        raise ValueError(
            f"Query {query} has None or -1 among its relevant documents: these stand "
            "for nothing."
        )
    grades = {item: float(grade) for item, grade in relevant.items() if grade != 0}
    are_valid = all(np.isfinite(grade) and grade > 0 for grade in grades.values())
    if not grades or not are_valid:
        raise ValueError(
            f"Query {query} has no relevant document, or a grade that is negative or "
            "not finite: leave such queries out."
        )
    return grades


def _discounted(gains: np.ndarray) -> float:
    """Return Σ gain / log2(1 + rank)."""
    discounts = 1.0 / np.log2(np.arange(2, len(gains) + 2))
    return float(gains @ discounts)


#: Names of the measures that are shown, without the k that counts.
SHOWN = {"ndcg": "nDCG@", "mrr": "MRR", "recall": "recall@"}

#: Documents of a ranking; deeper ones have a reciprocal rank of 0.
DEPTH = 100


@dataclass(frozen=True, eq=False, repr=False)
class SearchComparison:
    """Quality of searches by plain cosine and by the learned similarity, with a verdict.

    Parameters
    ----------
    before, after : RankingQuality
        Of the plain cosine and of the model, query by query.
    n_documents : int
        Number of documents.
    without_memory : RankingQuality or None
        Of the model without its memory of judged queries; None if it has no memory.
    remembered, never_judged : SearchComparison or None
        The same searches for relevant documents that were judged relevant for a known
        query, and for those that never were; None if there are none, or no memory.
    bm25 : RankingQuality or None
        Of BM25 by the same words, if the words of both are known.
    """

    before: RankingQuality
    after: RankingQuality
    n_documents: int
    without_memory: RankingQuality | None = None
    remembered: SearchComparison | None = None
    never_judged: SearchComparison | None = None
    bm25: RankingQuality | None = None

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

    @property
    def bm25_sentence(self) -> str:
        """How the learned order stands beside BM25, in words."""
        if self.bm25 is None:
            return ""
        gain, low, high = self.after.gain(self.bm25, "ndcg")
        shown = "1 query shows"
        if self.n_queries != 1:
            shown = f"{self.n_queries:,} queries show"
        beside = f"nDCG@{self.before.k} {gain:+.3f} ({low:+.3f} to {high:+.3f})"
        if low > 0.0:
            return f"The learned order finds more than BM25: {beside}."
        if high < 0.0:
            return f"BM25 finds more: {beside}. Try --weights bm25."
        return f"BM25 finds as much, as far as {shown}: {beside}."

    @property
    def memory_sentence(self) -> str:
        """What is remembered gains, and what it does for documents never judged, in words."""
        if self.without_memory is None:
            return ""
        gain, low, high = self.after.gain(self.without_memory, "ndcg")
        sentences = [
            f"What is remembered of judged queries changes nDCG@{self.before.k} by "
            f"{gain:+.3f} ({low:+.3f} to {high:+.3f})."
        ]
        for noun, searches in self._parts().items():
            sentences.append(
                f"For {noun}: {searches.after.ndcg:.3f}, by cosine {searches.before.ndcg:.3f} "
                f"({searches.n_queries:,} queries)."
            )
        if self.never_judged is not None and self.never_judged.verdict == "worse":
            sentences.append(
                "Documents without judgements rank lower: `--no-memory` leaves out "
                "the memory."
            )
        return " ".join(sentences)

    def _parts(self) -> dict[str, SearchComparison]:
        """Return the searches for documents that were judged before, and for others."""
        parts = {
            "documents that were judged for known queries": self.remembered,
            "documents never judged": self.never_judged,
        }
        return {
            noun: searches for noun, searches in parts.items() if searches is not None
        }

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
            if self.bm25 is not None:
                measures[name]["bm25"] = _mean_of(self.bm25, measure)
        memory: dict[str, Any] = {}
        if self.without_memory is not None:
            measure = self.names()["ndcg"]
            parts = {"remembered": self.remembered, "never judged": self.never_judged}
            memory = {
                "without memory": {measure: _mean_of(self.without_memory, "ndcg")},
                **{
                    name: searches.to_dict()
                    for name, searches in parts.items()
                    if searches is not None
                },
                "sentence": self.memory_sentence,
            }
        facts = {
            "n_queries": self.n_queries,
            "n_documents": self.n_documents,
            "n_better": self.test.only_a,
            "n_worse": self.test.only_b,
            "measures": measures,
            "verdict": self.verdict,
            "sentence": self.sentence,
        }
        if memory:
            facts["memory"] = memory
        return facts


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
    memory: QueryMemory | None = None,
    n_jobs: int | None = None,
) -> SearchComparison:
    """Return the quality of searches for judged documents, before and after learning.

    Parameters
    ----------
    model : HDSL, Similarity
        Fitted, or another object with ``rewrite(X)``.
    queries : array-like or sparse matrix of shape (n_queries, n_features)
    documents : array-like or sparse matrix of shape (n_documents, n_features)
    relevant : sequence of n_queries collections of ints, or mappings of ints to grades
        Numbers of the relevant documents, as for `ranking_quality`.
    k : int, default=10
        Documents that count. Reciprocal ranks count down to 100 documents.
    leave_out : array-like of int of shape (n_queries,), default=None
        For each query the number of a document that is not a result, such as the query
        itself; -1 is none.
    memory : QueryMemory, default=None
        Memory of judged queries for the same documents, which the learned search adds.
        The queries should not be among the known ones.
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
    unit_queries = plain.rewrite(Q)
    by_cosine = top_k(unit_queries, plain.index_rows(D), n_ranked, n_jobs=n_jobs)
    rewritten = learned.rewrite(Q)
    index = learned.index_rows(D)
    by_learned = top_k(rewritten, index, n_ranked, n_jobs=n_jobs)
    rankings = _Rankings(
        cosine=_results(by_cosine.rows, left_out, depth),
        learned=_results(by_learned.rows, left_out, depth),
        n_documents=D.shape[0],
        k=k,
    )
    if memory is None or memory.weight == 0.0:
        return rankings.compare(relevant)
    with_memory = memory.top_k(rewritten, index, unit_queries, n_ranked, n_jobs=n_jobs)
    remembering = rankings._replace(learned=_results(with_memory.rows, left_out, depth))
    judged = set(memory.documents.tolist())
    return replace(
        remembering.compare(relevant),
        without_memory=ranking_quality(rankings.learned, relevant, k),
        remembered=remembering.compare_for(relevant, lambda row: row in judged),
        never_judged=remembering.compare_for(relevant, lambda row: row not in judged),
    )


def search_quality(
    similarity: Rewriter,
    queries: Any,
    documents: Any,
    relevant: Sequence[Any],
    *,
    k: int = 10,
    n_jobs: int | None = None,
) -> RankingQuality:
    """Return how well queries find what is relevant by one similarity, as it ranks."""
    ranked = ranked_by(ranking_of(similarity), similarity)
    depth = min(max(DEPTH, k), documents.shape[0])
    found = top_k(
        ranked.rewrite(queries), ranked.index_rows(documents), depth, n_jobs=n_jobs
    )
    return ranking_quality(found.rows, relevant, k)


def changed_searches(
    before: Any,
    after: Any,
    queries: Any,
    documents: Any,
    *,
    k: int = 5,
    n_jobs: int | None = None,
) -> np.ndarray:
    """Return the numbers of the queries whose first k documents differ between two models.

    Parameters
    ----------
    before, after : HDSL, Similarity
        Fitted on the same features.
    queries, documents : array-like or sparse matrix
        Rows.
    k : int, default=5
        Documents that count, in any order.
    n_jobs : int, default=None

    Returns
    -------
    ndarray of int
    """
    Q = checked_rows(before, queries)
    D = checked_rows(before, documents)
    found = []
    for model in (before, after):
        similarity = as_rewriter(model, D.shape[1], "model")
        ranked = ranked_by(ranking_of(model), similarity)
        rows = top_k(
            ranked.rewrite(Q),
            ranked.index_rows(D),
            min(k, D.shape[0]),
            n_jobs=n_jobs,
        ).rows
        found.append(np.sort(rows, axis=1))
    return np.flatnonzero((found[0] != found[1]).any(axis=1))


class _Rankings(NamedTuple):
    """What each query finds by cosine and as learned."""

    cosine: list[list[int]]
    learned: list[list[int]]
    n_documents: int
    k: int

    def compare(self, relevant: Sequence[Any]) -> SearchComparison:
        """Return how well both find what is relevant."""
        return SearchComparison(
            before=ranking_quality(self.cosine, relevant, self.k),
            after=ranking_quality(self.learned, relevant, self.k),
            n_documents=self.n_documents,
        )

    def compare_for(
        self, relevant: Sequence[Any], is_counted: Callable[[int], bool]
    ) -> SearchComparison | None:
        """Return the same for some of the relevant documents; None where no query has any."""
        counted = [_only(documents, is_counted) for documents in relevant]
        queries = [query for query, documents in enumerate(counted) if documents]
        if not queries:
            return None
        counting = self._replace(
            cosine=[self.cosine[query] for query in queries],
            learned=[self.learned[query] for query in queries],
        )
        return counting.compare([counted[query] for query in queries])


def _only(documents: Any, is_counted: Callable[[int], bool]) -> dict[int, float]:
    """Return some relevant documents with their grades, those above 0."""
    grades = documents
    if not isinstance(documents, Mapping):
        grades = dict.fromkeys(documents, 1.0)
    return {
        document: grade
        for document, grade in grades.items()
        if grade > 0 and is_counted(document)
    }


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
