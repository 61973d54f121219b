"""Counts of words as TF-IDF rows, and BM25 of them."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ..input.matrices import canonical
from ..similarity.cosine import PRODUCT


def are_counts(X: sp.csr_array) -> bool:
    """Return whether all values are whole numbers from 0, and not all of them 0 and 1.

    Examples
    --------
    >>> are_counts(sp.csr_array([[2.0, 0, 1]])), are_counts(sp.csr_array([[0.5, 0, 1]]))
    (True, False)
    """
    values = X.data
    if not len(values):
        return False
    are_whole = (values >= 0).all() and (values == values.round()).all()
    return bool(are_whole and values.max() > 1)


def inverse_frequencies(X: sp.csr_array) -> np.ndarray:
    """Return the weight of each feature: 1 + ln((1 + n) / (1 + n_f)).

    n_f of n rows have the feature.
    """
    n_rows_with = np.bincount(X.indices[X.data != 0], minlength=X.shape[1])
    return np.asarray(1 + np.log((1 + X.shape[0]) / (1 + n_rows_with)))


def weigh_counts(X: sp.csr_array, idf: np.ndarray) -> sp.csr_array:
    """Return counts c as TF-IDF: (1 + ln c) times the weight of the feature.

    Examples
    --------
    >>> counts = sp.csr_array([[1.0, 0, 1]])
    >>> weigh_counts(counts, idf=np.array([1.0, 1.5, 2.0])).toarray().tolist()
    [[1.0, 0.0, 2.0]]
    """
    X = canonical(X).astype(np.float64)
    if not ((X.data > 0) & (X.data == X.data.round())).all():
        raise ValueError(
            "TF-IDF needs counts, whole numbers from 0, but there are other values."
        )
    X.data = (1 + np.log(X.data)) * idf[X.indices]
    return X


class BM25:
    """BM25 of counts: a similarity of queries and documents, as full-text engines score.

    The score of a document with n_t of term t for a query with q_t of it is

        Σ q_t · idf_t · (k1 + 1) n_t / (n_t + k1 (1 - b + b · length / average length)),
        idf_t = log(1 + (N - N_t + 1/2) / (N_t + 1/2)),

    N_t of N documents have the term. Searches and their measures take it as they take a
    learned similarity, for rows of counts: ``compare_searches(bm25, Q, D, relevant)``.

    Parameters
    ----------
    idf : ndarray of shape (n_features,)
    average_length : float
        Mean number of terms of a document.
    k1 : float, default=1.2
        How slowly repeated terms saturate. 0 ignores the counts.
    b : float, default=0.75
        How much long documents are penalised, from 0 to 1.

    Examples
    --------
    >>> counts = sp.csr_array([[2.0, 1, 0], [0, 1, 1]])
    >>> bm25 = BM25.of(counts)
    >>> scores = bm25.rewrite(counts[[1]]) @ bm25.index_rows(counts).T
    >>> scores.toarray().round(2).tolist()
    [[0.17, 0.95]]
    """

    #: How documents are ranked: by the score as it is.
    ranking = PRODUCT

    def __init__(
        self,
        idf: np.ndarray,
        average_length: float,
        *,
        k1: float = 1.2,
        b: float = 0.75,
    ) -> None:
        self.idf = idf
        self.average_length = average_length
        self.k1 = k1
        self.b = b

    @classmethod
    def of(cls, counts: sp.csr_array, *, k1: float = 1.2, b: float = 0.75) -> BM25:
        """Return the BM25 of documents, by the counts of their terms."""
        n = counts.shape[0]
        n_with = np.bincount(counts.indices, minlength=counts.shape[1])
        idf = np.log1p((n - n_with + 0.5) / (n_with + 0.5))
        average_length = float(counts.sum(dtype=np.float64)) / max(n, 1)
        return cls(idf, average_length, k1=k1, b=b)

    def rewrite(self, X: sp.csr_array) -> sp.csr_array:
        """Return the query side: counts times the weights of terms."""
        return scale_columns(X, self.idf)

    def index_rows(
        self, X: sp.csr_array, lengths: np.ndarray | None = None
    ) -> sp.csr_array:
        """Return the other side: saturated counts; `lengths` are those of documents."""
        counts = canonical(sp.csr_array(X)).astype(np.float64)
        if lengths is None:
            lengths = np.asarray(counts.sum(axis=1)).ravel()
        # Documents without terms, in training too, have no weight to penalise.
        relative = np.ones_like(lengths)
        if self.average_length:
            relative = lengths / self.average_length
        penalties = self.k1 * (1.0 - self.b + self.b * relative)
        row = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
        counts.data *= (self.k1 + 1.0) / (counts.data + penalties[row])
        return counts

    def weigh(self, X: sp.csr_array) -> sp.csr_array:
        """Return documents as rows: saturated counts times the root of the weights.

        Their dot product with counts of a query times the same root is BM25.
        """
        return scale_columns(self.index_rows(X), np.sqrt(self.idf))


def scale_columns(X: sp.csr_array, weights: np.ndarray) -> sp.csr_array:
    """Return rows with each column times its weight."""
    rows = canonical(sp.csr_array(X)).astype(np.float64)
    rows.data *= weights[rows.indices]
    return rows
