"""A linear classifier without its code: the weights that its scores come from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..files.container import Arrays, get_array, pack_values, unpack_values
from ..labels import LabelSets
from ..rows import Rows

#: The score of a label that all rows have; squashed, it is 1 to nine digits.
CERTAIN = 10.0


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
        """Return one score per row and class; for two classes, one per row."""
        scores = self._products(X) + self.intercept_
        if len(self.coef_) == 1:
            return scores[:, 0]
        return scores

    def _products(self, X: Any) -> np.ndarray:
        """Return X @ coef_.T, of mixed rows block by block."""
        if not isinstance(X, Rows):
            return np.asarray(X @ self.coef_.T)
        n_features = X.sparse.shape[1]
        of_features = np.asarray(X.sparse @ self.coef_[:, :n_features].T)
        return of_features + X.dense @ self.coef_[:, n_features:].T

    @classmethod
    def from_classifier(cls, classifier: Any) -> LinearScorer:
        """Return the scores of a fitted classifier; raise ValueError if not linear."""
        if isinstance(classifier, cls):
            return classifier
        attributes = ("coef_", "intercept_", "decision_function")
        if all(hasattr(classifier, name) for name in attributes):
            scorer = cls._copied_from(classifier)
            if scorer._agrees_with(classifier):
                return scorer
        raise ValueError(
            "Only a linear classifier, with coef_, intercept_ and decision_function, "
            "can be written to a model file or taken apart into words. Got "
            f"{type(classifier).__name__} instead."
        )

    @classmethod
    def _copied_from(cls, classifier: Any) -> LinearScorer:
        """Return the weights of a classifier as dense arrays of floats."""
        coef = classifier.coef_
        if sp.issparse(coef):
            coef = coef.toarray()
        coef = _as_floats(np.atleast_2d(coef))
        intercept = _as_floats(np.ravel(classifier.intercept_))
        if len(intercept) == 1:  # scikit-learn has the number 0 without an intercept
            intercept = np.repeat(intercept, len(coef))
        return cls(coef, intercept, np.asarray(classifier.classes_))

    def _agrees_with(self, classifier: Any) -> bool:
        """Return whether a classifier scores random rows by these weights."""
        X = np.random.default_rng(0).normal(size=(3, self.coef_.shape[1]))
        ours = self.decision_function(X)
        theirs = classifier.decision_function(X)
        if ours.shape != theirs.shape:  # votes of pairs of classes
            return False
        return bool(np.allclose(ours, theirs, rtol=1e-4, atol=1e-5))

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return classes, coef and intercept, as `from_arrays` takes them."""
        arrays = {"coef": self.coef_, "intercept": self.intercept_}
        return pack_values("classes", self.classes_) | arrays

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> LinearScorer:
        """Return the scores of `to_arrays`; raise ValueError where they are damaged."""
        classes = unpack_values(arrays, "classes")
        if len(classes) < 2 or not (classes[:-1] < classes[1:]).all():
            raise ValueError("classes must hold two labels or more, in rising order")
        n_scores = len(classes)
        if n_scores == 2 and len(arrays.get("coef", ())) == 1:
            n_scores = 1
        coef = get_array(arrays, "coef", "f", (n_scores, None))
        intercept = get_array(arrays, "intercept", "f", (n_scores,))
        return cls(coef, intercept, classes)


def fit_each_label(
    make_classifier: Callable[[], Any], X: Any, y: LabelSets, **fit_params: Any
) -> LinearScorer:
    """Return the scores of one linear classifier per label: whether rows have it.

    A label that all rows have, or none, has the same score for all.

    Parameters
    ----------
    make_classifier : callable
        Returns a classifier that is not fitted.
    X : array or sparse array of shape (n_rows, n_features)
    y : LabelSets
    **fit_params
        Other parameters of its ``fit``.
    """
    coef = np.zeros((len(y.classes), X.shape[1]))
    intercept = np.empty(len(y.classes))
    for k, has_label in enumerate((y.indicator.toarray() > 0).T):
        if has_label.all():
            intercept[k] = CERTAIN
        elif not has_label.any():
            intercept[k] = -CERTAIN
        else:
            classifier = make_classifier().fit(X, has_label, **fit_params)
            scorer = LinearScorer.from_classifier(classifier)
            coef[k] = scorer.coef_[0]
            intercept[k] = scorer.intercept_[0]
    return LinearScorer(coef, intercept, y.classes)


def _as_floats(values: Any) -> np.ndarray:
    """Return an array of floats, in its own precision where it has one."""
    array = np.asarray(values)
    if array.dtype.kind == "f":
        return array
    return array.astype(np.float64)
