"""Kernels over the dense columns of rows: an embedding."""

import numpy as np

from .compiled import REORDERED, kernel


@kernel(fastmath=REORDERED)
def add_pair_products(start, stop, a, b, dense, out):
    """Add the inner products of the embeddings of the pairs [start, stop) of rows to `out`."""
    width = dense.shape[1]
    for s in range(start, stop):
        left = a[s]
        right = b[s]
        total = 0.0
        for j in range(width):
            total += np.float64(dense[left, j]) * np.float64(dense[right, j])
        out[s] += total


@kernel(fastmath=REORDERED)
def add_weighted_products(start, stop, a, b, values, factors, out):
    """Add Σ_k factor_k v_ak v_bk of the pairs [start, stop) of rows to `out`."""
    width = values.shape[1]
    for s in range(start, stop):
        left = a[s]
        right = b[s]
        total = 0.0
        for k in range(width):
            product = np.float64(values[left, k]) * np.float64(values[right, k])
            total += factors[k] * product
        out[s] += total


@kernel(fastmath=REORDERED)
def sum_neighbors(start, stop, links, weights, dense, out):
    """Write for the rows [start, stop) the weighted sum of the rows they are compared with.

    The first row of `out` is that of `start`.
    """
    width = dense.shape[1]
    for row in range(start, stop):
        line = row - start
        for j in range(width):
            out[line, j] = 0.0
        for link in range(links.indptr[row], links.indptr[row + 1]):
            weight = weights[links.pairs[link]]
            neighbor = links.neighbors[link]
            if weight != 0.0:
                for j in range(width):
                    out[line, j] += weight * dense[neighbor, j]


@kernel(fastmath=REORDERED)
def direction_margins(start, stop, sides, values, out):
    """Write (u·z_a)(u·z_b) - (u·z_c)(u·z_d) of comparisons [start, stop) and directions u."""
    width = values.shape[1]
    for t in range(start, stop):
        a = sides[0, t]
        b = sides[1, t]
        c = sides[2, t]
        d = sides[3, t]
        for k in range(width):
            won = np.float64(values[a, k]) * np.float64(values[b, k])
            lost = np.float64(values[c, k]) * np.float64(values[d, k])
            out[t, k] = won - lost
