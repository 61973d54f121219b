"""How far ``storage="float32"`` can move the margins, the objective and the gap of a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from hdsl import checks
from hdsl.similarity import Similarity
from hdsl.solver import losses

from .inputs import check_rows, row_sums

if TYPE_CHECKING:
    from hdsl.hdsl import HDSL

#: Most by which rounding to float32 changes a product of two values, relative to it: 2⁻²³ + 2⁻⁴⁸,
#: and a thousandth more for the rounding of the sums, in float64.
PRODUCT_ROUNDING = 1.001 * 2.0**-23

#: Comparisons whose margins are computed at once.
BLOCK = 1 << 16


class StorageBound(NamedTuple):
    """Bounds on what changes where the values of X are rounded to float32.

    Attributes
    ----------
    margins : ndarray of shape (n_comparisons,)
        Of the change of each margin of the model.
    objective : float
        Of the change of the objective at the model.
    gradient : float
        Of the change of every entry of the gradient at the model.
    gap : float
        Of the change of the duality gap of the model. A gap that was certified on rounded values
        plus this bounds how far the model is from the minimum on X as given.
    """

    margins: np.ndarray
    objective: float
    gradient: float
    gap: float


def storage_bound(
    model: HDSL, X: Any, comparisons: Any, *, sample_weight: Any = None
) -> StorageBound:
    """Return how far ``storage="float32"`` can move the margins, objective and gap of a model.

    The proof is on the page about theory.

    Parameters
    ----------
    model : HDSL
        Fitted, with either storage.
    X : array-like or sparse matrix of shape (n_rows, n_features)
        Before it is rounded.
    comparisons : array-like of int of shape (n, 3) or (n, 4)
        Triplets or quadruplets of rows of X. `hdsl.triplets.neighbor_triplets` makes those that
        ``fit(X, y)`` learns from.
    sample_weight : array-like of shape (n,), default=None
        Weights of the comparisons.

    Returns
    -------
    StorageBound

    Examples
    --------
    >>> from hdsl import HDSL
    >>> X = np.array([[0.8, 0.6, 0.0], [0.9, 0.0, 0.4], [0.0, 0.7, 0.7]])
    >>> model = HDSL(storage="float32").fit(X, triplets=[[0, 1, 2]])
    >>> storage_bound(model, X, [[0, 1, 2]]).objective < 1e-6
    True
    """
    check_is_fitted(model, "atoms_")
    X = check_rows(X, model)
    compared = checks.check_comparisons(comparisons, X.shape[0], "comparisons")
    weights = checks.check_weights(sample_weight, len(compared), "comparison")
    weights = np.ones(len(compared)) if weights is None else weights
    weights = weights / weights.sum()
    loss = losses.checked(losses.get(model.loss))
    rows = sp.csr_array(model.similarity_.index_rows(X))
    a, b, *others = compared.T
    c, d = others if len(others) == 2 else (a, *others)

    # S(x_a, x_b) moves by at most |x_a|ᵀ|M||x_b| ≤ length_a length_b, times the rounding.
    size = Similarity(
        np.abs(model.atoms_), model.weights_, model.scale_, model.prior_, model.n_features_in_
    )
    length = np.sqrt(row_sums(sp.csr_array(size.transform(abs(rows))).power(2)))
    reach = length[a] * length[b] + length[c] * length[d]
    moved = PRODUCT_ROUNDING * reach

    margin = _margins(sp.csr_array(model.similarity_.transform(X)), a, b, c, d)
    low, slope, high = (loss.derivative(margin + by) for by in (-moved, 0.0, moved))
    steepest = np.maximum(np.abs(low), np.abs(high))
    bend = np.maximum(slope - low, high - slope)  # the derivative of a convex loss rises
    largest = abs(rows).max(axis=1).toarray().ravel()
    entry = largest[a] * largest[b] + largest[c] * largest[d]
    pull = weights * (bend * (1.0 + PRODUCT_ROUNDING) + np.abs(slope) * PRODUCT_ROUNDING)
    gradient = float(pull @ entry)
    gap = 4.0 * model.scale_ * gradient + float(pull @ reach)  # of the best atom, and of the model
    return StorageBound(moved, float(weights @ (steepest * moved)), gradient, gap)


def _margins(Z: sp.csr_array, *rows: np.ndarray) -> np.ndarray:
    """Return S(a, b) - S(c, d), where dot products of the rows of Z are S."""
    out = np.empty(len(rows[0]))
    for start in range(0, len(out), BLOCK):
        a, b, c, d = (part[start : start + BLOCK] for part in rows)
        out[start : start + BLOCK] = row_sums(Z[a] * Z[b]) - row_sums(Z[c] * Z[d])
    return out
