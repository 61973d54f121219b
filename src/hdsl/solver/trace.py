"""The trace of a run: one record per model of the path, with the step that led to it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .active_set import ActiveSet
from .atoms import ZERO, Atom, are_vertices, as_array, as_keys, not_an_atom

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
