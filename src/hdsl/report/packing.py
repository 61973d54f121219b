"""Numbers and texts as the script of a page reads them: compact, and as exact."""

import base64
from typing import Any

import numpy as np


def pack(array: np.ndarray) -> dict[str, str]:
    """Return the bytes of an array as base64, and their type: the smallest that is exact.

    Examples
    --------
    >>> pack(np.array([1, 2, 255]))
    {'type': 'u1', 'bytes': 'AQL/'}
    """
    if array.dtype.kind == "f":
        array = _smallest_floats(array)
    else:
        array = _smallest_integers(array)
    code = f"{array.dtype.kind}{array.dtype.itemsize}"
    return {"type": code, "bytes": base64.b64encode(array.tobytes()).decode()}


def _smallest_floats(array: np.ndarray) -> np.ndarray:
    """Return floats in float32 where these are equal, else in float64."""
    small = array.astype("<f4")
    if np.array_equal(small, array, equal_nan=True):
        return small
    return array.astype("<f8")


def _smallest_integers(array: np.ndarray) -> np.ndarray:
    """Return integers in the smallest type that holds them all."""
    if not array.size:
        return array.astype(np.uint8)
    smallest = np.min_scalar_type(int(array.min()))
    largest = np.min_scalar_type(int(array.max()))
    dtype = np.result_type(smallest, largest)
    if dtype.itemsize == 8:
        # Scripts have no 64-bit integers; a float is exact up to 2**53.
        return array.astype("<f8")
    return array.astype(dtype.newbyteorder("<"))


def pack_all(columns: dict[str, np.ndarray]) -> dict[str, Any]:
    """Return each array packed."""
    return {name: pack(column) for name, column in columns.items()}


def cut(value: Any, length: int) -> str:
    """Return a value as text of at most so many characters.

    Examples
    --------
    >>> cut("neighbours", 6)
    'neigh…'
    """
    text = str(value)
    if len(text) <= length:
        return text
    return text[: length - 1] + "…"
