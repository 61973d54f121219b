"""What parameters are where they are "auto" and nothing is chosen on held-out data."""

from __future__ import annotations

import math
from typing import Any

from ..evaluate.choose import FIXED_STEPS
from ..solver.statistics import Statistics

#: scale="auto" makes the learned part this many times as large as the typical margin,
#: for one anchor. It grows with the root of the number of anchors, as the excess risk
#: grows with scale / sqrt(rows), and with the number of values that a row rests on
#: where these are many, as they share the margin of the dot product.
SCALE_MARGIN = 9.0

SCALE_VALUES = 80.0

#: Digits of the mean ‖x‖² that are not rounding: an embedding has 32 bits.
UNIT_DIGITS = 7

#: min_rows="auto" is this power of the number of rows.
MIN_ROWS_POWER = 0.125


def scale_of(model: Any, statistics: Statistics) -> float:
    """Return the scale of a model: as given, or as it suits the data."""
    if model.scale == "auto":
        return automatic_scale(statistics)
    return float(model.scale)


def automatic_scale(statistics: Statistics) -> float:
    """Return the scale that suits the data."""
    share = max(1.0, statistics.values_per_anchor / SCALE_VALUES)
    return (
        SCALE_MARGIN
        * math.sqrt(statistics.n_anchors)
        * share
        / statistics.typical_margin
    )


def own_similarity(statistics: Statistics) -> float:
    """Return the mean ‖x‖² of the anchors, which automatic priors are divided by.

    Its last digits are rounding, of which a prior of 255.99999935 would come.
    """
    if statistics.own_similarity > 0:
        return float(f"{statistics.own_similarity:.{UNIT_DIGITS}g}")
    return 1.0


def least_rows(model: Any, n_rows: int) -> int:
    """Return the number of rows that a feature must have to be paired."""
    if model.min_rows != "auto":
        return int(model.min_rows)
    return max(1, round(n_rows**MIN_ROWS_POWER))


def n_iterations(model: Any) -> int:
    """Return the number of iterations where nothing is chosen."""
    if model.max_iter == "auto":
        return FIXED_STEPS
    return int(model.max_iter)
