"""What an automatic scale and prior are chosen by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

import numpy as np

from ..solver.protocols import Statistics
from .comparisons import Comparisons
from .rows import Rows


def sums(of: Comparisons, weights: np.ndarray | None) -> np.ndarray:
    """Return weight, margins of the dot product, values and ‖x‖² per anchor, and anchors.

    They add up over shards that have no anchor in common.
    """
    omega = np.ones(of.n_comparisons) if weights is None else weights
    margins = np.abs(of.dot_margins)
    margins[margins <= of.dot_rounding] = 0.0
    return np.array(
        [
            omega.sum(),
            (margins * omega).sum(),
            (of.rows.n_values()[of.anchors] * omega).sum(),
            (of.rows.squared_norms[of.anchors] * omega).sum(),
            len(np.unique(of.anchors[omega > 0])),
        ]
    )


def from_sums(total: np.ndarray, mean_square: Callable[[], float]) -> Statistics:
    """Return the statistics of the `sums` of all shards, added up.

    `mean_square` returns the mean of ‖x‖² over all rows.
    """
    weight, margin, values, own, n_anchors = total.tolist()
    # Where no two dot products differ, go by the size of the rows.
    typical = margin / weight or mean_square()
    return Statistics(weight, typical, int(n_anchors), values / weight, own / weight)


def statistics(rows: Rows, shards: Sequence[tuple[Comparisons, np.ndarray | None]]) -> Statistics:
    """Return the statistics of shards of the comparisons.

    Parameters
    ----------
    rows : Rows
        All rows of X.
    shards : sequence of (Comparisons, weights)
        No two have an anchor in common.
    """
    total = reduce(np.add, (sums(of, weights) for of, weights in shards))
    return from_sums(total, lambda: float(np.square(rows.row_val).sum()) / rows.n_rows)
