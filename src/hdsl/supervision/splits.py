"""Rows and comparisons split into those to learn from and those to hold out."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .supervision import Supervision

#: Most of the held-out triplets, as a share, whose pairs may be learned from with other
#: anchors.
MOST_KNOWN = 0.25


def split_rows(
    data: Supervision, n_folds: int, rng: np.random.Generator
) -> Iterator[tuple[Supervision, Supervision]]:
    """Yield folds of labelled rows, to learn from and to hold out; each class gives its share.

    A row of weight 0 is absent, and one of a class of one row always trains.
    """
    data = data if data.weights is None else data.take(np.flatnonzero(data.weights))
    n = data.X.shape[0]
    codes, is_split = _splittable(data)
    order = np.lexsort((rng.random(n), codes))
    order = order[is_split[order]]
    fold = np.full(n, -1)
    fold[order] = np.arange(len(order)) % n_folds  # consecutive along the classes
    for k in range(n_folds):
        yield data.take(np.flatnonzero(fold != k)), data.take(np.flatnonzero(fold == k))


def count_splittable(data: Supervision) -> int:
    """Return how many labelled rows may be held out in one of the folds."""
    return int(np.count_nonzero(_splittable(data)[1]))


def _splittable(data: Supervision) -> tuple[np.ndarray, np.ndarray]:
    """Return class numbers, and which rows have a weight and share their class with another."""
    codes = data.codes
    present = (
        np.ones(len(codes), dtype=bool) if data.weights is None else data.weights > 0
    )
    size = np.bincount(codes[present], minlength=codes.max() + 1)
    return codes, present & (size[codes] > 1)


def split_anchors(
    data: Supervision, n_folds: int, rng: np.random.Generator
) -> Iterator[tuple[Supervision, Supervision]]:
    """Yield the comparisons to learn from and those to hold out, for folds of the rows.

    Triplets with a held-out anchor are held out, and quadruplets with a held-out row in
    both pairs: a new row is compared with any others, as in use. The other triplets are
    learned from, and the quadruplets without a held-out row. A held-out triplet whose
    two pairs are learned from with other anchors measures nothing; where many are such,
    rows are held out of all triplets.
    """
    compared = data.compared
    n_rows = data.X.shape[0]
    anchors = compared[:, :1]
    others = compared[:, 1:]
    pairs = np.minimum(anchors, others) * n_rows + np.maximum(anchors, others)
    fold = rng.permutation(n_rows) % n_folds
    for k in range(n_folds):
        held = (fold == k)[compared]
        validates = held[:, 0]
        trains = ~held.any(axis=1)
        if compared.shape[1] == 4:
            validates = held[:, :2].any(axis=1) & held[:, 2:].any(axis=1)
        else:
            is_known = np.isin(pairs, pairs[~validates]).all(axis=1)
            if np.sum(is_known & validates) <= MOST_KNOWN * np.sum(validates):
                validates, trains = validates & ~is_known, ~validates
        yield data.with_compared(trains), data.with_compared(validates)
