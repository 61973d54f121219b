"""How much memory a fit takes on this machine, known before the work."""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from ..layout.estimates import per_comparison
from ..memory import format_bytes

#: Share of the values of X that are in features of atoms: a guess, it depends on what
#: is learned.
ACTIVE = 0.5

#: Bytes per comparison while pairs of rows are numbered.
NUMBERING = 90

#: Most entries of X that features are counted in: of more, all columns count.
COUNTED = 1 << 22


class MemoryEstimate(NamedTuple):
    """Bytes that a fit needs beyond X and the comparisons themselves, by what they are for."""

    matrix: int
    comparisons: int
    pairs: int
    products: int
    atoms: int
    setup: (
        int  # at the peak before the first iteration, beyond what the iterations need
    )

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
    (n_rows, d) = X.shape
    (n_compared, width) = compared.shape
    d = n_features = min(d, X.nnz)
    if X.nnz <= COUNTED:
        n_features = np.count_nonzero(np.unique_counts(X.indices)[1] >= min_rows)
    pairs, shared = per_comparison(X, compared)
    n_pairs = pairs * n_compared + 1
    # Numbers of features and columns of X; WIDTH numbers per row and feature; work of
    # each thread.
    matrix = X.nnz * 16 + n_rows * (160 + 13 * n_threads) + d * 40
    matrix += n_features * (180 + 13 * n_threads)
    # Rows, numbers of pairs, lists of pulls; margins, direction, pulls and offset.
    comparisons = n_compared * (4 * width + 8 + 8 + 8 * 6)
    share = min(1.0, (batch_size or n_compared) / n_compared)
    products = share * n_pairs * (12 * shared + 8)
    atoms = 12.0 * ACTIVE * X.nnz
    # Rows and links, shared features and inner products, numbers of two gradients and
    # an atom.
    held = matrix + n_pairs * 88
    if (
        batch_size is not None
    ):  # a batch and the one before have rows and pairs of their own
        numbered = n_compared * (4 * width + NUMBERING)
        some = min(1.0, width * batch_size / n_rows)
        held += 2 * (some * matrix + share * (n_pairs * 88 + numbered))
    during = held + comparisons + products + atoms
    before = matrix + n_compared * (4 * width + NUMBERING)
    parts = (
        matrix,
        comparisons,
        held - matrix,
        products,
        atoms,
        max(0.0, before - during),
    )
    return MemoryEstimate(*(int(part) for part in parts))
