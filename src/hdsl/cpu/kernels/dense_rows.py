"""Kernels over the dense columns of rows: an embedding, which no atom names."""

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
