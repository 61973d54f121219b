"""Scores of classes beside rows.

Nothing needs scikit-learn: a search loads this for models with class scores.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from ..files.container import Arrays, check_columns, get_array, get_value
from ..input.parameters import check_number
from ..model_arrays import names_from_arrays
from ..rows import Rows, sparse_block, unit_rows
from ..wide_matrices import take_columns
from .linear import LinearScorer
from .words import N_WORDS, both_classes, words_behind

#: How steeply a score v is squashed, 1 / (1 + e^(-3v)): about 0.05 and 0.95 at the
#: margins of -1 and 1 that a linear support vector machine asks for.
STEEPNESS = 3.0

#: The score of a row that a linear classifier gives 0: as likely of the class as not.
EVEN_SCORE = 0.25

#: Scores below are 0, at unit length: a column with a value in every row takes time for
#: nothing.
SMALLEST = 0.01


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
