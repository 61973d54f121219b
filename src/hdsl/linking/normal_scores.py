"""Numbers by their quantiles among known ones, as a normal distribution has them."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

#: Quantiles of each number.
N_QUANTILES = 200

#: Limit of the scores.
MAX_SCORE = 3.0


class NormalScores:
    """Scores of rows, from -3 to 3, and which numbers are missing.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
        Known rows; NaN is a missing number.

    Examples
    --------
    >>> scores = NormalScores(np.array([[0.0], [1.0], [1.0], [2.0], [np.nan]]))
    >>> scores(np.array([[1.0], [9.0], [np.nan]])).tolist()
    [[0.0, 0.0], [3.0, 0.0], [0.0, 1.0]]
    """

    def __init__(self, X: np.ndarray) -> None:
        self._levels = np.linspace(0.0, 1.0, min(N_QUANTILES, len(X)))
        self._quantiles = [self._quantiles_of(column) for column in X.T]

    def _quantiles_of(self, column: np.ndarray) -> np.ndarray:
        """Return the quantiles of a column, zeros where it has no number."""
        column = column[~np.isnan(column)]
        if len(column) == 0:
            return np.zeros(len(self._levels))
        return np.quantile(column, self._levels)

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """Return the scores of rows, 0 for missing numbers, then what is missing."""
        is_missing = np.isnan(X)
        shares = np.empty(X.shape)
        for column, quantiles in enumerate(self._quantiles):
            values = X[:, column]
            # Of equal quantiles the middle one.
            below = np.interp(values, quantiles, self._levels)
            above = np.interp(-values, -quantiles[::-1], -self._levels[::-1])
            shares[:, column] = 0.5 * (below - above)
        scores = np.clip(ndtri(shares), -MAX_SCORE, MAX_SCORE)
        scores[is_missing] = 0.0
        return np.column_stack([scores, is_missing])
