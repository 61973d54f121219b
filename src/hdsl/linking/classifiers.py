"""Probabilities of pairs by classifiers that are cross-fitted."""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.special import expit
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from threadpoolctl import ThreadpoolController

from ..cpu.workers import Workers
from .forest import Forest
from .known import N_FOLDS
from .normal_scores import NormalScores

#: Randomized trees of each fold.
N_TREES = 125

#: What a missing number is for randomized trees: below all others, in 32 bits.
BELOW_ALL = -1e6

#: Inverse strength of the penalty of the linear classifier.
C = 0.3

#: Pairs whose numbers go through the boosted trees together: they stay in the cache.
N_PAIRS_AT_A_TIME = 2048

#: Multiplications that one boosted tree takes for a pair, about.
TREE_COST = 20

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

    def __init__(
        self,
        X: np.ndarray,
        scores: np.ndarray,
        labels: np.ndarray,
        *,
        min_leaf: int,
        seed: int,
    ) -> None:
        self._boosted = HistGradientBoostingClassifier(
            max_iter=N_BOOSTED,
            learning_rate=0.1,
            max_leaf_nodes=8,
            max_features=0.3,
            min_samples_leaf=min_leaf,
            random_state=seed,
        )
        self.randomized = ExtraTreesClassifier(
            N_TREES, max_features=1 / 3, random_state=seed
        )
        self._logistic = LogisticRegression(C=C, max_iter=1000)
        # Threads that wait for one another take longer than one.
        with _thread_pools().limit(limits=1):
            self._boosted.fit(_without_empty_columns(X), labels)
            self.randomized.fit(_filled(X), labels)
            self._logistic.fit(scores, labels)

    def boosted(self, X: np.ndarray) -> np.ndarray:
        """Return the probability of pairs by boosted trees, on one thread."""
        return np.asarray(self._boosted.predict_proba(X)[:, 1])

    def logistic(self, scores: np.ndarray) -> np.ndarray:
        """Return the probability of pairs by logistic regression."""
        log_odds = scores @ self._logistic.coef_[0] + self._logistic.intercept_[0]
        return np.asarray(expit(log_odds))


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
        self._scores = NormalScores(X)
        scores = self._scores(X)
        self._folds: dict[int, FoldClassifiers] = {}
        for number in range(N_FOLDS):
            rows = fold != number
            if len(np.unique(labels[rows])) < 2:
                continue
            self._folds[number] = FoldClassifiers(
                X[rows],
                scores[rows],
                labels[rows],
                # Larger leaves the more matches there are.
                min_leaf=int(np.clip(labels.sum() / 10, 2, 20)),
                seed=seed,
            )
        if not self._folds:
            raise ValueError("No fold has matches and other pairs to learn from.")
        self._forest = Forest([each.randomized for each in self._folds.values()])

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
                forest = Forest([classifiers.randomized])
                probability[rows] = self._mean(X[rows], [classifiers], forest, n_jobs)
        return probability

    def probability(self, X: np.ndarray, n_jobs: int | None = None) -> np.ndarray:
        """Return the probability of new pairs, the mean of all classifiers."""
        return self._mean(X, [*self._folds.values()], self._forest, n_jobs)

    def _mean(
        self,
        X: np.ndarray,
        folds: list[FoldClassifiers],
        forest: Forest,
        n_jobs: int | None,
    ) -> np.ndarray:
        """Return the mean of the probabilities by three kinds of classifiers."""
        probability = _boosted_mean(X, folds, n_jobs)
        rows = np.flatnonzero(probability >= SURELY_NONE)
        if len(rows) == 0:
            return probability
        randomized = forest.probability(_filled(X[rows]), n_jobs)
        scores = self._scores(X[rows])
        logistic = np.mean([each.logistic(scores) for each in folds], axis=0)
        probability[rows] = (probability[rows] + randomized + logistic) / 3
        return probability


def _boosted_mean(
    X: np.ndarray, folds: list[FoldClassifiers], n_jobs: int | None
) -> np.ndarray:
    """Return the mean of the probabilities by the boosted trees of folds."""
    sums = np.zeros(len(X))

    def add(start: int, stop: int) -> None:
        # Each of the trees would wait for its threads.
        with _thread_pools().limit(limits=1, user_api="openmp"):
            for first in range(start, stop, N_PAIRS_AT_A_TIME):
                rows = slice(first, min(first + N_PAIRS_AT_A_TIME, stop))
                for each in folds:
                    sums[rows] += each.boosted(X[rows])

    with Workers(n_jobs) as workers:
        workers.run_pieces(add, len(X), TREE_COST * N_BOOSTED * len(folds))
    return sums / len(folds)


def _filled(X: np.ndarray) -> np.ndarray:
    """Return X with missing numbers filled in, in 32 bits as trees want them."""
    return np.where(np.isnan(X), BELOW_ALL, X).astype(np.float32)


def _without_empty_columns(X: np.ndarray) -> np.ndarray:
    """Return X with zeros in columns of NaN alone, which scikit-learn refuses."""
    X = X.copy()
    X[:, np.isnan(X).all(axis=0)] = 0.0
    return X
