"""Which model of a path to take, by an error on validation rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

#: Models of a path that are scored: about so many, evenly spread on a log scale.
N_MARKS = 60


def marks(last: int, n: int = N_MARKS) -> list[int]:
    """Return 0, iterations that are evenly spread on a log scale, and the last one.

    Examples
    --------
    >>> marks(100, 4)
    [0, 1, 5, 22, 100]
    """
    spread = np.geomspace(1, max(last, 1), n).round().astype(int)
    return [0, *np.unique(spread).tolist()]


def errors_along(
    model: Any, error: Callable[[Any], float], n: int = N_MARKS
) -> list[Any]:
    """Return [iteration, error] of some models of the path."""
    last = len(model.trace_) - 1
    return [[k, round(error(model.at(k)), 6)] for k in marks(last, n) if k <= last]


def best_iteration(curve: list[Any]) -> int:
    """Return the iteration of the lowest error, the first of equals."""
    return int(min(curve, key=lambda point: point[1])[0])
