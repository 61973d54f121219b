"""Landmarks: rows that stand for their classes, and the means of classes that leave a row out."""

from __future__ import annotations

import numbers
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from .triplets.rows import row_keys

OBJECTIVES = ("triplets", "classification")

#: Groups that the landmarks of a class are dealt into. A landmark is compared with those of the
#: other groups: up to so many landmarks of a class it is the only one left out.
N_GROUPS = 10

#: Fewest landmarks to draw of a class that has as many rows: one may be left out.
FEWEST = 2


def check_landmarks(owner: str, landmarks: Any) -> None:
    """Raise ValueError unless `landmarks` is "all", a positive int or a vector of row numbers."""
    if isinstance(landmarks, str) and landmarks == "all":
        return
    is_number = isinstance(landmarks, numbers.Integral) and not isinstance(landmarks, bool)
    if is_number and landmarks >= 1:
        return
    if not isinstance(landmarks, str | numbers.Number | None):
        rows = np.asarray(landmarks)
        if rows.ndim == 1 and len(rows) and rows.dtype.kind in "iu" and (rows >= 0).all():
            return
    raise ValueError(
        f"The 'landmarks' parameter of {owner} must be 'all', an int >= 1 or a vector of row "
        f"numbers of X. Got {landmarks!r} instead."
    )


def draw_landmarks(
    landmarks: Any, codes: np.ndarray, weights: np.ndarray | None, rng: np.random.Generator
) -> np.ndarray:
    """Return which rows are landmarks, a bool array of shape (n_rows,).

    Parameters
    ----------
    landmarks : "all", int or array-like of int
        All rows, so many in all, or these. A number is drawn from all classes by their shares, at
        least 2 of each that has 2 rows.
    codes : ndarray of shape (n_rows,)
        Class numbers.
    weights : ndarray of shape (n_rows,) or None
        Rows of weight 0 are not drawn.
    rng : numpy.random.Generator

    Examples
    --------
    >>> codes = np.array([0, 0, 0, 0, 0, 0, 1, 1, 1])
    >>> is_landmark = draw_landmarks(6, codes, None, np.random.default_rng(0))
    >>> np.bincount(codes[is_landmark]).tolist()
    [4, 2]
    """
    n_rows = len(codes)
    may = np.ones(n_rows, dtype=bool) if weights is None else weights > 0
    if isinstance(landmarks, str):
        return may
    if not isinstance(landmarks, numbers.Integral):
        rows = np.asarray(landmarks)
        if rows.max() >= n_rows:
            raise ValueError(
                f"landmarks names row {rows.max()}, but X has {n_rows} rows. Landmarks number the "
                "rows of X from 0."
            )
        is_landmark = np.zeros(n_rows, dtype=bool)
        is_landmark[rows] = True
        return is_landmark & may
    order = rng.permutation(n_rows)
    order = order[may[order]]
    sizes = np.bincount(codes[order], minlength=codes.max() + 1)
    wanted = np.floor(int(landmarks) * sizes / len(order) + 1e-9).astype(np.int64)
    wanted = np.minimum(np.maximum(wanted, FEWEST), sizes)
    order = order[np.argsort(codes[order], kind="stable")]
    start = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    place = np.arange(len(order)) - start[codes[order]]
    is_landmark = np.zeros(n_rows, dtype=bool)
    is_landmark[order[place < wanted[codes[order]]]] = True
    return is_landmark


class LandmarkMeans(NamedTuple):
    """Means of the landmarks of each class, whole and without each group.

    Similarity is linear in a row: the mean similarity to some rows is the similarity to their mean.

    Parameters
    ----------
    rows : csr_array of shape (n_means, n_features)
        Of each class that has landmarks the mean of all of them, then those without a group.
    whole : ndarray of shape (n_known,)
        Classes of the first means.
    own : ndarray of shape (n_rows,)
        The mean of the own class that each row is compared with: of all its landmarks, or if it is
        one of them, of those in other groups. -1 for none.
    """

    rows: sp.csr_array
    whole: np.ndarray
    own: np.ndarray

    @classmethod
    def of(
        cls,
        X: sp.csr_array,
        codes: np.ndarray,
        is_landmark: np.ndarray,
        weights: np.ndarray | None = None,
    ) -> LandmarkMeans:
        """Return the means of classes of rows, which may have weights.

        Equal rows of a class are in one group, so that none is compared with itself.
        """
        average, whole, own = cls.plan(row_keys(X), codes, is_landmark, weights)
        return cls(sp.csr_array(average @ X), whole, own)

    @staticmethod
    def plan(
        keys: np.ndarray,
        codes: np.ndarray,
        is_landmark: np.ndarray,
        weights: np.ndarray | None = None,
    ) -> tuple[sp.csr_array, np.ndarray, np.ndarray]:
        """Return what gives the means when multiplied with all rows, and the other two parts.

        `keys` are those of ``row_keys``.
        """
        landmarks = np.flatnonzero(is_landmark)
        label = codes[landmarks]
        weight = np.ones(len(landmarks)) if weights is None else weights[landmarks]
        whole = np.unique(label)
        group, n_groups = _deal(keys[landmarks], label)
        # Means without a group come class by class, after those of all landmarks.
        splits = n_groups[whole] > 1
        first = len(whole) + np.concatenate([[0], np.cumsum(np.where(splits, n_groups[whole], 0))])
        at = np.full(len(n_groups), -1)
        at[whole] = np.where(splits, first[:-1], -1)
        place = np.searchsorted(whole, label)
        parts = [(place, landmarks, weight)]
        for step in range(1, N_GROUPS):  # in every group but its own
            there = (step < n_groups[label]) & (at[label] >= 0)
            other = (group[there] + step) % n_groups[label[there]]
            parts.append((at[label[there]] + other, landmarks[there], weight[there]))
        row, column, value = (np.concatenate(part) for part in zip(*parts, strict=True))
        n_means = int(first[-1])
        total = np.bincount(row, value, minlength=n_means)
        average = sp.csr_array((value / total[row], (row, column)), shape=(n_means, len(codes)))
        own = np.full(len(codes), -1)
        known = np.full(codes.max() + 1, -1)
        known[whole] = np.arange(len(whole))
        own[:] = known[codes]
        own[landmarks] = np.where(at[label] >= 0, at[label] + group, -1)
        return average, whole, own

    def anchors(self, weights: np.ndarray | None) -> np.ndarray:
        """Return the rows to compare: those of positive weight with a mean of their class."""
        has_mean = self.own >= 0
        return np.flatnonzero(has_mean if weights is None else has_mean & (weights > 0))


def _deal(keys: np.ndarray, label: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the group of each landmark in its class, and the number of groups of each class."""
    points, point = np.unique(np.column_stack([label, keys]), axis=0, return_inverse=True)
    of = points[:, 0].astype(np.int64)
    sizes = np.bincount(of)
    rank = np.arange(len(points)) - (np.cumsum(sizes) - sizes)[of]
    n_groups = np.minimum(sizes, N_GROUPS)
    return (rank % np.maximum(n_groups, 1)[of])[point.ravel()], n_groups
