"""Probabilities of pairs by classifiers that are cross-fitted."""

from __future__ import annotations

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

from .known import N_FOLDS


class CrossFittedClassifier:
    """One classifier per fold of the known pairs, learned from the pairs of other folds.

    A fold has none where all other pairs match, or none of them does.

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
        self._classifiers: dict[int, HistGradientBoostingClassifier] = {}
        for number in range(N_FOLDS):
            rows = fold != number
            if len(np.unique(labels[rows])) < 2:
                continue
            classifier = _make_classifier(labels, seed)
            classifier.fit(_without_empty_columns(X[rows]), labels[rows])
            self._classifiers[number] = classifier
        if not self._classifiers:
            raise ValueError("No fold has matches and other pairs to learn from.")

    def held_out(self, X: np.ndarray, fold: np.ndarray) -> np.ndarray:
        """Return the probability of each known pair, by the classifier without its fold.

        NaN where the fold has none.
        """
        probability = np.full(len(X), np.nan)
        for number, classifier in self._classifiers.items():
            rows = fold == number
            if rows.any():
                probability[rows] = classifier.predict_proba(X[rows])[:, 1]
        return probability

    def probability(self, X: np.ndarray) -> np.ndarray:
        """Return the probability of new pairs, the mean of all classifiers."""
        classifiers = self._classifiers.values()
        return np.mean([each.predict_proba(X)[:, 1] for each in classifiers], axis=0)


def _make_classifier(labels: np.ndarray, seed: int) -> HistGradientBoostingClassifier:
    """Return a small classifier, with larger leaves the more matches there are."""
    return HistGradientBoostingClassifier(
        max_iter=75,
        learning_rate=0.1,
        max_leaf_nodes=8,
        max_features=0.3,
        min_samples_leaf=int(np.clip(labels.sum() / 10, 2, 20)),
        random_state=seed,
    )


def _without_empty_columns(X: np.ndarray) -> np.ndarray:
    """Return X with zeros in columns of NaN alone, which scikit-learn refuses."""
    X = X.copy()
    X[:, np.isnan(X).all(axis=0)] = 0.0
    return X
