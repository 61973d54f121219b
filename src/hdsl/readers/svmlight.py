"""Files in the svmlight format, also called LIBSVM."""

from __future__ import annotations

import io
import math
import re
from array import array
from os import PathLike
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from .. import checks
from . import files
from .files import Data, DataFileError
from .numpy_files import read_npz

#: The label of each line that has one. Comments and empty lines have none.
_FIRST_WORD = re.compile(rb"(?m)^[^\S\n]*[^\s#]+")


def read_svmlight(
    path: str | PathLike[str], *, n_features: int | None = None, zero_based: bool = False
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
        int64 if all labels are integers, float64 if all are numbers, else strings (dtype object).
    """
    path, text = files.read_text(path)
    files.check_n_features(n_features)
    # Python reads 1_0 as 10, and so does the parser.
    loaded = None if b"_" in text else _parse_pairs(text, n_features, zero_based)
    if loaded is None:
        labels = _check_pairs(path, text, n_features, zero_based)
        loaded = _parse_pairs(_FIRST_WORD.sub(b"0", text), n_features, zero_based)
        if loaded is None:
            raise DataFileError(f"{path} cannot be read as svmlight.")
    else:
        labels = files.as_labels(loaded[1])
    if not len(labels):
        raise DataFileError(f"{path} has no rows, only comments.")
    return files.as_csr(path, loaded[0], n_features), labels


def _parse_pairs(
    text: bytes, n_features: int | None, zero_based: bool
) -> tuple[sp.csr_matrix, np.ndarray] | None:
    """Return X and y as scikit-learn parses them, None if it raises or a value is not finite."""
    from sklearn.datasets import load_svmlight_file

    try:
        X, y = load_svmlight_file(
            io.BytesIO(text), n_features=n_features, dtype=np.float64, zero_based=zero_based
        )
    except (ValueError, OverflowError):
        return None
    return (X, y) if np.isfinite(X.data).all() and np.isfinite(y).all() else None


def _check_pairs(path: Path, text: bytes, n_features: int | None, zero_based: bool) -> np.ndarray:
    """Raise on the first bad line of ``index:value`` pairs; return the labels as strings."""
    names: dict[bytes, int] = {}
    codes = array("q")
    for number, line in enumerate(io.BytesIO(text), 1):
        label, *words = line.partition(b"#")[0].split() or [b""]
        if not label:
            continue
        if b":" in label:
            raise files.bad_line(path, number, line, "a label before the first 'index:value'")
        if not _is_finite_or_word(label):
            raise files.bad_line(path, number, line, "a finite label")
        codes.append(names.setdefault(label, len(names)))
        if words and words[0].startswith(b"qid:"):
            words.pop(0)
        fault = _first_fault(words, n_features, 0 if zero_based else 1)
        if fault is not None:
            wanted, word = fault
            has_zero = word.startswith(b"0:") and not zero_based
            way_out = ("pass zero_based=True if they count from 0", "zero_based")
            raise files.bad_line(path, number, line, wanted, word, way_out if has_zero else None)
    return np.array([name.decode() for name in names], dtype=object)[np.asarray(codes, dtype=int)]


def _first_fault(words: list[bytes], n_features: int | None, low: int) -> tuple[str, bytes] | None:
    """Return what was expected, and the first word that is not an ``index:value`` in order."""
    high = checks.INDEX_LIMIT - 1 if n_features is None else n_features - 1 + low
    last = low - 1
    for word in words:
        index, _, value = word.partition(b":")
        try:
            i, is_finite = int(index), math.isfinite(float(value))
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


def _is_finite_or_word(label: bytes) -> bool:
    try:
        return math.isfinite(float(label))
    except ValueError:
        return True


def read_matrix(
    path: str | PathLike[str], *, n_features: int | None = None, zero_based: bool = False
) -> Data:
    r"""Return the matrix in a file, and its labels if the file has them.

    Parameters
    ----------
    path : str or path
        ``.npz`` of SciPy, or svmlight under any other name, because LIBSVM names its files in many
        ways. For a matrix in another format, call its reader in SciPy and pass it to ``fit``.
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
    if Path(path).suffix == ".npz":
        return read_npz(path, n_features=n_features)
    return read_svmlight(path, n_features=n_features, zero_based=zero_based)
