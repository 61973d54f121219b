"""The distinct pairs of rows that comparisons compare."""

from typing import NamedTuple

import numpy as np

from ..cached import cached
from ..layout.feature_numbers import check_count
from .array_pool import ArrayPool
from .kernels import pairs as kernels
from .kernels.arrays import Links, PairsByRow, SparseArrays
from .kernels.dense_rows import add_pair_products
from .rows import KernelRows
from .sorting import counted, grouped, starts
from .workers import GRAIN, Workers

#: A thread is worth calling for this many pairs of rows, of some hundred stored entries
#: each.
PAIR_GRAIN = 400

#: The diagonal is summed in shares: the largest number of them, the least products of
#: each, and the least products of each per feature, since each has a number for every
#: feature.
MOST_SHARES = 16
LEAST_PRODUCTS = 100_000
LEAST_PER_FEATURE = 4

#: Entries of X from which on several threads are expected.
LARGE = 1 << 23

#: Scores of atoms are summed in so many shares of the rows.
SCORE_SHARES = 64


class DiagonalShares(NamedTuple):
    """Shares that the diagonal of C is summed in.

    Attributes
    ----------
    bounds : ndarray of shape (n_shares + 1,)
        Bounds of the pairs of each.
    sums : ndarray of shape (n_shares, n_features)
        A work array: new memory is slow at first.
    """

    bounds: np.ndarray
    sums: np.ndarray


class SharedFeatures(NamedTuple):
    """What the two rows of each pair share.

    Attributes
    ----------
    indptr : ndarray of shape (n_pairs + 1,), int64
        Where the shared features of each pair begin and end.
    inner_products : ndarray of shape (n_pairs,)
    """

    indptr: np.ndarray
    inner_products: np.ndarray


