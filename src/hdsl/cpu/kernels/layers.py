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
from .search import is_worse, replace_worst

#: Rows that are looked at together.
TILE = 64

#: What a product in float32 may be too small by, relative to its size.
ROUNDING = 2.0**-23

#: Roundings beside those of the products of a layer.
MORE_ROUNDINGS = 8

#: Whether a row of a block may be among the best, and whether it was compared.
OPEN = 1
COMPARED = 2


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


class TopLists(NamedTuple):
    """The best rows of each query by each of the last layers, as heaps.

    Attributes
    ----------
    scores, rows : ndarray of shape (n_lists, n_queries, k)
        -inf and -1 to begin with.
    sizes : ndarray of shape (n_lists,), int64
        How many of k each list has.
    """

    scores: np.ndarray
    rows: np.ndarray
    sizes: np.ndarray


class NearLists(NamedTuple):
    """The best rows of each query by the last layer, and what is known by that before.

    Attributes
    ----------
    scores, rows : ndarray of shape (1, n_queries, k)
        As in `TopLists`.
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
    marks : ndarray of shape (n_block_rows,), uint8
        Whether a row may be among the best by any layer, and whether it was compared.
    unfolded : ndarray of shape (n_features,), float64
        A query, dense; zeros before and after. The features of one layer come after
        those of the layer before.
    firsts : ndarray of shape (n_layers + 1,), int64
        The first feature of each layer in `unfolded`, and where the last one ends.
    """

    upper: np.ndarray
    marks: np.ndarray
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
    lists : TopLists
    space : LayerSpace
    """
    first_layer = len(queries) - lists.scores.shape[0]
    for query in range(start, stop):
        for layer in range(len(queries)):
            _sum_columns(query, layer, queries, block, space)
            if layer >= first_layer:
                number = layer - first_layer
                _fill_list(
                    space.upper[layer],
                    first,
                    lists.scores[number, query],
                    lists.rows[number, query],
                    lists.sizes[number],
                )


@kernel()
def _fill_list(sums, first, scores, rows, size):
    """Offer the rows of a block to a list; blocks come one after the other."""
    limit = np.float32(scores[0])
    for tile in range(0, sums.size, TILE):
        tile_end = min(tile + TILE, sums.size)
        is_above = np.int32(0)
        for k in range(tile, tile_end):
            is_above |= np.int32(sums[k] > limit)
        if is_above:
            for k in range(tile, tile_end):
                if sums[k] > limit:
                    replace_worst(scores, rows, size, np.float64(sums[k]), first + k)
                    limit = np.float32(scores[0])


@kernel()
def score_listed(start, stop, queries, rows, numbers, lists, space):
    """Compute the similarities of listed rows anew, for queries [start, stop).

    `numbers` are the first number of the rows, the one after the last, and the row that
    the first one is.
    """
    n_lists = lists.scores.shape[0]
    for query in range(start, stop):
        _unfold_layers(query, queries, space, 1.0)
        for number in range(n_lists):
            last = len(queries) - n_lists + number
            for k in range(lists.sizes[number]):
                row = lists.rows[number, query, k]
                if numbers[0] <= row < numbers[1]:
                    similarity = 0.0
                    for layer in range(last + 1):
                        similarity = _add_layer(
                            query,
                            numbers[2] + row - numbers[0],
                            layer,
                            queries,
                            rows,
                            space,
                            similarity,
                        )
                    lists.scores[number, query, k] = similarity
        _unfold_layers(query, queries, space, 0.0)


@kernel()
def compare_shortlist(start, stop, queries, rows, first, lists, space):
    """Offer the near rows of queries [start, stop), row 0 of which is row `first`."""
    last = len(queries) - 1
    for query in range(start, stop):
        _unfold_layers(query, queries, space, 1.0)
        for k in range(lists.shortlist.shape[1]):
            number = lists.shortlist[query, k]
            if number >= 0:
                before = np.float64(lists.shortlist_scores[query, k])
                similarity = _add_layer(
                    query, first + number, last, queries, rows, space, before
                )
                _offer(query, number, similarity, lists)
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
    for query in range(start, stop):
        _unfold_layers(query, queries, space, 1.0)
        factor = lists.beyond[query] * queries[last].factors[query]
        for k in range(space.marks.size):
            space.marks[k] = 0
            space.upper[last, k] = np.float32(factor) * block[0].factors[k]
        upper = space.upper[last]
        rounding = np.float32(_add_products(query, queries[last], block[0], upper))
        for k in range(upper.size):
            upper[k] += rounding
        for k in range(lists.shortlist.shape[1]):
            position = lists.shortlist[query, k] - firsts[1]
            if 0 <= position < space.marks.size:
                space.marks[position] = COMPARED
        _open_rows(query, lists, space)
        _compare_open(query, queries, rows, firsts, lists, space)
        _unfold_layers(query, queries, space, 0.0)


@kernel()
def _open_rows(query, lists, space):
    """Mark the rows that may be among the best of a query by the last layer."""
    marks = space.marks
    limit = np.float32(lists.scores[0, query, 0])
    upper = space.upper[-1]
    for k in range(marks.size):
        marks[k] |= np.uint8(upper[k] >= limit)


@kernel()
def _compare_open(query, queries, rows, firsts, lists, space):
    """Compare the rows that are marked as open."""
    marks = space.marks
    for tile in range(0, marks.size, TILE):
        tile_end = min(tile + TILE, marks.size)
        every_mark = np.uint8(0)
        for k in range(tile, tile_end):
            every_mark |= marks[k]
        if every_mark & OPEN:
            for k in range(tile, tile_end):
                if marks[k] == OPEN:
                    _compare_row(query, k, queries, rows, firsts, lists, space)


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
def _compare_row(query, position, queries, rows, firsts, lists, space):
    """Offer a row of a block to the lists of a query."""
    space.marks[position] = COMPARED
    row = firsts[0] + position
    number = firsts[1] + position
    _compare(query, row, number, queries, rows, lists, space)


@kernel()
def _compare(query, row, number, queries, rows, lists, space):
    """Offer a row to the lists of a query, by its similarities."""
    similarity = 0.0
    for layer in range(len(queries)):
        similarity = _add_layer(query, row, layer, queries, rows, space, similarity)
    _offer(query, number, similarity, lists)


@kernel()
def _offer(query, number, similarity, lists):
    """Offer a row to the list of a query."""
    scores = lists.scores[0, query]
    numbers = lists.rows[0, query]
    if is_worse(scores[0], numbers[0], similarity, number):
        replace_worst(scores, numbers, scores.size, similarity, number)


@kernel()
def _add_layer(query, row, layer, queries, rows, space, before):
    """Return the similarity of a query and a row by a layer, from that by the one before."""
    arrays = rows[layer].arrays
    first = space.firsts[layer]
    total = 0.0
    for e in range(arrays.indptr[row], arrays.indptr[row + 1]):
        total += arrays.data[e] * space.unfolded[first + arrays.indices[e]]
    total *= queries[layer].scales[query] * rows[layer].scales[row]
    factor = queries[layer].factors[query] * rows[layer].factors[row]
    return before * factor + total
