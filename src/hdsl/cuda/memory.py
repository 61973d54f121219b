"""How much of a card's memory a fit takes, known before the work."""

import numpy as np
import scipy.sparse as sp

from ..solver.columns import per_comparison
from ..solver.steps import CORRECTION_LIMIT
from . import atoms


def estimate(X: sp.csr_array, compared: np.ndarray, *, corrects: bool = False) -> int:
    """Return the bytes that a fit takes on the card at most, from a sample of the comparisons.

    `corrects` says whether steps are corrections of many weights.
    """
    n_rows = X.shape[0]
    n = len(compared)
    pairs, shared = per_comparison(X, compared)
    n_pairs = int(pairs * n) + 1
    n_products = int(shared * pairs * n) + 1
    # By columns and by rows, and two work matrices of 8 columns.
    matrix = X.nnz * 24 + n_rows * 8 * 24
    # Row numbers, pairs, terms, weights; margins, direction, offset, weights of a
    # batch.
    comparisons = n * (16 + 16 + 8 + 7 * 8)
    # Rows, where terms begin, links, what they gain and their inner products, four
    # gradients.
    pairs = n_pairs * (8 + 8 + 32 + 16 + 4 * 8)
    of_atoms = for_corrections(n_rows, X.shape[1] if corrects else 32, n, n_pairs)
    if (
        not corrects
    ):  # terms of atoms that come one by one; the last room follows on another
        n_terms = atoms.most_terms(n_pairs)
        of_atoms += 12 * (n_terms + min(n_terms, atoms.TERMS_LIMIT // 2))
    # Keys, their order and the room of a sort: of values, then of both sides of
    # comparisons.
    making = max(X.nnz * 44, 24 * X.nnz + 2 * n * 56)
    later = comparisons + pairs + 12 * n_products + of_atoms
    return matrix + max(later, making)


def for_corrections(n_rows: int, n_features: int, n: int, n_pairs: int) -> int:
    """Return the bytes that many atoms take at most: their rows, scores, second derivatives."""
    n_atoms = min(CORRECTION_LIMIT, n_features * (n_features - 1))
    entries = min(2 * n_atoms * n_rows, max(atoms.ENTRIES_LIMIT, 2 * n_rows))
    sample = min(max(atoms.SAMPLE_LIMIT, n_atoms), n * n_atoms)
    parts = min(atoms.MOST_PARTS * n_atoms**2, max(atoms.PARTS_LIMIT, n_atoms**2))
    scores = n_atoms * min(atoms.MOST_CHUNKS, n_pairs // atoms.SHORTEST + 1)
    return (
        24 * entries + 24 * n_rows + 12 * n + 8 * (sample + parts + n_atoms**2 + scores)
    )
