"""The trace of a run: one record per model of the path, with the step that led to it."""

from __future__ import annotations

import numpy as np

from .active_set import ActiveSet
from .atoms import ZERO, Atom, are_atoms, not_an_atom

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
        ("validation_score", "f8"),  # for whoever scores the models; the loop does not
    ]
)

#: The step that led to a model, as opposed to what is known of the model.
STEP_FIELDS = ["kind", "step_size", "i", "j", "sign", "away_i", "away_j", "away_sign", "drop"]

#: Columns without which a path cannot be replayed; a file may lack the others.
REPLAYED = {"objective", "gap", "gap_is_exact", *STEP_FIELDS} - {"kind"}

#: Stands for no atom in a record.
NO_ATOM = Atom(-1, -1, 0)


def atom_of(record: np.void, prefix: str = "") -> Atom | None:
    """Return the atom of a record that the step goes to, or away from with prefix "away_"."""
    atom = Atom(*(int(record[prefix + part]) for part in ("i", "j", "sign")))
    return None if atom == NO_ATOM else atom


def replay(trace: np.ndarray, n_iter: int) -> ActiveSet:
    """Return the model after `n_iter` iterations, from the steps alone."""
    start = atom_of(trace[0])
    assert start is not None
    active = ActiveSet.of(start)
    for step in trace[1 : n_iter + 1]:
        if step["step_size"] > 0.0:
            toward, away = atom_of(step), atom_of(step, "away_")
            active = active.moved(toward, away, float(step["step_size"]), bool(step["drop"]))
    return active


def check_trace(trace: np.ndarray, n_iter: int, n_features: int) -> None:
    """Raise ValueError for a trace that cannot be replayed to iteration `n_iter`."""
    dtype = trace.dtype
    codes = {name: dtype[name].newbyteorder("<").str for name in dtype.names or ()}
    for name in sorted(REPLAYED | (codes.keys() & {"validation_score"})):
        code = TRACE_DTYPE[name].newbyteorder("<").str
        if codes.get(name) != code:
            found = codes.get(name, "missing")
            raise ValueError(f"column {name!r} of trace is {found}, expected {code}.")
    if trace.ndim != 1 or len(trace) <= n_iter:
        raise ValueError(
            f"trace has shape {trace.shape}, expected n_iter + 1 = {n_iter + 1} rows or more."
        )
    for prefix in ("", "away_"):
        atoms = [trace[prefix + part] for part in ("i", "j", "sign")]
        others = (atoms[0] == -1) & (atoms[1] == -1) & np.isin(atoms[2], (NO_ATOM.sign, ZERO.sign))
        if not prefix:
            others[0] &= atoms[2][0] != NO_ATOM.sign  # a step may have no atom to go to
        bad = np.flatnonzero(~(others | are_atoms(atoms, n_features)))
        if len(bad):
            k = int(bad[0])
            where = f"the {prefix}atom of trace[{k}]".replace("_", " ")
            raise ValueError(not_an_atom(where, [part[k] for part in atoms], n_features))
