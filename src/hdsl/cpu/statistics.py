"""Sums over comparisons in memory that ``solver.statistics`` is made of."""

import numpy as np
import scipy.sparse as sp

from ..solver.statistics import Sums, weighted_sums
from .comparisons import Comparisons
from .rows import largest_of_rows


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
