"""Data files read as sparse matrices: svmlight, NIPS 2003, Matrix Market, SciPy .npz, MATLAB .mat.

Every reader returns ``(X, y)``: a canonical CSR array of float64, and labels or None. Files are not
trusted: nothing is unpickled, the sizes that a header claims are held against the file before
memory is taken for them, and whatever is wrong becomes one `DataFileError` that names the file and,
in a text file, the line.
"""

from __future__ import annotations

import bz2
import gzip
import io
import math
import re
import struct
import warnings
import zipfile
import zlib
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from .. import user_input
from ..memory import format_bytes

Data = tuple[sp.csr_array, np.ndarray | None]

#: A compressed file may grow to this many times its size, or to so many bytes where that is more.
MAX_EXPANSION, FREE_BYTES = 200, 64 * 2**20

LAYOUTS = ("auto", "sparse", "binary", "dense")


class DataFileError(ValueError):
    """A data file that cannot be read as what it should be."""


def read_matrix(
    path: str | PathLike[str],
    *,
    n_features: int | None = None,
    format: str | None = None,
    **options: Any,
) -> Data:
    r"""Return the matrix in a file, and its labels where the file has them.

    Parameters
    ----------
    path : str or path
        What the file is goes by its name: ``.npz``, ``.mtx``, ``.mat``, ``.data`` (NIPS 2003); any
        other name is svmlight, as LIBSVM names its files in many ways. All but .npz and .mat may be
        compressed: ``.gz``, ``.bz2``.
    n_features : int, default=None
        Number of columns; None is what the file says, or the largest index in it.
    format : {"npz", "mtx", "mat", "data", "svmlight"}, default=None
        Given, the name does not matter.
    **options
        For the reader of that format.

    Returns
    -------
    X : csr_array of shape (n_rows, n_features)
        float64.
    y : ndarray of shape (n_rows,) or None

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "spam.svm")
    ...     _ = path.write_text("spam 1:0.5 3:2\nham 2:1\n")
    ...     X, y = read_matrix(path)
    >>> X.toarray().tolist(), y.tolist()
    ([[0.5, 0.0, 2.0], [0.0, 1.0, 0.0]], ['spam', 'ham'])
    """
    if format is None:
        suffix = _plain_suffix(Path(path))
        format = suffix[1:] if suffix[1:] in READERS else "svmlight"
    user_input.check_word("read_matrix", "format", format, READERS)
    return READERS[format](path, n_features=n_features, **options)


# --- text ----------------------------------------------------------------------------------------


def read_svmlight(
    path: str | PathLike[str], *, n_features: int | None = None, zero_based: bool = False
) -> Data:
    """Return X and y of an svmlight file: lines ``label index:value index:value ...``.

    Parameters
    ----------
    path : str or path
        May end in ``.gz`` or ``.bz2``.
    n_features : int, default=None
        None is the largest index.
    zero_based : bool, default=False
        Whether indices count from 0. In each line they rise.

    Returns
    -------
    X : csr_array of shape (n_rows, n_features)
    y : ndarray of shape (n_rows,)
        int64 where all labels are whole numbers, else float64; where some are no numbers, all are
        kept as strings (dtype object).
    """
    path, text = _read_text(path)
    _check_width(n_features)
    low = 0 if zero_based else 1
    loaded = _load_svmlight(text, n_features, zero_based)
    if loaded is None:
        names = _check_pairs(path, text, low, n_features, labelled=True)
        loaded = _load_svmlight(_FIRST_WORD.sub(b"0", text), n_features, zero_based)
        if loaded is None:
            raise DataFileError(f"{path} cannot be read as svmlight.")
        y = names
    else:
        y = _whole(loaded[1])
    if not len(y):
        raise DataFileError(f"{path} has no rows, only comments.")
    return _finished(path, loaded[0], n_features), y


#: The label of each line that has one: comments and empty lines have none.
_FIRST_WORD = re.compile(rb"(?m)^[^\S\n]*[^\s#]+")


