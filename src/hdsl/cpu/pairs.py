"""The distinct pairs of rows that are compared: links between rows, products and inner products."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from .kernels import pairs as kernels
from .kernels.compiler import ROW_BLOCK, WIDTH
from .kernels.gradient import zeros_in_lines
from .rows import Rows

#: A thread is worth waking for this many pairs of rows, of some hundred stored entries each.
PAIR_GRAIN = 400

#: The diagonal is summed in parts: most of them, least products of each, and least products of each
#: per feature, since all parts have a number for every feature.
MOST_PARTS, LEAST_PRODUCTS, LEAST_SHARE = 32, 100_000, 4


class Pairs:
    """Unordered pairs of rows, each once, sorted.

    Parameters
    ----------
    rows : Rows
    a, b : ndarray of int32 of shape (n_pairs,)
        The two rows of each pair, a ≤ b, sorted by a and then b.
    store_products : bool, default=True
        Whether the products of compared rows are stored once they are asked for.
    """

    def __init__(
        self, rows: Rows, a: np.ndarray, b: np.ndarray, *, store_products: bool = True
    ) -> None:
        self.rows, self.a, self.b, self.store_products = rows, a, b, store_products
        self.n_pairs, self.workers = len(a), rows.workers
        self.link_ptr = np.zeros(rows.n_rows + 1, dtype=np.int64)
        kernels.count_into(a, self.link_ptr)
        kernels.count_into(b, self.link_ptr)
        np.cumsum(self.link_ptr, out=self.link_ptr)
        self.link_row = np.empty(2 * self.n_pairs, dtype=np.int32)
        self.link_pair = np.empty(2 * self.n_pairs, dtype=np.int32)
        kernels.link_rows(a, b, self.link_ptr[:-1].copy(), self.link_row, self.link_pair)

    @property
    def links(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For each row, the rows it is compared with and the numbers of these pairs."""
        return self.link_ptr, self.link_row, self.link_pair

    @cached_property
    def _shared_features(self) -> tuple[np.ndarray, np.ndarray]:
        counts, inner = np.empty(self.n_pairs, dtype=np.int64), np.empty(self.n_pairs)
        self.workers.run(
            kernels.pair_products_count, self.workers.split(self.n_pairs, grain=PAIR_GRAIN),
            self.a, self.b, *self.rows.by_row, self.rows.n_features, counts, inner,
        )  # fmt: skip
        return counts, inner

    @property
    def inner_products(self) -> np.ndarray:
        """⟨x_a, x_b⟩ of each pair."""
        return self._shared_features[1]

    @cached_property
    def products(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """x_a ∘ x_b of each pair, one run per pair: pair, ptr, feature, value.

        Runs are sorted by length; pairs that share no feature have none.
        """
        shared, _ = self._shared_features
        pair = np.argsort(shared, kind="stable").astype(np.int32)
        pair = pair[np.searchsorted(shared[pair], 1) :]
        ptr = np.concatenate([[0], np.cumsum(shared[pair])])
        at = np.zeros(self.n_pairs, dtype=np.int64)
        at[pair] = ptr[:-1]
        feature, product = np.empty(ptr[-1], dtype=np.int32), np.empty(ptr[-1])
        self.workers.run(
            kernels.pair_products_fill, self.workers.split(self.n_pairs, grain=PAIR_GRAIN),
            self.a, self.b, *self.rows.by_row, self.rows.n_features, at, feature, product,
        )  # fmt: skip
        return pair, ptr, feature, product

    @cached_property
    def product_parts(self) -> np.ndarray:
        """Bounds of the parts of the runs of products whose diagonals are summed separately.

        Their number depends on the problem alone, so that any number of threads adds the same.
        """
        _, ptr, *_ = self.products
        n, d = int(ptr[-1]), self.rows.n_features
        n_parts = max(1, min(MOST_PARTS, n // LEAST_PRODUCTS, n // (LEAST_SHARE * d)))
        return np.searchsorted(ptr, [n * k // n_parts for k in range(n_parts + 1)])

    @cached_property
    def diagonal_parts(self) -> np.ndarray:
        """Room for the diagonals of the parts; one part needs none."""
        n_parts = len(self.product_parts) - 1
        return np.empty((n_parts if n_parts > 1 else 0, self.rows.n_features))

    @cached_property
    def row_cost(self) -> np.ndarray:
        """Stored entries of X that a row of S touches, per feature."""
        rows = self.rows
        length = np.diff(rows.row_ptr)
        by_row = np.add.reduceat(np.append(length[self.link_row], 0), self.link_ptr[:-1])
        by_row[np.diff(self.link_ptr) == 0] = 0
        running = np.concatenate([[0], np.cumsum(by_row[rows.col_idx])])
        return running[rows.col_ptr[1:]] - running[rows.col_ptr[:-1]]

    @cached_property
    def side_by_side(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Room for WIDTH columns of X, a mark per row, WIDTH columns of R, and peaks by blocks."""
        n = self.rows.n_rows
        peaks = np.empty((-(-n // ROW_BLOCK) + 1, WIDTH))
        return zeros_in_lines(n), np.zeros(n, dtype=np.uint8), zeros_in_lines(n), peaks

    @cached_property
    def of_blocks(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Room for the best value, partner and entry of WIDTH features in each feature block."""
        shape = len(self.rows.feature_blocks) - 1, WIDTH
        return np.empty(shape), np.empty(shape, dtype=np.int64), np.empty(shape)

    @cached_property
    def of_rare_features(self) -> tuple[np.ndarray, ...]:
        """Room to find the partners of WIDTH rare features at once."""
        by_row, by_feature = (WIDTH, self.rows.n_rows), (WIDTH, self.rows.n_features)
        kinds = np.float64, np.bool_, np.int32
        return tuple(np.zeros(shape, kind) for shape in (by_row, by_feature) for kind in kinds)
