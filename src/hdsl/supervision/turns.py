"""Whose turn it is to be held out."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

#: Shares are rounded to fractions with at most this denominator, which are exact.
MOST_DENOMINATOR = 10**6


def turns(positions: np.ndarray, fraction: float) -> Iterator[np.ndarray]:
    """Yield which positions are held out in each turn.

    Each turn holds out the same share, spread evenly over the positions. There are
    about as many turns as the share goes into 1: for a third and for a quarter each
    position has one turn.

    Parameters
    ----------
    positions : ndarray of int
        The number of each in a random order.
    fraction : float
        The share that is held out, between 0 and 1.

    Examples
    --------
    >>> [held.astype(int).tolist() for held in turns(np.arange(6), 1 / 3)]
    [[1, 0, 0, 1, 0, 0], [0, 1, 0, 0, 1, 0], [0, 0, 1, 0, 0, 1]]
    >>> [held.astype(int).tolist() for held in turns(np.arange(5), 0.8)]
    [[1, 0, 1, 1, 1]]
    """
    n_turns = max(1, round(1.0 / fraction))
    share = Fraction(fraction).limit_denominator(MOST_DENOMINATOR)
    for turn in range(n_turns):
        steps = (positions - turn) * share.numerator % share.denominator
        yield steps < share.numerator
