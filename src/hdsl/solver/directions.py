"""Directions of an embedding: the unit vectors u of atoms s·uuᵀ, and how they are found.

With one number w_s per compared pair s = {a, b} of rows, the gradient's block inside
the embedding is

    G = Σ_s w_s (z_a z_bᵀ + z_b z_aᵀ) / 2,    ⟨s·uuᵀ, -∇f⟩ = s·uᵀGu,

and its top eigenvector is the best direction of all, so that its score certifies a gap.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
from scipy.sparse.linalg import eigsh

#: Most directions that a corrective step looks for: the top eigenvectors.
MOST_NEW = 16

#: Eigenvalues of wider blocks are found by Lanczos steps, of others all at once.
WIDE = 1024

#: Rows of a model that are shorter, in relation to the longest, are rounding.
TINY = 1e-7


class Directions:
    """Unit vectors that keep their numbers, in float32, as they are stored.

    Parameters
    ----------
    width : int
        Number of columns of the embedding.

    Examples
    --------
    >>> directions = Directions(2)
    >>> directions.add(np.array([[3.0, 4.0]])).tolist(), len(directions)
    ([0], 1)
    """

    def __init__(self, width: int) -> None:
        self.vectors = np.empty((0, width), dtype=np.float32)

    def __len__(self) -> int:
        return len(self.vectors)

    @property
    def width(self) -> int:
        """Number of columns of the embedding."""
        return self.vectors.shape[1]

    def add(self, vectors: np.ndarray) -> np.ndarray:
        """Add vectors, at unit length; return their numbers."""
        first = len(self)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        unit = (vectors / lengths).astype(np.float32)
        self.vectors = np.concatenate([self.vectors, unit])
        return np.arange(first, len(self))

    def take(self, numbers: np.ndarray) -> np.ndarray:
        """Return the vectors of some numbers, in float64."""
        return self.vectors[numbers].astype(np.float64)

    def restore(self, vectors: np.ndarray) -> None:
        """Go on with the directions of an earlier run; raise ValueError if they do not fit."""
        check_directions(vectors, self.width)
        self.vectors = vectors


def check_directions(vectors: np.ndarray, width: int) -> None:
    """Raise ValueError unless these are unit vectors of so many columns."""
    if vectors.dtype != np.float32 or vectors.ndim != 2 or vectors.shape[1] != width:
        raise ValueError(
            f"directions has dtype {vectors.dtype} and shape {vectors.shape}, expected "
            f"float32 and (n_directions, {width})."
        )
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1)
    if not (abs(lengths - 1.0) <= 1e-5).all():
        raise ValueError("directions has a row that is not a unit vector.")


def top_eigenvectors(G: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the n largest eigenvalues of a symmetric G, falling, and their unit vectors as rows.

    Examples
    --------
    >>> values, vectors = top_eigenvectors(np.diag([1.0, 3.0, 2.0]), 2)
    >>> values.tolist(), np.abs(vectors).tolist()
    ([3.0, 2.0], [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    """
    width = len(G)
    n = min(n, width)
    if width > WIDE and n < width:
        start = np.ones(width)
        values, vectors = eigsh(G, n, which="LA", v0=start)
    else:
        last = (width - n, width - 1)
        values, vectors = scipy.linalg.eigh(G, subset_by_index=last)
    return values[::-1], _with_signs(vectors.T[::-1])


def principal_directions(vectors: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return V with VᵀV = Σ value·uuᵀ: orthogonal rows, the longest first.

    Parameters
    ----------
    vectors : ndarray of shape (n, width)
        u as rows.
    values : ndarray of shape (n,)
        Not negative.

    Examples
    --------
    >>> principal_directions(np.array([[0.0, 1.0], [0.0, 1.0]]), np.array([3.0, 1.0])).tolist()
    [[0.0, 2.0]]
    """
    _, lengths, rows = np.linalg.svd(
        np.sqrt(values)[:, None] * vectors, full_matrices=False
    )
    is_positive = lengths > TINY * lengths.max(initial=0.0)
    return _with_signs(lengths[is_positive, None] * rows[is_positive]) + 0.0


def _with_signs(vectors: np.ndarray) -> np.ndarray:
    """Return vectors whose largest entry is positive: their sign means nothing."""
    largest = np.abs(vectors).argmax(axis=1)
    signs = np.sign(vectors[np.arange(len(vectors)), largest])
    return vectors * signs[:, None]
