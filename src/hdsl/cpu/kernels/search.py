"""Compiled loops of the search for the largest inner products.

Queries and rows of the index carry labels. Each query has two lists: the best rows of
its own label and the best rows of other labels. Of equal scores the smaller row number
comes first. The scores of a list are a heap whose top is the worst: -inf to begin with,
so that any row enters until the list is full.
"""

from typing import NamedTuple

import numpy as np

from .compiled import SparseArrays, kernel
from .lines import AHEAD, LINE, add, fetch, put, zeros

#: Rows of a block whose float32 sums are made, and compared with their limits, at a
#: time: four lines of vector registers.
TILE = 4 * LINE // 4


class GroupedRows(NamedTuple):
    """Rows that are searched for among themselves, in groups.

    Attributes
    ----------
    bounds : ndarray of shape (n_groups + 1,), int64
        Where each group begins and ends.
    exact : SparseArrays
        The rows.
    rounded : SparseArrays
        The rows with float32 values in [0, 1], features sorted by falling frequency.
    """

    bounds: np.ndarray
    exact: SparseArrays
    rounded: SparseArrays


class Block(NamedTuple):
    """Rows [first, first + size) that other rows are compared with."""

    first: int
    size: int


class ListLimits(NamedTuple):
    """What a float32 sum must be above to be of use to a list of each row.

    Attributes
    ----------
    same, other : ndarray of shape (n_rows,), float32
        The worst score of the list times `scale`.
    scale : float
    """

    same: np.ndarray
    other: np.ndarray
    scale: float


class Workspace(NamedTuple):
    """What a thread writes to while groups of rows are compared.

    Attributes
    ----------
    frequent : ndarray of shape (n_tiles, n_frequent, TILE), float32
        The columns of frequent features of a block of rows, dense.
    column_ptr, column_rows, column_values : ndarray
        The other columns of the block, as CSC: int32, uint16 and float32.
    sums : ndarray of shape (n_rows_at_once, n_block_rows), float32
        Inner products of a few rows with the block.
    block_limits : ndarray of shape (n_block_rows,), float32
        What a sum must be above to be of use to a row of the block.
    row : ndarray of shape (n_features,), float64
        One row of X, dense. Zeros, also afterwards.
    """

    frequent: np.ndarray
    column_ptr: np.ndarray
    column_rows: np.ndarray
    column_values: np.ndarray
    sums: np.ndarray
    block_limits: np.ndarray
    row: np.ndarray


# --- lists ----------------------------------------------------------------------------


@kernel()
def is_worse(score, row, other_score, other_row):
    """Return whether a row comes after another one in a list, best first."""
    return score < other_score or (score == other_score and row > other_row)


@kernel()
def replace_worst(scores, rows, size, score, row):
    """Replace the top of a heap, the worst row of a list, by another row."""
    hole = 0
    child = 1
    while child < size:
        sibling = child + 1
        if sibling < size and is_worse(
            scores[sibling], rows[sibling], scores[child], rows[child]
        ):
            child = sibling
        if is_worse(score, row, scores[child], rows[child]):
            break
        scores[hole] = scores[child]
        rows[hole] = rows[child]
        hole = child
        child = 2 * hole + 1
    scores[hole] = score
    rows[hole] = row


@kernel()
def _fill_lists(query, sums, first, lists):
    """Offer a block of rows, from row `first` on, to both lists of a query.

    `sums` are its inner products with them. Blocks come one after the other.
    """
    n_same = lists.want_same[query]
    n_other = lists.want_other[query]
    same_scores = lists.same.scores[query]
    same_rows = lists.same.rows[query]
    other_scores = lists.other.scores[query]
    other_rows = lists.other.rows[query]
    label = lists.query_labels[query]
    left_out = -1
    if lists.leaves_self:
        left_out = query - first
    # A row enters a list with a score above this; no row enters a list of none.
    same_limit = np.inf
    if n_same:
        same_limit = same_scores[0]
    other_limit = np.inf
    if n_other:
        other_limit = other_scores[0]
    limit = min(same_limit, other_limit)
    for k in range(sums.size):
        score = sums[k]
        if score <= limit or k == left_out:
            continue  # most rows; an equal score in the list is of a smaller row
        row = first + k
        if lists.labels[row] == label:
            if score > same_limit:
                replace_worst(same_scores, same_rows, n_same, score, row)
                same_limit = same_scores[0]
        elif score > other_limit:
            replace_worst(other_scores, other_rows, n_other, score, row)
            other_limit = other_scores[0]
        limit = min(same_limit, other_limit)


