"""The rule of the choice: the simplest candidate within one standard error of the best."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..supervision.judges import Score

#: A candidate must have this share of the cosine's mean reciprocal rank, up to a
#: standard error.
LEAST_MRR = 0.98

#: An upper bound of a mean is so many standard errors above it: 95 % are below.
BOUND_ERRORS = 1.645


def may_improve(scores: Sequence[Score]) -> bool:
    """Whether a smaller prior may be better.

    Not where the last one finds too little, is clearly worse than the best before it,
    or, from the second prior on, is no better.
    """
    *before, last = scores
    best = max((score.units for score in before), key=np.mean)
    is_past = len(before) > 1 and last.units.mean() <= best.mean()
    return (
        keeps_known_items(last, before[0])
        and not is_worse(last.units, best)
        and not is_past
    )


def simplest(scores: Sequence[Score], cosine: Score) -> tuple[int, int]:
    """Return the best candidate, and the first that is as good within one standard error.

    Candidates come in the order of their simplicity. One that loses too much of the
    cosine's mean reciprocal rank is out, unless all do: then the one that keeps most of
    it is taken.
    """
    allowed = [k for k, score in enumerate(scores) if keeps_known_items(score, cosine)]
    if not allowed:
        allowed = [int(np.argmax([score.mean_reciprocal_rank for score in scores]))]
    best = max(allowed, key=lambda k: (scores[k].units.mean(), -k))
    first = (k for k in allowed if is_as_good(scores[k].units, scores[best].units))
    return best, next(first, best)


def keeps_known_items(score: Score, cosine: Score) -> bool:
    """Whether a candidate finds known items about as well as the cosine."""
    ranks = score.reciprocal_ranks
    return not len(ranks) or is_as_good(ranks, LEAST_MRR * cosine.reciprocal_ranks)


def keeps_search(gains: np.ndarray, plain_gains: np.ndarray, max_harm: float) -> bool:
    """Whether an upper bound of the mean loss is at most a share of the cosine's mean gain.

    With few queries the bound is wide: what nothing is known of does not pass.
    """
    lowest, _ = bounds(gains - plain_gains)
    return bool(-lowest <= max_harm * plain_gains.mean())


def bounds(values: np.ndarray) -> tuple[float, float]:
    """Return a lower and an upper bound of the mean: it is outside of each for 5 %."""
    half = BOUND_ERRORS * standard_error(values)
    return float(values.mean()) - half, float(values.mean()) + half


def is_better(units: np.ndarray, others: np.ndarray) -> bool:
    """Whether the mean is more than one standard error of the difference above the other's."""
    gained = units - others
    return bool(gained.mean() > standard_error(gained))


def is_as_good(units: np.ndarray, others: np.ndarray) -> bool:
    """Whether the mean is at most one standard error of the paired difference below the other's."""
    lost = others - units
    return bool(lost.mean() <= standard_error(lost))


def is_worse(units: np.ndarray, others: np.ndarray) -> bool:
    """Whether the mean is more than two standard errors of the difference below the other's."""
    lost = others - units
    return bool(lost.mean() > 2.0 * standard_error(lost))


def standard_error(values: np.ndarray) -> float:
    """Return the standard error of the mean of independent values; 0 for fewer than two."""
    n = len(values)
    if n < 2:
        return 0.0
    return float(values.std(ddof=1) / np.sqrt(n))
