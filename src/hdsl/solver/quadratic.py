"""The change of weights that minimises a quadratic model of the value over the simplex."""

from __future__ import annotations

import numpy as np
from numba import njit

#: Share of the mean curvature that is added to that of each weight, so that atoms that can hardly
#: be told apart do not trade large weights.
RIDGE = 1e-3

#: Scores within this share of the tolerance, and gains within this share of the largest, are equal.
#: A move levels two scores: rounding must not choose which of them leads next.
EQUAL = 1e-6

#: Stands in for a curvature of zero.
TINY = 1e-300


def best_change(
    curvature: np.ndarray, scores: np.ndarray, weights: np.ndarray, tol: float
) -> np.ndarray:
    """Return the change δ of the weights that maximises scores·δ - δᵀ curvature δ / 2.

    No weight becomes negative, and their sum stays. Each step moves weight from one atom to the one
    of largest score, from where that gains most, by as much as is best; of equals the first.

    Parameters
    ----------
    curvature : ndarray of shape (n_atoms, n_atoms)
        Symmetric, positive semi-definite. A share of its mean diagonal, `RIDGE`, is added.
    scores, weights : ndarray of shape (n_atoms,)
    tol : float
        Stop when scores of atoms with a positive weight are within this of the largest one.

    Returns
    -------
    ndarray of shape (n_atoms,)

    Examples
    --------
    >>> best_change(np.eye(2), np.array([0.0, 1.0]), np.array([1.0, 0.0]), 1e-9).round(2).tolist()
    [-0.5, 0.5]
    """
    curvature = np.ascontiguousarray(curvature, dtype=np.float64)
    change = np.zeros(len(weights))
    _move_weights(curvature, scores.astype(np.float64), weights.astype(np.float64), tol, change)
    return change


@njit(cache=True, nogil=True)
def _move_weights(curvature, scores, weights, tol, change):
    """Add the best change to `change`; scores and weights are overwritten.

    The change is summed by itself: as a difference of weights it would be all rounding at the end.
    """
    n = weights.size
    ridge = 0.0
    for k in range(n):
        ridge += curvature[k, k]
    ridge *= RIDGE / n
    start, sizes, gains = weights.copy(), np.zeros(n), np.zeros(n)
    for _ in range(100 + 20 * n):
        highest = scores[0]
        for k in range(n):
            highest = scores[k] if scores[k] > highest else highest
        best = _first_above(scores, highest - EQUAL * tol)
        widest, most = 0.0, 0.0
        row, own = curvature[best], curvature[best, best] + ridge
        for k in range(n):
            lead = scores[best] - scores[k]
            sizes[k] = gains[k] = 0.0
            if weights[k] > 0.0 and lead > 0.0:
                widest = lead if lead > widest else widest
                bend = own - 2.0 * row[k] + curvature[k, k] + ridge
                bend = bend if bend > TINY else TINY
                size = lead / bend if lead / bend < weights[k] else weights[k]
                sizes[k], gains[k] = size, size * (lead - 0.5 * size * bend)
                most = gains[k] if gains[k] > most else most
        worst = _first_above(gains, (1.0 - EQUAL) * most)
        size = sizes[worst]
        if not widest > tol or best == worst or not size > 0.0:
            break
        weights[best] += size
        change[best] += size
        weights[worst] -= size
        change[worst] -= size
        if weights[worst] <= 0.0:
            weights[worst], change[worst] = 0.0, -start[worst]
        other = curvature[worst]
        for k in range(n):
            scores[k] -= size * (row[k] - other[k])
        scores[best] -= size * ridge
        scores[worst] += size * ridge


@njit(cache=True, nogil=True)
def _first_above(values, limit):
    """Return the first place of a value that reaches a limit."""
    for k in range(values.size):
        if values[k] >= limit:
            return k
    return 0
