"""Classification by the vote of the nearest neighbors under a similarity."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from .input.embeddings import check_rows
from .input.estimators import TakesSparse
from .input.labels import check_classes
from .input.matrices import as_user_sparse, check_names
from .input.parameters import check_device, check_number, check_word
from .labels import LabelSets, aligned, label_sets
from .neighbor_lists import Neighbors
from .rows import features_as_float64, has_embedding, unit_rows
from .search import Index
from .similarity.cosine import (
    COSINE,
    LearnedCosine,
    Rewriter,
    as_rewriter,
    ranking_with,
)
from .similarity.products import row_products

WEIGHTS = ("uniform", "similarity")
MODES = ("connectivity", "similarity", "distance")


# --- the vote -------------------------------------------------------------------------


def knn_votes(
    rows: np.ndarray,
    scores: np.ndarray,
    codes: np.ndarray,
    n_classes: int,
    weights: str = "uniform",
) -> np.ndarray:
    """Return the share of each class in the votes of the neighbors.

    Parameters
    ----------
    rows, scores : ndarray of shape (n_queries, k)
        Row numbers and similarities of the neighbors, nearest first, as `search.top_k`
        finds them.
    codes : ndarray of shape (n_rows,)
        Class numbers 0, 1, … of the rows.
    n_classes : int
    weights : {"uniform", "similarity"}, default="uniform"
        See `SimilarityKNeighborsClassifier`.

    Returns
    -------
    ndarray of shape (n_queries, n_classes)
        Non-negative, each row sums to 1.

    Examples
    --------
    >>> rows, scores = np.array([[2, 0, 1]]), np.array([[4.0, 1, 1]])
    >>> knn_votes(rows, scores, np.array([0, 0, 1]), 2, "similarity").round(2).tolist()
    [[0.33, 0.67]]
    """
    n_queries = len(rows)
    is_row = rows >= 0  # -1 stands for no row
    vote_weights = np.where(is_row, _vote_weights(scores, weights), 0.0)
    cells = np.arange(n_queries)[:, None] * n_classes + codes[rows]
    votes = np.bincount(cells.ravel(), vote_weights.ravel(), n_queries * n_classes)
    votes = votes.reshape(n_queries, n_classes)
    return votes / votes.sum(axis=1, keepdims=True)


def knn_predict(
    rows: np.ndarray,
    scores: np.ndarray,
    codes: np.ndarray,
    n_classes: int,
    weights: str = "uniform",
) -> np.ndarray:
    """Return the class number that wins the vote of the neighbors, shape (n_queries,).

    If classes have equal votes, the class of the nearest neighbor wins.

    Parameters
    ----------
    rows, scores, codes, n_classes, weights
        As in `knn_votes`.

    Returns
    -------
    ndarray of shape (n_queries,)

    Examples
    --------
    >>> rows, scores = np.array([[2, 0], [0, 2]]), np.array([[4.0, 1], [3, 2]])
    >>> knn_predict(rows, scores, np.array([0, 0, 1]), 2).tolist()
    [1, 0]
    """
    neighbor_codes = codes[rows]
    votes = knn_votes(rows, scores, codes, n_classes, weights)
    votes_of_neighbor = np.take_along_axis(votes, neighbor_codes, axis=1)
    votes_of_neighbor[rows < 0] = -1.0
    winner = votes_of_neighbor.argmax(axis=1)  # of equals the nearest, the first
    return neighbor_codes[np.arange(len(rows)), winner]


def _vote_weights(scores: np.ndarray, weights: str) -> np.ndarray:
    """Return the weight of each neighbor's vote: uniform if all of a query are 0."""
    if weights == "uniform":
        return np.ones_like(scores)
    positive = np.maximum(scores, 0.0)
    largest = positive.max(axis=1, keepdims=True)
    has_positive = largest > 0
    # Divided by the largest, so that sums of huge or tiny weights are ordinary numbers.
    shares = positive / np.where(has_positive, largest, 1.0)
    return np.where(has_positive, shares, 1.0)


# --- what rows are compared by --------------------------------------------------------


class _DotProduct:
    """The plain dot product of rows."""

    def rewrite(self, X: Any) -> Any:
        """Return the rows as they are."""
        return X

    def index_rows(self, X: Any) -> Any:
        """Return the rows as they are."""
        return X


class _Cosine:
    """The plain cosine of rows."""

    def rewrite(self, X: Any) -> Any:
        """Return the rows at unit length, in float64."""
        return unit_rows(features_as_float64(X))

    def index_rows(self, X: Any) -> Any:
        """Return the rows at unit length, in float64."""
        return unit_rows(features_as_float64(X))


