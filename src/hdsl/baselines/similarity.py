"""The similarity that the methods learn: a matrix on some features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..similarity import products, row_products


@dataclass(frozen=True)
class BilinearSimilarity:
    """S(x, x') = xᵀWx', W a matrix on some features and a multiple of the identity on the rest.

    Parameters
    ----------
    matrix : ndarray or sparse array of shape (n_listed, n_listed)
        W on the listed features. It need be neither symmetric nor positive definite.
    features : ndarray of shape (n_listed,)
        Their numbers.
    rest : float
        Diagonal of W elsewhere.
    n_features : int

    Examples
    --------
    >>> similarity = BilinearSimilarity(np.array([[0.0, 2], [1, 0]]), np.array([0, 2]), 3.0, 3)
    >>> similarity.rewrite(np.array([[1.0, 1, 0]])).tolist()
    [[0.0, 3.0, 2.0]]
    """

    matrix: Any
    features: np.ndarray
    rest: float
    n_features: int

    def rewrite(self, X: Any) -> Any:
        """Return XW, the query side: its dot products with rows y are S(x, y)."""
        listed = X[:, self.features]
        if not sp.issparse(X):
            out = self.rest * np.asarray(X, dtype=np.float64)
            out[:, self.features] = listed @ self.matrix
            return out
        shape = (len(self.features), self.n_features)
        k = np.arange(shape[0])
        place = sp.csr_array((np.ones(shape[0]), (k, self.features)), shape=shape)
        out = sp.csr_array(listed @ self.matrix) @ place
        return out if self.rest == 0 else sp.csr_array(out + self.rest * (X - listed @ place))

    def pairwise(self, X: Any, Y: Any = None) -> np.ndarray:
        """Return S between all rows of X and all rows of Y (X where None), dense."""
        return products(self.rewrite(X), X if Y is None else Y)

    def pair_score(self, X: Any, Y: Any) -> np.ndarray:
        """Return S(x, y) for the rows of X and Y side by side, shape (n_rows,)."""
        return row_products(self.rewrite(X), Y)
