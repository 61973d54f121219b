"""Regions of the space: by k-means, by another clusterer, or as given."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.cluster import KMeans

from . import checks
from .local_similarity import Centers, Predicted, rows_for_clusterers
from .solver.columns import drop_unused_columns

#: Restarts of k-means, and its largest number of iterations.
KMEANS: dict[str, Any] = {"n_init": 3, "max_iter": 100}

#: What `regions` may be besides "kmeans".
ALSO = ", a clusterer with fit and predict, or an array of the region of each row"


def check_regions(owner: str, regions: Any) -> None:
    """Raise ValueError for a `regions` parameter that no fit can use."""
    if regions is None or isinstance(regions, str):
        checks.check_word(owner, "regions", regions, ("kmeans",), also=ALSO)
        return
    is_clusterer = hasattr(regions, "fit") and hasattr(regions, "predict")
    if not is_clusterer and (hasattr(regions, "fit") or np.ndim(regions) != 1):
        raise ValueError(
            f"The 'regions' parameter of {owner} must be 'kmeans'{ALSO}. Got {regions!r} instead."
        )


def given_regions(regions: Any, n_rows: int) -> np.ndarray | None:
    """Return the region of each row where `regions` is an array; raise unless it fits the rows."""
    if isinstance(regions, str) or hasattr(regions, "predict"):
        return None
    given = np.asarray(regions)
    if len(given) != n_rows:
        raise ValueError(
            f"regions has {len(given)} values, but X has {n_rows} rows: expected the region of "
            "each row."
        )
    return given


def make_regions(
    regions: Any, n_regions: int, X: sp.csr_array, weights: np.ndarray | None, seed: int
) -> tuple[Centers | Predicted, np.ndarray]:
    """Return what assigns rows to regions, and the region of each row of X.

    Parameters
    ----------
    regions : "kmeans", clusterer or ndarray of shape (n_rows,)
    n_regions : int
        For k-means; 0 is no regions, whatever `regions` is.
    X : csr_array of shape (n_rows, n_features)
        Rows as they are compared.
    weights : ndarray of shape (n_rows,) or None
        For k-means.
    seed : int
        For k-means, and for a clusterer without a random state.
    """
    n_rows, n_features = X.shape
    if n_regions == 0:
        return Centers(sp.csr_array((0, n_features))), np.full(n_rows, -1)
    if isinstance(regions, str):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # fewer distinct rows than regions
            kmeans = KMeans(min(n_regions, n_rows), random_state=seed, **KMEANS)
            (narrow,), columns = drop_unused_columns(X)
            found = kmeans.fit(rows_for_clusterers(narrow), sample_weight=weights)
        centers = Centers(_widened(sp.csr_array(found.cluster_centers_), columns, n_features))
        return centers, centers.assign(X)
    if hasattr(regions, "predict"):
        clusterer = clone(regions)
        if "random_state" in clusterer.get_params() and clusterer.random_state is None:
            clusterer.set_params(random_state=seed)
        rows = rows_for_clusterers(X)
        labels = np.unique(np.asarray(clusterer.fit(rows).predict(rows)))
        predicted = Predicted(clusterer, labels)
        return predicted, predicted.assign(X)
    _, assigned = np.unique(regions, return_inverse=True)
    n = int(assigned.max()) + 1
    shares = 1.0 / np.bincount(assigned)[assigned]
    (narrow,), columns = drop_unused_columns(X)
    means = sp.csr_array((shares, (assigned, np.arange(n_rows))), shape=(n, n_rows)) @ narrow
    return Centers(_widened(sp.csr_array(means), columns, n_features)), assigned


def _widened(centers: sp.csr_array, columns: np.ndarray | None, n_features: int) -> sp.csr_array:
    """Return the centers in all columns; `columns` are those that they have, None is all."""
    if columns is None:
        return centers
    centers.sort_indices()
    arrays = centers.data, columns[centers.indices], centers.indptr
    return sp.csr_array(arrays, shape=(centers.shape[0], n_features))
