"""Kernels over pairs of compared rows: what they share, how comparisons pull at them."""

import numpy as np

from .compiled import REORDERED, kernel


@kernel()
def shared_features(start, stop, a, b, rows, n_features, at, inner, feature, product):
    """Find the shared features of the pairs [start, stop) (X as CSR), and the inner products.

    Where `feature` is empty they are counted in at[s]; else x_a ∘ x_b is written from at[s] on.
    Pairs come sorted by their first row, which is unfolded once for all of its pairs: a merge of
    two sorted rows would mispredict at every other entry.
    """
    ptr, idx, val = rows
    x = np.zeros(n_features)
    held = -1
    for s in range(start, stop):
        if a[s] != held:
            if held >= 0:
                for k in range(ptr[held], ptr[held + 1]):
                    x[idx[k]] = 0.0
            held = a[s]
            for k in range(ptr[held], ptr[held + 1]):
                x[idx[k]] = val[k]
        first, last = ptr[b[s]], ptr[b[s] + 1]
        if feature.size == 0:
            total, shared = 0.0, 0
            for k in range(first, last):
                total += x[idx[k]] * val[k]
                shared += x[idx[k]] != 0.0
            at[s], inner[s] = shared, total
        else:
            n = at[s]
            for k in range(first, last):
                if x[idx[k]] != 0.0:
                    feature[n], product[n] = idx[k], x[idx[k]] * val[k]
                    n += 1


@kernel()
def sum_pulls(start, stop, term_ptr, term, pulls, w):
    """Write for each pair [start, stop) the sum of the pulls at it.

    Lists 2s and 2s + 1 name the comparisons that pair s is to win and to lose.
    """
    for s in range(start, stop):
        total = 0.0
        for k in range(term_ptr[2 * s], term_ptr[2 * s + 1]):
            total += pulls[np.uint32(term[k])]
        for k in range(term_ptr[2 * s + 1], term_ptr[2 * s + 2]):
            total -= pulls[np.uint32(term[k])]
        w[s] = total


@kernel()
def diagonals(start, stop, bounds, ptr, feature, product, w, out):
    """Write the diagonal of C from the products of the pairs of each part [start, stop)."""
    for part in range(start, stop):
        total = out[part]
        for j in range(total.size):
            total[j] = 0.0
        for s in range(bounds[part], bounds[part + 1]):
            x = w[s]
            if x != 0.0:
                for k in range(ptr[s], ptr[s + 1]):
                    total[np.uint32(feature[k])] += x * product[k]


@kernel()
def differences(start, stop, winner, loser, by_pair, out):
    """Add how much the pair that is to win exceeds the other, for the comparisons [start, stop)."""
    for t in range(start, stop):
        out[t] += by_pair[np.uint32(winner[t])] - by_pair[np.uint32(loser[t])]


@kernel(fastmath=REORDERED)
def absolute_sums(start, stop, columns, x, out):
    """Write the sum of |X[:, j]| * x for the features j in [start, stop) (X as CSC)."""
    ptr, idx, val = columns
    for j in range(start, stop):
        total = 0.0
        for k in range(ptr[j], ptr[j + 1]):
            total += abs(val[k]) * x[idx[k]]
        out[j] = total
