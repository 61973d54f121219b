"""A fitted model as one HTML page: what was learned, its path, its pairs, why two items match.

The page holds the steps of the path, not its models: its script replays them, by the rule of
`solver.replay`. It asks for nothing from outside. Names and texts are the user's and may be
anything, so they travel as JSON that cannot end its element, and are shown as text only.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
import re
from collections.abc import Sequence
from importlib.metadata import version
from importlib.resources import files
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted, column_or_1d

from .. import user_input
from ..files.atomic import atomic_write
from ..neighbors import SimilarityKNeighborsClassifier

#: Values of items on a page: with their places at most 0.8 MB. Longer rows leave room for fewer.
MAX_VALUES = 50_000

#: Characters of a text, of a feature's name, of a parameter.
MAX_TEXT, MAX_NAME, MAX_PARAMETER = 1500, 100, 80

N_NEIGHBORS = 3


# --- files ---------------------------------------------------------------------------------------


def write(path: str | os.PathLike[str], text: str) -> None:
    """Write a page to a file, whole or not at all: after an error what was there still is.

    Parameters
    ----------
    path : str or path-like
    text : str
        As `page` returns it.
    """
    with atomic_write(path, "the report") as file:
        file.write(text.encode("utf-8", "replace"))  # half a surrogate pair becomes "?"


# --- the page ------------------------------------------------------------------------------------


def page(
    model: Any,
    X: Any = None,
    y: Any = None,
    *,
    X_test: Any = None,
    y_test: Any = None,
    texts: Any = None,
    feature_names: Any = None,
    title: str | None = None,
    max_items: int = 200,
) -> str:
    """Return the page of a fitted model as HTML; the parameters are those of ``HDSL.report``.

    Examples
    --------
    >>> from hdsl import HDSL
    >>> model = HDSL(scale=1.0, prior=0.0).fit([[1, 0], [0, 1]], triplets=[[0, 0, 1]])
    >>> page(model, title="Cats & dogs").partition("<title>")[2][:15]
    'Cats &amp; dogs'
    """
    check_is_fitted(model, "atoms_")
    user_input.check_number("report", "max_items", max_items, low=0, integer=True)
    X, y, texts = _check_rows(model, X, y, texts)
    errors = _errors(model, X, y, X_test, y_test)
    atoms, steps = _steps(model.trace_)
    own = np.unique(atoms[:, :2])
    items, used = None, own
    if X is not None and max_items > 0:
        rows = _choose(X, max_items)
        used = np.concatenate([own, np.setdiff1d(X[rows].indices, own)])
        items = _items(X, rows, used, y, texts)
    ends = np.searchsorted(own, atoms[:, :2])
    trace = model.trace_
    content = {
        "title": str(title) if title is not None else "A learned similarity",
        "version": version("hdsl"),
        "model": {
            "scale": float(model.scale_),
            "prior": float(model.prior_),
            "n_iter": int(model.n_iter_),
            "n_triplets": int(model.n_triplets_),
            "n_features": int(model.n_features_in_),
            "status": str(model.status_),
            "gap_is_exact": bool(model.gap_is_exact_),
        },
        "parameters": _parameters(model),
        "names": _names(model, feature_names, used),
        "columns": _pack(used),
        "atoms": {"i": _pack(ends[:, 0]), "j": _pack(ends[:, 1]), "sign": _pack(atoms[:, 2])},
        "steps": {name: _pack(column) for name, column in steps.items()},
        "trace": {
            name: _pack(trace[name])
            for name in ("objective", "gap", "n_atoms", "n_features", "validation_score")
        },
        "counts": None if X is None else _counts(X, own, ends),
        "errors": errors,
        "items": items,
    }
    return _fill(content)


def _fill(content: dict[str, Any]) -> str:
    """Return the template with its parts; styles and script are allowed by their hashes alone."""
    folder = files(__package__)
    source = {name: (folder / f"page.{name}").read_text("utf-8") for name in ("html", "css", "js")}
    style, script = (
        base64.b64encode(hashlib.sha256(source[name].encode()).digest()).decode()
        for name in ("css", "js")
    )
    parts = {
        "policy": f"default-src 'none'; style-src 'sha256-{style}'; script-src 'sha256-{script}'; "
        "img-src data:; base-uri 'none'; form-action 'none'",
        "title": html.escape(content["title"]),
        "css": source["css"],
        "data": _json(content),
        "js": source["js"],
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], source["html"])


def _json(content: Any) -> str:
    """Return JSON that is safe inside a script element, whatever the strings are."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _pack(array: np.ndarray) -> dict[str, str]:
    """Return an array's bytes as base64 and their type: the smallest that loses nothing."""
    if array.dtype.kind == "f":
        small = array.astype("<f4")
        array = small if np.array_equal(small, array, equal_nan=True) else array.astype("<f8")
    else:
        low, high = (int(array.min()), int(array.max())) if array.size else (0, 0)
        kind = np.result_type(np.min_scalar_type(low), np.min_scalar_type(high))
        array = array.astype(kind.newbyteorder("<"))
    code = f"{array.dtype.kind}{array.dtype.itemsize}"
    return {"type": code, "bytes": base64.b64encode(array.tobytes()).decode()}


