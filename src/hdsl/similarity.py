"""What was learned, as plain arrays: S(x, x') = prior·⟨x, x'⟩ + xᵀMx', M = Σ weight·atom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from . import search, user_input
from .core import atoms as atoms_module


@dataclass(frozen=True)
class Similarity:
    """A similarity made of atoms.

    Parameters
    ----------
    atoms : ndarray of shape (n_atoms, 3)
        Rows (i, j, sign), i < j.
    weights : ndarray of shape (n_atoms,)
        Positive, summing to 1.
    scale : float
        λ: M = Σ_k weights_k λ (e_i ± e_j)(e_i ± e_j)ᵀ.
    prior : float
        Weight of the plain dot product.
    n_features : int
    """

    atoms: np.ndarray
    weights: np.ndarray
    scale: float
    prior: float
    n_features: int

    @property
    def components(self) -> sp.csr_array:
        """L with M = LᵀL: rows sqrt(λ weight_k)(e_i ± e_j), shape (n_atoms, n_features)."""
        return atoms_module.factors(self.atoms, np.sqrt(self.scale * self.weights), self.n_features)

    def matrix(self) -> sp.csr_array:
        """Return M, sparse, shape (n_features, n_features)."""
        L = self.components
        return sp.csr_array(L.T @ L)

    def directions(self, n_components: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the leading eigenvectors of M, each times the root of its eigenvalue.

        M is zero outside the features of its atoms, so that is where it is decomposed: the cost
        depends on their number, not on n_features.

        Parameters
        ----------
        n_components : int
            Fewer come back where M has fewer atoms or features.

        Returns
        -------
        features : ndarray of shape (n_active,)
        directions : ndarray of shape (n_active, n_components)
            The largest eigenvalue first; the largest entry of each is positive.
        """
        features, place = np.unique(self.atoms[:, :2], return_inverse=True)
        atoms = np.column_stack([place.reshape(-1, 2), self.atoms[:, 2]])
        L = atoms_module.factors(atoms, np.sqrt(self.scale * self.weights), len(features))
        M = (L.T @ L).toarray()
        n = self.n_directions(n_components)
        values, vectors = scipy.linalg.eigh(M, subset_by_index=[len(M) - n, len(M) - 1])
        values, vectors = values[::-1], vectors[:, ::-1]
        largest = np.abs(vectors).argmax(axis=0)
        signs = np.sign(vectors[largest, np.arange(n)])
        return features, vectors * (signs * np.sqrt(np.maximum(values, 0.0)))

    def n_directions(self, n_components: int) -> int:
        """Return how many of the wanted directions there can be."""
        return min(n_components, len(self.weights), atoms_module.n_features(self.atoms))

    def transform(self, X: Any, *, n_components: int | None = None) -> Any:
        """Return rows whose dot products are the similarity: components, then sqrt(prior)·X.

        With `n_components` the learned part is the projection on so many leading directions.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            Z = self._transform(X, n_components)
        return user_input.check_result(Z, "The transform of X")

    def _transform(self, X: Any, n_components: int | None) -> Any:
        if n_components is not None:
            features, directions = self.directions(n_components)
            if sp.issparse(X):
                (rows, L), _ = search.narrowed(X, self.components)
                learned = rows[:, np.unique(L.indices)] @ directions.astype(X.dtype)
            else:
                learned = X[:, features] @ directions.astype(X.dtype)
            if self.prior == 0:
                return np.asarray(learned)
            rest = X * X.dtype.type(np.sqrt(self.prior))
            if sp.issparse(X):
                return sp.hstack([sp.csr_array(learned), rest], format="csr", dtype=X.dtype)
            return np.hstack([learned, rest])
        i, j, sign = self.atoms.T
        root = np.sqrt(self.scale * self.weights)
        if sp.issparse(X):
            (rows, L), _ = search.narrowed(X, self.components.astype(X.dtype))
            parts = [rows @ L.T]
            if self.prior > 0:
                parts.append(X * X.dtype.type(np.sqrt(self.prior)))
            return sp.hstack(parts, format="csr", dtype=X.dtype) if len(parts) > 1 else parts[0]
        learned = (X[:, i] + X[:, j] * sign.astype(X.dtype)) * root.astype(X.dtype)
        if self.prior > 0:
            return np.hstack([learned, X * X.dtype.type(np.sqrt(self.prior))])
        return learned

    def rewrite(self, X: Any) -> Any:
        """Return prior·X + XM, the query side: its dot products with rows y are S(x, y)."""
        with np.errstate(over="ignore", invalid="ignore"):
            # In float64 also where X is float32, which may not hold the scale and the prior.
            Z = self._rewrite(X.astype(np.float64, copy=False)).astype(X.dtype, copy=False)
        return user_input.check_result(Z, "The rewritten X")

    def _rewrite(self, X: Any) -> Any:
        rest = X * self.prior
        if not sp.issparse(X):
            return np.asarray(X @ self.matrix()) + rest
        (rows, L), columns = search.narrowed(X, self.components)
        learned = sp.csr_array(rows @ (L.T @ L))
        if columns is not None:
            learned.sort_indices()  # SciPy adds sorted rows one by one, others on all columns
            places = learned.data, columns[learned.indices], learned.indptr
            learned = sp.csr_array(places, shape=X.shape)
        return sp.csr_array(learned + rest)

    def pairwise(self, X: Any, Y: Any = None) -> np.ndarray:
        """Return S between all rows of X and all rows of Y, dense."""
        A = self.transform(X)
        B = A if Y is None else self.transform(Y)
        if sp.issparse(A) and sp.issparse(B):
            (A, B), _ = search.narrowed(A, B)
        with np.errstate(over="ignore", invalid="ignore"):
            product = A @ B.T
        product = product.toarray() if sp.issparse(product) else np.asarray(product)
        return user_input.check_result(product, "The similarity")

    def pair_score(self, X: Any, Y: Any) -> np.ndarray:
        """Return S(x, y) for the rows of X and Y side by side."""
        A, B = self.transform(X), self.transform(Y)
        with np.errstate(over="ignore", invalid="ignore"):
            if sp.issparse(A) or sp.issparse(B):
                (A, B), _ = search.narrowed(sp.csr_array(A), sp.csr_array(B))
                scores = np.asarray(A.multiply(B).sum(axis=1)).ravel()
            else:
                scores = np.einsum("ij,ij->i", A, B)
        return user_input.check_result(scores, "The similarity")