@kernel()
def top_of_sums(start, stop, sums, first_query, lists):
    """Find the largest of each row [start, stop) of `sums`; row 0 is that of a first query."""
    for k in range(start, stop):
        _fill_lists(first_query + k, sums[k], 0, lists)


# --- queries by columns of the index --------------------------------------------------


@kernel()
def _add_row_products(queries, query, columns, sums):
    """Add the inner products of a query with all rows, which come as CSC."""
    for e in range(queries.indptr[query], queries.indptr[query + 1]):
        feature = queries.indices[e]
        x = queries.data[e]
        first = np.uint64(columns.indptr[feature])
        last = np.uint64(columns.indptr[feature + 1])
        for k in range(first, last):  # unsigned: no test for negative numbers
            sums[np.uint32(columns.indices[k])] += x * columns.data[k]


@kernel()
def add_products(queries, columns, out):
    """Add the inner products of all queries with all rows, which come as CSC."""
    for query in range(out.shape[0]):
        _add_row_products(queries, query, columns, out[query])


@kernel()
def top_by_columns(start, stop, chosen, queries, columns, first, lists, sums):
    """Find the rows of largest inner product with chosen queries in a block of the index.

    The queries are chosen[start], …, chosen[stop - 1]. The block, rows from `first` on,
    comes as CSC. A query's inner products with its rows are summed from the columns of
    the query's features: cheap where most rows share no feature. `sums` has an entry
    for each row of the block, zero before and after.
    """
    for query in chosen[start:stop]:
        _add_row_products(queries, query, columns, sums)
        _fill_lists(query, sums, first, lists)
        for k in range(sums.size):
            sums[k] = 0.0


# --- rows with a dense embedding ------------------------------------------------------


class MixedBlock(NamedTuple):
    """A block of queries and a block of rows, with their products up to rounding.

    Attributes
    ----------
    first_query, first_row : int
    columns : SparseArrays
        The sparse features of the rows, as CSC.
    sums : ndarray of shape (n_queries, n_rows), float32 or float64
        Products of the embeddings. Those of the sparse features are added to them.
    errors : ndarray of shape (n_queries,), float64
        What a sum may be too small by.
    """

    first_query: int
    first_row: int
    columns: SparseArrays
    sums: np.ndarray
    errors: np.ndarray


@kernel()
def top_of_mixed_sums(start, stop, block, queries, rows, lists, unfolded):
    """Find the rows of largest inner product with queries [start, stop) of a block.

    Where a sum may be large enough for a list, the inner product is computed anew, in
    float64 and in the order of the values: it is the same for equal rows and for any
    number of threads. `unfolded` has a zero for each sparse feature, also afterwards.
    """
    for k in range(start, stop):
        query = block.first_query + k
        sums = block.sums[k]
        _add_row_products(queries.sparse, query, block.columns, sums)
        _unfold(queries.sparse, query, unfolded)
        _fill_mixed(query, sums, block, queries, rows, lists, unfolded)
        _clear(queries.sparse, query, unfolded)


@kernel()
def _fill_mixed(query, sums, block, queries, rows, lists, unfolded):
    """Offer the rows of a block to both lists of a query, by their exact inner products."""
    label = lists.query_labels[query]
    left_out = -1
    if lists.leaves_self:
        left_out = query - block.first_row
    error = block.errors[query - block.first_query]
    same_limit = np.inf
    if lists.want_same[query]:
        same_limit = lists.same.scores[query, 0]
    other_limit = np.inf
    if lists.want_other[query]:
        other_limit = lists.other.scores[query, 0]
    for k in range(sums.size):
        largest = sums[k] + error
        if k == left_out or (largest < same_limit and largest < other_limit):
            continue
        row = block.first_row + k
        is_same_label = lists.labels[row] == label
        limit = other_limit
        if is_same_label:
            limit = same_limit
        if largest < limit:
            continue
        score = _dot(rows.sparse, row, unfolded)
        score += _dense_dot(queries.dense[query], rows.dense[row])
        if is_same_label:
            same_limit = _offer(
                query, row, score, lists.want_same, lists.same.scores, lists.same.rows
            )
        else:
            other_limit = _offer(
                query,
                row,
                score,
                lists.want_other,
                lists.other.scores,
                lists.other.rows,
            )


@kernel()
def _dense_dot(x, y):
    """Return the inner product of two embeddings, in float64."""
    total = 0.0
    for j in range(x.size):
        total += np.float64(x[j]) * np.float64(y[j])
    return total


# --- groups of rows that are compared with each other ---------------------------------