def _plain_similarity(cosine: bool) -> Rewriter:
    """Return the cosine of rows or their dot product."""
    if cosine:
        return _Cosine()
    return _DotProduct()


class _Learned:
    """A learned similarity, computed in float64."""

    def __init__(self, similarity: Rewriter) -> None:
        self._similarity = similarity

    def rewrite(self, X: Any) -> Any:
        """Return the query side."""
        return self._similarity.rewrite(features_as_float64(X))

    def index_rows(self, X: Any) -> Any:
        """Return the other side."""
        return self._similarity.index_rows(features_as_float64(X))


class _FittedRows:
    """Rows among which neighbors are searched, by a similarity that stays the same.

    Parameters
    ----------
    X : ndarray or csr_array of shape (n_rows, n_features)
    similarity : Rewriter
        What rows are compared by, now and in each search.
    """

    def __init__(self, X: Any, similarity: Rewriter) -> None:
        self.X = X
        self._similarity = similarity
        self._index = Index(similarity.index_rows(X))  # a GPU keeps it between calls

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return self.X.shape[0]

    def top_k(self, X: Any, k: int, **options: Any) -> Neighbors:
        """Return the k nearest of the rows for each row of X, as ``Index.top_k`` does."""
        return self._index.top_k(self._similarity.rewrite(X), k, **options)

    def distances(self, X: Any, neighbors: Neighbors) -> np.ndarray:
        """Return sqrt(S(x, x) + S(y, y) - 2 S(x, y)) of each row of X and neighbor."""
        query_scores = self._scores_with_itself(X)[:, None]
        row_scores = self._scores_with_itself(self.X)[neighbors.rows]
        squares = query_scores + row_scores - 2.0 * neighbors.scores
        return np.sqrt(np.maximum(squares, 0.0))

    def _scores_with_itself(self, X: Any) -> np.ndarray:
        """Return S(x, x) of each row."""
        X = features_as_float64(X)
        queries = self._similarity.rewrite(X)
        return row_products(queries, self._similarity.index_rows(X))


# --- the classifier -------------------------------------------------------------------


