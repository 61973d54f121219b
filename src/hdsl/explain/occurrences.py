"""How often features and feature pairs occur in rows, and how much they do there."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..input.matrices import canonical
from ..input.sparse_structure import sound_csr
from ..wide_matrices import take_columns

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

    For independent rows both root mean squares follow from means over the rows of X,
    also where values have both signs: E[(x_i y_i)²] = E[x_i²]² and E[(x_i y_j + x_j
    y_i)²] = 2 E[x_i²] E[x_j²] + 2 E[x_i x_j]². The cost is the number of values in X
    and, per pair, in its two columns.

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
    >>> counts = count_occurrences(X, np.array([0, 2]), np.array([[0, 1]]))
    >>> counts.n_rows.tolist(), counts.n_rows_both.tolist(), counts.size.tolist()
    ([1, 1], [1], [0.5, 2.0])
    """
    values = _columns_of(X, features)
    present = values.astype(bool).astype(np.int64)
    n = max(X.shape[0], 1)
    with np.errstate(over="ignore", invalid="ignore"):
        size = np.asarray((values * values).sum(axis=0)).ravel() / n
        product = _column_products(values, ends) / n
        root = np.sqrt(size)[ends]
        size_of_pair = np.sqrt(2.0) * np.hypot(root[:, 0] * root[:, 1], product)
    return Occurrences(
        n_rows=np.diff(values.indptr),
        n_rows_both=_column_products(present, ends),
        size=size,
        size_of_pair=size_of_pair,
    )


def _columns_of(X: Any, features: np.ndarray) -> sp.csc_array:
    """Return some columns of X without stored zeros, at no cost per column of X."""
    if not sp.issparse(X):
        return sp.csc_array(np.asarray(X)[:, features], dtype=np.float64)
    return take_columns(canonical(sound_csr(X)), features).astype(np.float64).tocsc()


def _column_products(A: sp.csc_array, ends: np.ndarray) -> np.ndarray:
    """Return the dot products of pairs of columns."""
    products = []
    for first, second in _chunks(ends):
        sums = A[:, first].multiply(A[:, second]).sum(axis=0)
        products.append(np.asarray(sums).ravel())
    return np.concatenate(products)


def _chunks(ends: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the first and the second columns of about CHUNK pairs at a time."""
    for pairs in np.array_split(ends, len(ends) // CHUNK + 1):
        yield pairs[:, 0], pairs[:, 1]
