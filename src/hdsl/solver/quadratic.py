"""The change of weights that minimises a quadratic model of the value over the simplex.

It has the one compiled loop outside of ``cpu/kernels``: it is over atoms, not over data,
and the solver imports no machine.
"""

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
    start = weights.astype(np.float64)
    change = np.zeros_like(start)
    _move_weights(
        curvature,
        scores.astype(np.float64),
        start,
        float(tol),
        start.copy(),
        np.empty_like(start),
        np.empty_like(start),
        change,
    )
    return change


@njit(cache=True, nogil=True, error_model="numpy")
def _move_weights(curvature, scores, start, tol, weights, sizes, gains, change):
    """Add the best change of the weights `start` to `change`.

    The change is summed by itself: as a difference of weights it would be all rounding
    at the end. `weights` begins as a copy of `start`; it, scores, sizes and gains are
    overwritten. Array methods, ``min`` and ``max`` would take longer to compile than
    the rest.
    """
    n = start.size
    ridge = 0.0
    for k in range(n):
        ridge += curvature[k, k]
    ridge *= RIDGE / n
    for _ in range(100 + 20 * n):
        best = _first_from(scores, _largest(scores) - EQUAL * tol)
        is_even = True
        curvature_of_best = curvature[best, best] + ridge
        for k in range(n):
            size = 0.0
            gain = 0.0
            lead = scores[best] - scores[k]
            if weights[k] > 0.0 and lead > 0.0:
                is_even &= not lead > tol
                bend = curvature_of_best - 2.0 * curvature[best, k]
                bend = bend + curvature[k, k] + ridge
                if not bend > TINY:
                    bend = TINY
                size = lead / bend
                if size > weights[k]:
                    size = weights[k]
                gain = size * (lead - 0.5 * size * bend)
            sizes[k] = size
            gains[k] = gain
        worst = _first_from(gains, (1.0 - EQUAL) * _largest(gains))
        size = sizes[worst]
        if is_even or best == worst or not size > 0.0:
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


@njit(cache=True, nogil=True, error_model="numpy")
def _largest(values):
    """Return the largest value."""
    largest = values[0]
    for k in range(1, values.size):
        if values[k] > largest:
            largest = values[k]
    return largest


@njit(cache=True, nogil=True, error_model="numpy")
def _first_from(values, least):
    """Return the number of the first value that is not below a bound."""
    k = 0
    while values[k] < least:
        k += 1
    return k
