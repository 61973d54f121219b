"""Counts of words as TF-IDF rows."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ..input.matrices import canonical


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
