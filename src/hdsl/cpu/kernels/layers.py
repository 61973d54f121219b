"""Compiled loops of the search by several similarities at a time.

The features of rows come in layers, with one similarity per layer. The similarity of
two rows by a layer is that by the layer before, times the factors of both rows, plus
the inner product of their features of the layer, times the scales of both rows.

Products are summed in float32, by the columns of a block of the index. The similarities
of the few rows that are best are computed anew, in float64: they are the same bits for
any blocks and any number of threads.
"""

from typing import NamedTuple

import numpy as np

from .arrays import SparseArrays
from .compiled import kernel
from .lines import LINE, reaching
from .search import is_worse, replace_worst

#: Rows that are looked at together: a constant number, so that the compiler makes
#: vectors of their loop.
TILE = 64

#: Rows that are compared together, so that arrays are handed over once for many.
N_LISTED = 4 * TILE

#: Sums in float32 that are looked at together where rows are offered both ways.
LINE_NUMBERS = LINE // 4

#: What a product in float32 may be too small by, relative to its size.
ROUNDING = 2.0**-23

#: Roundings beside those of the products of a layer.
MORE_ROUNDINGS = 8


class LayerRows(NamedTuple):
    """The features of rows in one layer.

    Attributes
    ----------
    arrays : SparseArrays
        The rows.
    scales, factors : ndarray of shape (n_rows,), float64
        Not negative. The factors of the first layer have no use.
    """

    arrays: SparseArrays
    scales: np.ndarray
    factors: np.ndarray


class LayerColumns(NamedTuple):
    """A block of the index in one layer: columns of features, values with their scales.

    Attributes
    ----------
    indptr : ndarray of shape (n_features + 1,), int64
    positions : ndarray of shape (nnz,), uint16
        Rows of the block.
    values : ndarray of shape (nnz,), float32
    factors : ndarray of shape (n_block_rows,), float32
        NaN where a row is not searched.
    longest : float
        Length of the longest row.
    """

    indptr: np.ndarray
    positions: np.ndarray
    values: np.ndarray
    factors: np.ndarray
    longest: float


class TopRows(NamedTuple):
    """The best rows of each query by one layer, as heaps.

    Attributes
    ----------
    scores : ndarray of shape (n_queries, k), float32
        -inf to begin with.
    rows : ndarray of shape (n_queries, k), int32
        -1 to begin with.
    """

    scores: np.ndarray
    rows: np.ndarray


class ListedRows(NamedTuple):
    """Rows whose similarities to queries by each layer are computed.

    Attributes
    ----------
    scores : ndarray of shape (n_layers, n_queries, k), float64
    rows : ndarray of shape (n_layers, n_queries, k), int32
    """

    scores: np.ndarray
    rows: np.ndarray


class NearLists(NamedTuple):
    """The best rows of each query by the last layer, and what is known by that before.

    Attributes
    ----------
    scores, rows : ndarray of shape (n_queries, k), float64 and int32
        The best rows, as heaps: -inf and -1 to begin with.
    shortlist : ndarray of shape (n_queries, n_shortlist), int32
        The rows that are most similar by the layer before, -1 where there are no more.
    shortlist_scores : ndarray of shape (n_queries, n_shortlist), float32
        How similar they are by it.
    beyond : ndarray of shape (n_queries,), float64
        No other row is more similar by it.
    """

    scores: np.ndarray
    rows: np.ndarray
    shortlist: np.ndarray
    shortlist_scores: np.ndarray
    beyond: np.ndarray


class LayerSpace(NamedTuple):
    """What a thread writes to.

    Attributes
    ----------
    upper : ndarray of shape (n_layers, n_block_rows), float32
        The similarity of each row, or what it is at most.
    listed : ndarray of shape (n_listed,), int32
        Rows that are compared together.
    similarities : ndarray of shape (n_listed,), float64
        Their similarities.
    unfolded : ndarray of shape (n_features,), float64
        A query, dense; zeros before and after. The features of one layer come after
        those of the layer before.
    firsts : ndarray of shape (n_layers + 1,), int64
        The first feature of each layer in `unfolded`, and where the last one ends.
    """

    upper: np.ndarray
    listed: np.ndarray
    similarities: np.ndarray
    unfolded: np.ndarray
    firsts: np.ndarray


