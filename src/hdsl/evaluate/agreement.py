"""How well a similarity agrees with labels and with comparisons of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from .. import checks
from ..neighbors import SimilarityKNeighborsClassifier
from ..similarity import LearnedCosine, Rewriter, Similarity, as_rewriter, comparison_points
from ..solver.atoms import NOTHING
from .errors import ErrorComparison


def knn_error(
    model: Rewriter | None,
    X: Any,
    y: Any,
    X_test: Any,
    y_test: Any,
    *,
    n_neighbors: int = 3,
    cosine: bool = False,
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
    cosine : bool, default=False
        Compare by the learned cosine, as in ``SimilarityKNeighborsClassifier``.
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
    knn = SimilarityKNeighborsClassifier(
        n_neighbors, similarity=model, cosine=cosine, n_jobs=n_jobs
    ).fit(X, y)
    checks.check_one_label_per_row(y_test, np.shape(X_test)[0], "_test")
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
    X, triplets, weights = _check(model, X, triplets, sample_weight)
    if model is None:
        model = _plain(X.shape[1], norm=None)
    right = comparison_points(X, triplets)(as_rewriter(model, X.shape[1], "model"))
    return float(np.average(right, weights=weights))


def compare_triplets(
    model: Rewriter,
    X: Any,
    triplets: Any,
    *,
    sample_weight: Any = None,
    cosine: bool = False,
) -> ErrorComparison:
    """Return the shares of comparisons that do not hold by plain cosine and as learned.

    The intervals and the test take comparisons as independent. Comparisons that share rows say
    less than that: the intervals are then too narrow, and the p-value is too small.

    Parameters
    ----------
    model : HDSL, Similarity
        Fitted, or another object with ``rewrite(X)``.
    X, triplets, sample_weight
        As in `triplet_accuracy`. Weights count in the errors and in their intervals; the test
        counts comparisons of weight > 0.
    cosine : bool, default=False
        Compare by the learned cosine.

    Returns
    -------
    ErrorComparison

    Examples
    --------
    >>> X = np.array([[1.0, 0], [2, 1], [0, 3], [0, 4]])
    >>> same = Similarity(np.empty((0, 3), int), np.empty(0), 1.0, 1.0, n_features=2)
    >>> compare_triplets(same, X, [[0, 1, 2], [0, 2, 3]]).after.n_wrong
    0.5
    """
    X, triplets, weights = _check(model, X, triplets, sample_weight)
    learned = as_rewriter(model, X.shape[1], "model")
    points = comparison_points(X, triplets)
    before, after = (
        1.0 - points(similarity)
        for similarity in (
            _plain(X.shape[1], norm="l2"),
            LearnedCosine(learned) if cosine else learned,
        )
    )
    return ErrorComparison.from_trials(
        before, after, sample_weight=weights, supervision="judgements"
    )


def _check(
    model: Rewriter | None, X: Any, triplets: Any, sample_weight: Any
) -> tuple[sp.csr_array, np.ndarray, np.ndarray | None]:
    """Return rows, comparisons and weights as arrays; raise ValueError if they do not match."""
    is_estimator = isinstance(model, BaseEstimator)
    owner = model if is_estimator else BaseEstimator()
    X = sp.csr_array(checks.check_matrix(owner, X, reset=not is_estimator), dtype=np.float64)
    triplets = checks.check_comparisons(triplets, X.shape[0], "triplets")
    return X, triplets, checks.check_weights(sample_weight, len(triplets), "triplet")


def _plain(n_features: int, norm: str | None) -> Similarity:
    """Return the dot product, or the cosine with ``norm="l2"``."""
    return Similarity(*NOTHING, scale=1.0, prior=1.0, n_features=n_features, norm=norm)
