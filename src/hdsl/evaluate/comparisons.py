"""Shares of comparisons that hold: triplets, quadruplets, and clicks beside what was shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from ..input.embeddings import check_rows
from ..input.labels import check_comparisons, check_weights
from ..input.matrices import as_rows, check_matrix
from ..rows import Rows, features_as_float64, has_embedding
from ..similarity import Similarity
from ..similarity.cosine import (
    COSINE,
    PRODUCT,
    LearnedCosine,
    PlainCosine,
    Rewriter,
    as_rewriter,
    ranking_with,
)
from ..similarity.products import check_result, row_products
from ..similarity.query_memory import QueryMemory
from ..similarity.similarity import unlearned
from ..triplets import Judgements, ShownRows
from .errors import ErrorComparison

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
        Compare by the learned cosine. None follows ``ranking_`` of the model.

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

    The intervals and the test treat comparisons of different anchors (first rows) as
    independent. They are too narrow if anchors share other rows.

    Parameters
    ----------
    model : HDSL, Similarity
        Fitted, or another object with ``rewrite(X)``.
    X, triplets, sample_weight
        As in `triplet_accuracy`.
    cosine : bool or None, default=None
        Compare by the learned cosine. None follows ``ranking_`` of the model.

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


#: Position r is looked at with a chance of r to minus this power, as far as a log does
#: not say otherwise: published logs have powers of about 0.5 to 1.5.
POWER = 1.0

POWER_ERROR = 0.25

#: Clicks farther behind weigh as much as one here: few are, and one would outweigh
#: hundreds.
DEEPEST = 20.0

#: Steps of the estimate, which has one number and converges in a few.
N_STEPS = 50

TOLERANCE = 1e-6


class ClickedPairs:
    """Clicked rows, each with the rows shown in the same event that were not clicked.

    It does not matter which engine showed them. The weight of a click is 1 over the
    probability that its position is seen, so that rows shown further down count as if
    they had been first (inverse propensity weights).

    Parameters
    ----------
    X : csr_array or Rows of shape (n_rows, n_features)
    shown : ShownRows
    power : float
        Of `position_power`.

    Attributes
    ----------
    queries : ndarray of shape (n_clicks,)
        The query row of each click that has rows beside it.
    weights : ndarray of shape (n_clicks,)
    """

    def __init__(self, X: Any, shown: ShownRows, power: float) -> None:
        clicked, beside = pairs_of_lines(shown)
        lines, self._number = np.unique(clicked, return_inverse=True)
        self.queries = shown.queries[lines]
        self.weights = np.minimum(shown.positions[lines], DEEPEST) ** power
        self._n_beside = np.bincount(self._number)
        both = np.concatenate([clicked, beside])
        self._X = X
        self._lines = shown.take(both)
        self._scores = PairScores(X, shown.queries[both], shown.rows[both])

    def shares(
        self,
        similarity: Rewriter,
        rankings: Sequence[str],
        memory: QueryMemory | None = None,
        plain: Rewriter | None = None,
    ) -> dict[str, np.ndarray]:
        """Return the share of the rows beside each click that are below it; ties count half.

        What is remembered of judged queries is added to the scores; `plain` compares
        queries with those.
        """
        scores = self._scores.scores(similarity, rankings)
        if memory is not None:
            queries, positions = np.unique(self._lines.queries, return_inverse=True)
            known = self._X[queries]
            if plain is not None:
                known = plain.rewrite(known)
            remembered = memory.scores(known)
            added = np.asarray(remembered[positions, self._lines.rows]).ravel()
            scores = {ranking: values + added for ranking, values in scores.items()}
        return {
            ranking: np.bincount(self._number, points_of(*np.split(values, 2)))
            / self._n_beside
            for ranking, values in scores.items()
        }


def pairs_of_lines(shown: ShownRows) -> tuple[np.ndarray, np.ndarray]:
    """Return lines that were clicked and lines of the same event that were not, of other rows.

    Examples
    --------
    >>> shown = ShownRows(*(np.array(c) for c in ([0, 0, 0], [9, 9, 9], [1, 2, 3],
    ...                                           [1.0, 2, 3], [False, True, False])))
    >>> [lines.tolist() for lines in pairs_of_lines(shown)]
    [[1, 1], [0, 2]]
    """
    order = np.argsort(shown.events, kind="stable")
    _, event = np.unique(shown.events[order], return_inverse=True)
    sizes = np.bincount(event)
    first = np.cumsum(sizes) - sizes
    is_clicked = shown.are_clicked[order]
    clicked = np.flatnonzero(is_clicked)
    n_lines = sizes[event[clicked]]
    repeated = np.repeat(clicked, n_lines)
    offset = np.arange(len(repeated)) - np.repeat(np.cumsum(n_lines) - n_lines, n_lines)
    beside = np.repeat(first[event[clicked]], n_lines) + offset
    rows = shown.rows[order]
    is_pair = ~is_clicked[beside] & (rows[beside] != rows[repeated])
    return order[repeated[is_pair]], order[beside[is_pair]]


def position_power(shown: ShownRows) -> float:
    """Return the power of the decay of attention: position r is looked at r to minus it.

    A row that was shown for one query at several positions is as relevant at each, so what
    it is clicked less behind is due to the position: clicks of such a row are fitted by
    their sum times r to minus the power, over that of all its positions. The estimate is
    joined with 1 ± 0.25, which it is where no row moves.

    Examples
    --------
    >>> position = np.tile([1.0, 4.0], 4000)
    >>> is_clicked = np.arange(8000) % 8 < np.where(position == 1, 8, 4)
    >>> rows = np.zeros(8000, dtype=int)
    >>> shown = ShownRows(np.arange(8000), rows, rows, position, is_clicked)
    >>> 0.4 < position_power(shown) < 0.6
    True
    """
    if not len(shown.rows):
        return POWER
    logs = np.log(np.minimum(shown.positions, DEEPEST))
    codes = shown.queries * (shown.rows.max() + 1) + shown.rows
    _, group = np.unique(codes, return_inverse=True)
    clicks = shown.are_clicked.astype(np.float64)
    n_clicks = np.bincount(group, clicks)
    clicked_at = float(clicks @ logs)
    precision = 1.0 / POWER_ERROR**2
    power = POWER
    for _ in range(N_STEPS):
        chances = np.exp(-power * logs)
        total = np.bincount(group, chances)
        mean = np.bincount(group, chances * logs) / total
        squares = np.bincount(group, chances * logs**2) / total
        slope = float(n_clicks @ mean) - clicked_at - precision * (power - POWER)
        curvature = float(n_clicks @ (squares - mean**2).clip(min=0.0)) + precision
        step = slope / curvature
        power = float(np.clip(power + step, 0.0, 3.0 * POWER))
        if abs(step) < TOLERANCE:
            break
    return power


def compare_clicks(
    model: Rewriter,
    X: Any,
    clicks: Judgements | ShownRows,
    *,
    cosine: bool | None = None,
    memory: QueryMemory | None = None,
) -> ErrorComparison:
    """Return the share of rows shown with a click that rank above it, by cosine and learned.

    The weight of a click is 1 over the probability that its position is seen, as
    `position_power` estimates it. Clicks of one query count together.

    Parameters
    ----------
    model : HDSL, Similarity
        Fitted, or another object with ``rewrite(X)``.
    X : array-like or sparse matrix of shape (n_rows, n_features)
    clicks : Judgements or ShownRows
        Of ``hdsl.triplets.choice_triplets``, in rows of X.
    cosine : bool or None, default=None
        Compare by the learned cosine. None follows ``ranking_`` of the model.
    memory : QueryMemory, default=None
        Memory of judged queries, whose documents are the first rows of X: it is added
        to the learned scores.

    Returns
    -------
    ErrorComparison

    Examples
    --------
    >>> from hdsl import HDSL
    >>> from hdsl.triplets import choice_triplets
    >>> X = np.array([[1.0, 0, 1], [0, 1, 1], [2, 0, 0], [0, 3, 0]])
    >>> clicks = choice_triplets([(2, [0, 1], 0), (3, [0, 1], 1)])
    >>> model = HDSL(scale=1.0, prior=1.0).fit(X, triplets=clicks)
    >>> compare_clicks(model, X, clicks).before.share
    0.0
    """
    shown = clicks.shown if isinstance(clicks, Judgements) else clicks
    if shown is None:
        raise ValueError(
            "These judgements lack the rows that were shown: make them with "
            "choice_triplets."
        )
    X = checked_rows(model, X)
    pairs = ClickedPairs(X, shown, position_power(shown))
    if not len(pairs.queries):
        raise ValueError(
            "No event has both a row that was clicked and one that was not: nothing can "
            "be compared."
        )
    ranking = ranking_with(model, cosine)
    learned = as_rewriter(model, X.shape[1], "model")
    plain = PlainCosine(model)
    return ErrorComparison.from_trials(
        before=1.0 - pairs.shares(plain, (PRODUCT,))[PRODUCT],
        after=1.0 - pairs.shares(learned, (ranking,), memory, plain)[ranking],
        sample_weight=pairs.weights,
        groups=pairs.queries,
        supervision="judgements",
    )


def checked_rows(model: Any, X: Any) -> Any:
    """Return X as a CSR array of float64, with the features of the model if it has any.

    With an embedding they are `hdsl.Rows`.
    """
    if compares_embeddings(model):
        if isinstance(model, BaseEstimator):
            X = check_rows(model, X, reset=False)
        return features_as_float64(similarity_of(model).in_blocks(X))
    if has_embedding(X):
        return features_as_float64(as_rows(X))
    if isinstance(model, BaseEstimator):
        X = check_matrix(model, X, reset=False)
    else:
        X = check_matrix(BaseEstimator(), X, reset=True)
    return sp.csr_array(X, dtype=np.float64)


def compares_embeddings(model: Any) -> bool:
    """Return whether a model compares rows by an embedding too."""
    similarity = similarity_of(model)
    if not isinstance(similarity, Similarity):
        return False
    return similarity.n_paired < similarity.n_features


def similarity_of(model: Any) -> Any:
    """Return the similarity of a model, where it has one."""
    similarity = getattr(model, "similarity_", model)
    if isinstance(similarity, Similarity):
        return similarity
    return None
