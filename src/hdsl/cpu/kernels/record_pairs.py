"""Compiled loops over pairs of sparse rows, each row with its features in order."""

import numpy as np

from .compiled import kernel


@kernel()
def pair_products(start, stop, pairs, rows, others, out):
    """Write the inner products of pairs [start, stop): a row, and one of others."""
    for pair in range(start, stop):
        first = rows.indptr[pairs[pair, 0]]
        first_end = rows.indptr[pairs[pair, 0] + 1]
        second = others.indptr[pairs[pair, 1]]
        second_end = others.indptr[pairs[pair, 1] + 1]
        total = 0.0
        while first < first_end and second < second_end:
            if rows.indices[first] == others.indices[second]:
                total += rows.data[first] * others.data[second]
                first += 1
                second += 1
            elif rows.indices[first] < others.indices[second]:
                first += 1
            else:
                second += 1
        out[pair] = total


@kernel()
def take_rows(start, stop, numbers, rows, positions, taken):
    """Write the rows of numbers [start, stop) to positions; where each begins is known."""
    for k in range(start, stop):
        source = rows.indptr[numbers[k]]
        row = positions[k]
        for entry in range(taken.indptr[row], taken.indptr[row + 1]):
            taken.indices[entry] = rows.indices[source]
            taken.data[entry] = rows.data[source]
            source += 1


@kernel()
def pair_overlaps(start, stop, pairs, rows, out):
    """Write what pairs [start, stop) of rows have in common, and what only one of them has.

    A pair has its inner product, the largest difference of a feature of the first row
    and the second one, at least 0, and the smallest one, at most 0.
    """
    for pair in range(start, stop):
        first = rows.indptr[pairs[pair, 0]]
        first_end = rows.indptr[pairs[pair, 0] + 1]
        second = rows.indptr[pairs[pair, 1]]
        second_end = rows.indptr[pairs[pair, 1] + 1]
        total = 0.0
        largest = 0.0
        smallest = 0.0
        while first < first_end or second < second_end:
            is_after = first == first_end
            is_before = second == second_end
            if not (is_after or is_before):
                is_after = rows.indices[second] < rows.indices[first]
                is_before = rows.indices[first] < rows.indices[second]
            difference = 0.0
            if not is_after:
                difference += rows.data[first]
            if not is_before:
                difference -= rows.data[second]
            if not (is_after or is_before):
                total += rows.data[first] * rows.data[second]
            first += not is_after
            second += not is_before
            largest = max(largest, difference)
            smallest = min(smallest, difference)
        out[pair, 0] = total
        out[pair, 1] = largest
        out[pair, 2] = smallest


@kernel()
def pair_sums(start, stop, pairs, rows, weights, out):
    """Write weighted sums of what pairs [start, stop) of rows have in common, or do not.

    `weights`, of shape (n_features, 2), has those of the smaller of two values, and
    those of their absolute difference. Values are 0 or more. Features from the end of
    the weights on do not count.
    """
    n_features = np.int64(len(weights))
    for pair in range(start, stop):
        first = rows.indptr[pairs[pair, 0]]
        first_end = rows.indptr[pairs[pair, 0] + 1]
        second = rows.indptr[pairs[pair, 1]]
        second_end = rows.indptr[pairs[pair, 1] + 1]
        total = 0.0
        while True:
            feature = n_features
            if first < first_end:
                feature = min(feature, np.int64(rows.indices[first]))
            if second < second_end:
                feature = min(feature, np.int64(rows.indices[second]))
            if feature == n_features:
                break
            x = 0.0
            y = 0.0
            if first < first_end and rows.indices[first] == feature:
                x = rows.data[first]
                first += 1
            if second < second_end and rows.indices[second] == feature:
                y = rows.data[second]
                second += 1
            total += min(x, y) * weights[feature, 0] + abs(x - y) * weights[feature, 1]
        out[pair] = total
