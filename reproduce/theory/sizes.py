"""Sizes of the data and of the domain, in a norm and its dual."""

from __future__ import annotations

from typing import Any

import numpy as np

from hdsl.input.parameters import check_number, check_word

from .inputs import check_rows, row_sums

#: Norms of Aᵗ, entry by entry: p, and the dual norm of an atom of scale 1. ‖xyᵀ‖ =
#: ‖x‖_p ‖y‖_p.
NORMS = {"max": (np.inf, 4.0), "fro": (2, 2.0), "l1": (1, 1.0)}


def data_bound(X: Any, *, norm: str = "max") -> float:
    """Return B_X of these rows, a bound on ‖x(x' - x'')ᵀ‖ for any three rows of X.

    The paper's B_X covers all rows that can ever come. Where their limits are known,
    use them: B_X is 1 in the norm "max" if all values lie in [0, 1].

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_rows, n_features)
    norm : {"max", "fro", "l1"}, default="max"
        The largest entry, the root of the sum of squares, or the sum of absolute
        values. The spectral norm of xyᵀ equals "fro" and gives, with its dual, the same
        results.

    Returns
    -------
    float
        Tight for "max"; for the others ‖x' - x''‖ is bounded by the norms of x' and
        x''.

    Examples
    --------
    >>> data_bound([[0.0, 2], [1, -1], [0, 0]])
    6.0
    """
    check_word("data_bound", "norm", norm, NORMS)
    X = check_rows(X)
    if norm == "max":
        high = np.ravel(X.max(axis=0).toarray())
        low = np.ravel(X.min(axis=0).toarray())
        return float(abs(X).max() * (high - low).max())
    p, _ = NORMS[norm]
    lengths = np.sort(row_sums(abs(X).power(p)))[-2:]
    # Non-negative rows are at most at a right angle: ‖x' - x''‖² ≤ ‖x'‖² + ‖x''‖².
    root = 1.0 / p
    if X.nnz == 0 or X.min() >= 0:
        difference = lengths.sum() ** root
    else:
        difference = (lengths**root).sum()
    return float(lengths[-1] ** root * difference)


def domain_bound(scale: float, *, norm: str = "max") -> float:
    """Return B_D = sup ‖M‖ over the domain, in the dual of a norm: 4λ for the norm "max".

    A norm is convex, so it is largest at an atom λvvᵀ, v = e_i ± e_j. It is the same at
    all atoms, λ‖v‖² in the norm dual to that of the rows, and does not depend on their
    number.

    Parameters
    ----------
    scale : float
        λ.
    norm : {"max", "fro", "l1"}, default="max"
        Norm of the data, as in `data_bound`; its dual is "l1", "fro" or "max".

    Returns
    -------
    float

    Examples
    --------
    >>> [domain_bound(10.0, norm=norm) for norm in ("max", "fro", "l1")]
    [40.0, 20.0, 10.0]
    """
    check_number("domain_bound", "scale", scale, low=0, strict=True)
    check_word("domain_bound", "norm", norm, NORMS)
    return NORMS[norm][1] * float(scale)
