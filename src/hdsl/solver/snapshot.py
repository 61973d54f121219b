"""Snapshots: all that the rest of a run depends on, as named arrays.

Each part of a run (solver, problem, oracle) names its own arrays and checks them when they come
back, for a snapshot may come from a file that anybody wrote.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

Arrays = dict[str, np.ndarray]

#: What an array must be: dtype, and shape with -1 for any length.
Schema = Mapping[str, tuple[type | np.dtype, tuple[int, ...]]]


class SnapshotError(ValueError):
    """The arrays are not a snapshot of such a run."""


class Snapshots(NamedTuple):
    """How a run is interrupted and continued.

    Parameters
    ----------
    latest : dict of str to ndarray or None
        Where to continue; None starts at the beginning.
    save : callable
        Called before each iteration with a function that returns the snapshot.
    """

    latest: Arrays | None
    save: Callable[[Callable[[], Arrays]], None]


def check_arrays(
    arrays: Mapping[str, np.ndarray], schema: Schema, optional: Schema | None = None
) -> None:
    """Raise ValueError unless the arrays are those of a schema; `optional` ones may be missing."""
    known = {**schema, **(optional or {})}
    odd = sorted((schema.keys() - arrays.keys()) | (arrays.keys() - known.keys()))
    if odd:
        raise ValueError(f"{odd[0]!r} is missing or not known.")
    for name, array in arrays.items():
        dtype, shape = known[name]
        fits = array.ndim == len(shape) and all(
            n in (-1, length) for n, length in zip(shape, array.shape, strict=True)
        )
        if array.dtype != dtype or not fits:
            raise ValueError(
                f"{name!r} has dtype {array.dtype} and shape {array.shape}, expected "
                f"{np.dtype(dtype)} and {shape}."
            )


def check_finite(arrays: Mapping[str, np.ndarray], *names: str) -> None:
    """Raise ValueError for the first of these arrays that has a value that is not finite."""
    for name in names:
        if not np.isfinite(arrays[name]).all():
            raise ValueError(f"{name!r} has a value that is not finite.")


def nested(**parts: Mapping[str, np.ndarray]) -> Arrays:
    """Return the arrays of several parts as one dictionary, under ``part.name``."""
    return {f"{part}.{name}": a for part, arrays in parts.items() for name, a in arrays.items()}


def part_of(arrays: Mapping[str, np.ndarray], part: str) -> Arrays:
    """Return the arrays of one part.

    Examples
    --------
    >>> part_of(nested(a={"x": np.zeros(1)}, b={"y": np.ones(1)}), "b")
    {'y': array([1.])}
    """
    start = part + "."
    return {k.removeprefix(start): v for k, v in arrays.items() if k.startswith(start)}


def outside_parts(arrays: Mapping[str, np.ndarray], *parts: str) -> Arrays:
    """Return the arrays that belong to none of the parts."""
    starts = tuple(part + "." for part in parts)
    return {name: array for name, array in arrays.items() if not name.startswith(starts)}


def generator_state(rng: np.random.Generator) -> np.ndarray:
    """Return the state of a random generator, as bytes of JSON."""
    return np.frombuffer(json.dumps(rng.bit_generator.state).encode(), np.uint8)


def set_generator_state(rng: np.random.Generator, state: np.ndarray) -> None:
    """Set the state of a random generator; raise ValueError where it is not one."""
    try:
        rng.bit_generator.state = json.loads(state.tobytes())
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        raise ValueError("it holds no state of a random generator.") from None
