"""Searches for known items: rows as queries with a part of their values, and ranks."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from ..mixed_rows import MixedRows

#: Similarities that differ by less than this share of the largest of a query are ties,
#: so that rounding does not decide between equal rows.
TIE = 1e-10


def half_rows(X: Any, share: float, rng: np.random.Generator) -> Any:
    """Return rows with a random share of their values: at least one, and not all.

    Of mixed rows these are the sparse ones; the embedding stays as it is.
    """
    if isinstance(X, MixedRows):
        return MixedRows(half_rows(X.sparse, share, rng), X.dense)
    sizes = np.diff(X.indptr)
    n_kept = np.clip(np.rint(share * sizes), 1, sizes - 1).astype(np.int64)
    rows = np.repeat(np.arange(len(sizes)), sizes)
    shuffled = np.argsort(rows + rng.random(X.nnz), kind="stable")  # row by row
    position_in_row = np.arange(X.nnz) - np.repeat(X.indptr[:-1], sizes)
    kept = np.sort(shuffled[position_in_row < np.repeat(n_kept, sizes)])
    indptr = np.concatenate([[0], np.cumsum(n_kept)])
    return sp.csr_array((X.data[kept], X.indices[kept], indptr), shape=X.shape)


def middle_ranks(scores: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Return the rank of entry `targets[k]` of row k of the scores, the middle one of ties.

    Examples
    --------
    >>> middle_ranks(np.array([[3.0, 1.0, 1.0], [2.0, 5.0, 1.0]]), np.array([2, 1])).tolist()
    [2.5, 1.0]
    """
    leads = scores - np.take_along_axis(scores, targets[:, None], axis=1)
    tie = TIE * np.abs(scores).max(axis=1, keepdims=True)
    n_ties = (np.abs(leads) <= tie).sum(axis=1)  # the target itself among them
    return np.asarray((leads > tie).sum(axis=1) + (n_ties + 1) / 2)
