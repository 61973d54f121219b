"""How many comparisons of rows a similarity gets right."""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..mixed_rows import MixedRows
from .products import check_result, row_products
from .rewriter import Rewriter

#: Pairs of mixed rows whose products are made at a time.
PAIRS_AT_A_TIME = 4096

#: Similarities that differ by less, in relation to their size, are equal up to
#: rounding.
TIE = 1e-12


def comparison_points(
    X: sp.csr_array | MixedRows, triplets: np.ndarray
) -> Callable[[Rewriter], np.ndarray]:
    """Return a function from a similarity to 1 per comparison that holds, 0.5 per tie, else 0.

    Parameters
    ----------
    X : csr_array or MixedRows of shape (n_rows, n_features)
    triplets : ndarray of shape (n_triplets, 3) or (n_quadruplets, 4)
        Rows (a, b, c) say S(a, b) > S(a, c); rows (a, b, c, d) say S(a, b) > S(c, d).
    """
    if triplets.shape[1] == 3:
        triplets = triplets[:, [0, 1, 0, 2]]
    # Each row is rewritten and indexed once, and each distinct pair is scored once.
    lefts, left = np.unique(triplets[:, [0, 2]].T.ravel(), return_inverse=True)
    rights, right = np.unique(triplets[:, [1, 3]].T.ravel(), return_inverse=True)
    pairs, pair = np.unique(left * np.int64(X.shape[0]) + right, return_inverse=True)
    left, right = np.divmod(pairs, X.shape[0])
    queries = X[lefts]
    others = X[rights]

    def points(similarity: Rewriter) -> np.ndarray:
        rewritten = _in_rows(similarity.rewrite(queries))
        indexed = _in_rows(similarity.index_rows(others))
        scores = _products_of_pairs(rewritten, left, indexed, right)
        scores = check_result(scores, "The similarity")[pair]
        larger, smaller = np.split(scores, 2)
        lead = larger - smaller
        tie = TIE * np.maximum(abs(larger), abs(smaller))
        return 0.5 * (1.0 + np.where(abs(lead) <= tie, 0.0, np.sign(lead)))

    return points


def _in_rows(X: Any) -> Any:
    """Return rows in a form that some of them can be taken of."""
    if isinstance(X, MixedRows):
        return X
    return sp.csr_array(X)


def _products_of_pairs(
    X: Any, left: np.ndarray, Y: Any, right: np.ndarray
) -> np.ndarray:
    """Return the dot products of rows of X with rows of Y; an embedding takes much memory."""
    if not isinstance(X, MixedRows):
        return row_products(X[left], Y[right])
    products = np.empty(len(left))
    for start in range(0, len(left), PAIRS_AT_A_TIME):
        pairs = slice(start, start + PAIRS_AT_A_TIME)
        products[pairs] = row_products(X[left[pairs]], Y[right[pairs]])
    return products
