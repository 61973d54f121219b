"""The similarity: S(x, y) = Σ fixed parts + xᵀMy + zᵀWz', where M and W are learned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..input.matrices import as_rows
from ..rows import (
    Rows,
    features_as_float64,
    lengths_from_squares,
    sparse_block,
    split_columns,
    unit_rows,
)
from ..solver import atoms as atoms_module
from ..solver.atoms import NOTHING
from ..wide_matrices import drop_unused_columns
from .fixed import FixedPart, cover_columns, parts_of_rows
from .products import check_result, dense_row_products, products, row_products

#: Rows of the largest matrix M in CSR format, whose row pointers take 1 GiB.
MAX_CSR_ROWS = 2**27


@dataclass(frozen=True, repr=False)
class Similarity:
    """A similarity made of atoms, on top of fixed parts.

    Parameters
    ----------
    atoms : ndarray of shape (n_atoms, 3)
        Rows (i, j, sign), i < j.
    weights : ndarray of shape (n_atoms,)
        Positive, summing to at most 1.
    scale : float
        λ: M = Σ_k weights_k λ (e_i ± e_j)(e_i ± e_j)ᵀ.
    fixed : tuple of FixedPart
        What is not learned, such as ``(FixedPart("prior", 4.0, norm="l2"),)``. The
        blocks of the parts follow each other and cover all columns. At most one, the
        last, is a dense embedding.
    n_features : int
    directions : ndarray of shape (n_directions, width), default=None
        V of the part W = VᵀV that is learned inside the embedding; None is W = 0.
    """

    atoms: np.ndarray
    weights: np.ndarray
    scale: float
    fixed: tuple[FixedPart, ...]
    n_features: int
    directions: np.ndarray | None = None

    def __post_init__(self) -> None:
        if not cover_columns(self.fixed, self.n_features):
            raise ValueError(
                f"The blocks of the fixed parts must follow each other and cover "
                f"{self.n_features} columns. Got {self.fixed}."
            )
        if any(fixed_part.is_dense for fixed_part in self.fixed[:-1]):
            raise ValueError(
                f"At most the last fixed part may be dense. Got {self.fixed}."
            )
        atoms = np.reshape(self.atoms, (-1, 3))
        if not atoms_module.are_atoms(atoms.T, self.n_paired).all():
            raise ValueError(
                f"An atom is no (i, j, sign) with i < j < {self.n_paired}."
            )
        shape = self._factor.shape
        if self.has_directions and shape[1:] != (self.n_features - self.n_paired,):
            raise ValueError(
                f"directions has shape {shape}, expected a row of the "
                f"{self.n_features - self.n_paired} columns of the embedding each."
            )

    def __repr__(self) -> str:
        parts = [
            f"{fixed_part.name} {fixed_part.weight:.4g}" for fixed_part in self.fixed
        ]
        directions = ""
        if self.has_directions:
            directions = f", {len(self._factor):,} directions of the embedding"
        return (
            f"<Similarity: {len(self.weights):,} atoms of {self.n_features:,} "
            f"features, scale {self.scale:.4g}, {', '.join(parts)}{directions}>"
        )

    # --- rows -------------------------------------------------------------------------

    @property
    def takes_rows_as_they_are(self) -> bool:
        """Whether ``index_rows`` changes no row: no part has a norm."""
        return all(fixed_part.norm is None for fixed_part in self.fixed)

    @property
    def n_paired(self) -> int:
        """Number of columns that atoms may name: all but those of a dense embedding."""
        if self.fixed[-1].is_dense:
            return self.fixed[-1].start
        return self.n_features

    @property
    def has_directions(self) -> bool:
        """Whether something is learned inside the embedding."""
        return len(self._factor) > 0

    @property
    def _factor(self) -> np.ndarray:
        """V of the part VᵀV inside the embedding; without rows if nothing is learned there."""
        if self.directions is None:
            return np.zeros((0, self.n_features - self.n_paired))
        return self.directions

    @property
    def embedding_weight(self) -> float:
        """The weight of the embedding beside the features, 0 without one."""
        if self.n_paired == self.n_features or not self.fixed[0].weight:
            return 0.0
        return self.fixed[-1].weight / self.fixed[0].weight

    def in_blocks(self, X: Any) -> Any:
        """Return checked rows as they are stored: mixed where a fixed part is dense."""
        X = as_rows(X)
        if X.shape[1] != self.n_features:
            raise ValueError(
                f"X has {X.shape[1]} columns, expected {self.n_features}, as learned."
            )
        if self.n_paired == self.n_features:
            return X
        return split_columns(X, self.n_paired)

    def index_rows(self, X: Any) -> Any:
        """Return rows as S compares them, each block as its fixed part compares it.

        Their dot products with ``rewrite`` of x are S(x, y).
        """
        X = self.in_blocks(X)
        return _side_by_side([fixed_part.rows(X) for fixed_part in self.fixed])

    def blended_rows(self, X: Any) -> Any:
        """Return rows that are compared as before learning: words and weighed embedding.

        Their dot products are those of the fixed parts over the weight of the first.
        Rows without an embedding stay as they are; one without a weight is left out.
        """
        if self.n_paired == self.n_features:
            return X
        rows = self.index_rows(X)
        if not isinstance(rows, Rows):
            return rows
        if not self.embedding_weight:
            return rows.sparse
        return rows.with_embedding_weight(self.embedding_weight)

    def transform(self, X: Any) -> Any:
        """Return rows whose dot products are the similarity.

        The components of the atoms come first, then sqrt(weight) · block of each fixed
        part that has a weight, and at the end those of the embedding along the learned
        directions.
        """
        X = self.index_rows(X)
        with np.errstate(over="ignore", invalid="ignore"):
            blocks = [self.learned(X)]
            for fixed_part in self.fixed:
                if fixed_part.weight != 0:
                    root = np.sqrt(fixed_part.weight)
                    blocks.append(_times(fixed_part.block(X), root))
            if self.has_directions:
                blocks.append(self.along_directions(X))
            Z = _side_by_side(blocks)
        return check_result(Z, "The transform of X")

    def learned(self, X: Any) -> Any:
        """Return X Lᵀ, where L has one row per atom; columns of an embedding have no part."""
        X = sparse_block(X)
        if sp.issparse(X):
            L = self._components_of(X.shape[1]).astype(X.dtype)
            (rows, L), _ = drop_unused_columns(X, L)
            return rows @ L.T
        i, j, sign = self.atoms.T
        root = np.sqrt(self.scale * self.weights)
        return (X[:, i] + X[:, j] * sign.astype(X.dtype)) * root.astype(X.dtype)

    def along_directions(self, X: Any) -> np.ndarray:
        """Return ZVᵀ of the embedding Z of rows as S compares them, in its dtype."""
        Z = self.fixed[-1].block(X)
        return Z @ self._factor.astype(Z.dtype).T

    def rewrite(self, X: Any) -> Any:
        """Return the query side: its dot products with rows y are S(x, y).

        It is XM + weight · block of each fixed part, plus ZW of an embedding Z, for
        rows X as S compares them: see ``index_rows``.
        """
        X = self.index_rows(X)
        with np.errstate(over="ignore", invalid="ignore"):
            # In float64 also for float32 rows: the scale and the weights may not fit in
            # float32.
            rows = features_as_float64(X)
            fixed = [
                _times(fixed_part.block(rows), fixed_part.weight)
                for fixed_part in self.fixed
            ]
            Z = self._plus_learned(rows, _side_by_side(fixed))
            Z = _with_dtypes_of(X, Z)
        return check_result(Z, "The rewritten X")

    def _plus_learned(self, X: Any, fixed: Any) -> Any:
        """Return XM and ZW plus what fixed parts rewrite X to."""
        if isinstance(X, Rows):
            sparse = self._times_matrix(X.sparse) + fixed.sparse
            dense = fixed.dense
            if self.has_directions:
                Y = self.along_directions(X)
                dense = dense + Y @ self._factor.astype(Y.dtype)
            return Rows(sparse, dense)
        return self._times_matrix(X) + fixed

    def _times_matrix(self, X: Any) -> Any:
        """Return XM."""
        if not sp.issparse(X):
            return np.asarray(X @ self.matrix())
        (rows, L), columns = drop_unused_columns(X, self._components_of(X.shape[1]))
        learned = sp.csr_array(rows @ (L.T @ L))
        if columns is None:
            return learned
        # SciPy adds unsorted rows in arrays as long as all columns.
        learned.sort_indices()
        arrays = (learned.data, columns[learned.indices], learned.indptr)
        return sp.csr_array(arrays, shape=X.shape)

    # --- the learned matrix -----------------------------------------------------------

    @property
    def components(self) -> sp.csr_array:
        """L with M = LᵀL: rows sqrt(λ weight_k)(e_i ± e_j), shape (n_atoms, n_features)."""
        return self._components_of(self.n_features)

    def _components_of(self, n_columns: int) -> sp.csr_array:
        """Return L for rows of so many columns, which are all or those that atoms may name."""
        roots = np.sqrt(self.scale * self.weights)
        return atoms_module.factors(self.atoms, roots, n_columns)

    def embedding_matrix(self) -> np.ndarray:
        """Return W, dense, of shape (width, width)."""
        V = self._factor
        return V.T @ V

    def matrix(self) -> sp.csr_array | sp.coo_array:
        """Return M, sparse, shape (n_features, n_features).

        The format is CSR, and COO for more than 2**27 features: CSR stores a number per
        row.
        """
        if self.n_features <= MAX_CSR_ROWS:
            L = self.components
            return sp.csr_array(L.T @ L)
        i, j, upper = self.entries()
        off = i != j
        rows = np.concatenate([i, j[off]])
        columns = np.concatenate([j, i[off]])
        values = np.concatenate([upper, upper[off]])
        shape = (self.n_features, self.n_features)
        return sp.coo_array((values, (rows, columns)), shape=shape)

    def entries(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the upper triangle of M with its diagonal: i <= j, and values, sorted.

        Entries of 0 are left out. The cost depends on the number of atoms alone.
        """
        features, positions = np.unique(self.atoms[:, :2], return_inverse=True)
        i, j = positions.reshape(-1, 2).T
        values = self.scale * self.weights
        rows = np.concatenate([i, i, j])
        columns = np.concatenate([j, i, j])
        all_values = np.concatenate([values * self.atoms[:, 2], values, values])
        shape = (len(features), len(features))
        M = sp.coo_array((all_values, (rows, columns)), shape).tocsr()
        M.eliminate_zeros()  # an atom with a plus and one with a minus may cancel
        M = M.tocoo()
        return features[M.row], features[M.col], M.data

    # --- scores -----------------------------------------------------------------------

    def own_lengths(self, X: Any) -> np.ndarray:
        """Return sqrt(S(x, x)) of each row, 1 for a row without."""
        rows = features_as_float64(self.index_rows(X))
        with np.errstate(over="ignore", invalid="ignore"):
            squares = self._own_products(rows)
        return lengths_from_squares(check_result(squares, "The length of a row of X"))

    def _own_products(self, rows: Any) -> np.ndarray:
        """Return S(x, x) of rows as S compares them; infinite where float64 ends."""
        learned = self.learned(rows)
        squares = row_products(learned, learned)
        for fixed_part in self.fixed:
            if fixed_part.weight != 0:
                block = fixed_part.block(rows)
                if fixed_part.is_dense:
                    own_products = dense_row_products(block, block)
                else:
                    own_products = row_products(block, block)
                squares = squares + fixed_part.weight * own_products
        if self.has_directions:
            along = self.along_directions(rows)
            squares = squares + dense_row_products(along, along)
        return squares

    def pairwise(self, X: Any, Y: Any = None, *, cosine: bool = False) -> np.ndarray:
        """Return S between all rows of X and all rows of Y, or its cosine, dense."""
        left = self._embed(X, cosine)
        right = left
        if Y is not None:
            right = self._embed(Y, cosine)
        return check_result(products(left, right), "The similarity")

    def pair_score(self, X: Any, Y: Any, *, cosine: bool = False) -> np.ndarray:
        """Return S(x, y), or its cosine, for rows of X and Y with the same number."""
        scores = row_products(self._embed(X, cosine), self._embed(Y, cosine))
        return check_result(scores, "The similarity")

    def _embed(self, X: Any, cosine: bool) -> Any:
        """Return rows whose dot products are S or its cosine."""
        if cosine:
            return unit_rows(self.transform(X))
        return self.transform(X)