@kernel()
def compare_groups(start, stop, group_pairs, data, lists, limits, space):
    """Compare groups of rows: group_pairs[start], …, group_pairs[stop - 1].

    No group is in two of these pairs. Inner products are summed in float32 first. Few
    sums are above the limits of one of the two rows; these inner products are computed
    in float64, and both rows are offered to the lists of each other.
    """
    block_size = space.block_limits.size
    largest_group = data.bounds[1] - data.bounds[0] + 1
    n_blocks = -(-largest_group // block_size)
    n_rows_at_once = space.sums.shape[0]
    for pair in range(start, stop):
        group = group_pairs[pair, 0]
        other_group = group_pairs[pair, 1]
        is_same_group = group == other_group
        group_first = data.bounds[group]
        other_first = data.bounds[other_group]
        n_other_rows = data.bounds[other_group + 1] - other_first
        for number in range(n_blocks):
            first = other_first + n_other_rows * number // n_blocks
            last = other_first + n_other_rows * (number + 1) // n_blocks
            block = Block(first, last - first)
            _write_block(block, data.rounded, space)
            _write_block_limits(block, limits, space.block_limits)
            end = data.bounds[group + 1]
            if is_same_group:
                end = last
            for row in range(group_first, end):
                line = (row - group_first) % n_rows_at_once
                if line == 0:
                    next_row = min(row + n_rows_at_once, end)
                    _sum_frequent(row, next_row, block.size, data.rounded, space)
                _add_others(row, line, data.rounded, space)
                first_compared = 0
                if is_same_group:  # each pair of its rows once
                    first_compared = max(0, row + 1 - first)
                _compare(
                    row, line, block, first_compared, data.exact, lists, limits, space
                )


@kernel()
def _write_block(block, rows, space):
    """Write a block of rows by columns, those of frequent features dense."""
    first = block.first
    frequent = space.frequent
    column_ptr = space.column_ptr
    n_frequent = frequent.shape[1]
    frequent[:] = 0.0
    column_ptr[:] = 0
    # Column j has its count at j + 2, then its start at j + 1, which moves on to its
    # end as the entries are written.
    for e in range(rows.indptr[first], rows.indptr[first + block.size]):
        if rows.indices[e] >= n_frequent:
            column_ptr[rows.indices[e] - n_frequent + 2] += 1
    for j in range(2, column_ptr.size):
        column_ptr[j] += column_ptr[j - 1]
    for k in range(block.size):
        for e in range(rows.indptr[first + k], rows.indptr[first + k + 1]):
            j = rows.indices[e] - n_frequent
            if j < 0:
                frequent[k // TILE, rows.indices[e], k % TILE] = rows.data[e]
            else:
                space.column_rows[column_ptr[j + 1]] = k
                space.column_values[column_ptr[j + 1]] = rows.data[e]
                column_ptr[j + 1] += 1


@kernel()
def _write_block_limits(block, limits, block_limits):
    """Write what a sum must be above to be of use to each row of a block; inf where none is."""
    for k in range(block.size):
        row = block.first + k
        block_limits[k] = min(limits.same[row], limits.other[row])
    for k in range(block.size, block_limits.size):
        block_limits[k] = np.inf


@kernel()
def _sum_frequent(start, stop, size, rows, space):
    """Write the inner products of rows [start, stop) with a block in the frequent features."""
    n_frequent = space.frequent.shape[1]
    indices = rows.indices
    values = rows.data
    n_block_rows = space.sums.shape[1]
    for tile in range(-(-size // TILE)):
        tile_address = space.frequent.ctypes.data + 4 * LINE * n_frequent * tile
        for row in range(start, stop):
            e = np.uint64(rows.indptr[row])
            last = np.uint64(rows.indptr[row + 1])
            line_0 = zeros()
            line_1 = zeros()
            line_2 = zeros()
            line_3 = zeros()
            while e < last and indices[e] < n_frequent:  # features are sorted
                x = values[e]
                column = tile_address + 4 * LINE * np.int64(indices[e])
                add(line_0, x, column)
                add(line_1, x, column + LINE)
                add(line_2, x, column + 2 * LINE)
                add(line_3, x, column + 3 * LINE)
                e += np.uint64(1)
            n_before = n_block_rows * (row - start) + TILE * tile
            target = space.sums.ctypes.data + 4 * n_before
            put(line_0, target)
            put(line_1, target + LINE)
            put(line_2, target + 2 * LINE)
            put(line_3, target + 3 * LINE)


@kernel()
def _add_others(row, line, rows, space):
    """Add the inner products of a row with a block in the other features."""
    indices = rows.indices
    values = rows.data
    sums = space.sums
    n_frequent = space.frequent.shape[1]
    column_ptr = space.column_ptr
    column_rows = space.column_rows
    column_values = space.column_values
    first = rows.indptr[row]
    last = rows.indptr[row + 1]
    while first < last and indices[first] < n_frequent:
        first += 1
    for e in range(first, last):
        later = indices[min(e + 2 * AHEAD, last - 1)] - n_frequent
        soon = indices[min(e + AHEAD, last - 1)] - n_frequent
        fetch(column_ptr.ctypes.data + 4 * np.int64(later))
        fetch(column_rows.ctypes.data + 2 * np.int64(column_ptr[soon]))
        fetch(column_values.ctypes.data + 4 * np.int64(column_ptr[soon]))
        j = np.uint32(indices[e] - n_frequent)
        x = values[e]
        for k in range(np.uint32(column_ptr[j]), np.uint32(column_ptr[j + 1])):
            sums[line, column_rows[k]] += x * column_values[k]


@kernel()
def _compare(row, line, block, first_compared, rows, lists, limits, space):
    """Offer a row to the rows of a block from the first compared one on, and them to it."""
    sums = space.sums[line]
    block_limits = space.block_limits
    same_limits = limits.same
    other_limits = limits.other
    scale = limits.scale
    query_labels = lists.query_labels
    labels = lists.labels
    unfolded = space.row
    is_unfolded = False
    limit = min(same_limits[row], other_limits[row])
    for tile_first in range(0, block.size, TILE):
        if not _has_sum_above(sums, limit, block_limits, np.uint64(tile_first)):
            continue
        tile_end = min(tile_first + TILE, block.size)
        for k in range(max(tile_first, first_compared), tile_end):
            if sums[k] <= limit and sums[k] <= block_limits[k]:
                continue
            other = block.first + k
            is_same_label = query_labels[row] == labels[other]
            row_limits = other_limits
            if is_same_label:
                row_limits = same_limits
            if sums[k] <= row_limits[row] and sums[k] <= row_limits[other]:
                continue
            if not is_unfolded:
                _unfold(rows, row, unfolded)
                is_unfolded = True
            score = _dot(rows, other, unfolded)
            if is_same_label:
                want = lists.want_same
                scores = lists.same.scores
                neighbors = lists.same.rows
                worst = _offer(row, other, score, want, scores, neighbors)
                same_limits[row] = scale * worst
                worst = _offer(other, row, score, want, scores, neighbors)
                same_limits[other] = scale * worst
            else:
                want = lists.want_other
                scores = lists.other.scores
                neighbors = lists.other.rows
                worst = _offer(row, other, score, want, scores, neighbors)
                other_limits[row] = scale * worst
                worst = _offer(other, row, score, want, scores, neighbors)
                other_limits[other] = scale * worst
            limit = min(same_limits[row], other_limits[row])
            block_limits[k] = min(same_limits[other], other_limits[other])
    if is_unfolded:
        _clear(rows, row, unfolded)


@kernel()
def _unfold(rows, row, out):
    """Write the entries of a row to a dense one."""
    for e in range(rows.indptr[row], rows.indptr[row + 1]):
        out[rows.indices[e]] = rows.data[e]


@kernel()
def _clear(rows, row, out):
    """Write zeros over the entries of a row in a dense one."""
    for e in range(rows.indptr[row], rows.indptr[row + 1]):
        out[rows.indices[e]] = 0.0


@kernel()
def _dot(rows, row, unfolded):
    """Return the inner product of a row with a dense one."""
    total = 0.0
    for e in range(rows.indptr[row], rows.indptr[row + 1]):
        total += rows.data[e] * unfolded[np.uint32(rows.indices[e])]
    return total


@kernel()
def _has_sum_above(sums, limit, block_limits, tile_first):
    """Return whether a sum of a tile is above the limit of the row, or of its row of the block."""
    is_above = np.int32(0)
    for k in range(tile_first, tile_first + np.uint64(TILE)):
        is_above |= np.int32((sums[k] > limit) | (sums[k] > block_limits[k]))
    return is_above != 0


@kernel()
def _offer(query, row, score, want, scores, rows):
    """Put a row into the list of a query if it is better than the worst; return the worst score."""
    if want[query] == 0:
        return np.inf
    if is_worse(scores[query, 0], rows[query, 0], score, row):
        replace_worst(scores[query], rows[query], want[query], score, row)
    return scores[query, 0]
