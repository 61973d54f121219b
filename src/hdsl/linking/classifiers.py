"""Probabilities of pairs by classifiers that are cross-fitted."""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.special import expit
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from threadpoolctl import ThreadpoolController

from ..files.container import Arrays
from ..files.tables import get_array, nested, part_of
from .forest import BoostedTrees, Trees
from .known import N_FOLDS
from .normal_scores import NormalScores

#: Randomized trees of each fold.
N_TREES = 125

#: What a missing number is for randomized trees: below all others, in 32 bits.
BELOW_ALL = -1e6

#: Inverse strength of the penalty of the linear classifier.
C = 0.3

#: Boosted trees of each fold.
N_BOOSTED = 75

#: Pairs that are less probable by boosted trees are not asked of the other classifiers:
#: most candidates are such pairs, and none of them would be a match.
SURELY_NONE = 0.01


@cache
def _thread_pools() -> ThreadpoolController:
    """Return what sets the number of threads: to look for it takes milliseconds."""
    return ThreadpoolController()


class FoldClassifiers:
    """Boosted trees, randomized trees and logistic regression of one fold.

    Parameters
    ----------
    boosted, randomized : Trees
    baseline : float
        Log odds to which the boosted trees add.
    weights : ndarray of shape (n_scores,)
        Those of logistic regression.
    intercept : float
    """

    def __init__(
        self,
        boosted: Trees,
        randomized: Trees,
        *,
        baseline: float,
        weights: np.ndarray,
        intercept: float,
    ) -> None:
        self.randomized = randomized
        self._boosted = boosted
        self._baseline = baseline
        self._weights = weights
        self._intercept = intercept

    @classmethod
    def of_pairs(
        cls,
        X: np.ndarray,
        scores: np.ndarray,
        labels: np.ndarray,
        *,
        min_leaf: int,
        seed: int,
    ) -> FoldClassifiers:
        """Return classifiers that learn from known pairs.

        Parameters
        ----------
        X : ndarray of shape (n_pairs, n_features)
            NaN is a missing value.
        scores : ndarray of shape (n_pairs, n_scores)
            The same as normal scores.
        labels : ndarray of shape (n_pairs,)
            1 for a match.
        min_leaf : int
            Least number of pairs in a leaf of the boosted trees.
        seed : int
        """
        boosted = HistGradientBoostingClassifier(
            max_iter=N_BOOSTED,
            learning_rate=0.1,
            max_leaf_nodes=8,
            max_features=0.3,
            min_samples_leaf=min_leaf,
            random_state=seed,
        )
        randomized = ExtraTreesClassifier(
            N_TREES, max_features=1 / 3, random_state=seed
        )
        logistic = LogisticRegression(C=C, max_iter=1000)
        # Threads that wait for one another take longer than one.
        with _thread_pools().limit(limits=1):
            boosted.fit(_without_empty_columns(X), labels)
            randomized.fit(_filled(X), labels)
            logistic.fit(scores, labels)
            trees = BoostedTrees.of_classifier(boosted, X)
        return cls(
            trees.trees,
            Trees.of_randomized(randomized),
            baseline=trees.baseline,
            weights=logistic.coef_[0],
            intercept=float(logistic.intercept_[0]),
        )

    def boosted(self, X: np.ndarray, n_jobs: int | None) -> np.ndarray:
        """Return the probability of pairs by boosted trees."""
        log_odds = np.full(len(X), self._baseline)
        self._boosted.add(X, log_odds, n_jobs)
        return np.asarray(expit(log_odds))

    def logistic(self, scores: np.ndarray) -> np.ndarray:
        """Return the probability of pairs by logistic regression."""
        log_odds = scores @ self._weights + self._intercept
        return np.asarray(expit(log_odds))

    def to_arrays(self) -> Arrays:
        """Return what a file holds."""
        arrays: Arrays = {
            "baseline": np.array([self._baseline]),
            "weights": self._weights,
            "intercept": np.array([self._intercept]),
        }
        return arrays | nested(
            boosted=self._boosted.to_arrays(),
            randomized=self.randomized.to_arrays(),
        )

    @classmethod
    def from_arrays(cls, arrays: Arrays, n_features: int) -> FoldClassifiers:
        """Return what `to_arrays` was called on; raise ValueError if it is none."""
        baseline = get_array(arrays, "baseline", "f", (1,))
        intercept = get_array(arrays, "intercept", "f", (1,))
        return cls(
            Trees.from_arrays(part_of(arrays, "boosted"), n_features),
            Trees.from_arrays(part_of(arrays, "randomized"), n_features),
            baseline=float(baseline[0]),
            weights=get_array(arrays, "weights", "f", (2 * n_features,)),
            intercept=float(intercept[0]),
        )


