"""The content of a page: the numbers and texts of a model, packed for its script."""

import base64
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import column_or_1d

from ..explain.occurrences import count_occurrences
from ..explain.tables import CLASS, as_names
from ..input.labels import check_one_label_per_row
from ..input.matrices import canonical, check_matrix
from ..labels import LabelSets, label_sets
from ..similarity import FixedPart
from ..similarity.products import check_result
from ..solver.atoms import ZERO
from ..solver.columns import take_columns
from ..solver.trace import NO_ATOM
from .measured import Measured, measure_labels

#: Values of items on a page: at most 0.8 MB with their columns. Longer rows leave room
#: for fewer.
MAX_VALUES = 50_000

#: Characters of a text, of a feature's name, of a parameter.
MAX_TEXT = 1500
MAX_NAME = 100
MAX_PARAMETER = 80

#: Classes that have a colour of their own.
N_CLASSES = 10


class Rows(NamedTuple):
    """Rows of X with their labels and texts, None where not given."""

    X: sp.csr_array | None
    y: np.ndarray | LabelSets | None
    texts: list[Any] | None

    @property
    def labels(self) -> np.ndarray | None:
        """The label of each row as it is shown; several with commas between them."""
        if not isinstance(self.y, LabelSets):
            return self.y
        each = np.split(
            self.y.classes[self.y.indicator.indices], self.y.indicator.indptr[1:-1]
        )
        return np.array([", ".join(map(str, labels)) for labels in each], dtype=object)


class More(NamedTuple):
    """What a caller knows beyond the model and its rows.

    Parameters
    ----------
    row_numbers : ndarray of shape (n_rows,)
        Numbers of the rows of X in the user's data; None is from 0.
    scores : ClassScores
        What made the last features, the scores of classes; None is no scores. The plain
        cosine leaves them out.
    query_weights : ndarray of shape (n_features - n_scores,)
        Weight of a feature in a typed query; None is 1.
    ids : ndarray of shape (n_rows,)
        Names of the rows of X in the user's data; None is their numbers.
    """

    row_numbers: np.ndarray | None = None
    scores: Any = None
    query_weights: np.ndarray | None = None
    ids: np.ndarray | None = None

    @property
    def n_scores(self) -> int:
        """The number of last features that are scores of classes."""
        return 0 if self.scores is None else len(self.scores.classes_)


# --- user input -----------------------------------------------------------------------


def check_rows(model: Any, X: Any, y: Any, texts: Any) -> Rows:
    """Return X as a CSR array, labels as an array and texts as a list."""
    for name, value in (("y", y), ("texts", texts)):
        if X is None and value is not None:
            raise ValueError(
                f"{name} goes with the rows of X, but X is None: pass X too."
            )
    if X is None:
        return Rows(None, None, None)
    X = sp.csr_array(check_matrix(model, X, reset=False))
    y = _check_labels(y)
    if isinstance(texts, str):
        raise ValueError(
            "texts must be a sequence of strings, one per row of X. Got one string."
        )
    texts = None if texts is None else list(texts)
    for name, value in (("y", y), ("texts", texts)):
        if value is not None and len(value) != X.shape[0]:
            raise ValueError(
                f"{name} has {len(value)} entries, but X has {X.shape[0]} rows: one "
                "per row is expected."
            )
    return Rows(X, y, texts)


def _check_labels(y: Any) -> Any:
    """Return one label per row as an array, and several as sets."""
    several = label_sets(y)
    return column_or_1d(y, warn=True) if several is None and y is not None else several


def held_out_errors(model: Any, rows: Rows, X_test: Any, y_test: Any) -> Measured:
    """Return what test rows show of a model."""
    X, y, _ = rows
    if X is None or y is None or X_test is None or y_test is None:
        names = {"X": X, "y": y, "X_test": X_test, "y_test": y_test}
        missing = ", ".join(name for name, value in names.items() if value is None)
        raise ValueError(
            "The error is that of test rows whose neighbours are rows of X: X, y, "
            f"X_test and y_test go together. Missing: {missing}."
        )
    X_test = sp.csr_array(check_matrix(model, X_test, reset=False, name="X_test"))
    y_test = _check_labels(y_test)
    check_one_label_per_row(y_test, X_test.shape[0], "_test")
    return measure_labels(model.similarity_, X, y, X_test, y_test, n_jobs=model.n_jobs)


# --- parts of the page ----------------------------------------------------------------


