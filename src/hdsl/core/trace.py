"""The trace of a run: one record per model of the path, and the step that led to it."""

from __future__ import annotations

import numpy as np

from .atoms import are_atoms, not_an_atom

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

#: What led to a model, as against what is known of it.
STEP_FIELDS = ["kind", "step_size", "i", "j", "sign", "away_i", "away_j", "away_sign", "drop"]

#: Columns that a trace must have, as the steps cannot be replayed without them. It may have others.
TRACE_COLUMNS = {
    "objective": "<f8",
    "gap": "<f8",
    "gap_is_exact": "|b1",
    "step_size": "<f8",
    "i": "<i8",
    "j": "<i8",
    "sign": "|i1",
    "away_i": "<i8",
    "away_j": "<i8",
    "away_sign": "|i1",
    "drop": "|b1",
}


def check_trace(trace: np.ndarray, n_iter: int, n_features: int) -> None:
    """Raise ValueError for a trace that is too short for a model, or has what no step has."""
    dtype = trace.dtype
    codes = {name: dtype[name].newbyteorder("<").str for name in dtype.names or ()}
    for name, code in TRACE_COLUMNS.items():
        if codes.get(name) != code:
            raise ValueError(f"trace has {codes.get(name)} as column {name!r}, expected {code}.")
    if codes.get("validation_score", "<f8") != "<f8":
        raise ValueError(
            f"trace has {codes['validation_score']} as column 'validation_score', expected <f8."
        )
    if trace.ndim != 1 or len(trace) <= n_iter:
        raise ValueError(
            f"trace has shape {trace.shape}, expected n_iter + 1 = {n_iter + 1} rows or more."
        )
    for prefix in ("", "away_"):
        atoms = [trace[prefix + part] for part in ("i", "j", "sign")]
        none = (atoms[0] == -1) & (atoms[1] == -1) & (atoms[2] == 0)
        if not prefix:
            none[0] = False  # a step may have no atom to go to, the start has one
        bad = np.flatnonzero(~(none | are_atoms(atoms, n_features)))
        if len(bad):
            k = int(bad[0])
            where = f"the {prefix}atom of trace[{k}]".replace("_", " ")
            raise ValueError(not_an_atom(where, [part[k] for part in atoms], n_features))
