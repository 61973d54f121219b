"""How much memory a fit takes on this machine, known before the work."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from ...memory import format_bytes

#: Anchors of the sample that pairs and products of rows are estimated from.
SAMPLE = 500


class MemoryEstimate(NamedTuple):
    """Bytes that a fit needs beyond X and the comparisons themselves, by what they are for."""

    matrix: int
    comparisons: int
    pairs: int
    products: int
    batch: int

    @property
    def total(self) -> int:
        """The sum."""
        return sum(self)

    def __str__(self) -> str:
        parts = ", ".join(
            f"{name} {format_bytes(size)}" for name, size in zip(self._fields, self, strict=True)
        )
        return f"{format_bytes(self.total)} ({parts})"


def estimate(
    X: sp.csr_array, compared: np.ndarray, *, batch_size: int | None = None, prior: bool = True
) -> MemoryEstimate:
    """Return the memory that a fit of these comparisons takes, from a sample of them.

    Parameters
    ----------
    X : csr_array of shape (n_rows, n_features)
    compared : ndarray of shape (n, 3) or (n, 4)
        Triplets or quadruplets.
    batch_size : int, default=None
        With mini-batches the products of pairs are not stored, but the rows of a batch are copied.
    prior : bool, default=True
        Whether there are margins of a prior.

    Returns
    -------
    MemoryEstimate

    Examples
    --------
    >>> X = sp.csr_array(np.eye(4))
    >>> str(estimate(X, np.array([[0, 1, 2]])))
    '... (matrix ..., comparisons ..., pairs ..., products 0 B, batch 0 B)'
    """
    n_rows, n_compared = X.shape[0], len(compared)
    pairs, shared = _per_comparison(X, compared)
    n_pairs = int(pairs * n_compared) + 1
    # Compressed rows (shared with X where it is float64) and columns, the work of counting the
    # terms of pairs of features, one work row per feature.
    for_matrix = X.nnz * (24 + 16) + n_rows * 160
    # Row and pair numbers, margins, direction, pulls, offset; the numbering of the pairs.
    for_comparisons = n_compared * (8 + 8 + 8 + 8 * (6 + prior)) + n_compared * 2 * 8 * 4
    for_pairs = n_pairs * (8 + 16 + 8 * 5)
    for_batch = 0.0
    if batch_size:  # its own rows, comparisons and pairs, laid out as the whole is
        for_batch = min(1.0, 3 * batch_size / n_rows) * for_matrix
        for_batch += min(1.0, batch_size / n_compared) * (for_comparisons + for_pairs)
    return MemoryEstimate(
        matrix=for_matrix,
        comparisons=for_comparisons,
        pairs=for_pairs,
        products=0 if batch_size else int(shared * n_pairs) * 16,
        batch=int(for_batch),
    )


def _per_comparison(X: sp.csr_array, compared: np.ndarray) -> tuple[float, float]:
    """Guess the distinct pairs of rows per comparison, and the shared features per pair."""
    anchors = np.unique(compared[:, 0])
    if len(anchors) > SAMPLE:
        anchors = anchors[np.linspace(0, len(anchors) - 1, SAMPLE).astype(int)]
    sample = compared[np.isin(compared[:, 0], anchors)]
    winners, losers = sample[:, :2], sample[:, ::2] if sample.shape[1] == 3 else sample[:, 2:]
    a, b = np.concatenate([winners, losers]).T
    # Numbers, not rows: an interrupt while rows are compared is no KeyboardInterrupt.
    pairs = np.unique(a * np.int64(X.shape[0]) + b)
    few = pairs[np.linspace(0, len(pairs) - 1, min(len(pairs), 4 * SAMPLE)).astype(int)]
    a, b = np.divmod(few, X.shape[0])
    held = sp.csr_array((np.ones(X.nnz, dtype=np.int8), X.indices, X.indptr), shape=X.shape)
    return len(pairs) / len(sample), held[a].multiply(held[b]).nnz / len(few)
