"""Probabilities of pairs by classifiers that are cross-fitted."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import QuantileTransformer

from .known import N_FOLDS

#: Randomized trees of each fold.
N_TREES = 125

#: Quantiles by which numbers become normal ones, and the limit of these.
N_QUANTILES = 200
MAX_NORMAL = 3.0

#: What a missing number is for randomized trees: below all others, in 32 bits.
BELOW_ALL = -1e6

#: Inverse strength of the penalty of the linear classifier.
C = 0.1


class Classifier(Protocol):
    """A classifier of rows with missing numbers."""

    def fit(self, X: np.ndarray, labels: np.ndarray) -> object:
        """Learn from rows with labels 0 and 1."""

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """Return the probabilities of both labels."""


class RandomizedTrees:
    """Randomized trees on numbers of which some are missing.

    Parameters
    ----------
    seed : int
    """

    def __init__(self, seed: int) -> None:
        self._trees = ExtraTreesClassifier(
            N_TREES, max_features=1 / 3, random_state=seed
        )

    def fit(self, X: np.ndarray, labels: np.ndarray) -> RandomizedTrees:
        """Learn from rows with labels 0 and 1."""
        self._trees.fit(_filled(X), labels)
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """Return the probabilities of both labels."""
        return np.asarray(self._trees.predict_proba(_filled(X)))


class NormalLogistic:
    """Logistic regression on numbers that are made normal by their quantiles.

    A missing number is the median, and a feature that says so.
    """

    def __init__(self) -> None:
        self._regression = LogisticRegression(C=C, max_iter=500)

    def fit(self, X: np.ndarray, labels: np.ndarray) -> NormalLogistic:
        """Learn from rows with labels 0 and 1."""
        self._quantiles = QuantileTransformer(
            n_quantiles=min(N_QUANTILES, len(X)),
            output_distribution="normal",
            subsample=None,
        )
        self._quantiles.fit(X)
        self._regression.fit(self._normal(X), labels)
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """Return the probabilities of both labels."""
        return np.asarray(self._regression.predict_proba(self._normal(X)))

    def _normal(self, X: np.ndarray) -> np.ndarray:
        normal = np.clip(self._quantiles.transform(X), -MAX_NORMAL, MAX_NORMAL)
        return np.column_stack([np.nan_to_num(normal, nan=0.0), np.isnan(X)])


class CrossFittedClassifier:
    """Classifiers per fold of the known pairs, learned from the pairs of other folds.

    A fold has none where all other pairs match, or none of them does. The probability
    of a pair is the mean of those by boosted trees, by randomized trees and by logistic
    regression.

    Parameters
    ----------
    X : ndarray of shape (n_pairs, n_features)
        NaN is a missing value.
    labels : ndarray of shape (n_pairs,)
        1 for a match.
    fold : ndarray of shape (n_pairs,)
    seed : int
    """

    def __init__(
        self, X: np.ndarray, labels: np.ndarray, fold: np.ndarray, seed: int
    ) -> None:
        self._classifiers: dict[int, list[Classifier]] = {}
        for number in range(N_FOLDS):
            rows = fold != number
            if len(np.unique(labels[rows])) < 2:
                continue
            rows_of_others = _without_empty_columns(X[rows])
            classifiers = _make_classifiers(labels, seed)
            for classifier in classifiers:
                classifier.fit(rows_of_others, labels[rows])
            self._classifiers[number] = classifiers
        if not self._classifiers:
            raise ValueError("No fold has matches and other pairs to learn from.")

    def held_out(self, X: np.ndarray, fold: np.ndarray) -> np.ndarray:
        """Return the probability of each known pair, by the classifiers without its fold.

        NaN where the fold has none.
        """
        probability = np.full(len(X), np.nan)
        for number, classifiers in self._classifiers.items():
            rows = fold == number
            if rows.any():
                probability[rows] = _mean_probability(classifiers, X[rows])
        return probability

    def probability(self, X: np.ndarray) -> np.ndarray:
        """Return the probability of new pairs, the mean of all classifiers."""
        folds = self._classifiers.values()
        return np.mean([_mean_probability(fold, X) for fold in folds], axis=0)


def _make_classifiers(labels: np.ndarray, seed: int) -> list[Classifier]:
    """Return small classifiers; trees have larger leaves the more matches there are."""
    boosted = HistGradientBoostingClassifier(
        max_iter=75,
        learning_rate=0.1,
        max_leaf_nodes=8,
        max_features=0.3,
        min_samples_leaf=int(np.clip(labels.sum() / 10, 2, 20)),
        random_state=seed,
    )
    return [boosted, RandomizedTrees(seed), NormalLogistic()]


def _mean_probability(classifiers: list[Classifier], X: np.ndarray) -> np.ndarray:
    """Return the mean of the probabilities of a match."""
    return np.mean([each.predict_proba(X)[:, 1] for each in classifiers], axis=0)


def _filled(X: np.ndarray) -> np.ndarray:
    """Return X with missing numbers filled in, in 32 bits as trees want them."""
    return np.where(np.isnan(X), BELOW_ALL, X).astype(np.float32)


def _without_empty_columns(X: np.ndarray) -> np.ndarray:
    """Return X with zeros in columns of NaN alone, which scikit-learn refuses."""
    X = X.copy()
    X[:, np.isnan(X).all(axis=0)] = 0.0
    return X
