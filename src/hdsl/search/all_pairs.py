"""The search of sparse rows among themselves: each pair of rows is compared once.

Both rows of a pair are offered to the lists of the other. The rows are divided into
groups, and each group meets each other one, a few rows at a time. Inner products are
summed in float32 first, up to an error of a small share of each; those that may be
large enough for one of the two lists are computed in float64.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from ..neighbor_lists import NeighborLists
from .products import largest_magnitude

if TYPE_CHECKING:
    from ..cpu.kernels.compiled import SparseArrays
    from ..cpu.workers import Workers

#: Rows from which on comparing each pair once is faster.
LEAST_ROWS = 2**14

#: Products per pair of rows, on average, from which on it is faster.
LEAST_PRODUCTS = 1.0

#: Time to compare a pair of rows, where one product takes 1.
PAIR_COST = 3.0

#: Rows of a block, written by columns, that other rows are compared with.
BLOCK_ROWS = 2**12

#: Rows that are compared with a block side by side.
ROWS_AT_ONCE = 16

#: Share of rows from which on a feature is frequent: its column of a block is dense.
FREQUENT_SHARE = 0.12

#: Least value over the largest whose products float32 holds.
FLOAT32_RANGE = 2.0**-60

#: Most entries of a row whose sum float32 holds.
LONGEST_ROW = 2**17

#: Float32 numbers on a line of the cache.
LINE_NUMBERS = 16


def is_faster_by_pairs(n_rows: int, n_products: float) -> bool:
    """Return whether comparing each pair of rows once is faster than row by row."""
    return n_rows >= LEAST_ROWS and n_products > LEAST_PRODUCTS * n_rows * n_rows


def fill_by_pairs(
    X: sp.csr_array, frequency: np.ndarray, lists: NeighborLists, workers: Workers
) -> np.ndarray:
    """Fill the lists of rows searched among themselves; return the rows not done.

    Rows with inner products of 0 in their lists are not done: of all rows with that
    product the first ones count. No row is done where float32 cannot hold the products:
    values must be positive, and not too far apart.

    Parameters
    ----------
    X : csr_array of shape (n_rows, n_features), float64
    frequency : ndarray of shape (n_features,)
        Rows that have each feature, in falling order.
    lists : NeighborLists
    workers : Workers

    Returns
    -------
    ndarray of row numbers
    """
    from ..cpu.kernels import search as kernels
    from ..cpu.rows import arrays_of

    n = X.shape[0]
    largest = largest_magnitude(X)
    longest = int(np.diff(X.indptr).max())
    if X.data.min() < FLOAT32_RANGE * largest or longest > LONGEST_ROW:
        return np.arange(n)
    n_frequent = int(np.count_nonzero(frequency > FREQUENT_SHARE * n))
    n_of_several_rows = int(np.count_nonzero(frequency > 1))
    n_features = max(n_frequent, n_of_several_rows)
    float32_rows = _to_float32(X[:, :n_features] / largest)
    lowest = np.float32(-np.inf)
    highest = np.float32(np.inf)
    # What a sum in float32 must be above, per inner product that is to be beaten.
    scale = (1.0 - (longest + 8) * 2.0**-23) / largest / largest
    limits = kernels.ListLimits(
        same=np.where(lists.want_same > 0, lowest, highest),
        other=np.where(lists.want_other > 0, lowest, highest),
        scale=scale,
    )

    n_groups = _number_of_groups(n, workers.n_threads)
    bounds = np.arange(n_groups + 1) * n // n_groups
    n_entries = int(np.diff(float32_rows.indptr[bounds]).max())
    rows = kernels.GroupedRows(bounds, exact=arrays_of(X), rounded=float32_rows)

    def fill(start: int, stop: int, pairs: np.ndarray) -> None:
        workspace = kernels.Workspace(
            frequent=_aligned(BLOCK_ROWS // kernels.TILE, n_frequent, kernels.TILE),
            column_ptr=np.empty(n_features - n_frequent + 2, dtype=np.int32),
            column_rows=np.empty(n_entries, dtype=np.uint16),
            column_values=np.empty(n_entries, dtype=np.float32),
            sums=_aligned(ROWS_AT_ONCE, BLOCK_ROWS),
            block_limits=_aligned(BLOCK_ROWS),
            row=np.zeros(X.shape[1]),
        )
        kernels.compare_groups(start, stop, pairs, rows, lists, limits, workspace)

    cost = PAIR_COST * (n // n_groups) ** 2
    each_with_itself = np.repeat(np.arange(n_groups)[:, None], 2, axis=1)
    workers.run_pieces(fill, n_groups, cost, each_with_itself)
    for pairs in round_robin(n_groups):
        workers.run_pieces(fill, len(pairs), cost, pairs)
    return _clear_lists_with_zeros(lists)


def _to_float32(X: sp.csr_array) -> SparseArrays:
    """Return the arrays of a matrix with sorted indices and values in float32."""
    from ..cpu.rows import arrays_of

    X.sort_indices()
    arrays = arrays_of(X)
    return arrays._replace(data=arrays.data.astype(np.float32))


def _number_of_groups(n_rows: int, n_threads: int) -> int:
    """Return an even number: four per thread, if they are of a suitable size."""
    low = n_rows // LEAST_ROWS
    high = 4 * n_rows // LEAST_ROWS
    return 2 * max(1, min(high, max(low, 2 * n_threads)))


def round_robin(n_teams: int) -> Iterator[np.ndarray]:
    """Yield the rounds of a league: pairs of teams, each team once, by the circle method.

    Team 0 keeps its seat, the others move on by one seat per round, and each meets the
    team opposite. `n_teams` is even.

    Examples
    --------
    >>> [pairs.tolist() for pairs in round_robin(4)]
    [[[0, 3], [1, 2]], [[0, 1], [2, 3]], [[0, 2], [3, 1]]]
    """
    n_pairs = n_teams // 2
    others = np.arange(1, n_teams)
    for turn in range(n_teams - 1):
        circle = np.append(0, np.roll(others, -turn))
        opposite = circle[::-1]
        yield np.stack([circle[:n_pairs], opposite[:n_pairs]], axis=1)


def _clear_lists_with_zeros(lists: NeighborLists) -> np.ndarray:
    """Empty the lists of rows that have an inner product of 0; return these rows."""
    has_zero = np.zeros(len(lists.query_labels), dtype=bool)
    for neighbors in (lists.same, lists.other):
        # The worst comes first, and a list that wants no rows has scores of -inf.
        has_zero |= (neighbors.scores[:, :1] == 0.0).any(axis=1)
    lists.same.scores[has_zero] = -np.inf
    lists.other.scores[has_zero] = -np.inf
    return np.flatnonzero(has_zero)


def _aligned(*shape: int) -> np.ndarray:
    """Return an empty float32 array that begins at a line of the cache."""
    size = int(np.prod(shape))
    padded = np.empty(size + LINE_NUMBERS, dtype=np.float32)
    to_next_line = -padded.ctypes.data // 4 % LINE_NUMBERS
    return padded[to_next_line:][:size].reshape(shape)
