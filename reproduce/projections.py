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
        _save(
            path,
            parts.map(lambda rows: np.asarray(rows @ components - center @ components)),
        )
    with np.load(path, allow_pickle=False) as stored:
        X, X_val, X_test = (stored.get(key) for key in ("X", "X_val", "X_test"))
    return parts._replace(X=X, X_val=X_val, X_test=X_test)


def _save(path: Path, parts: Parts) -> None:
    """Write the rows at once: another process may read the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = {"X": parts.X, "X_val": parts.X_val, "X_test": parts.X_test}
    part = path.with_name(f"{path.stem}-{os.getpid()}.npz")
    np.savez(
        part, **{key: Z.astype(np.float32) for key, Z in rows.items() if Z is not None}
    )
    part.replace(path)


def principal_components(
    X: sp.csr_array, n: int, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Return the centre of the rows and the leading principal components, by subspace iteration.

    The rows stay sparse. Thousands of components take a few products of matrices, where
    Lanczos methods take as many passes over the data as there are components.

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

    exact = X.shape[0] <= EXACT
    rng = np.random.default_rng(seed)
    Q = np.eye(X.shape[0]) if exact else rng.standard_normal((X.shape[0], n + SPARE))
    for _ in range(0 if exact else ITERATIONS):
        V = back(Q)
        Q, _ = scipy.linalg.qr(X @ V - center @ V, mode="economic", overwrite_a=True)
    V = back(Q)
    variances, turn = scipy.linalg.eigh(V.T @ V)
    leading = slice(-1, -n - 1, -1)
    lengths = np.sqrt(np.maximum(variances[leading], 1e-12 * variances[-1]))
    return center, V @ (turn[:, leading] / lengths)
