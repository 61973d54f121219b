"""Comparisons of rows, and the numbers of the pairs that they compare."""

import numpy as np

from ..cached import cached
from ..layout.sides import sides_of
from .array_pool import ArrayPool
from .kernels import pairs as kernels
from .kernels.losses import CHUNK
from .pairs import Pairs, number_pairs
from .rows import KernelRows
from .sorting import grouped
from .workers import GRAIN

EMPTY = np.empty(0)


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
        numbered = number_pairs(self.sides, rows.n_rows, self.workers)
        self.pairs = Pairs(rows, numbered.a, numbered.b)
        self.winner = numbered.winner
        self.loser = numbered.loser
        split = self.workers.split
        self.chunk_bounds = split(self.n_chunks, grain=GRAIN // (4 * CHUNK))
        # Random access is slow: fewer comparisons are worth a thread.
        self.bounds = split(len(compared), grain=GRAIN // 8)

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
        if base is None:
            base = EMPTY
        out = self.pool.empty()
        compared = kernels.ComparedPairs(self.winner, self.loser)
        self.workers.run(kernels.differences, self.bounds, compared, by_pair, base, out)
        return out

    def sum_pulls(self, pulls: np.ndarray, omega: np.ndarray = EMPTY) -> np.ndarray:
        """Return the sum of the pulls at each pair: + where it is to win, - where it is to lose.

        With weights in `omega`, these are the pulls of margins of the smoothed hinge.
        """
        sums = self.pairs.pool.empty()
        lists = self._pull_lists
        work = lists.indptr[::2]
        bounds = self.workers.split(self.pairs.n_pairs, grain=GRAIN // 8, work=work)
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
