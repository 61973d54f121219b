"""Rests of a run: what it is saved as, and continued from.

What follows a rest depends on atoms, weights, counters and the random state alone, so
these, and the trace so far, are all that it holds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from typing import NamedTuple

import numpy as np

from .active_set import ActiveSet
from .trace import CORRECTION_DTYPE, NO_CORRECTIONS, TRACE_DTYPE

Arrays = dict[str, np.ndarray]

#: Of a run without an embedding to learn in.
NO_DIRECTIONS = np.empty((0, 0), dtype=np.float32)


class RestError(ValueError):
    """The arrays are not a rest of such a run."""


class Rests(NamedTuple):
    """How a run is saved and continued.

    Parameters
    ----------
    latest : dict of str to ndarray or None
        The rest to continue from; None starts at the beginning.
    save : callable
        Called at each rest with a function that returns its arrays. The function may
        be called later, or never, and always returns those of its rest.
    """

    latest: Arrays | None
    save: Callable[[Callable[[], Arrays]], None]


@dataclass
class Counters:
    """What a run counts, beside its iterations."""

    idle: int = 0  # steps of size 0 since the last other one
    seen: int = -1  # the last model that the callback has seen
    n_checks: int = 0  # exact checks of a gap
    next_check: int = 0  # the iteration before which there is none
    wait: int = 1  # iterations from a check that fails to the next


@dataclass(frozen=True)
class Rest:
    """A run at a rest.

    Parameters
    ----------
    n_iter : int
    active : ActiveSet
        The model, in the user's feature numbers.
    records : sequence of tuple
        The trace so far; lines that are added later are not part of the rest.
    n_records : int
    line : tuple
        The record of the model itself.
    corrections : tuple of ndarray
    counters : Counters
    seconds : float
        Since the beginning of the run.
    random_state : ndarray of uint8
    directions : ndarray of float32 or None
        Unit vectors of an embedding that atoms name.
    """

    n_iter: int
    active: ActiveSet
    records: Sequence[tuple]
    n_records: int
    line: tuple
    corrections: tuple[np.ndarray, ...]
    counters: Counters
    seconds: float
    random_state: np.ndarray
    directions: np.ndarray | None = None

    def as_arrays(self) -> Arrays:
        """Return the rest as arrays, all lines of the trace among them."""
        zero = np.nan
        if self.active.zero is not None:
            zero = self.active.zero
        lines = [*self.records[: self.n_records], self.line]
        directions = NO_DIRECTIONS
        if self.directions is not None:
            directions = self.directions
        return {
            "atoms": self.active.atoms,
            "weights": self.active.weights,
            "zero": np.array([zero]),
            "trace": np.array(lines, dtype=TRACE_DTYPE),
            "corrections": np.concatenate([NO_CORRECTIONS, *self.corrections]),
            "counts": np.array([self.n_iter, *astuple(self.counters)]),
            "seconds": np.array([self.seconds]),
            "random": self.random_state,
            "directions": directions,
        }

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Rest:
        """Return the rest of arrays that may come from a file that anybody wrote.

        Raises
        ------
        ValueError
            The arrays have other names, dtypes or shapes, or numbers that no run has.
            What depends on the problem is not checked.
        """
        check_kinds(arrays)
        active = ActiveSet(arrays["atoms"], arrays["weights"])
        zero = float(arrays["zero"][0])
        if zero < 0.0:
            raise ValueError(f"'zero' is {zero}, expected a number >= 0.")
        if not np.isnan(zero):
            active = replace(active, zero=zero)
        total = float(active.weights.sum()) + (active.zero or 0.0)
        if not abs(total - 1.0) <= 1e-9:
            raise ValueError(f"the weights sum to {total!r}, expected 1.")
        n_iter, *counts = arrays["counts"].tolist()
        counters = Counters(*counts)
        least = (
            counters.idle,
            counters.n_checks,
            counters.next_check,
            counters.wait - 1,
        )
        if counters.seen < -1 or min(least) < 0:
            raise ValueError("'counts' has a number that is too small.")
        if not len(arrays["trace"]):
            raise ValueError("the trace is empty.")
        *records, line = arrays["trace"].tolist()
        return cls(
            n_iter=n_iter,
            active=active,
            records=records,
            n_records=len(records),
            line=line,
            corrections=(arrays["corrections"],),
            counters=counters,
            seconds=float(arrays["seconds"][0]),
            random_state=arrays["random"],
            directions=arrays["directions"],
        )


#: Dtype and shape of each array of a rest; a length of -1 is any.
KINDS: dict[str, tuple] = {
    "atoms": (np.int64, (-1, 3)),
    "weights": (np.float64, (-1,)),
    "zero": (np.float64, (1,)),
    "trace": (TRACE_DTYPE, (-1,)),
    "corrections": (CORRECTION_DTYPE, (-1,)),
    "counts": (np.int64, (6,)),
    "seconds": (np.float64, (1,)),
    "random": (np.uint8, (-1,)),
    "directions": (np.float32, (-1, -1)),
}


def check_kinds(arrays: Mapping[str, np.ndarray]) -> None:
    """Raise ValueError unless the arrays have the names, dtypes and shapes of a rest."""
    odd = sorted(KINDS.keys() ^ arrays.keys())
    if odd:
        raise ValueError(f"{odd[0]!r} is missing or not known.")
    for name, array in arrays.items():
        dtype, shape = KINDS[name]
        fits = array.ndim == len(shape) and all(
            n in (-1, length) for n, length in zip(shape, array.shape, strict=True)
        )
        if array.dtype != dtype or not fits:
            raise ValueError(
                f"{name!r} has dtype {array.dtype} and shape {array.shape}, expected "
                f"{np.dtype(dtype)} and {shape}."
            )
    if not np.isfinite(arrays["seconds"]).all():
        raise ValueError("'seconds' is not a number.")


# --- random generators ----------------------------------------------------------------


def generator_state(rng: np.random.Generator) -> np.ndarray:
    """Return the state of a random generator, as bytes of JSON."""
    return np.frombuffer(json.dumps(rng.bit_generator.state).encode(), np.uint8)


def set_generator_state(rng: np.random.Generator, state: np.ndarray) -> None:
    """Set the state of a random generator; raise ValueError where it is not one."""
    try:
        rng.bit_generator.state = json.loads(state.tobytes())
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        raise ValueError("it holds no state of a random generator.") from None
