"""How often features and feature pairs occur in rows, and how much they do there."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from .. import checks
from ..solver.columns import take_columns

#: Feature pairs whose columns are multiplied at a time.
CHUNK = 256


class Occurrences(NamedTuple):
    """Numbers of rows, and root mean squares over two rows x and y drawn independently.

    Attributes
    ----------
    n_rows : ndarray of shape (n_features,)
        Number of rows that have each feature.
    n_rows_both : ndarray of shape (n_pairs,)
        Number of rows that have both features of a pair.
    size : ndarray of shape (n_features,)
        Root mean square of x_i y_i.
    size_of_pair : ndarray of shape (n_pairs,)
        Root mean square of x_i y_j + x_j y_i.
    """

    n_rows: np.ndarray
    n_rows_both: np.ndarray
    size: np.ndarray
    size_of_pair: np.ndarray


def count_occurrences(X: Any, features: np.ndarray, ends: np.ndarray) -> Occurrences:
    """Return how often features and feature pairs occur in X, and how much they do there.

    For independent rows both root mean squares follow from means over the rows of X, also where
    values have both signs: E[(x_i y_i)²] = E[x_i²]² and
    E[(x_i y_j + x_j y_i)²] = 2 E[x_i²] E[x_j²] + 2 E[x_i x_j]². The cost is the number of values in
    X and, per pair, in its two columns.

    Parameters
    ----------
    X : array or sparse matrix of shape (n_rows, n_columns)
    features : ndarray of shape (n_features,)
        Columns of X, ascending.
    ends : ndarray of shape (n_pairs, 2)
        Feature pairs, as positions in `features`.

    Returns
    -------
    Occurrences

    Examples
    --------
    >>> X = np.array([[1.0, 0, 2], [0, 9, 0]])
    >>> found = count_occurrences(X, np.array([0, 2]), np.array([[0, 1]]))
    >>> found.n_rows.tolist(), found.n_rows_both.tolist(), found.size.tolist()
    ([1, 1], [1], [0.5, 2.0])
    """
    values = _columns_of(X, features)
    present = sp.csc_array(
        (np.ones(values.nnz, dtype=np.int64), values.indices, values.indptr), shape=values.shape
    )
    n = max(X.shape[0], 1)
    with np.errstate(over="ignore", invalid="ignore"):
        size = np.asarray((values * values).sum(axis=0)).ravel() / n
        product = _column_products(values, ends) / n
        root = np.sqrt(size)[ends]
        size_of_pair = np.sqrt(2.0) * np.hypot(root[:, 0] * root[:, 1], product)
    return Occurrences(np.diff(values.indptr), _column_products(present, ends), size, size_of_pair)


def _columns_of(X: Any, features: np.ndarray) -> sp.csc_array:
    """Return some columns of X without stored zeros, at no cost per column of X."""
    if not sp.issparse(X):
        return sp.csc_array(np.asarray(X)[:, features], dtype=np.float64)
    return take_columns(checks.canonical(X), features).astype(np.float64).tocsc()


def _column_products(A: sp.csc_array, ends: np.ndarray) -> np.ndarray:
    """Return the dot products of pairs of columns."""
    parts = [
        A[:, some[:, 0]].multiply(A[:, some[:, 1]]).sum(axis=0)
        for some in np.array_split(ends, len(ends) // CHUNK + 1)
    ]
    return np.concatenate([np.asarray(part).ravel() for part in parts])
