"""A linear model of the words that both records of a pair have, or only one."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression

from ..similarity.rows import unit_rows
from .known import N_FOLDS

#: Inverse strength of the penalty.
C = 10.0


class WordModel:
    """Log odds of pairs by their words, from models that are cross-fitted.

    Parameters
    ----------
    words : csr_array of shape (n_records, n_words)
        TF-IDF weights of the records.
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
        words: sp.csr_array,
        pairs: np.ndarray,
        labels: np.ndarray,
        fold: np.ndarray,
    ) -> None:
        self._models: list[LogisticRegression] = []
        self.held_out = np.full(len(pairs), np.nan)
        features = _features(words, pairs)
        for number in range(N_FOLDS):
            is_other = fold != number
            if len(np.unique(labels[is_other])) < 2:
                continue
            model = LogisticRegression(C=C, solver="liblinear", random_state=0)
            model.fit(features[is_other], labels[is_other])
            self._models.append(model)
            rows = ~is_other
            if rows.any():
                self.held_out[rows] = model.decision_function(features[rows])

    def log_odds(self, words: sp.csr_array, pairs: np.ndarray) -> np.ndarray:
        """Return the log odds of pairs of records, the mean of all models.

        NaN where there are none.
        """
        if not self._models:
            return np.full(len(pairs), np.nan)
        features = _features(words, pairs)
        each = [model.decision_function(features) for model in self._models]
        return np.mean(each, axis=0)


def _features(words: sp.csr_array, pairs: np.ndarray) -> sp.csr_array:
    """Return the weights of words that both have, then of words that only one has."""
    left = unit_rows(words[pairs[:, 0]])
    right = unit_rows(words[pairs[:, 1]])
    common = left.minimum(right)
    only_one = abs(left - right)
    return sp.csr_array(sp.hstack([common, only_one]))
