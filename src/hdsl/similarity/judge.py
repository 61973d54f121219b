"""How many comparisons of rows a similarity gets right."""

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp

from .products import check_result, row_products
from .rewriter import Rewriter

#: Similarities that differ by less, in relation to their size, are equal up to
#: rounding.
TIE = 1e-12


def comparison_points(
    X: sp.csr_array, triplets: np.ndarray
) -> Callable[[Rewriter], np.ndarray]:
    """Return a function from a similarity to 1 per comparison that holds, 0.5 per tie, else 0.

    Parameters
    ----------
    X : csr_array of shape (n_rows, n_features)
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
        rewritten = sp.csr_array(similarity.rewrite(queries))
        indexed = sp.csr_array(similarity.index_rows(others))
        scores = row_products(rewritten[left], indexed[right])
        scores = check_result(scores, "The similarity")[pair]
        larger, smaller = np.split(scores, 2)
        lead = larger - smaller
        tie = TIE * np.maximum(abs(larger), abs(smaller))
        return 0.5 * (1.0 + np.where(abs(lead) <= tie, 0.0, np.sign(lead)))

    return points
