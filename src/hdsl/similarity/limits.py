"""Queries within the limits of a search engine."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from ..input.matrices import as_rows
from ..input.parameters import check_number
from ..rows import Rows, sparse_block


def limit_weights(
    queries: Any,
    *,
    nonnegative: bool = False,
    max_terms: int | None = None,
    max_weight: float | None = None,
) -> Any:
    """Return queries that respect the limits of an engine, in this order.

    The limits are those of weights of features. An embedding beside them is kept, and
    is scaled with them.

    Parameters
    ----------
    queries : ndarray or sparse array of shape (n_queries, n_features), or pair
        A pair (features, embedding) as ``rewrite`` returns it.
    nonnegative : bool, default=False
        Leave out negative weights. With documents that are nowhere negative, the scores
        become upper bounds of the true ones: see `hdsl.serving.certified_top_k`.
    max_terms : int, default=None
        Keep at most so many weights per query, the largest in absolute value; of equals
        the first.
    max_weight : float, default=None
        Multiply each query whose largest absolute weight is above by the number that
        brings it there, its embedding too. All scores of the query are multiplied by
        the same number, so ranks do not change.

    Returns
    -------
    ndarray, csr_array or pair, as `queries`

    Examples
    --------
    >>> limit_weights(np.array([[4.0, -3.0, 1.0]]), max_terms=2).tolist()
    [[4.0, -3.0, 0.0]]
    >>> limit_weights(np.array([[4.0, -3.0, 1.0]]), nonnegative=True, max_weight=2).tolist()
    [[2.0, 0.0, 0.5]]
    """
    check_number("rewrite", "max_terms", max_terms, low=1, integer=True, words=(None,))
    check_number("rewrite", "max_weight", max_weight, low=0, strict=True, words=(None,))
    if not nonnegative and max_terms is None and max_weight is None:
        return queries
    rows = as_rows(queries, "queries")
    Z = sp.csr_array(sparse_block(rows))
    if nonnegative:
        Z = _only(Z, Z.data > 0)
    if max_terms is not None:
        Z = _only(Z, _ranks_in_row(Z) < max_terms)
    factors = None
    if max_weight is not None:
        factors = _factors(Z, max_weight)
        Z = _scaled_down(Z, factors, max_weight)
    if isinstance(rows, Rows):
        return _with_embedding(Z, rows.dense, factors, queries)
    if sp.issparse(queries):
        return Z
    return Z.toarray()


def _with_embedding(
    Z: sp.csr_array, dense: np.ndarray, factors: np.ndarray | None, queries: Any
) -> Any:
    """Return features and their embedding, scaled with them, in the form of the queries."""
    if factors is not None:
        dense = dense * factors.astype(dense.dtype)[:, None]
    if isinstance(queries, Rows):
        return Rows(Z, dense)
    return Z, dense


def _only(Z: sp.csr_array, is_kept: np.ndarray) -> sp.csr_array:
    """Return Z without the stored values that are not kept."""
    n_kept_before = np.concatenate([[0], np.cumsum(is_kept)])
    arrays = (Z.data[is_kept], Z.indices[is_kept], n_kept_before[Z.indptr])
    return sp.csr_array(arrays, shape=Z.shape)


def _ranks_in_row(Z: sp.csr_array) -> np.ndarray:
    """Return the rank of each stored value in its row by absolute value, from 0."""
    row = _rows_of_values(Z)
    order = np.lexsort((Z.indices, -np.abs(Z.data), row))
    ranks = np.empty(Z.nnz, dtype=np.int64)
    ranks[order] = np.arange(Z.nnz) - Z.indptr[row[order]]
    return ranks


def _factors(Z: sp.csr_array, max_weight: float) -> np.ndarray:
    """Return what brings the largest weight of each row to the limit, 1 if it is below."""
    largest = np.zeros(Z.shape[0], dtype=Z.dtype)
    np.maximum.at(largest, _rows_of_values(Z), np.abs(Z.data))
    is_above = largest > max_weight
    return np.where(is_above, max_weight / np.where(is_above, largest, 1.0), 1.0)


def _scaled_down(
    Z: sp.csr_array, factors: np.ndarray, max_weight: float
) -> sp.csr_array:
    """Return Z with each row multiplied by its factor, which brings it to the limit."""
    scaled = Z.data * factors[_rows_of_values(Z)]
    data = np.clip(scaled, -max_weight, max_weight).astype(Z.dtype)
    return sp.csr_array((data, Z.indices, Z.indptr), shape=Z.shape)


def _rows_of_values(Z: sp.csr_array) -> np.ndarray:
    """Return the row of each stored value."""
    return np.repeat(np.arange(Z.shape[0]), np.diff(Z.indptr))