def _load_svmlight(
    text: bytes, n_features: int | None, zero_based: bool
) -> tuple[Any, np.ndarray] | None:
    """Return X and y by scikit-learn's parser, None where it or a value is not in order."""
    from sklearn.datasets import load_svmlight_file

    try:
        X, y = load_svmlight_file(
            io.BytesIO(text), n_features=n_features, dtype=np.float64, zero_based=zero_based
        )
    except (ValueError, OverflowError):
        return None
    return (X, y) if np.isfinite(X.data).all() and np.isfinite(y).all() else None


def _check_pairs(
    path: Path, text: bytes, low: int, n_features: int | None, *, labelled: bool
) -> np.ndarray:
    """Raise on the first bad line of ``index:value`` pairs; return the labels as strings."""
    names: dict[bytes, int] = {}
    codes = array("q")
    high = user_input.INDEX_LIMIT - 1 if n_features is None else n_features - 1 + low
    for number, line in enumerate(io.BytesIO(text), 1):
        words = line.partition(b"#")[0].split()
        if labelled and words:
            label = words.pop(0)
            if b":" in label:
                raise _bad_line(path, number, line, "a label before the first 'index:value'")
            if not _finite_or_word(label):
                raise _bad_line(path, number, line, "a finite label")
            codes.append(names.setdefault(label, len(names)))
        if words and words[0].startswith(b"qid:"):
            words.pop(0)
        last = low - 1
        for word in words:
            index, _, value = word.partition(b":")
            try:
                i, finite = int(index), math.isfinite(float(value))
            except ValueError:
                raise _bad_line(path, number, line, "'index:value'", word) from None
            if i < low:
                hint = "; pass zero_based=True if they count from 0" if labelled and i == 0 else ""
                raise _bad_line(path, number, line, f"an index >= {low}", word, hint)
            if i > high:
                raise _bad_line(path, number, line, f"an index <= {high}{_limit(n_features)}", word)
            if i <= last:
                raise _bad_line(path, number, line, f"an index > {last}: they must rise", word)
            if not finite:
                raise _bad_line(path, number, line, "a finite value", word)
            last = i
    return np.array([name.decode() for name in names], dtype=object)[np.asarray(codes, dtype=int)]


def _finite_or_word(label: bytes) -> bool:
    try:
        return math.isfinite(float(label))
    except ValueError:
        return True


def _limit(n_features: int | None) -> str:
    return "" if n_features is None else f" (n_features={n_features})"


def read_nips2003(
    path: str | PathLike[str], *, n_features: int | None = None, layout: str = "auto"
) -> Data:
    """Return X and y of a data set of the NIPS 2003 feature selection challenge.

    Parameters
    ----------
    path : str or path
        The file of the rows, such as ``dexter_train.data``. Labels are read from the file of the
        same name in ``.labels`` beside it, the number of features from ``dexter.param``; where one
        is not there, y is None and the width that of the rows.
    n_features : int, default=None
        Goes before the ``.param`` file.
    layout : {"auto", "sparse", "binary", "dense"}
        Lines of ``index:value`` (dexter), of the indices of ones (dorothea), or of all values
        (gisette). "auto" looks: a colon means sparse; lines of n_features numbers each are dense,
        and so are lines of equal length where n_features is not known; others are binary.

    Returns
    -------
    X : csr_array of shape (n_rows, n_features)
    y : ndarray of shape (n_rows,) or None
    """
    user_input.check_word("read_nips2003", "layout", layout, LAYOUTS)
    path, text = _read_text(path)
    _check_width(n_features)
    if n_features is None:
        n_features = _param_features(path)
    text = text.removesuffix(b"\n")  # a line feed ends a row: an empty line is an empty row
    if layout == "sparse" or (layout == "auto" and b":" in text):
        rows = b"0 " + text.replace(b"\n", b"\n0 ")
        loaded = _load_svmlight(rows, n_features, zero_based=False)
        if loaded is None:
            _check_pairs(path, text, 1, n_features, labelled=False)
            raise DataFileError(f"{path} cannot be read as lines of 'index:value'.")
        X = loaded[0]
    else:
        X = _rows_of_numbers(path, text, n_features, layout)
    X = _finished(path, X, n_features)
    labels = _beside(path, ".labels")
    y = None if labels is None else read_labels(labels)
    if y is not None and len(y) != X.shape[0]:
        raise DataFileError(
            f"{path} has {X.shape[0]} rows, but {labels} has {len(y)} labels: one label a row is "
            "expected."
        )
    return X, y


