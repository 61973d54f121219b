"""What is learned inside an embedding, for two rows: directions and the rows at their ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..input.parameters import check_number
from ..similarity import Similarity


class Direction(NamedTuple):
    """A learned direction v of an embedding, and what it adds to S(x, y).

    Attributes
    ----------
    number : int
        Of the row of ``directions_``.
    value : float
        (v·z)(v·z'); over all directions these sum to zᵀWz'.
    x, y : float
        v·z of both rows: of one sign it makes them more alike.
    low, high : list
        Rows at both ends, the outermost first: their texts, or their numbers.
    """

    number: int
    value: float
    x: float
    y: float
    low: list[Any]
    high: list[Any]


def strongest_directions(
    similarity: Similarity,
    x: Any,
    y: Any,
    X: Any,
    texts: Sequence[Any] | None = None,
    *,
    top: int = 3,
    n_ends: int = 3,
) -> list[Direction]:
    """Return the learned directions that add most to S(x, y), the largest first.

    Parameters
    ----------
    similarity : Similarity
    x, y : Rows or matrix of one row
    X : Rows or matrix of shape (n_rows, n_features)
        Rows to show at the ends, such as those that were learned from.
    texts : sequence of length n_rows, default=None
        What to show of them; None is their numbers.
    top : int, default=3
        How many directions.
    n_ends : int, default=3
        How many rows per end.

    Returns
    -------
    list of Direction
    """
    check_number("strongest_directions", "top", top, low=1, integer=True)
    check_number("strongest_directions", "n_ends", n_ends, low=1, integer=True)
    if texts is not None and len(texts) != X.shape[0]:
        raise ValueError(
            f"texts must be one per row of X. Got {len(texts)} for {X.shape[0]} rows."
        )
    if not similarity.has_directions:
        return []

    def along(rows: Any) -> np.ndarray:
        compared = similarity.index_rows(rows)
        return similarity.along_directions(compared).astype(np.float64)

    left = along(x)
    right = along(y)
    all_rows = along(X)
    values = left[0] * right[0]
    order = np.argsort(-np.abs(values), kind="stable")[:top]
    directions = []
    for number in order.tolist():
        rising = np.argsort(all_rows[:, number], kind="stable")
        shown = [rising[:n_ends].tolist(), rising[::-1][:n_ends].tolist()]
        if texts is not None:
            shown = [[texts[row] for row in rows] for rows in shown]
        directions.append(
            Direction(
                number=number,
                value=float(values[number]),
                x=float(left[0, number]),
                y=float(right[0, number]),
                low=shown[0],
                high=shown[1],
            )
        )
    return directions
