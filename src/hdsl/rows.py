"""Rows at unit length, what to say where their lengths differ, and rows rounded to float32."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy.sparse as sp

from .similarity import unit_rows

if TYPE_CHECKING:
    from .hdsl import HDSL

#: Rows differ in length if the 95th percentile is this many times the 5th.
SPREAD = 3.0

#: Sizes of numbers that float32 holds with 24 bits.
SMALLEST, LARGEST = (float(limit) for limit in (np.finfo("f4").tiny, np.finfo("f4").max))


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


def stored_rows(X: sp.csr_array, storage: str) -> sp.csr_array:
    """Return rows with their values as `storage` has them, as float64.

    ValueError is raised for values that float32 does not hold with its full precision: a bound on
    what rounding does would be void.
    """
    if storage == "float64":
        return X
    size = np.abs(X.data)
    kept = (size >= SMALLEST) & (size <= LARGEST)
    if not kept.all():
        raise ValueError(
            f"storage='float32' holds sizes from {SMALLEST:.3g} to {LARGEST:.3g}, but a value to "
            f"learn from is {X.data[np.argmin(kept)]:.3g}. Scale X, or set storage='float64'."
        )
    rounded = X.data.astype(np.float32).astype(np.float64)
    return sp.csr_array((rounded, X.indices, X.indptr), shape=X.shape)


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
