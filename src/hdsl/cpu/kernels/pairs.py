"""Kernels over pairs of compared rows: what they share, and what pulls at them."""

from typing import NamedTuple

import numpy as np

from .compiled import kernel
from .lines import fetch, fetch_ahead

#: Pulls that are brought into the cache before they are read.
PULLS_AHEAD = 32


class PullLists(NamedTuple):
    """The comparisons of each pair: list 2s of those that pair s is to win, 2s + 1 to lose.

    Attributes
    ----------
    indptr : ndarray of shape (2 n_pairs + 1,), int64
        Where each list begins and ends.
    comparisons : ndarray of shape (2 n_comparisons,), int32
    """

    indptr: np.ndarray
    comparisons: np.ndarray


@kernel()
def shared_features(
    start, stop, firsts, seconds, rows, n_features, inner_products, products, unfolded
):
    """Find the shared features of the pairs [start, stop), and the inner products.

    Pairs are sorted by their first and then their second row. Columns from `n_features`
    on are not features. If products.indices is empty, the shared features of pair s are
    counted in products.indptr[s + 1], and its inner product is written; else x_a ∘ x_b
    is written from products.indptr[s] on. The first row is unfolded once for all of its
    pairs: a merge of two sorted rows would mispredict at every other entry. `unfolded`
    has a number per column, zeros.
    """
    indptr = rows.indptr
    indices = rows.indices
    data = rows.data
    shared_ptr = products.indptr
    shared = products.indices
    values = products.data
    row = -1
    low = np.uint64(0)
    high = np.uint64(0)
    for s in range(start, stop):
        if firsts[s] != row:
            for k in range(low, high):
                unfolded[np.uint32(indices[k])] = 0.0
            row = firsts[s]
            low = np.uint64(indptr[row])
            high = np.uint64(indptr[row + 1])
            for k in range(low, high):
                unfolded[np.uint32(indices[k])] = data[k]
        fetch_ahead(s, seconds, rows)
        other = seconds[s]
        first = np.uint64(indptr[other])
        last = np.uint64(indptr[other + 1])
        if shared.size == 0:
            inner_product = 0.0
            n_shared = 0
            for k in range(first, last):
                x = unfolded[np.uint32(indices[k])]
                inner_product += x * data[k]
                n_shared += (x != 0.0) & (indices[k] < n_features)
            shared_ptr[s + 1] = n_shared
            inner_products[s] = inner_product
        else:
            n = shared_ptr[s]
            for k in range(first, last):
                x = unfolded[np.uint32(indices[k])]
                if x != 0.0 and indices[k] < n_features:
                    shared[n] = indices[k]
                    values[n] = x * data[k]
                    n += 1


@kernel()
def sum_pulls(start, stop, lists, pulls, weights, sums):
    """Write for each pair [start, stop) the sum of the pulls at it.

    With `weights`, `pulls` has margins of the smoothed hinge instead.
    """
    indptr = lists.indptr
    comparisons = lists.comparisons
    pulls_address = pulls.ctypes.data
    n = np.uint64(comparisons.size)
    for s in range(start, stop):
        total = 0.0
        first_won = np.uint64(indptr[2 * s])
        first_lost = np.uint64(indptr[2 * s + 1])
        end = np.uint64(indptr[2 * s + 2])
        for k in range(first_won, end):
            ahead = k + np.uint64(PULLS_AHEAD)
            if ahead < n:
                fetch(pulls_address + 8 * np.int64(comparisons[ahead]))
            t = np.uint32(comparisons[k])
            pull = pulls[t]
            if weights.size > 0:
                weight = weights[t if weights.size > 1 else np.uint32(0)]
                clipped = pull if pull > 0.0 else 0.0
                clipped = clipped if clipped < 1.0 else 1.0
                pull = weight * (1.0 - clipped)
            total += pull if k < first_lost else -pull
        sums[s] = total


@kernel()
def diagonals(start, stop, bounds, products, weights, out):
    """Sum up the products of the pairs of each share [start, stop): its share of C's diagonal."""
    indptr = products.indptr
    features = products.indices
    values = products.data
    for share in range(start, stop):
        for j in range(out.shape[1]):
            out[share, j] = 0.0
        for s in range(bounds[share], bounds[share + 1]):
            weight = weights[s]
            if weight != 0.0:
                for k in range(np.uint64(indptr[s]), np.uint64(indptr[s + 1])):
                    out[share, np.uint32(features[k])] += weight * values[k]


@kernel()
def add_shares(start, stop, shares, out):
    """Write the sums of the shares, in their order, for the features [start, stop)."""
    for j in range(start, stop):
        out[j] = shares[0, j]
        for share in range(1, shares.shape[0]):
            out[j] += shares[share, j]


@kernel()
def differences(start, stop, winners, losers, by_pair, base, out):
    """Write a base, if any, plus how much the winner exceeds the loser, by comparisons."""
    for t in range(np.uint64(start), np.uint64(stop)):
        difference = by_pair[np.uint32(winners[t])] - by_pair[np.uint32(losers[t])]
        if base.size > 0:
            difference = base[t] + difference
        out[t] = difference
