"""How good a learned similarity is."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from . import user_input
from .estimators import monitor
from .neighbors import SimilarityKNeighborsClassifier
from .similarity import Rewriter, Similarity, as_rewriter

# --- against labels and comparisons --------------------------------------------------------------


def knn_error(
    model: Rewriter | None,
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
        Fitted, or another object with ``rewrite(X)``; None is the plain dot product, which is the
        cosine for rows of length 1.
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
            f"y_test has {n_labels} labels, but X_test has {n_test} rows: one label per row is "
            "expected."
        )
    return 1.0 - float(knn.score(X_test, y_test))


def triplet_accuracy(
    model: Rewriter | None, X: Any, triplets: Any, *, sample_weight: Any = None
) -> float:
    """Return the share of triplets or quadruplets that hold; a tie counts one half.

    Parameters
    ----------
    model : HDSL, Similarity or None
        As in `knn_error`.
    X : array-like or sparse matrix of shape (n_rows, n_features)
    triplets : array-like of int of shape (n_triplets, 3) or (n_quadruplets, 4)
        Row numbers of X. A triplet (a, b, c) says S(a, b) > S(a, c), a quadruplet (a, b, c, d)
        says S(a, b) > S(c, d).
    sample_weight : array-like of shape (n_triplets,), default=None

    Returns
    -------
    float

    Examples
    --------
    >>> X = np.array([[1.0, 0], [2, 1], [0, 3], [0, 4]])
    >>> triplet_accuracy(None, X, [[0, 1, 2], [0, 2, 3]])
    0.75
    >>> triplet_accuracy(None, X, [[2, 3, 0, 1], [0, 2, 1, 3]])
    0.5
    """
    is_estimator = isinstance(model, BaseEstimator)
    owner = model if is_estimator else BaseEstimator()
    X = sp.csr_array(user_input.check_matrix(owner, X, reset=not is_estimator), dtype=np.float64)
    triplets = _check_comparisons(triplets, X.shape[0])
    weights = user_input.check_weights(sample_weight, len(triplets), "triplet")
    if model is None:
        no_atoms = np.empty((0, 3), dtype=np.int64), np.empty(0)
        model = Similarity(*no_atoms, scale=1.0, prior=1.0, n_features=X.shape[1])
    return monitor.triplet_accuracy(X, triplets, weights)(as_rewriter(model, X.shape[1], "model"))


def _check_comparisons(comparisons: Any, n_rows: int) -> np.ndarray:
    """Return triplets or quadruplets as int64; raise ValueError unless they compare rows of X."""
    try:
        quadruplets = np.asarray(comparisons)
    except ValueError:  # rows of unequal length
        quadruplets = np.empty(0)
    if quadruplets.ndim != 2 or quadruplets.shape[1] != 4:
        return user_input.check_triplets(comparisons, n_rows)
    if len(quadruplets) == 0:
        raise ValueError("triplets is empty: at least one quadruplet is needed.")
    if not np.issubdtype(quadruplets.dtype, np.integer):
        raise ValueError(
            f"triplets must hold integers, row numbers of X. Got dtype {quadruplets.dtype}: "
            "convert with .astype(int) if the values are whole."
        )
    outside = np.argwhere((quadruplets < 0) | (quadruplets >= n_rows))
    if len(outside):
        t, column = outside[0]
        raise ValueError(
            f"triplets[{t}] names row {quadruplets[t, column]}, but X has {n_rows} rows. "
            "Quadruplets number the rows of X from 0."
        )
    first, second = np.sort(quadruplets[:, :2]), np.sort(quadruplets[:, 2:])
    same = np.flatnonzero((first == second).all(axis=1))
    if len(same):
        raise ValueError(
            f"triplets[{same[0]}] compares a pair of rows with itself ({len(same)} such "
            "quadruplet(s)): drop them, they say nothing."
        )
    return quadruplets.astype(np.int64, copy=False)


# --- against the truth ---------------------------------------------------------------------------


class RecoveryAUC(NamedTuple):
    """Areas under the ROC curve for active features and for active feature pairs."""

    features: float
    entries: float


def recovery_auc(learned: sp.csr_array, truth: sp.csr_array) -> RecoveryAUC:
    """Return how well a learned M ranks the features and the feature pairs of the true M.

    Features are ranked by the L1 norm of their row and pairs i < j by |M_ij|. Those with a
    non-zero true value should come first. A tie counts one half.

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
    norms, true_norms = (np.asarray(abs(M).sum(axis=1)).ravel() for M in (learned, truth))
    features = _auc(norms[true_norms > 0], norms[true_norms == 0], 0)
    upper, true_upper = (sp.triu(M, k=1, format="coo") for M in (learned, truth))
    true_keys = (true_upper.row * np.int64(d) + true_upper.col)[true_upper.data != 0]
    keys = upper.row * np.int64(d) + upper.col
    is_true = np.isin(keys, true_keys)
    found = np.abs(upper.data[is_true])
    positive = np.concatenate([found, np.zeros(len(true_keys) - len(found))])
    negative = np.abs(upper.data[~is_true])
    n_zero = d * (d - 1) // 2 - len(true_keys) - len(negative)
    return RecoveryAUC(features, _auc(positive, negative, n_zero))


def _auc(positive: np.ndarray, negative: np.ndarray, n_zero: int) -> float:
    """Return P(positive > negative) + P(equal)/2, where `n_zero` more negatives are 0."""
    ranked = np.sort(negative)
    below = np.searchsorted(ranked, positive, side="left") + n_zero * (positive > 0)
    upto = np.searchsorted(ranked, positive, side="right") + n_zero * (positive >= 0)
    n_pairs = len(positive) * (len(negative) + n_zero)
    return float((below + upto).sum() / 2.0 / n_pairs) if n_pairs else float("nan")