def model_parts(
    model: Any, rows: Rows, feature_names: Any, max_items: int, more: More
) -> dict[str, Any]:
    """Return the model, its path, its features and the rows to compare."""
    trace = model.trace_
    similarity = model.similarity_
    tried = getattr(model, "choice_", None) or {}  # on held-out data
    has_names = feature_names is not None or hasattr(model, "feature_names_in_")
    name_of = _name_of(model, feature_names)
    atoms, steps, corrections = _steps(trace, model.corrections_)
    active = np.unique(atoms[:, :2])
    ends = np.searchsorted(active, atoms[:, :2])
    if rows.X is not None:
        rows = rows._replace(X=canonical(similarity.index_rows(rows.X)))
    used = active
    items = None
    if rows.X is not None and max_items > 0:
        chosen = choose_rows(rows.X, max_items)
        used = np.concatenate([active, np.setdiff1d(rows.X[chosen].indices, active)])
        numbers = (
            chosen if more.row_numbers is None else np.asarray(more.row_numbers)[chosen]
        )
        items = _items(rows, chosen, used) | {"rows": pack(numbers)}
        if more.ids is not None:
            items["ids"] = [_cut(more.ids[row], MAX_NAME) for row in chosen]
        if more.scores is not None:
            items["words"] = _words(more.scores, rows.X[chosen], name_of)
    names = [name_of(feature) for feature in used.tolist()]
    n_plain = int(model.n_features_in_) - more.n_scores
    return {
        "model": {
            "scale": float(model.scale_),
            "fixed": [_fixed_part(part, model) for part in similarity.fixed],
            "n_iter": int(model.n_iter_),
            "n_triplets": int(model.n_triplets_),
            "n_features": int(model.n_features_in_),
            "status": str(model.status_),
            "gap_is_exact": bool(model.gap_is_exact_),
            "n_scores": more.n_scores,
        },
        "classes": _classes(rows, used),
        "choice": {name: pack(tried[name].astype(np.float64)) for name in tried}
        or None,
        "has_names": has_names,
        "query_weights": None
        if more.query_weights is None
        else pack(_weights(more, used)),
        "names": names,
        "is_score": [
            f >= n_plain or name.startswith(CLASS)
            for f, name in zip(used.tolist(), names, strict=True)
        ],
        "columns": pack(used),
        "atoms": {
            "i": pack(ends[:, 0]),
            "j": pack(ends[:, 1]),
            "sign": pack(atoms[:, 2]),
        },
        "steps": {name: pack(column) for name, column in steps.items()},
        "corrections": {name: pack(column) for name, column in corrections.items()},
        "trace": {
            name: pack(trace[name])
            for name in ("objective", "gap", "n_atoms", "n_features")
        },
        "counts": None if rows.X is None else _counts(rows.X, active, ends),
        "items": items,
    }


def _fixed_part(part: FixedPart, model: Any) -> dict[str, Any]:
    """Return a fixed part of the similarity: its weight, and its columns from start to stop."""
    stop = int(model.n_features_in_) if part.stop is None else part.stop
    return {
        "name": part.name,
        "weight": float(part.weight),
        "start": part.start,
        "stop": stop,
    }


def _words(
    scores: Any, X: sp.csr_array, name_of: Callable[[int], str]
) -> list[Any] | None:
    """Return the words behind the scores of each row, by class; None for a nonlinear classifier."""
    n = scores.n_features_in_
    try:
        found = scores.words(take_columns(X, np.arange(n)))
    except ValueError:
        return None
    return [
        {
            str(n + label): [name_of(word) for word in words]
            for label, words in row.items()
        }
        for row in found
    ]


