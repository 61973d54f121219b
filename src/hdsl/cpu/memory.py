"""How much memory a fit takes on this machine, known before the work."""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from ..layout import per_comparison
from ..memory import format_bytes

#: Share of the values of X that are in features of atoms: a guess, it depends on what
#: is learned.
ACTIVE = 0.5

#: Bytes per comparison while pairs of rows are numbered.
NUMBERING = 90

#: Features are counted where X has at most so many entries; else all columns count.
COUNTED = 1 << 22


class MemoryEstimate(NamedTuple):
    """Bytes that a fit needs beyond X and the comparisons themselves, by what they are for.

    Attributes
    ----------
    matrix, comparisons, pairs, products, atoms : int
    setup : int
        At the peak before the first iteration, beyond what the iterations need.
    """

    matrix: int
    comparisons: int
    pairs: int
    products: int
    atoms: int
    setup: int

    @property
    def total(self) -> int:
        """The sum."""
        return sum(self)

    def __str__(self) -> str:
        parts = ", ".join(
            f"{name} {format_bytes(size)}"
            for name, size in zip(self._fields, self, strict=True)
        )
        return f"{format_bytes(self.total)} ({parts})"


def estimate(
    X: sp.csr_array,
    compared: np.ndarray,
    *,
    batch_size: int | None = None,
    n_threads: int = 1,
    min_rows: int = 1,
) -> MemoryEstimate:
    """Return the memory that a fit of these comparisons takes, from a sample of them.

    Parameters
    ----------
    X : csr_array of shape (n_rows, n_features)
    compared : ndarray of shape (n, 3) or (n, 4)
        Triplets or quadruplets.
    batch_size : int, default=None
        Products of pairs of rows are stored for a batch at a time.
    n_threads : int, default=1
    min_rows : int, default=1
        Columns that fewer rows have are no features.

    Returns
    -------
    MemoryEstimate

    Examples
    --------
    >>> X = sp.csr_array(np.eye(4))
    >>> str(estimate(X, np.array([[0, 1, 2]])))
    '... (matrix ..., comparisons ..., pairs ..., products ..., atoms ..., setup ...)'
    """
    n_rows = X.shape[0]
    n_compared, width = compared.shape
    n_columns = min(X.shape[1], X.nnz)
    pairs_per_comparison, shared_per_pair = per_comparison(X, compared)
    n_pairs = pairs_per_comparison * n_compared + 1
    n_features = _count_features(X, min_rows)
    # Numbers of features and columns of X; WIDTH numbers per row and feature; work of
    # each thread.
    matrix = X.nnz * 16 + n_rows * (160 + 13 * n_threads) + n_columns * 40
    matrix += n_features * (180 + 13 * n_threads)
    # Rows, numbers of pairs, lists of pulls; margins, direction, pulls and offset.
    comparisons = n_compared * (4 * width + 8 + 8 + 8 * 6)
    numbering = n_compared * (4 * width + NUMBERING)
    # Rows and links, shared features and inner products, numbers of two gradients and
    # an atom.
    pairs = n_pairs * 88
    share_of_batch = min(1.0, (batch_size or n_compared) / n_compared)
    products = share_of_batch * n_pairs * (12 * shared_per_pair + 8)
    if batch_size is not None:
        # A batch and the one before have rows and pairs of their own.
        share_of_rows = min(1.0, width * batch_size / n_rows)
        in_batch = share_of_rows * matrix + share_of_batch * (n_pairs * 88 + numbering)
        pairs += 2 * in_batch
    atoms = 12.0 * ACTIVE * X.nnz
    in_iterations = matrix + comparisons + pairs + products + atoms
    before_iterations = matrix + numbering
    return MemoryEstimate(
        matrix=int(matrix),
        comparisons=int(comparisons),
        pairs=int(pairs),
        products=int(products),
        atoms=int(atoms),
        setup=int(max(0.0, before_iterations - in_iterations)),
    )


def _count_features(X: sp.csr_array, min_rows: int) -> int:
    """Return how many columns are features, or a bound where X is large."""
    if X.nnz > COUNTED:
        return min(X.shape[1], X.nnz)
    counts = np.unique_counts(X.indices).counts
    return int(np.count_nonzero(counts >= min_rows))
