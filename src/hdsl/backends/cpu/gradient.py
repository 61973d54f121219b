"""The gradient in memory: one number per pair of rows, asked for what is needed and no more."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ...core.protocols import Gradient
from ...core.snapshot import Arrays
from .cross_terms import CrossTerms, entries_directly
from .kernels import gradient as kernels
from .kernels.comparisons import any_nonzero, dots
from .kernels.compiler import CHUNK, WIDTH
from .pairs import Pairs

Partners = tuple[np.ndarray, np.ndarray, np.ndarray]


class CPUGradient(Gradient):
    """C = Σ_s w_s x_a x_bᵀ over the pairs s = {a, b} of compared rows.

    Parameters
    ----------
    pairs : Pairs
    scale : float
    w : ndarray of shape (n_pairs,)
    pulls : ndarray of shape (n_comparisons,)
        Slopes of the loss times -weight, of which w is the sum per pair.
    offset : ndarray of shape (n_comparisons,) or None
        The prior's share in the margins.
    batch : ndarray or None
        The comparisons of a mini-batch.
    cross_terms : CrossTerms or None
        Terms of the active atoms, for the gradient over all comparisons.
    """

    def __init__(
        self,
        pairs: Pairs,
        scale: float,
        w: np.ndarray,
        pulls: np.ndarray,
        offset: np.ndarray | None,
        batch: np.ndarray | None,
        cross_terms: CrossTerms | None,
    ) -> None:
        self.pairs, self.rows_of_x, self.workers = pairs, pairs.rows, pairs.workers
        self.scale, self.w, self.pulls, self.offset, self.batch = scale, w, pulls, offset, batch
        self.cross_terms = cross_terms
        self.n_features, self.covers_all = pairs.rows.n_features, batch is None

    @property
    def rounding(self) -> float:
        """How far rounding may move an entry of C or S: its terms may be large and cancel."""
        largest = float(self.rows_of_x.largest.max())
        return 1e-14 * largest**2 * float(np.abs(self.w).sum())

    def is_zero(self) -> bool:
        """Return whether all slopes are zero."""
        return not any_nonzero(self.pulls)

    def snapshot(self) -> Arrays:
        """Return the number of each pair."""
        return {"w": self.w}

    def dot(self, margins: np.ndarray) -> float:
        """Return ⟨M, -∇f⟩ for the model with these margins."""
        margins = margins if self.batch is None else margins[self.batch]
        n_chunks = -(-margins.size // CHUNK)
        out = np.empty(n_chunks)
        dots(0, n_chunks, self.pulls, margins, out)
        total = float(out.sum())
        if self.offset is not None:
            dots(0, n_chunks, self.pulls, self.offset, out)
            total -= float(out.sum())
        return total

    @cached_property
    def diagonal(self) -> np.ndarray:
        """C_jj of every feature."""
        pairs = self.pairs
        if not pairs.store_products:
            out = np.zeros(self.n_features)
            kernels.diagonal_directly(pairs.a, pairs.b, *self.rows_of_x.by_row, self.w, out)
            return out
        parts = pairs.product_parts
        out = np.zeros((len(parts) - 1, self.n_features))
        self.workers.run(kernels.diagonal, range(len(parts)), parts, *pairs.products, self.w, out)
        return out.sum(axis=0) if len(out) > 1 else out[0]

    def largest_diagonal(self, count: int) -> np.ndarray:
        """Return the features of largest C_jj, largest first."""
        out = np.empty(min(count, self.n_features), dtype=np.int64)
        kernels.largest(self.diagonal, out)
        return out

    def rows(self, features: np.ndarray) -> np.ndarray:
        """Return the rows of S for up to WIDTH features, shape (len(features), n_features)."""
        R = self._spread(features)
        out = np.empty((self.n_features, WIDTH))
        bounds = self.rows_of_x.feature_bounds
        self.workers.run(kernels.gather_rows, bounds, *self.rows_of_x.by_column, R, out)
        return out[:, : len(features)].T.copy()

    def drift_since(self, other: CPUGradient) -> np.ndarray:
        """Return for each feature i a bound of |S_ij - S_ij of the other gradient| over all j."""
        rows, pairs = self.rows_of_x, self.pairs
        reached = np.zeros(rows.n_rows)
        kernels.pair_drift(self.w, other.w, pairs.a, pairs.b, rows.largest, reached)
        out = np.empty(self.n_features)
        self.workers.run(kernels.absolute_sums, rows.feature_bounds, *rows.by_column, reached, out)
        return out

    def entries(self, atoms: np.ndarray) -> np.ndarray:
        """Return S_ij for each atom."""
        if self.cross_terms is not None:
            return self.cross_terms.entries(atoms, self.w)
        return entries_directly(self.pairs, atoms[:, 0], atoms[:, 1], self.w)

    # --- partners --------------------------------------------------------------------------------

    def partners(self, features: np.ndarray, *, after: bool = False) -> Partners:
        """Find for each feature i the j that maximises C_jj + |S_ij|, the smallest of equals.

        One row of S after the other where features are rare, else several in a pass over X.
        """
        cost, nnz = self.pairs.row_cost[features], self.rows_of_x.nnz
        if len(features) <= WIDTH:
            is_light = self.covers_all and bool(2 * cost.sum() <= nnz)
            return (self._scatter if is_light else self._gather)(features, after)
        light = 16 * cost <= nnz + 2 * self.n_features  # a pass looks at every feature
        found = np.empty(len(features)), np.empty(len(features), np.int64), np.empty(len(features))
        for chosen, find in ((light, self._scatter), (~light, self._gather_many)):
            if chosen.any():
                for whole, part in zip(found, find(features[chosen], after), strict=True):
                    whole[chosen] = part
        return found

    def _spread(self, features: np.ndarray) -> np.ndarray:
        R = self.pairs.side_by_side
        kernels.spread(features, *self.rows_of_x.by_column, *self.pairs.links, self.w, R)
        return R

    def _gather(self, features: np.ndarray, after: bool) -> Partners:
        """Find the partners of up to WIDTH features in one pass over X that the threads share."""
        m, bounds = len(features), self.rows_of_x.feature_bounds
        shape = (len(bounds) - 1, WIDTH)
        value, partner, entry = np.empty(shape), np.empty(shape, dtype=np.int64), np.empty(shape)
        self.workers.run(
            kernels.gather_partners, range(len(bounds)), bounds, features, after,
            *self.rows_of_x.by_column, self._spread(features), self.diagonal, value, partner, entry,
        )  # fmt: skip
        if len(value) > 1:
            best = value.argmax(axis=0), np.arange(WIDTH)  # the first part of equals
            return value[best][:m], partner[best][:m], entry[best][:m]
        return value[0, :m], partner[0, :m], entry[0, :m]

    def _gather_many(self, features: np.ndarray, after: bool) -> Partners:
        """Find the partners of many features, WIDTH per pass; each thread has its own passes."""
        m = len(features)
        n_blocks = -(-m // WIDTH)
        padded = np.full(n_blocks * WIDTH, -1)
        padded[:m] = features
        value, partner = np.full(len(padded), -np.inf), np.full(len(padded), -1)
        value[m:], entry = np.inf, np.zeros(len(padded))  # nothing is better than padding
        self.workers.run(
            kernels.gather_blocks, self.workers.pieces(n_blocks), padded, after,
            *self.rows_of_x.by_column, *self.pairs.links, self.w, self.diagonal, value, partner,
            entry,
        )  # fmt: skip
        return value[:m], partner[:m], entry[:m]

    def _scatter(self, features: np.ndarray, after: bool) -> Partners:
        """Find the partners of rare features, one row of S at a time."""
        m, rows = len(features), self.rows_of_x
        value, partner, entry = np.full(m, -np.inf), np.full(m, -1, dtype=np.int64), np.zeros(m)
        last = np.empty(self.n_features, dtype=np.int64)
        first, second = kernels.largest_after(self.diagonal, last)
        self.workers.run(
            kernels.scatter_partners, self.workers.pieces(m), features, after, *rows.by_column,
            *rows.by_row, *self.pairs.links, self.w, self.diagonal, last, first, second, value,
            partner, entry,
        )  # fmt: skip
        return value, partner, entry
