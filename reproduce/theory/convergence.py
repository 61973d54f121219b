"""How fast the method converges."""

from __future__ import annotations

from typing import Any

import numpy as np

from hdsl.input.labels import check_comparisons, check_weights
from hdsl.input.parameters import check_number, check_word
from hdsl.solver import losses

from .inputs import as_number, check_counts, check_rows, row_sums

#: Triplets whose rows are copied side by side at a time.
BLOCK = 1 << 13


def lipschitz_constant(
    X: Any,
    triplets: Any,
    *,
    loss: str = "smoothed_hinge",
    sample_weight: Any = None,
    form: str = "sharp",
) -> float:
    """Return L of Proposition 1: how much the gradient of the objective can change.

    The printed L is the mean of ‖Aᵗ‖²_F = ‖x‖² ‖y‖², y = x' - x'', times the largest
    curvature of the loss (1 for the smoothed hinge). The sharp one is never larger and
    also valid: the proof needs only that the mean of ⟨Aᵗ, B - B'⟩² is at most 8Lλ² for
    any two atoms B and B', whose distance is at most √8 λ. For an atom and 0 it is at
    most 4Lλ². L is the smaller of two:

    - B - B' is symmetric, so only the symmetric part of Aᵗ counts: (‖x‖²‖y‖² + ⟨x,
      y⟩²)/2.
    - ⟨Aᵗ, B⟩ = λ(x_i ± x_j)(y_i ± y_j). By the inequalities of Cauchy-Schwarz and
      Minkowski its mean square is at most λ²(a_i + a_j)²(b_i + b_j)², where a_i and b_i
      are the fourth roots of the means of x_i⁴ and y_i⁴; that of ⟨Aᵗ, B - B'⟩ is at
      most 4 times the largest. So L = (a + a')²(b + b')²/2 with the two largest of
      each. It is small where features are rare.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_rows, n_features)
    triplets : array-like of int of shape (n_triplets, 3)
    loss : {"smoothed_hinge", "squared_hinge", "logistic", "exponential"}
        The largest curvature of the exponential loss makes its L too large to be of
        use.
    sample_weight : array-like of shape (n_triplets,), default=None
    form : {"sharp", "printed"}, default="sharp"

    Returns
    -------
    float

    Examples
    --------
    >>> X, triplets = np.eye(4), [[0, 1, 2], [3, 2, 1]]
    >>> lipschitz_constant(X, triplets, form="printed"), lipschitz_constant(X, triplets)
    (2.0, 1.0)
    """
    owner = "lipschitz_constant"
    check_word(owner, "loss", loss, losses.LOSSES)
    check_word(owner, "form", form, ("sharp", "printed"))
    X = check_rows(X)
    triplets = check_comparisons(triplets, X.shape[0], width=3)
    weights = check_weights(sample_weight, len(triplets), "triplet")
    if weights is None:
        weights = np.ones(len(triplets))
    weights = weights / weights.sum()
    norms = 0.0
    symmetric = 0.0
    anchors = np.zeros(X.shape[1])
    others = np.zeros(X.shape[1])
    for start in range(0, len(triplets), BLOCK):
        a, p, q = triplets[start : start + BLOCK].T
        w = weights[start : start + BLOCK]
        x = X[a]
        y = X[p] - X[q]
        product = row_sums(x.power(2)) * row_sums(y.power(2))
        norms += float(w @ product)
        symmetric += float(w @ (product + row_sums(x * y) ** 2)) / 2
        anchors += w @ x.power(4)
        others += w @ y.power(4)
    curvature = losses.LOSSES[loss].smoothness
    if form == "printed":
        return curvature * norms
    moments = 0.5 * (_two_largest(anchors**0.25) * _two_largest(others**0.25)) ** 2
    return curvature * min(symmetric, moments)


def convergence_bound(k: Any, scale: float, lipschitz: float) -> Any:
    """Return 16Lλ²/(k + 2), the most that f(M) - min f can be after k iterations (Proposition 1).

    For forward steps with the exact oracle on all triplets, with line search or 2/(k +
    2). Away steps that drop an atom do not count as iterations. The bound holds with a
    prior as well.

    Parameters
    ----------
    k : int or array-like of int, at least 1
    scale : float
        λ.
    lipschitz : float
        L, see `lipschitz_constant`.

    Returns
    -------
    float or ndarray, as k

    Examples
    --------
    >>> convergence_bound([6, 14], scale=2.0, lipschitz=0.5)
    array([4., 2.])
    """
    owner = "convergence_bound"
    k = check_counts(owner, "k", k, low=1)
    check_number(owner, "scale", scale, low=0, strict=True)
    check_number(owner, "lipschitz", lipschitz, low=0)
    return as_number(16.0 * lipschitz * scale**2 / (k + 2.0))


def _two_largest(values: np.ndarray) -> float:
    return float(np.sort(values)[-2:].sum())
