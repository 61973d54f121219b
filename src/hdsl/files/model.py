"""Model files: the state of a fitted model as the arrays and the header of a container."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from functools import partial
from reprlib import repr as short
from typing import Any

import numpy as np

from .. import strict_json
from ..solver.atoms import check_atoms
from ..solver.snapshot import nested
from ..solver.trace import NO_CORRECTIONS, check_corrections, check_trace
from .atomic import FilePath
from .container import FORMAT, Arrays, damaged, read, write
from .tables import (
    check_columns,
    get_array,
    get_strings,
    get_value,
    is_text,
    narrow,
    pack_columns,
    pack_strings,
    pack_table,
    unpack_columns,
    unpack_table,
)

FLOATS = ("scale", "prior", "objective", "gap")
COUNTS = ("n_iter", "n_triplets", "n_features_in")
NOT_FINITE = ("nan", "inf", "-inf")

#: The entry of a header that says that the file holds a classifier.
CLASSIFIER = "classifier"

#: Keys of "extra" that hold the class scores of a pipeline start with this.
CLASS_SCORES = "class_scores"


def write_model(path: FilePath, state: Mapping[str, Any]) -> None:
    """Write the state of a fitted model, as in `model_to_arrays`, to a file."""
    write(path, *model_to_arrays(state))


def read_model(path: FilePath) -> dict[str, Any]:
    """Return the state of the model in a file, as in `model_from_arrays`."""
    return model_from_arrays(*read(path), path=path)


def model_to_arrays(state: Mapping[str, Any]) -> tuple[Arrays, dict[str, Any]]:
    """Return a model as the arrays and the header of a container.

    Parameters
    ----------
    state : dict
        params : dict
            Of the constructor. A value that JSON has no form for, such as a function, is left out:
            None replaces it, and "params_left_out" holds its name.
        atoms : ndarray of shape (n_atoms, 3)
        weights : ndarray of shape (n_atoms,)
        scale, prior, objective, gap : float
        gap_is_exact : bool
        status : str
        n_iter, n_triplets, n_features_in : int
        norm : {"l2", None}
        columns : ndarray or None
            Columns that count in the length of a row, sorted; None is all.
        trace : structured ndarray of n_iter + 1 records or more
        corrections : structured ndarray, optional
            The weights that corrective steps changed.
        versions : dict of str to str
            Of the programs that made the model: "hdsl", "numpy", "python"; "format" is added.
        feature_names_in : sequence of str of length n_features_in, optional
        extra : dict, optional
            Values are arrays of numbers, vectors of text, or JSON.

    Returns
    -------
    arrays : dict of str to ndarray
    header : dict

    Raises
    ------
    ValueError
        The state is not one of a fitted model.
    """
    check_model(state)
    params, left_out = plain_params(state["params"])
    left_out = {**(state.get("params_left_out") or {}), **left_out}
    trace, trace_layout = pack_table(state["trace"], "trace")
    arrays = {
        "atoms": narrow(np.asarray(state["atoms"])),
        "weights": np.asarray(state["weights"], dtype=np.float64),
        **trace,
    }
    header: dict[str, Any] = {
        "params": params,
        "params_left_out": left_out,
        "versions": {**state["versions"], "format": FORMAT},
        "status": state["status"],
        "gap_is_exact": bool(state["gap_is_exact"]),
        "trace": trace_layout,
        "feature_names": state.get("feature_names_in") is not None,
        "norm": state.get("norm"),
        "extra": {},
        "extra_arrays": [],
        "extra_strings": [],
    }
    header |= {name: int(state[name]) for name in COUNTS}
    for name in FLOATS:
        value = float(state[name])
        header[name] = value if math.isfinite(value) else repr(value)
    corrections = state.get("corrections", NO_CORRECTIONS)
    if len(corrections):  # only paths of corrective steps have them
        table, header["corrections"] = pack_table(corrections, "corrections")
        arrays |= table
    if state.get("columns") is not None:
        arrays["columns"] = pack_columns(state["columns"], header["n_features_in"])
    if header["feature_names"]:
        arrays |= nested(feature_names=pack_strings(list(state["feature_names_in"])))
    for key, value in sorted((state.get("extra") or {}).items()):
        if not isinstance(value, np.ndarray):
            header["extra"][key] = strict_json.to_plain(value, f"extra[{key!r}]")
        elif is_text(value):
            header["extra_strings"].append(key)
            arrays |= nested(**{f"extra_strings.{key}": pack_strings(value.tolist())})
        else:
            header["extra_arrays"].append(key)
            arrays[f"extra_arrays.{key}"] = value
    return arrays, header


def plain_params(params: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return parameters as JSON has them, and the kinds of those that it has no form for."""
    plain, left_out = {}, {}
    for name, value in params.items():
        try:
            plain[name] = strict_json.to_plain(value, name)
        except ValueError:
            plain[name] = None
            left_out[name] = getattr(value, "__qualname__", type(value).__qualname__)
    return plain, left_out


