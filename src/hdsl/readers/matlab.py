"""MATLAB files of version 5 to 7.2.

The few kinds of arrays that a data set consists of are parsed here because `scipy.io.loadmat`
crashes on some damaged files (SciPy 1.17). The format:
https://www.mathworks.com/help/pdf_doc/matlab/matfile_format.pdf
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from . import files
from .files import Data, DataFileError

_NUMBERS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8"}
_NUMBERS |= {12: "i8", 13: "u8"}
_MATRIX, _COMPRESSED = 14, 15
_SPARSE, _FULL = 5, range(6, 16)
_COMPLEX = 0x0800

Elements = Iterator[tuple[int, memoryview]]


def read_mat(
    path: str | PathLike[str],
    *,
    n_features: int | None = None,
    X_name: str = "fea",
    y_name: str | None = "gnd",
) -> Data:
    """Return X and y of a MATLAB file of version 5 to 7.2.

    Parameters
    ----------
    path : str or path
    n_features : int, default=None
        Number of columns. None takes that of the file.
    X_name : str, default="fea"
        The variable of the rows, a sparse or a full matrix.
    y_name : str or None, default="gnd"
        The variable of the labels, a numeric vector. None if there is none.

    Returns
    -------
    X : csr_array of shape (n_rows, n_features)
    y : ndarray of shape (n_rows,) or None
    """
    path = files.check_file(path)
    files.check_n_features(n_features)
    wanted = [X_name] if y_name is None else [X_name, y_name]
    found = _read_variables(path, wanted)
    X = found[X_name]
    X = files.as_csr(path, X if sp.issparse(X) else sp.csr_array(X), n_features)
    if y_name is None:
        return X, None
    y = found[y_name]
    if sp.issparse(y) or y.size != X.shape[0] or max(y.shape) != y.size:
        raise DataFileError(
            f"{path}: {y_name} has shape {y.shape}, but {X_name} has {X.shape[0]} rows: a full "
            "vector with one label per row is expected."
        )
    y = y.ravel()
    if not np.isfinite(y).all():
        raise DataFileError(f"{path}: {y_name} has a label that is NaN or infinite.")
    return X, files.as_labels(y)


def _read_variables(path: Path, wanted: list[str]) -> dict[str, Any]:
    """Return the variables of these names, full ones as float64 and sparse ones as stored."""
    raw = memoryview(path.read_bytes())
    order = {b"IM": "<", b"MI": ">"}.get(bytes(raw[126:128]))
    if order is None or raw[125 if order == "<" else 124] != 1:
        raise DataFileError(
            f"{path} is not a MATLAB v5 file. Save version 7.3 and version 4 files again with "
            "save(..., '-v7')."
        )
    limit = files.expansion_limit(path)
    found, names, size = {}, [], 0  # what all variables take together
    way_out = "Save it with save(..., '-v6')"
    with files.parsing(path, "a MATLAB v5 file"):
        for kind, part in _elements(raw[128:], order):
            if kind == _COMPRESSED:
                plain = zlib.decompressobj().decompress(part, limit + 1 - size)
                size += len(plain)
                files.check_expansion(path, size, way_out)
                kind, part = _next(_elements(memoryview(plain), order))
            if kind != _MATRIX:
                continue
            parts = _elements(part, order)
            flags, shape = (_next_numbers(parts, order) for _ in range(2))
            name = bytes(_next(parts)[1]).decode()
            names.append(name)
            if name in wanted:
                if not len(flags):
                    raise ValueError(f"{name} has no kind")
                _check_real_matrix(path, name, int(flags[0]), shape)
                n_rows, n_columns = (int(n) for n in shape)
                if int(flags[0]) & 0xFF == _SPARSE:
                    files.check_n_rows(path, n_rows, len(part))
                    indices, indptr, values = (_next_numbers(parts, order) for _ in range(3))
                    size += files.BYTES_PER_NUMBER * len(values)
                    files.check_expansion(path, size, way_out)
                    found[name] = sp.csc_array((values, indices, indptr), (n_rows, n_columns))
                else:
                    values = _next_numbers(parts, order)
                    size += files.BYTES_PER_NUMBER * len(values)
                    files.check_expansion(path, size, way_out)
                    values = values.astype(np.float64)
                    found[name] = values.reshape(n_rows, n_columns, order="F")
    for name in wanted:
        if name not in found:
            known = files.shorten(", ".join(names)) or "none"
            raise DataFileError(
                f"{path} has no variable {name!r}, but {known}",
                "name yours with X_name= and y_name=",
                "matlab_names",
            )
    return found


def _check_real_matrix(path: Path, name: str, flags: int, shape: np.ndarray) -> None:
    kind = flags & 0xFF
    if flags & _COMPLEX or len(shape) != 2 or (kind != _SPARSE and kind not in _FULL):
        raise DataFileError(f"{path}: {name} must be a matrix of real numbers.")


def _next_numbers(parts: Elements, order: str) -> np.ndarray:
    kind, part = _next(parts)
    if kind not in _NUMBERS:
        raise ValueError("numbers are missing")
    return np.frombuffer(part, dtype=order + _NUMBERS[kind])


def _next(parts: Elements) -> tuple[int, memoryview]:
    for part in parts:
        return part
    raise ValueError("a variable ends too early")


def _elements(buffer: memoryview, order: str) -> Elements:
    """Yield the kind and the bytes of each element."""
    at = 0
    while at + 8 <= len(buffer):
        kind, length = struct.unpack_from(order + "II", buffer, at)
        start = at + 8
        if kind >> 16:  # a small element: its four bytes or fewer are in the tag
            kind, length, start = kind & 0xFFFF, kind >> 16, at + 4
        stop = start + length
        if stop > (at + 8 if start == at + 4 else len(buffer)):
            raise ValueError("an element is longer than what contains it")
        yield kind, buffer[start:stop]
        at = stop if kind == _COMPRESSED else stop + -stop % 8