# --- what goes on it -----------------------------------------------------------------------------


def _check_rows(model: Any, X: Any, y: Any, texts: Any) -> tuple[Any, Any, Any]:
    """Return X as a CSR array, labels as an array and texts as a list, None where not given."""
    for name, value in (("y", y), ("texts", texts)):
        if X is None and value is not None:
            raise ValueError(f"{name} goes with the rows of X, but X is None: pass X too.")
    if X is None:
        return None, None, None
    X = sp.csr_array(user_input.check_matrix(model, X, reset=False))
    if y is not None:
        y = column_or_1d(y, warn=True)
    if isinstance(texts, str):
        raise ValueError("texts must be a sequence of strings, one a row of X. Got one string.")
    texts = None if texts is None else list(texts)
    for name, value in (("y", y), ("texts", texts)):
        if value is not None and len(value) != X.shape[0]:
            raise ValueError(
                f"{name} has {len(value)} entries, but X has {X.shape[0]} rows: one a row is "
                "expected."
            )
    return X, y, texts


def _errors(model: Any, X: Any, y: Any, X_test: Any, y_test: Any) -> dict[str, Any] | None:
    """Return the error of 3 nearest neighbours by dot product and as learned, on test rows only."""
    if X_test is None and y_test is None:
        return None
    if X is None or y is None or X_test is None or y_test is None:
        names = {"X": X, "y": y, "X_test": X_test, "y_test": y_test}
        missing = ", ".join(name for name, value in names.items() if value is None)
        raise ValueError(
            "The error is that of test rows whose neighbours are rows of X: X, y, X_test and "
            f"y_test go together. Missing: {missing}."
        )
    X_test = user_input.check_matrix(model, X_test, reset=False, name="X_test")
    y_test = column_or_1d(y_test, warn=True)
    if len(y_test) != X_test.shape[0]:
        raise ValueError(
            f"y_test has {len(y_test)} labels, but X_test has {X_test.shape[0]} rows: one label a "
            "row is expected."
        )
    k = min(N_NEIGHBORS, X.shape[0])
    before, after = (
        1.0
        - float(
            SimilarityKNeighborsClassifier(k, similarity=similarity, n_jobs=model.n_jobs)
            .fit(X, y)
            .score(sp.csr_array(X_test), y_test)
        )
        for similarity in (None, model.similarity_)
    )
    return {
        "n_neighbors": k,
        "n_rows": X.shape[0],
        "n_test": X_test.shape[0],
        "before": before,
        "after": after,
    }


