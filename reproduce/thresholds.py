"""How many triplets draws of data need, and how that number grows with a problem.

A draw is tried with rising numbers of triplets, and each of them recovers the support
or not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import expit

#: Weight of the squared coefficients: a law that separates all draws has finite
#: coefficients.
RIDGE = 1e-3

#: Limits of Newton's method: steps, and the length of one.
MAX_STEPS = 200
LONGEST = 2.0


class Interval(NamedTuple):
    """An estimate and the middle 95 % of its bootstrap values."""

    value: float
    low: float
    high: float

    def text(self, digits: int) -> str:
        """Return the estimate, with the interval in brackets."""
        return (
            f"{self.value:.{digits}f} [{self.low:.{digits}f}, {self.high:.{digits}f}]"
        )


class Sample(NamedTuple):
    """Draws of one setting, each tried with the same numbers of triplets.

    Factors are what the number needed may be a product of powers of; `recovered` has
    shape (n_draws, n_counts).
    """

    factors: dict[str, float]
    counts: Sequence[float]
    recovered: np.ndarray


def threshold(counts: Sequence[float], recovered: Sequence[bool]) -> float:
    """Return the number of triplets that a draw needs; inf if none recovers the support.

    Where f numbers fail, it lies between the f-th and the next one, in the middle on a
    logarithmic scale. So a failure between two successes counts as much as any other.

    Examples
    --------
    >>> threshold([100, 400, 1600], [False, True, True])
    200.0
    """
    n_failed = len(recovered) - sum(recovered)
    if n_failed == len(counts):
        return math.inf
    return math.sqrt(counts[n_failed] * counts[max(n_failed - 1, 0)])


def is_rising(recovered: Sequence[bool]) -> bool:
    """Return whether no larger number fails where a smaller one succeeds."""
    return sorted(recovered) == list(recovered)


def median(
    thresholds: np.ndarray, n_resamples: int, rng: np.random.Generator
) -> Interval:
    """Return the median number of triplets that draws need, with its interval."""
    chosen = _resampled(len(thresholds), n_resamples, rng)
    medians = np.median(thresholds[chosen], axis=1)
    low, high = np.quantile(medians, [0.025, 0.975], method="closest_observation")
    return Interval(float(np.median(thresholds)), float(low), float(high))


def ratio(
    thresholds: np.ndarray,
    others: np.ndarray,
    n_resamples: int,
    rng: np.random.Generator,
) -> Interval:
    """Return the geometric mean of thresholds over those by another method.

    Draws that one of the two never recovers are left out; nan without any.
    """
    both = np.isfinite(thresholds) & np.isfinite(others)
    if not both.any():
        return Interval(math.nan, math.nan, math.nan)
    logs = np.log(thresholds[both] / others[both])
    means = logs[_resampled(len(logs), n_resamples, rng)].mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return Interval(*np.exp([logs.mean(), low, high]).tolist())


def _resampled(n: int, n_resamples: int, rng: np.random.Generator) -> np.ndarray:
    """Return row numbers of bootstrap samples, shape (n_resamples, n)."""
    return rng.integers(n, size=(n_resamples, n))


# --- laws of growth -------------------------------------------------------------------


def exponents(
    samples: Sequence[Sample],
    names: Sequence[str],
    n_resamples: int,
    rng: np.random.Generator,
) -> dict[str, Interval]:
    """Return the exponents of a law T ∝ Π factor^exponent of the number of triplets needed.

    The probability of recovery with T' triplets is a logistic function of log(T' / T).
    Its slope, the exponents and the constant of the law have the largest likelihood,
    and draws are resampled within each setting for the intervals.

    Parameters
    ----------
    samples : sequence of Sample
    names : sequence of str
        The factors of the law.
    n_resamples : int
    rng : numpy.random.Generator

    Returns
    -------
    dict of Interval, by the name of the factor
    """
    design = _design(samples, names)
    trials = _trials(samples)
    resampled = _wins(
        samples, lambda sample: _resampled(len(sample.recovered), n_resamples, rng)
    )
    (values,) = _exponents_of(_logistic(design, _all_wins(samples), trials))
    bootstrap = _exponents_of(_logistic(design, resampled, trials))
    low, high = np.quantile(bootstrap, [0.025, 0.975], axis=0)
    intervals = map(Interval, values.tolist(), low.tolist(), high.tolist())
    return dict(zip(names, intervals, strict=True))


def _exponents_of(coef: np.ndarray) -> np.ndarray:
    """Return the exponents of each regression: slopes of factors over that of log T."""
    return -coef[:, 2:] / coef[:, 1:2]


def explained(samples: Sequence[Sample], fixed: str, names: Sequence[str]) -> float:
    """Return how much of the growth a fixed law T ∝ factor explains.

    It is the gain in log-likelihood over no growth, with the exponent of the factor
    fixed to 1, over the gain with the exponents of `names` fitted: 1 if it explains
    all, 0 if nothing, and negative if it is worse than no growth.
    """
    trials = _trials(samples)
    wins = _all_wins(samples)
    relative = []
    for sample in samples:
        factor = sample.factors[fixed]
        counts = [count / factor for count in sample.counts]
        relative.append(sample._replace(counts=counts))
    no_growth = _log_likelihood(_design(samples, ()), wins, trials)
    law = _log_likelihood(_design(relative, ()), wins, trials)
    free = _log_likelihood(_design(samples, names), wins, trials)
    if free <= no_growth:
        return math.nan
    return (law - no_growth) / (free - no_growth)


def _design(samples: Sequence[Sample], names: Sequence[str]) -> np.ndarray:
    """Return a row per number of triplets: 1, its logarithm and those of the factors.

    The logarithms are centred.
    """
    rows = np.log(
        [
            [count, *(sample.factors[name] for name in names)]
            for sample in samples
            for count in sample.counts
        ]
    )
    return np.column_stack([np.ones(len(rows)), rows - rows.mean(axis=0)])


def _trials(samples: Sequence[Sample]) -> np.ndarray:
    return np.concatenate(
        [np.full(len(sample.counts), len(sample.recovered)) for sample in samples]
    )


def _all_wins(samples: Sequence[Sample]) -> np.ndarray:
    return _wins(samples, lambda sample: np.arange(len(sample.recovered))[None])


def _wins(
    samples: Sequence[Sample], chosen: Callable[[Sample], np.ndarray]
) -> np.ndarray:
    """Return how many of the chosen draws succeed, shape (n_choices, n_rows)."""
    return np.hstack(
        [sample.recovered[chosen(sample)].sum(axis=1) for sample in samples]
    )


def _logistic(design: np.ndarray, wins: np.ndarray, trials: np.ndarray) -> np.ndarray:
    """Return the logistic regression of each row of wins, by Newton's method."""
    coef = np.zeros((len(wins), design.shape[1]))
    ridge = RIDGE * np.eye(design.shape[1])
    for _ in range(MAX_STEPS):
        chance = expit(coef @ design.T)
        slope = (wins - trials * chance) @ design - RIDGE * coef
        weights = trials * chance * (1.0 - chance)
        curvature = (
            np.einsum("fr,ri,rj->fij", weights, design, design, optimize=True) + ridge
        )
        step = np.linalg.solve(curvature, slope[:, :, None])[:, :, 0]
        length = np.linalg.norm(step, axis=1, keepdims=True)
        coef += step * np.minimum(1.0, LONGEST / np.maximum(length, LONGEST))
        if length.max() < 1e-8:
            break
    return coef


def _log_likelihood(design: np.ndarray, wins: np.ndarray, trials: np.ndarray) -> float:
    score = _logistic(design, wins, trials)[0] @ design.T
    return float(
        (
            wins[0] * -np.logaddexp(0, -score)
            + (trials - wins[0]) * -np.logaddexp(0, score)
        ).sum()
    )
