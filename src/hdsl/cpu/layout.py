"""Rows and comparisons in memory, laid out for the kernels."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ..solver.protocols import Layout, Loss, Statistics
from .comparisons import make_comparisons
from .nearness import near_order
from .problem import CPUProblem
from .rows import Rows, number_features
from .statistics import statistics
from .workers import Workers


class CPULayout(Layout):
    """X and comparisons of its rows.

    Parameters
    ----------
    X : csr_array of shape (n_rows, n_columns), float64
        Canonical: sorted, no duplicates, no stored zeros.
    compared : ndarray of shape (n, 3) or (n, 4)
        Triplets or quadruplets of rows of X.
    weights : ndarray of shape (n,), default=None
        Of the comparisons; only their ratios matter.
    workers : Workers
    columns : ndarray, default=None
        Columns that are features although they may be empty.
    store_products : bool, default=True
        Whether products of compared rows are stored: faster, unless gradients are of batches.

    Attributes
    ----------
    features : ndarray of shape (n_features,)
        The columns of X that are features, the fullest first. Feature numbers are positions here.
    comparisons : Comparisons
        Sorted by their first row. Rows have numbers of their own where there are many.
    weights : ndarray of shape (n,) or None
        In the same order, relative to the largest.
    """

    def __init__(
        self,
        X: sp.csr_array,
        compared: np.ndarray,
        weights: np.ndarray | None = None,
        *,
        workers: Workers,
        columns: np.ndarray | None = None,
        store_products: bool = True,
    ) -> None:
        self.features, indices = number_features(X)
        if columns is not None:
            self.features = np.concatenate([self.features, np.setdiff1d(columns, self.features)])
        self.n_features = len(self.features)
        matrix = sp.csr_array((X.data, indices, X.indptr), shape=(X.shape[0], self.n_features))
        rows_in_order = near_order(compared, X.shape[0])
        if rows_in_order is not None:
            matrix = matrix[rows_in_order]  # a copy, which may be sorted in place
            matrix.sort_indices()
            number = np.empty(X.shape[0], dtype=np.int64)
            number[rows_in_order] = np.arange(X.shape[0])
            compared = number[compared]
        order = np.argsort(compared[:, 0], kind="stable")
        omega: np.ndarray | float = 1.0 / len(compared)
        self.weights = None
        if weights is not None:
            omega = (weights / weights.sum())[order]
            self.weights = weights[order] / weights.max()
        rows = Rows(matrix, workers)
        self.comparisons = make_comparisons(
            rows, compared[order], omega, store_products=store_products
        )

    def statistics(self) -> Statistics:
        """Return what an automatic scale and prior are chosen by."""
        return statistics(self.comparisons.rows, [(self.comparisons, self.weights)])

    def problem(self, loss: Loss, scale: float, prior: float = 0.0) -> CPUProblem:
        """Return the problem of a loss, a scale and a prior."""
        return CPUProblem(self.comparisons, self.features, loss, scale, prior)