def model_from_arrays(
    arrays: Mapping[str, np.ndarray], header: Mapping[str, Any], *, path: FilePath = "the model"
) -> dict[str, Any]:
    """Return the state that `model_to_arrays` was given, checked.

    Parameters
    ----------
    arrays, header : dict
        From `read`.
    path : str or path-like
        What error messages call the model.

    Returns
    -------
    dict
        As in `model_to_arrays`, with "params_left_out"; "feature_names_in" is an array of objects
        or None, "extra" a dict where text is an array of objects.

    Raises
    ------
    ValueError
        The arrays and the header are not a model; the first fault is named.
    """
    if "checkpoint" in header:
        raise ValueError(
            f"Cannot load {os.fsdecode(path)!r}: it is the checkpoint of a run that did not end. "
            "To resume the run, fit with the same data and parameters and this checkpoint."
        )
    if CLASSIFIER in header:
        raise ValueError(
            f"Cannot load {os.fsdecode(path)!r} as a similarity: it holds a SimilarityClassifier, "
            "which hdsl.load reads."
        )
    try:
        state = _state(arrays, header)
        check_model(state)
    except ValueError as error:
        what = str(error).removesuffix(".")
        raise ValueError(f"Cannot load {os.fsdecode(path)!r}: {damaged(what)}") from None
    return state


def _state(arrays: Mapping[str, np.ndarray], header: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state with parts of the right types; `check_model` checks their values."""
    get = partial(get_value, header)
    state: dict[str, Any] = {
        name: get(name, dict) for name in ("params", "params_left_out", "versions")
    }
    for name in FLOATS:
        not_finite = header.get(name) in NOT_FINITE
        state[name] = float(header[name]) if not_finite else get(name, float)
    for name in COUNTS:
        state[name] = get(name, int)
    state["gap_is_exact"], state["status"] = get("gap_is_exact", bool), get("status", str)
    atoms = get_array(arrays, "atoms")
    state["atoms"] = atoms.astype(np.int64) if atoms.dtype.kind == "i" else atoms
    state["weights"] = get_array(arrays, "weights")
    state["trace"] = unpack_table(arrays, "trace", get("trace", dict))
    if "corrections" in header:
        state["corrections"] = unpack_table(arrays, "corrections", get("corrections", dict))
    if "norm" not in header and state["versions"].get("format", 1) != 1:
        raise ValueError("norm is missing")  # only files of format 1 have none
    state["norm"] = header.get("norm")
    state["columns"] = None
    if "columns" in arrays:
        state["columns"] = unpack_columns(arrays["columns"], state["n_features_in"])
    state["feature_names_in"] = None
    if get("feature_names", bool):
        state["feature_names_in"] = get_strings(arrays, "feature_names")
    state["extra"] = dict(get("extra", dict))
    for key in get("extra_arrays", list):
        state["extra"][str(key)] = get_array(arrays, f"extra_arrays.{key}")
    for key in get("extra_strings", list):
        state["extra"][str(key)] = get_strings(arrays, f"extra_strings.{key}")
    return state


def check_model(state: Mapping[str, Any]) -> None:
    """Raise ValueError for the first value that no fitted model has."""
    for name, least in (("n_iter", 0), ("n_triplets", 1), ("n_features_in", 2)):
        if not least <= state[name] < 2**63:
            raise ValueError(f"{name} is {short(state[name])}, expected an int >= {least}.")
    check_similarity(state)
    check_trace(state["trace"], state["n_iter"], state["n_features_in"])
    corrections = state.get("corrections", NO_CORRECTIONS)
    check_corrections(corrections, len(state["trace"]), state["n_features_in"])
    names = state.get("feature_names_in")
    if names is not None and len(names) != state["n_features_in"]:
        raise ValueError(
            f"feature_names_in has {len(names)} names, but n_features_in is "
            f"{state['n_features_in']}."
        )


def check_similarity(state: Mapping[str, Any]) -> None:
    """Raise ValueError for the first impossible value of scale, prior, atoms, norm and columns."""
    if not 0.0 < state["scale"] < math.inf:
        raise ValueError(f"scale is {state['scale']}, expected a finite number > 0.")
    if not 0.0 <= state["prior"] < math.inf:
        raise ValueError(f"prior is {state['prior']}, expected a finite number >= 0.")
    check_atoms(state["atoms"], state["weights"], state["n_features_in"])
    if state.get("norm") not in (None, "l2"):
        raise ValueError(f"norm is {short(state['norm'])}, expected 'l2' or null.")
    if state.get("columns") is not None:
        check_columns(state["columns"], state["n_features_in"])
