"""A linear model of the words that both records of a pair have, or only one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression

from ..files.container import Arrays
from ..files.tables import get_array
from .known import N_FOLDS
from .rows import Rows

#: Inverse strength of the penalty.
C = 10.0


class WordModel:
    """Log odds of pairs by their words, the mean of models that are cross-fitted.

    Parameters
    ----------
    weights : ndarray of shape (n_words, 2)
        Of the words that both records have, and that only one has.
    intercept : float
        NaN where there is no model.
    """

    def __init__(self, weights: np.ndarray, intercept: float) -> None:
        self._weights = weights
        self._intercept = intercept

    def log_odds(
        self, words: Rows, pairs: np.ndarray, n_jobs: int | None
    ) -> np.ndarray:
        """Return the log odds of pairs of records, the mean of all models.

        NaN where there are none.
        """
        return words.weighted_sums(pairs, self._weights, n_jobs) + self._intercept

    def to_arrays(self) -> Arrays:
        """Return what a file holds."""
        return {"weights": self._weights, "intercept": np.array([self._intercept])}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> WordModel:
        """Return what `to_arrays` was called on; raise ValueError if it is none."""
        weights = get_array(arrays, "weights", "f", (None, 2))
        intercept = get_array(arrays, "intercept", "f", (1,))
        return cls(np.ascontiguousarray(weights), float(intercept[0]))


class CrossFittedWords(NamedTuple):
    """A model of words, and what it says of the pairs that it was learned from.

    `held_out` has the log odds by the model without the fold of the pair; NaN where
    there is none.
    """

    model: WordModel
    held_out: np.ndarray

    @classmethod
    def of_pairs(
        cls, words: Rows, pairs: np.ndarray, labels: np.ndarray, fold: np.ndarray
    ) -> CrossFittedWords:
        """Return models of the words of pairs, one for each fold.

        Parameters
        ----------
        words : Rows
            TF-IDF weights of the words of records, at unit length.
        pairs : ndarray of shape (n_pairs, 2)
        labels, fold : ndarray of shape (n_pairs,)
            1 for a match; numbers of folds.
        """
        models: list[LogisticRegression] = []
        held_out = np.full(len(pairs), np.nan)
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
                held_out[rows] = model.decision_function(features[rows])
        if not models:
            return cls(WordModel(np.full((0, 2), np.nan), np.nan), held_out)
        # The mean of linear models is one.
        coefficients = np.mean([model.coef_[0] for model in models], axis=0)
        weights = np.ascontiguousarray(coefficients.reshape(2, -1).T)
        intercept = float(np.mean([model.intercept_[0] for model in models]))
        return cls(WordModel(weights, intercept), held_out)


def _features(words: Rows, pairs: np.ndarray) -> sp.csr_array:
    """Return the weights of words that both have, then of words that only one has."""
    n_words = 1 + int(words.arrays.indices.max(initial=-1))
    left = words.take(pairs[:, 0]).matrix(n_words)
    right = words.take(pairs[:, 1]).matrix(n_words)
    common = left.minimum(right)
    only_one = abs(left - right)
    return sp.csr_array(sp.hstack([common, only_one]))