def read_labels(path: str | PathLike[str]) -> np.ndarray:
    """Return the labels in a file: a NumPy ``.npy`` vector, or text with one label a line.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    ndarray of shape (n_rows,)
        int64, float64, or strings (dtype object) as in `read_svmlight`; of ``.npy`` as stored.
    """
    if Path(path).suffix == ".npy":
        y = read_array(path)
        if y.ndim != 1 or y.dtype.kind not in "biufSU":
            raise DataFileError(
                f"{path} must hold a vector of labels, numbers or strings. Got shape {y.shape}, "
                f"dtype {y.dtype}."
            )
        if y.dtype.kind == "f" and not np.isfinite(y).all():
            raise DataFileError(f"{path} has a label that is NaN or infinite.")
        return y
    path, text = _read_text(path)
    counts = _words_by_line(text)
    if counts.max() > 1:
        number = int(np.argmax(counts > 1)) + 1
        raise _bad_line(path, number, _line(text, number), "one label a line")
    values = _numbers(text)
    if len(values) == counts.sum():
        if not np.isfinite(values).all():
            number = int(np.flatnonzero(counts)[np.argmin(np.isfinite(values))]) + 1
            raise _bad_line(path, number, _line(text, number), "a finite label")
        return _whole(values)
    known: dict[bytes, str] = {}
    labels = (line.strip() for line in io.BytesIO(text) if line.strip())
    return np.array([known.setdefault(label, label.decode()) for label in labels], dtype=object)


def _rows_of_numbers(path: Path, text: bytes, n_features: int | None, layout: str) -> Any:
    """Return lines of numbers as a matrix: all values, or the indices of ones."""
    counts, values = _table(path, text)
    starts = np.concatenate([[0], np.cumsum(counts)])
    if layout == "auto":
        width = counts[0] if n_features is None else n_features
        rising = np.diff(values, prepend=0.0) > 0
        rising[starts[:-1][counts > 0]] = values[starts[:-1][counts > 0]] > 0
        # Ragged lines that are no rising indices are meant as dense, and the message says so.
        are_indices = rising.all() and (values == np.floor(values)).all()
        layout = "binary" if are_indices and (counts != width).any() else "dense"
    if layout == "dense":
        width = int(counts[0]) if n_features is None else n_features
        ragged = np.flatnonzero(counts != width)
        if len(ragged):
            number = int(ragged[0]) + 1
            raise _bad_line(
                path,
                number,
                _line(text, number),
                f"{width} numbers, as in {'line 1' if n_features is None else 'n_features'}, "
                f"not {counts[ragged[0]]}",
            )
        return sp.csr_array(values.reshape(len(counts), width))
    high = user_input.INDEX_LIMIT - 1 if n_features is None else n_features
    row = np.repeat(np.arange(len(counts)), counts)
    bad = (values < 1) | (values > high) | (values != np.floor(values))
    bad[1:] |= (np.diff(values) <= 0) & (np.diff(row) == 0)
    if bad.any():
        number, value = int(row[np.argmax(bad)]) + 1, values[np.argmax(bad)]
        wanted = f"rising indices from 1 to {high}{_limit(n_features)}"
        raise _bad_line(path, number, _line(text, number), wanted, b"%g" % value)
    width = int(values.max(initial=0)) if n_features is None else n_features
    indices = values.astype(np.int64) - 1
    return sp.csr_array((np.ones(len(values)), indices, starts), shape=(len(counts), width))


