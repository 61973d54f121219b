"""Rows projected to few dimensions: at random, and to principal components."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from sklearn.random_projection import GaussianRandomProjection

from . import sets
from .sets import Parts
from .settings import Settings

#: Principal components are exact up to so many rows. For more rows: the number of
#: subspace iterations, and the dimensions that the subspace has to spare.
EXACT = 4000
ITERATIONS = 4
SPARE = 20


def project(settings: Settings, name: str, method: str, n: int, draw: int) -> Parts:
    """Return a set in n dimensions, by the method "rp" or "pca".

    Principal components are stored in the folder of the results, under ``projections``.
    """
    parts = sets.load(settings, name)
    if method == "rp":
        projection = GaussianRandomProjection(n, random_state=draw).fit(parts.X)
        return parts.map(lambda rows: np.asarray(projection.transform(rows)))
    path = settings.out / "projections" / f"{name}-pca.npz"
    if not path.exists():
        center, components = principal_components(parts.X, n, draw)
        shift = center @ components
        _save(path, parts.map(lambda rows: np.asarray(rows @ components - shift)))
    with np.load(path, allow_pickle=False) as stored:
        return parts._replace(
            X=stored["X"], X_val=stored["X_val"], X_test=stored.get("X_test")
        )


def _save(path: Path, parts: Parts) -> None:
    """Write the rows at once: another process may read the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays = {"X": parts.X, "X_val": parts.X_val}
    if parts.has_test:
        arrays["X_test"] = parts.X_test
    unfinished = path.with_name(f"{path.stem}-{os.getpid()}.npz")
    np.savez(
        unfinished, **{key: rows.astype(np.float32) for key, rows in arrays.items()}
    )
    unfinished.replace(path)


def principal_components(
    X: sp.csr_array, n: int, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Return the centre of the rows and the leading principal components.

    They are found by subspace iteration. The rows stay sparse. Thousands of components
    take a few products of matrices, where Lanczos methods take as many passes over the
    data as there are components.

    Parameters
    ----------
    X : sparse array of shape (n_rows, n_features)
    n : int
        Less than n_rows.
    seed : int, default=0

    Returns
    -------
    center : ndarray of shape (n_features,)
    components : ndarray of shape (n_features, n)
        Orthonormal, the one of largest variance first; nearly 0 where there is no
        variance.

    Examples
    --------
    >>> X = sp.csr_array([[3.0, 1, 0], [1, 1, 0], [2, 1.5, 0], [2, 0.5, 0]])
    >>> center, components = principal_components(X, 1)
    >>> center.tolist(), np.abs(components.T).round(6).tolist()
    ([2.0, 1.0, 0.0], [[1.0, 0.0, 0.0]])
    """
    center = np.asarray(X.mean(axis=0)).ravel()
    columns = X.T.tocsr()

    def back(Q: np.ndarray) -> np.ndarray:
        return columns @ Q - np.outer(center, Q.sum(axis=0))

    n_rows = X.shape[0]
    if n_rows <= EXACT:
        Q = np.eye(n_rows)
    else:
        Q = np.random.default_rng(seed).standard_normal((n_rows, n + SPARE))
        for _ in range(ITERATIONS):
            V = back(Q)
            product = X @ V - center @ V
            Q, _ = scipy.linalg.qr(product, mode="economic", overwrite_a=True)
    V = back(Q)
    variances, turn = scipy.linalg.eigh(V.T @ V)
    leading = slice(-1, -n - 1, -1)
    lengths = np.sqrt(np.maximum(variances[leading], 1e-12 * variances[-1]))
    return center, V @ (turn[:, leading] / lengths)
