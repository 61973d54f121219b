"""Shares of triplets and quadruplets that hold, for one similarity or against the cosine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..input.comparisons import check_comparisons, check_weights
from ..rows import Rows
from ..similarity.cosine import (
    COSINE,
    PRODUCT,
    LearnedCosine,
    PlainCosine,
    ranking_with,
)
from ..similarity.pairwise import as_rewriter
from ..similarity.products import check_result, row_products
from ..similarity.rewriter import Rewriter
from ..similarity.unlearned import unlearned
from .errors import ErrorComparison
from .rows import checked_rows

#: Pairs of mixed rows whose products are made at a time.
PAIRS_AT_A_TIME = 4096

#: Similarities that differ by less, in relation to their size, are equal up to
#: rounding.
TIE = 1e-12


class PairScores:
    """Pairs of rows of X, each rewritten, indexed and multiplied once per similarity.

    Parameters
    ----------
    X : csr_array or Rows of shape (n_rows, n_features)
    left, right : ndarray of int of shape (n_pairs,)
    """

    def __init__(self, X: Any, left: np.ndarray, right: np.ndarray) -> None:
        lefts, left = np.unique(left, return_inverse=True)
        rights, right = np.unique(right, return_inverse=True)
        codes = left * np.int64(X.shape[0]) + right
        distinct, self._pair = np.unique(codes, return_inverse=True)
        self._left, self._right = np.divmod(distinct, X.shape[0])
        self._queries = X[lefts]
        self._others = X[rights]

    def scores(
        self, similarity: Rewriter, rankings: Sequence[str]
    ) -> dict[str, np.ndarray]:
        """Return S of each pair, or its cosine, by each way to rank rows."""
        products = self._products(
            similarity.rewrite(self._queries), similarity.index_rows(self._others)
        )
        products = check_result(products, "The similarity")
        scores = {}
        for ranking in rankings:
            values = products
            if ranking == COSINE:
                cosine = LearnedCosine(similarity)
                lengths = cosine.lengths(self._queries)[self._left]
                values = values / (lengths * cosine.lengths(self._others)[self._right])
            scores[ranking] = values[self._pair]
        return scores

    def _products(self, queries: Any, others: Any) -> np.ndarray:
        """Return the dot products of the pairs; an embedding takes much memory."""
        if not isinstance(queries, Rows):
            queries = sp.csr_array(queries)
            others = sp.csr_array(others)
            return row_products(queries[self._left], others[self._right])
        products = np.empty(len(self._left))
        for start in range(0, len(products), PAIRS_AT_A_TIME):
            pairs = slice(start, start + PAIRS_AT_A_TIME)
            products[pairs] = row_products(
                queries[self._left[pairs]], others[self._right[pairs]]
            )
        return products


class ComparedPairs:
    """Comparisons of rows of X.

    Parameters
    ----------
    X : csr_array or Rows of shape (n_rows, n_features)
    compared : ndarray of shape (n, 3) or (n, 4)
        Rows (a, b, c) say S(a, b) > S(a, c); rows (a, b, c, d) say S(a, b) > S(c, d).
    """

    def __init__(self, X: Any, compared: np.ndarray) -> None:
        if compared.shape[1] == 3:
            compared = compared[:, [0, 1, 0, 2]]
        left = compared[:, [0, 2]].T.ravel()
        right = compared[:, [1, 3]].T.ravel()
        self._pairs = PairScores(X, left, right)

    def points(
        self, similarity: Rewriter, rankings: Sequence[str]
    ) -> dict[str, np.ndarray]:
        """Return 1 per comparison that holds, 0.5 per tie, else 0, by each way to rank rows."""
        scores = self._pairs.scores(similarity, rankings)
        return {
            ranking: points_of(*np.split(values, 2))
            for ranking, values in scores.items()
        }


def points_of(larger: np.ndarray, smaller: np.ndarray) -> np.ndarray:
    """Return 1 where the first number is larger, 0.5 where they are equal up to rounding, else 0.

    Examples
    --------
    >>> points_of(np.array([2.0, 1.0, 0.0]), np.array([1.0, 1.0, 1.0])).tolist()
    [1.0, 0.5, 0.0]
    """
    lead = larger - smaller
    tie = TIE * np.maximum(abs(larger), abs(smaller))
    return 0.5 * (1.0 + np.where(abs(lead) <= tie, 0.0, np.sign(lead)))


def triplet_accuracy(
    model: Rewriter | None,
    X: Any,
    triplets: Any,
    *,
    sample_weight: Any = None,
    cosine: bool | None = None,
) -> float:
    """Return the share of triplets or quadruplets that hold; a tie counts one half.

    Parameters
    ----------
    model : HDSL, Similarity or None
        As in `knn_error`.
    X : array-like or sparse matrix of shape (n_rows, n_features)
    triplets : array-like of int of shape (n_triplets, 3) or (n_quadruplets, 4)
        Row numbers of X. A triplet (a, b, c) says S(a, b) > S(a, c), a quadruplet (a,
        b, c, d) says S(a, b) > S(c, d).
    sample_weight : array-like of shape (n_triplets,), default=None
    cosine : bool or None, default=None
        Compare by the learned cosine. None: as the model ranks, ``ranking_``.

    Returns
    -------
    float

    Examples
    --------
    >>> X = np.array([[1.0, 0], [2, 1], [0, 3], [0, 4]])
    >>> triplet_accuracy(None, X, [[0, 1, 2], [0, 2, 3]])
    0.75
    >>> triplet_accuracy(None, X, [[2, 3, 0, 1], [0, 2, 1, 3]])
    0.5
    """
    X = checked_rows(model, X)
    triplets = check_comparisons(triplets, X.shape[0])
    weights = check_weights(sample_weight, len(triplets), "triplet")
    if model is None:
        model = unlearned(X)
    ranking = ranking_with(model, cosine)
    similarity = as_rewriter(model, X.shape[1], "model")
    points = ComparedPairs(X, triplets).points(similarity, (ranking,))
    return float(np.average(points[ranking], weights=weights))


def compare_triplets(
    model: Rewriter,
    X: Any,
    triplets: Any,
    *,
    sample_weight: Any = None,
    cosine: bool | None = None,
) -> ErrorComparison:
    """Return the shares of comparisons that do not hold by plain cosine and as learned.

    The intervals and the test take comparisons of different anchors (first rows) as
    independent. Where they share other rows they say less than that.

    Parameters
    ----------
    model : HDSL, Similarity
        Fitted, or another object with ``rewrite(X)``.
    X, triplets, sample_weight
        As in `triplet_accuracy`.
    cosine : bool or None, default=None
        Compare by the learned cosine. None: as the model ranks, ``ranking_``.

    Returns
    -------
    ErrorComparison

    Examples
    --------
    >>> X = np.array([[1.0, 0], [2, 1], [0, 3], [0, 4]])
    >>> nothing = np.empty((0, 3), int), np.empty(0)
    >>> from hdsl.similarity import FixedPart, Similarity
    >>> same = Similarity(*nothing, 1.0, (FixedPart("prior", 1.0),), n_features=2)
    >>> compare_triplets(same, X, [[0, 1, 2], [0, 2, 3]]).after.n_wrong
    0.5
    """
    X = checked_rows(model, X)
    triplets = check_comparisons(triplets, X.shape[0])
    weights = check_weights(sample_weight, len(triplets), "triplet")
    ranking = ranking_with(model, cosine)
    learned = as_rewriter(model, X.shape[1], "model")
    compared = ComparedPairs(X, triplets)
    return ErrorComparison.from_trials(
        before=1.0 - compared.points(PlainCosine(model), (PRODUCT,))[PRODUCT],
        after=1.0 - compared.points(learned, (ranking,))[ranking],
        sample_weight=weights,
        groups=triplets[:, 0],
        supervision="judgements",
    )
