"""A linear model of the words that both records of a pair have, or only one."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression

from ..similarity.rows import unit_rows
from .known import N_FOLDS, TrainingPairs

#: Inverse strength of the penalty.
C = 10.0


class WordModel:
    """Log odds of pairs by their words, from models that are cross-fitted.

    Parameters
    ----------
    words : csr_array of shape (n_records, n_words)
        TF-IDF weights.
    training : TrainingPairs
    """

    def __init__(self, words: sp.csr_array, training: TrainingPairs) -> None:
        self._words = unit_rows(words)
        self._models: dict[int, LogisticRegression] = {}
        features = self._features(training.pairs)
        self.held_out = np.full(len(training.pairs), np.nan)
        for fold in range(N_FOLDS):
            is_other = training.fold != fold
            if len(np.unique(training.labels[is_other])) < 2:
                continue
            model = LogisticRegression(C=C, solver="liblinear", random_state=0)
            model.fit(features[is_other], training.labels[is_other])
            self._models[fold] = model
            rows = ~is_other
            if rows.any():
                self.held_out[rows] = model.decision_function(features[rows])

    def log_odds(self, pairs: np.ndarray) -> np.ndarray:
        """Return the log odds of pairs, the mean of all models."""
        if not self._models:
            return np.full(len(pairs), np.nan)
        features = self._features(pairs)
        models = self._models.values()
        return np.mean([model.decision_function(features) for model in models], axis=0)

    def _features(self, pairs: np.ndarray) -> sp.csr_array:
        """Return the weights of common words, then of words that only one record has."""
        left = self._words[pairs[:, 0]]
        right = self._words[pairs[:, 1]]
        common = left.minimum(right)
        only_one = abs(left - right)
        return sp.csr_array(sp.hstack([common, only_one]))
