"""Documents as they are searched: as the model ranks them, and by the plain cosine."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..rows import Rows, sparse_block
from ..similarity.cosine import ranked_by
from ..similarity.rows import unit_rows
from .scored import Scored


class Cosines(NamedTuple):
    """How similar one query is to all documents, shape (n_documents,) each.

    `learned` is the learned cosine, or S where the model ranks by it.
    """

    learned: np.ndarray
    plain: np.ndarray

    def leave_out(self, row: int) -> None:
        """Put a document behind all others."""
        self.learned[row] = -np.inf
        self.plain[row] = -np.inf

    def nearest(self, k: int) -> list[int]:
        """Return the k rows that are most similar as learned; of equals the first."""
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
        """Return the rank of a row as learned and by the plain cosine, from 1."""
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
    """The columns of all documents, as the model ranks them and at unit length.

    A search reads the columns of the query's features alone, and multiplies by all
    embeddings.

    Parameters
    ----------
    X : csr_array or Rows of shape (n_documents, n_features)
        Without class scores. An embedding is at unit length times the root of its
        weight.
    scored : Scored
    """

    def __init__(self, X: Any, scored: Scored) -> None:
        self._scored = scored
        self._learned = ranked_by(scored.ranking, scored.similarity)
        self._learned_columns = _Columns(self._learned.index_rows(scored.rows(X)))
        self._plain_columns = _Columns(unit_rows(X))

    def compare(self, query: Any) -> Cosines:
        """Return the cosines of one row with all documents."""
        learned_query = self._learned.rewrite(self._scored.rows(query))
        return Cosines(
            learned=self._learned_columns.products(learned_query),
            plain=self._plain_columns.products(unit_rows(query)),
        )


class _Columns:
    """Rows by the columns of their features, and an embedding beside them as it is."""

    def __init__(self, rows: Any) -> None:
        self.features = sp.csc_array(sparse_block(rows))
        self.embedding = rows.dense if isinstance(rows, Rows) else None

    def products(self, query: Any) -> np.ndarray:
        """Return the dot product of each row with one query, column by column."""
        products = np.zeros(self.features.shape[0])
        features = sp.csr_array(sparse_block(query))
        features.sort_indices()
        indptr = self.features.indptr
        for feature, weight in zip(features.indices, features.data, strict=True):
            entries = slice(indptr[feature], indptr[feature + 1])
            rows = self.features.indices[entries]
            products[rows] += weight * self.features.data[entries]
        if self.embedding is not None:
            products += (self.embedding @ query.dense[0]).astype(np.float64)
        return products
