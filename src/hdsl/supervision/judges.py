"""How good a similarity is on held-out data, by labels or by comparisons."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from .. import search
from ..mixed_rows import sparse_block
from ..similarity import Similarity
from ..similarity.cosine import LearnedCosine
from ..similarity.judge import comparison_points
from ..similarity.known_items import half_rows, middle_ranks
from ..similarity.products import check_result
from ..similarity.rewriter import Rewriter

#: Nearest rows whose labels are looked at.
N_NEIGHBORS = 10


class Score(NamedTuple):
    """How good a similarity is on held-out data: larger is better, one number per unit."""

    units: np.ndarray  # rows or anchors, from 0 to 1
    reciprocal_ranks: np.ndarray  # of known items; empty with comparisons

    @property
    def mean_reciprocal_rank(self) -> float:
        """The mean reciprocal rank of known items, NaN with comparisons."""
        if not len(self.reciprocal_ranks):
            return math.nan
        return float(self.reciprocal_ranks.mean())

    @classmethod
    def joined(cls, parts: Sequence[Score]) -> Score:
        """Return the scores of several parts of the data as one."""
        return cls(*map(np.concatenate, zip(*parts, strict=True)))


Judge = Callable[[Similarity], Score]

#: From the nearest training rows of each held-out row, shape (n_held_out, k), to a
#: number from 0 to 1 for each.
Agreement = Callable[[np.ndarray], np.ndarray]


def judge_neighbors(
    X: Any,
    X_held_out: Any,
    agreement: Agreement,
    rng: np.random.Generator,
) -> Judge:
    """Return a judge by the nearest rows of each held-out row, and by known items.

    Parameters
    ----------
    X : csr_array or MixedRows of shape (n_rows, n_features)
        Rows that are learned from.
    X_held_out : csr_array or MixedRows of shape (n_held_out, n_features)
    agreement : callable
        How well the labels of the nearest rows agree with those of the held-out ones.
    rng : numpy.random.Generator
        Draws the half of a row that it is searched by.
    """
    searched = np.flatnonzero(np.diff(sparse_block(X_held_out).indptr) >= 2)
    halves = half_rows(X_held_out[searched], 0.5, rng)
    to_rows = cosines_between(X_held_out, X)
    to_held_out = cosines_between(halves, X_held_out)

    def judge(similarity: Similarity) -> Score:
        units = agreement(nearest(to_rows(similarity), N_NEIGHBORS))
        reciprocal_ranks = 1.0 / middle_ranks(to_held_out(similarity), searched)
        return Score(units, reciprocal_ranks)

    return judge


def cosines_between(X: Any, Y: Any) -> Callable[[Rewriter], np.ndarray]:
    """Return a function from a similarity to S(x, y) / sqrt(S(y, y)) of all rows, dense.

    Plain products are computed once for all similarities. The length of x, on which no
    ranking of the rows of Y depends, is left out.
    """
    shape = (X.shape[0], Y.shape[0])
    blocks: dict[tuple[int, int | None], tuple[Any, Any]] = {}

    @cache
    def plain_products(columns: tuple[int, int | None]) -> np.ndarray:
        left, right = blocks[columns]
        return search.add_products(left, right, np.zeros(shape))

    def cosines(similarity: Rewriter) -> np.ndarray:
        scores = np.zeros(shape)
        if isinstance(similarity, Similarity) and similarity.takes_rows_as_they_are:
            for part in similarity.fixed:
                columns = (part.start, part.stop)
                blocks[columns] = (part.block(X), part.block(Y))
                if part.weight:
                    scores += part.weight * plain_products(columns)
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


def judge_comparisons(
    X: Any, compared: np.ndarray, weights: np.ndarray | None
) -> Judge:
    """Return a judge by the share of comparisons that hold by learned cosine, per anchor."""
    points = comparison_points(X, compared)
    anchors = np.unique(compared[:, 0], return_inverse=True)[1]
    if weights is None:
        weights = np.ones(len(anchors))
    total = np.bincount(anchors, weights)
    has_weight = total > 0

    def judge(similarity: Similarity) -> Score:
        right = np.bincount(anchors, weights * points(LearnedCosine(similarity)))
        return Score(right[has_weight] / total[has_weight], np.empty(0))

    return judge
