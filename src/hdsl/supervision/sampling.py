"""A sample of labeled rows in which each class has its share."""

from __future__ import annotations

import numpy as np

from ..input.errors import NoTripletError
from ..labels import ranks


def sample_rows(
    codes: np.ndarray,
    weights: np.ndarray | None,
    limit: int | None,
    n_targets: int,
    rng: np.random.Generator,
) -> np.ndarray | None:
    """Return the rows that are compared, sorted; None where all are.

    Rows of weight 0 are not. Of more than `limit` rows each class has its share. A
    class whose share is too small for its rows to have target neighbors is in the
    sample with rows enough for that, or not at all.

    Parameters
    ----------
    codes : ndarray of int of shape (n_rows,)
        Class number of each row.
    weights : ndarray of shape (n_rows,) or None
    limit : int or None
        None is no limit.
    n_targets : int
        Rows of its own class that a row is compared with.
    rng : numpy.random.Generator
    """
    n_all = len(codes)
    rows = np.arange(n_all) if weights is None else np.flatnonzero(weights)
    n_rows = len(rows)
    limit = limit or n_rows
    if n_rows == n_all and n_rows <= limit:
        return None
    codes = np.unique(codes[rows], return_inverse=True)[1]
    if n_rows < n_all and not codes.any():
        raise NoTripletError(
            "No triplet can be built: sample_weight is 0 in all classes but one."
        )
    if n_rows <= limit:
        return rows
    class_sizes = np.bincount(codes)
    rank = ranks(codes, np.argsort(rng.random(n_rows)))
    sizes = _sample_sizes(class_sizes, limit, n_targets, rng)
    return rows[rank < sizes[codes]]


def _sample_sizes(
    class_sizes: np.ndarray, limit: int, n_targets: int, rng: np.random.Generator
) -> np.ndarray:
    """Return how many rows of each class a sample of `limit` rows has."""
    share = limit / class_sizes.sum() * class_sizes
    least = np.minimum(class_sizes, n_targets + 1)
    # Shares are rounded so that they add up: a running sum crosses a whole number or
    # not.
    classes = rng.permutation(len(class_sizes))
    units = np.where(share < least, share / least, share)[classes]
    crossed = np.diff(np.floor(np.cumsum(units) + rng.random()), prepend=0.0)
    sizes = np.empty(len(class_sizes), dtype=np.int64)
    sizes[classes] = crossed.astype(np.int64)
    sizes = np.where(share < least, sizes * least, np.maximum(sizes, least))
    if np.count_nonzero(sizes) < 2:  # of one class nothing can be compared
        largest = np.argsort(-class_sizes, kind="stable")[:2]
        sizes[largest] = least[largest]
    return sizes
