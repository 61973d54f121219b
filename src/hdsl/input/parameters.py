"""Checks of parameters.

scikit-learn is loaded where it is asked, since workers of a cluster check blocks of rows
without it.
"""

import math
import numbers
import re
from typing import Any

import numpy as np

from .errors import ParameterError, short


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
    if any(
        value is word or (isinstance(value, str) and value == word) for word in words
    ):
        return
    kind = numbers.Integral if integer else numbers.Real
    good = isinstance(value, kind) and not isinstance(value, bool | np.bool_)
    if good and isinstance(value, numbers.Integral) and abs(int(value)) >= 2**63:
        raise ParameterError(owner, name, "a number of at most 64 bits", short(value))
    good = good and math.isfinite(value) and (high is None or value < high)
    if good and (value > low if strict else value >= low):
        return
    article = "an int" if integer else "a float"
    wanted = f"{article} {'>' if strict else '>='} {low:g}"
    wanted += "" if high is None else f" and < {high:g}"
    wanted += "".join(f" or {word!r}" for word in words if word is not None)
    raise ParameterError(
        owner, name, wanted, short(value), " or None" if None in words else ""
    )


def check_word(owner: str, name: str, value: Any, known: Any, also: str = "") -> None:
    """Raise ValueError unless `value` is one of the known words."""
    if isinstance(value, str) and value in known:
        return
    listed = ", ".join(repr(word) for word in known)
    raise ParameterError(owner, name, f"one of {listed}", short(value), also)


def check_device(owner: str, device: Any) -> None:
    """Raise ValueError unless `device` is a word for the CPU or a GPU."""
    if (
        not isinstance(device, str)
        or re.fullmatch(r"cpu|cuda(:[0-9]{1,3})?", device) is None
    ):
        wanted = "'cpu', 'cuda' or 'cuda:1' and so on"
        raise ParameterError(owner, "device", wanted, short(device))


def generator(random_state: Any) -> np.random.Generator:
    """Return a NumPy generator seeded by a scikit-learn style ``random_state``."""
    from sklearn.utils import check_random_state

    if (
        isinstance(random_state, numbers.Integral)
        and not 0 <= int(random_state) < 2**32
    ):
        wanted = "an int from 0 to 2**32 - 1"
        raise ParameterError("fit", "random_state", wanted, short(random_state))
    seed = check_random_state(random_state).randint(0, 2**31 - 1, size=4)
    return np.random.default_rng(seed.tolist())
