"""Data to learn from: synthetic makers after the paper."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from . import _validation
from . import atoms as atoms_module


class Recovery(NamedTuple):
    """Rows, triplets judged by a hidden similarity, and that similarity."""

    X: sp.csr_array
    triplets: np.ndarray
    matrix: sp.csr_array
    atoms: np.ndarray
    weights: np.ndarray


def make_recovery(
    n_rows: int = 5000,
    n_features: int = 2000,
    *,
    n_triplets: int = 30_000,
    alpha: float = 0.2,
    density: float = 0.02,
    n_atoms: int = 100,
    block_size: int = 100,
    random_state: Any = None,
) -> Recovery:
    """Make the paper's similarity recovery problem.

    A hidden similarity is a convex combination of random atoms inside two blocks of features. Rows
    are sparse with values uniform in [0, 1]. In each triplet the anchor is random, the positive is
    among the share `alpha` of rows most similar to it, the negative among the least similar.

    Parameters
    ----------
    n_rows, n_features : int
    n_triplets : int, default=30000
    alpha : float in (0, 0.5], default=0.2
        The larger, the weaker the supervision.
    density : float, default=0.02
        Share of non-zero values.
    n_atoms : int, default=100
        Atoms of the hidden similarity, half in each block; weights are Dirichlet(9).
    block_size : int, default=100
        Features in each of the two blocks; the first starts at a tenth of the features, the second
        at six tenths.
    random_state : int, RandomState or None, default=None

    Returns
    -------
    Recovery
        ``X, triplets, matrix, atoms, weights``; the matrix is the hidden M for λ = 1.

    Examples
    --------
    >>> X, triplets, M, atoms, weights = make_recovery(50, 200, n_triplets=10, n_atoms=6,
    ...                                                block_size=10, random_state=0)
    >>> X.shape, triplets.shape, M.shape, atoms.shape
    ((50, 200), (10, 3), (200, 200), (6, 3))
    """
    owner = "make_recovery"
    _validation.check_number(owner, "n_rows", n_rows, low=3, integer=True)
    _validation.check_number(owner, "n_triplets", n_triplets, low=1, integer=True)
    _validation.check_number(owner, "n_atoms", n_atoms, low=2, integer=True)
    if not 0.0 < alpha <= 0.5:
        raise ValueError(
            f"The 'alpha' parameter of {owner} must be in (0, 0.5]. Got {alpha!r} instead."
        )
    if n_features < 4 * block_size or block_size * (block_size - 1) < n_atoms:
        raise ValueError(
            f"{n_atoms} atoms in two blocks of {block_size} features do not fit {n_features} "
            "features: raise n_features to 4 blocks at least, or change block_size."
        )
    rng = _validation.generator(random_state)
    X = _uniform_rows(n_rows, n_features, density, rng)
    starts = [n_features // 10, 6 * n_features // 10]
    atoms = np.concatenate(
        [
            _random_atoms(start, block_size, count, rng)
            for start, count in zip(starts, (n_atoms // 2, n_atoms - n_atoms // 2), strict=True)
        ]
    )
    weights = rng.dirichlet(np.full(n_atoms, 9.0))
    L = atoms_module.factors(atoms, np.sqrt(weights), n_features)
    triplets = _judge(X @ L.T, n_triplets, alpha, rng)
    return Recovery(X, triplets, sp.csr_array(L.T @ L), atoms, weights)


def _uniform_rows(n: int, d: int, density: float, rng: np.random.Generator) -> sp.csr_array:
    counts = rng.binomial(d, density, size=n)
    indptr = np.concatenate([[0], np.cumsum(counts)])
    indices = np.concatenate([np.sort(rng.choice(d, size=c, replace=False)) for c in counts])
    # 1 - [0, 1) is never 0, so every stored value counts.
    return sp.csr_array((1.0 - rng.random(indptr[-1]), indices, indptr), shape=(n, d))


def _random_atoms(start: int, size: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """Draw distinct atoms among `size` features from `start` on."""
    i, j = np.triu_indices(size, 1)
    chosen = rng.choice(len(i), size=count, replace=False)
    sign = rng.choice([-1, 1], size=count)
    return np.column_stack([start + i[chosen], start + j[chosen], sign])


def _judge(
    Z: sp.csr_array, n_triplets: int, alpha: float, rng: np.random.Generator, block: int = 256
) -> np.ndarray:
    """Draw anchors, and for each a positive and a negative by the dot products of rows of Z."""
    n = Z.shape[0]
    share = max(1, int(alpha * (n - 1)))
    anchors = np.sort(rng.integers(n, size=n_triplets))
    triplets = np.empty((n_triplets, 3), dtype=np.int64)
    triplets[:, 0] = anchors
    for start in range(0, n, block):
        rows = np.arange(start, min(start + block, n))
        similar = (Z[rows] @ Z.T).toarray()
        shuffle = rng.random(similar.shape)  # rows of equal similarity come in random order
        order = np.lexsort((shuffle, similar), axis=1)
        own = np.flatnonzero((anchors >= rows[0]) & (anchors <= rows[-1]))
        for t in own:
            ranked = order[anchors[t] - start]
            ranked = ranked[ranked != anchors[t]]
            triplets[t, 1] = ranked[n - 2 - rng.integers(share)]
            triplets[t, 2] = ranked[rng.integers(share)]
    return triplets[rng.permutation(n_triplets)]
