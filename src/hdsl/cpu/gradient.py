"""The gradient in memory: one number per pair of rows, asked for what is needed and no more."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np

from ..solver.protocols import Gradient, Vertex
from ..solver.snapshot import Arrays
from .cross_terms import CrossTerms, entries_directly
from .kernels import climb as climbing
from .kernels import gradient as kernels
from .kernels.comparisons import any_nonzero, dots
from .kernels.compiler import CHUNK, WIDTH
from .pairs import Pairs

#: Features whose columns have one value for so many rows are spread one after the other.
SCATTERED = 4

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
        out, (pair, ptr, feature, product) = np.empty(self.n_features), pairs.products
        self.workers.together(
            kernels.diagonal, 2, product.size, pairs.product_parts, pair, ptr, feature, product,
            self.w, pairs.diagonal_parts, out,
        )  # fmt: skip
        return out

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
        return out[:, : len(features)].T

    def spread(self, features: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
        """Return R = (W + Wᵀ) X[:, features], WIDTH columns per array, and max |R| per column.

        The first array is the shard's own room, which the next call writes to.
        """
        rows, arrays = self.rows_of_x, []
        peak = np.empty(len(features))
        U, marked, R, peaks = self.pairs.side_by_side
        for k in range(0, len(features), WIDTH):
            R, few = R if k == 0 else kernels.zeros_in_lines(rows.n_rows), features[k : k + WIDTH]
            if SCATTERED * int(rows.lengths[few].sum()) < rows.n_rows:
                kernels.spread(few, *rows.by_column, *self.pairs.links, self.w, R)
                largest = np.maximum(R.max(axis=0), -R.min(axis=0))
            else:
                padded = np.full(WIDTH, -1)
                padded[: len(few)] = few
                self.workers.together(
                    climbing.spread_rows, 3, 2 * self.pairs.n_pairs, padded, len(few),
                    *rows.by_column, *self.pairs.links, self.w, U, marked, R, peaks,
                )  # fmt: skip
                largest = peaks[:-1].max(axis=0)
            peak[k : k + WIDTH] = largest[: len(few)]
            arrays.append(R)
        return arrays, peak

    def rows_at(self, spread: list[np.ndarray], n: int, columns: np.ndarray) -> np.ndarray:
        """Return S_ij for listed j and n features that were spread, shape (len(columns), n)."""
        bounds, by_column = self.workers.pieces(len(columns)), self.rows_of_x.by_column
        if n == 1:
            one = np.empty((len(columns), 1))
            r = np.ascontiguousarray(spread[0][:, 0])
            self.workers.run(kernels.gather_one, bounds, columns, *by_column, r, one)
            return one
        out = np.empty((len(spread), len(columns), WIDTH))
        for R, part in zip(spread, out, strict=True):
            self.workers.run(kernels.gather_columns, bounds, columns, *by_column, R, part)
        return out[0, :, :n] if len(out) == 1 else np.concatenate([*out], axis=1)[:, :n]

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

    def climb(self, starts: Iterable[int], n_largest: int) -> Vertex:
        """Return the best vertex that alternating maximisation reaches."""
        given = sorted(set(starts))
        if len(given) + n_largest > WIDTH or self.n_features < 2 or not self.covers_all:
            return super().climb(given, n_largest)
        pairs, rows, n_passes = self.pairs, self.rows_of_x, climbing.MOST_PASSES
        features = np.full((n_passes + 1, WIDTH), -1)
        features[0, : len(given)] = given
        n_own, way = np.zeros((2, n_passes + 1), dtype=np.int64)
        n_own[0] = len(given)
        seen, ends, score = (
            np.empty(2 * WIDTH + n_passes, dtype=np.int64),
            np.zeros(6, int),
            np.zeros(2),
        )
        ends[0] = -1
        while True:
            self.workers.together(
                climbing.climb, n_passes * climbing.PASS_PHASES + 1, 2 * self._cost_of_a_pass,
                self.scale, n_largest, rows.feature_blocks, pairs.row_cost, *rows.by_column,
                rows.column_sizes, *rows.by_row, *rows.common, *pairs.links, self.w, self.diagonal,
                *pairs.side_by_side,
                *pairs.of_blocks, *pairs.of_rare_features, features, n_own, way,
                np.empty((n_passes, WIDTH), dtype=np.int64), np.empty((n_passes, WIDTH)), seen,
                ends, score,
            )  # fmt: skip
            if not n_own[-1]:
                return self.vertex(int(ends[0]), int(ends[1]), float(score[0]))
            # It rises on and on: take up the last pass.
            features[0], n_own[0], way[0] = features[-1], n_own[-1], way[-1]
            n_own[1:] = 0
            seen = np.concatenate([seen, np.empty(n_passes, dtype=np.int64)])

    # --- partners --------------------------------------------------------------------------------

    def partners(self, features: np.ndarray, *, after: bool = False) -> Partners:
        """Find for each feature i the j that maximises C_jj + |S_ij|, the smallest of equals.

        One row of S after the other where features are rare, else several in a pass over X.
        """
        cost, nnz = self.pairs.row_cost[features], self.rows_of_x.nnz
        if len(features) <= WIDTH:
            is_light = self.covers_all and bool(2 * cost.sum() <= nnz)
            return (self._scatter if is_light else self._gather)(features, after)
        # A pass looks at every feature, for WIDTH of them; what is scattered takes longer.
        light = 4 * WIDTH * cost <= nnz + 2 * self.n_features
        found = np.empty(len(features)), np.empty(len(features), np.int64), np.empty(len(features))
        for chosen, find in ((light, self._scatter), (~light, self._gather_many)):
            if chosen.any():
                for whole, part in zip(found, find(features[chosen], after), strict=True):
                    whole[chosen] = part
        return found

    def _spread(self, features: np.ndarray) -> np.ndarray:
        R = self.pairs.side_by_side[2]
        kernels.spread(features, *self.rows_of_x.by_column, *self.pairs.links, self.w, R)
        return R

    @property
    def _cost_of_a_pass(self) -> int:
        return self.rows_of_x.nnz + 2 * self.pairs.n_pairs

    def _gather(self, features: np.ndarray, after: bool) -> Partners:
        """Find the partners of up to WIDTH features in one pass over X that the threads share."""
        m, rows = len(features), self.rows_of_x
        padded = np.full(WIDTH, -1)
        padded[:m] = features
        value, partner, entry = self.pairs.of_blocks
        self.workers.together(
            climbing.gather_partners, 5, self._cost_of_a_pass, rows.feature_blocks, padded, m,
            after, *rows.by_column, rows.column_sizes, *rows.by_row, *rows.common,
            *self.pairs.links, self.w, self.diagonal, *self.pairs.side_by_side, value, partner,
            entry,
        )  # fmt: skip
        best = value[:, :m].argmax(axis=0), np.arange(m)  # the first block of equals
        return value[best], partner[best], entry[best]

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
            *self.rows_of_x.by_column, self.rows_of_x.column_sizes, *self.pairs.links, self.w,
            self.diagonal, value, partner, entry,
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
