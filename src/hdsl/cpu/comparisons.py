"""Comparisons of rows, and the numbers of the pairs that they compare."""

from __future__ import annotations

import weakref

import numpy as np

from ..cached import cached
from ..layout import check_count, sides_of
from .kernels import pairs as kernels
from .kernels.compiled import Links, PairsByRow, SparseArrays
from .kernels.dense_rows import add_pair_products
from .kernels.losses import CHUNK
from .rows import KernelRows, counted, grouped, starts
from .workers import Workers

EMPTY = np.empty(0)

#: Entries of X from which on several threads are expected.
LARGE = 1 << 23

#: Scores of atoms are summed in so many shares of the rows.
SCORE_SHARES = 64


class Comparisons:
    """Comparisons of any two pairs of rows: S(a, b) > S(c, d).

    Parameters
    ----------
    rows : KernelRows
    compared : ndarray of shape (n, 3) or (n, 4)
        Rows (anchor, positive, negative) or (a, b, c, d).
    omega : ndarray of shape (n,) or float
        Weights, which sum to 1 over all comparisons of a problem; a number where all
        are equal.

    Attributes
    ----------
    columns : tuple of ndarray of shape (n,), int32
        The columns of `compared`.
    pairs : Pairs
    winner, loser : ndarray of shape (n,), int32
        The pair that is to win each comparison, and the pair that is to lose it.
    chunk_bounds : list of int
        Chunks of comparisons, shared out among the threads.
    bounds : list of int
        Comparisons, shared out among the threads.
    """

    def __init__(
        self, rows: KernelRows, compared: np.ndarray, omega: np.ndarray | float
    ) -> None:
        self.rows = rows
        self.workers = rows.workers
        self.n_comparisons = len(compared)
        self.n_chunks = -(-len(compared) // CHUNK)
        self.pool = ArrayPool(len(compared))
        self.columns = tuple(
            np.ascontiguousarray(column, dtype=np.int32) for column in compared.T
        )
        self.omega = np.atleast_1d(omega)
        self.is_weighted = np.ndim(omega) > 0
        a, b, winner, loser = number_pairs(self.sides, rows.n_rows, self.workers)
        self.pairs = Pairs(rows, a, b)
        self.winner = winner
        self.loser = loser
        split = self.workers.split
        grain = self.workers.grain
        self.chunk_bounds = split(self.n_chunks, grain=grain // (4 * CHUNK))
        # Random access is slow: fewer comparisons are worth a thread.
        self.bounds = split(len(compared), grain=grain // 8)

    @property
    def sides(self) -> tuple[np.ndarray, ...]:
        """Rows a, b, c and d."""
        return sides_of(self.columns)

    @property
    def dot_margins(self) -> np.ndarray:
        """Margins of the plain dot product."""
        return self.differences(self.pairs.inner_products)

    def prior_margins(self, prior: float) -> np.ndarray | None:
        """Return the margins of the prior; None where it is 0."""
        if not prior:
            return None
        return prior * self.dot_margins

    def differences(
        self, by_pair: np.ndarray, base: np.ndarray | None = None
    ) -> np.ndarray:
        """Return by how much the pair that is to win exceeds the other, plus a base."""
        if base is None:
            base = EMPTY
        out = self.pool.empty()
        self.workers.run(
            kernels.differences,
            self.bounds,
            self.winner,
            self.loser,
            by_pair,
            base,
            out,
        )
        return out

    def sum_pulls(self, pulls: np.ndarray, omega: np.ndarray = EMPTY) -> np.ndarray:
        """Return the sum of the pulls at each pair: + where it is to win, - where it is to lose.

        With weights in `omega`, these are the pulls of margins of the smoothed hinge.
        """
        sums = self.pairs.pool.empty()
        lists = self._pull_lists
        work = lists.indptr[::2]
        grain = self.workers.grain // 8
        bounds = self.workers.split(self.pairs.n_pairs, grain=grain, work=work)
        self.workers.run(kernels.sum_pulls, bounds, lists, pulls, omega, sums)
        return sums

    @cached
    def _pull_lists(self) -> kernels.PullLists:
        """For each pair the comparisons that it is to win, and those that it is to lose."""
        number = np.arange(self.n_comparisons, dtype=np.int32)
        keys = np.append(2 * self.winner, 2 * self.loser + np.int32(1))
        twice = np.append(number, number)
        items = grouped(keys, twice, twice, 2 * self.pairs.n_pairs, self.workers)
        return kernels.PullLists(items.indptr, items.first)


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
    pair_grain : int
        A thread is worth calling for this many pairs: rows have some hundred entries.
    score_bounds : ndarray of shape (SCORE_SHARES + 1,)
        Bounds of the rows whose pairs are a share of scores.
    """

    #: The diagonal is summed in shares: the largest number of them, the least products
    #: of each, and the least products of each per feature, since each has a number for
    #: every feature.
    most_shares = 16
    least_products = 100_000
    least_per_feature = 4

    def __init__(self, rows: KernelRows, a: np.ndarray, b: np.ndarray) -> None:
        self.rows = rows
        self.a = a
        self.b = b
        self.n_pairs = len(a)
        self.workers = rows.workers
        self.pool = ArrayPool(len(a))
        self.pair_grain = self.workers.grain // 500
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
    def _shared(self) -> tuple[np.ndarray, np.ndarray]:
        """Where the shared features of each pair begin and end, and its inner product."""
        indptr = np.zeros(self.n_pairs + 1, dtype=np.int64)
        inner_products = np.empty(self.n_pairs)
        counts = SparseArrays(indptr, np.empty(0, dtype=np.int32), np.empty(0))
        self._find_shared(inner_products, counts)
        if self.rows.dense is not None:
            self._add_dense_products(inner_products)
        np.cumsum(indptr, out=indptr)
        return indptr, inner_products

    def _add_dense_products(self, inner_products: np.ndarray) -> None:
        """Add the inner products of the embeddings of all pairs."""
        bounds = self.workers.split(self.n_pairs, grain=self.pair_grain)
        self.workers.run(
            add_pair_products, bounds, self.a, self.b, self.rows.dense, inner_products
        )

    def _find_shared(self, inner_products: np.ndarray, products: SparseArrays) -> None:
        """Count the shared features of all pairs, or write their products."""
        rows = self.rows

        def find(start: int, stop: int) -> None:
            kernels.shared_features(
                start,
                stop,
                self.a,
                self.b,
                rows.by_row,
                rows.n_features,
                inner_products,
                products,
                np.zeros(rows.n_columns),
            )

        self.workers.run(find, self.workers.split(self.n_pairs, grain=self.pair_grain))

    @property
    def inner_products(self) -> np.ndarray:
        """⟨x_a, x_b⟩ of each pair."""
        return self._shared[1]

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
        feature_bounds = self.workers.split(
            n_features, grain=self.workers.grain // (4 * n_shares)
        )
        self.workers.run(kernels.add_shares, feature_bounds, sums, diagonal)
        return diagonal

    @cached
    def _diagonal_shares(self) -> tuple[np.ndarray, np.ndarray]:
        """Bounds of the pairs of each share, and its sums: new memory is slow at first."""
        indptr = self.products.indptr
        n_features = self.rows.n_features
        n = int(indptr[-1])
        n_shares = min(
            self.most_shares,
            n // self.least_products,
            n // (self.least_per_feature * max(n_features, 1)),
        )
        n_shares = max(1, n_shares)
        bounds = np.searchsorted(indptr, n * np.arange(n_shares + 1) // n_shares)
        bounds[0] = 0
        bounds[-1] = self.n_pairs
        return bounds, np.empty((n_shares, n_features))


def number_pairs(
    sides: tuple[np.ndarray, ...], n_rows: int, workers: Workers
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the pairs {a, b} that comparisons compare, and their numbers in both sides.

    Pairs have a ≤ b and are sorted by a and then b. All arrays are of int32: a, b, and
    the pair that is to win and to lose each comparison S(a, b) > S(c, d).

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
    return smaller[is_new], larger[is_new], number[:n_compared], number[n_compared:]


class ArrayPool:
    """Arrays of one length, whose memory serves again when nobody has them anymore.

    Parameters
    ----------
    length : int

    Examples
    --------
    >>> pool = ArrayPool(3)
    >>> pool.empty().shape
    (3,)
    """

    def __init__(self, length: int) -> None:
        self._length = length
        self._loans: dict[int, _Loan] = {}
        self._returned: list[_Loan] = []

    def empty(self) -> np.ndarray:
        """Return an array whose values are open."""
        memory = self._memory()
        array = np.frombuffer(memory.data)  # views keep it alive, and not `memory`
        # No Python runs where an array is freed: an interrupt there would be lost.
        loan = _Loan(array, self._returned.append)
        loan.memory = memory
        self._loans[id(loan)] = loan
        return array

    def _memory(self) -> np.ndarray:
        """Return the memory of an array that is gone, or new memory."""
        if not self._returned:
            return np.empty(self._length)
        loan = self._returned.pop()
        del self._loans[id(loan)]
        return loan.memory


class _Loan(weakref.ref):
    """A reference that outlives an array, and has its memory."""

    memory: np.ndarray
