"""The rows of a file as the sparse matrix that readers return."""

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..input.matrices import canonical, check_finite, narrow
from ..input.parameters import check_number
from ..input.sparse_structure import sound_csr
from .errors import DataFileError, parsing

#: X of shape (n_rows, n_features), and the labels if the file has them.
Data = tuple[sp.csr_array, np.ndarray | None]


def check_n_features(n_features: int | None) -> None:
    """Raise ValueError unless this is a number of columns, or None."""
    check_number(
        "the reader", "n_features", n_features, low=1, integer=True, words=(None,)
    )


def as_csr(path: Path, X: Any, n_features: int | None) -> sp.csr_array:
    """Return a matrix from a file as a canonical CSR array of finite float64."""
    with parsing(path, "a matrix"):
        X = canonical(sound_csr(X).astype(np.float64))
    if n_features is not None:
        if X.shape[1] > n_features:
            raise DataFileError(
                f"{path} has {X.shape[1]} columns, more than n_features={n_features}."
            )
        X.resize(X.shape[0], n_features)
    try:
        check_finite(X, str(path))
    except ValueError as error:
        raise DataFileError(str(error)) from None
    return narrow(X)
