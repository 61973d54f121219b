"""Arrays used again once nobody holds them: new memory is slow at its first touch."""

from __future__ import annotations

import sys

import numpy as np

#: Most arrays that are waiting for use.
LIMIT = 6


class Rooms:
    """Vectors of float64, handed out uninitialised; each comes back by itself.

    An iteration takes several vectors as long as the comparisons and drops those of the last one.
    From the operating system each would come page by page, and filled with zeros.
    """

    def __init__(self) -> None:
        self._held: list[np.ndarray] = []

    def take(self, n: int) -> np.ndarray:
        """Return a vector of length n that nobody else holds."""
        for k in range(len(self._held)):
            if self._held[k].size == n and _n_holders(self._held, k) == _ALONE:
                return self._held[k]
        room = np.empty(n)
        self._held = [room, *self._held[: LIMIT - 1]]
        return room


def _n_holders(held: list[np.ndarray], k: int) -> int:
    """Return how many hold an array of a list, and some more, the same number for all."""
    return sys.getrefcount(held[k])


#: The count of an array that only the list holds.
_ALONE = _n_holders([np.empty(0)], 0)