@kernel()
def top_by_layers(start, stop, queries, block, first, lists, space):
    """Offer a block of the index to the lists of queries [start, stop).

    Parameters
    ----------
    start, stop : int
    queries : tuple of LayerRows
        One per layer.
    block : tuple of LayerColumns
    first : int
        The number of the first row of the block.
    lists : tuple of TopRows
    space : LayerSpace
    """
    for query in range(start, stop):
        for layer in range(len(queries)):
            _sum_columns(query, layer, queries, block, space)
            scores = lists[layer].scores[query]
            _fill_list(space.upper[layer], first, scores, lists[layer].rows[query])


@kernel()
def _fill_list(sums, first, scores, rows):
    """Offer the rows of a block to a list."""
    limit = scores[0]
    n_tiles = sums.size // TILE
    for number in range(n_tiles):
        tile = TILE * number
        is_of_use = np.int32(0)
        for k in range(TILE):
            is_of_use |= np.int32(sums[tile + k] >= limit)
        if is_of_use:
            _offer_sums(tile, tile + TILE, sums, first, scores, rows)
            limit = scores[0]
    _offer_sums(TILE * n_tiles, sums.size, sums, first, scores, rows)


@kernel()
def _offer_sums(start, stop, sums, first, scores, rows):
    """Offer the rows [start, stop) of a block to a list."""
    for k in range(start, stop):
        if sums[k] >= scores[0]:
            _offer(scores, rows, sums[k], first + k)


@kernel()
def compare_groups(start, stop, queries, block, first, lists, limits, space):
    """Offer rows [start, stop) and those of a block to the lists of each other.

    Parameters
    ----------
    start, stop : int
    queries : tuple of LayerRows
        All rows, one per layer.
    block : tuple of LayerColumns
    first : int
        The number of the first row of the block, among all rows.
    lists : tuple of TopRows
        Of all rows.
    limits : ndarray of shape (n_layers, n_block_rows), float32
        The worst score in the lists of the block's rows: inf if none is to be offered.
    space : LayerSpace
    """
    for query in range(start, stop):
        for layer in range(len(queries)):
            _sum_columns(query, layer, queries, block, space)
            sums = space.upper[layer]
            _fill_both(query, sums, first, lists[layer], limits[layer])


@kernel()
def _fill_both(query, sums, first, lists, limits):
    """Offer a query and the rows of a block to the lists of each other, by one layer."""
    scores = lists.scores[query]
    n_lines = sums.size // LINE_NUMBERS
    sum_address = sums.ctypes.data
    limit_address = limits.ctypes.data
    for line in range(n_lines):
        reached = reaching(
            scores[0], limit_address + LINE * line, sum_address + LINE * line
        )
        position = LINE_NUMBERS * line
        while reached:
            if reached & 1:
                _offer_both(query, position, sums, first, lists, limits)
            reached >>= 1
            position += 1
    for position in range(LINE_NUMBERS * n_lines, sums.size):
        _offer_both(query, position, sums, first, lists, limits)


@kernel()
def _offer_both(query, position, sums, first, lists, limits):
    """Offer a query and a row of a block to the lists of each other."""
    score = sums[position]
    row = first + position
    if score >= lists.scores[query, 0]:
        _offer(lists.scores[query], lists.rows[query], score, row)
    if score >= limits[position]:
        _offer(lists.scores[row], lists.rows[row], score, query)
        limits[position] = lists.scores[row, 0]


