"""How well rankings agree with judgements of what is relevant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..input.parameters import check_number, check_word
from .intervals import mean_interval, share_interval

MEASURES = ("mrr", "precision", "ndcg", "recall")

#: Sums of larger grades may overflow: these are divided by the largest.
LARGEST_GRADE = 1e100


@dataclass(frozen=True, eq=False, repr=False)
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
