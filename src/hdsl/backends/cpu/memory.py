"""How much memory a fit takes on this machine: said before the work, not after it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from ...memory import format_bytes

#: Anchors looked at to guess how many pairs of rows, and products of rows, the triplets lead to.
SAMPLE = 500


class MemoryEstimate(NamedTuple):
    """Bytes that a fit needs beyond X and the triplets themselves, by what they are for."""

    matrix: int
    triplets: int
    pairs: int
    products: int
    batch: int

    @property
    def total(self) -> int:
        """All of it."""
        return sum(self)

    def __str__(self) -> str:
        parts = ", ".join(
            f"{name} {format_bytes(size)}" for name, size in zip(self._fields, self, strict=True)
        )
        return f"{format_bytes(self.total)} ({parts})"


def estimate(
    X: sp.csr_array, triplets: np.ndarray, *, batch_size: int | None = None, prior: bool = True
) -> MemoryEstimate:
    """Return what a fit of these triplets will take, from a sample of them.

    Parameters
    ----------
    X : csr_array of shape (n_rows, n_features)
    triplets : ndarray of shape (n_triplets, 3)
    batch_size : int, default=None
        With mini-batches the products of pairs are not stored, but the rows of a batch are copied.
    prior : bool, default=True
        Whether a prior's margins are kept.

    Returns
    -------
    MemoryEstimate

    Examples
    --------
    >>> X = sp.csr_array(np.eye(4))
    >>> str(estimate(X, np.array([[0, 1, 2]])))
    '... (matrix ..., triplets ..., pairs ..., products 0 B, batch 0 B)'
    """
    n_rows, n_triplets = X.shape[0], len(triplets)
    pairs, shared = _per_triplet(X, triplets)
    n_pairs = int(pairs * n_triplets) + 1
    # Compressed rows (shared with X where it is float64) and columns, the work of counting the
    # terms of pairs of features, one work row a feature.
    for_matrix = X.nnz * (24 + 16) + n_rows * 160
    # Row and pair numbers, margins, direction, pulls, offset; the numbering of the pairs.
    for_triplets = n_triplets * (8 + 8 + 8 + 8 * (6 + prior)) + n_triplets * 2 * 8 * 4
    for_pairs = n_pairs * (8 + 16 + 8 * 5)
    for_batch = 0.0
    if batch_size:  # its own rows, triplets and pairs, laid out as the whole is
        for_batch = min(1.0, 3 * batch_size / n_rows) * for_matrix
        for_batch += min(1.0, batch_size / n_triplets) * (for_triplets + for_pairs)
    return MemoryEstimate(
        matrix=for_matrix,
        triplets=for_triplets,
        pairs=for_pairs,
        products=0 if batch_size else int(shared * n_pairs) * 16,
        batch=int(for_batch),
    )


def _per_triplet(X: sp.csr_array, triplets: np.ndarray) -> tuple[float, float]:
    """Guess the distinct pairs of rows a triplet, and the shared features a pair."""
    anchors = np.unique(triplets[:, 0])
    if len(anchors) > SAMPLE:
        anchors = anchors[np.linspace(0, len(anchors) - 1, SAMPLE).astype(int)]
    sample = triplets[np.isin(triplets[:, 0], anchors)]
    pairs = np.unique(np.concatenate([sample[:, :2], sample[:, ::2]]), axis=0)
    few = pairs[np.linspace(0, len(pairs) - 1, min(len(pairs), 4 * SAMPLE)).astype(int)]
    held = sp.csr_array((np.ones(X.nnz, dtype=np.int8), X.indices, X.indptr), shape=X.shape)
    shared = held[few[:, 0]].multiply(held[few[:, 1]]).nnz
    return len(pairs) / len(sample), shared / len(few)
