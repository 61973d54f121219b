"""JSON without surprises: what is read can be written back, and what is written reads the same."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping
from reprlib import repr as short
from typing import Any

import numpy as np

#: Levels of objects and arrays within each other.
MAX_DEPTH = 50


def loads(text: str) -> Any:
    """Return the value of a JSON text.

    Unlike `json.loads`, it refuses a name that occurs twice in an object, NaN and Infinity, numbers
    beyond the range of a float, and more than `MAX_DEPTH` levels.

    Raises
    ------
    ValueError
        The text is not JSON, or is refused.

    Examples
    --------
    >>> loads('{"scale": 0.5}')
    {'scale': 0.5}
    >>> loads('{"scale": 0.5, "scale": 1}')
    Traceback (most recent call last):
        ...
    ValueError: the name 'scale' occurs twice
    """
    try:
        value = _DECODER.decode(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [v for v in level if isinstance(v, dict | list)]
        if not level:
            return value
        level = [v for c in level for v in (c.values() if isinstance(c, dict) else c)]
    raise ValueError("it is nested too deeply")


def _unique(members: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(members)
    if len(result) < len(members):
        twice, _ = Counter(name for name, _ in members).most_common(1)[0]
        raise ValueError(f"the name {short(twice)} occurs twice")
    return result


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _finite(kind: Callable[[str], Any]) -> Callable[[str], Any]:
    def parse(digits: str) -> Any:
        if math.isinf(float(digits)):
            raise ValueError(f"the number {short(digits)} is too large")
        return kind(digits)

    return parse


_DECODER = json.JSONDecoder(
    object_pairs_hook=_unique,
    parse_constant=_refuse,
    parse_int=_finite(int),
    parse_float=_finite(float),
)


def to_plain(value: Any, where: str) -> Any:
    """Return a value as JSON brings it back.

    Tuples become lists, NumPy scalars become Python numbers.

    Parameters
    ----------
    value : object
    where : str
        What error messages call the value.

    Raises
    ------
    ValueError
        JSON has no form for a part of it; the message says which.

    Examples
    --------
    >>> to_plain({"ngrams": (1, np.int64(2))}, "header")
    {'ngrams': [1, 2]}
    """
    return _to_plain(value, where, 0)


def _to_plain(value: Any, where: str, depth: int) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int) and abs(value) < 2**64:
        return int(value)
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    if isinstance(value, str) and json.loads(json.dumps(value)) == value:
        return str(value)
    if depth < MAX_DEPTH:
        if isinstance(value, list | tuple):
            return [_to_plain(v, f"{where}[{k}]", depth + 1) for k, v in enumerate(value)]
        if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
            return {
                _to_plain(key, where, depth): _to_plain(v, f"{where}[{key!r}]", depth + 1)
                for key, v in value.items()
            }
    raise ValueError(
        f"{where} is {short(value)}, expected numbers, strings, booleans, None, or lists and dicts "
        "of them with string keys. Leave it out, or pass it as an array."
    )
