"""Rows and comparisons in memory, laid out for the kernels."""

from __future__ import annotations

from functools import partial

import numpy as np
import scipy.sparse as sp

from ..input.matrices import largest_value
from ..layout import column_keys, compared_rows, number_features
from ..rows import Rows
from ..solver.protocols import Layout, Loss
from ..solver.statistics import Statistics, Sums, from_sample, weighted_sums
from ..wide_matrices import is_wide
from .comparisons import Comparisons
from .problem import CPUProblem
from .rows import KernelRows, counted, largest_of_rows
from .workers import Workers


class CPULayout(Layout):
    """X and comparisons of its rows.

    Parameters
    ----------
    X : csr_array or Rows of shape (n_rows, n_columns), float64
        Canonical: sorted, no duplicates, no stored zeros. The columns of an embedding
        are no features: they count in inner products, so in the prior.
    compared : ndarray of shape (n, 3) or (n, 4)
        Triplets or quadruplets of rows of X.
    weights : ndarray of shape (n,), default=None
        Of the comparisons; only their ratios matter.
    workers : Workers
    columns : ndarray, default=None
        Columns that are features although they may be rare or empty.
    min_rows : int, default=1
        Columns that fewer rows have are no features. They count in inner products, so
        in the prior.

    Attributes
    ----------
    features : ndarray of shape (n_features,)
        The columns of X that are features, the fullest first. Feature numbers are
        positions here.
    comparisons : Comparisons
        Sorted by their first row.
    weights : ndarray of shape (n,) or None
        In the same order, relative to the largest.
    """

    def __init__(
        self,
        X: sp.csr_array | Rows,
        compared: np.ndarray,
        weights: np.ndarray | None = None,
        *,
        workers: Workers,
        columns: np.ndarray | None = None,
        min_rows: int = 1,
    ) -> None:
        dense = None
        if isinstance(X, Rows):
            dense = X.dense
            X = X.sparse
        names = None
        indices = X.indices
        n_used = X.shape[1]
        if is_wide(X):
            names, indices = np.unique(indices, return_inverse=True)
            n_used = len(names)
        numbered = number_features(
            counted(indices, n_used, workers),
            column_keys(
                sp.csr_array((X.data, indices, X.indptr), shape=(X.shape[0], n_used)),
                compared_rows(compared, weights, X.shape[0]),
                largest_value(X.data),
            ),
            names,
            min_rows,
            columns,
        )
        self.features = numbered.features
        self.n_features = len(self.features)
        shape = (X.shape[0], numbered.n_numbers)
        matrix = sp.csr_array(
            (X.data, _taken(numbered.numbers, indices, workers), X.indptr), shape=shape
        )
        omega: np.ndarray | float = 1.0 / len(compared)
        self.weights = None if weights is None else weights / weights.max()
        if weights is not None:
            omega = weights / weights.sum()
        self._order: np.ndarray | None = None
        if (compared[1:, 0] < compared[:-1, 0]).any():
            order = np.argsort(compared[:, 0], kind="stable")
            self._order = order
            compared = compared[order]
            if self.weights is not None:
                self.weights = self.weights[order]
                omega = np.asarray(omega)[order]
        self.comparisons = Comparisons(
            KernelRows(matrix, workers, self.n_features, dense), compared, omega
        )

    def statistics(self) -> Statistics:
        """Return what an automatic scale and prior are chosen by."""
        rows = self.comparisons.rows
        return from_sample(
            self.comparisons.n_comparisons,
            partial(comparison_sums, self.comparisons, self.weights),
            count_anchors(self.comparisons, self.weights),
            rows.mean_square,
        )

    def problem(
        self,
        loss: Loss,
        scale: float,
        prior: float = 0.0,
        direction_scale: float = 0.0,
        other_margins: np.ndarray | None = None,
    ) -> CPUProblem:
        """Return the problem of a loss, a scale and a weight of the plain dot product.

        `other_margins` are those of another similarity that is not learned, in the
        order in which the comparisons were given.
        """
        offset = self.comparisons.prior_margins(prior)
        if other_margins is not None:
            if self._order is not None:
                other_margins = other_margins[self._order]
            offset = other_margins if offset is None else offset + other_margins
        return CPUProblem(
            self.comparisons, self.features, loss, scale, offset, direction_scale
        )


def _taken(number: np.ndarray, indices: np.ndarray, workers: Workers) -> np.ndarray:
    """Return number[indices], in a mode of `take` that makes no copy of the answer."""
    out = np.empty(len(indices), dtype=number.dtype)

    def take(start: int, stop: int) -> None:
        number.take(indices[start:stop], out=out[start:stop], mode="clip")

    workers.run(take, workers.split(len(indices), grain=workers.grain))
    return out


def comparison_sums(
    comparisons: Comparisons, weights: np.ndarray | None, numbers: np.ndarray
) -> Sums:
    """Return the sums over the comparisons of some numbers, each times its weight."""
    inner = comparisons.pairs.inner_products
    winners = comparisons.winner[numbers]
    losers = comparisons.loser[numbers]
    sides = np.array([side[numbers] for side in comparisons.sides])
    rows, position = np.unique(sides, return_inverse=True)
    position = position.reshape(sides.shape)
    norms, values = row_sizes(comparisons.rows.matrix[rows])
    dense = comparisons.rows.dense
    if dense is not None:
        squares = np.square(dense[rows], dtype=np.float64).sum(axis=1)
        norms = np.sqrt(norms**2 + squares)
    sampled_weights = np.ones(len(numbers))
    if weights is not None:
        sampled_weights = weights[numbers]
    return weighted_sums(
        sampled_weights,
        inner[winners] - inner[losers],
        norms[position],
        values[position[0]],
    )


def count_anchors(comparisons: Comparisons, weights: np.ndarray | None) -> int:
    """Return how many rows comparisons of a positive weight start from."""
    anchors = comparisons.columns[0]
    if weights is not None:
        anchors = anchors[weights > 0]
    return int(np.count_nonzero(np.bincount(anchors)))


def row_sizes(matrix: sp.csr_array) -> tuple[np.ndarray, np.ndarray]:
    """Return ‖x‖ of each row, and how many values it rests on, (Σx²)² / Σx⁴.

    Sizes are relative to the row's largest, whose fourth power may not be a number.
    """
    n = matrix.shape[0]
    row = np.repeat(np.arange(n), np.diff(matrix.indptr))
    largest = largest_of_rows(matrix)
    squares = np.square(matrix.data / largest[row])
    second = np.bincount(row, squares, n)
    fourth = np.bincount(row, squares**2, n)
    values = np.divide(second**2, fourth, out=np.zeros(n), where=fourth > 0)
    return largest * np.sqrt(second), values