class CrossFittedClassifier:
    """Classifiers per fold of the known pairs, learned from the pairs of other folds.

    A fold has none where all other pairs match, or none of them does. The probability
    of a pair is the mean of those by boosted trees, by randomized trees and by logistic
    regression.

    Parameters
    ----------
    scores : NormalScores
    folds : dict of int to FoldClassifiers
        By the number of the fold that they have not seen, at least one.
    """

    def __init__(self, scores: NormalScores, folds: dict[int, FoldClassifiers]) -> None:
        self._scores = scores
        self._folds = folds

    @classmethod
    def of_pairs(
        cls, X: np.ndarray, labels: np.ndarray, fold: np.ndarray, seed: int
    ) -> CrossFittedClassifier:
        """Return classifiers that learn from known pairs.

        Parameters
        ----------
        X : ndarray of shape (n_pairs, n_features)
            NaN is a missing value.
        labels : ndarray of shape (n_pairs,)
            1 for a match.
        fold : ndarray of shape (n_pairs,)
        seed : int
        """
        normal_scores = NormalScores.of_rows(X)
        scores = normal_scores(X)
        folds: dict[int, FoldClassifiers] = {}
        for number in range(N_FOLDS):
            rows = fold != number
            if len(np.unique(labels[rows])) < 2:
                continue
            folds[number] = FoldClassifiers.of_pairs(
                X[rows],
                scores[rows],
                labels[rows],
                # Larger leaves the more matches there are.
                min_leaf=int(np.clip(labels.sum() / 10, 2, 20)),
                seed=seed,
            )
        if not folds:
            raise ValueError("No fold has matches and other pairs to learn from.")
        return cls(normal_scores, folds)

    def held_out(
        self, X: np.ndarray, fold: np.ndarray, n_jobs: int | None = None
    ) -> np.ndarray:
        """Return the probability of each known pair, by the classifiers without its fold.

        NaN where the fold has none.
        """
        probability = np.full(len(X), np.nan)
        for number, classifiers in self._folds.items():
            rows = fold == number
            if rows.any():
                probability[rows] = self._mean(X[rows], [classifiers], n_jobs)
        return probability

    def probability(self, X: np.ndarray, n_jobs: int | None = None) -> np.ndarray:
        """Return the probability of new pairs, the mean of all classifiers."""
        return self._mean(X, [*self._folds.values()], n_jobs)

    def _mean(
        self, X: np.ndarray, folds: list[FoldClassifiers], n_jobs: int | None
    ) -> np.ndarray:
        """Return the mean of the probabilities by three kinds of classifiers."""
        sums = np.zeros(len(X))
        for each in folds:
            sums += each.boosted(X, n_jobs)
        probability = sums / len(folds)
        rows = np.flatnonzero(probability >= SURELY_NONE)
        if len(rows) == 0:
            return probability
        randomized = _randomized_mean(X[rows], folds, n_jobs)
        scores = self._scores(X[rows])
        logistic = np.mean([each.logistic(scores) for each in folds], axis=0)
        probability[rows] = (probability[rows] + randomized + logistic) / 3
        return probability

    # --- files ------------------------------------------------------------------------

    def to_arrays(self) -> Arrays:
        """Return what a file holds."""
        folds = {
            f"fold{number}": classifiers.to_arrays()
            for number, classifiers in self._folds.items()
        }
        return self._scores.to_arrays() | nested(**folds)

    @classmethod
    def from_arrays(cls, arrays: Arrays, n_features: int) -> CrossFittedClassifier:
        """Return what `to_arrays` was called on; raise ValueError if it is none."""
        folds = {}
        for number in range(N_FOLDS):
            fold_arrays = part_of(arrays, f"fold{number}")
            if fold_arrays:
                folds[number] = FoldClassifiers.from_arrays(fold_arrays, n_features)
        if not folds:
            raise ValueError("there are no classifiers")
        return cls(NormalScores.from_arrays(arrays, n_features), folds)


def _randomized_mean(
    X: np.ndarray, folds: list[FoldClassifiers], n_jobs: int | None
) -> np.ndarray:
    """Return the mean of the probabilities by the randomized trees of folds."""
    filled = _filled(X)
    sums = np.zeros(len(X))
    for each in folds:
        each.randomized.add(filled, sums, n_jobs)
    return sums / sum(each.randomized.n_trees for each in folds)


def _filled(X: np.ndarray) -> np.ndarray:
    """Return X with missing numbers filled in, in 32 bits as trees want them."""
    return np.where(np.isnan(X), BELOW_ALL, X).astype(np.float32)


def _without_empty_columns(X: np.ndarray) -> np.ndarray:
    """Return X with zeros in columns of NaN alone, which scikit-learn refuses."""
    X = X.copy()
    X[:, np.isnan(X).all(axis=0)] = 0.0
    return X
