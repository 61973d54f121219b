"""A linear model of the words that both records of a pair have, or only one."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression

from .known import N_FOLDS
from .rows import Rows

#: Inverse strength of the penalty.
C = 10.0


class WordModel:
    """Log odds of pairs by their words, from models that are cross-fitted.

    Parameters
    ----------
    words : Rows
        TF-IDF weights of the words of records, at unit length.
    pairs : ndarray of shape (n_pairs, 2)
    labels, fold : ndarray of shape (n_pairs,)
        1 for a match; numbers of folds.

    Attributes
    ----------
    held_out : ndarray of shape (n_pairs,)
        Log odds by the model without the fold of the pair; NaN where there is none.
    """

    def __init__(
        self,
        words: Rows,
        pairs: np.ndarray,
        labels: np.ndarray,
        fold: np.ndarray,
    ) -> None:
        models: list[LogisticRegression] = []
        self.held_out = np.full(len(pairs), np.nan)
        features = _features(words, pairs)
        for number in range(N_FOLDS):
            is_other = fold != number
            if len(np.unique(labels[is_other])) < 2:
                continue
            model = LogisticRegression(C=C, solver="liblinear", random_state=0)
            model.fit(features[is_other], labels[is_other])
            models.append(model)
            rows = ~is_other
            if rows.any():
                self.held_out[rows] = model.decision_function(features[rows])
        # The mean of linear models is one.
        self._weights = np.full((0, 2), np.nan)
        self._intercept = np.nan
        if models:
            coefficients = np.mean([model.coef_[0] for model in models], axis=0)
            self._weights = np.ascontiguousarray(coefficients.reshape(2, -1).T)
            self._intercept = np.mean([model.intercept_[0] for model in models])

    def log_odds(
        self, words: Rows, pairs: np.ndarray, n_jobs: int | None
    ) -> np.ndarray:
        """Return the log odds of pairs of records, the mean of all models.

        NaN where there are none.
        """
        return words.weighted_sums(pairs, self._weights, n_jobs) + self._intercept


def _features(words: Rows, pairs: np.ndarray) -> sp.csr_array:
    """Return the weights of words that both have, then of words that only one has."""
    n_words = 1 + int(words.arrays.indices.max(initial=-1))
    left = words.take(pairs[:, 0]).matrix(n_words)
    right = words.take(pairs[:, 1]).matrix(n_words)
    common = left.minimum(right)
    only_one = abs(left - right)
    return sp.csr_array(sp.hstack([common, only_one]))
