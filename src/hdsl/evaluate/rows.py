"""Rows that a model is evaluated on."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from ..input.matrices import check_matrix


def checked_rows(model: Any, X: Any) -> sp.csr_array:
    """Return X as a CSR array of float64, with the features of the model if it has any."""
    if isinstance(model, BaseEstimator):
        X = check_matrix(model, X, reset=False)
    else:
        X = check_matrix(BaseEstimator(), X, reset=True)
    return sp.csr_array(X, dtype=np.float64)
