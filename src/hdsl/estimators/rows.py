"""Rows at unit length, and what to say where their lengths differ."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..similarity import unit_rows

if TYPE_CHECKING:
    from .hdsl import HDSL

#: Rows differ in length if the 95th percentile is this many times the 5th.
SPREAD = 3.0


class RowNorm(NamedTuple):
    """How rows are normalised: at unit length over the columns that training has, or not at all."""

    norm: str | None
    columns: np.ndarray | None

    @classmethod
    def of(cls, model: HDSL, X: sp.csr_array, *, continues: bool) -> RowNorm:
        """Return the norm of a model that learns from X, or continues with it.

        A warning says so where rows of very different length are compared as they are.
        """
        if model.norm is None:
            warn_of_lengths(np.asarray(X.multiply(X).sum(axis=1)).ravel())
            return cls(None, None)
        return cls.of_columns(model, X.indices, X.shape[1], continues=continues)

    @classmethod
    def of_columns(
        cls, model: HDSL, columns: np.ndarray, n_columns: int, *, continues: bool
    ) -> RowNorm:
        """Return the norm of a model that learns from rows with values in these columns."""
        columns = np.unique(columns).astype(np.int64)
        if continues:
            if model.columns_ is None:
                return cls(model.norm, None)
            columns = np.union1d(columns, model.columns_)
        return cls(model.norm, None if len(columns) == n_columns else columns)

    def apply(self, X: sp.csr_array) -> sp.csr_array:
        """Return the rows as they are compared."""
        return X if self.norm is None else unit_rows(X, self.columns)


def warn_of_lengths(squares: np.ndarray) -> None:
    """Warn of rows of very different length, from ‖x‖² of each."""
    low, high = np.sqrt(np.percentile(squares[squares > 0], [5, 95]))
    if high > SPREAD * low:
        warnings.warn(
            f"Rows differ in length: 5 % are shorter than {low:.3g} and 5 % longer than "
            f"{high:.3g}. Long rows then look similar to everything: use norm='l2', or scale X.",
            UserWarning,
            stacklevel=5,
        )
