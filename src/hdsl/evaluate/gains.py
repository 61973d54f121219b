"""Scores of candidates by unit: what is expected of each, and what was gained for certain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

#: How much a score may change from one candidate to the next, each as likely as another
#: beforehand: a thousandth to a quarter.
STEP_SIZES = 2.0 ** -np.arange(2, 11)

#: Halves of the units choose for the other ones, in so many blocks.
N_BLOCKS = 10

#: Normal quantile of a 95 % interval.
QUANTILE = 1.96


@dataclass(frozen=True)
class Gains:
    """What candidates gain over the start, by unit.

    Parameters
    ----------
    sums : ndarray of shape (n_units, n_candidates)
        Gains times weights.
    weights : ndarray of shape (n_units,)
    inflation : float, default=1.0
        How much larger the error of a mean is than that of independent units: models of
        several turns share rows that they learn from (`inflation_of_turns`).
    first_step : float, default=1.0
        What the first step of a walk is expected to gain beforehand, over its size.
        Learning starts with a small step along the slope of the loss: it gains where there
        is something to learn, and moves little where there is nothing.
    """

    sums: np.ndarray
    weights: np.ndarray
    inflation: float = 1.0
    first_step: float = 1.0

    def take(self, units: np.ndarray) -> Gains:
        """Return the gains of some units."""
        return replace(self, sums=self.sums[units], weights=self.weights[units])

    @property
    def means(self) -> np.ndarray:
        """The mean gain of each candidate."""
        return self.sums.sum(axis=0) / self.weights.sum()

    @property
    def covariance(self) -> np.ndarray:
        """The covariance of the means."""
        n = len(self.weights)
        rest = self.sums - self.weights[:, None] * self.means
        total = self.weights.sum()
        of_units = rest.T @ rest / total**2 * (n / max(1, n - 1))
        return self.inflation**2 * of_units

    @property
    def errors(self) -> np.ndarray:
        """The standard error of each mean."""
        return np.sqrt(np.diag(self.covariance))


def inflation_of_turns(n_turns: int, share: float) -> float:
    """Return how much larger the error of a mean over turns is than that of independent units.

    That is the estimate of Nadeau and Bengio (2003), for turns that hold out a share of
    the units each.

    Examples
    --------
    >>> inflation_of_turns(1, 0.0)
    1.0
    >>> round(inflation_of_turns(10, 0.1), 2)
    1.45
    """
    return float(np.sqrt(1.0 + n_turns * share / (1.0 - share)))


def expected_gains(gains: Gains) -> np.ndarray:
    """Return the gain that is expected of each candidate of a walk, the simplest first.

    Beforehand the gain goes from 0, that of the start, by normal steps of one unknown size
    from each candidate to the next, of which the first is expected to gain (`first_step`).
    Means of the units say where the walk went, up to their covariance. What is expected is
    the mean afterwards, over all sizes of a step.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> many = Gains(rng.normal([0.1, 0.2], 1.0, (10**5, 2)), np.ones(10**5))
    >>> expected_gains(many).round(1).tolist()
    [0.1, 0.2]
    >>> few = Gains(rng.normal([0.1, 0.2], 1.0, (20, 2)), np.ones(20))
    >>> bool(abs(expected_gains(few)).max() < 0.15)
    True
    """
    means = gains.means
    n = len(means)
    noise = gains.covariance + 1e-12 * np.eye(n)
    number = np.arange(1, n + 1)
    walk = np.minimum(number[:, None], number[None, :])
    likelihoods = np.empty(len(STEP_SIZES))
    expected = np.empty((len(STEP_SIZES), n))
    for k, size in enumerate(STEP_SIZES):
        before = size**2 * walk
        total = before + noise
        first_step = gains.first_step * size
        rest = means - first_step
        solved = np.linalg.solve(total, rest)
        _, log_determinant = np.linalg.slogdet(total)
        likelihoods[k] = -0.5 * (log_determinant + rest @ solved)
        expected[k] = first_step + before @ solved
    likelihoods = np.exp(likelihoods - likelihoods.max())
    return likelihoods @ expected / likelihoods.sum()


def best_of(gains: Gains) -> int:
    """Return the number of the candidate of the largest expected gain; -1 is the start.

    What loses nothing is learned: it has reasons.
    """
    expected = expected_gains(gains)
    best = int(np.argmax(expected))
    if expected[best] < 0.0:
        return -1
    return best


def best_of_walks(walks: Sequence[Gains]) -> tuple[int, int]:
    """Return the walk and the number of the candidate of the largest expected gain.

    The first walk is the simplest; number -1 is the start.
    """
    expected = [expected_gains(gains) for gains in walks]
    tops = [float(values.max(initial=-np.inf)) for values in expected]
    walk = int(np.argmax(tops))
    if tops[walk] < 0.0:
        return 0, -1
    return walk, int(np.argmax(expected[walk]))


def honest_gain(walks: Sequence[Gains]) -> Interval:
    """Return the mean gain of what is chosen, on units that had no say, with its interval.

    In turn each block of the units is left out, the others choose, and the block says what
    that gains.
    """
    n_units = len(walks[0].weights)
    blocks = np.arange(n_units) % N_BLOCKS
    sums = np.zeros(n_units)
    for block in range(min(N_BLOCKS, n_units)):
        is_out = blocks == block
        walk, best = best_of_walks([gains.take(~is_out) for gains in walks])
        if best >= 0:
            sums[is_out] = walks[walk].sums[is_out, best]
    return interval_of(replace(walks[0], sums=sums[:, None]))


class Interval(NamedTuple):
    """A mean with its 95 % interval."""

    mean: float
    low: float
    high: float


def interval_of(gains: Gains) -> Interval:
    """Return the mean of one column of gains, with its interval."""
    mean = float(gains.means[0])
    n = len(gains.weights)
    half = (QUANTILE + 2.4 / max(1, n - 2)) * float(gains.errors[0])
    return Interval(mean, mean - half, mean + half)