@kernel()
def score_listed(start, stop, queries, rows, numbers, lists, space):
    """Compute the similarities of listed rows anew, for queries [start, stop).

    The lists are of the last layers. `numbers` are the first number of the rows, the
    one after the last, and the row that the first one is.
    """
    n_lists = lists.scores.shape[0]
    for query in range(start, stop):
        _unfold_layers(query, queries, space, 1.0)
        for number in range(n_lists):
            listed = lists.rows[number, query]
            scores = lists.scores[number, query]
            for k in range(scores.size):
                if numbers[0] <= listed[k] < numbers[1]:
                    scores[k] = 0.0
            for layer in range(len(queries) - n_lists + number + 1):
                _add_layer(query, layer, queries, rows, numbers, listed, scores, space)
        _unfold_layers(query, queries, space, 0.0)


@kernel()
def compare_shortlist(start, stop, queries, rows, first, lists, space):
    """Offer the near rows of queries [start, stop), row 0 of which is row `first`."""
    last = len(queries) - 1
    n_near = lists.shortlist.shape[1]
    numbers = (0, rows[last].scales.size - first, first)
    similarities = space.similarities[:n_near]
    for query in range(start, stop):
        _unfold_layers(query, queries, space, 1.0)
        near = lists.shortlist[query]
        for k in range(n_near):
            similarities[k] = lists.shortlist_scores[query, k]
        _add_layer(query, last, queries, rows, numbers, near, similarities, space)
        for k in range(n_near):
            if near[k] >= 0:
                _offer(lists.scores[query], lists.rows[query], similarities[k], near[k])
        _unfold_layers(query, queries, space, 0.0)


@kernel()
def compare_beyond(start, stop, queries, block, rows, firsts, lists, space):
    """Offer the rows of a block that are not near, where they may be best all the same.

    Parameters
    ----------
    start, stop : int
    queries : tuple of LayerRows
        One per layer.
    block : tuple of LayerColumns
        The last layer alone.
    rows : tuple of LayerRows
        Rows of the index, with those of the block among them.
    firsts : tuple of int
        The first row of the block among `rows`, and its number.
    lists : NearLists
        With near rows that were offered.
    space : LayerSpace
    """
    last = len(queries) - 1
    upper = space.upper[last]
    for query in range(start, stop):
        _unfold_layers(query, queries, space, 1.0)
        factor = np.float32(lists.beyond[query] * queries[last].factors[query])
        _write_products(factor, block[0].factors, upper)
        rounding = _add_products(query, queries[last], block[0], upper)
        for k in range(lists.shortlist.shape[1]):
            position = lists.shortlist[query, k] - firsts[1]
            if 0 <= position < upper.size:
                upper[position] = np.nan  # it is never large enough
        _compare_open(query, rounding, queries, rows, firsts, lists, space)
        _unfold_layers(query, queries, space, 0.0)


@kernel()
def _write_products(factor, numbers, products):
    """Write a factor times numbers."""
    for k in range(products.size):
        products[k] = factor * numbers[k]