class Pairs:
    """Unordered pairs of rows, each once, sorted.

    Parameters
    ----------
    rows : KernelRows
    a, b : ndarray of int32 of shape (n_pairs,)
        The two rows of each pair, a ≤ b, sorted by a and then b.

    Attributes
    ----------
    by_row : PairsByRow
    links : Links
        For each row, the rows it is compared with. A pair of a row with itself is
        listed twice, so that it counts twice in S = C + Cᵀ.
    cost : float
        Multiplications of a search of all rows of S.
    side_by_side : float
        WIDTH rows of S side by side take the time of so many single ones that reach all
        of X. Threads, of which a large X is worth several, share a pass but not a
        single row.
    score_bounds : ndarray of shape (SCORE_SHARES + 1,)
        Bounds of the rows whose pairs are a share of scores.
    """

    def __init__(self, rows: KernelRows, a: np.ndarray, b: np.ndarray) -> None:
        self.rows = rows
        self.a = a
        self.b = b
        self.n_pairs = len(a)
        self.workers = rows.workers
        self.pool = ArrayPool(len(a))
        indptr = starts(counted(a, rows.n_rows, self.workers))
        self.by_row = PairsByRow(indptr, b)
        number = np.arange(self.n_pairs, dtype=np.int32)
        links = grouped(
            np.append(a, b),
            np.append(b, a),
            np.append(number, number),
            rows.n_rows,
            self.workers,
        )
        self.links = Links(links.indptr, neighbors=links.first, pairs=links.second)
        length = np.diff(rows.by_row.indptr)
        self.cost = 2.0 * float((length[a] * length[b]).sum())
        cost_of_lines = 5 * rows.nnz + 15 * rows.n_features + 16 * self.n_pairs
        self.side_by_side = cost_of_lines / max(6 * rows.nnz, 1)
        if rows.nnz > LARGE:
            self.side_by_side /= 2
        shares = self.n_pairs * np.arange(SCORE_SHARES + 1) // SCORE_SHARES
        self.score_bounds = np.searchsorted(indptr, shares)
        self.score_bounds[0] = 0
        self.score_bounds[-1] = rows.n_rows

    @cached
    def _shared(self) -> SharedFeatures:
        """How many features each pair shares, and its inner product."""
        indptr = np.zeros(self.n_pairs + 1, dtype=np.int64)
        inner_products = np.empty(self.n_pairs)
        counts = SparseArrays(indptr, np.empty(0, dtype=np.int32), np.empty(0))
        self._find_shared(inner_products, counts)
        if self.rows.dense is not None:
            self._add_dense_products(inner_products)
        np.cumsum(indptr, out=indptr)
        return SharedFeatures(indptr, inner_products)

    def _add_dense_products(self, inner_products: np.ndarray) -> None:
        """Add the inner products of the embeddings of all pairs."""
        bounds = self.workers.split(self.n_pairs, grain=PAIR_GRAIN)
        self.workers.run(
            add_pair_products, bounds, self.a, self.b, self.rows.dense, inner_products
        )

    def _find_shared(self, inner_products: np.ndarray, products: SparseArrays) -> None:
        """Count the shared features of all pairs, or write their products."""
        rows = self.rows
        pairs = kernels.PairRows(self.a, self.b)

        def find(start: int, stop: int) -> None:
            kernels.shared_features(
                start,
                stop,
                pairs,
                rows.by_row,
                rows.n_features,
                inner_products,
                products,
                np.zeros(rows.n_columns),
            )

        self.workers.run(find, self.workers.split(self.n_pairs, grain=PAIR_GRAIN))

    @property
    def inner_products(self) -> np.ndarray:
        """⟨x_a, x_b⟩ of each pair."""
        return self._shared.inner_products

    @cached
    def products(self) -> SparseArrays:
        """x_a ∘ x_b of each pair, as CSR."""
        indptr, inner_products = self._shared
        n_shared = indptr[-1]
        products = SparseArrays(
            indptr, np.empty(n_shared, dtype=np.int32), np.empty(n_shared)
        )
        if n_shared:
            self._find_shared(inner_products, products)
        return products

    def diagonal(self, weights: np.ndarray) -> np.ndarray:
        """Return the diagonal of C, summed in shares that depend on the pairs alone."""
        bounds, sums = self._diagonal_shares
        n_shares = len(sums)
        self.workers.run(
            kernels.diagonals,
            np.arange(n_shares + 1),
            bounds,
            self.products,
            weights,
            sums,
        )
        if n_shares == 1:
            return sums[0].copy()
        n_features = self.rows.n_features
        diagonal = np.empty(n_features)
        feature_bounds = self.workers.split(n_features, grain=GRAIN // (4 * n_shares))
        self.workers.run(kernels.add_shares, feature_bounds, sums, diagonal)
        return diagonal

    @cached
    def _diagonal_shares(self) -> DiagonalShares:
        indptr = self.products.indptr
        n_features = self.rows.n_features
        n = int(indptr[-1])
        n_shares = min(
            MOST_SHARES, n // LEAST_PRODUCTS, n // (LEAST_PER_FEATURE * n_features)
        )
        n_shares = max(1, n_shares)
        bounds = np.searchsorted(indptr, n * np.arange(n_shares + 1) // n_shares)
        bounds[0] = 0
        bounds[-1] = self.n_pairs
        return DiagonalShares(bounds, np.empty((n_shares, n_features)))


class NumberedPairs(NamedTuple):
    """The distinct pairs of rows {a, b}, and their numbers in both sides of comparisons.

    Attributes
    ----------
    a, b : ndarray of shape (n_pairs,), int32
        a ≤ b, sorted by a and then b.
    winner, loser : ndarray of shape (n_comparisons,), int32
    """

    a: np.ndarray
    b: np.ndarray
    winner: np.ndarray
    loser: np.ndarray


def number_pairs(
    sides: tuple[np.ndarray, ...], n_rows: int, workers: Workers
) -> NumberedPairs:
    """Return the pairs that comparisons S(a, b) > S(c, d) compare.

    Examples
    --------
    >>> sides = tuple(np.array([[0, 2], [2, 1], [0, 2], [1, 0]], dtype=np.int32))
    >>> [numbers.tolist() for numbers in number_pairs(sides, 3, Workers(1))]
    [[0, 0, 1], [1, 2, 2], [1, 2], [0, 1]]
    """
    a, b, c, d = sides
    n_compared = len(a)
    smaller = np.append(np.minimum(a, b), np.minimum(c, d))
    larger = np.append(np.maximum(a, b), np.maximum(c, d))
    ends = np.arange(len(smaller), dtype=np.int32)
    row_numbers = np.arange(n_rows, dtype=np.int32)
    # By the larger row first, and then, as sorts are stable, by the smaller one.
    by_larger = grouped(larger, smaller, ends, n_rows, workers)
    larger = np.repeat(row_numbers, np.diff(by_larger.indptr))
    by_both = grouped(by_larger.first, larger, by_larger.second, n_rows, workers)
    smaller = np.repeat(row_numbers, np.diff(by_both.indptr))
    larger = by_both.first
    is_new = np.ones(len(ends), dtype=bool)
    is_new[1:] = (smaller[1:] != smaller[:-1]) | (larger[1:] != larger[:-1])
    check_count(
        2 * int(is_new.sum()), "ends of pairs of rows that are compared", "comparisons"
    )
    number = np.empty_like(ends)
    number[by_both.second] = np.cumsum(is_new, dtype=np.int32) - np.int32(1)
    return NumberedPairs(
        a=smaller[is_new],
        b=larger[is_new],
        winner=number[:n_compared],
        loser=number[n_compared:],
    )
