"""BM25 weights as rows: what full-text engines score by."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from .. import memory
from ..input.errors import ParameterError
from ..input.estimators import TakesSparse
from ..input.matrices import as_user_sparse, canonical, check_matrix
from ..input.parameters import check_number, check_word
from ..text.counts import BM25

LENGTHS = ("exact", "lucene")

#: Lengths below are exact in Lucene's byte. Above, a byte has 4 significant bits.
EXACT_BELOW = 40


class BM25Transformer(
    TakesSparse, OneToOneFeatureMixin, TransformerMixin, BaseEstimator
):
    """Counts of terms to BM25 weights, whose sums are the scores of full-text engines.

    The score of a document for a query of terms t with boosts q_t is Σ q_t y_t, where

        y_t = idf_t · (k1 + 1) n_t / (n_t + k1 (1 - b + b · length / average length)),
        idf_t = log(1 + (N - N_t + 1/2) / (N_t + 1/2)),

    n_t counts the term in the document, and N_t of N documents have it. So a similarity
    learned on these rows with ``norm=None`` turns a query into boosts,
    ``model.rewrite(Q)``, and the index stays as it is.

    Parameters
    ----------
    k1 : float, default=1.2
        Saturation of repeated terms: larger is slower. 0 ignores the counts.
    b : float, default=0.75
        Penalty for long documents, from 0 to 1.
    lengths : {"exact", "lucene"}, default="exact"
        "lucene" rounds lengths down to a byte, as Lucene, Elasticsearch, OpenSearch and
        tantivy store them: exact below 40, then 4 significant bits.

    Attributes
    ----------
    idf_ : ndarray of shape (n_features,)
    average_length_ : float
        Mean number of terms of the fitted documents, not rounded.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        If X has string column names.

    Notes
    -----
    Lucene leaves out the factor k1 + 1 since version 8. This does not change ranks.
    Engines update N and the average length when documents are added or deleted: fit on
    the documents in the engine.

    Examples
    --------
    >>> counts = np.array([[2, 1, 0], [0, 1, 1]])
    >>> BM25Transformer().fit_transform(counts).round(2).tolist()
    [[0.9, 0.17, 0.0], [0.0, 0.2, 0.75]]
    """

    needs_y = False

    def __init__(
        self, k1: float = 1.2, b: float = 0.75, lengths: str = "exact"
    ) -> None:
        self.k1 = k1
        self.b = b
        self.lengths = lengths

    def fit(self, X: Any, y: Any = None) -> BM25Transformer:
        """Count documents and terms.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_documents, n_features)
            Counts of terms, at least 0.
        y : ignored

        Returns
        -------
        self
        """
        name = type(self).__name__
        check_number(name, "k1", self.k1, low=0)
        check_number(name, "b", self.b, low=0)
        if self.b > 1:
            raise ParameterError(name, "b", "a float in [0, 1]", repr(self.b))
        check_word(name, "lengths", self.lengths, LENGTHS)
        fitted = copy(self)  # self changes at the end, all at once
        X = self._counts(check_matrix(fitted, X, reset=True))
        memory.check_fits(
            f"One number per column of {X.shape[1]}, {name}",
            24 * X.shape[1],
            "auto",
            ("leave out columns without counts",),
        )
        bm25 = BM25.of(X)
        fitted.idf_ = bm25.idf
        fitted.average_length_ = bm25.average_length
        self.__dict__ = fitted.__dict__
        return self

    def transform(self, X: Any) -> Any:
        """Return BM25 weights.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_documents, n_features)
            Counts of terms, at least 0.

        Returns
        -------
        array or sparse matrix, as X, of shape (n_documents, n_features)
        """
        check_is_fitted(self, "idf_")
        rows = check_matrix(self, X, reset=False)
        counts = self._counts(rows)
        lengths = np.asarray(counts.sum(axis=1, dtype=np.float64)).ravel()
        if self.lengths == "lucene":
            lengths = _lucene_lengths(lengths)
        bm25 = BM25(self.idf_, self.average_length_, k1=self.k1, b=self.b)
        Z = bm25.rewrite(bm25.index_rows(counts, lengths)).astype(rows.dtype)
        if sp.issparse(rows):
            return as_user_sparse(Z)
        return Z.toarray()

    def _counts(self, X: Any) -> sp.csr_array:
        """Return X as sparse counts; raise ValueError if one is negative."""
        counts = canonical(sp.csr_array(X))
        if counts.nnz and counts.data.min() < 0:
            raise ValueError(
                f"Negative values in data passed to {type(self).__name__}: X must hold "
                "counts of terms, as CountVectorizer makes them."
            )
        return counts

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        return tags


def _lucene_lengths(lengths: np.ndarray) -> np.ndarray:
    """Return lengths as Lucene's byte stores them, rounded down.

    From 40 on, a length is 24 plus a number of 4 significant bits.
    """
    whole = np.floor(lengths)
    above = np.maximum(whole - 24.0, 1.0)
    step = np.exp2(np.floor(np.log2(above)) - 3.0)
    rounded = 24.0 + np.floor(above / step) * step
    return np.where(lengths < EXACT_BELOW, whole, rounded)
