"""Atoms s·uuᵀ inside the embedding of rows: similarities, margins and scores."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from threadpoolctl import ThreadpoolController

from ..solver.directions import Directions
from .comparisons import Comparisons
from .kernels import dense_rows as kernels

#: Rows that are multiplied by a matrix at a time, and shares of the rows that the
#: gradient's block is summed in, whose sums have so many numbers at most.
BLOCK = 2048
MOST_SHARES = 16
MOST_NUMBERS = 1 << 26


class EmbeddedComparisons:
    """The embedding of the rows that comparisons compare, and directions in it.

    Each thread makes its own products of matrices, and sums are taken in shares of the
    rows, so that no bit depends on the number of threads.

    Parameters
    ----------
    comparisons : Comparisons
        Of rows with an embedding.
    directions : Directions
    scale : float
        s of the atoms s·uuᵀ.
    """

    def __init__(
        self, comparisons: Comparisons, directions: Directions, scale: float
    ) -> None:
        dense = comparisons.rows.dense
        assert dense is not None
        self.comparisons = comparisons
        self.directions = directions
        self.scale = scale
        self._dense = dense
        self._workers = comparisons.workers
        self._blas = ThreadpoolController()

    def of(self, comparisons: Comparisons) -> EmbeddedComparisons:
        """Return the same directions for other comparisons, those of a batch."""
        return EmbeddedComparisons(comparisons, self.directions, self.scale)

    def add_similarities(
        self, numbers: np.ndarray, factors: np.ndarray, out: np.ndarray
    ) -> None:
        """Add Σ_k factor_k (u_k·z_a)(u_k·z_b) of each pair of rows to `out`."""
        pairs = self.comparisons.pairs
        self._workers.run(
            kernels.add_weighted_products,
            self._workers.split(pairs.n_pairs, grain=pairs.pair_grain),
            pairs.a,
            pairs.b,
            self._along(self._dense, numbers),
            factors.astype(np.float64),
            out,
        )

    def margins(self, compared: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """Return the margins of uuᵀ, of some comparisons (rows) and directions (columns)."""
        sides = [side[compared] for side in self.comparisons.sides]
        rows, positions = np.unique(sides, return_inverse=True)
        positions = positions.reshape(4, -1)
        out = np.empty((len(compared), len(numbers)))
        self._workers.run(
            kernels.direction_margins,
            self._workers.split(len(compared), grain=self.comparisons.pairs.pair_grain),
            positions,
            self._along(self._dense[rows], numbers),
            out,
        )
        return out

    def gradient_block(self, w: np.ndarray) -> np.ndarray:
        """Return G = Σ_s w_s (z_a z_bᵀ + z_b z_aᵀ) / 2 over the pairs s = {a, b}."""
        dense = self._dense
        links = self.comparisons.pairs.links
        weights = w.astype(dense.dtype)
        n_rows, width = dense.shape
        starts = np.arange(0, n_rows, BLOCK)
        limit = max(1, min(MOST_SHARES, MOST_NUMBERS // width**2))
        n_shares = min(limit, len(starts))
        bounds = len(starts) * np.arange(n_shares + 1) // n_shares
        sums = np.zeros((n_shares, width, width), dtype=dense.dtype)

        def add(first_share: int, last_share: int) -> None:
            for share in range(first_share, last_share):
                for start in starts[bounds[share] : bounds[share + 1]].tolist():
                    rows = dense[start : start + BLOCK]
                    neighbors = np.empty_like(rows)
                    stop = start + len(rows)
                    kernels.sum_neighbors(start, stop, links, weights, dense, neighbors)
                    sums[share] += rows.T @ neighbors

        self._multiply(add, n_shares)
        G = sums.sum(axis=0, dtype=np.float64)
        return 0.25 * (G + G.T)

    def _along(self, rows: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """Return how far rows lie along directions; in float64, so that steps add up."""
        vectors = self.directions.take(numbers)
        out = np.empty((len(rows), len(numbers)))

        def write(first: int, last: int) -> None:
            for block in range(first, last):
                chunk = slice(block * BLOCK, (block + 1) * BLOCK)
                out[chunk] = rows[chunk].astype(np.float64) @ vectors.T

        self._multiply(write, -(-len(rows) // BLOCK))
        return out

    def _multiply(self, products: Callable[[int, int], None], n_blocks: int) -> None:
        """Call ``products(first, last)`` for blocks, shared out among the threads."""
        with self._blas.limit(limits=1, user_api="blas"):
            self._workers.run(products, range(n_blocks + 1))
