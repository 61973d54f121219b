"""What an automatic scale and prior are chosen by: means over a sample of comparisons.

Every machine takes the same sample, so that all follow the same path.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

#: Means are over about this many comparisons where there are more.
SAMPLE_SIZE = 100_000

#: A difference of two products of rows is rounding up to this share of ‖a‖‖b‖ + ‖c‖‖d‖.
ROUNDING = 1e-14


class Statistics(NamedTuple):
    """Sizes that an automatic scale and prior are chosen by.

    Parameters
    ----------
    typical_margin : float
        Mean absolute margin of the dot product; mean of ‖x‖² where all are 0.
    n_anchors : int
        Rows that comparisons start from.
    values_per_anchor : float
        Values that a row rests on, (Σx²)² / Σx⁴, in the mean.
    own_similarity : float
        Dot product of an anchor with itself, in the mean.
    """

    typical_margin: float
    n_anchors: int
    values_per_anchor: float
    own_similarity: float


class Sums(NamedTuple):
    """Sums over comparisons, each times its weight; those of several parts add up."""

    weights: float
    margins: float  # absolute margins of the plain dot product
    values: float  # values that the anchor rests on
    squared_norms: float  # ‖x‖² of the anchor


def weighted_sums(
    weights: np.ndarray, margins: np.ndarray, norms: np.ndarray, values: np.ndarray
) -> Sums:
    """Return the sums over some comparisons S(a, b) > S(c, d).

    Parameters
    ----------
    weights : ndarray of shape (n,)
    margins : ndarray of shape (n,)
        ⟨a, b⟩ - ⟨c, d⟩.
    norms : ndarray of shape (4, n)
        ‖a‖, ‖b‖, ‖c‖ and ‖d‖.
    values : ndarray of shape (n,)
        How many values the anchor a rests on.

    Examples
    --------
    >>> two = np.full(2, 2.0)
    >>> weighted_sums(np.ones(2), np.array([-3.0, 1e-20]), np.ones((4, 2)), two)
    Sums(weights=2.0, margins=3.0, values=4.0, squared_norms=2.0)
    """
    a, b, c, d = norms
    sizes = np.abs(margins)
    sizes[sizes <= ROUNDING * (a * b + c * d)] = 0.0
    return Sums(
        weights=float(weights.sum()),
        margins=float((sizes * weights).sum()),
        values=float((values * weights).sum()),
        squared_norms=float((a * a * weights).sum()),
    )


def from_sample(
    n_comparisons: int,
    sums_of: Callable[[np.ndarray], Sums],
    n_anchors: int,
    mean_square: Callable[[], float],
) -> Statistics:
    """Return the statistics of a layout.

    Parameters
    ----------
    n_comparisons : int
        Comparisons are numbered by rising anchors.
    sums_of : callable
        From numbers of comparisons to their sums.
    n_anchors : int
        Rows that comparisons of a positive weight start from.
    mean_square : callable
        Returns ‖x‖² of the rows, in the mean; called where no two products differ.
    """
    stride = -(-n_comparisons // SAMPLE_SIZE)
    sums = sums_of(np.arange(0, n_comparisons, stride))
    if sums.weights == 0.0:  # the sample missed all that have a weight
        sums = sums_of(np.arange(n_comparisons))
    return Statistics(
        typical_margin=sums.margins / sums.weights or mean_square(),
        n_anchors=n_anchors,
        values_per_anchor=sums.values / sums.weights,
        own_similarity=sums.squared_norms / sums.weights,
    )
