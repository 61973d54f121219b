"""How much of a card's memory a fit takes, known before the work."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ..cpu import memory as host
from ..cpu.memory import MemoryEstimate
from .terms import TERMS_LIMIT


def estimate(X: sp.csr_array, compared: np.ndarray, storage: str = "float64") -> MemoryEstimate:
    """Return the bytes that a fit takes on the card at most, from a sample of the comparisons.

    The most is taken either while products are made or while the run goes on. `storage` is the
    type of the values of X there.
    """
    n_rows, n_compared = X.shape[0], len(compared)
    of_host = host.estimate(X, compared, prior=True)
    n_pairs = of_host.pairs // 72
    n_products = of_host.products // 12 - n_pairs
    # Columns, and two work matrices of 8 columns; while products are made also rows, the order of
    # the entries, and running counts.
    per_value = 4 + np.dtype(storage).itemsize
    matrix = X.nnz * per_value + n_rows * 8 * 18
    making = X.nnz * (per_value + 8 + 16 + 8 + 4)
    # Row numbers, terms, five sets of margins, direction, prior, weights of a batch.
    comparisons = n_compared * (16 + 8 + 8 * 8)
    pairs = n_pairs * (8 + 16 + 16 + 5 * 8)
    later = comparisons + pairs + 12 * min(TERMS_LIMIT, n_products)
    return MemoryEstimate(
        matrix=matrix,
        comparisons=comparisons,
        pairs=pairs,
        products=n_products * 12,
        atoms=12 * min(TERMS_LIMIT, n_products),
        batch=0,
        setup=max(making - later, 0),
    )
