"""Numbers by their quantiles among known ones, as a normal distribution has them."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from ..files.container import Arrays
from ..files.tables import get_array

#: Quantiles of each number.
N_QUANTILES = 200

#: Limit of the scores.
MAX_SCORE = 3.0


class NormalScores:
    """Scores of rows, from -3 to 3, and which numbers are missing.

    Parameters
    ----------
    quantiles : ndarray of shape (n_features, n_levels)
        Numbers of known rows, in order, at levels from 0 to 1.

    Examples
    --------
    >>> scores = NormalScores.of_rows(np.array([[0.0], [1.0], [1.0], [2.0], [np.nan]]))
    >>> scores(np.array([[1.0], [9.0], [np.nan]])).tolist()
    [[0.0, 0.0], [3.0, 0.0], [0.0, 1.0]]
    """

    def __init__(self, quantiles: np.ndarray) -> None:
        self._quantiles = quantiles
        self._levels = np.linspace(0.0, 1.0, quantiles.shape[1])

    @classmethod
    def of_rows(cls, X: np.ndarray) -> NormalScores:
        """Return scores by known rows, shape (n_rows, n_features); NaN is missing."""
        levels = np.linspace(0.0, 1.0, min(N_QUANTILES, len(X)))
        return cls(np.array([_quantiles_of(column, levels) for column in X.T]))

    def to_arrays(self) -> Arrays:
        """Return what a file holds."""
        return {"quantiles": self._quantiles}

    @classmethod
    def from_arrays(cls, arrays: Arrays, n_features: int) -> NormalScores:
        """Return what `to_arrays` was called on; raise ValueError if it is none."""
        quantiles = get_array(arrays, "quantiles", "f", (n_features, None))
        if quantiles.shape[1] == 0 or not (np.diff(quantiles, axis=1) >= 0.0).all():
            raise ValueError("quantiles must rise from left to right")
        return cls(quantiles)

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


def _quantiles_of(column: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Return the quantiles of a column, zeros where it has no number."""
    column = column[~np.isnan(column)]
    if len(column) == 0:
        return np.zeros(len(levels))
    return np.quantile(column, levels)
