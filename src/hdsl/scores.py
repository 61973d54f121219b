"""Scores of classes beside rows, from the weights of a linear classifier.

Nothing here needs scikit-learn: a search loads it for the models that have class
scores.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from .arrays import names_from_arrays
from .explain.parts import N_WORDS, largest_scores, words_behind
from .files.container import Arrays
from .files.tables import (
    check_columns,
    get_array,
    get_value,
    pack_values,
    unpack_values,
)
from .input.parameters import check_number
from .labels import LabelSets
from .similarity.rows import unit_rows
from .solver.columns import take_columns

#: How steeply a score v is squashed, 1 / (1 + e^(-3v)): about 0.05 and 0.95 at the
#: margins of -1 and 1 that a linear support vector machine asks for.
STEEPNESS = 3.0

#: The score of a label that all rows have; squashed, it is 1 to nine digits.
CERTAIN = 10.0


class Scores:
    """Rows at unit length with scores of classes beside them, as `ClassScores` has learned them.

    Attributes are those of `ClassScores`.
    """

    classifier_: Any
    classes_: np.ndarray
    weight_: float
    n_scores: int | None
    columns_: Any
    is_wide_: bool
    n_features_in_: int

    def transform(self, X: Any) -> Any:
        """Return the rows with scores by the classifier."""
        rows = unit_rows(X, self.columns_)
        seen = take_columns(rows, self.columns_) if self.is_wide_ else rows
        return self._join(rows, squashed_scores(self.classifier_, seen, self.classes_))

    def _join(self, rows: Any, scores: np.ndarray) -> Any:
        """Return the rows with the largest scores beside them."""
        scores = self.weight_ * largest_scores(scores, self.n_scores)
        scores = scores.astype(rows.dtype, copy=False)
        if not sp.issparse(rows):
            return np.hstack([rows, scores])
        return sp.csr_array(sp.hstack([rows, sp.csr_array(scores)], format="csr"))

    def words(self, X: Any, n_words: int = N_WORDS) -> list[dict[int, list[int]]]:
        """Return the features that add most to the scores of each row.

        A score, before it is squashed, is a weighted sum of the features of the row.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
        n_words : int, default=3
            Most features per score.

        Returns
        -------
        list of dict of int to list of int, one per row
            For each class with a score, by its place in ``classes_``, the columns of X
            that add to it, the largest first.

        Raises
        ------
        ValueError
            The classifier is not linear.
        """
        coef = LinearScorer.from_classifier(self.classifier_).coef_
        columns = self.columns_ if self.is_wide_ else None
        return words_behind(
            self.transform(X), coef, self.n_features_in_, columns, n_words
        )

    def restore(self, arrays: Arrays, header: dict[str, Any]) -> Scores:
        """Take what ``ClassScores.to_arrays`` returned; raise ValueError if it is damaged."""
        scorer = LinearScorer.from_arrays(arrays)
        n_scores = header.get("n_scores")
        self.classifier_ = scorer
        self.classes_ = scorer.classes_
        self.weight_ = get_value(header, "weight", float)
        self.n_scores = n_scores
        check_number("ClassScores", "weight", self.weight_, low=0)
        check_number(
            "ClassScores", "n_scores", n_scores, low=1, integer=True, words=(None,)
        )
        self.n_features_in_ = get_value(header, "n_features", int)
        self.columns_ = None
        if "columns" in arrays:
            self.columns_ = get_array(arrays, "columns", "i")
            check_columns(self.columns_, self.n_features_in_)
        n_seen = scorer.coef_.shape[1]
        self.is_wide_ = n_seen != self.n_features_in_
        if self.is_wide_ and (self.columns_ is None or len(self.columns_) != n_seen):
            raise ValueError(
                f"coef has {n_seen} columns, but columns has another number"
            )
        names_from_arrays(self, arrays)
        return self


def squashed_scores(classifier: Any, X: Any, classes: np.ndarray) -> np.ndarray:
    """Return the squashed and squared scores of each class.

    Parameters
    ----------
    classifier : fitted classifier
        With ``decision_function`` or ``predict_proba``, and ``classes_``.
    X : ndarray or sparse array of shape (n_rows, n_features)
    classes : ndarray of shape (n_classes,)
        Sorted. A class that the classifier does not know has score 0.

    Returns
    -------
    ndarray of shape (n_rows, n_classes)
    """
    known = classifier.classes_
    if hasattr(classifier, "decision_function"):
        values = np.asarray(classifier.decision_function(X), dtype=np.float64)
        if values.ndim == 1:  # two classes
            values = np.column_stack([-values, values])
        squashed = 0.5 + 0.5 * np.tanh(0.5 * STEEPNESS * values)  # 1 / (1 + e^-v)
    else:
        squashed = np.asarray(classifier.predict_proba(X), dtype=np.float64)
    if squashed.shape != (X.shape[0], len(known)):
        raise ValueError(
            "The 'classifier' parameter of ClassScores must give one score per class, "
            f"shape {(X.shape[0], len(known))}. {type(classifier).__name__} gives "
            f"shape {squashed.shape}: use one-vs-rest scores."
        )
    scores = np.zeros((X.shape[0], len(classes)))
    scores[:, np.searchsorted(classes, known)] = np.square(squashed)
    return scores


@dataclass(frozen=True, eq=False)
class LinearScorer:
    """What is left of a linear classifier without its code: X @ coef_.T + intercept_.

    Parameters
    ----------
    coef_ : ndarray of shape (n_classes, n_features)
    intercept_ : ndarray of shape (n_classes,), or (1,)
    classes_ : ndarray of shape (n_classes,)
        Sorted.
    """

    coef_: np.ndarray
    intercept_: np.ndarray
    classes_: np.ndarray

    def decision_function(self, X: Any) -> np.ndarray:
        """Return one score per class, shape (n_rows, n_classes), or (n_rows,) for two classes."""
        scores = np.asarray(X @ self.coef_.T) + self.intercept_
        return scores[:, 0] if len(self.coef_) == 1 else scores

    @classmethod
    def from_classifier(cls, classifier: Any) -> LinearScorer:
        """Return the scores of a fitted classifier; raise ValueError unless it is linear."""
        parts = ("coef_", "intercept_", "decision_function")
        if all(hasattr(classifier, part) for part in parts):
            coef = classifier.coef_
            coef = _floats(np.atleast_2d(coef.toarray() if sp.issparse(coef) else coef))
            intercept = _floats(np.ravel(classifier.intercept_))
            if (
                len(intercept) == 1
            ):  # scikit-learn has the number 0 where no intercept is fitted
                intercept = np.repeat(intercept, len(coef))
            scorer = cls(coef, intercept, np.asarray(classifier.classes_))
            X = np.random.default_rng(0).normal(size=(3, coef.shape[1]))
            found = scorer.decision_function(X)
            given = classifier.decision_function(X)
            is_same = found.shape == given.shape  # not so for votes of pairs of classes
            if is_same and np.allclose(found, given, rtol=1e-4, atol=1e-5):
                return scorer
        raise ValueError(
            "Only a linear classifier, with coef_, intercept_ and decision_function, "
            "can be written to a model file or taken apart into words. Got "
            f"{type(classifier).__name__} instead."
        )

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return classes, coef and intercept, as `from_arrays` takes them."""
        arrays = {"coef": self.coef_, "intercept": self.intercept_}
        return pack_values("classes", self.classes_) | arrays

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> LinearScorer:
        """Return the scores that `to_arrays` was called on; raise ValueError if damaged."""
        classes = unpack_values(arrays, "classes")
        n_classes = len(classes)
        if n_classes < 2 or not (classes[:-1] < classes[1:]).all():
            raise ValueError("classes must hold two labels or more, in rising order")
        one = n_classes == 2 and len(arrays.get("coef", ())) == 1
        coef = get_array(arrays, "coef", "f", (1 if one else n_classes, None))
        intercept = get_array(arrays, "intercept", "f", (len(coef),))
        return cls(coef, intercept, classes)


def fit_each_label(
    make: Callable[[], Any], X: Any, y: LabelSets, **given: Any
) -> LinearScorer:
    """Return the scores of one linear classifier per label, fitted to whether rows have it.

    A label that all rows have, or none, has the same score for all. `make` returns a
    classifier that is not fitted; others go to its ``fit``.
    """
    coef = np.zeros((len(y.classes), X.shape[1]))
    intercept = np.empty(len(y.classes))
    for k, has in enumerate((y.indicator.toarray() > 0).T):
        if has.all() or not has.any():
            intercept[k] = CERTAIN if has.all() else -CERTAIN
        else:
            found = LinearScorer.from_classifier(make().fit(X, has, **given))
            coef[k] = found.coef_[0]
            intercept[k] = found.intercept_[0]
    return LinearScorer(coef, intercept, y.classes)


def _floats(values: Any) -> np.ndarray:
    array = np.asarray(values)
    return array if array.dtype.kind == "f" else array.astype(np.float64)
