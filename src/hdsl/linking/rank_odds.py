"""Log odds of pairs by the cosine alone, for tables that have no mixture."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import logit
from sklearn.linear_model import LogisticRegression

#: With so many matches, what was learned counts as much as the cosine. Of 5, 10 and 20,
#: it is the one with which 5 to 25 matches of three benchmarks are nowhere worse than
#: none, and nearly as good as without the cosine, by F1 of validation pairs.
N_EVEN = 10

#: From so many matches on, F1 on validation pairs is better than that of the cosine on
#: each of three benchmarks; with 5 it is not on one.
PAYS_FROM = 10

#: From so many matches on, the cosine does not count: with 50, F1 on these pairs is no
#: better with it.
N_ENOUGH = 50

#: A score divided by ranks is no closer to 0 and 1.
LEAST_SCORE = 1e-3


class RankOdds(NamedTuple):
    """Log odds of pairs that rise with their score divided by ranks.

    Parameters
    ----------
    slope : float
        At least 0.
    intercept : float
    """

    slope: float
    intercept: float

    @classmethod
    def of_pairs(cls, score: np.ndarray, labels: np.ndarray) -> RankOdds:
        """Return the log odds that known pairs speak for.

        Parameters
        ----------
        score : ndarray of shape (n_pairs,)
            From 0 to 1.
        labels : ndarray of shape (n_pairs,)
            1 for a match, 0 for others; both occur.
        """
        model = LogisticRegression().fit(_log_odds(score)[:, None], labels)
        slope = max(float(model.coef_[0, 0]), 0.0)
        return cls(slope, float(model.intercept_[0]))

    def log_odds(self, score: np.ndarray) -> np.ndarray:
        """Return the log odds of pairs by their scores divided by ranks."""
        return self.intercept + self.slope * _log_odds(score)


def learned_share(n_matches: int) -> float:
    """Return how much counts what was learned; the cosine has the rest.

    Examples
    --------
    >>> [learned_share(n) for n in (5, 10, 40, 50)]
    [0.3333333333333333, 0.5, 0.8, 1.0]
    """
    if n_matches >= N_ENOUGH:
        return 1.0
    return n_matches / (n_matches + N_EVEN)


def _log_odds(score: np.ndarray) -> np.ndarray:
    return logit(np.clip(score, LEAST_SCORE, 1.0 - LEAST_SCORE))