def _times(block: Any, factor: float) -> Any:
    """Return a block times a factor, in the dtype of the block."""
    return block * block.dtype.type(factor)


def _with_dtypes_of(X: Any, Z: Any) -> Any:
    """Return Z with the dtype of X, each block with its own."""
    if isinstance(X, Rows):
        sparse = Z.sparse.astype(X.sparse.dtype, copy=False)
        return Rows(sparse, Z.dense.astype(X.dense.dtype, copy=False))
    return Z.astype(X.dtype, copy=False)


def _side_by_side(blocks: list[Any]) -> Any:
    """Return the columns of all blocks as one matrix, sparse where the blocks are.

    Dense blocks that follow sparse ones are an embedding beside them.
    """
    if len(blocks) == 1:
        return blocks[0]
    n_sparse = sum(map(sp.issparse, blocks))
    if not n_sparse:
        return np.hstack(blocks)
    sparse = blocks[0]
    if n_sparse > 1:
        sparse = sp.hstack(blocks[:n_sparse], format="csr")
    if n_sparse == len(blocks):
        return sparse
    return Rows(sparse, _side_by_side(blocks[n_sparse:]))


def unlearned(X: Any, embedding_weight: float = 1.0) -> Similarity:
    """Return ⟨x, x'⟩ of rows like X, of mixed rows ⟨x, x'⟩ + embedding_weight·⟨z, z'⟩."""
    atoms, weights = NOTHING
    fixed = parts_of_rows(X, 1.0, embedding_weight)
    return Similarity(atoms, weights, 1.0, fixed, X.shape[1])
