"""Sorts by counting: items in the order of their keys, and of their numbers where keys are equal.

For each range of keys all items are looked at, which is quick, and written to one range
of memory: writes all over a large memory are slow.
"""

import numpy as np

from .compiled import kernel


@kernel()
def count_keys(start, stop, keys, counts):
    """Count how often each key in [start, stop) occurs."""
    for key in range(start, stop):
        counts[key] = 0
    for k in range(keys.size):
        key = keys[k]
        if start <= key < stop:
            counts[key] += 1


@kernel()
def sort_items(start, stop, bounds, keys, first, second, position, out_1, out_2):
    """Write two values of each item by ranges [start, stop) of keys.

    The next item of each key is written to position[key], which moves on.
    """
    for number in range(start, stop):
        low = bounds[number]
        high = bounds[number + 1]
        for k in range(keys.size):
            key = keys[k]
            if low <= key < high:
                out_1[position[key]] = first[k]
                out_2[position[key]] = second[k]
                position[key] += 1


@kernel()
def sort_columns(start, stop, bounds, rows, position, indices, data):
    """Write the columns of X, which comes as CSR, by ranges [start, stop) of them.

    The next entry of each column is written to position[column], which moves on.
    """
    for number in range(start, stop):
        low = bounds[number]
        high = bounds[number + 1]
        for row in range(rows.indptr.size - 1):
            first = np.uint64(rows.indptr[row])
            last = np.uint64(rows.indptr[row + 1])
            for k in range(first, last):
                column = rows.indices[k]
                if low <= column < high:
                    indices[position[column]] = row
                    data[position[column]] = rows.data[k]
                    position[column] += 1
