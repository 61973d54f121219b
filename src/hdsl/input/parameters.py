"""Checks of parameters, paths and texts.

scikit-learn is loaded where it is asked, since workers of a cluster check blocks of rows
without it.
"""

import math
import numbers
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .errors import ParameterError, short

FilePath = str | os.PathLike[str]


def check_number(
    owner: str,
    name: str,
    value: Any,
    *,
    low: float,
    strict: bool = False,
    integer: bool = False,
    high: float | None = None,
    words: tuple[str | None, ...] = (),
) -> None:
    """Raise ValueError unless `value` is a finite number in range, or one of `words`.

    The range is >= `low`, or > `low` if `strict`, and < `high` if given.
    """
    if any(_is_word(value, word) for word in words):
        return
    wanted = _Range(low, high, is_open=strict, integer=integer)
    if wanted.is_number(value):
        if isinstance(value, numbers.Integral) and abs(int(value)) >= 2**63:
            limit = "a number of at most 64 bits"
            raise ParameterError(owner, name, limit, short(value))
        if wanted.contains(value):
            return
    description = wanted.description()
    for word in words:
        if word is not None:
            description += f" or {word!r}"
    in_python = " or None" if None in words else ""
    raise ParameterError(owner, name, description, short(value), in_python)


def _is_word(value: Any, word: str | None) -> bool:
    return value is word or (isinstance(value, str) and value == word)


@dataclass(frozen=True)
class _Range:
    """Finite numbers, or integers, from `low` on, which is left out if the range is open."""

    low: float
    high: float | None
    is_open: bool
    integer: bool

    def is_number(self, value: Any) -> bool:
        """Whether a value is of the right kind; True and False are none."""
        if isinstance(value, bool | np.bool_):
            return False
        if self.integer:
            return isinstance(value, numbers.Integral)
        return isinstance(value, numbers.Real)

    def contains(self, number: Any) -> bool:
        """Whether a number is in the range."""
        if not math.isfinite(number):
            return False
        if self.high is not None and number >= self.high:
            return False
        if self.is_open:
            return number > self.low
        return number >= self.low

    def description(self) -> str:
        """Return the range in words, for a message."""
        kind = "an int" if self.integer else "a float"
        relation = ">" if self.is_open else ">="
        text = f"{kind} {relation} {self.low:g}"
        if self.high is not None:
            text += f" and < {self.high:g}"
        return text


def check_share(owner: str, name: str, value: Any) -> None:
    """Raise ValueError unless `value` is a number from 0 to 1."""
    is_number = _Range(0.0, None, is_open=False, integer=False).is_number(value)
    if is_number and 0.0 <= value <= 1.0:
        return
    raise ParameterError(owner, name, "a number from 0 to 1", short(value))


def check_word(owner: str, name: str, value: Any, known: Any, also: str = "") -> None:
    """Raise ValueError unless `value` is one of the known words."""
    if isinstance(value, str) and value in known:
        return
    listed = ", ".join(repr(word) for word in known)
    raise ParameterError(owner, name, f"one of {listed}", short(value), also)


def check_device(owner: str, device: Any) -> None:
    """Raise ValueError unless `device` is a word for the CPU or a GPU."""
    is_word = isinstance(device, str)
    if not is_word or re.fullmatch(r"cpu|cuda(:[0-9]{1,3})?", device) is None:
        wanted = "'cpu', 'cuda' or 'cuda:1' and so on"
        raise ParameterError(owner, "device", wanted, short(device))


def generator(random_state: Any) -> np.random.Generator:
    """Return a NumPy generator seeded by a scikit-learn style ``random_state``."""
    from sklearn.utils import check_random_state

    is_seed = isinstance(random_state, numbers.Integral)
    if is_seed and not 0 <= int(random_state) < 2**32:
        wanted = "an int from 0 to 2**32 - 1"
        raise ParameterError("fit", "random_state", wanted, short(random_state))
    seed = check_random_state(random_state).randint(0, 2**31 - 1, size=4)
    return np.random.default_rng(seed.tolist())


def as_texts(texts: Iterable[Any], owner: str) -> list[Any]:
    """Return several texts as a list; raise ValueError for one text or a whole table.

    Examples
    --------
    >>> as_texts(("a text", "another"), "learn")
    ['a text', 'another']
    """
    is_table = hasattr(texts, "columns") or getattr(texts, "ndim", 1) != 1
    if isinstance(texts, str | bytes) or is_table:
        raise ValueError(
            f"{owner} takes a list of texts, such as one column of a table. Got "
            f"{short(texts)}."
        )
    return [*texts]
