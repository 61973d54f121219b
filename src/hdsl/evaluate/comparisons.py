"""Shares of triplets and quadruplets that hold, for one similarity or against the cosine."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..input.comparisons import check_comparisons, check_weights
from ..mixed_rows import MixedRows
from ..similarity import FixedPart, Similarity
from ..similarity.cosine import LearnedCosine
from ..similarity.judge import comparison_points
from ..similarity.pairwise import as_rewriter
from ..similarity.rewriter import Rewriter
from ..similarity.unlearned import unlearned
from ..solver.atoms import NOTHING
from .errors import ErrorComparison
from .rows import checked_rows


def triplet_accuracy(
    model: Rewriter | None, X: Any, triplets: Any, *, sample_weight: Any = None
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
    points = comparison_points(X, triplets)
    shares = points(as_rewriter(model, X.shape[1], "model"))
    return float(np.average(shares, weights=weights))


def compare_triplets(
    model: Rewriter,
    X: Any,
    triplets: Any,
    *,
    sample_weight: Any = None,
    cosine: bool = False,
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
    cosine : bool, default=False
        Compare by the learned cosine.

    Returns
    -------
    ErrorComparison

    Examples
    --------
    >>> X = np.array([[1.0, 0], [2, 1], [0, 3], [0, 4]])
    >>> nothing = np.empty((0, 3), int), np.empty(0)
    >>> same = Similarity(*nothing, 1.0, (FixedPart("prior", 1.0),), n_features=2)
    >>> compare_triplets(same, X, [[0, 1, 2], [0, 2, 3]]).after.n_wrong
    0.5
    """
    X = checked_rows(model, X)
    triplets = check_comparisons(triplets, X.shape[0])
    weights = check_weights(sample_weight, len(triplets), "triplet")
    learned = as_rewriter(model, X.shape[1], "model")
    if cosine:
        learned = LearnedCosine(learned)
    points = comparison_points(X, triplets)
    return ErrorComparison.from_trials(
        before=1.0 - points(_plain_cosine(X)),
        after=1.0 - points(learned),
        sample_weight=weights,
        groups=triplets[:, 0],
        supervision="judgements",
    )


def _plain_cosine(X: Any) -> Rewriter:
    """Return the cosine of rows before anything is learned."""
    if isinstance(X, MixedRows):
        return LearnedCosine(unlearned(X))
    fixed = (FixedPart("prior", 1.0, norm="l2"),)
    return Similarity(*NOTHING, scale=1.0, fixed=fixed, n_features=X.shape[1])
