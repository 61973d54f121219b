"""The trace of a run: one record per model of the path, with the step that led to it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from typing import NamedTuple

import numpy as np

from .atoms import ZERO, ActiveSet, Atom, are_vertices, as_array, as_keys, not_an_atom

TRACE_DTYPE = np.dtype(
    [
        ("objective", "f8"),
        ("gap", "f8"),
        ("gap_is_exact", "?"),
        ("kind", "U8"),
        ("step_size", "f8"),
        ("i", "i8"),
        ("j", "i8"),
        ("sign", "i1"),
        ("away_i", "i8"),
        ("away_j", "i8"),
        ("away_sign", "i1"),
        ("drop", "?"),
        ("n_atoms", "i8"),
        ("n_features", "i8"),
        ("seconds", "f8"),
    ]
)

#: The new weight of each atom that a correction changes, of the zero atom too. A record
#: of the trace has no room for them.
CORRECTION_DTYPE = np.dtype(
    [("n_iter", "i8"), ("i", "i8"), ("j", "i8"), ("sign", "i1"), ("weight", "f8")]
)

NO_CORRECTIONS = np.empty(0, CORRECTION_DTYPE)
NO_CORRECTIONS.flags.writeable = False


class StepRecord(NamedTuple):
    """The step that led to a model, as opposed to what is known of the model."""

    kind: str
    step_size: float
    i: int
    j: int
    sign: int
    away_i: int
    away_j: int
    away_sign: int
    drop: bool

    @classmethod
    def of(
        cls, kind: str, step_size: float, toward: Atom, away: Atom, drop: bool
    ) -> StepRecord:
        """Return the record of a step; `NO_ATOM` stands for no atom."""
        return cls(kind, step_size, *toward, *away, drop)


STEP_FIELDS = [*StepRecord._fields]

#: Columns without which a path cannot be replayed; a file may lack the others.
REPLAYED = {"objective", "gap", "gap_is_exact", *STEP_FIELDS} - {"kind"}

#: Stands for no atom in a record.
NO_ATOM = Atom(-1, -1, 0)


def atom_of(record: np.void, prefix: str = "") -> Atom | None:
    """Return the atom of a record that the step goes to, or away from with prefix "away_"."""
    atom = Atom(*[int(record[prefix + name]) for name in Atom._fields])
    if atom == NO_ATOM:
        return None
    return atom


def replay(
    trace: np.ndarray, n_iter: int, corrections: np.ndarray = NO_CORRECTIONS
) -> ActiveSet:
    """Return the model after `n_iter` iterations, from the steps and corrections alone."""
    start = atom_of(trace[0])
    assert start is not None
    active = ActiveSet.of(start)
    ends = np.searchsorted(corrections["n_iter"], np.arange(n_iter + 2))
    for k, step in enumerate(trace[1 : n_iter + 1], start=1):
        size = float(step["step_size"])
        changed = corrections[ends[k] : ends[k + 1]]
        if len(changed):
            active = _corrected(active, changed)
        elif size > 0.0:
            active = active.moved(
                atom_of(step), atom_of(step, "away_"), size, bool(step["drop"])
            )
    return active


def correction_records(n_iter: int, before: ActiveSet, after: ActiveSet) -> np.ndarray:
    """Return the weights of an iteration that a correction changed, as records."""
    old = dict(zip(as_keys(before.atoms), before.weights.tolist(), strict=True))
    new = dict(zip(as_keys(after.atoms), after.weights.tolist(), strict=True))
    changed = [
        (n_iter, *atom, new.get(atom, 0.0))
        for atom in old
        if old[atom] != new.get(atom)
    ]
    changed += [
        (n_iter, *atom, weight) for atom, weight in new.items() if atom not in old
    ]
    if after.zero is not None:
        changed.append((n_iter, *ZERO, after.zero))
    elif not changed:
        # A step too short to change a weight is a correction all the same.
        changed.append((n_iter, *after[0], float(after.weights[0])))
    return np.array(changed, dtype=CORRECTION_DTYPE)


def _corrected(active: ActiveSet, changed: np.ndarray) -> ActiveSet:
    """Return the set with the weights of the records of an iteration."""
    weights = dict(zip(as_keys(active.atoms), active.weights.tolist(), strict=True))
    zero = active.zero
    for _, *atom, weight in changed.tolist():
        if tuple(atom) != ZERO:
            weights[tuple(atom)] = weight
        elif zero is not None:
            zero = weight
    kept = {atom: weight for atom, weight in weights.items() if weight > 0.0}
    total = sum(kept.values()) + (zero or 0.0)
    if not abs(total - 1.0) <= 1e-6:  # only a trace from a file does this
        raise ValueError(
            f"The corrections lead to weights that sum to {total!r}, expected 1."
        )
    return ActiveSet(
        as_array([Atom(*atom) for atom in kept]), np.array(list(kept.values())), zero
    )


def check_corrections(
    corrections: np.ndarray, n_records: int, n_features: int, n_directions: int = 0
) -> None:
    """Raise ValueError for what are no corrections of a trace of so many records."""
    if corrections.ndim != 1 or corrections.dtype != CORRECTION_DTYPE:
        raise ValueError(
            f"corrections has dtype {corrections.dtype}, expected {CORRECTION_DTYPE}."
        )
    n_iter = corrections["n_iter"]
    is_inside = ((n_iter >= 1) & (n_iter < n_records)).all()
    if not is_inside or not (np.diff(n_iter) >= 0).all():
        raise ValueError(
            f"corrections must be of rising iterations from 1 to {n_records - 1}."
        )
    columns = atom_columns(corrections)
    bad = np.flatnonzero(~are_vertices(columns, n_features, n_directions))
    if len(bad):
        k = int(bad[0])
        atom = [column[k] for column in columns]
        raise ValueError(not_an_atom(f"corrections[{k}]", atom, n_features))
    weight = corrections["weight"]
    if not ((weight >= 0.0) & (weight <= 1.0 + 1e-9)).all():
        raise ValueError("corrections has a weight that is not between 0 and 1.")


def check_trace(
    trace: np.ndarray, n_iter: int, n_features: int, n_directions: int = 0
) -> None:
    """Raise ValueError for a trace that cannot be replayed to iteration `n_iter`."""
    dtype = trace.dtype
    codes = {name: dtype[name].newbyteorder("<").str for name in dtype.names or ()}
    for name in sorted(REPLAYED):
        code = TRACE_DTYPE[name].newbyteorder("<").str
        if codes.get(name) != code:
            actual = codes.get(name, "missing")
            raise ValueError(f"column {name!r} of trace is {actual}, expected {code}.")
    if trace.ndim != 1 or len(trace) <= n_iter:
        raise ValueError(
            f"trace has shape {trace.shape}, expected n_iter + 1 = {n_iter + 1} rows "
            "or more."
        )
    for prefix in ("", "away_"):
        columns = atom_columns(trace, prefix)
        i, j, sign = columns
        is_none = (i == NO_ATOM.i) & (j == NO_ATOM.j) & (sign == NO_ATOM.sign)
        if not prefix:
            is_none[0] = False  # a step may have no atom to go to, the start has one
        is_vertex = are_vertices(columns, n_features, n_directions)
        bad = np.flatnonzero(~(is_none | is_vertex))
        if len(bad):
            k = int(bad[0])
            where = f"the {prefix}atom of trace[{k}]".replace("_", " ")
            atom = [column[k] for column in columns]
            raise ValueError(not_an_atom(where, atom, n_features))


def atom_columns(table: np.ndarray, prefix: str = "") -> list[np.ndarray]:
    """Return the columns i, j and sign of a table of records."""
    return [table[prefix + name] for name in Atom._fields]


Arrays = dict[str, np.ndarray]

#: Of a run without an embedding to learn in.
NO_DIRECTIONS = np.empty((0, 0), dtype=np.float32)


class RestartError(ValueError):
    """The arrays are not a restart point of such a run."""


class Restarts(NamedTuple):
    """How a run is saved and continued.

    Parameters
    ----------
    latest : dict of str to ndarray or None
        The restart point to continue from; None starts at the beginning.
    save : callable
        Called at each restart point with a function that returns its arrays. The
        function may be called later, or never, and always returns those arrays.
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
class RestartPoint:
    """A run at a restart point.

    Parameters
    ----------
    n_iter : int
    active : ActiveSet
        The model, in the user's feature numbers.
    records : sequence of tuple
        The trace so far; lines that are added later are not part of it.
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
        """Return it as arrays, all lines of the trace among them."""
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
    def from_arrays(cls, arrays: Arrays) -> RestartPoint:
        """Return the restart point of arrays that may come from a file that anybody wrote.

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


#: Dtype and shape of each array of a restart point; a length of -1 is any.
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
    """Raise ValueError unless the arrays have the names, dtypes and shapes of a restart point."""
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
        raise ValueError("it has no state of a random generator.") from None
