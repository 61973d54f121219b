"""Kernels over pairs of compared rows: how they are sorted, what they share, what pulls at them."""

import numpy as np

from .compiled import fetch, fetch_ahead, kernel


@kernel()
def shared_features(
    start, stop, a, b, rows, n_features, at, inner, feature, product, x
):
    """Find the shared features of the pairs [start, stop) (X as CSR), and the inner products.

    Columns from `n_features` on are no features. Where `feature` is empty, shared ones
    are counted in at[s]; else x_a ∘ x_b is written from at[s] on. Pairs come sorted by
    their first row, which is unfolded once for all of its pairs: a merge of two sorted
    rows would mispredict at every other entry. `x` is room for it, of zeros.
    """
    ptr, idx, val = rows
    held = -1
    low = np.uint64(0)
    high = np.uint64(0)
    for s in range(start, stop):
        if a[s] != held:
            for k in range(low, high):
                x[np.uint32(idx[k])] = 0.0
            held = a[s]
            low = np.uint64(ptr[held])
            high = np.uint64(ptr[held + 1])
            for k in range(low, high):
                x[np.uint32(idx[k])] = val[k]
        fetch_ahead(s, b, ptr, idx, val)
        first = np.uint64(ptr[b[s]])
        last = np.uint64(ptr[b[s] + 1])
        if feature.size == 0:
            total = 0.0
            shared = 0
            for k in range(first, last):
                y = x[np.uint32(idx[k])]
                total += y * val[k]
                shared += (y != 0.0) & (idx[k] < n_features)
            at[s] = shared
            inner[s] = total
        else:
            n = at[s]
            for k in range(first, last):
                y = x[np.uint32(idx[k])]
                if y != 0.0 and idx[k] < n_features:
                    feature[n] = idx[k]
                    product[n] = y * val[k]
                    n += 1


@kernel()
def sum_pulls(start, stop, term_ptr, term, pulls, omega, w):
    """Write for each pair [start, stop) the sum of the pulls at it.

    Lists 2s and 2s + 1 name the comparisons that pair s is to win and to lose. With
    weights in `omega`, `pulls` has margins of the smoothed hinge instead.
    """
    first = pulls.ctypes.data
    last = np.uint64(term.size - 1)
    ahead = np.uint64(32)
    for s in range(start, stop):
        total = 0.0
        middle = np.uint64(term_ptr[2 * s + 1])
        for k in range(np.uint64(term_ptr[2 * s]), np.uint64(term_ptr[2 * s + 2])):
            fetch(first + 8 * np.int64(term[min(k + ahead, last)]))
            t = np.uint32(term[k])
            x = pulls[t]
            if omega.size > 0:
                x = omega[t if omega.size > 1 else np.uint32(0)] * (
                    1.0 - min(max(x, 0.0), 1.0)
                )
            total += x if k < middle else -x
        w[s] = total


@kernel()
def diagonals(start, stop, bounds, ptr, feature, product, w, out):
    """Sum up the products of the pairs of each part [start, stop): its share of C's diagonal."""
    for part in range(start, stop):
        for j in range(out.shape[1]):
            out[part, j] = 0.0
        for s in range(bounds[part], bounds[part + 1]):
            x = w[s]
            if x != 0.0:
                for k in range(np.uint64(ptr[s]), np.uint64(ptr[s + 1])):
                    out[part, np.uint32(feature[k])] += x * product[k]


@kernel()
def add_parts(start, stop, parts, out):
    """Write the sums of the parts, in their order, for the features [start, stop)."""
    for j in range(start, stop):
        out[j] = parts[0, j]
        for part in range(1, parts.shape[0]):
            out[j] += parts[part, j]


@kernel()
def differences(start, stop, winner, loser, by_pair, base, out):
    """Write a base, if any, plus how much the winner exceeds the loser, by comparisons."""
    for t in range(np.uint64(start), np.uint64(stop)):
        x = by_pair[np.uint32(winner[t])] - by_pair[np.uint32(loser[t])]
        out[t] = base[t] + x if base.size > 0 else x


# --- sorts by counting: items in the order of their keys, and of their numbers where keys are equal


@kernel()
def count_keys(start, stop, keys, counts):
    """Count how often each key in [start, stop) occurs."""
    for j in range(start, stop):
        counts[j] = 0
    for k in range(keys.size):
        j = keys[k]
        if start <= j < stop:
            counts[j] += 1


@kernel()
def sort_items(start, stop, bounds, keys, first, second, at, out_first, out_second):
    """Write two values of each item, from at[key] on, by ranges [start, stop) of keys.

    For each range it looks at all keys, which is quick, and writes to one part of
    memory, which is not if that is large.
    """
    for part in range(start, stop):
        low = bounds[part]
        high = bounds[part + 1]
        for k in range(keys.size):
            j = keys[k]
            if low <= j < high:
                out_first[at[j]] = first[k]
                out_second[at[j]] = second[k]
                at[j] += 1


@kernel()
def sort_columns(start, stop, bounds, rows, at, idx, val):
    """Write the columns of X (CSR) as CSC, column j from at[j] on, in the same way."""
    ptr, column, value = rows
    for part in range(start, stop):
        low = bounds[part]
        high = bounds[part + 1]
        for a in range(ptr.size - 1):
            for k in range(np.uint64(ptr[a]), np.uint64(ptr[a + 1])):
                j = column[k]
                if low <= j < high:
                    idx[at[j]] = a
                    val[at[j]] = value[k]
                    at[j] += 1
