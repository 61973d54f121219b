"""The scores of a linear classifier as plain arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp


@dataclass(frozen=True, eq=False)
class LinearScorer:
    """What is left of a linear classifier without its code: X @ coef_.T + intercept_.

    Parameters
    ----------
    coef_ : ndarray of shape (n_classes, n_features), or (1, n_features) for two classes
    intercept_ : ndarray of shape (n_classes,), or (1,) for two classes
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
    def of(cls, classifier: Any) -> LinearScorer:
        """Return the scores of a fitted classifier; raise ValueError unless it is linear."""
        parts = ("coef_", "intercept_", "decision_function")
        if all(hasattr(classifier, part) for part in parts):
            coef = classifier.coef_
            coef = _floats(np.atleast_2d(coef.toarray() if sp.issparse(coef) else coef))
            intercept = _floats(np.ravel(classifier.intercept_))
            if len(intercept) == 1:  # scikit-learn has the number 0 where no intercept is fitted
                intercept = np.repeat(intercept, len(coef))
            scorer = cls(coef, intercept, np.asarray(classifier.classes_))
            if scorer._gives_the_scores_of(classifier):
                return scorer
        raise ValueError(
            "Only a linear classifier, with coef_, intercept_ and decision_function, can be "
            f"written to a model file. Got {type(classifier).__name__} instead."
        )

    def _gives_the_scores_of(self, classifier: Any) -> bool:
        """Whether the scores of random rows are the same: not so for votes of pairs of classes."""
        X = np.random.default_rng(0).normal(size=(3, self.coef_.shape[1]))
        own, given = self.decision_function(X), classifier.decision_function(X)
        return own.shape == given.shape and np.allclose(own, given, rtol=1e-4, atol=1e-5)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return classes, coef and intercept, as `from_arrays` takes them."""
        classes = self.classes_
        is_text = classes.dtype.kind in "OUT" and all(isinstance(label, str) for label in classes)
        if not is_text and classes.dtype.kind not in "biuf":
            raise ValueError(
                "Class labels must be numbers or strings to be written to a model file. Got "
                f"dtype {classes.dtype}."
            )
        classes = classes.astype(object) if is_text else classes
        return {"classes": classes, "coef": self.coef_, "intercept": self.intercept_}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> LinearScorer:
        """Return the scores that `to_arrays` was called on; raise ValueError if they are damaged.

        Labels that are text are objects.
        """
        classes = check_array(arrays, "classes", "biufO", (None,))
        n_classes = len(classes)
        if n_classes < 2 or not (classes[:-1] < classes[1:]).all():
            raise ValueError("classes must hold two labels or more, in rising order")
        coef = check_array(arrays, "coef", "f", (1 if n_classes == 2 else n_classes, None))
        intercept = check_array(arrays, "intercept", "f", (len(coef),))
        return cls(coef, intercept, classes)


def check_array(
    arrays: Mapping[str, Any], name: str, kinds: str, shape: tuple[int | None, ...]
) -> np.ndarray:
    """Return an array of finite numbers, or of text, from a file.

    Parameters
    ----------
    arrays : dict of str to ndarray
    name : str
    kinds : str
        Kinds of dtype that are allowed.
    shape : tuple of int or None
        None is any number.

    Raises
    ------
    ValueError
        The array is missing or another one.
    """
    array = arrays.get(name)
    if not isinstance(array, np.ndarray):
        raise ValueError(f"array {name!r} is missing")
    same = array.ndim == len(shape)
    same = same and all(n in (None, m) for n, m in zip(shape, array.shape, strict=True))
    if array.dtype.kind not in kinds or not same:
        expected = str(shape).replace("None", "n")
        raise ValueError(
            f"{name} is of {array.dtype} and shape {array.shape}, expected a dtype in "
            f"{kinds!r} and shape {expected}"
        )
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ValueError(f"{name} must hold finite numbers")
    return array


def _floats(values: Any) -> np.ndarray:
    array = np.asarray(values)
    return array if array.dtype.kind == "f" else array.astype(np.float64)
