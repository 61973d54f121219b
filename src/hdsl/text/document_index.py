"""Documents as they are searched: by the learned cosine and by the plain one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from ..similarity.cosine import LearnedCosine
from ..similarity.rows import unit_rows
from .scored import Scored


class Cosines(NamedTuple):
    """The cosines of one query with all documents, shape (n_documents,) each."""

    learned: np.ndarray
    plain: np.ndarray

    def leave_out(self, row: int) -> None:
        """Put a document behind all others."""
        self.learned[row] = -np.inf
        self.plain[row] = -np.inf

    def nearest(self, k: int) -> list[int]:
        """Return the k rows of largest learned cosine; of equals the first."""
        return _largest(self.learned, k)

    def nearest_by_cosine(self, k: int) -> list[int]:
        """Return the k rows of largest plain cosine; of equals the first."""
        return _largest(self.plain, k)

    def nearest_by_plain(self) -> int | None:
        """Return the row of largest plain cosine, None where no cosine is positive."""
        row = int(np.argmax(self.plain))
        if self.plain[row] > 0.0:
            return row
        return None

    def ranks(self, row: int) -> tuple[int, int]:
        """Return the rank of a row by the learned and by the plain cosine, from 1."""
        n_before = int((self.learned > self.learned[row]).sum())
        n_before_by_plain = int((self.plain > self.plain[row]).sum())
        return n_before + 1, n_before_by_plain + 1


def _largest(values: np.ndarray, k: int) -> list[int]:
    """Return the places of the k largest values, without those of minus infinity."""
    n_candidates = int(np.count_nonzero(values > -np.inf))
    k = min(k, n_candidates)
    if k == 0:
        return []
    least = np.partition(values, len(values) - k)[len(values) - k]
    candidates = np.flatnonzero(values >= least)
    order = np.argsort(-values[candidates], kind="stable")
    return candidates[order[:k]].tolist()


class DocumentIndex:
    """The columns of all documents, at unit length by the learned and the plain cosine.

    A search reads the columns of the query's features alone.

    Parameters
    ----------
    X : csr_array of shape (n_documents, n_features)
        Without class scores.
    scored : Scored
    """

    def __init__(self, X: sp.csr_array, scored: Scored) -> None:
        self._scored = scored
        self._learned = LearnedCosine(scored.similarity)
        learned_rows = self._learned.index_rows(scored.rows(X))
        self._learned_columns = sp.csc_array(learned_rows)
        self._plain_columns = sp.csc_array(unit_rows(X))

    def compare(self, query: sp.csr_array) -> Cosines:
        """Return the cosines of one row with all documents."""
        learned_query = self._learned.rewrite(self._scored.rows(query))
        return Cosines(
            learned=_products(self._learned_columns, learned_query),
            plain=_products(self._plain_columns, unit_rows(query)),
        )


def _products(columns: sp.csc_array, query: sp.csr_array) -> np.ndarray:
    """Return the dot product of each row with one query, column by column of the query."""
    products = np.zeros(columns.shape[0])
    query = sp.csr_array(query)
    query.sort_indices()
    for feature, weight in zip(query.indices, query.data, strict=True):
        entries = slice(columns.indptr[feature], columns.indptr[feature + 1])
        products[columns.indices[entries]] += weight * columns.data[entries]
    return products
