"""A property that is found when it is first asked for, and kept."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class cached(Generic[T]):  # noqa: N801 - a decorator
    """As ``functools.cached_property``, which in Python 3.11 has one lock for all objects.

    Examples
    --------
    >>> class Squares:
    ...     @cached
    ...     def total(self):
    ...         return sum(k * k for k in range(4))
    >>> squares = Squares()
    >>> squares.total, vars(squares)
    (14, {'total': 14})
    """

    def __init__(self, find: Callable[[Any], T]) -> None:
        self._find = find
        self._name = find.__name__
        self.__doc__ = find.__doc__

    def __get__(self, instance: Any, owner: Any = None) -> T:
        if instance is None:
            return self  # type: ignore[return-value]
        return vars(instance).setdefault(self._name, self._find(instance))
