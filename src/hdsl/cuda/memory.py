"""How much of a card's memory a fit takes, known before the work."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ..solver.protocols import curvature_stride
from ..solver.steps import CORRECTION_LIMIT
from . import atoms

#: Comparisons, in a row, of the sample that pairs and products of rows are estimated from; most
#: samples.
IN_A_ROW, SAMPLES = 500, 8


def estimate(X: sp.csr_array, compared: np.ndarray, *, corrects: bool = False) -> int:
    """Return the bytes that a fit takes on the card at most, from a sample of the comparisons.

    `corrects` says whether steps are corrections of many weights.
    """
    n_rows, n = X.shape[0], len(compared)
    n_pairs, n_products = _counts(X, compared)
    # By columns and by rows, and two work matrices of 8 columns.
    matrix = X.nnz * 24 + n_rows * 8 * 24
    # Row numbers, pairs, terms, weights; margins, direction, offset, weights of a batch.
    comparisons = n * (16 + 16 + 8 + 7 * 8)
    # Rows, where terms begin, links, what they gain and their inner products, four gradients.
    pairs = n_pairs * (8 + 8 + 32 + 16 + 4 * 8)
    of_atoms = for_corrections(n_rows, X.shape[1] if corrects else 32, n, n_pairs)
    # Terms of atoms that come one by one.
    of_atoms += 0 if corrects else 12 * min(atoms.TERMS_LIMIT, atoms.MOST_SINGLE * n_pairs)
    # Keys, their order and the room of a sort: of values, then of both sides of comparisons.
    making = max(X.nnz * 44, 24 * X.nnz + 2 * n * 56)
    later = comparisons + pairs + 12 * n_products + of_atoms
    return matrix + max(later, making)


def for_corrections(n_rows: int, n_features: int, n: int, n_pairs: int) -> int:
    """Return the bytes that many atoms take at most: their rows, scores, second derivatives."""
    n_atoms = min(CORRECTION_LIMIT, n_features * (n_features - 1))
    entries = min(2 * n_atoms * n_rows, max(atoms.ENTRIES_LIMIT, 2 * n_rows))
    n_sampled = -(-n // curvature_stride(n, n_atoms))
    sample = min(max(atoms.SAMPLE_LIMIT, n_atoms), n_sampled * n_atoms)
    parts = min(atoms.MOST_PARTS * n_atoms**2, max(atoms.PARTS_LIMIT, n_atoms**2))
    scores = n_atoms * min(atoms.MOST_CHUNKS, n_pairs // atoms.SHORTEST + 1)
    return 24 * entries + 24 * n_rows + 8 * (sample + parts + n_atoms**2 + scores)


def _counts(X: sp.csr_array, compared: np.ndarray) -> tuple[int, int]:
    """Guess how many pairs of rows are compared, and how many products they have."""
    n, n_rows = len(compared), np.int64(X.shape[0])
    starts = np.linspace(0, max(n - IN_A_ROW, 0), min(SAMPLES, n)).astype(int)
    some = compared[np.unique(np.concatenate([np.arange(s, min(s + IN_A_ROW, n)) for s in starts]))]
    a, b = some[:, 0], some[:, 1]
    c, d = (a, some[:, 2]) if some.shape[1] == 3 else some[:, 2:].T
    low, high = (np.concatenate(both) for both in ((a, c), (b, d)))
    keys = np.unique(np.minimum(low, high) * n_rows + np.maximum(low, high))
    few = keys[:: max(1, len(keys) // 2000)]
    held = sp.csr_array((np.ones(X.nnz, dtype=np.int8), X.indices, X.indptr), shape=X.shape)
    shared = held[few // n_rows].multiply(held[few % n_rows]).nnz / len(few)
    n_pairs = len(keys) / len(some) * n
    return int(n_pairs) + 1, int(shared * n_pairs) + 1
