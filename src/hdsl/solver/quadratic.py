"""The change of weights that minimises a quadratic model of the value over the simplex."""

import numpy as np
from numba import njit

#: Share of the mean curvature that is added to that of each weight, so that atoms that
#: can hardly be told apart do not trade large weights.
RIDGE = 1e-3

#: Scores within this share of the tolerance, and gains within this share of the
#: largest, are equal. A move levels two scores: rounding must not choose which of them
#: leads next.
EQUAL = 1e-6

#: Stands in for a curvature of zero.
TINY = 1e-300


def best_change(
    curvature: np.ndarray, scores: np.ndarray, weights: np.ndarray, tol: float
) -> np.ndarray:
    """Return the change δ of the weights that maximises scores·δ - δᵀ curvature δ / 2.

    No weight becomes negative, and their sum stays. Each step moves weight from one
    atom to the one of largest score, from where that gains most, by as much as is best;
    of equals the first.

    Parameters
    ----------
    curvature : ndarray of shape (n_atoms, n_atoms)
        Symmetric, positive semi-definite. A share of its mean diagonal, `RIDGE`, is
        added.
    scores, weights : ndarray of shape (n_atoms,)
    tol : float
        Stop when scores of atoms with a positive weight are within this of the largest
        one.

    Returns
    -------
    ndarray of shape (n_atoms,)

    Examples
    --------
    >>> best_change(np.eye(2), np.array([0.0, 1.0]), np.array([1.0, 0.0]), 1e-9).round(2).tolist()
    [-0.5, 0.5]
    """
    curvature = np.ascontiguousarray(curvature, dtype=np.float64)
    scores = scores.astype(np.float64)
    weights = weights.astype(np.float64)
    change, sizes, gains = np.zeros((3, len(weights)))
    _move_weights(
        curvature, scores, weights, float(tol), weights.copy(), sizes, gains, change
    )
    return change


@njit(cache=True, nogil=True, error_model="numpy")
def _move_weights(curvature, scores, weights, tol, start, sizes, gains, change):
    """Add the best change to `change`; scores and weights are overwritten.

    The change is summed by itself: as a difference of weights it would be all rounding
    at the end.
    """
    n = weights.size
    ridge = 0.0
    for k in range(n):
        ridge += curvature[k, k]
    ridge *= RIDGE / n
    for _ in range(100 + 20 * n):
        highest = scores[0]
        for k in range(n):
            highest = scores[k] if scores[k] > highest else highest
        best = 0
        worst = 0
        while scores[best] < highest - EQUAL * tol:
            best += 1
        widest = 0.0
        most = 0.0
        at_best = curvature[best, best] + ridge
        for k in range(n):
            lead = scores[best] - scores[k]
            weight = weights[k]
            size = 0.0
            gain = 0.0
            if weight > 0.0 and lead > 0.0:
                widest = lead if lead > widest else widest
                bend = at_best - 2.0 * curvature[best, k] + curvature[k, k] + ridge
                bend = bend if bend > TINY else TINY
                size = lead / bend
                size = size if size < weight else weight
                gain = size * (lead - 0.5 * size * bend)
                most = gain if gain > most else most
            sizes[k] = size
            gains[k] = gain
        while gains[worst] < (1.0 - EQUAL) * most:
            worst += 1
        size = sizes[worst]
        if not widest > tol or best == worst or not size > 0.0:
            break
        weights[best] += size
        change[best] += size
        weights[worst] -= size
        change[worst] -= size
        if weights[worst] <= 0.0:
            weights[worst] = 0.0
            change[worst] = -start[worst]
        for k in range(n):
            scores[k] -= size * (curvature[best, k] - curvature[worst, k])
        scores[best] -= size * ridge
        scores[worst] += size * ridge