def _table(path: Path, text: bytes, before: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return how many numbers each line has, and all numbers; `before` lines stand before them."""
    counts = _words_by_line(text)
    values = _numbers(text)
    if len(values) == counts.sum() and np.isfinite(values).all():
        return counts, values
    for number, line in enumerate(io.BytesIO(text), before + 1):
        for word in line.split():
            parsed = _numbers(word)
            if len(parsed) != 1 or not np.isfinite(parsed[0]):
                raise _bad_line(path, number, line, "a finite number", word)
    raise DataFileError(f"{path} cannot be read as lines of numbers.")


def _words_by_line(text: bytes) -> np.ndarray:
    """Return the number of words in each line."""
    letters = np.frombuffer(text, dtype=np.uint8)
    inside = letters > 32
    first = inside.copy()
    first[1:] &= ~inside[:-1]
    ends = np.append(np.flatnonzero(letters == 10), len(text))
    if text.endswith(b"\n"):
        ends = ends[:-1]
    return np.diff(np.searchsorted(np.flatnonzero(first), ends), prepend=0)


def _numbers(text: bytes) -> np.ndarray:
    """Return the numbers in a text, none where some word of it is not a number."""
    text = text.strip()
    if not text:
        return np.empty(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)  # what NumPy before 2.3 does instead
        try:
            return np.fromstring(text, sep=" ")
        except (ValueError, DeprecationWarning):
            return np.empty(0)


def _param_features(path: Path) -> int | None:
    """Return the number of features that the ``.param`` file beside the data states."""
    param = _beside(path, ".param")
    if param is None:
        return None
    param, text = _read_text(param)
    found = re.search(rb"(?i)number of features:[ \t]*(\d{1,9})\b", text)
    if found is None or not int(found[1]):
        raise DataFileError(
            f"{param} has no line 'Number of features: N' with 1 <= N < 10^9. Pass n_features=, or "
            "take the file away."
        )
    return int(found[1])


def _beside(path: Path, suffix: str) -> Path | None:
    """Return the file that goes with ``name_train.data``: ``name_train`` or ``name`` + suffix."""
    stem = path.name.removesuffix(path.suffix if path.suffix in OPENERS else "")
    stem = stem.removesuffix(".data")
    names = [stem, stem.rpartition("_")[0]] if suffix == ".param" else [stem]
    for name in names:
        if name and (path.parent / (name + suffix)).is_file():
            return path.parent / (name + suffix)
    return None


def read_matrix_market(path: str | PathLike[str], *, n_features: int | None = None) -> Data:
    """Return X of a Matrix Market file (``.mtx``, ``.mtx.gz``), and None for the labels.

    Parameters
    ----------
    path : str or path
    n_features : int, default=None
        None is the number of columns in the file.

    Returns
    -------
    X : csr_array of shape (n_rows, n_features)
    y : None
    """
    from scipy.io import mminfo

    path, text = _read_text(path)
    _check_width(n_features)
    with _parsing(path, "Matrix Market", text):
        n_rows, n_columns, n_entries, kind, field, symmetry = mminfo(io.BytesIO(text))
    if field not in ("real", "double", "integer", "unsigned-integer", "pattern"):
        raise DataFileError(f"{path} holds {field} values, but real numbers are expected.")
    if symmetry != "general" and n_rows != n_columns:
        raise DataFileError(f"{path} is {symmetry}, but not square: {n_rows} x {n_columns}.")
    _check_rows(path, n_rows, len(text))
    if n_columns > 2**53:  # numbers of columns are read as floats
        raise DataFileError(f"{path} says that it has {n_columns} columns, more than 2^53.")
    # SciPy's mmread can be crashed by a damaged file, so the entries are read here.
    number, start = _end_of_header(text)
    body = text[start:]
    counts, values = _table(path, body, number)
    if kind == "array":
        width = 1
        below = {"general": n_columns, "symmetric": (n_columns + 1) / 2}.get(
            symmetry, (n_columns - 1) / 2
        )
        n_entries = int(n_rows * below)
    else:
        width = 2 if field == "pattern" else 3
    odd = np.flatnonzero((counts != width) & (counts != 0))
    if len(odd):
        line = int(odd[0]) + 1
        raise _bad_line(path, number + line, _line(body, line), f"{width} numbers")
    entries = values.reshape(-1, width)
    if len(entries) != n_entries:
        raise DataFileError(
            f"{path} says that it has {n_entries} entries ({n_rows} x {n_columns}), but "
            f"{len(entries)} lines follow: the file is cut off or damaged."
        )
    if kind == "array":
        if symmetry == "general":
            column, row = np.divmod(np.arange(n_entries), max(n_rows, 1))
        else:
            column, row = np.triu_indices(n_rows, 0 if symmetry == "symmetric" else 1)
    else:
        row, column = entries[:, 0] - 1, entries[:, 1] - 1
        outside = (row != np.floor(row)) | (row < 0) | (row >= n_rows)
        outside |= (column != np.floor(column)) | (column < 0) | (column >= n_columns)
        if outside.any():
            line = int(np.flatnonzero(counts)[np.argmax(outside)]) + 1
            wanted = f"a row from 1 to {n_rows} and a column from 1 to {n_columns}"
            raise _bad_line(path, number + line, _line(body, line), wanted)
    value = np.ones(len(entries)) if field == "pattern" else entries[:, -1]
    X = sp.coo_array((value, (row.astype(np.int64), column.astype(np.int64))), (n_rows, n_columns))
    if symmetry != "general":
        mirrored = sp.coo_array(X.T)
        mirrored.data = np.where(mirrored.row == mirrored.col, 0.0, mirrored.data)
        X = X - mirrored if symmetry == "skew-symmetric" else X + mirrored
    return _finished(path, sp.csr_array(X), n_features), None


def _end_of_header(text: bytes) -> tuple[int, int]:
    """Return the number of lines up to that of the sizes, and where the next one starts."""
    start = 0
    for number, line in enumerate(io.BytesIO(text), 1):
        start += len(line)
        if line.strip() and not line.startswith(b"%"):
            return number, start
    return 0, start


# --- binary --------------------------------------------------------------------------------------


def read_npz(path: str | PathLike[str], *, n_features: int | None = None) -> Data:
    """Return X of a file made by `scipy.sparse.save_npz`, and None for the labels.

    Parameters
    ----------
    path : str or path
        A CSR, CSC or COO matrix.
    n_features : int, default=None
        None is the number of columns in the file.

    Returns
    -------
    X : csr_array of shape (n_rows, n_features)
    y : None
    """
    path = _check_file(path)
    _check_width(n_features)
    with _parsing(path, "a SciPy sparse .npz file"):
        with zipfile.ZipFile(path) as archive:
            size = sum(member.file_size for member in archive.infolist())
            _check_expansion(path, size, "Save it with compressed=False")
            for member in archive.infolist():
                if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    raise ValueError("NumPy does not compress files in this way")
                with archive.open(member) as stream:
                    _check_npy(path, stream, member.file_size, f" ({member.filename})")
        X = sp.load_npz(path)  # never unpickles
        if X.format not in ("csr", "csc", "coo") or X.ndim != 2 or X.dtype.kind not in "biuf":
            raise DataFileError(
                f"{path} holds a {X.format} array of {X.ndim} dimension(s) and dtype {X.dtype}, "
                "but a real CSR, CSC or COO matrix is expected. Convert it with .tocsr()."
            )
    _check_rows(path, X.shape[0], size)
    return _finished(path, X, n_features), None


def read_array(path: str | PathLike[str]) -> np.ndarray:
    """Return the array in a NumPy ``.npy`` file, which holds no pickled objects.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    ndarray
    """
    path = _check_file(path)
    with _parsing(path, "a .npy file"), path.open("rb") as stream:
        _check_npy(path, stream, path.stat().st_size)
        stream.seek(0)
        return np.lib.format.read_array(stream, allow_pickle=False)


def _check_npy(path: Path, stream: Any, size: int, member: str = "") -> None:
    """Raise unless the array that a .npy header announces is what follows it."""
    version = np.lib.format.read_magic(stream)
    try:
        if version == (1, 0):
            shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
        else:
            shape, _, dtype = np.lib.format.read_array_header_2_0(stream)
    except (MemoryError, RecursionError):  # of Python's parser, whatever memory there is
        raise ValueError("its header is nested too deeply") from None
    if dtype.hasobject:
        raise DataFileError(
            f"{path}{member} holds pickled Python objects, which can run code when they are read: "
            "save numbers or strings."
        )
    count, rest = math.prod(shape), size - stream.tell()
    if count * dtype.itemsize != rest or count > size or min(shape, default=0) < 0:
        raise DataFileError(
            f"{path}{member} says that it has an array of shape {shape} and dtype {dtype}, but "
            f"{rest} bytes follow: the file is cut off or damaged."
        )


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
        None is the number of columns in the file.
    X_name : str, default="fea"
        The variable of the rows, a sparse or a full matrix.
    y_name : str or None, default="gnd"
        The variable of the labels, a numeric vector; None where there are none.

    Returns
    -------
    X : csr_array of shape (n_rows, n_features)
    y : ndarray of shape (n_rows,) or None
    """
    path = _check_file(path)
    _check_width(n_features)
    wanted = [X_name] if y_name is None else [X_name, y_name]
    found = _mat_variables(path, wanted)
    X = found[X_name]
    X = _finished(path, X if sp.issparse(X) else sp.csr_array(X), n_features)
    if y_name is None:
        return X, None
    y = found[y_name]
    if sp.issparse(y) or y.size != X.shape[0] or max(y.shape) != y.size:
        raise DataFileError(
            f"{path}: {y_name} has shape {y.shape}, but {X_name} has {X.shape[0]} rows: a full "
            "vector with one label a row is expected."
        )
    y = y.ravel()
    if not np.isfinite(y).all():
        raise DataFileError(f"{path}: {y_name} has a label that is NaN or infinite.")
    return X, _whole(y)


# SciPy's loadmat can be crashed by a damaged file, so the few kinds of arrays that a data set is
# made of are read here. The format: https://www.mathworks.com/help/pdf_doc/matlab/matfile_format.pdf

_MAT_NUMBERS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8"}
_MAT_NUMBERS |= {12: "i8", 13: "u8"}
_MAT_MATRIX, _MAT_COMPRESSED = 14, 15
_MAT_SPARSE, _MAT_FULL = 5, range(6, 16)
_MAT_COMPLEX = 0x0800


def _mat_variables(path: Path, wanted: list[str]) -> dict[str, Any]:
    """Return the variables of these names, full ones as float64 and sparse ones as they are."""
    raw = memoryview(path.read_bytes())
    order = {b"IM": "<", b"MI": ">"}.get(bytes(raw[126:128]))
    if order is None or raw[125 if order == "<" else 124] != 1:
        raise DataFileError(
            f"{path} is not a MATLAB v5 file. Save version 7.3 and version 4 files again with "
            "save(..., '-v7')."
        )
    limit = max(MAX_EXPANSION * len(raw), FREE_BYTES)
    found, there = {}, []
    with _parsing(path, "a MATLAB v5 file"):
        for kind, part in _mat_elements(raw[128:], order):
            if kind == _MAT_COMPRESSED:
                plain = zlib.decompressobj().decompress(part, limit + 1)
                _check_expansion(path, len(plain), "Save it with save(..., '-v6')")
                kind, part = _mat_next(_mat_elements(memoryview(plain), order))
            if kind != _MAT_MATRIX:
                continue
            parts = _mat_elements(part, order)
            flags, shape = (_mat_numbers(parts, order) for _ in range(2))
            name = bytes(_mat_next(parts)[1]).decode()
            there.append(name)
            if name in wanted:
                if not len(flags):
                    raise ValueError(f"what {name} is cannot be told")
                found[name] = _mat_array(path, name, int(flags[0]), shape, parts, order, len(part))
    for name in wanted:
        if name not in found:
            raise DataFileError(
                f"{path} has no variable {name!r}. It has: {_short(', '.join(there)) or 'none'}. "
                "Name yours by X_name= and y_name=."
            )
    return found


def _mat_array(
    path: Path,
    name: str,
    flags: int,
    shape: np.ndarray,
    parts: Iterator[tuple[int, memoryview]],
    order: str,
    size: int,
) -> Any:
    kind = flags & 0xFF
    if flags & _MAT_COMPLEX or len(shape) != 2 or (kind != _MAT_SPARSE and kind not in _MAT_FULL):
        raise DataFileError(f"{path}: {name} must be a matrix of real numbers.")
    n_rows, n_columns = (int(n) for n in shape)
    if kind != _MAT_SPARSE:
        values = _mat_numbers(parts, order).astype(np.float64)
        return values.reshape(n_rows, n_columns, order="F")
    _check_rows(path, n_rows, size)
    indices, indptr, values = (_mat_numbers(parts, order) for _ in range(3))
    return sp.csc_array((values, indices, indptr), shape=(n_rows, n_columns))


def _mat_numbers(parts: Iterator[tuple[int, memoryview]], order: str) -> np.ndarray:
    kind, part = _mat_next(parts)
    if kind not in _MAT_NUMBERS:
        raise ValueError("there are no numbers where some should be")
    return np.frombuffer(part, dtype=order + _MAT_NUMBERS[kind])


def _mat_next(parts: Iterator[tuple[int, memoryview]]) -> tuple[int, memoryview]:
    for part in parts:
        return part
    raise ValueError("a variable ends too early")


def _mat_elements(buffer: memoryview, order: str) -> Iterator[tuple[int, memoryview]]:
    """Yield the kind and the bytes of each element."""
    at = 0
    while at + 8 <= len(buffer):
        kind, length = struct.unpack_from(order + "II", buffer, at)
        start = at + 8
        if kind >> 16:  # up to four bytes stand in the tag itself
            kind, length, start = kind & 0xFFFF, kind >> 16, at + 4
        stop = start + length
        if stop > (at + 8 if start == at + 4 else len(buffer)):
            raise ValueError("an element is longer than what holds it")
        yield kind, buffer[start:stop]
        at = stop if kind == _MAT_COMPRESSED else stop + -stop % 8


# --- what all share ------------------------------------------------------------------------------

OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open}

