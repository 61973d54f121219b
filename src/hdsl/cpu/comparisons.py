"""Comparisons, and the distinct pairs of rows that they compare."""

import numpy as np

from ..cached import cached
from ..layout.feature_numbers import check_count
from ..layout.sides import sides_of
from .kernels import pairs as kernels
from .kernels.compiled import CHUNK
from .kernels.dense_rows import add_pair_products
from .rows import Arrays, Recycled, Rows, counted, grouped, starts
from .workers import GRAIN, Workers

#: A thread is worth calling for this many pairs of rows, of some hundred stored entries
#: each.
PAIR_GRAIN = 400

#: The diagonal is summed in parts: most of them, least products of each, and least
#: products of each per feature, since all parts have a number for every feature.
MOST_PARTS = 16
LEAST_PRODUCTS = 100_000
LEAST_SHARE = 4

#: Entries of X from which on several threads are expected.
LARGE = 1 << 23

EMPTY = np.empty(0)

#: Scores of atoms are summed in so many parts of the rows.
SCORE_PARTS = 64


class Pairs:
    """Unordered pairs of rows, each once, sorted.

    Parameters
    ----------
    rows : Rows
    a, b : ndarray of int32 of shape (n_pairs,)
        The two rows of each pair, a ≤ b, sorted by a and then b.
    """

    def __init__(self, rows: Rows, a: np.ndarray, b: np.ndarray) -> None:
        self.rows = rows
        self.a = a
        self.b = b
        self.n_pairs = len(a)
        self.workers = rows.workers
        self.recycled = Recycled(len(a))
        #: Where the pairs of each first row begin.
        self.ptr = starts(counted(a, rows.n_rows, self.workers))
        number = np.arange(self.n_pairs, dtype=np.int32)
        #: For each row, the rows it is compared with and the numbers of these pairs. A
        #: pair of a row with itself is listed twice, so that it counts twice in S = C +
        #: Cᵀ.
        self.links = grouped(
            np.append(a, b),
            np.append(b, a),
            np.append(number, number),
            rows.n_rows,
            self.workers,
        )
        length = np.diff(rows.by_row[0])
        #: Multiplications of a search of all rows of S.
        self.cost = 2.0 * float((length[a] * length[b]).sum())
        #: WIDTH rows of S side by side take the time of so many single ones that reach
        #: all of X. Threads, of which a large X is worth several, share a pass but not
        #: a single row.
        self.side_by_side = (
            5 * rows.nnz + 15 * rows.n_features + 16 * self.n_pairs
        ) / max(6 * rows.nnz, 1)
        if rows.nnz > LARGE:
            self.side_by_side /= 2
        self.score_bounds = np.searchsorted(
            self.ptr, self.n_pairs * np.arange(SCORE_PARTS + 1) // SCORE_PARTS
        )
        self.score_bounds[[0, -1]] = 0, rows.n_rows

    @cached
    def _shared(self) -> tuple[np.ndarray, np.ndarray]:
        counts = np.empty(self.n_pairs, dtype=np.int64)
        inner = np.empty(self.n_pairs)
        self._find_shared(counts, inner, np.empty(0, dtype=np.int32), np.empty(0))
        if self.rows.dense is not None:
            bounds = self.workers.split(self.n_pairs, grain=PAIR_GRAIN)
            self.workers.run(
                add_pair_products, bounds, self.a, self.b, self.rows.dense, inner
            )
        return counts, inner

    def _find_shared(self, *out: np.ndarray) -> None:
        rows = self.rows
        bounds = self.workers.split(self.n_pairs, grain=PAIR_GRAIN)
        given = self.a, self.b, rows.by_row, rows.n_features, *out
        self.workers.run(
            lambda *part: kernels.shared_features(
                *part, *given, np.zeros(rows.n_columns)
            ),
            bounds,
        )

    @property
    def inner_products(self) -> np.ndarray:
        """⟨x_a, x_b⟩ of each pair."""
        return self._shared[1]

    @cached
    def products(self) -> Arrays:
        """x_a ∘ x_b of each pair: where those of a pair begin, features, and products."""
        counts, inner = self._shared
        ptr = starts(counts)
        out = np.empty(ptr[-1], dtype=np.int32), np.empty(ptr[-1])
        self._find_shared(ptr[:-1].copy(), np.empty_like(inner), *out)
        return ptr, *out

    def diagonal(self, w: np.ndarray) -> np.ndarray:
        """Return the diagonal of C, summed in parts that depend on the pairs alone."""
        ptr, feature, product = self.products
        (bounds, out) = self._parts
        d = self.rows.n_features
        given = bounds, ptr, feature, product, w, out
        self.workers.run(kernels.diagonals, np.arange(len(bounds)), *given)
        if len(out) == 1:
            return out[0].copy()
        total = np.empty(d)
        shares = self.workers.split(d, grain=GRAIN // (4 * len(out)))
        self.workers.run(kernels.add_parts, shares, out, total)
        return total

    @cached
    def _parts(self) -> tuple[np.ndarray, np.ndarray]:
        """Bounds of the parts of the diagonal, and room for them: new memory is slow at first."""
        ptr = self.products[0]
        d = self.rows.n_features
        n = int(ptr[-1])
        n_parts = max(1, min(MOST_PARTS, n // LEAST_PRODUCTS, n // (LEAST_SHARE * d)))
        bounds = np.searchsorted(ptr, n * np.arange(n_parts + 1) // n_parts)
        bounds[[0, -1]] = 0, self.n_pairs
        return bounds, np.empty((n_parts, d))


class Comparisons:
    """Comparisons of any two pairs of rows: S(a, b) > S(c, d).

    Parameters
    ----------
    rows : Rows
    compared : ndarray of shape (n, 3) or (n, 4)
        Rows (anchor, positive, negative) or (a, b, c, d).
    omega : ndarray of shape (n,) or float
        Weights, which sum to 1 over all comparisons of a problem; a number where all
        are equal.
    """

    def __init__(
        self, rows: Rows, compared: np.ndarray, omega: np.ndarray | float
    ) -> None:
        self.rows = rows
        self.workers = rows.workers
        self.n_comparisons = len(compared)
        self.n_chunks = -(-len(compared) // CHUNK)
        self.recycled = Recycled(len(compared))
        self.columns = tuple(
            np.ascontiguousarray(part, dtype=np.int32) for part in compared.T
        )
        self.omega = np.atleast_1d(omega)
        self.is_weighted = np.ndim(omega) > 0
        a, b, self.winner, self.loser = number_pairs(
            self.sides, rows.n_rows, self.workers
        )
        self.pairs = Pairs(rows, a, b)
        self.chunk_bounds = self.workers.split(
            self.n_chunks, grain=GRAIN // (4 * CHUNK)
        )
        self.bounds = self.workers.split(
            len(compared), grain=GRAIN // 8
        )  # random access is slow

    @property
    def sides(self) -> tuple[np.ndarray, ...]:
        """Rows a, b, c and d."""
        return sides_of(self.columns)

    @property
    def dot_margins(self) -> np.ndarray:
        """Margins of the plain dot product."""
        return self.differences(self.pairs.inner_products)

    def fixed_margins(self, weights: tuple[float, ...]) -> np.ndarray | None:
        """Return Σ weight · margins over the fixed parts; None where all weights are 0.

        There is one part: the plain dot product.
        """
        if not any(weights):
            return None
        (weight,) = weights
        return weight * self.dot_margins

    def differences(
        self, by_pair: np.ndarray, base: np.ndarray | None = None
    ) -> np.ndarray:
        """Return by how much the pair that is to win exceeds the other, plus a base."""
        base = EMPTY if base is None else base
        out = self.recycled.empty()
        given = self.winner, self.loser, by_pair, base, out
        self.workers.run(kernels.differences, self.bounds, *given)
        return out

    def sum_pulls(self, pulls: np.ndarray, omega: np.ndarray = EMPTY) -> np.ndarray:
        """Return the sum of the pulls at each pair: + where it is to win, - where it is to lose.

        With weights in `omega`, these are the pulls of margins of the smoothed hinge.
        """
        w = self.pairs.recycled.empty()
        (ptr, term) = self._terms
        bounds = self.workers.split(self.pairs.n_pairs, grain=GRAIN // 8, work=ptr[::2])
        self.workers.run(kernels.sum_pulls, bounds, ptr, term, pulls, omega, w)
        return w

    @cached
    def _terms(self) -> tuple[np.ndarray, np.ndarray]:
        """For each pair the comparisons that it is to win, and those that it is to lose."""
        number = np.arange(self.n_comparisons, dtype=np.int32)
        keys = np.append(2 * self.winner, 2 * self.loser + np.int32(1))
        twice = np.append(number, number)
        return grouped(keys, twice, twice, 2 * self.pairs.n_pairs, self.workers)[:2]


def number_pairs(
    sides: tuple[np.ndarray, ...], n_rows: int, workers: Workers
) -> tuple[np.ndarray, ...]:
    """Return the distinct pairs of rows {a, b}, and their numbers in both sides of comparisons.

    Examples
    --------
    >>> sides = tuple(np.array([[0, 2], [2, 1], [0, 2], [1, 0]], dtype=np.int32))
    >>> [part.tolist() for part in number_pairs(sides, 3, Workers(1))]
    [[0, 0, 1], [1, 2, 2], [1, 2], [0, 1]]
    """
    a, b, c, d = sides
    low = np.append(np.minimum(a, b), np.minimum(c, d))
    high = np.append(np.maximum(a, b), np.maximum(c, d))
    order = np.arange(len(low), dtype=np.int32)
    ptr, low, order = grouped(
        high, low, order, n_rows, workers
    )  # by the one, then by the other
    high = np.repeat(np.arange(n_rows, dtype=np.int32), np.diff(ptr))
    ptr, high, order = grouped(low, high, order, n_rows, workers)
    low = np.repeat(np.arange(n_rows, dtype=np.int32), np.diff(ptr))
    is_new = np.ones(len(order), dtype=bool)
    is_new[1:] = (low[1:] != low[:-1]) | (high[1:] != high[:-1])
    check_count(
        2 * int(is_new.sum()), "ends of pairs of rows that are compared", "comparisons"
    )
    number = np.empty_like(order)
    number[order] = np.cumsum(is_new, dtype=np.int32) - np.int32(1)
    return low[is_new], high[is_new], number[: len(a)], number[len(a) :]
