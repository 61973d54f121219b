"""Compiled loops of the search by several similarities at a time.

The features of rows come in layers, with one similarity per layer. The similarity of
two rows by a layer is that by the layer before, times the factors of both rows, plus
the inner product of their features of the layer, times the scales of both rows.

A block of the index is searched in two steps. The first one sums float32 products by
columns, but for those of frequent features, which are most of the work: what they can
add is limited by the lengths of both rows in these features. The second one computes
the similarities of the few rows that may be large enough, in float64. So they are the
same bits for any blocks and any number of threads.
"""

from typing import NamedTuple

import numpy as np

from .arrays import SparseArrays
from .compiled import kernel
from .search import is_worse, replace_worst

#: Rows whose upper limits are looked at together.
TILE = 64

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
        Rows of the block. Columns of frequent features are empty.
    values : ndarray of shape (nnz,), float32
    is_frequent : ndarray of bool of shape (n_features,)
    frequent_lengths : ndarray of shape (n_block_rows,), float32
        Length of each row in the frequent features; -inf where a row is not searched.
    factors : ndarray of shape (n_block_rows,), float32
    longest : float
        Length of the longest row.
    """

    indptr: np.ndarray
    positions: np.ndarray
    values: np.ndarray
    is_frequent: np.ndarray
    frequent_lengths: np.ndarray
    factors: np.ndarray
    longest: float


class TopLists(NamedTuple):
    """The best rows of each query by each of the last layers, as heaps.

    Attributes
    ----------
    scores, rows : ndarray of shape (n_lists, n_queries, k)
        -inf and -1 to begin with.
    """

    scores: np.ndarray
    rows: np.ndarray


class LayerSpace(NamedTuple):
    """What a thread writes to.

    Attributes
    ----------
    sums : ndarray of shape (n_layers, n_block_rows), float32
        Products of a query with the rows, without frequent features.
    missing, rounding : ndarray of shape (n_layers,), float32
        Length of a query in the frequent features; what a sum may be too small by.
    upper : ndarray of shape (n_block_rows,), float32
        What a similarity is at most.
    is_open : ndarray of shape (n_block_rows,), uint8
        Whether a row may be among the best by any layer.
    seed_scores, seed_rows : ndarray of shape (k,), float64 and int64
    unfolded : ndarray of shape (n_features,), float64
        A query, dense; zeros before and after. The features of one layer come after
        those of the layer before.
    firsts : ndarray of shape (n_layers + 1,), int64
        The first feature of each layer in `unfolded`, and where the last one ends.
    """

    sums: np.ndarray
    missing: np.ndarray
    rounding: np.ndarray
    upper: np.ndarray
    is_open: np.ndarray
    seed_scores: np.ndarray
    seed_rows: np.ndarray
    unfolded: np.ndarray
    firsts: np.ndarray


@kernel()
def top_by_layers(start, stop, queries, block, rows, firsts, lists, space):
    """Offer a block of the index to the lists of queries [start, stop).

    Parameters
    ----------
    start, stop : int
    queries : tuple of LayerRows
        One per layer.
    block : tuple of LayerColumns
    rows : tuple of LayerRows
        Rows of the index, with those of the block among them.
    firsts : tuple of int
        The first row of the block among `rows`, and its number.
    lists : TopLists
    space : LayerSpace
    """
    for query in range(start, stop):
        _unfold_layers(query, queries, space, 1.0)
        _sum_columns(query, queries, block, space)
        n_seeds = _seed_lists(query, queries, block, rows, firsts, lists, space)
        _open_rows(query, queries, block, lists, space)
        for k in range(n_seeds):
            space.is_open[space.seed_rows[k]] = 0
        n_rows = space.upper.size
        for tile in range(0, n_rows, TILE):
            tile_end = min(tile + TILE, n_rows)
            has_open = np.uint8(0)
            for k in range(tile, tile_end):
                has_open |= space.is_open[k]
            if has_open:
                for k in range(tile, tile_end):
                    if space.is_open[k]:
                        _offer_row(query, k, queries, rows, firsts, lists, space)
        _unfold_layers(query, queries, space, 0.0)


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
def _sum_columns(query, queries, block, space):
    """Sum the products of a query with the rows of a block, without frequent features."""
    for layer in range(len(queries)):
        arrays = queries[layer].arrays
        columns = block[layer]
        sums = space.sums[layer]
        for k in range(sums.size):
            sums[k] = 0.0
        n_features = columns.indptr.size - 1
        scale = queries[layer].scales[query]
        square = 0.0
        frequent_square = 0.0
        n_products = MORE_ROUNDINGS
        for e in range(arrays.indptr[query], arrays.indptr[query + 1]):
            feature = arrays.indices[e]
            if feature >= n_features:
                continue
            value = scale * arrays.data[e]
            square += value * value
            n_products += 1
            if columns.is_frequent[feature]:
                frequent_square += value * value
                continue
            x = np.float32(value)
            first = np.uint64(columns.indptr[feature])
            last = np.uint64(columns.indptr[feature + 1])
            for entry in range(first, last):
                sums[np.uint32(columns.positions[entry])] += x * columns.values[entry]
        space.missing[layer] = np.sqrt(frequent_square)
        rounding = n_products * ROUNDING * np.sqrt(square) * columns.longest
        space.rounding[layer] = rounding


@kernel()
def _open_rows(query, queries, block, lists, space):
    """Mark the rows of a block that may be among the best of a query by any layer."""
    n_layers = len(queries)
    first_list = n_layers - lists.scores.shape[0]
    upper = space.upper
    is_open = space.is_open
    for k in range(upper.size):
        upper[k] = 0.0
        is_open[k] = 0
    for layer in range(n_layers):
        limit = np.float32(np.inf)
        if layer >= first_list:
            limit = np.float32(lists.scores[layer - first_list, query, 0])
        factor = np.float32(queries[layer].factors[query])
        missing = space.missing[layer]
        rounding = space.rounding[layer]
        sums = space.sums[layer]
        factors = block[layer].factors
        lengths = block[layer].frequent_lengths
        for k in range(upper.size):
            total = upper[k] * (factor * factors[k])
            total += sums[k] + missing * lengths[k] + rounding
            upper[k] = total
            is_open[k] |= np.uint8(total >= limit)


@kernel()
def _seed_lists(query, queries, block, rows, firsts, lists, space):
    """Offer the rows that may be best to lists that are not full; return how many they are.

    Then most other rows need not be looked at.
    """
    if lists.scores[-1, query, 0] != -np.inf:
        return 0
    _open_rows(query, queries, block, lists, space)
    size = space.seed_scores.size
    for k in range(size):
        space.seed_scores[k] = -np.inf
        space.seed_rows[k] = -1
    for k in range(space.upper.size):
        if space.upper[k] > space.seed_scores[0]:
            replace_worst(
                space.seed_scores, space.seed_rows, size, np.float64(space.upper[k]), k
            )
    n_seeds = 0
    for k in range(size):
        row = space.seed_rows[k]
        if row >= 0:
            space.seed_rows[n_seeds] = row
            n_seeds += 1
            _offer_row(query, row, queries, rows, firsts, lists, space)
    return n_seeds


@kernel()
def _offer_row(query, position, queries, rows, firsts, lists, space):
    """Offer a row of a block to the lists of a query, by its similarities."""
    row = firsts[0] + position
    number = firsts[1] + position
    first_list = len(queries) - lists.scores.shape[0]
    size = lists.scores.shape[2]
    similarity = 0.0
    for layer in range(len(queries)):
        arrays = rows[layer].arrays
        first = space.firsts[layer]
        total = 0.0
        for e in range(arrays.indptr[row], arrays.indptr[row + 1]):
            total += arrays.data[e] * space.unfolded[first + arrays.indices[e]]
        total *= queries[layer].scales[query] * rows[layer].scales[row]
        similarity *= queries[layer].factors[query] * rows[layer].factors[row]
        similarity += total
        if layer >= first_list:
            scores = lists.scores[layer - first_list, query]
            numbers = lists.rows[layer - first_list, query]
            if is_worse(scores[0], numbers[0], similarity, number):
                replace_worst(scores, numbers, size, similarity, number)
