"""How much memory a fit takes on this machine, known before the work."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from ..memory import format_bytes
from ..solver.columns import is_wide
from .comparisons import sides_of
from .cross_terms import CROSS_TERMS_LIMIT
from .nearness import LEAST_ROWS

#: Anchors of the sample that pairs and products of rows are estimated from.
SAMPLE = 500


#: Distinct atoms of a path are about this many times the root of its iterations: most come back.
ATOMS_PER_ROOT = 3.0


class MemoryEstimate(NamedTuple):
    """Bytes that a fit needs beyond X and the comparisons themselves, by what they are for."""

    matrix: int
    comparisons: int
    pairs: int
    products: int
    atoms: int
    batch: int
    setup: int  # at the peak before the first iteration, beyond what the iterations need

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
    X: sp.csr_array,
    compared: np.ndarray,
    *,
    batch_size: int | None = None,
    prior: bool = True,
    automatic: bool = True,
    max_iter: int = 100,
    n_threads: int = 1,
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
    automatic : bool, default=True
        Whether the scale or the prior is chosen from the data.
    max_iter : int, default=100
        The terms of the atoms of the path are stored.
    n_threads : int, default=1

    Returns
    -------
    MemoryEstimate

    Examples
    --------
    >>> X = sp.csr_array(np.eye(4))
    >>> str(estimate(X, np.array([[0, 1, 2]])))
    '... (matrix ..., comparisons ..., pairs ..., products ..., atoms ..., batch 0 B, setup ...)'
    """
    n_rows, n_compared = X.shape[0], len(compared)
    pairs, shared = _per_comparison(X, compared)
    n_pairs = int(pairs * n_compared) + 1
    frequency = _frequency(X)
    d, nnz = len(frequency), X.nnz
    # Numbers of features and columns of X; rows where they are put in order; work per row and
    # feature, and per thread.
    per_value = 4 + 12 + (12 if n_rows >= LEAST_ROWS else 0)
    for_matrix = nnz * per_value + n_rows * (200 + 64 * n_threads) + for_features(d, n_threads)
    # Rows as given and sorted, pair numbers, terms; margins, direction, pulls, offset.
    for_comparisons = n_compared * (8 * compared.shape[1] + 12 + 8 + 8 + 8 * (5 + 2 * prior))
    # Rows and links, counts and inner products, three vectors of numbers.
    for_pairs = n_pairs * (8 + 16 + 16 + 32)
    for_products = 0 if batch_size else int(shared * n_pairs) * 12 + n_pairs * 12
    for_atoms = _for_atoms(frequency, n_rows, n_pairs, max_iter)
    for_batch = 0.0
    if batch_size:  # its own rows, comparisons and pairs, laid out as the whole is
        share = min(1.0, batch_size / n_compared)
        drawn = 1.0 - np.exp(-3 * batch_size / n_rows)  # some rows are drawn several times
        rows = drawn * (nnz * 44 + n_rows * 100)
        for_batch = rows + share * (NUMBERING * n_compared + n_pairs * 64)
    held = for_matrix + n_compared * (8 * compared.shape[1] + 20) + n_pairs * 40
    before = max(
        for_matrix + n_compared * (8 * compared.shape[1] + NUMBERING),  # pairs are numbered
        # Sizes are chosen, or the terms of features counted.
        held + (40 * nnz + 24 * n_compared if automatic else 24 * nnz),
    )
    during = for_matrix + for_comparisons + for_pairs + for_products + for_atoms + for_batch
    parts = (
        for_matrix, for_comparisons, for_pairs, for_products, for_atoms, for_batch,
        max(0.0, before - during),
    )  # fmt: skip
    return MemoryEstimate(*(int(part) for part in parts))


def for_features(n_features: int, n_threads: int = 1) -> int:
    """Return the bytes of what is as long as the features."""
    return n_features * (140 + 13 * n_threads)


#: Bytes per comparison while the pairs of rows are numbered.
NUMBERING = 126


def _frequency(X: sp.csr_array) -> np.ndarray:
    """Return how many rows have each feature that is not empty, largest first."""
    indices = X.indices
    if is_wide(X):
        _, indices = np.unique(indices, return_inverse=True)
    count = np.bincount(indices)
    return np.sort(count[count > 0])[::-1]


def _for_atoms(frequency: np.ndarray, n_rows: int, n_pairs: int, max_iter: int) -> float:
    """Return the bytes of the terms of a path's atoms.

    A guess: their number and how frequent their features are depends on what is learned.
    """
    share = frequency / max(n_rows, 1)
    typical = float((share**2).sum() / max(share.sum(), 1e-300))
    terms = ATOMS_PER_ROOT * max_iter**0.5 * n_pairs * typical**2
    return 12.0 * min(terms, CROSS_TERMS_LIMIT)


def _per_comparison(X: sp.csr_array, compared: np.ndarray) -> tuple[float, float]:
    """Guess the distinct pairs of rows per comparison, and the shared features per pair."""
    anchors = np.unique(compared[:, 0])
    if len(anchors) > SAMPLE:
        anchors = anchors[np.linspace(0, len(anchors) - 1, SAMPLE).astype(int)]
    sample = compared[np.isin(compared[:, 0], anchors)]
    a, b = np.concatenate(sides_of(sample.T), axis=1)
    # Numbers, not rows: an interrupt while rows are compared is no KeyboardInterrupt.
    pairs = np.unique(a * np.int64(X.shape[0]) + b)
    few = pairs[np.linspace(0, len(pairs) - 1, min(len(pairs), 4 * SAMPLE)).astype(int)]
    a, b = np.divmod(few, X.shape[0])
    held = sp.csr_array((np.ones(X.nnz, dtype=np.int8), X.indices, X.indptr), shape=X.shape)
    return len(pairs) / len(sample), held[a].multiply(held[b]).nnz / len(few)
