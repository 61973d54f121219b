"""Documents that an engine holds: their rows by id, and their lengths."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp

from .rows import as_sparse


class Documents:
    """Rows that are nowhere negative, by id, and their lengths.

    Parameters
    ----------
    rows : array-like or sparse matrix of shape (n_documents, n_features), or callable
        As `certified_top_k` takes them.
    lengths : array-like of shape (n_documents,), mapping of ids, or None
    n_features : int
        Of the queries.

    Attributes
    ----------
    X : csr_array of shape (n_documents, n_features) or None
        All rows; None where they are fetched.
    shortest : float
        The least length, 1 without lengths.
    """

    def __init__(self, rows: Any, lengths: Any, n_features: int) -> None:
        self.n_features = n_features
        self.X: sp.csr_array | None = None
        self._fetch = None
        if callable(rows):
            self._fetch = rows
        else:
            self.X = self._checked(rows, "rows")
        self._lengths = lengths
        self.shortest = 1.0
        if lengths is not None:
            values = self._checked_lengths(lengths)
            self.shortest = float(values.min(initial=np.inf))
            if not isinstance(lengths, Mapping):
                self._lengths = values

    @property
    def are_numbered(self) -> bool:
        """Whether ids are row numbers."""
        return self.X is not None

    @property
    def n(self) -> int | None:
        """The number of documents, None where it is not known."""
        if self.X is not None:
            return self.X.shape[0]
        if self._lengths is not None:
            return len(self._lengths)
        return None

    def _checked(self, rows: Any, name: str) -> sp.csr_array:
        """Return rows in float64; raise ValueError if a value is negative."""
        X = as_sparse(rows, name).astype(np.float64, copy=False)
        if X.shape[1] != self.n_features:
            raise ValueError(
                f"queries has {self.n_features} features and {name} has {X.shape[1]}: "
                "they must be the same features, in the same order."
            )
        if X.nnz and X.data.min() < 0:
            entry = int(X.data.argmin())
            row = int(np.searchsorted(X.indptr, entry, side="right")) - 1
            raise ValueError(
                f"{name}[{row}, {X.indices[entry]}] is {X.data[entry]:.3g}: documents "
                "must be nowhere negative, or the positive part of a query is no upper "
                "bound. Use an engine that takes negative weights."
            )
        return X

    def _checked_lengths(self, lengths: Any) -> np.ndarray:
        """Return the lengths as a vector; raise ValueError unless all are positive."""
        if isinstance(lengths, Mapping):
            lengths = list(lengths.values())
        values = np.asarray(lengths, dtype=np.float64)
        expected = values.shape[:1]
        if self.X is not None:
            expected = self.X.shape[:1]
        are_positive = np.isfinite(values) & (values > 0)
        if values.shape != expected or not are_positive.all():
            raise ValueError(
                "lengths must be positive finite numbers, one per document, as "
                f"model.lengths(Y) returns them. Got shape {values.shape}, and "
                f"{expected} is expected."
            )
        return values

    def rows_of(self, ids: list[Any]) -> sp.csr_array:
        """Return the rows of some ids."""
        if not ids:
            return sp.csr_array((0, self.n_features))
        if self.X is not None:
            _check_row_numbers(ids, self.X.shape[0])
            return self.X[np.array(ids, dtype=np.int64)]
        assert self._fetch is not None
        try:
            rows = self._fetch(ids)
        except LookupError as error:
            raise ValueError(
                f"search returned an id that rows(ids) does not know ({error!r}): the "
                "engine holds other documents."
            ) from error
        X = self._checked(rows, "rows(ids)")
        if X.shape[0] != len(ids):
            raise ValueError(
                f"rows(ids) returned {X.shape[0]} rows for {len(ids)} ids: one row per "
                "id, in their order, is expected."
            )
        return X

    def lengths_of(self, ids: list[Any]) -> np.ndarray:
        """Return the lengths of some ids; 1 without lengths."""
        if self._lengths is None:
            return np.ones(len(ids))
        try:
            return np.array([self._lengths[item] for item in ids], dtype=np.float64)
        except LookupError as error:
            raise ValueError(
                "lengths has no number for a document that search returned "
                f"({error!r})."
            ) from error


def _check_row_numbers(ids: list[Any], n_rows: int) -> None:
    """Raise ValueError unless all ids are row numbers."""
    for item in ids:
        is_number = isinstance(item, int | np.integer) and not isinstance(item, bool)
        if not is_number or not 0 <= item < n_rows:
            raise ValueError(
                f"search returned the id {item!r}, but rows has the rows 0 to "
                f"{n_rows - 1}: return row numbers, or pass a function rows(ids)."
            )
