"""Data sets of the NIPS 2003 feature selection challenge."""

from __future__ import annotations

import re
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from .. import checks
from . import files
from .files import Data, DataFileError
from .labels import read_labels
from .svmlight import check_pairs, limit_hint, parse_pairs

LAYOUTS = ("auto", "sparse", "binary", "dense")


def read_nips2003(
    path: str | PathLike[str], *, n_features: int | None = None, layout: str = "auto"
) -> Data:
    """Return X and y of a data set of the NIPS 2003 feature selection challenge.

    Parameters
    ----------
    path : str or path
        The file of the rows, such as ``dexter_train.data``. Labels are read from the ``.labels``
        file of the same name beside it, if there is one, and the number of features from
        ``dexter.param``.
    n_features : int, default=None
        Number of columns. None takes that of the ``.param`` file, or else that of the rows.
    layout : {"auto", "sparse", "binary", "dense"}
        Lines of ``index:value`` (dexter), of the indices of ones (dorothea), or of all values
        (gisette). With "auto" a colon means sparse. Lines of n_features numbers each are dense,
        and so are lines of equal length if n_features is not known. Other lines are binary.

    Returns
    -------
    X : csr_array of shape (n_rows, n_features)
    y : ndarray of shape (n_rows,) or None
        None without a ``.labels`` file.
    """
    checks.check_word("read_nips2003", "layout", layout, LAYOUTS)
    path, text = files.read_text(path)
    files.check_n_features(n_features)
    if n_features is None:
        n_features = _read_n_features(path)
    text = text.removesuffix(b"\n")  # a line feed ends a row: an empty line is an empty row
    if layout == "sparse" or (layout == "auto" and b":" in text):
        loaded = parse_pairs(b"0 " + text.replace(b"\n", b"\n0 "), n_features, zero_based=False)
        if loaded is None:
            check_pairs(path, text, n_features, labelled=False)
            raise DataFileError(f"{path} cannot be read as lines of 'index:value'.")
        X = loaded[0]
    else:
        X = _read_numbers(path, text, n_features, layout)
    X = files.as_csr(path, X, n_features)
    labels = _file_beside(path, ".labels")
    y = None if labels is None else read_labels(labels)
    if y is not None and len(y) != X.shape[0]:
        raise DataFileError(
            f"{path} has {X.shape[0]} rows, but {labels} has {len(y)} labels: one label per row "
            "is expected."
        )
    return X, y


def _read_numbers(path: Path, text: bytes, n_features: int | None, layout: str) -> Any:
    """Return lines of numbers as a matrix: all values, or the indices of ones."""
    counts, values = files.numbers_by_line(path, text)
    starts = np.concatenate([[0], np.cumsum(counts)])
    if layout == "auto":
        width = counts[0] if n_features is None else n_features
        increases = np.diff(values, prepend=0.0) > 0
        first = starts[:-1][counts > 0]
        increases[first] = values[first] > 0
        # Ragged lines that are not increasing indices are meant as dense: the message says so.
        are_indices = increases.all() and (values == np.floor(values)).all()
        layout = "binary" if are_indices and (counts != width).any() else "dense"
    if layout == "dense":
        return _dense_rows(path, text, n_features, counts, values)
    high = checks.INDEX_LIMIT - 1 if n_features is None else n_features
    row = np.repeat(np.arange(len(counts)), counts)
    bad = (values < 1) | (values > high) | (values != np.floor(values))
    bad[1:] |= (np.diff(values) <= 0) & (np.diff(row) == 0)
    if bad.any():
        number, value = int(row[np.argmax(bad)]) + 1, values[np.argmax(bad)]
        wanted = f"increasing indices from 1 to {high}{limit_hint(n_features)}"
        raise files.bad_line(path, number, files.line_at(text, number), wanted, b"%g" % value)
    width = int(values.max(initial=0)) if n_features is None else n_features
    indices = values.astype(np.int64) - 1
    return sp.csr_array((np.ones(len(values)), indices, starts), shape=(len(counts), width))


def _dense_rows(
    path: Path, text: bytes, n_features: int | None, counts: np.ndarray, values: np.ndarray
) -> sp.csr_array:
    width = int(counts[0]) if n_features is None else n_features
    ragged = np.flatnonzero(counts != width)
    if len(ragged):
        number = int(ragged[0]) + 1
        known_from = "line 1" if n_features is None else "n_features"
        wanted = f"{width} numbers, as in {known_from}, not {counts[ragged[0]]}"
        raise files.bad_line(path, number, files.line_at(text, number), wanted)
    return sp.csr_array(values.reshape(len(counts), width))


def _read_n_features(path: Path) -> int | None:
    """Return the number of features in the ``.param`` file beside the data, None without one."""
    param = _file_beside(path, ".param")
    if param is None:
        return None
    param, text = files.read_text(param)
    found = re.search(rb"(?i)number of features:[ \t]*(\d{1,9})\b", text)
    if found is None or not int(found[1]):
        raise DataFileError(
            f"{param} has no line 'Number of features: N' with 1 <= N < 10^9. Pass n_features=, or "
            "remove the file."
        )
    return int(found[1])


def _file_beside(path: Path, suffix: str) -> Path | None:
    """Return the file that belongs to ``name_train.data``: ``name_train`` or ``name`` + suffix."""
    stem = files.plain_name(path).removesuffix(".data")
    names = [stem, stem.rpartition("_")[0]] if suffix == ".param" else [stem]
    found = (path.parent / (name + suffix) for name in names if name)
    return next((file for file in found if file.is_file()), None)
