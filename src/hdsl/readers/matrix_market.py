"""Matrix Market files.

The entries are parsed here because `scipy.io.mmread` crashes on some damaged files and takes the
memory that a header claims (SciPy 1.17); its `mminfo` reads the header safely.
"""

from __future__ import annotations

import io
from os import PathLike
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from . import files
from .files import Data, DataFileError


def read_matrix_market(path: str | PathLike[str], *, n_features: int | None = None) -> Data:
    """Return X of a Matrix Market file, and None for the labels.

    Parameters
    ----------
    path : str or path
        May end in ``.gz`` or ``.bz2``.
    n_features : int, default=None
        Number of columns. None takes that of the file.

    Returns
    -------
    X : csr_array of shape (n_rows, n_features)
    y : None
    """
    from scipy.io import mminfo

    path, text = files.read_text(path)
    files.check_n_features(n_features)
    with files.parsing(path, "Matrix Market", text):
        n_rows, n_columns, n_entries, kind, field, symmetry = mminfo(io.BytesIO(text))
    if field not in ("real", "double", "integer", "unsigned-integer", "pattern"):
        raise DataFileError(f"{path} holds {field} values, but real numbers are expected.")
    if symmetry != "general" and n_rows != n_columns:
        raise DataFileError(f"{path} is {symmetry}, but not square: {n_rows} x {n_columns}.")
    files.check_n_rows(path, n_rows, len(text))
    if n_columns > 2**53:  # column numbers are parsed as floats
        raise DataFileError(f"{path} claims {n_columns} columns, more than 2^53.")
    if kind == "array":
        n_stored = {"general": n_columns, "symmetric": (n_columns + 1) / 2}
        n_entries = int(n_rows * n_stored.get(symmetry, (n_columns - 1) / 2))
        entries = _read_entries(path, text, (n_rows, n_columns), n_entries, width=1)
        if symmetry == "general":
            column, row = np.divmod(np.arange(n_entries), max(n_rows, 1))
        else:
            column, row = np.triu_indices(n_rows, 0 if symmetry == "symmetric" else 1)
    else:
        width = 2 if field == "pattern" else 3
        entries = _read_entries(path, text, (n_rows, n_columns), n_entries, width)
        row, column = entries[:, 0].astype(np.int64) - 1, entries[:, 1].astype(np.int64) - 1
    value = np.ones(len(entries)) if field == "pattern" else entries[:, -1]
    X = sp.coo_array((value, (row, column)), (n_rows, n_columns))
    if symmetry != "general":
        mirrored = sp.coo_array(X.T)
        mirrored.data = np.where(mirrored.row == mirrored.col, 0.0, mirrored.data)
        X = X - mirrored if symmetry == "skew-symmetric" else X + mirrored
    return files.as_csr(path, sp.csr_array(X), n_features), None


def _read_entries(
    path: Path, text: bytes, shape: tuple[int, int], n_entries: int, width: int
) -> np.ndarray:
    """Return the numbers of each entry, shape (n_entries, width): row and column before the value.

    With a width of 1 there is only the value.
    """
    n_header, start = _end_of_header(text)
    body = text[start:]
    counts, values = files.numbers_by_line(path, body, n_header)

    def error(line: int, wanted: str) -> DataFileError:
        return files.bad_line(path, n_header + line + 1, files.line_at(body, line + 1), wanted)

    uneven = np.flatnonzero((counts != width) & (counts != 0))
    if len(uneven):
        raise error(int(uneven[0]), f"{width} numbers")
    entries = values.reshape(-1, width)
    if len(entries) != n_entries:
        raise DataFileError(
            f"{path} claims {n_entries} entries ({shape[0]} x {shape[1]}), but {len(entries)} "
            "lines follow: the file is cut off or damaged."
        )
    if width > 1:
        places = entries[:, :2]
        outside = ((places != np.floor(places)) | (places < 1) | (places > shape)).any(axis=1)
        if outside.any():
            line = int(np.flatnonzero(counts)[np.argmax(outside)])
            raise error(line, f"a row from 1 to {shape[0]} and a column from 1 to {shape[1]}")
    return entries


def _end_of_header(text: bytes) -> tuple[int, int]:
    """Return how many lines the header has, with that of the sizes, and where the next starts."""
    start = 0
    for number, line in enumerate(io.BytesIO(text), 1):
        start += len(line)
        if line.strip() and not line.startswith(b"%"):
            return number, start
    return 0, start
