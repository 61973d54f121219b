"""Scores of classes beside rows.

Nothing needs scikit-learn: a search loads this for models with class scores.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..explain import Explanation
from ..explain.parts import MEANING
from ..files.container import (
    Arrays,
    check_columns,
    get_array,
    get_value,
    pack_values,
    unpack_values,
)
from ..input.parameters import check_number
from ..labels import LabelSets
from ..model_arrays import names_from_arrays
from ..rows import Rows, sparse_block, unit_rows
from ..wide_matrices import take_columns

#: How steeply a score v is squashed, 1 / (1 + e^(-3v)): about 0.05 and 0.95 at the
#: margins of -1 and 1 that a linear support vector machine asks for.
STEEPNESS = 3.0


#: The score of a row that a linear classifier gives 0: as likely of the class as not.
EVEN_SCORE = 0.25


#: Scores below are 0, at unit length: a column with a value in every row takes time for
#: nothing.
SMALLEST = 0.01


#: Words that stand for a score of a row.
N_WORDS = 3


#: What stands for an embedding among the numbers of words.
EMBEDDING = -1


#: The score of a label that all rows have; squashed, it is 1 to nine digits.
CERTAIN = 10.0


class Scores:
    """Rows at unit length with class scores beside them, as `ClassScores` learns them.

    Attributes are those of `ClassScores`.
    """

    classifier_: Any
    classes_: np.ndarray
    weight_: float
    n_scores: int | None
    columns_: Any
    is_wide_: bool
    n_features_in_: int
    embedding_width_: int

    def transform(self, X: Any) -> Any:
        """Return the rows with scores by the classifier.

        Scores of mixed rows stand beside the features, before the embedding.
        """
        features = sparse_block(X)
        rows = unit_rows(features, self.columns_)
        scores = squashed_scores(self.classifier_, self._seen(X, rows), self.classes_)
        scored = self._join(rows, scores)
        if isinstance(X, Rows):
            return Rows(scored, X.dense)
        return scored

    def _seen(self, X: Any, rows: Any) -> Any:
        """Return what the classifier sees of X, whose features at unit length are `rows`."""
        seen = rows
        if self.is_wide_:
            seen = take_columns(rows, self.columns_)
        if not self.embedding_width_:
            return seen
        if not isinstance(X, Rows) or X.dense.shape[1] != self.embedding_width_:
            raise ValueError(
                "The class scores were learned with an embedding of "
                f"{self.embedding_width_} columns: pass hdsl.Rows(features, "
                "embedding) with as many."
            )
        return Rows(seen, unit_rows(X.dense))

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
        X : array-like, sparse matrix, Rows, or tuple (features, embedding)
        n_words : int, default=3
            Most features per score.

        Returns
        -------
        list of dict of int to list of int, one per row
            For each class with a score, by its place in ``classes_``, the columns of X
            that add to it, the largest first; -1 is the embedding.

        Raises
        ------
        ValueError
            The classifier is not linear.
        """
        coef = both_classes(LinearScorer.from_classifier(self.classifier_).coef_)
        n_seen = coef.shape[1] - self.embedding_width_
        columns = None
        if self.is_wide_:
            columns = self.columns_
        scored = self.transform(X)
        embedding_parts = None
        if self.embedding_width_:
            embedding_parts = unit_rows(scored.dense) @ coef[:, n_seen:].T
        scored = sparse_block(scored)
        return words_behind(
            scored,
            coef[:, :n_seen],
            self.n_features_in_,
            columns,
            n_words,
            embedding_parts,
        )

    def restore(self, arrays: Arrays, header: dict[str, Any]) -> Scores:
        """Take what ``ClassScores.to_arrays`` returned; ValueError if it is damaged."""
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
        self.embedding_width_ = 0
        if "embedding_width" in header:
            self.embedding_width_ = get_value(header, "embedding_width", int)
        n_seen = scorer.coef_.shape[1] - self.embedding_width_
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
    X : ndarray, sparse array or Rows of shape (n_rows, n_features)
    classes : ndarray of shape (n_classes,)
        Sorted. A class that the classifier does not know has score 0.

    Returns
    -------
    ndarray of shape (n_rows, n_classes)
    """
    known = classifier.classes_
    if isinstance(X, Rows) and not isinstance(classifier, LinearScorer):
        X = one_matrix(X)
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


def one_matrix(X: Any) -> Any:
    """Return rows for a classifier: of mixed rows all columns in one sparse matrix."""
    if isinstance(X, Rows):
        return X.to_sparse()
    return X


def largest_scores(scores: np.ndarray, n_scores: int | None) -> np.ndarray:
    """Return the largest scores of each row, at unit length; the others are 0.

    Examples
    --------
    >>> largest_scores(np.array([[0.9, 0.001, 0.8, 0.7]]), 2).round(2).tolist()
    [[0.75, 0.0, 0.66, 0.0]]
    """
    if n_scores is not None and n_scores < scores.shape[1]:
        scores = scores.copy()
        small = np.argsort(-scores, axis=1, kind="stable")[:, n_scores:]
        np.put_along_axis(scores, small, 0.0, axis=1)
    scores = unit_rows(scores)
    return np.where(scores < SMALLEST, 0.0, scores)


# --- words behind the scores ---------------------------------------------------------


def words_behind(
    rows: Any,
    coef: np.ndarray,
    n_features: int,
    columns: np.ndarray | None = None,
    n_words: int = N_WORDS,
    embedding_parts: np.ndarray | None = None,
) -> list[dict[int, list[int]]]:
    """Return the features that add most to the scores of each row.

    Parameters
    ----------
    rows : sparse array of shape (n_rows, n_features + n_classes)
        Features, then scores.
    coef : ndarray of shape (n_classes, n_seen)
        Weights of features in the scores before they are squashed.
    n_features : int
    columns : ndarray of shape (n_seen,), default=None
        The features that the weights belong to, sorted; None is all.
    n_words : int, default=3
        Most features per score.
    embedding_parts : ndarray of shape (n_rows, n_classes), default=None
        What the embedding of each row adds to each score before it is squashed.

    Returns
    -------
    list of dict of int to list of int, one per row
        For each class with a score the features that add to it, the largest first;
        `EMBEDDING` is the embedding.
    """
    Z = sp.csr_array(rows)
    words = []
    for row, (begin, end) in enumerate(pairwise(Z.indptr.tolist())):
        features = Z.indices[begin:end]
        values = Z.data[begin:end]
        classes = features[features >= n_features] - n_features
        if columns is None:
            is_seen = features < n_features
            places = features[is_seen]
        else:
            is_seen = np.isin(features, columns)
            places = np.searchsorted(columns, features[is_seen])
        parts = coef[np.ix_(classes, places)] * values[is_seen]
        numbers = features[is_seen]
        if embedding_parts is not None:
            parts = np.column_stack([parts, embedding_parts[row, classes]])
            numbers = np.append(numbers, EMBEDDING)
        row_words = {
            label: _largest_positive(numbers, label_parts, n_words)
            for label, label_parts in zip(classes.tolist(), parts, strict=True)
        }
        words.append(row_words)
    return words


def both_classes(coef: np.ndarray) -> np.ndarray:
    """Return one line of weights per class: two classes have one for the second alone."""
    if len(coef) == 1:
        return np.vstack([-coef, coef])
    return coef


def word_name(number: int, name_of: Callable[[int], str]) -> str:
    """Return the name of a word, or of the embedding."""
    if number == EMBEDDING:
        return MEANING
    return name_of(number)


def _largest_positive(
    features: np.ndarray, parts: np.ndarray, n_words: int
) -> list[int]:
    """Return the features with the largest positive parts, the largest first."""
    largest = np.argsort(-parts, kind="stable")[:n_words]
    return [int(features[k]) for k in largest if parts[k] > 0]


def with_words(
    explanation: Explanation, scores: Any, rows: Mapping[str, Any], names: Any
) -> Explanation:
    """Return an explanation that names the words behind the scores of classes.

    Parameters
    ----------
    explanation : Explanation
    scores : object
        With ``words(X)``, which returns what `words_behind` does or raises ValueError,
        and ``n_features_in_``.
    rows : dict of str to sparse array or Rows of shape (1, n_features)
        The rows of the explanation, without scores, by their names in it.
    names : array of str
    """
    words: dict[int, dict[str, list[str]]] = {}
    for row_name, row in rows.items():
        try:
            row_words = scores.words(row)[0]
        except ValueError:  # not linear
            return explanation
        for label, columns in row_words.items():
            label_words = words.setdefault(scores.n_features_in_ + label, {})
            label_words[row_name] = [
                word_name(column, lambda number: str(names[number]))
                for column in columns
            ]
    return replace(explanation, words=words)


# --- linear classifiers without their code -------------------------------------------


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
