"""The four rows of a comparison S(a, b) > S(c, d), which of a triplet are three."""

from collections.abc import Iterable

import numpy as np


def sides_of(columns: Iterable[np.ndarray]) -> tuple[np.ndarray, ...]:
    """Return rows a, b, c and d of comparisons, triplets or quadruplets.

    Examples
    --------
    >>> sides_of(np.array([[5, 6, 7]]).T)
    (array([5]), array([6]), array([5]), array([7]))
    """
    sides = tuple(columns)
    if len(sides) == 4:
        return sides
    anchor, positive, negative = sides
    return anchor, positive, anchor, negative