def _steps(
    trace: np.ndarray, corrections: np.ndarray
) -> tuple[np.ndarray, dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Return the distinct atoms of a path, shape (n, 3), its steps and its corrections.

    Atoms are named by their numbers: the zero atom has number n, and -1 is none. A step
    of size 0 names atoms that it does not change; they are left out.
    """
    size = trace["step_size"].copy()
    size[0] = 1.0
    n = len(trace)
    size[corrections["n_iter"]] = 0.0  # corrections say it all
    parts = ("i", "j", "sign")
    named = np.column_stack(
        [np.concatenate([trace[a], trace["away_" + a], corrections[a]]) for a in parts]
    ).astype(np.int64)
    named[: 2 * n][~np.tile(size > 0, 2)] = NO_ATOM
    moved = named[:, 0] >= 0
    atoms, number = np.unique(named[moved], axis=0, return_inverse=True)
    numbers = np.where((named == ZERO).all(axis=1), len(atoms), -1)
    numbers[moved] = number.ravel()
    toward, away, corrected = np.split(numbers, [n, 2 * n])
    steps = {"toward": toward, "away": away, "size": size, "drop": trace["drop"] + 0}
    weights = corrections["weight"].copy()
    return (
        atoms,
        steps,
        {"n_iter": corrections["n_iter"], "atom": corrected, "weight": weights},
    )


def pack(array: np.ndarray) -> dict[str, str]:
    """Return the bytes of an array as base64, and their type: the smallest that is exact."""
    if array.dtype.kind == "f":
        small = array.astype("<f4")
        array = (
            small
            if np.array_equal(small, array, equal_nan=True)
            else array.astype("<f8")
        )
    else:
        low, high = (int(array.min()), int(array.max())) if array.size else (0, 0)
        kind = np.result_type(np.min_scalar_type(low), np.min_scalar_type(high))
        # Scripts have no 64-bit integers; a float is exact up to 2**53.
        array = array.astype("<f8" if kind.itemsize == 8 else kind.newbyteorder("<"))
    code = f"{array.dtype.kind}{array.dtype.itemsize}"
    return {"type": code, "bytes": base64.b64encode(array.tobytes()).decode()}


def choose_rows(X: sp.csr_array, max_items: int) -> np.ndarray:
    """Return numbers of rows spread evenly over X, so that sorted rows give all classes."""
    n = X.shape[0]
    room = max(2, int(MAX_VALUES * n / max(X.nnz, 1)))
    return np.unique(
        np.linspace(0, n - 1, min(n, max_items, room)).round().astype(np.int64)
    )


def _items(rows: Rows, chosen: np.ndarray, used: np.ndarray) -> dict[str, Any]:
    """Return the chosen rows with all their values, by position in `used`, the page's features."""
    X = rows.X
    y = rows.labels
    texts = rows.texts
    assert X is not None
    values = X[chosen]
    order = np.argsort(used)
    return {
        "labels": None if y is None else [_cut(y[row], MAX_NAME) for row in chosen],
        "texts": None
        if texts is None
        else [_cut(texts[row], MAX_TEXT) for row in chosen],
        "start": pack(values.indptr),
        "feature": pack(order[np.searchsorted(used, values.indices, sorter=order)]),
        "value": pack(values.data),
    }


def _counts(X: sp.csr_array, active: np.ndarray, ends: np.ndarray) -> dict[str, Any]:
    """Return how often the active features and the feature pairs of atoms occur, and their sizes.

    The size of a pair times its entry in M is its effect.
    """
    found = count_occurrences(X, active, ends)
    return {
        "n_rows": X.shape[0],
        "feature": pack(found.n_rows),
        "both": pack(found.n_rows_both),
        "size": pack(check_result(found.size_of_pair, "The effect of a feature pair")),
    }


def _classes(rows: Rows, used: np.ndarray) -> dict[str, Any] | None:
    """Return the most frequent classes, and of each feature the one with its largest mean value.

    A feature of no class, or of a rare one, has -1. There are none where all rows
    differ.
    """
    X = rows.X
    y = rows.labels
    if X is None or y is None:
        return None
    labels, code, sizes = np.unique(y, return_inverse=True, return_counts=True)
    if not 2 <= len(labels) <= len(y) / 2:
        return None
    order = np.argsort(used)
    place = np.searchsorted(used, X.indices, sorter=order).clip(max=len(used) - 1)
    place = order[place]
    known = used[place] == X.indices
    row = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    kept = np.sort(np.argsort(-sizes, kind="stable")[:N_CLASSES])
    at = code[row[known]]
    shape = (len(labels), len(used))
    mean = sp.csc_array(
        (np.abs(X.data[known]) / sizes[at], (at, place[known])), shape=shape
    )
    number = np.full(len(labels), -1)
    number[kept] = np.arange(len(kept))
    return {
        "names": [_cut(labels[k], MAX_NAME) for k in kept],
        "of": pack(
            np.where(np.diff(mean.indptr), number[np.ravel(mean.argmax(axis=0))], -1)
        ),
    }


def _weights(more: More, used: np.ndarray) -> np.ndarray:
    """Return the weights of the page's features in a query; a class score has none."""
    given = np.asarray(more.query_weights, dtype=np.float64)
    return np.where(used < len(given), given[used.clip(max=len(given) - 1)], 0.0)


def _name_of(model: Any, given: Any) -> Callable[[int], str]:
    """Return what gives the name of a feature by its number."""
    fitted = getattr(model, "feature_names_in_", None)
    names = as_names(fitted if given is None else given, model.n_features_in_)
    return lambda feature: _cut(names[feature], MAX_NAME)


def parameters(model: Any) -> list[list[Any]]:
    """Return name, value as text, and whether it is the default; changed parameters come first."""
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
