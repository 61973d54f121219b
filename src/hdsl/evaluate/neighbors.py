"""Errors of a vote of nearest neighbors, for one similarity or against the cosine."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..input.labels import check_one_label_per_row, check_same_labels
from ..labels import aligned, label_sets, overlap
from ..neighbors import SimilarityKNeighborsClassifier
from ..similarity.cosine import COSINE, PlainCosine, Rewriter, ranking_with
from .comparisons import checked_rows, compares_embeddings
from .errors import ErrorComparison


def knn_error(
    model: Rewriter | None,
    X: Any,
    y: Any,
    X_test: Any = None,
    y_test: Any = None,
    *,
    n_neighbors: int = 3,
    cosine: bool | None = None,
    n_jobs: int | None = None,
) -> float:
    """Return the error of nearest neighbors: the share of test rows whose vote is wrong.

    Parameters
    ----------
    model : HDSL, Similarity or None
        Fitted, or another object with ``rewrite(X)``; None is the plain cosine.
    X, X_test : array-like or sparse matrix of shape (n_rows or n_test, n_features)
        Without test rows, each row of X is tested with the other rows as its neighbors.
    y, y_test : array-like of shape (n_rows,), (n_test,)
        A test row whose label is not in `y` counts as wrong. With several labels per
        row, as in ``HDSL.fit``, the error is 1 - F1 of the row's labels and the labels
        that win the vote.
    n_neighbors : int, default=3
    cosine : bool or None, default=None
        Compare by the learned cosine. None follows ``ranking_`` of the model.
    n_jobs : int or None, default=None
        Number of threads. The result does not depend on it.

    Returns
    -------
    float

    Examples
    --------
    >>> X, X_test = np.eye(3), np.array([[2.0, 1, 0], [0, 1, 3]])
    >>> knn_error(None, X, ["a", "b", "b"], X_test, ["a", "a"], n_neighbors=1)
    0.5
    """
    is_cosine = ranking_with(model, cosine) == COSINE
    knn = SimilarityKNeighborsClassifier(
        n_neighbors, similarity=model, cosine=is_cosine, n_jobs=n_jobs
    ).fit(X, y)
    truth, which = _truth(y, X_test, y_test)
    return float(_errors(knn, X_test, truth, which).mean())


def _truth(y: Any, X_test: Any, y_test: Any) -> tuple[Any, str]:
    """Return the labels to predict, and what their names end with in messages."""
    if (X_test is None) != (y_test is None):
        raise ValueError("X_test and y_test go together: pass both or none.")
    if y_test is None:
        return y, ""
    return y_test, "_test"


def _errors(knn: Any, X_test: Any, y_test: Any, which: str) -> np.ndarray:
    """Return the error of each test row, from 0 to 1; X_test is None for the fitted rows."""
    if len(y_test) == 0:
        raise ValueError(f"X{which} has no rows: at least one is needed.")
    predicted = knn.predict(X_test)
    are_sets = isinstance(predicted, list)
    predicted_sets = label_sets(predicted, are_sets=are_sets)
    true_sets = label_sets(y_test, are_sets=are_sets)
    if predicted_sets is not None or true_sets is not None:
        return label_errors(predicted_sets, true_sets, which)
    y_test = np.ravel(y_test)
    check_one_label_per_row(y_test, len(predicted), which)
    return np.asarray(predicted != y_test)


def label_errors(predicted: Any, truth: Any, which: str = "_test") -> np.ndarray:
    """Return 1 - F1 of the labels that each row has, and of those that were predicted."""
    if predicted is None or truth is None:
        raise ValueError(
            "y and y_test must both have one label per row, or both several."
        )
    check_one_label_per_row(truth, len(predicted), which)
    predicted, truth = aligned(predicted, truth)
    return 1.0 - overlap(predicted.indicator, truth.indicator)


def compare_errors(
    model: Rewriter,
    X: Any,
    y: Any,
    X_test: Any = None,
    y_test: Any = None,
    *,
    n_neighbors: int = 3,
    cosine: bool | None = None,
    n_jobs: int | None = None,
) -> ErrorComparison:
    """Return the errors of nearest neighbors by cosine and as learned, and a verdict.

    Parameters
    ----------
    model : HDSL, Similarity
        Fitted, or another object with ``rewrite(X)``.
    X, X_test : array-like or sparse matrix of shape (n_rows or n_test, n_features)
        Neighbors of test rows are rows of X. Without test rows, each row of X is tested
        with the other rows as its neighbors. Training rows say little about new rows.
    y, y_test : array-like of shape (n_rows,), (n_test,)
        A test row whose label is not in `y` counts as wrong. With several labels per
        row, as in ``HDSL.fit``, the error is 1 - F1 of the row's labels and the labels
        that win the vote.
    n_neighbors : int, default=3
    cosine : bool or None, default=None
        Compare by the learned cosine. None follows ``ranking_`` of the model.
    n_jobs : int or None, default=None
        Number of threads. The result does not depend on it.

    Returns
    -------
    ErrorComparison

    Examples
    --------
    >>> from hdsl.similarity import FixedPart, Similarity
    >>> atom = np.array([[0, 1, -1]]), np.array([1.0])
    >>> learned = Similarity(*atom, 1.0, (FixedPart("prior", 0.0),), n_features=3)
    >>> X, y = np.array([[1.0, 0, 3], [0, 1, 1]]), ["a", "b"]
    >>> X_test, y_test = [[3.0, 2, 3], [2, 3, 9], [2, 3, 1]], ["a", "b", "b"]
    >>> errors = compare_errors(learned, X, y, X_test, y_test, n_neighbors=1)
    >>> print(errors.before, errors.after, sep=chr(10))
    33.3 % (6.1 to 79.2 %), 1 of 3
    0.0 % (0.0 to 56.1 %), 0 of 3
    >>> errors.verdict
    'no difference'
    """
    truth, which = _truth(y, X_test, y_test)
    if y_test is not None and label_sets(y_test) is None and label_sets(y) is None:
        check_same_labels(np.ravel(y_test), np.ravel(y), "y_test")

    if compares_embeddings(model):
        X = checked_rows(model, X)
        if X_test is not None:
            X_test = checked_rows(model, X_test)

    def errors(similarity: Rewriter | None, cosine: bool | None) -> np.ndarray:
        knn = SimilarityKNeighborsClassifier(
            n_neighbors, similarity=similarity, cosine=cosine, n_jobs=n_jobs
        )
        return _errors(knn.fit(X, y), X_test, truth, which)

    before = errors(PlainCosine(model), cosine=False)
    after = errors(model, cosine=cosine)
    return ErrorComparison.from_trials(before, after)
