"""The learned similarity as plain arrays: S(x, x') = prior·⟨x, x'⟩ + xᵀMx', M = Σ weight·atom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from .core import atoms as atoms_module
from .core.columns import drop_unused_columns

__all__ = ["Similarity"]


class Rewriter(Protocol):
    """What a search needs of a similarity."""

    def rewrite(self, X: Any) -> Any:
        """Return rows whose dot products with rows y are S(x, y)."""


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

        M is zero outside the features of its atoms and is decomposed on these alone. The cost
        depends on their number, not on n_features.

        Parameters
        ----------
        n_components : int
            Fewer come back if M has fewer atoms or features.

        Returns
        -------
        features : ndarray of shape (n_active,)
        directions : ndarray of shape (n_active, n_components)
            Largest eigenvalue first; the largest entry of each direction is positive.
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
        """Return how many of `n_components` directions exist."""
        return min(n_components, len(self.weights), atoms_module.n_features(self.atoms))

    def transform(self, X: Any, *, n_components: int | None = None) -> Any:
        """Return rows whose dot products are the similarity: components, then sqrt(prior)·X.

        With `n_components` the learned part is the projection on that many leading directions.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            Z = self._transform(X, n_components)
        return check_result(Z, "The transform of X")

    def _transform(self, X: Any, n_components: int | None) -> Any:
        learned = self._learned(X) if n_components is None else self._projected(X, n_components)
        if self.prior == 0:
            return learned
        rest = X * X.dtype.type(np.sqrt(self.prior))
        if sp.issparse(X):
            return sp.hstack([sp.csr_array(learned), rest], format="csr", dtype=X.dtype)
        return np.hstack([learned, rest])

    def _learned(self, X: Any) -> Any:
        """Return X Lᵀ, where L has one row per atom."""
        if sp.issparse(X):
            (rows, L), _ = drop_unused_columns(X, self.components.astype(X.dtype))
            return rows @ L.T
        i, j, sign = self.atoms.T
        root = np.sqrt(self.scale * self.weights)
        return (X[:, i] + X[:, j] * sign.astype(X.dtype)) * root.astype(X.dtype)

    def _projected(self, X: Any, n_components: int) -> np.ndarray:
        """Return the projection of X on the leading directions of M."""
        features, directions = self.directions(n_components)
        if sp.issparse(X):
            (rows, L), _ = drop_unused_columns(X, self.components)
            active = rows[:, np.unique(L.indices)]
        else:
            active = X[:, features]
        return np.asarray(active @ directions.astype(X.dtype))

    def rewrite(self, X: Any) -> Any:
        """Return prior·X + XM, the query side: its dot products with rows y are S(x, y)."""
        with np.errstate(over="ignore", invalid="ignore"):
            # In float64 also for float32 rows: the scale and the prior may not fit in float32.
            Z = self._rewrite(X.astype(np.float64, copy=False)).astype(X.dtype, copy=False)
        return check_result(Z, "The rewritten X")

    def _rewrite(self, X: Any) -> Any:
        rest = X * self.prior
        if not sp.issparse(X):
            return np.asarray(X @ self.matrix()) + rest
        (rows, L), columns = drop_unused_columns(X, self.components)
        learned = sp.csr_array(rows @ (L.T @ L))
        if columns is not None:
            learned.sort_indices()  # SciPy adds unsorted rows in arrays as long as all columns
            arrays = learned.data, columns[learned.indices], learned.indptr
            learned = sp.csr_array(arrays, shape=X.shape)
        return sp.csr_array(learned + rest)

    def pairwise(self, X: Any, Y: Any = None) -> np.ndarray:
        """Return S between all rows of X and all rows of Y, dense."""
        A = self.transform(X)
        B = A if Y is None else self.transform(Y)
        if sp.issparse(A) and sp.issparse(B):
            (A, B), _ = drop_unused_columns(A, B)
        with np.errstate(over="ignore", invalid="ignore"):
            product = A @ B.T
        product = product.toarray() if sp.issparse(product) else np.asarray(product)
        return check_result(product, "The similarity")

    def pair_score(self, X: Any, Y: Any) -> np.ndarray:
        """Return S(x, y) for each row x of X and the row y of Y with the same number."""
        A, B = self.transform(X), self.transform(Y)
        with np.errstate(over="ignore", invalid="ignore"):
            if sp.issparse(A) or sp.issparse(B):
                (A, B), _ = drop_unused_columns(sp.csr_array(A), sp.csr_array(B))
                scores = np.asarray(A.multiply(B).sum(axis=1)).ravel()
            else:
                scores = np.einsum("ij,ij->i", A, B)
        return check_result(scores, "The similarity")


def check_result(Z: Any, what: str) -> Any:
    """Return Z, computed from finite rows; raise ValueError if it overflowed."""
    values = Z.data if sp.issparse(Z) else Z
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum()) or np.isfinite(values).all():
            return Z
    wider = " or pass it as float64" if values.dtype == np.float32 else ""
    raise ValueError(f"{what} is too large for {values.dtype}: scale X to smaller values{wider}.")


def as_rewriter(model: Any, n_features: int, name: str) -> Rewriter:
    """Return the similarity of a model, which needs no column names.

    Parameters
    ----------
    model : HDSL, Similarity or other object with ``rewrite(X)``
    n_features : int
        Number of columns of the rows to compare.
    name : str
        What error messages call the model.
    """
    similarity = getattr(model, "similarity_", model)
    if not hasattr(similarity, "rewrite"):
        raise ValueError(
            f"{name} must be a fitted HDSL, a Similarity or another object with rewrite(X), or "
            f"None for the dot product. Got {model!r} instead."
        )
    learned_on = getattr(similarity, "n_features", n_features)
    if learned_on != n_features:
        raise ValueError(
            f"X has {n_features} features, but the similarity was learned on {learned_on}: use "
            "the same columns."
        )
    return similarity
