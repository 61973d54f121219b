"""The learned similarity as plain arrays: S(x, x') = prior·⟨x, x'⟩ + xᵀMx', M = Σ weight·atom."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..input.matrices import as_rows
from ..solver import atoms as atoms_module
from ..solver.columns import drop_unused_columns
from .products import check_result, products, row_products
from .rows import lengths_from_squares, unit_rows

#: Rows of the largest matrix M in CSR format, whose row pointers take 1 GiB.
MAX_CSR_ROWS = 2**27


@dataclass(frozen=True)
class Similarity:
    """A similarity made of atoms.

    Parameters
    ----------
    atoms : ndarray of shape (n_atoms, 3)
        Rows (i, j, sign), i < j.
    weights : ndarray of shape (n_atoms,)
        Positive, summing to at most 1.
    scale : float
        λ: M = Σ_k weights_k λ (e_i ± e_j)(e_i ± e_j)ᵀ.
    prior : float
        Weight of the plain dot product.
    n_features : int
    norm : {"l2", None}, default=None
        "l2" compares rows at unit length.
    columns : ndarray, default=None
        Columns that count in the length of a row, sorted; None is all.
    """

    atoms: np.ndarray
    weights: np.ndarray
    scale: float
    prior: float
    n_features: int
    norm: str | None = None
    columns: np.ndarray | None = None

    def __post_init__(self) -> None:
        if not atoms_module.are_atoms(
            np.reshape(self.atoms, (-1, 3)).T, self.n_features
        ).all():
            raise ValueError(
                f"An atom is no (i, j, sign) with i < j < {self.n_features}."
            )

    def index_rows(self, X: Any) -> Any:
        """Return rows as S compares them; their dot products with ``rewrite`` of x are S(x, y)."""
        X = as_rows(X)
        if X.shape[1] != self.n_features:
            raise ValueError(
                f"X has {X.shape[1]} columns, expected {self.n_features}, as learned."
            )
        return X if self.norm is None else unit_rows(X, self.columns)

    @property
    def components(self) -> sp.csr_array:
        """L with M = LᵀL: rows sqrt(λ weight_k)(e_i ± e_j), shape (n_atoms, n_features)."""
        return atoms_module.factors(
            self.atoms, np.sqrt(self.scale * self.weights), self.n_features
        )

    def matrix(self) -> sp.csr_array | sp.coo_array:
        """Return M, sparse, shape (n_features, n_features).

        The format is CSR, and COO for more than 2**27 features: CSR stores a number per
        row.
        """
        if self.n_features > MAX_CSR_ROWS:
            i, j, values = self.entries()
            off = i != j
            at = np.concatenate([i, j[off]]), np.concatenate([j, i[off]])
            values = np.concatenate([values, values[off]])
            return sp.coo_array((values, at), shape=(self.n_features,) * 2)
        L = self.components
        return sp.csr_array(L.T @ L)

    def entries(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the upper triangle of M with its diagonal: i <= j and values, sorted by i and j.

        Entries of 0 are left out. The cost depends on the number of atoms alone.
        """
        features, place = np.unique(self.atoms[:, :2], return_inverse=True)
        i, j = place.reshape(-1, 2).T
        values = self.scale * self.weights
        rows = np.concatenate([i, i, j])
        columns = np.concatenate([j, i, j])
        all_values = np.concatenate([values * self.atoms[:, 2], values, values])
        M = sp.coo_array((all_values, (rows, columns)), (len(features),) * 2).tocsr()
        M.eliminate_zeros()  # an atom with a plus and one with a minus may cancel
        M = M.tocoo()
        return features[M.row], features[M.col], M.data

    def transform(self, X: Any) -> Any:
        """Return rows whose dot products are the similarity: components, then sqrt(prior)·X."""
        X = self.index_rows(X)
        with np.errstate(over="ignore", invalid="ignore"):
            Z = self.learned(X)
            if self.prior != 0:
                rest = X * X.dtype.type(np.sqrt(self.prior))
                Z = (
                    sp.hstack([Z, rest], format="csr")
                    if sp.issparse(X)
                    else np.hstack([Z, rest])
                )
        return check_result(Z, "The transform of X")

    def learned(self, X: Any) -> Any:
        """Return X Lᵀ, where L has one row per atom."""
        if sp.issparse(X):
            (rows, L), _ = drop_unused_columns(X, self.components.astype(X.dtype))
            return rows @ L.T
        i, j, sign = self.atoms.T
        root = np.sqrt(self.scale * self.weights)
        return (X[:, i] + X[:, j] * sign.astype(X.dtype)) * root.astype(X.dtype)

    def rewrite(self, X: Any) -> Any:
        """Return prior·X + XM, the query side: its dot products with rows y are S(x, y).

        With a norm, x and y are rows at unit length: see ``index_rows``.
        """
        X = self.index_rows(X)
        with np.errstate(over="ignore", invalid="ignore"):
            # In float64 also for float32 rows: the scale and the prior may not fit in
            # float32.
            Z = self._rewrite(X.astype(np.float64, copy=False)).astype(
                X.dtype, copy=False
            )
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

    def own_lengths(self, X: Any) -> np.ndarray:
        """Return sqrt(S(x, x)) of each row, 1 for a row without."""
        rows = self.index_rows(X).astype(np.float64, copy=False)
        learned = self.learned(rows)
        squares = row_products(learned, learned)
        if self.prior != 0:
            squares = squares + self.prior * row_products(rows, rows)
        return lengths_from_squares(squares)

    def pairwise(self, X: Any, Y: Any = None, *, cosine: bool = False) -> np.ndarray:
        """Return S between all rows of X and all rows of Y, or its cosine, dense."""
        A = self._embed(X, cosine)
        B = A if Y is None else self._embed(Y, cosine)
        return check_result(products(A, B), "The similarity")

    def _embed(self, X: Any, cosine: bool) -> Any:
        """Return rows whose dot products are S or its cosine."""
        return unit_rows(self.transform(X)) if cosine else self.transform(X)

    def pair_score(self, X: Any, Y: Any, *, cosine: bool = False) -> np.ndarray:
        """Return S(x, y), or its cosine, for rows of X and Y with the same number."""
        scores = row_products(self._embed(X, cosine), self._embed(Y, cosine))
        return check_result(scores, "The similarity")