def _steps(trace: np.ndarray) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Return the distinct atoms of a path, shape (n, 3), and its steps by their numbers.

    A step of length 0 names atoms that it does not touch; they are left out.
    """
    size = trace["step_size"].copy()
    size[0] = 1.0
    n, there = len(trace), size > 0
    both = np.column_stack(
        [np.concatenate([trace[a], trace["away_" + a]]) for a in ("i", "j", "sign")]
    ).astype(np.int64)
    both[~np.tile(there, 2)] = -1
    moved = both[:, 0] >= 0
    atoms, number = np.unique(both[moved], axis=0, return_inverse=True)
    numbers = np.full(2 * n, -1)
    numbers[moved] = number.ravel()
    steps = {"toward": numbers[:n], "away": numbers[n:], "size": size, "drop": trace["drop"] + 0}
    return atoms, steps


def _choose(X: sp.csr_array, max_items: int) -> np.ndarray:
    """Return rows spread evenly over X, so that sorted rows give all their classes."""
    n = X.shape[0]
    room = max(2, int(MAX_VALUES * n / max(X.nnz, 1)))
    return np.unique(np.linspace(0, n - 1, min(n, max_items, room)).round().astype(np.int64))


def _items(
    X: sp.csr_array, rows: np.ndarray, used: np.ndarray, y: Any, texts: Any
) -> dict[str, Any]:
    """Return rows to compare: all their values, as the dot product needs them, by place in `used`.

    Parameters
    ----------
    X : csr_array of shape (n_rows, n_features)
    rows : ndarray of shape (n_items,)
    used : ndarray of shape (n_used,)
        Features of the page, all of those that the rows have among them.
    y, texts : sequence of length n_rows, or None
    """
    values, order = X[rows], np.argsort(used)
    return {
        "rows": _pack(rows),
        "labels": None if y is None else [_cut(y[row], MAX_NAME) for row in rows],
        "texts": None if texts is None else [_cut(texts[row], MAX_TEXT) for row in rows],
        "start": _pack(values.indptr),
        "feature": _pack(order[np.searchsorted(used, values.indices, sorter=order)]),
        "value": _pack(values.data),
    }


def _counts(X: sp.csr_array, own: np.ndarray, ends: np.ndarray) -> dict[str, Any]:
    """Return in how many rows the features of atoms occur, alone and both of an atom."""
    there = sp.csc_array(X[:, own] != 0, dtype=np.int64)
    both = [
        there[:, part[:, 0]].multiply(there[:, part[:, 1]]).sum(axis=0)
        for part in np.array_split(ends, len(ends) // 256 + 1)
    ]
    return {
        "n_rows": X.shape[0],
        "feature": _pack(np.diff(there.indptr)),
        "both": _pack(np.concatenate([np.asarray(part).ravel() for part in both])),
    }


def _names(model: Any, given: Any, features: np.ndarray) -> list[str]:
    names: Sequence[Any] | None = given
    if names is None:
        names = getattr(model, "feature_names_in_", None)
    elif len(names) != model.n_features_in_:
        raise ValueError(
            f"feature_names has {len(names)} names, but the model has {model.n_features_in_} "
            "features: one a feature is expected."
        )
    if names is None:
        return [f"x{feature}" for feature in features]
    return [_cut(names[feature], MAX_NAME) for feature in features]


def _parameters(model: Any) -> list[list[Any]]:
    """Return name, value as text, and whether it is the default; those that are not come first."""
    defaults = type(model)().get_params(deep=False)
    shown = [
        [name, _shown(value), _shown(value) == _shown(defaults[name])]
        for name, value in model.get_params(deep=False).items()
    ]
    return sorted(shown, key=lambda parameter: parameter[2])


def _shown(value: Any) -> str:
    return _cut(getattr(value, "__name__", None) or repr(value), MAX_PARAMETER)


def _cut(value: Any, length: int) -> str:
    text = str(value)
    return text if len(text) <= length else text[: length - 1] + "…"
