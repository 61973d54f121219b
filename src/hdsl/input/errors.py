"""Errors and warnings of user input, and values as their messages show them."""

import inspect
import os
import reprlib
import warnings
from collections.abc import Iterable
from typing import Any

from ..printable import printable

#: Characters of a value in a message.
SHORT = 200

_REPR = reprlib.Repr()
_REPR.maxstring = 80
_REPR.maxother = 80


class ParameterError(ValueError):
    """A parameter with a value that it cannot have.

    Parameters
    ----------
    owner : str
        The class or function.
    name : str
        The parameter.
    wanted : str
        What it must be.
    got : str
        What came.
    in_python : str, default=""
        What else it may be, in Python only.

    Examples
    --------
    >>> error = ParameterError("HDSL", "batch_size", "an int >= 1", "0", " or None")
    >>> print(error)
    The 'batch_size' parameter of HDSL must be an int >= 1 or None. Got 0 instead.
    >>> error.message("--batch-size")
    '--batch-size must be an int >= 1. Got 0 instead.'
    """

    def __init__(
        self, owner: str, name: str, wanted: str, got: str, in_python: str = ""
    ) -> None:
        super().__init__(owner, name, wanted, got, in_python)  # for pickle
        self.owner = owner
        self.name = name
        self.wanted = wanted
        self.got = got
        self.in_python = in_python

    def __str__(self) -> str:
        return (
            f"The {self.name!r} parameter of {self.owner} must be "
            f"{self.wanted}{self.in_python}. Got {self.got} instead."
        )

    def message(self, option: str) -> str:
        """Return the message of a front end that has an option instead of the parameter."""
        return f"{option} must be {self.wanted}. Got {self.got} instead."


class WayOutError(ValueError):
    """A fault of the input, and what a Python user can do about it.

    Parameters
    ----------
    facts : str
        What is wrong; without its full stop if there is a way out.
    way_out : str, default=""
        What to do in Python.
    remedy : str, default=""
        A word for it, by which another front end finds its own way out.

    Examples
    --------
    >>> error = WayOutError("Line 3 has an index 0", "pass zero_based=True", "zero_based")
    >>> print(error)
    Line 3 has an index 0: pass zero_based=True.
    >>> error.message("pass --zero-based")
    'Line 3 has an index 0: pass --zero-based.'
    """

    def __init__(self, facts: str, way_out: str = "", remedy: str = "") -> None:
        super().__init__(facts, way_out, remedy)  # for pickle
        self.facts = facts
        self.way_out = way_out
        self.remedy = remedy

    def __str__(self) -> str:
        return self.message(self.way_out)

    def message(self, way_out: str) -> str:
        """Return the facts with the caller's way out."""
        message = f"{self.facts}: {way_out}." if way_out else self.facts
        return printable(message)


class NoTripletError(ValueError):
    """No triplet can be built from these rows and labels."""


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn of the line outside the package that led to the warning."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
    level = 1
    frame = inspect.currentframe()
    while frame is not None and _is_between(frame.f_code.co_filename, package):
        level = level + 1
        frame = frame.f_back
    warnings.warn(message, category, stacklevel=level)


def _is_between(filename: str, package: str) -> bool:
    """Return whether a file is of the package, or of scikit-learn, which may call it."""
    return filename.startswith(package) or f"{os.sep}sklearn{os.sep}" in filename


def short(value: Any) -> str:
    """Return any value for a message, at most some hundred characters."""
    try:
        text = _REPR.repr(value)
    except ValueError:  # Python does not print thousands of digits
        text = f"a large {type(value).__name__}"
    return text if len(text) <= SHORT else text[: SHORT - 1] + "…"


def first_few(values: Iterable[Any], n: int = 5, width: int = 300) -> str:
    """Return the first values for a message, at most n, of about `width` characters.

    Examples
    --------
    >>> first_few(["a", "b", "c"], n=2)
    "'a', 'b', …"
    """
    values = [*values]
    shown = list[str]()
    for value in values[:n]:
        if sum(map(len, shown)) > width:
            break
        shown.append(short(value))
    if len(values) > len(shown):
        shown.append("…")
    return ", ".join(shown)
