"""Input as the bounds take it: numbers or arrays of numbers, and sparse rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from hdsl.input.matrices import check_matrix
from hdsl.input.parameters import check_number


def check_counts(
    owner: str, name: str, values: Any, *, low: int, high: int | None = None
) -> Any:
    """Return one or many whole numbers as an array, each of them checked."""
    for value in np.ravel(values).tolist():
        check_number(owner, name, value, low=low, high=high, integer=True)
    return np.asarray(values)


def check_rows(
    X: Any, model: BaseEstimator | None = None, name: str = "X"
) -> sp.csr_array:
    """Return rows as a sparse array of float64, with the features of a model."""
    if model is None:
        X = check_matrix(BaseEstimator(), X, reset=True, name=name)
    else:
        X = check_matrix(model, X, reset=False, name=name)
    return sp.csr_array(X, dtype=np.float64)


def as_number(values: Any) -> Any:
    """Return a single number as a float, an array as it is."""
    if np.ndim(values) == 0:
        return float(values)
    return values


def row_sums(X: sp.csr_array) -> np.ndarray:
    """Return the sum of each row, shape (n_rows,)."""
    return np.asarray(X.sum(axis=1)).ravel()
