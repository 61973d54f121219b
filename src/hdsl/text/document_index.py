"""Documents as they are searched: as the model ranks them, and by the plain cosine."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..mixed_rows import MixedRows
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
        order = np.argsort(-self.learned, kind="stable")
        n_candidates = np.count_nonzero(self.learned > -np.inf)
        return order[: min(k, n_candidates)].tolist()

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


class DocumentIndex:
    """The rows of all documents, as the model ranks them and at unit length.

    Parameters
    ----------
    X : csr_array or MixedRows of shape (n_documents, n_features)
        Without class scores. An embedding is at unit length times the root of its
        weight.
    scored : Scored
    """

    def __init__(self, X: Any, scored: Scored) -> None:
        self._scored = scored
        self._learned = ranked_by(scored.ranking, scored.similarity)
        self._learned_rows = self._learned.index_rows(scored.rows(X))
        self._plain_rows = unit_rows(X)

    def compare(self, query: Any) -> Cosines:
        """Return the cosines of one row with all documents."""
        learned_query = self._learned.rewrite(self._scored.rows(query))
        return Cosines(
            learned=_products(self._learned_rows, learned_query),
            plain=_products(self._plain_rows, unit_rows(query)),
        )


def _products(rows: Any, query: Any) -> np.ndarray:
    """Return the dot product of each row with one query."""
    if isinstance(rows, MixedRows):
        of_embedding = (rows.dense @ query.dense[0]).astype(np.float64)
        return _products(rows.sparse, query.sparse) + of_embedding
    return (rows @ query.T).toarray().ravel()
