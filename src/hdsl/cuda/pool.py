"""Arrays that are used again: recorded work knows arrays by their addresses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Pool:
    """Things of one kind, made when none is free.

    Parameters
    ----------
    make : callable
    """

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._free: list[Any] = []

    def take(self) -> Any:
        """Return one that nobody uses."""
        return self._free.pop() if self._free else self._make()

    def give_back(self, one: Any) -> None:
        """Take back one that nobody will use any more."""
        self._free.append(one)


class Held:
    """Something of a pool, which gets it back when nobody has this any more."""

    def __init__(self, pool: Pool) -> None:
        self._pool, self.array = pool, pool.take()

    def __del__(self) -> None:
        self._pool.give_back(self.array)