READERS: dict[str, Callable[..., Data]] = {
    "npz": read_npz,
    "mtx": read_matrix_market,
    "mat": read_mat,
    "data": read_nips2003,
    "svmlight": read_svmlight,
}


def _plain_suffix(path: Path) -> str:
    """Return the suffix before ``.gz`` or ``.bz2``."""
    return Path(path.stem).suffix if path.suffix in OPENERS else path.suffix


def _check_file(path: str | PathLike[str]) -> Path:
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder, but a data file is expected.")
    if not path.exists():
        raise FileNotFoundError(f"There is no file {path}.")
    if not path.is_file():
        raise DataFileError(f"{path} is not a regular file.")
    if not path.stat().st_size:
        raise DataFileError(f"{path} is empty.")
    return path


def _read_text(path: str | PathLike[str]) -> tuple[Path, bytes]:
    """Return the UTF-8 text in a file, laid open and with something in it."""
    path = _check_file(path)
    if path.suffix in OPENERS:
        limit = max(MAX_EXPANSION * path.stat().st_size, FREE_BYTES)
        with _parsing(path, f"a {path.suffix} file"), OPENERS[path.suffix](path, "rb") as stream:
            parts, size = [], 0
            while size <= limit and (part := stream.read(2**20)):
                parts.append(part)
                size += len(part)
        _check_expansion(path, size, "Decompress it first")
        text = b"".join(parts)
    else:
        text = path.read_bytes()
    text = text.removeprefix(b"\xef\xbb\xbf")
    if not text.strip():
        raise DataFileError(f"{path} is empty.")
    if b"\0" in text or not _is_utf8(text):
        for number, line in enumerate(io.BytesIO(text), 1):
            if b"\0" in line or not _is_utf8(line):
                raise _bad_line(path, number, line, "UTF-8 text")
    return path, text


