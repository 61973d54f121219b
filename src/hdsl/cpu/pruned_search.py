"""The search for the largest inner products that leaves most of them out, exactly.

``kernels.pruned_search`` says how. What it saves depends on the data, so `plan` measures it on a
sample of the queries and of the rows.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import norm

from .kernels import pruned_search as kernels
from .kernels.pruned_search import BLOCK, LEVELS
from .kernels.search import finish
from .rows import arrays_of
from .workers import Workers

#: Rows of the index and queries that the work is measured on.
SAMPLE_ROWS, SAMPLE_QUERIES = 16384, 64

#: Shares of the score to beat that may be left to what is skipped.
SHARES = (0.5, 0.6, 0.7, 0.8, 0.9)

#: Rows with more features than this in common with no query are not tried first: the budget of
#: entries per query, and the rows tried as a multiple of those wanted.
BUDGET, TRIED = 2048, 4

#: Norms outside these limits do not fit in single precision.
SMALLEST, LARGEST = 1e-12, 1e12

#: Bytes of the blocks that are laid out at a time.
ROOM = 2**29

#: Time of an entry, of a value of a computed row, to look at one row, and of an entry that is read
#: to find first scores, in multiplications.
ENTRY_COST, VALUE_COST, ROW_COST, FIRST_COST = 1.3, 4.0, 0.1, 16.0


class Plan(NamedTuple):
    """How to search, and the cost per query in multiplications."""

    share: float
    cost: float


class PrunedSearch:
    """Queries and rows on the same features, the most frequent first.

    Parameters
    ----------
    queries, index : csr_array of float64
        The entries of their rows are sorted by feature, in place. They may be the same object.
    frequency : ndarray of shape (n_features,)
        Rows of the index that have each feature; falling.
    workers : Workers
    """

    def __init__(
        self, queries: sp.csr_array, index: sp.csr_array, frequency: np.ndarray, workers: Workers
    ) -> None:
        self.queries, self.index, self.frequency = queries, index, frequency
        self.workers = workers
        for X in (queries, index):
            X.sort_indices()
        self.query_arrays, self.index_arrays = arrays_of(queries), arrays_of(index)
        self.query_norms, self.norms = (norm(X, axis=1) for X in (queries, index))
        self.row_size = index.nnz / max(index.shape[0], 1)

    def is_possible(self) -> bool:
        """Return whether the values fit in single precision, and there is something to skip."""
        return bool(self.norms.size and SMALLEST < self.norms.max() < LARGEST)

    def can_prune(self, beats: np.ndarray) -> np.ndarray:
        """Return which queries have a score to beat that is worth it: positive, not just rounding.

        Parameters
        ----------
        beats : ndarray of shape (n_queries,)
        """
        n_terms = np.diff(self.query_arrays[0])
        largest = self.norms.max() * LEVELS / (LEVELS - 1) * self.query_norms
        fits = (self.query_norms > SMALLEST) & (self.query_norms < LARGEST)
        return fits & (beats > 4 * kernels.ROUNDING * (n_terms + 8) * largest)

    def plan(self, chosen: np.ndarray, beats: np.ndarray) -> Plan:
        """Return the best share and its cost per query, from the scores that a sample must beat."""
        n = self.index.shape[0]
        rows = np.unique(np.linspace(0, n - 1, min(n, SAMPLE_ROWS)).astype(np.int64))
        (block,) = self._blocks(rows, np.array([0, len(rows)]))
        plans = []
        for share in SHARES:
            work = np.zeros((len(chosen), 2), dtype=np.int64)
            self.workers.run_pieces(
                kernels.count_work, len(chosen), len(rows), chosen, share, beats, len(rows),
                block, self.query_norms, self.query_arrays, work,
            )  # fmt: skip
            entries, computed = work.mean(axis=0) * (n / len(rows))
            cost = ENTRY_COST * entries + VALUE_COST * self.row_size * computed
            plans.append(Plan(share, cost))
        best = min(plans, key=lambda plan: plan.cost)
        return best._replace(cost=best.cost + self._first_cost + ROW_COST * n)

    @property
    def _first_cost(self) -> float:
        """Time to find the first scores of a query, in multiplications."""
        return FIRST_COST * BUDGET + 60 * self.row_size

    def first_scores(self, lists: tuple[Any, ...]) -> np.ndarray:
        """Return scores that the neighbors of the same label and the others beat or equal.

        Shape (2, n_queries); -inf where none is known, inf where no such neighbor is wanted.
        """
        m = self.queries.shape[0]
        first_rare = int(np.searchsorted(-self.frequency, -BUDGET // 2))
        rare = self.index[:, first_rare:].tocsc()
        out = np.empty((2, m))
        self.workers.run_pieces(
            kernels.first_scores, m, self._first_cost, BUDGET, TRIED, first_rare, arrays_of(rare),
            self.query_arrays, self.index_arrays, lists, out,
        )  # fmt: skip
        return out

    def search(
        self, plan: Plan, chosen: np.ndarray, beats: np.ndarray, lists: tuple[Any, ...]
    ) -> None:
        """Fill the lists of the chosen queries.

        Parameters
        ----------
        plan : Plan
        chosen : ndarray
            Numbers of queries that `can_prune`.
        beats : ndarray of shape (2, n_queries)
            As `first_scores` returns them.
        lists : tuple
            Labels and lists, as the kernels take them.
        """
        labels = lists[1]
        rows = np.argsort(labels, kind="stable")  # a block of one label concerns one list only
        bounds = block_bounds(labels[rows])
        n_blocks = len(bounds) - 1
        per_block = self.index.nnz / n_blocks * 17 + len(self.frequency) * 4
        together = int(max(1, min(ROOM // per_block, 2 * self.workers.n_threads)))
        for first in range(0, n_blocks, together):
            some = bounds[first : first + together + 1]
            for block, (begin, end) in zip(self._blocks(rows, some), pairwise(some), strict=True):
                numbers = rows[begin:end]
                self.workers.run_pieces(
                    kernels.search_block, len(chosen), plan.cost / n_blocks, chosen, plan.share,
                    beats, (labels[numbers[0]], labels[numbers[-1]]), numbers, block,
                    self.query_norms, self.query_arrays, self.index_arrays, lists,
                )  # fmt: skip
        self.workers.run_pieces(finish, len(chosen), 100.0, chosen, *lists[3:])

    def _blocks(self, rows: np.ndarray, bounds: np.ndarray) -> list[tuple[Any, ...]]:
        """Return blocks of rows by columns: unit, columns, numbers in the block, levels, values."""
        ptr = self.index_arrays[0]
        sizes = np.add.reduceat((ptr[1:] - ptr[:-1])[rows], bounds[:-1])
        norms = np.maximum.reduceat(self.norms[rows], bounds[:-1])
        unit = np.where(norms > 0, norms, 1.0) / (LEVELS - 1)
        shape = (len(bounds) - 1, max(int(sizes.max()), 1))
        columns = np.empty((shape[0], len(self.frequency) + 1), dtype=np.int32)
        kinds = np.uint16, np.uint8, np.float32
        made = unit, columns, *(np.empty(shape, dtype=kind) for kind in kinds)
        self.workers.run_pieces(
            kernels.fill_blocks, shape[0], 1e9, rows, bounds, self.index_arrays, made
        )
        return list(zip(*made, strict=True))


def block_bounds(labels: np.ndarray) -> np.ndarray:
    """Return where blocks of sorted labels begin, and the end; a frequent label has its own.

    Examples
    --------
    >>> block_bounds(np.repeat([0, 1, 2, 3], [2, 3, 40_000, 1])).tolist()
    [0, 5, 20005, 40005, 40006]
    """
    count = np.bincount(labels)
    last = np.cumsum(count)
    is_frequent = count >= BLOCK // 4
    cuts = np.unique(np.concatenate([last[is_frequent], (last - count)[is_frequent]]))
    cuts = np.unique(np.concatenate([[0], cuts, [len(labels)]]))
    bounds = [0]
    for first, end in pairwise(cuts.tolist()):
        n = -(-(end - first) // BLOCK)
        bounds += [first + (end - first) * (k + 1) // n for k in range(n)]
    return np.array(bounds)
