"""Probabilities of pairs without labels: a mixture of matches and other pairs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import expit, logit

from ..files.tables import get_array

#: Cosines between two edges are one level of agreement; a missing value is another.
LEVEL_EDGES = (0.2, 0.4, 0.6, 0.8, 0.95)
N_LEVELS = len(LEVEL_EDGES) + 2

#: Fewer columns say too little of one another.
MIN_COLUMNS = 3

#: Pairs that a mixture is fitted to.
MAX_PAIRS = 100_000

MAX_ITER = 200

#: A mixture has converged where no probability moves by more.
TOLERANCE = 1e-4

#: Pairs that each level is thought to have been seen in, so that none is impossible.
PSEUDO_COUNT = 1.0

#: A mixture is believed where it expects fewer errors per match than this,
MAX_ERROR = 0.06
#: finds nearly the same matches by columns alone and by whole records too,
MIN_OVERLAP = 0.85
#: and half of the columns of its matches are alike. Tables without any match have
#: mixtures too: of pairs that agree in one column.
MIN_SIMILARITY = 0.65

#: Shares of what is learned, of which one is chosen by held-out pairs: none first.
LEARNED_SHARES = (0.0, 0.5, 1.0)

#: No probability is more certain than by these log odds where several are joined.
MAX_LOG_ODDS = 7.0


class Mixture(NamedTuple):
    """Evidence of each level of agreement, by the model of Fellegi and Sunter.

    Parameters
    ----------
    evidence : ndarray of shape (n_measures, n_levels)
        The log of how much more frequent a level is in matches than in other pairs.
    prior : float
        The log odds of a match before anything is compared.
    """

    evidence: np.ndarray
    prior: float

    def probability(self, cosines: np.ndarray) -> np.ndarray:
        """Return the probability of pairs, by cosines of shape (n_pairs, n_measures)."""
        return expit(self.log_odds(cosines))

    def log_odds(self, cosines: np.ndarray) -> np.ndarray:
        """Return the log odds of pairs, by cosines of shape (n_pairs, n_measures)."""
        return self.of_levels(agreement_levels(cosines))

    def of_levels(self, levels: np.ndarray) -> np.ndarray:
        """Return the log odds of pairs by their levels of agreement."""
        measures = np.arange(levels.shape[1])
        return self.prior + self.evidence[measures, levels].sum(axis=1)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return what `from_arrays` makes a mixture of."""
        return {"evidence": self.evidence, "prior": np.array([self.prior])}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> Mixture:
        """Return what `to_arrays` was called on; raise ValueError if it is none."""
        evidence = get_array(arrays, "evidence", "f", (None, N_LEVELS))
        prior = get_array(arrays, "prior", "f", (1,))
        return cls(evidence, float(prior[0]))


def fit_mixture(
    cosines: np.ndarray, n_columns: int, first_guess: np.ndarray
) -> Mixture | None:
    """Return a mixture fitted to candidates; None where it cannot be believed.

    Parameters
    ----------
    cosines : ndarray of shape (n_pairs, n_measures)
        How alike pairs are, NaN where a value is missing. The columns come last;
        measures of whole records, which depend on them, come before.
    n_columns : int
    first_guess : ndarray of shape (n_pairs,)
        Probabilities to begin with.
    """
    if n_columns < MIN_COLUMNS or len(cosines) == 0:
        return None
    by_column = cosines[:, -n_columns:]
    levels = agreement_levels(cosines)
    levels_by_column = levels[:, -n_columns:]
    of_columns = _expect_maximize(levels_by_column, first_guess)
    probability = expit(of_columns.of_levels(levels_by_column))
    mixture = _expect_maximize(levels, probability)
    overlap = _overlap(probability, expit(mixture.of_levels(levels)))
    is_sure = _expected_error(probability) <= MAX_ERROR and overlap >= MIN_OVERLAP
    if is_sure and _typical_similarity(by_column, probability) >= MIN_SIMILARITY:
        return mixture
    return None


def pooled(learned: np.ndarray, unlearned: np.ndarray, share: float) -> np.ndarray:
    """Return the probability between what is learned and what a mixture says.

    Parameters
    ----------
    learned : ndarray of shape (n_pairs,)
        Probabilities.
    unlearned : ndarray of shape (n_pairs,)
        Log odds by the mixture.
    share : float
        Share of `learned` in the mean of the log odds.
    """
    least = expit(-MAX_LOG_ODDS)
    of_learned = logit(np.clip(learned, least, 1.0 - least))
    of_mixture = np.clip(unlearned, -MAX_LOG_ODDS, MAX_LOG_ODDS)
    return expit(share * of_learned + (1.0 - share) * of_mixture)


def agreement_levels(cosines: np.ndarray) -> np.ndarray:
    """Return the level of agreement of each cosine; the last one is a missing value.

    Examples
    --------
    >>> agreement_levels(np.array([[0.1, 0.5, 1.0, np.nan]])).tolist()
    [[0, 2, 5, 6]]
    """
    levels = np.searchsorted(LEVEL_EDGES, np.nan_to_num(cosines), side="right")
    return np.where(np.isnan(cosines), N_LEVELS - 1, levels)


def _expect_maximize(levels: np.ndarray, first_guess: np.ndarray) -> Mixture:
    """Return the mixture of two classes in which measures are independent, by EM."""
    probability = first_guess
    mixture = _maximize(levels, probability)
    for _ in range(MAX_ITER):
        previous = probability
        probability = expit(mixture.of_levels(levels))
        mixture = _maximize(levels, probability)
        if abs(probability - previous).max() < TOLERANCE:
            break
    return mixture


def _maximize(levels: np.ndarray, probability: np.ndarray) -> Mixture:
    """Return the mixture that is most likely if pairs match with a probability."""
    evidence = np.empty((levels.shape[1], N_LEVELS))
    for measure, column in enumerate(levels.T):
        matches = np.bincount(column, probability, N_LEVELS)
        others = np.bincount(column, 1.0 - probability, N_LEVELS)
        both = (matches + others) / len(column)
        frequency = _frequency(matches, both)
        evidence[measure] = np.log(frequency / _frequency(others, both))
    share = np.clip(probability.mean(), 1e-9, 1.0 - 1e-9)
    return Mixture(evidence, float(logit(share)))


def _frequency(counts: np.ndarray, both: np.ndarray) -> np.ndarray:
    """Return the share of each level in a class, as if few more pairs had been seen.

    A level that no pair has is as frequent in either class.
    """
    smooth = counts + PSEUDO_COUNT * both
    return np.where(both > 0.0, smooth / (counts.sum() + PSEUDO_COUNT), 1.0)


def _expected_error(probability: np.ndarray) -> float:
    """Return how many pairs are expected to be wrong at 0.5, per expected match."""
    doubt = np.minimum(probability, 1.0 - probability)
    return float(doubt.sum() / max(probability.sum(), 1e-12))


def _overlap(first: np.ndarray, second: np.ndarray) -> float:
    """Return the matches of both of two answers, as a share of those of either."""
    both = np.minimum(first, second).sum()
    return float(both / max(np.maximum(first, second).sum(), 1e-12))


def _typical_similarity(cosines: np.ndarray, probability: np.ndarray) -> float:
    """Return the median, over columns, of the mean cosine of matches."""
    is_filled = ~np.isnan(cosines)
    weights = is_filled * probability[:, None]
    sums = (weights * np.nan_to_num(cosines)).sum(axis=0)
    totals = weights.sum(axis=0)
    means = sums / np.maximum(totals, 1e-12)
    return float(np.median(means[totals > 0.0]))