def _is_utf8(text: bytes) -> bool:
    if text.isascii():
        return True
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _check_expansion(path: Path, size: int, way_out: str) -> None:
    stored = path.stat().st_size
    if size > max(MAX_EXPANSION * stored, FREE_BYTES):
        raise DataFileError(
            f"{path} grows from {format_bytes(stored)} to {format_bytes(size)} or more, over "
            f"{MAX_EXPANSION} times its size. {way_out} if you trust it."
        )


def _check_rows(path: Path, n_rows: int, size: int) -> None:
    """Raise where the row pointers alone would be large against the file."""
    if n_rows > max(size, FREE_BYTES // 64):
        raise DataFileError(
            f"{path} says that it has {n_rows} rows, more than the {format_bytes(size)} it has can "
            "hold."
        )


def _check_width(n_features: int | None) -> None:
    user_input.check_number(
        "the reader", "n_features", n_features, low=1, integer=True, words=(None,)
    )


def _finished(path: Path, X: Any, n_features: int | None) -> sp.csr_array:
    """Return a matrix just read as a canonical CSR array of finite float64."""
    with _parsing(path, "a matrix"):
        if X.format in ("csr", "csc"):
            user_input.check_structure(X)
        X = user_input.canonical(X.astype(np.float64))
    if n_features is not None:
        if X.shape[1] > n_features:
            raise DataFileError(
                f"{path} has {X.shape[1]} columns, more than n_features={n_features}."
            )
        X.resize(X.shape[0], n_features)
    try:
        user_input.check_finite(X, str(path))
    except ValueError as error:
        raise DataFileError(str(error)) from None
    if max(*X.shape, X.nnz) <= user_input.INDEX_LIMIT:
        X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    return X


def _whole(y: np.ndarray) -> np.ndarray:
    """Return numbers as int64 where all are whole and exact."""
    return y.astype(np.int64) if (np.abs(y) < 2**53).all() and (y == np.floor(y)).all() else y


@contextmanager
def _parsing(path: Path, what: str, text: bytes | None = None) -> Iterator[None]:
    """Turn whatever a library's parser raises into one error that names the file and the line."""
    try:
        yield
    except (DataFileError, MemoryError):
        raise
    except Exception as error:
        told = str(error) or type(error).__name__
        line = re.match(r"Line (\d+): (.*)", told)
        if line and text is not None:
            number = int(line[1])
            wanted = f"{what} text ({_short(line[2].rstrip('.'))})"
            raise _bad_line(path, number, _line(text, number), wanted) from None
        raise DataFileError(f"{path} cannot be read as {what}: {_short(told)}") from error


def _bad_line(
    path: Path, number: int, line: bytes, wanted: str, word: bytes | None = None, hint: str = ""
) -> DataFileError:
    found = _quoted(line if word is None else word)
    where = "" if word is None or word == line.strip() else f" in {_quoted(line)}"
    return DataFileError(f"{path}, line {number}: expected {wanted}. Got {found}{where}{hint}.")


def _line(text: bytes, number: int) -> bytes:
    for k, line in enumerate(io.BytesIO(text), 1):
        if k == number:
            return line
    return b""


def _quoted(line: bytes) -> str:
    line = line.strip()
    return _short(repr(line[:200].decode(errors="backslashreplace"))) if line else "an empty line"


def _short(text: str, width: int = 60) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."
