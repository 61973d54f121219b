"""Labels or links turned into triplets: int arrays of shape (n_triplets, 3).

A triplet (anchor, positive, negative) of row numbers says that the anchor is more like the
positive than like the negative.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp

from . import _validation, search


def neighbor_triplets(
    X: Any,
    y: Any,
    n_targets: int = 3,
    n_impostors: int = 5,
    *,
    n_jobs: int | None = None,
) -> np.ndarray:
    """Return, for each row, its target neighbours times its impostors.

    Targets are the nearest rows of the same label, impostors the nearest of other labels, by inner
    product; equal ones in the order of their rows.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_rows, n_features)
    y : array-like of shape (n_rows,)
        Labels of at least two classes.
    n_targets, n_impostors : int
        Wanted for each row. Where a class is too small, those there are; a warning says so.
    n_jobs : int, default=None
        Threads.

    Returns
    -------
    ndarray of shape (n_triplets, 3)
        n_targets * n_impostors triplets a row, in the order of the rows.

    Examples
    --------
    >>> X = [[1, 0], [2, 0], [0, 3], [1, 1]]
    >>> neighbor_triplets(X, ["a", "a", "b", "b"], n_targets=1, n_impostors=1).tolist()
    [[0, 1, 3], [1, 0, 3], [2, 3, 0], [3, 2, 1]]
    """
    for name, value in (("n_targets", n_targets), ("n_impostors", n_impostors)):
        _validation.check_number("neighbor_triplets", name, value, low=1, integer=True)
    X = _matrix(X)
    codes = _validation.check_labels(y, X.shape[0])
    _warn_of_small_classes(y, codes, n_targets, n_impostors)
    same, other = search.neighbors_by_label(X, codes, n_targets, n_impostors, n_jobs=n_jobs)
    valid = (np.arange(n_targets) < same.size[:, None])[:, :, None] & (
        np.arange(n_impostors) < other.size[:, None]
    )[:, None, :]
    anchor, target, impostor = np.nonzero(valid)
    triplets = np.column_stack([anchor, same.rows[anchor, target], other.rows[anchor, impostor]])
    return _not_empty(triplets)


def random_triplets(y: Any, n_per_row: int = 15, *, random_state: Any = None) -> np.ndarray:
    """Return random triplets: the positive of the anchor's class, the negative of another.

    Parameters
    ----------
    y : array-like of shape (n_rows,)
    n_per_row : int, default=15
    random_state : int, RandomState or None, default=None

    Returns
    -------
    ndarray of shape (n_triplets, 3)
        `n_per_row` triplets for each row whose class has another row.

    Examples
    --------
    >>> random_triplets(["a", "a", "b", "b"], n_per_row=1, random_state=0)[:, 1].tolist()
    [1, 0, 3, 2]
    """
    _validation.check_number("random_triplets", "n_per_row", n_per_row, low=1, integer=True)
    codes = _validation.check_labels(y, len(np.asarray(y)))
    _warn_of_small_classes(y, codes, 1, 1)
    rng = _validation.generator(random_state)
    n = len(codes)
    by_class = np.argsort(codes, kind="stable")
    place = np.empty(n, dtype=np.int64)
    place[by_class] = np.arange(n)
    size = np.bincount(codes)[codes]
    start = np.searchsorted(codes[by_class], codes)
    anchor = np.repeat(np.flatnonzero(size > 1), n_per_row)
    # Another of the class: skip the anchor's own place. Any of the rest: skip the whole class.
    positive = start[anchor] + rng.integers(size[anchor] - 1)
    positive += positive >= place[anchor]
    negative = rng.integers(n - size[anchor])
    negative += np.where(negative >= start[anchor], size[anchor], 0)
    return _not_empty(np.column_stack([anchor, by_class[positive], by_class[negative]]))


def restrict(triplets: np.ndarray, rows: np.ndarray, n_rows: int) -> np.ndarray:
    """Return the triplets that live inside `rows`, renumbered to it.

    Parameters
    ----------
    triplets : ndarray of shape (n_triplets, 3)
        Anchor, positive and negative row numbers.
    rows : ndarray of shape (n_kept,)
        Rows to keep, in their new order.
    n_rows : int
        Number of rows `triplets` refers to.

    Returns
    -------
    ndarray of shape (n_inside, 3)

    Examples
    --------
    >>> restrict(np.array([[0, 1, 2], [3, 1, 2]]), np.array([2, 1, 0]), n_rows=4).tolist()
    [[2, 1, 0]]
    """
    position = np.full(n_rows, -1)
    position[rows] = np.arange(len(rows))
    renumbered = position[triplets]
    return renumbered[(renumbered >= 0).all(axis=1)]


def distinct_rows(
    X: sp.csr_array, labels: np.ndarray, weights: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the first of each set of equal rows with equal labels, and the weight of each set.

    Rows of weight 0 are left out. Without weights each row weighs 1, so the weight of a set is the
    number of its rows: a row given twice is a row of weight 2.
    """
    kept = np.arange(X.shape[0]) if weights is None else np.flatnonzero(weights)
    weights = np.ones(len(kept)) if weights is None else weights[kept]
    # Equal rows have equal sums of weighted values, bit for bit: only rows that agree in it are
    # compared in full.
    spread = (X.indices.astype(np.uint64) * np.uint64(2654435761) % np.uint64(2**32)) / 2.0**32
    weighted = sp.csr_array(
        (X.data * spread, np.zeros_like(X.indices), X.indptr), shape=(X.shape[0], 1)
    )
    mark = weighted @ np.ones(1)
    _, group, count = np.unique(mark[kept], return_inverse=True, return_counts=True)
    if count.max() == 1:
        return kept, weights
    first: dict[tuple[bytes, bytes, int], int] = {}
    keep: list[int] = []
    total: list[float] = []
    for k, row in enumerate(kept):
        if count[group[k]] > 1:
            span = slice(X.indptr[row], X.indptr[row + 1])
            key = (X.indices[span].tobytes(), X.data[span].tobytes(), int(labels[row]))
            if key in first:
                total[first[key]] += weights[k]
                continue
            first[key] = len(keep)
        keep.append(int(row))
        total.append(weights[k])
    return np.array(keep), np.array(total)


