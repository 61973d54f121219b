"""How much of a card's memory a fit takes, known before the work."""

import numpy as np
import scipy.sparse as sp

from ..layout import per_comparison
from ..rows import Rows
from ..solver.steps import CORRECTION_LIMIT
from . import atoms, curvature, embedding

#: Bytes of a number, of a row number, and of an entry of a sparse matrix, which is a
#: number and a row number.
NUMBER = 8
INDEX = 4
ENTRY = NUMBER + INDEX

#: Features of atoms that come one by one: few are asked about at once.
SINGLE_FEATURES = 32


def estimate(
    X: sp.csr_array | Rows, compared: np.ndarray, *, corrects: bool = False
) -> int:
    """Return the bytes that a fit takes on the card at most.

    The numbers of pairs and products are estimated from a sample of the comparisons.

    Parameters
    ----------
    X : csr_array or Rows of shape (n_rows, n_columns)
    compared : ndarray of shape (n, 3) or (n, 4)
    corrects : bool, default=False
        Whether steps are corrections of many weights.
    """
    for_embedding = 0
    if isinstance(X, Rows):
        for_embedding = embedding.bytes_taken(*X.dense.shape)
        X = X.sparse
    n_rows = X.shape[0]
    n = len(compared)
    pairs_per_comparison, products_per_pair = per_comparison(X, compared)
    n_pairs = int(pairs_per_comparison * n) + 1
    n_products = int(products_per_pair * pairs_per_comparison * n) + 1
    if corrects:
        for_atoms = for_corrections(n_rows, X.shape[1], n, n_pairs)
    else:
        for_atoms = for_corrections(n_rows, SINGLE_FEATURES, n, n_pairs)
        for_atoms += for_terms(n_pairs)
    for_products = ENTRY * n_products
    for_work = for_comparisons(n) + for_pairs(n_pairs) + for_products + for_atoms
    for_rows = for_matrix(X.nnz, n_rows) + for_embedding
    return for_rows + max(for_work, for_layout(X.nnz, n))


def for_matrix(nnz: int, n_rows: int) -> int:
    """Return the bytes of X by columns and by rows, and of arrays of its rows."""
    # Two matrices of 8 columns, two unfolded atoms, sizes, and where rows begin.
    per_row = (2 * 8 + 2 + 3 + 3) * NUMBER
    return 2 * ENTRY * nnz + per_row * n_rows


def for_comparisons(n: int) -> int:
    """Return the bytes of comparisons and of numbers of each."""
    rows = 4 * INDEX
    pairs = 2 * (INDEX + INDEX)
    weight = NUMBER
    # Margins before and after a step, those of the best model and of another one, the
    # direction, the offset, weights of a batch.
    margins = 7 * NUMBER
    return n * (rows + pairs + weight + margins)


def for_pairs(n_pairs: int) -> int:
    """Return the bytes of pairs of rows and of numbers of each."""
    rows = 2 * INDEX
    pointer = NUMBER
    links = 2 * (INDEX + INDEX + NUMBER)
    similarities = 2 * NUMBER
    gradients = 4 * NUMBER
    return n_pairs * (rows + pointer + links + similarities + gradients)


def for_corrections(n_rows: int, n_features: int, n: int, n_pairs: int) -> int:
    """Return the bytes of many atoms: their rows, scores and second derivatives."""
    n_atoms = min(CORRECTION_LIMIT, n_features * (n_features - 1))
    n_entries = min(2 * n_atoms * n_rows, max(atoms.ENTRIES_LIMIT, 2 * n_rows))
    n_chunks = min(atoms.MOST_CHUNKS, n_pairs // atoms.SHORTEST + 1)
    n_sampled = min(max(curvature.SAMPLE_LIMIT, n_atoms), n * n_atoms)
    most_partial = max(curvature.PARTS_LIMIT, n_atoms**2)
    n_partial = min(curvature.MOST_PARTS * n_atoms**2, most_partial)
    for_rows = 2 * ENTRY * n_entries + 24 * n_rows
    for_scores = NUMBER * n_atoms * n_chunks
    for_sample = (INDEX + NUMBER) * n
    for_curvature = NUMBER * (n_sampled + n_partial + n_atoms**2)
    return for_rows + for_scores + for_sample + for_curvature


def for_terms(n_pairs: int) -> int:
    """Return the bytes of the terms of atoms that come one by one."""
    n_terms = atoms.most_terms(n_pairs)
    # While the space grows to its end, the one before it is there as well.
    n_before = min(n_terms, atoms.TERMS_LIMIT // 2)
    return ENTRY * (n_terms + n_before)


def for_layout(nnz: int, n: int) -> int:
    """Return the bytes of the sorts of X, and then of sides of comparisons."""
    # Keys, their order, and what a sort needs.
    return max(44 * nnz, 2 * ENTRY * nnz + 56 * 2 * n)
