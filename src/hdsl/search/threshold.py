"""All inner products from a threshold on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from .. import memory
from ..input.matrices import as_rows
from ..input.parameters import check_number
from ..rows import Rows
from .products import (
    check_no_overflow,
    largest_magnitude,
    on_shared_columns,
    query_blocks,
)

#: Share of a threshold that skipped entries may add.
SKIPPED_SHARE = 0.6

#: Share of a threshold above which rounding has added to the skipped entries.
LARGEST_SKIPPED_SHARE = 0.9

#: Rounding of a bound, as a share of it, is far below this.
BOUND_ROUNDING = 1e-9

#: Bytes that an entry of an answer takes while blocks are joined.
ENTRY_BYTES = 48


def above(
    queries: Any,
    rows: Any,
    threshold: float,
    *,
    exclude_self: bool = False,
    memory_limit: float | str | None = "auto",
) -> sp.csr_array:
    """Return all inner products of at least a threshold, exactly, as a sparse matrix.

    Most pairs are skipped without being computed, so it is fast if few reach the
    threshold. For a learned similarity, ``above(model.rewrite(Q), model.index_rows(X),
    threshold)``; for the learned cosine, rows of ``model.transform(X, cosine=True)`` on
    both sides.

    Parameters
    ----------
    queries : array or sparse matrix of shape (n_queries, n_features)
    rows : array or sparse matrix of shape (n_rows, n_features)
    threshold : float > 0
        Pairs without a common feature have the inner product 0 and are never in the
        answer.
    exclude_self : bool, default=False
        Query r is row r of `rows`, and is not compared with itself.
    memory_limit : float, "auto" or None, default="auto"
        GiB that the answer may use; "auto" is the free memory. Its size is predicted
        from the first blocks of queries on.

    Returns
    -------
    csr_array of shape (n_queries, n_rows), float64

    Examples
    --------
    >>> X = np.array([[1.0, 0], [0.6, 0.8], [0, 1]])
    >>> above(X, X, 0.7, exclude_self=True).toarray().tolist()
    [[0.0, 0.0, 0.0], [0.0, 0.0, 0.8], [0.0, 0.8, 0.0]]
    """
    check_number("above", "threshold", threshold, low=0, strict=True)
    Q = _as_sparse(queries, "queries")
    X = _as_sparse(rows, "rows")
    if Q.shape[1] != X.shape[1] or (exclude_self and Q.shape[0] != X.shape[0]):
        raise ValueError(
            f"queries has shape {Q.shape} and rows {X.shape}: they must have the same "
            "features and, with exclude_self=True, be the same rows."
        )
    check_no_overflow(largest_magnitude(Q), largest_magnitude(X), X.shape[1])
    n_queries = Q.shape[0]
    if n_queries == 0:
        return sp.csr_array((0, X.shape[0]))
    Q, X, frequency = on_shared_columns(Q, X)
    blocks: list[sp.csr_array] = []
    n_entries = 0
    n_done = 0
    for block in _blocks_above(Q, X, frequency, float(threshold), exclude_self):
        blocks.append(block)
        n_entries += block.nnz
        n_done += block.shape[0]
        memory.check_fits(
            "The answer",
            ENTRY_BYTES * n_entries * n_queries // n_done,
            memory_limit,
            ("take a higher threshold", "ask for some of the queries at a time"),
        )
    return sp.csr_array(sp.vstack(blocks, format="csr"))


def _as_sparse(X: Any, name: str) -> sp.csr_array:
    """Return rows in float64; the columns of an embedding are columns like others."""
    X = as_rows(X, name)
    if isinstance(X, Rows):
        X = X.to_sparse()
    return sp.csr_array(X, dtype=np.float64)


def _blocks_above(
    Q: sp.csr_array,
    X: sp.csr_array,
    frequency: np.ndarray,
    threshold: float,
    exclude_self: bool,
) -> Iterator[sp.csr_array]:
    """Yield the answers of blocks of queries; features are sorted by their frequency.

    Inner products are summed without the entries of the queries that can be skipped. Of
    the pairs that can still reach the threshold they are computed in full.
    """
    Q.sort_indices()
    norms = _row_norms(X)
    skippable = _skippable_entries(Q, norms.max(initial=0.0), threshold)
    values = np.where(skippable.is_skipped, 0.0, Q.data)
    shortened = sp.csr_array((values, Q.indices, Q.indptr), shape=Q.shape)
    columns = X.T.tocsr()
    entry_products = frequency[Q.indices] * ~skippable.is_skipped
    n_products = np.bincount(_row_of_entries(Q), entry_products, Q.shape[0])
    for block in query_blocks(n_products):
        block_queries = shortened[block].copy()
        block_queries.eliminate_zeros()
        sums = (block_queries @ columns).tocoo()
        query = block.start + sums.row
        # By Cauchy and Schwarz, ⟨q, x⟩ is at most ‖q‖ ‖x‖ for the skipped entries q.
        bounds = sums.data + skippable.norms[query] * norms[sums.col]
        rounding = BOUND_ROUNDING * (threshold + abs(bounds))
        may_reach = bounds >= threshold - rounding
        if exclude_self:
            may_reach &= query != sums.col
        left = query[may_reach]
        right = sums.col[may_reach]
        scores = np.asarray(Q[left].multiply(X[right]).sum(axis=1)).ravel()
        reaches = scores >= threshold
        yield sp.csr_array(
            (scores[reaches], (left[reaches] - block.start, right[reaches])),
            shape=(block.stop - block.start, X.shape[0]),
        )


class _Skippable(NamedTuple):
    """Entries of queries that are skipped.

    Attributes
    ----------
    is_skipped : ndarray of shape (n_entries,)
    norms : ndarray of shape (n_queries,)
        Length of the skipped entries of each query.
    """

    is_skipped: np.ndarray
    norms: np.ndarray


def _skippable_entries(
    Q: sp.csr_array, largest_norm: float, threshold: float
) -> _Skippable:
    """Return the entries that add only a share of the threshold to any inner product.

    They are the first of each query, of the most frequent features.
    """
    n_queries = Q.shape[0]
    row = _row_of_entries(Q)
    unit = largest_magnitude(Q) or 1.0
    squares = (Q.data / unit) ** 2  # which do not overflow
    sums = np.append(0.0, np.cumsum(squares))
    sums_in_row = np.maximum(sums[1:] - sums[Q.indptr[row]], 0.0)
    norms_upto = unit * np.sqrt(sums_in_row)
    is_skipped = norms_upto * largest_norm <= SKIPPED_SHARE * threshold
    norms = unit * np.sqrt(np.bincount(row, squares * is_skipped, n_queries))
    # By rounding of the running sums: such a query skips nothing.
    norms[norms * largest_norm > LARGEST_SKIPPED_SHARE * threshold] = 0.0
    is_skipped &= norms[row] > 0.0
    return _Skippable(is_skipped, norms)


def _row_norms(X: sp.csr_array) -> np.ndarray:
    """Return the length of each row; squares of shares do not overflow."""
    unit = largest_magnitude(X) or 1.0
    return np.asarray(unit * np.sqrt((X / unit).power(2).sum(axis=1)))


def _row_of_entries(X: sp.csr_array) -> np.ndarray:
    """Return the row of each stored entry."""
    return np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
