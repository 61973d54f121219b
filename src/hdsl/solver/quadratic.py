"""The change of weights that minimises a quadratic model of the value over the simplex."""

from __future__ import annotations

import numpy as np

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
    n, start = len(weights), weights
    change = np.zeros(n)  # not the difference of weights: that would be all rounding at the end
    scores, weights, diagonal = scores.copy(), weights.copy(), curvature.diagonal().copy()
    ridge = RIDGE * float(diagonal.mean())
    diagonal += ridge
    is_empty, twice = weights <= 0.0, 2.0 * curvature
    lead, bend, sizes, gains = np.empty((4, n))
    with np.errstate(over="ignore"):  # a step without curvature is as long as the weight
        for _ in range(100 + 20 * n):
            best = _first_above(scores, _largest(scores) - EQUAL * tol)
            np.subtract(scores[best], scores, out=lead)
            np.maximum(lead, 0.0, out=lead)
            lead[is_empty] = 0.0
            if not _largest(lead) > tol:
                break
            np.subtract(diagonal[best], twice[best], out=bend)
            bend += diagonal
            np.maximum(bend, TINY, out=bend)
            np.divide(lead, bend, out=sizes)
            np.minimum(sizes, weights, out=sizes)
            bend *= sizes  # the gain is sizes * (lead - sizes * bend / 2)
            bend *= 0.5
            np.subtract(lead, bend, out=gains)
            gains *= sizes
            worst = _first_above(gains, (1.0 - EQUAL) * _largest(gains))
            size = float(sizes[worst])
            if best == worst or not size > 0.0:
                break
            weights[best] += size
            change[best] += size
            is_empty[best] = False
            if size < weights[worst]:
                weights[worst] -= size
                change[worst] -= size
            else:
                weights[worst], change[worst], is_empty[worst] = 0.0, -start[worst], True
            np.subtract(curvature[best], curvature[worst], out=lead)
            lead *= size
            scores -= lead
            scores[best] -= size * ridge
            scores[worst] += size * ridge
    return change


_largest = np.maximum.reduce


def _first_above(values: np.ndarray, limit: float) -> int:
    return int((values >= limit).argmax())
