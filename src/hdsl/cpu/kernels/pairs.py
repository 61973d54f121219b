"""Kernels over pairs of rows, which are fixed for a set of comparisons."""

import numpy as np

from .compiler import kernel


@kernel()
def count_into(keys, counts):
    """Add to counts[k + 1] the number of times k occurs: the first half of a counting sort."""
    for k in keys:
        counts[k + 1] += 1


@kernel()
def link_rows(row_a, row_b, cursor, neighbor, pair):
    """Fill the adjacency lists of the rows; `cursor` starts as their pointers.

    A pair of a row with itself is listed twice, so that it counts twice in S = C + Cᵀ.
    """
    for s in range(row_a.size):
        a, b = row_a[s], row_b[s]
        neighbor[cursor[a]] = b
        pair[cursor[a]] = s
        cursor[a] += 1
        neighbor[cursor[b]] = a
        pair[cursor[b]] = s
        cursor[b] += 1


@kernel()
def list_terms(positive_pair, negative_pair, cursor, term):
    """Fill the lists of comparisons of the pairs; `cursor` starts as their pointers.

    A pair lists t where it is to win, and after those ~t where it is to lose.
    """
    for t in range(positive_pair.size):
        s = positive_pair[t]
        term[cursor[s]] = t
        cursor[s] += 1
    for t in range(negative_pair.size):
        s = negative_pair[t]
        term[cursor[s]] = ~t
        cursor[s] += 1


@kernel()
def unfold(s, start, rows, ptr, idx, val, out):
    """Hold row rows[s] in a vector that held rows[s - 1], or zeros at the start (X as CSR).

    Pairs come sorted by their first row, which is unfolded once for all of its pairs: a merge of
    two sorted rows would mispredict at every other entry.
    """
    if s > start:
        if rows[s] == rows[s - 1]:
            return
        for k in range(ptr[rows[s - 1]], ptr[rows[s - 1] + 1]):
            out[idx[k]] = 0.0
    for k in range(ptr[rows[s]], ptr[rows[s] + 1]):
        out[idx[k]] = val[k]


@kernel()
def pair_products_count(start, stop, row_a, row_b, ptr, idx, val, n_features, counts, inner):
    """Count the shared features of the pairs [start, stop) (X as CSR); write the inner products."""
    x = np.zeros(n_features)
    for s in range(start, stop):
        unfold(s, start, row_a, ptr, idx, val, x)
        total = 0.0
        shared = 0
        for k in range(ptr[row_b[s]], ptr[row_b[s] + 1]):
            total += x[idx[k]] * val[k]
            shared += x[idx[k]] != 0.0
        counts[s] = shared
        inner[s] = total


@kernel()
def pair_products_fill(start, stop, row_a, row_b, ptr, idx, val, n_features, at, feature, product):
    """Write x_a ∘ x_b of the pairs [start, stop) from at[s] on: shared features and products."""
    x = np.zeros(n_features)
    for s in range(start, stop):
        unfold(s, start, row_a, ptr, idx, val, x)
        n = at[s]
        for k in range(ptr[row_b[s]], ptr[row_b[s] + 1]):
            y = x[idx[k]]
            if y != 0.0:
                feature[n] = idx[k]
                product[n] = y * val[k]
                n += 1


@kernel()
def place_of(idx, start, stop, row):
    """Return the first place in idx[start:stop], which rises, that is not below `row`."""
    while start < stop:
        middle = (start + stop) // 2
        if idx[middle] < row:
            start = middle + 1
        else:
            stop = middle
    return start


@kernel()
def ends_below(ptr, idx, limit, out):
    """Write where the indices below `limit` end in each row (X as CSR)."""
    for b in range(out.size):
        out[b] = place_of(idx, ptr[b], ptr[b + 1], limit)
