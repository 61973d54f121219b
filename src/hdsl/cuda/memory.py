"""How much of a card's memory a fit takes, known before the work."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ..cpu import memory as host
from ..cpu.corrective import CURVATURE_SAMPLE
from ..cpu.memory import MemoryEstimate
from ..solver.steps import CORRECTION_LIMIT
from . import corrective
from .terms import TERMS_LIMIT


def estimate(
    X: sp.csr_array,
    compared: np.ndarray,
    storage: str = "float64",
    *,
    corrects: bool = False,
) -> MemoryEstimate:
    """Return the bytes that a fit takes on the card at most, from a sample of the comparisons.

    The most is taken either while products are made or while the run goes on. `storage` is the
    type of the values of X there, and `corrects` says whether steps are corrections.
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
    atoms = 12 * min(TERMS_LIMIT, n_products)
    if corrects:
        atoms += for_corrections(n_rows, X.shape[1], n_compared)
    later = comparisons + pairs + atoms
    return MemoryEstimate(
        matrix=matrix,
        comparisons=comparisons,
        pairs=pairs,
        products=n_products * 12,
        atoms=atoms,
        batch=0,
        setup=max(making - later, 0),
    )


def for_corrections(n_rows: int, n_features: int, n_compared: int) -> int:
    """Return the bytes that corrections take at most: rows of atoms, second derivatives."""
    n_atoms = min(CORRECTION_LIMIT, n_features * (n_features - 1))
    n_sampled = min(n_compared, 2 * CURVATURE_SAMPLE)
    rows = min(2 * n_atoms * n_rows, max(corrective.ROWS_LIMIT, 4 * n_rows))
    terms = min(n_atoms * n_sampled, corrective.TERMS_LIMIT + n_atoms)
    parts = min(terms // corrective.SHORTEST * n_atoms, corrective.PARTS_LIMIT) + n_atoms**2
    return (
        corrective.ROWS_BYTES * rows
        + corrective.TERMS_BYTES * terms
        + corrective.SAMPLE_BYTES * n_sampled
        + 8 * (n_rows + parts + n_atoms**2)
    )
