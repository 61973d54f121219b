"""How good a similarity is on held-out data, by labels or by comparisons."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from .. import search
from ..labels import LabelSets, aligned, overlap
from ..similarity import Similarity
from ..similarity.cosine import LearnedCosine
from ..similarity.judge import comparison_points
from ..similarity.known_items import half_rows, middle_ranks
from ..similarity.products import check_result
from ..similarity.rewriter import Rewriter
from ..supervision.supervision import Supervision

#: Nearest rows whose labels are looked at.
N_NEIGHBORS = 10


class Score(NamedTuple):
    """How good a similarity is on held-out data: larger is better, one number per unit."""

    units: np.ndarray  # rows or anchors, from 0 to 1
    reciprocal_ranks: np.ndarray  # of known items; empty with comparisons

    @classmethod
    def joined(cls, parts: Sequence[Score]) -> Score:
        """Return the scores of several parts of the data as one."""
        return cls(*map(np.concatenate, zip(*parts, strict=True)))


Judge = Callable[[Similarity], Score]

#: From the nearest training rows of each held-out row, shape (n_held, k), to a number
#: from 0 to 1.
Points = Callable[[np.ndarray], np.ndarray]


def judge_labels(
    train: Supervision, held: Supervision, rng: np.random.Generator
) -> Judge:
    """Return a judge by the labels of the nearest training rows, and by known items.

    The units are held-out rows: half the share of the 10 nearest rows that have the
    label of the row, half whether most of the 3 nearest have it. Of several labels the
    F1 scores count.
    """
    points = (_set_points if isinstance(train.y, LabelSets) else _points)(
        train.y, held.y
    )
    searched = np.flatnonzero(np.diff(held.X.indptr) >= 2)
    halves = half_rows(held.X[searched], 0.5, rng)
    to_train = cosines_between(held.X, train.X)
    to_held = cosines_between(halves, held.X)

    def judge(similarity: Similarity) -> Score:
        near = nearest(to_train(similarity), N_NEIGHBORS)
        return Score(points(near), 1.0 / middle_ranks(to_held(similarity), searched))

    return judge


def cosines_between(
    X: sp.csr_array, Y: sp.csr_array
) -> Callable[[Rewriter], np.ndarray]:
    """Return a function from a similarity to S(x, y) / sqrt(S(y, y)) of all rows, dense.

    Plain products are computed once for all similarities. The length of x, on which no
    ranking of the rows of Y depends, is left out.
    """
    shape = (X.shape[0], Y.shape[0])

    @cache
    def plain_products(start: int, stop: int | None) -> np.ndarray:
        left = X[:, start:stop]
        right = Y[:, start:stop]
        return search.add_products(left, right, np.zeros(shape))

    def cosines(similarity: Rewriter) -> np.ndarray:
        scores = np.zeros(shape)
        if isinstance(similarity, Similarity) and similarity.takes_rows_as_they_are:
            for part in similarity.fixed:
                scores += part.weight * plain_products(part.start, part.stop)
            left = similarity.learned(X)
            right = similarity.learned(Y)
        else:
            left = similarity.rewrite(X)
            right = similarity.index_rows(Y)
        scores = search.add_products(left, right, scores)
        scores /= LearnedCosine(similarity).lengths(Y)
        return check_result(scores, "The similarity")

    return cosines


def nearest(scores: np.ndarray, k: int) -> np.ndarray:
    """Return the columns of the k largest scores of each row, the first of equals first.

    Examples
    --------
    >>> nearest(np.array([[1.0, 3.0, 2.0, 3.0]]), 3).tolist()
    [[1, 3, 2]]
    """
    n = scores.shape[1]
    k = min(k, scores.shape[1])
    n_parts = min(n, 8 * k)
    # k parts have a score from this on, and few other scores are above it.
    largest = np.maximum.reduceat(scores, n * np.arange(n_parts) // n_parts, axis=1)
    least = np.partition(largest, n_parts - k, axis=1)[:, [n_parts - k]]
    row, column = np.nonzero(scores >= least)
    order = np.lexsort((-scores[row, column], row))
    row = row[order]
    column = column[order]
    return column[np.searchsorted(row, np.arange(len(scores)))[:, None] + np.arange(k)]


def _points(y: np.ndarray, truth: np.ndarray) -> Points:
    classes, codes = np.unique(y, return_inverse=True)
    wanted = np.searchsorted(classes, truth).clip(max=len(classes) - 1)
    wanted[classes[wanted] != truth] = -1  # no training row has this label

    def points(near: np.ndarray) -> np.ndarray:
        right = codes[near] == wanted[:, None]
        return 0.5 * right.mean(axis=1) + 0.5 * (right[:, :3].mean(axis=1) > 0.5)

    return points


def _set_points(y: LabelSets, truth: LabelSets) -> Points:
    """Return the same for several labels: how much is shared, and how much of it is voted for."""
    y, truth = aligned(y, truth)

    def points(near: np.ndarray) -> np.ndarray:
        share = truth.shared_with(y, near)
        first = near[:, :3]
        voted = y.voted(y.votes(first, np.ones(first.shape)))
        return 0.5 * share.mean(axis=1) + 0.5 * overlap(
            truth.indicator, voted.indicator
        )

    return points


def judge_comparisons(held: Supervision) -> Judge:
    """Return a judge by the share of comparisons that hold by learned cosine, per anchor."""
    points = comparison_points(held.X, held.compared)
    anchors = np.unique(held.compared[:, 0], return_inverse=True)[1]
    weights = held.compared_weights
    weights = np.ones(len(anchors)) if weights is None else weights
    total = np.bincount(anchors, weights)

    def judge(similarity: Similarity) -> Score:
        right = np.bincount(anchors, weights * points(LearnedCosine(similarity)))
        return Score((right / np.where(total > 0, total, 1.0))[total > 0], np.empty(0))

    return judge
