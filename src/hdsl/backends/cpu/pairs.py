"""The distinct pairs of rows that are compared: links between rows, products and inner products."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from .kernels import pairs as kernels
from .kernels.gradient import zeros_in_lines
from .rows import GRAIN, Rows

#: A thread is worth waking for this many pairs of rows, of some hundred stored entries each.
PAIR_GRAIN = 400

#: Sums that several threads add to are split into so many parts, for any number of threads.
PARTS = 2


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
        """Bounds of the parts of the runs of products whose diagonals are summed separately."""
        _, ptr, *_ = self.products
        return np.searchsorted(ptr, equal_parts(int(ptr[-1])))

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
    def side_by_side(self) -> np.ndarray:
        """Room for WIDTH columns of numbers, one per row."""
        return zeros_in_lines(self.rows.n_rows)


def equal_parts(n: int) -> np.ndarray:
    """Return the bounds of PARTS equal parts, or of one where there is little to do."""
    n_parts = PARTS if n > PARTS * GRAIN else 1
    return np.array([n * k // n_parts for k in range(n_parts + 1)])
