"""Support vector machines as the paper has them: one against one."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.multiclass import OneVsOneClassifier
from sklearn.svm import SVC, LinearSVC


def linear_svm(
    penalty: str = "l2",
    C: float = 1.0,
    *,
    max_iter: int = 10_000,
    random_state: Any = None,
) -> OneVsOneClassifier:
    """Return a linear SVM by liblinear: squared hinge loss, one against one.

    Parameters
    ----------
    penalty : {"l2", "l1"}, default="l2"
    C : float, default=1.0
        The inverse of the strength of the penalty.
    max_iter : int, default=10_000
    random_state : int, RandomState or None, default=None

    Returns
    -------
    OneVsOneClassifier

    Examples
    --------
    >>> model = linear_svm("l1", C=10).fit(np.eye(4)[:, :3], [0, 0, 1, 1])
    >>> n_active_features(model) <= 3
    True
    """
    dual: bool | str = "auto"
    if penalty == "l1":
        dual = False  # liblinear has no other for this penalty
    svm = LinearSVC(
        penalty=penalty, C=C, dual=dual, max_iter=max_iter, random_state=random_state
    )
    return OneVsOneClassifier(svm)


def poly_svm(
    degree: int = 2, C: float = 1.0, *, gamma: Any = 1.0, coef0: float = 1.0
) -> SVC:
    """Return an SVM by libsvm, one against one.

    Its kernel is (gamma·⟨x, x'⟩ + coef0)^degree.

    Parameters
    ----------
    degree : int, default=2
    C : float, default=1.0
    gamma : float, "scale" or "auto", default=1.0
        1 suits rows of length 1.
    coef0 : float, default=1.0
        1 includes the products of fewer features than `degree`, 0 has only those of
        `degree`.

    Returns
    -------
    SVC

    Examples
    --------
    >>> poly_svm(3, C=10).fit(np.eye(4), [0, 0, 1, 1]).predict(np.eye(4)).tolist()
    [0, 0, 1, 1]
    """
    return SVC(kernel="poly", degree=degree, C=C, gamma=gamma, coef0=coef0)


def n_active_features(model: OneVsOneClassifier) -> int:
    """Return the number of features with a non-zero weight in a fitted `linear_svm`."""
    is_active = [svm.coef_ != 0 for svm in model.estimators_]
    return int(np.count_nonzero(np.any(is_active, axis=0)))
