"""A similarity per region: S(x, y) = prior·⟨x, y⟩ + xᵀ(M + N_r)y, where r is the region of x."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from .similarity import LearnedCosine, Similarity, check_result, products, row_products
from .solver.columns import drop_unused_columns

__all__ = ["Centers", "LocalSimilarity", "Predicted"]

#: Features that name a region.
N_NAMED = 3


class Regions(Protocol):
    """Assigns rows to regions."""

    @property
    def n_regions(self) -> int:
        """Number of regions."""

    def assign(self, X: Any) -> np.ndarray:
        """Return the region of each row, from 0; -1 for a row of no region."""


@dataclass(frozen=True)
class Centers:
    """Regions of the rows that are nearest to a center.

    Parameters
    ----------
    centers : csr_array of shape (n_regions, n_features)
    """

    centers: sp.csr_array

    @property
    def n_regions(self) -> int:
        """Number of centers."""
        return self.centers.shape[0]

    @cached_property
    def _squares(self) -> np.ndarray:
        return np.asarray(self.centers.multiply(self.centers).sum(axis=1)).ravel()

    def assign(self, X: Any) -> np.ndarray:
        """Return the region of each row: that of the nearest center, the first of equals."""
        if self.n_regions == 0:
            return np.full(X.shape[0], -1)
        centers = self.centers
        if sp.issparse(X):
            (X, centers), _ = drop_unused_columns(X, centers)
        products = X @ centers.T
        products = products.toarray() if sp.issparse(products) else np.asarray(products)
        return np.argmax(2.0 * products - self._squares, axis=1)

    def features(self, region: int, count: int) -> np.ndarray:
        """Return the features that set a center apart from the others, the first ones first."""
        (centers,), columns = drop_unused_columns(self.centers)
        own = centers[[region]].toarray().ravel()
        others = np.asarray(centers.mean(axis=0)).ravel()
        first = np.argsort(others - own, kind="stable")[:count]
        first = first[own[first] > others[first]]
        return first if columns is None else columns[first]


@dataclass(frozen=True)
class Predicted:
    """Regions that a fitted clusterer predicts.

    Parameters
    ----------
    clusterer : object
        With ``predict``.
    labels : ndarray of shape (n_regions,)
        Its answers for the training rows, sorted; rows of any other answer have no region.
    """

    clusterer: Any
    labels: np.ndarray

    @property
    def n_regions(self) -> int:
        """Number of labels."""
        return len(self.labels)

    def assign(self, X: Any) -> np.ndarray:
        """Return the region of each row, -1 for an answer that no training row has."""
        X = rows_for_clusterers(X) if sp.issparse(X) else X
        answers = np.asarray(self.clusterer.predict(X)).ravel()
        place = np.minimum(np.searchsorted(self.labels, answers), len(self.labels) - 1)
        return np.where(self.labels[place] == answers, place, -1)


def rows_for_clusterers(X: sp.csr_array) -> sp.csr_matrix:
    """Return a matrix with indices of 32 bits, which clusterers of scikit-learn need."""
    if max(X.shape[1], X.nnz) > np.iinfo(np.int32).max:
        raise ValueError(
            f"X has {X.shape[1]} columns and {X.nnz} values, but clusterers take fewer than 2**31: "
            "use regions='kmeans', or pass regions as an array."
        )
    indices, indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    return sp.csr_matrix((X.data, indices, indptr), shape=X.shape)


@dataclass(frozen=True)
class LocalSimilarity:
    """One similarity that all regions share, and one more per region.

    The region is that of x, the query. So S is not symmetric, and rows of one region are compared
    among themselves by a plain `Similarity`, which `of` returns.

    Parameters
    ----------
    shared : Similarity
    local : sequence of Similarity
        One per region, without prior, of rows that come as the shared one compares them.
    regions : Centers or Predicted
    """

    shared: Similarity
    local: Sequence[Similarity]
    regions: Regions

    @property
    def n_features(self) -> int:
        """Number of columns of the rows."""
        return self.shared.n_features

    @property
    def prior(self) -> float:
        """Weight of the plain dot product."""
        return self.shared.prior

    def assign(self, X: Any) -> np.ndarray:
        """Return the region of each row, -1 for none."""
        return self.regions.assign(self.index_rows(X))

    def region_names(self, name_of: Callable[[int], str]) -> list[str]:
        """Return a name per region: the features that set its center apart, or its number.

        Parameters
        ----------
        name_of : callable
            From a feature to its name.
        """
        regions = self.regions
        if not isinstance(regions, Centers):
            return [f"region {r}" for r in range(regions.n_regions)]
        return [
            ", ".join(name_of(f) for f in regions.features(r, N_NAMED).tolist()) or f"region {r}"
            for r in range(regions.n_regions)
        ]

    def of(self, region: int) -> Similarity:
        """Return the similarity of the queries of a region; of -1, the shared one."""
        if region < 0:
            return self.shared
        parts = (self.shared, self.local[region])
        total = sum(part.scale for part in parts)
        atoms = np.concatenate([part.atoms for part in parts])
        weights = np.concatenate([part.weights * (part.scale / total) for part in parts])
        atoms, place = np.unique(atoms, axis=0, return_inverse=True)
        weights = np.bincount(place.ravel(), weights, len(atoms))
        return Similarity(
            atoms, weights, total, self.prior, self.n_features, self.shared.norm,
            self.shared.columns,
        )  # fmt: skip

    def index_rows(self, X: Any) -> Any:
        """Return rows as S compares them; their dot products with ``rewrite`` of x are S(x, y)."""
        return self.shared.index_rows(X)

    def rewrite(self, X: Any) -> Any:
        """Return prior·X + X(M + N_r), the query side, each row by its own region."""
        return self._by_region(X, lambda similarity, rows: similarity.rewrite(rows))

    def _by_region(self, X: Any, compute: Any) -> Any:
        """Return what the similarity of each region makes of its rows, in the order of the rows."""
        assigned = self.assign(X)
        present = np.unique(assigned).tolist()
        if len(present) == 1:
            return compute(self.of(present[0]), X)
        rows = [np.flatnonzero(assigned == region) for region in present]
        parts = [
            compute(self.of(region), X[own]) for region, own in zip(present, rows, strict=True)
        ]
        order = np.argsort(np.concatenate(rows), kind="stable")
        if sp.issparse(parts[0]):
            return sp.csr_array(sp.vstack(parts, format="csr")[order])
        return np.concatenate(parts)[order]

    @property
    def components(self) -> sp.csr_array:
        """Rows sqrt(λ weight_k)(e_i ± e_j): those of the shared atoms, then of each region."""
        return sp.csr_array(
            sp.vstack([part.components for part in (self.shared, *self.local)], format="csr")
        )

    def transform(self, X: Any, *, region: int | None = None) -> Any:
        """Return rows whose dot products are S for rows of one region, and the shared S otherwise.

        Columns are the shared atoms, the atoms of each region, and sqrt(prior)·X. A row is 0 in the
        columns of the other regions. With `region` all rows take that region: their dot products
        with a query of that region are S.
        """
        X = self.index_rows(X)
        assigned = self.regions.assign(X) if region is None else np.full(X.shape[0], region)
        plain = [self._plain(part, 0.0).transform(X) for part in (self.shared, *self.local)]
        for number, part in enumerate(plain[1:]):
            inside = (assigned == number).astype(X.dtype)
            plain[1 + number] = (
                sp.csr_array(part.multiply(inside[:, None]))
                if sp.issparse(part)
                else part * inside[:, None]
            )
        if self.prior > 0:
            plain.append(X * X.dtype.type(np.sqrt(self.prior)))
        Z = (
            sp.hstack([sp.csr_array(part) for part in plain], format="csr", dtype=X.dtype)
            if sp.issparse(X)
            else np.hstack(plain)
        )
        return check_result(Z, "The transform of X")

    def _plain(self, part: Similarity, prior: float) -> Similarity:
        """Return a part for rows that are normalised already."""
        return Similarity(part.atoms, part.weights, part.scale, prior, self.n_features)

    def pairwise(self, X: Any, Y: Any = None, *, cosine: bool = False) -> np.ndarray:
        """Return S between all rows of X, the queries, and all rows of Y, or its cosine, dense."""
        rewriter = LearnedCosine(self) if cosine else self
        queries, rows = rewriter.rewrite(X), rewriter.index_rows(X if Y is None else Y)
        return check_result(products(queries, rows), "The similarity")

    def pair_score(self, X: Any, Y: Any, *, cosine: bool = False) -> np.ndarray:
        """Return S(x, y), or its cosine, for rows of X and Y with the same number."""
        rewriter = LearnedCosine(self) if cosine else self
        scores = row_products(rewriter.rewrite(X), rewriter.index_rows(Y))
        return check_result(scores, "The similarity")
