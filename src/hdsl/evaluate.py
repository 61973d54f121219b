"""How good a learned similarity is."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from . import user_input
from .estimators import monitor
from .neighbors import SimilarityKNeighborsClassifier
from .similarity import Similarity

# --- against labels and judgements ---------------------------------------------------------------


def knn_error(
    model: Any,
    X: Any,
    y: Any,
    X_test: Any,
    y_test: Any,
    *,
    n_neighbors: int = 3,
    n_jobs: int | None = None,
) -> float:
    """Return the share of test rows that the vote of their most similar rows of X gets wrong.

    Parameters
    ----------
    model : HDSL, Similarity or None
        Fitted, or another object with ``rewrite(X)``; None is the plain dot product, the cosine
        where rows have length 1.
    X, X_test : array-like or sparse matrix of shape (n_rows, n_features), (n_test, n_features)
    y, y_test : array-like of shape (n_rows,), (n_test,)
        A test row whose label is not in `y` counts as wrong.
    n_neighbors : int, default=3
    n_jobs : int or None, default=None
        Threads. The result does not depend on their number.

    Returns
    -------
    float

    Examples
    --------
    >>> X, X_test = np.eye(3), np.array([[2.0, 1, 0], [0, 1, 3]])
    >>> knn_error(None, X, ["a", "b", "b"], X_test, ["a", "a"], n_neighbors=1)
    0.5
    """
    knn = SimilarityKNeighborsClassifier(n_neighbors, similarity=model, n_jobs=n_jobs).fit(X, y)
    n_test, n_labels = np.shape(X_test)[0], len(y_test)
    if n_labels != n_test:
        raise ValueError(
            f"y_test has {n_labels} labels, but X_test has {n_test} rows: one label a row is "
            "expected."
        )
    return 1.0 - float(knn.score(X_test, y_test))


def triplet_accuracy(model: Any, X: Any, triplets: Any, *, sample_weight: Any = None) -> float:
    """Return the share of triplets that are judged as given; a draw counts a half.

    Parameters
    ----------
    model : HDSL, Similarity or None
        As in `knn_error`.
    X : array-like or sparse matrix of shape (n_rows, n_features)
    triplets : array-like of int of shape (n_triplets, 3)
        Row numbers of X: the first is more like the second than like the third.
    sample_weight : array-like of shape (n_triplets,), default=None

    Returns
    -------
    float

    Examples
    --------
    >>> X = np.array([[1.0, 0], [2, 1], [0, 3], [0, 4]])
    >>> triplet_accuracy(None, X, [[0, 1, 2], [0, 2, 3]])
    0.75
    """
    is_estimator = isinstance(model, BaseEstimator)
    owner = model if is_estimator else BaseEstimator()
    X = sp.csr_array(user_input.check_matrix(owner, X, reset=not is_estimator), dtype=np.float64)
    triplets = user_input.check_triplets(triplets, X.shape[0])
    weights = user_input.check_weights(sample_weight, len(triplets), "triplet")
    return monitor.triplet_accuracy(X, triplets, weights)(_similarity(model, X.shape[1]))


def _similarity(model: Any, n_features: int) -> Any:
    """Return the plain value within a model, which asks for no column names."""
    if model is None:
        return Similarity(np.empty((0, 3), dtype=np.int64), np.empty(0), 1.0, 1.0, n_features)
    similarity = getattr(model, "similarity_", model)
    if not hasattr(similarity, "rewrite"):
        raise ValueError(
            "model must be a fitted HDSL, a Similarity or another object with rewrite(X), or None "
            f"for the dot product. Got {model!r}."
        )
    learned_on = getattr(similarity, "n_features", n_features)
    if learned_on != n_features:
        raise ValueError(
            f"X has {n_features} features, but the similarity was learned on {learned_on}: use "
            "the same columns."
        )
    return similarity


# --- against the truth ---------------------------------------------------------------------------


class RecoveryAUC(NamedTuple):
    """Areas under the ROC curve: active features, and active pairs of features."""

    features: float
    entries: float


def recovery_auc(learned: sp.csr_array, truth: sp.csr_array) -> RecoveryAUC:
    """Return how well a learned M ranks the features and the pairs of features of the true one.

    Features are ranked by the L1 norm of their row, pairs i < j by |M_ij|; those with a non-zero
    true value should come first. Ties count one half, as usual.

    Parameters
    ----------
    learned, truth : sparse arrays of shape (n_features, n_features)

    Returns
    -------
    RecoveryAUC

    Examples
    --------
    >>> truth = sp.csr_array(np.array([[1.0, 1, 0], [1, 1, 0], [0, 0, 0]]))
    >>> recovery_auc(truth, truth)
    RecoveryAUC(features=1.0, entries=1.0)
    """
    d = truth.shape[0]
    norms, active = (np.asarray(abs(M).sum(axis=1)).ravel() for M in (learned, truth))
    features = _auc(norms[active > 0], norms[active == 0], 0)
    upper, true_upper = (sp.triu(M, k=1, format="coo") for M in (learned, truth))
    active_pairs = true_upper.data != 0
    true_keys = (true_upper.row * np.int64(d) + true_upper.col)[active_pairs]
    keys = upper.row * np.int64(d) + upper.col
    inside = np.isin(keys, true_keys)
    found = np.abs(upper.data[inside])
    positive = np.concatenate([found, np.zeros(len(true_keys) - len(found))])
    negative = np.abs(upper.data[~inside])
    n_zero = d * (d - 1) // 2 - len(true_keys) - len(negative)
    return RecoveryAUC(features, _auc(positive, negative, n_zero))


def _auc(positive: np.ndarray, negative: np.ndarray, n_zero: int) -> float:
    """Return P(positive > negative) + P(equal)/2; `n_zero` more negatives are 0."""
    ranked = np.sort(negative)
    below = np.searchsorted(ranked, positive, side="left") + n_zero * (positive > 0)
    upto = np.searchsorted(ranked, positive, side="right") + n_zero * (positive >= 0)
    n_pairs = len(positive) * (len(negative) + n_zero)
    return float((below + upto).sum() / 2.0 / n_pairs) if n_pairs else float("nan")