@kernel()
def _compare_open(query, rounding, queries, rows, firsts, lists, space):
    """Compare the rows of a block that may be among the best of a query."""
    upper = space.upper[-1]
    scores = lists.scores[query]
    numbers = (firsts[1], firsts[1] + upper.size, firsts[0])
    limit = np.float32(scores[0] - rounding)
    n_open = 0
    for number in range(upper.size // TILE):
        tile = TILE * number
        is_open = np.int32(0)
        for k in range(TILE):
            is_open |= np.int32(upper[tile + k] >= limit)
        if is_open:
            n_open = _list_open(tile, tile + TILE, limit, n_open, numbers, space)
            if n_open > space.listed.size - TILE:
                _compare_rows(query, n_open, queries, rows, numbers, lists, space)
                limit = np.float32(scores[0] - rounding)
                n_open = 0
    tile = upper.size - upper.size % TILE
    n_open = _list_open(tile, upper.size, limit, n_open, numbers, space)
    if n_open:
        _compare_rows(query, n_open, queries, rows, numbers, lists, space)


@kernel()
def _list_open(start, stop, limit, n_open, numbers, space):
    """List the rows [start, stop) of a block that reach a limit, after n_open others.

    Returns how many are listed then.
    """
    upper = space.upper[-1]
    for k in range(start, stop):
        if upper[k] >= limit:
            space.listed[n_open] = numbers[0] + k
            n_open += 1
    return n_open


@kernel()
def _compare_rows(query, n_open, queries, rows, numbers, lists, space):
    """Offer the rows that are listed as open to a query, by their similarities."""
    listed = space.listed[:n_open]
    similarities = space.similarities[:n_open]
    for k in range(n_open):
        similarities[k] = 0.0
    for layer in range(len(queries)):
        _add_layer(query, layer, queries, rows, numbers, listed, similarities, space)
    for k in range(n_open):
        _offer(lists.scores[query], lists.rows[query], similarities[k], listed[k])


@kernel()
def _unfold_layers(query, queries, space, factor):
    """Write the features of a query, times a factor, to a dense row."""
    for layer in range(len(queries)):
        arrays = queries[layer].arrays
        first = space.firsts[layer]
        end = space.firsts[layer + 1]
        for e in range(arrays.indptr[query], arrays.indptr[query + 1]):
            feature = first + arrays.indices[e]
            if feature < end:
                space.unfolded[feature] = factor * arrays.data[e]


@kernel()
def _sum_columns(query, layer, queries, block, space):
    """Write the similarities of a query with the rows of a block."""
    columns = block[layer]
    upper = space.upper[layer]
    if layer == 0:
        for k in range(upper.size):
            upper[k] = 0.0
    else:
        before = space.upper[layer - 1]
        factor = np.float32(queries[layer].factors[query])
        for k in range(upper.size):
            upper[k] = before[k] * (factor * columns.factors[k])
    _add_products(query, queries[layer], columns, upper)


@kernel()
def _add_products(query, rows, columns, sums):
    """Add the products of a query with the rows of a block; return how exact they are."""
    arrays = rows.arrays
    n_features = columns.indptr.size - 1
    scale = rows.scales[query]
    square = 0.0
    n_products = MORE_ROUNDINGS
    for e in range(arrays.indptr[query], arrays.indptr[query + 1]):
        feature = arrays.indices[e]
        if feature >= n_features:
            continue
        value = scale * arrays.data[e]
        square += value * value
        n_products += 1
        x = np.float32(value)
        first = np.uint64(columns.indptr[feature])
        last = np.uint64(columns.indptr[feature + 1])
        for entry in range(first, last):
            sums[np.uint32(columns.positions[entry])] += x * columns.values[entry]
    return n_products * ROUNDING * (1.0 + np.sqrt(square) * columns.longest)


@kernel()
def _offer(scores, rows, score, row):
    """Offer a row to a list."""
    if is_worse(scores[0], rows[0], score, row):
        replace_worst(scores, rows, scores.size, score, row)


@kernel()
def _add_layer(query, layer, queries, rows, numbers, listed, similarities, space):
    """Turn similarities of a query by the layer before one into those by this one.

    `numbers` are those of `score_listed`; other rows that are listed are left alone.
    """
    arrays = rows[layer].arrays
    scales = rows[layer].scales
    factors = rows[layer].factors
    query_scale = queries[layer].scales[query]
    query_factor = queries[layer].factors[query]
    unfolded = space.unfolded[space.firsts[layer] :]
    for k in range(listed.size):
        if numbers[0] <= listed[k] < numbers[1]:
            row = numbers[2] + listed[k] - numbers[0]
            total = 0.0
            for e in range(arrays.indptr[row], arrays.indptr[row + 1]):
                total += arrays.data[e] * unfolded[arrays.indices[e]]
            total *= query_scale * scales[row]
            similarities[k] = similarities[k] * (query_factor * factors[row]) + total
