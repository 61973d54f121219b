"""Rankings against judgements: reciprocal rank, precision and nDCG per query, with intervals."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from .. import checks

MEASURES = ("mrr", "precision", "ndcg")


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
        Discounted gain of the first k, Σ grade / log2(1 + rank), as a share of the largest
        possible.
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
        checks.check_word("RankingQuality.values", "measure", measure, MEASURES)
        return {
            "mrr": self.reciprocal_ranks,
            "precision": self.precisions,
            "ndcg": self.ndcgs,
        }[measure]

    def interval(self, measure: str) -> tuple[float, float]:
        """Return Student's interval of the mean of a measure, inside [0, 1]."""
        low, high = mean_interval(self.values(measure), self.confidence)
        return max(low, 0.0), min(high, 1.0)

    def gain(self, before: RankingQuality, measure: str) -> tuple[float, float, float]:
        """Return the mean gain over another ranking of the same queries, and its interval.

        The interval is Student's, of the differences per query.
        """
        mine, theirs = self.values(measure), before.values(measure)
        if len(mine) != len(theirs) or self.k != before.k:
            raise ValueError(
                f"The rankings have {len(mine)} and {len(theirs)} queries at k = {self.k} and "
                f"{before.k}: a gain needs the same queries at the same k."
            )
        return float((mine - theirs).mean()), *mean_interval(mine - theirs, self.confidence)

    def __str__(self) -> str:
        names = {"mrr": "MRR", "precision": f"precision@{self.k}", "ndcg": f"nDCG@{self.k}"}
        parts = []
        for measure, name in names.items():
            low, high = self.interval(measure)
            parts.append(f"{name} {self.values(measure).mean():.3f} ({low:.3f} to {high:.3f})")
        return ", ".join(parts)


def ranking_quality(
    found: Sequence[Any] | np.ndarray, relevant: Sequence[Any], k: int = 10
) -> RankingQuality:
    """Return how well rankings agree with judgements.

    Parameters
    ----------
    found : sequence of n_queries sequences of ids
        What was found, best first; None and -1 stand for nothing. Ranks count as deep as it goes.
    relevant : sequence of n_queries collections of ids, or mappings of ids to grades
        What is relevant; a collection has the grade 1 for each. Documents that are not in it have
        the grade 0.
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
    checks.check_number("ranking_quality", "k", k, low=1, integer=True)
    if len(found) != len(relevant) or not len(found):
        raise ValueError(
            f"There are {len(found)} rankings and {len(relevant)} judgements: one of each per "
            "query, and at least one query, is expected."
        )
    rows = [_measure(ids, _grades(q, relevant[q]), int(k)) for q, ids in enumerate(found)]
    ranks, precisions, ndcgs = np.array(rows).T
    return RankingQuality(ranks, precisions, ndcgs, k=int(k))


def _grades(q: int, relevant: Mapping[Any, float] | Collection[Any]) -> dict[Any, float]:
    given = relevant if isinstance(relevant, Mapping) else dict.fromkeys(relevant, 1.0)
    grades = {one: float(grade) for one, grade in given.items() if grade != 0}
    if not grades or not all(np.isfinite(grade) and grade > 0 for grade in grades.values()):
        raise ValueError(
            f"Query {q} has no relevant document, or a grade that is negative or not finite: leave "
            "such queries out."
        )
    return grades


def _measure(ids: Any, grades: dict[Any, float], k: int) -> tuple[float, float, float]:
    ids = ids.tolist() if isinstance(ids, np.ndarray) else list(ids)
    first = next((rank for rank, one in enumerate(ids, 1) if one in grades), None)
    gains = np.array([grades.get(one, 0.0) for one in ids[:k]])
    ideal = np.sort(list(grades.values()))[::-1][:k]
    discounts = 1.0 / np.log2(np.arange(2, k + 2))
    ndcg = gains @ discounts[: len(gains)] / (ideal @ discounts[: len(ideal)])
    return 0.0 if first is None else 1.0 / first, float((gains > 0).sum() / k), float(ndcg)


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
