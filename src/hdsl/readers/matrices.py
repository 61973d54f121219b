"""Files of rows and labels: svmlight, SciPy's ``.npz``, NumPy's ``.npy``; none is unpickled."""

import io
import math
import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..input.matrices import (
    INDEX_LIMIT,
    canonical,
    check_finite,
    check_structure,
    narrow,
)
from ..input.parameters import check_number
from ..input.paths import FilePath
from . import files
from .files import DataFileError

Data = tuple[sp.csr_array, np.ndarray | None]

#: Bytes of the list of members in a .npz file; that of a sparse matrix has about 500.
MAX_DIRECTORY = 4096

#: The label of each line that has one. Comments and empty lines have none.
_FIRST_WORD = re.compile(rb"(?m)^[^\S\n]*[^\s#]+")


def read_matrix(
    path: FilePath, *, n_features: int | None = None, zero_based: bool = False
) -> Data:
    r"""Return the matrix in a file, and its labels if the file has them.

    Parameters
    ----------
    path : str or path
        ``.npz`` of SciPy, or svmlight under any other name, because LIBSVM names its
        files in many ways. For a matrix in another format, call its reader in SciPy and
        pass it to ``fit``.
    n_features : int, default=None
        Number of columns. None takes that of the file, or the largest index in it.
    zero_based : bool, default=False
        Whether indices of an svmlight file count from 0.

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
    if Path(path).suffix.lower() == ".npz":
        return read_npz(path, n_features=n_features)
    return read_svmlight(path, n_features=n_features, zero_based=zero_based)


# --- svmlight -------------------------------------------------------------------------


def read_svmlight(
    path: FilePath, *, n_features: int | None = None, zero_based: bool = False
) -> Data:
    """Return X and y of an svmlight file: lines ``label index:value index:value ...``.

    Parameters
    ----------
    path : str or path
        May end in ``.gz`` or ``.bz2``.
    n_features : int, default=None
        Number of columns. None takes the largest index.
    zero_based : bool, default=False
        Whether indices count from 0. They increase within each line.

    Returns
    -------
    X : csr_array of shape (n_rows, n_features)
    y : ndarray of shape (n_rows,)
        int64 if all labels are integers, float64 if all are numbers, else strings
        (dtype object).
    """
    path, text = files.read_text(path)
    _check_n_features(n_features)
    # Python reads 1_0 as 10, and so does the parser.
    loaded = None if b"_" in text else _parse_pairs(text, n_features, zero_based)
    if loaded is None or (np.abs(loaded[1]) >= 2**53).any():  # so many digits are names
        labels = _check_pairs(path, text, n_features, zero_based)
        loaded = _parse_pairs(_FIRST_WORD.sub(b"0", text), n_features, zero_based)
        if loaded is None:
            raise DataFileError(f"{path} cannot be read as svmlight.")
    else:
        labels = _as_labels(loaded[1])
    if not len(labels):
        raise DataFileError(f"{path} has no rows, only comments.")
    return _as_csr(path, loaded[0], n_features), labels


def _parse_pairs(
    text: bytes, n_features: int | None, zero_based: bool
) -> tuple[sp.csr_matrix, np.ndarray] | None:
    """Return X and y as scikit-learn parses them, None if it raises or a value is not finite."""
    from sklearn.datasets import load_svmlight_file

    try:
        X, y = load_svmlight_file(
            io.BytesIO(text),
            n_features=n_features,
            dtype=np.float64,
            zero_based=zero_based,
        )
    except (ValueError, OverflowError):
        return None
    return (X, y) if np.isfinite(X.data).all() and np.isfinite(y).all() else None


def _check_pairs(
    path: Path, text: bytes, n_features: int | None, zero_based: bool
) -> np.ndarray:
    """Raise on the first bad line of ``index:value`` pairs; return the labels as strings."""
    labels: list[bytes] = []
    for number, line in enumerate(io.BytesIO(text), 1):
        label, *words = line.partition(b"#")[0].split() or [b""]
        if not label:
            continue
        if b":" in label:
            raise files.bad_line(
                path, number, line, "a label before the first 'index:value'"
            )
        if not _is_finite_or_word(label):
            raise files.bad_line(path, number, line, "a finite label")
        labels.append(label)
        if words and words[0].startswith(b"qid:"):
            words.pop(0)
        fault = _first_fault(words, n_features, 0 if zero_based else 1)
        if fault is not None:
            wanted, word = fault
            has_zero = word.startswith(b"0:") and not zero_based
            way_out = ("pass zero_based=True if they count from 0", "zero_based")
            raise files.bad_line(
                path, number, line, wanted, word, way_out if has_zero else None
            )
    return _as_strings(labels)


def _first_fault(
    words: list[bytes], n_features: int | None, low: int
) -> tuple[str, bytes] | None:
    """Return what was expected, and the first word that is not an ``index:value`` in order."""
    high = INDEX_LIMIT - 1 if n_features is None else n_features - 1 + low
    last = low - 1
    for word in words:
        index, _, value = word.partition(b":")
        try:
            i = int(index)
            is_finite = math.isfinite(float(value))
        except ValueError:
            return "'index:value'", word
        if b"_" in word:
            return "'index:value' in plain digits", word
        if i < low:
            return f"an index >= {low}", word
        if i > high:
            why = "" if n_features is None else f" (n_features={n_features})"
            return f"an index <= {high}{why}", word
        if i <= last:
            return f"an index > {last}: they must increase", word
        if not is_finite:
            return "a finite value", word
        last = i
    return None


# --- labels ---------------------------------------------------------------------------


def read_labels(path: FilePath) -> np.ndarray:
    """Return the labels in a file: a NumPy ``.npy`` vector, or text with one label per line.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    ndarray of shape (n_rows,)
        int64, float64 or strings (dtype object) as in `read_svmlight`; from ``.npy`` as
        stored, but for floats that are all integers.
    """
    if Path(path).suffix.lower() == ".npy":
        y = read_array(path)
        if y.ndim != 1 or y.dtype.kind not in "biufSU":
            raise DataFileError(
                f"{path} must hold a vector of labels, numbers or strings. Got shape "
                f"{y.shape}, dtype {y.dtype}."
            )
        if y.dtype.kind == "f" and not np.isfinite(y).all():
            raise DataFileError(f"{path} has a label that is NaN or infinite.")
        y = _as_labels(y) if y.dtype.kind == "f" else y
        return np.char.decode(y, "utf-8") if y.dtype.kind == "S" else y
    path, text = files.read_text(path)
    labels = []
    for number, line in enumerate(io.BytesIO(text.rstrip()), 1):
        words = line.split()
        if len(words) != 1 or not _is_finite_or_word(
            words[0]
        ):  # later ones would shift
            raise files.bad_line(path, number, line, "one label per line, NaN is none")
        labels += words
    try:
        y = np.array([float(b"x" if b"_" in label else label) for label in labels])
        return _as_strings(labels) if (np.abs(y) >= 2**53).any() else _as_labels(y)
    except ValueError:
        return _as_strings(labels)


def _as_labels(y: np.ndarray) -> np.ndarray:
    """Return numeric labels as int64 if all are integers that float64 holds exactly."""
    return (
        y.astype(np.int64)
        if (np.abs(y) < 2**53).all() and (y == np.floor(y)).all()
        else y
    )


def _as_strings(labels: list[bytes]) -> np.ndarray:
    """Return labels as strings, equal ones as one object."""
    known: dict[bytes, str] = {}
    return np.array([known.setdefault(x, x.decode()) for x in labels], dtype=object)


def _is_finite_or_word(label: bytes) -> bool:
    try:
        return math.isfinite(float(label))
    except ValueError:
        return True


# --- NumPy and SciPy ------------------------------------------------------------------


def read_npz(path: FilePath, *, n_features: int | None = None) -> Data:
    """Return X of a file made by `scipy.sparse.save_npz`, and None for the labels.

    Parameters
    ----------
    path : str or path
        A CSR, CSC or COO matrix.
    n_features : int, default=None
        Number of columns. None takes that of the file.

    Returns
    -------
    X : csr_array of shape (n_rows, n_features)
    y : None
    """
    path = files.check_file(path)
    _check_n_features(n_features)
    with files.parsing(path, "a SciPy sparse .npz file"):
        _check_n_members(path)
        with zipfile.ZipFile(path) as archive:
            size = sum(member.file_size for member in archive.infolist())
            way_out = "Save it with compressed=False"
            files.check_expansion(path, size, way_out)
            parsed = 0
            for member in archive.infolist():
                if member.compress_type not in (
                    zipfile.ZIP_STORED,
                    zipfile.ZIP_DEFLATED,
                ):
                    raise ValueError("NumPy does not compress files in this way")
                with archive.open(member) as stream:
                    count = _check_npy(
                        path, stream, member.file_size, f" ({member.filename})"
                    )
                parsed += files.BYTES_PER_NUMBER * count // 2  # one of two is an index
                files.check_expansion(path, parsed, way_out)
        with np.load(path, allow_pickle=False) as arrays:
            shape = arrays["shape"].ravel().tolist() if "shape" in arrays.files else []
        if any(not isinstance(n, int) or n < 0 for n in shape):
            raise DataFileError(
                f"{path} has the impossible shape {files.shorten(str(shape))}."
            )
        X = sp.load_npz(path)  # never unpickles
        if (
            X.format not in ("csr", "csc", "coo")
            or X.ndim != 2
            or X.dtype.kind not in "biuf"
        ):
            raise DataFileError(
                f"{path} holds a {X.format} array with ndim={X.ndim} and "
                f"dtype={X.dtype}, but a real CSR, CSC or COO matrix is expected. "
                "Convert it with .tocsr()."
            )
    files.check_n_rows(path, X.shape[0], size)
    return _as_csr(path, X, n_features), None


def _check_n_members(path: Path) -> None:
    """Raise DataFileError where the list of the members is too long, before it is parsed."""
    with path.open("rb") as stream:
        stream.seek(max(path.stat().st_size - 2**16 - 22, 0))
        _, found, end = stream.read().rpartition(b"PK\5\6")
    if found and int.from_bytes(end[8:12], "little") > MAX_DIRECTORY:
        raise DataFileError(
            f"{path} has far more members than the six arrays of a sparse matrix: save "
            "it with scipy.sparse.save_npz."
        )


def read_array(path: FilePath) -> np.ndarray:
    """Return the array in a NumPy ``.npy`` file; pickled objects are refused.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    ndarray
    """
    path = files.check_file(path)
    with files.parsing(path, "a .npy file"), path.open("rb") as stream:
        _check_npy(path, stream, path.stat().st_size)
        stream.seek(0)
        return np.lib.format.read_array(stream, allow_pickle=False)


def _check_npy(path: Path, stream: Any, size: int, member: str = "") -> int:
    """Return the number of values; raise unless the header describes the bytes that follow it."""
    version = np.lib.format.read_magic(stream)
    try:
        if version == (1, 0):
            shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
        else:
            shape, _, dtype = np.lib.format.read_array_header_2_0(stream)
    except (MemoryError, RecursionError):  # Python's parser raises both
        raise ValueError("its header is nested too deeply") from None
    if dtype.hasobject:
        raise DataFileError(
            f"{path}{member} holds pickled Python objects, which can run code when "
            "read: save numbers or strings."
        )
    rest = size - stream.tell()
    count = (
        math.prod(shape) if len(shape) <= 64 and max(shape, default=0) < 2**63 else -1
    )
    if min(count, *shape, 0) < 0 or count * dtype.itemsize != rest or count > size:
        raise DataFileError(
            f"{path}{member} claims an array of shape {files.shorten(str(shape))} and "
            f"dtype {files.shorten(str(dtype))}, but {rest} bytes follow: it is cut "
            "off or damaged."
        )
    return count


def _check_n_features(n_features: int | None) -> None:
    check_number(
        "the reader", "n_features", n_features, low=1, integer=True, words=(None,)
    )


def _as_csr(path: Path, X: Any, n_features: int | None) -> sp.csr_array:
    """Return a matrix from a file as a canonical CSR array of finite float64."""
    with files.parsing(path, "a matrix"):
        if X.format in ("csr", "csc"):
            check_structure(X)
        X = canonical(X.astype(np.float64))
    if n_features is not None:
        if X.shape[1] > n_features:
            raise DataFileError(
                f"{path} has {X.shape[1]} columns, more than n_features={n_features}."
            )
        X.resize(X.shape[0], n_features)
    try:
        check_finite(X, str(path))
    except ValueError as error:
        raise DataFileError(str(error)) from None
    return narrow(X)