class SimilarityKNeighborsClassifier(TakesSparse, ClassifierMixin, BaseEstimator):
    """Classifier that takes the vote of the k most similar rows.

    By default the similarity is the plain dot product. To use a learned similarity, put
    the classifier after `HDSL` in a pipeline or pass a fitted model as `similarity`.
    The search is exact, by blocks, and does not make sparse rows dense.

    Parameters
    ----------
    n_neighbors : int, default=3
    weights : {"uniform", "similarity"}, default="uniform"
        Weight of a neighbor's vote: 1, or its similarity, with negative ones set to 0.
        If all neighbors of a query have weight 0, they count the same.
    similarity : HDSL, Similarity or None, default=None
        A fitted similarity, or any object with ``rewrite(X)``, which returns rows whose
        dot products with the original rows are the similarity. None is the dot product.
        The classifier keeps the similarity that the model has when the classifier is
        fitted, even if the model is fitted again later. A clone of the classifier, as
        in a grid search, uses the same fitted model.
    cosine : bool or None, default=None
        Compare by S(x, y) / sqrt(S(x, x) S(y, y)), so that every row is most similar to
        itself. None follows ``ranking_`` of the model; without a model it is False. A
        change takes effect at the next fit.
    n_jobs : int or None, default=None
        Number of threads. Results do not depend on it.
    device : {"cpu", "cuda", "cuda:1", ...}, default="cpu"
        Device of the search, as in ``hdsl.search.top_k``. A GPU keeps the fitted rows
        from one call to the next, as an ``hdsl.search.Index`` does.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted; the numbers of the columns of an indicator matrix.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        If X has string column names.

    Notes
    -----
    Rows of equal similarity come in the order of their numbers. If classes have equal
    votes, the class of the nearest neighbor wins; `predict_proba` gives these classes
    equal shares. With several labels per row, labels with more than half of the votes
    are predicted.

    Examples
    --------
    >>> from hdsl import HDSL, Mining
    >>> X = np.array([[2.0, 0, 1], [1, 0, 2], [0, 2, 1], [0, 1, 2]])
    >>> y = ["a", "a", "b", "b"]
    >>> SimilarityKNeighborsClassifier(1).fit(X, y).predict([[0, 1, 0], [1, 0, 0]]).tolist()
    ['b', 'a']
    >>> mining = Mining(n_targets=1, n_impostors=1)
    >>> model = HDSL(scale=1.0, prior=0.0, mining=mining).fit(X, y)
    >>> knn = SimilarityKNeighborsClassifier(1, similarity=model, cosine=False).fit(X, y)
    >>> scores, rows = knn.kneighbors([[1, 0, 9]])
    >>> scores.round(2).tolist(), rows.tolist()
    ([[0.1]], [[0]])
    """

    _fitted_rows: _FittedRows
    _codes: np.ndarray | LabelSets

    def __init__(
        self,
        n_neighbors: int = 3,
        *,
        weights: str = "uniform",
        similarity: Rewriter | None = None,
        cosine: bool | None = None,
        n_jobs: int | None = None,
        device: str = "cpu",
    ) -> None:
        self.n_neighbors = n_neighbors
        self.weights = weights
        self.similarity = similarity
        self.cosine = cosine
        self.n_jobs = n_jobs
        self.device = device

    def __sklearn_clone__(self) -> SimilarityKNeighborsClassifier:
        """Return an unfitted classifier with the same similarity, if that is fitted.

        scikit-learn clones parameters that are estimators, and a clone is not fitted.
        """
        cloned: SimilarityKNeighborsClassifier = super().__sklearn_clone__()
        if hasattr(self.similarity, "similarity_"):
            cloned.similarity = self.similarity
        return cloned

    def fit(self, X: Any, y: Any) -> SimilarityKNeighborsClassifier:
        """Store the rows and their labels.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
            Not to be changed afterwards: no copy is made.
        y : array-like of shape (n_rows,)
            One label per row. Several labels per row are an array or a sparse matrix of
            shape (n_rows, n_labels) of 0 and 1, or a list of labels per row.

        Returns
        -------
        self
        """
        name = type(self).__name__
        check_number(name, "n_neighbors", self.n_neighbors, low=1, integer=True)
        check_word(name, "weights", self.weights, WEIGHTS)
        check_device(name, self.device)
        fitted = copy(self)  # self changes at the end, all at once
        if not has_embedding(X):
            check_names(self.similarity, X)
        X = check_rows(fitted, X, reset=True)
        fitted._fitted_rows = self._rows_to_search(X)
        sets = label_sets(y)
        if sets is None:
            y = check_classes(name, y, X.shape[0])
            fitted.classes_, fitted._codes = np.unique(y, return_inverse=True)
        else:
            fitted.classes_ = sets.check(X).classes
            fitted._codes = sets
        self.__dict__ = fitted.__dict__
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the class of each row of X, shape (n_queries,).

        None stands for the fitted rows, each classified by the others (leave one out).
        Several labels per row are returned in the form that `fit` got: an indicator
        matrix, or tuples.
        """
        scores, rows = self.kneighbors(X)
        if isinstance(self._codes, LabelSets):
            votes = self._codes.votes(rows, _vote_weights(scores, self.weights))
            return self._codes.voted(votes).as_given()
        codes = knn_predict(rows, scores, self._codes, len(self.classes_), self.weights)
        return self.classes_[codes]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the share of the votes of each class, shape (n_queries, n_classes).

        X as in `predict`. Among equal shares, that of the predicted class is larger by
        rounding, so that the predicted class always has the largest.
        """
        scores, rows = self.kneighbors(X)
        if isinstance(self._codes, LabelSets):
            weights = _vote_weights(scores, self.weights)
            return self._codes.votes(rows, weights).toarray()
        shares = knn_votes(rows, scores, self._codes, len(self.classes_), self.weights)
        predicted = knn_predict(
            rows, scores, self._codes, len(self.classes_), self.weights
        )
        is_largest = shares == shares.max(axis=1, keepdims=True)
        tied = np.flatnonzero(is_largest.sum(axis=1) > 1)
        winners = (tied, predicted[tied])
        shares[winners] = np.nextafter(shares[winners], 1.0)
        return shares

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of rows whose label, or all of whose labels, are predicted."""
        form = getattr(getattr(self, "_codes", None), "form", None)
        sets = label_sets(y, are_sets=form == "lists")
        if sets is None:
            return float(super().score(X, y, sample_weight))
        predicted = label_sets(self.predict(X), are_sets=True)
        if predicted is None:
            raise ValueError("y has several labels per row, but fit got one.")
        predicted, sets = aligned(predicted, sets.check(predicted.indicator))
        differences = abs(predicted.indicator - sets.indicator).sum(axis=1)
        is_right = np.asarray(differences).ravel() == 0
        return float(np.average(is_right, weights=sample_weight))

    def kneighbors(
        self,
        X: Any = None,
        n_neighbors: int | None = None,
        return_similarity: bool = True,
    ) -> Any:
        """Return the most similar of the fitted rows, the most similar first.

        scikit-learn's classifier returns distances, and
        ``kneighbors_graph(mode="distance")`` does too. But a longer row may be more
        similar and further away.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_queries, n_features), default=None
            None stands for the fitted rows; a row is then not its own neighbor.
        n_neighbors : int, default=None
            None is the number given to the constructor.
        return_similarity : bool, default=True

        Returns
        -------
        similarities : ndarray of shape (n_queries, n_neighbors)
            Only if `return_similarity` is True.
        rows : ndarray of shape (n_queries, n_neighbors)
            Numbers of the fitted rows.
        """
        neighbors, _ = self._search(X, n_neighbors)
        if return_similarity:
            return neighbors.scores, neighbors.rows
        return neighbors.rows

    def kneighbors_graph(
        self, X: Any = None, n_neighbors: int | None = None, mode: str = "connectivity"
    ) -> Any:
        """Return the neighbors as a sparse matrix: a precomputed graph.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_queries, n_features), default=None
            As in `kneighbors`.
        n_neighbors : int, default=None
            None is the number given to the constructor.
        mode : {"connectivity", "similarity", "distance"}, default="connectivity"
            Entries are 1, the similarity S(x, y), or the distance that it induces,
            sqrt(S(x, x) + S(y, y) - 2 S(x, y)). Distances are sorted per row, as
            scikit-learn expects of ``metric="precomputed"``. Neighbors are always the
            most similar rows, which are the closest rows if all rows have the same S(x,
            x).

        Returns
        -------
        CSR matrix of shape (n_queries, n_rows)
            `n_neighbors` stored entries per row, zeros included.
        """
        check_word("kneighbors_graph", "mode", mode, MODES)
        neighbors, queries = self._search(X, n_neighbors)
        values = neighbors.scores
        rows = neighbors.rows
        if mode == "connectivity":
            values = np.ones_like(values)
        elif mode == "distance":
            values = self._fitted_rows.distances(queries, neighbors)
            order = np.argsort(values, axis=1, kind="stable")
            values = np.take_along_axis(values, order, axis=1)
            rows = np.take_along_axis(rows, order, axis=1)
        indptr = np.arange(len(rows) + 1) * rows.shape[1]
        shape = (len(rows), self._fitted_rows.n_rows)
        graph = sp.csr_array((values.ravel(), rows.ravel(), indptr), shape=shape)
        return as_user_sparse(graph)

    def _search(self, X: Any, n_neighbors: int | None) -> tuple[Neighbors, Any]:
        """Return the neighbors of rows, or of the fitted rows, and those rows."""
        check_is_fitted(self, "classes_")
        k = n_neighbors
        if k is None:
            k = self.n_neighbors
        name = type(self).__name__
        check_number(name, "n_neighbors", k, low=1, integer=True)
        is_self = X is None
        n_rows = self._fitted_rows.n_rows
        limit = f"at most {n_rows}"
        if is_self:
            limit = f"at most {n_rows - 1} others"
        if k > n_rows - is_self:
            raise ValueError(
                f"n_neighbors = {k}, but {name} was fitted on n_samples = {n_rows}: "
                f"{limit} can be found. Lower n_neighbors or fit more rows."
            )
        if is_self:
            queries = self._fitted_rows.X
        else:
            queries = check_rows(self, X, reset=False)
        neighbors = self._fitted_rows.top_k(
            queries, k, exclude_self=is_self, n_jobs=self.n_jobs, device=self.device
        )
        return neighbors, queries

    def _rows_to_search(self, X: Any) -> _FittedRows:
        """Return the rows with their similarity; a wrong similarity raises."""
        similarity = self._compared_by(X.shape[1])
        try:
            similarity.rewrite(X)  # raises now what would raise in each search
            return _FittedRows(X, similarity)
        except NotFittedError as error:
            raise NotFittedError(
                f"The similarity of {type(self).__name__} is not fitted. Fit it first."
            ) from error

    def _compared_by(self, n_features: int) -> Rewriter:
        """Return the similarity of rows, as it is learned now."""
        if self.similarity is None:
            return _plain_similarity(bool(self.cosine))
        name = f"The 'similarity' parameter of {type(self).__name__}"
        similarity = as_rewriter(self.similarity, n_features, name)
        if ranking_with(self.similarity, self.cosine) == COSINE:
            similarity = LearnedCosine(similarity)
        return _Learned(similarity)