def _matrix(X: Any) -> sp.csr_array:
    """Return X as a canonical float64 CSR array."""
    X = X if sp.issparse(X) else sp.csr_array(np.asarray(X, dtype=np.float64))
    X = _validation.canonical(X).astype(np.float64, copy=False)
    _validation.check_finite(X)
    return X


def _warn_of_small_classes(y: Any, codes: np.ndarray, n_targets: int, n_impostors: int) -> None:
    size = np.bincount(codes)
    names = np.unique(np.asarray(y)).tolist()
    small = np.flatnonzero(size - 1 < n_targets)
    if len(small):
        shown = ", ".join(f"{names[c]!r} ({size[c]} rows)" for c in small[:5])
        more = f" and {len(small) - 5} more" if len(small) > 5 else ""
        warnings.warn(
            f"Too few rows for {n_targets} target neighbours in class {shown}{more}: their rows "
            "get as many targets as there are; a class of one row makes no triplets as anchor.",
            UserWarning,
            stacklevel=3,
        )
    others = len(codes) - size
    if others.min() < n_impostors:
        c = int(np.argmin(others))
        warnings.warn(
            f"Too few rows outside class {names[c]!r} for {n_impostors} impostors: its rows get "
            f"{others[c]} instead.",
            UserWarning,
            stacklevel=3,
        )


def _not_empty(triplets: np.ndarray) -> np.ndarray:
    if len(triplets) == 0:
        raise ValueError(
            "No triplet can be built: every class of y has one row only, so no row has a "
            "neighbour of its own class. Pass triplets= to give judgements directly."
        )
    return triplets.astype(np.int64, copy=False)
