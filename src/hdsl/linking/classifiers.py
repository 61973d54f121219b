"""What classifiers see of a pair, and its probability by classifiers that are cross-fitted."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, cached_property
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import QuantileTransformer
from threadpoolctl import ThreadpoolController

from ..files.container import Arrays, get_array
from .candidates import Standing
from .rows import Rows


class PairFeatures(NamedTuple):
    """Where pairs stand by three similarities, and what their records have in common.

    `learned` is by the learned similarity, or by the cosine where that is used;
    `spelling` by the cosine of the n-grams alone. `words` is the log odds by a linear
    model of words.
    """

    learned: Standing
    cosine: Standing
    spelling: Standing
    overlap: np.ndarray
    strings: np.ndarray
    words: np.ndarray

    @staticmethod
    def standing_names() -> list[tuple[str, list[str]]]:
        """Return the similarities by which pairs stand, and what is known of each."""
        subjects = ("similarity, as learned", "similarity, by cosine", "spelling")
        return [(subject, [*Standing._fields]) for subject in subjects]

    def matrix(self) -> np.ndarray:
        """Return one row per pair."""
        return np.column_stack(
            [
                *self.learned,
                *self.cosine,
                *self.spelling,
                self.overlap,
                self.strings,
                self.words,
            ]
        )


#: Folds of the known pairs.
N_FOLDS = 4

#: Randomized trees of each fold.
N_TREES = 125

#: What a missing number is for randomized trees: below all others, in 32 bits.
BELOW_ALL = -1e6

#: Inverse strength of the penalty of the linear classifier, and of that of words.
C = 0.3
C_OF_WORDS = 10.0

#: Boosted trees of each fold.
N_BOOSTED = 75

#: Pairs that are less probable by boosted trees are not asked of the other classifiers:
#: most candidates are such pairs, and none of them would be a match.
SURELY_NONE = 0.01

#: Quantiles of each number, and the limit of normal scores.
N_QUANTILES = 200
MAX_SCORE = 3.0

#: Weights of a class that are too small to learn from.
NO_WEIGHT = 1e-3


class Targets(NamedTuple):
    """What pairs are thought to be: the share of a match in each, fold and weight.

    A pair whose answer is not known counts as a match by a part of its weight, and as
    none by the rest.
    """

    labels: np.ndarray
    fold: np.ndarray
    weight: np.ndarray

    def without(self, fold: int) -> Sides | None:
        """Return the pairs of other folds; None where all are on one side."""
        sides = []
        for is_match in (True, False):
            shares = self.labels if is_match else 1.0 - self.labels
            weight = self.weight * shares
            rows = np.flatnonzero((self.fold != fold) & (weight > NO_WEIGHT))
            if len(rows) == 0:
                return None
            sides.append((rows, np.repeat(is_match, len(rows)), weight[rows]))
        return Sides(*map(np.concatenate, zip(*sides, strict=True)))

    def folds(self) -> Iterator[tuple[int, Sides]]:
        """Return each fold that the others can be learned from for, and these."""
        for fold in range(N_FOLDS):
            sides = self.without(fold)
            if sides is not None:
                yield fold, sides


class Sides(NamedTuple):
    """Pairs by number, each on one side or on both, with a weight."""

    rows: np.ndarray
    is_match: np.ndarray
    weight: np.ndarray


class FoldClassifiers:
    """Boosted trees, randomized trees and logistic regression of one fold.

    Parameters
    ----------
    X : ndarray of shape (n_pairs, n_features)
        NaN is a missing value.
    scores : ndarray of shape (n_pairs, n_scores)
        The same as normal scores.
    sides : Sides
        The pairs that are learned from.
    seed : int
    """

    def __init__(
        self, X: np.ndarray, scores: np.ndarray, sides: Sides, seed: int
    ) -> None:
        rows, is_match, weight = sides
        # Larger leaves the more matches there are.
        min_leaf = int(np.clip(is_match.sum() / 10, 2, 20))
        self._boosted = HistGradientBoostingClassifier(
            max_iter=N_BOOSTED,
            learning_rate=0.1,
            max_leaf_nodes=8,
            max_features=0.3,
            min_samples_leaf=min_leaf,
            random_state=seed,
        )
        self._randomized = ExtraTreesClassifier(
            N_TREES, max_features=1 / 3, random_state=seed
        )
        self._logistic = LogisticRegression(C=C, max_iter=1000)
        # Threads that wait for one another take longer than one.
        with _thread_pools().limit(limits=1):
            self._boosted.fit(_without_empty_columns(X[rows]), is_match, weight)
            self._randomized.fit(_filled(X[rows]), is_match, weight)
            self._logistic.fit(scores[rows], is_match, weight)

    def boosted(self, X: np.ndarray) -> np.ndarray:
        """Return the probability of pairs by boosted trees."""
        return np.asarray(self._boosted.predict_proba(X)[:, 1])

    def others(self, X: np.ndarray, scores: np.ndarray) -> np.ndarray:
        """Return the sum of the probabilities by the other two classifiers."""
        randomized = self._randomized.predict_proba(_filled(X))[:, 1]
        return np.asarray(randomized + self._logistic.predict_proba(scores)[:, 1])


class CrossFittedClassifier:
    """Classifiers per fold of the known pairs, learned from the pairs of other folds.

    A fold has none where all other pairs match, or none of them does. The probability
    of a pair is the mean of those by boosted trees, by randomized trees and by logistic
    regression.

    Parameters
    ----------
    X : ndarray of shape (n_pairs, n_features)
        NaN is a missing value.
    targets : Targets
    seed : int
    """

    def __init__(self, X: np.ndarray, targets: Targets, seed: int) -> None:
        self._scores = QuantileTransformer(
            n_quantiles=min(N_QUANTILES, len(X)),
            output_distribution="normal",
            subsample=None,
        ).fit(_without_empty_columns(X))
        scores = self._normal_scores(X)
        self._folds = {
            fold: FoldClassifiers(X, scores, sides, seed)
            for fold, sides in targets.folds()
        }
        if not self._folds:
            raise ValueError("No fold has matches and other pairs to learn from.")

    def held_out(self, X: np.ndarray, fold: np.ndarray) -> np.ndarray:
        """Return the probability of each known pair, by the classifiers without its fold.

        NaN where the fold has none.
        """
        probability = np.full(len(X), np.nan)
        for number, classifiers in self._folds.items():
            rows = fold == number
            if rows.any():
                probability[rows] = self._mean(X[rows], [classifiers])
        return probability

    def probability(self, X: np.ndarray) -> np.ndarray:
        """Return the probability of new pairs, the mean of all classifiers."""
        if len(X) == 0:
            return np.zeros(0)
        return self._mean(X, [*self._folds.values()])

    def _mean(self, X: np.ndarray, folds: list[FoldClassifiers]) -> np.ndarray:
        """Return the mean of the probabilities by three kinds of classifiers."""
        probability = np.mean([each.boosted(X) for each in folds], axis=0)
        rows = np.flatnonzero(probability >= SURELY_NONE)
        if len(rows) == 0:
            return probability
        scores = self._normal_scores(X[rows])
        others = np.mean([each.others(X[rows], scores) for each in folds], axis=0)
        probability[rows] = (probability[rows] + others) / 3
        return probability

    def _normal_scores(self, X: np.ndarray) -> np.ndarray:
        """Return numbers by their quantiles, as a normal distribution has them.

        They are from -3 to 3, 0 for missing numbers; then comes what is missing.
        """
        is_missing = np.isnan(X)
        scores = np.clip(self._scores.transform(X), -MAX_SCORE, MAX_SCORE)
        return np.column_stack([np.nan_to_num(scores), is_missing])


class TrainingRows(NamedTuple):
    """Pairs that classifiers learn from: their numbers X, and what they are."""

    pairs: np.ndarray
    X: np.ndarray
    labels: np.ndarray
    fold: np.ndarray
    weight: np.ndarray

    @property
    def targets(self) -> Targets:
        """What the pairs are."""
        return Targets(self.labels, self.fold, self.weight)


class PairClassifier:
    """The classifiers of pairs, and the model of words that is one of their numbers.

    The classifiers learn when they are first needed, from the same rows always alike.

    Parameters
    ----------
    words : WordModel
        Fitted to the pairs of `training`.
    training : TrainingRows
    seed : int
    """

    def __init__(self, words: WordModel, training: TrainingRows, seed: int) -> None:
        self.words = words
        self.training = training
        self._seed = seed

    @cached_property
    def _classifier(self) -> CrossFittedClassifier:
        return CrossFittedClassifier(self.training.X, self.training.targets, self._seed)

    def renumbered(self, numbers: np.ndarray) -> PairClassifier:
        """Return the same after records have got new numbers."""
        pairs = np.sort(numbers[self.training.pairs], axis=1)
        classifier = PairClassifier(
            self.words, self.training._replace(pairs=pairs), self._seed
        )
        classifier.__dict__.update(
            {
                key: self.__dict__[key]
                for key in ("_classifier",)
                if key in self.__dict__
            }
        )
        return classifier

    def held_out(self) -> np.ndarray:
        """Return the probabilities of the training pairs, each without its fold."""
        return self._classifier.held_out(self.training.X, self.training.fold)

    def probability(self, X: np.ndarray) -> np.ndarray:
        """Return the probability of pairs by their numbers."""
        return self._classifier.probability(X)


class WordModel:
    """Log odds of pairs by their words, the mean of linear models that are cross-fitted.

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
        cls, words: Rows, pairs: np.ndarray, targets: Targets
    ) -> CrossFittedWords:
        """Return models of the words of pairs, one for each fold.

        Parameters
        ----------
        words : Rows
            TF-IDF weights of the words of records, at unit length.
        pairs : ndarray of shape (n_pairs, 2)
        targets : Targets
        """
        models: list[LogisticRegression] = []
        held_out = np.full(len(pairs), np.nan)
        features = _features(words, pairs)
        for fold, (rows, is_match, weight) in targets.folds():
            model = LogisticRegression(C=C_OF_WORDS, solver="liblinear", random_state=0)
            model.fit(features[rows], is_match, weight)
            models.append(model)
            is_held_out = targets.fold == fold
            if is_held_out.any():
                held_out[is_held_out] = model.decision_function(features[is_held_out])
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


@cache
def _thread_pools() -> ThreadpoolController:
    """Return what sets the number of threads: to look for it takes milliseconds."""
    return ThreadpoolController()


def _filled(X: np.ndarray) -> np.ndarray:
    """Return X with missing numbers filled in, in 32 bits as trees want them."""
    return np.where(np.isnan(X), BELOW_ALL, X).astype(np.float32)


def _without_empty_columns(X: np.ndarray) -> np.ndarray:
    """Return X with zeros in columns of NaN alone, which scikit-learn refuses."""
    X = X.copy()
    X[:, np.isnan(X).all(axis=0)] = 0.0
    return X
