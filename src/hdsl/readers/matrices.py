"""Sparse rows in files, svmlight and SciPy's .npz: parsed by libraries, and not trusted.

scikit-learn parses svmlight and SciPy loads .npz. What stands around them is for hostile
files, whose sizes are checked before memory is allocated, and for messages that name
the line.
"""

import io
import math
import re
import zipfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..input.matrices import INDEX_LIMIT, canonical, check_finite, narrow, sound_csr
from ..input.parameters import FilePath, check_number
from .arrays import check_array
from .files import (
    DataFileError,
    bad_line,
    check_expansion,
    check_file,
    check_n_rows,
    parsing,
    quoted,
    read_text,
    shorten,
)
from .labels import as_labels, as_strings, have_many_digits, is_finite_or_word

#: X of shape (n_rows, n_features), and the labels if the file has them.
Data = tuple[sp.csr_array, np.ndarray | None]

#: The label of each line of svmlight that has one. Comments and empty lines have none.
_FIRST_WORD = re.compile(rb"(?m)^[^\S\n]*[^\s#]+")

#: Bytes of the list of members in a .npz file; that of a sparse matrix has about 500.
MAX_DIRECTORY = 4096

#: The end of a zip file: its mark, its own length, and that of the longest comment.
END_OF_DIRECTORY = b"PK\5\6"
END_BYTES = 22
MAX_COMMENT = 2**16

#: Bytes that parsing takes per number, at its peak.
BYTES_PER_NUMBER = 32

WAY_OUT = "Save it with compressed=False"


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


def _check_n_features(n_features: int | None) -> None:
    """Raise ValueError unless this is a number of columns, or None."""
    check_number(
        "the reader", "n_features", n_features, low=1, integer=True, words=(None,)
    )


def _as_csr(path: Path, X: Any, n_features: int | None) -> sp.csr_array:
    """Return a matrix from a file as a canonical CSR array of finite float64."""
    with parsing(path, "a matrix"):
        X = canonical(sound_csr(X).astype(np.float64))
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
    path, text = read_text(path)
    _check_n_features(n_features)
    numbering = Numbering(n_features, zero_based)
    X, labels = _rows_and_labels(path, text, numbering)
    if not len(labels):
        raise DataFileError(f"{path} has no rows, only comments.")
    return _as_csr(path, X, n_features), labels


@dataclass(frozen=True)
class Numbering:
    """How the indices of a file number the columns."""

    n_features: int | None
    zero_based: bool

    @property
    def first(self) -> int:
        """The index of the first column."""
        return 0 if self.zero_based else 1

    @property
    def last(self) -> int:
        """The largest index that is allowed."""
        if self.n_features is None:
            return INDEX_LIMIT - 1
        return self.n_features - 1 + self.first

    @property
    def last_expected(self) -> str:
        """What a message says of the largest index."""
        if self.n_features is None:
            return f"an index <= {self.last}"
        return f"an index <= {self.last} (n_features={self.n_features})"


def _rows_and_labels(
    path: Path, text: bytes, numbering: Numbering
) -> tuple[sp.csr_matrix, np.ndarray]:
    """Return X, and labels as the simplest kind that holds all of them."""
    if b"_" not in text:  # Python reads 1_0 as 10, and so does the parser
        with suppress(ValueError, OverflowError):  # names, or a fault in a line
            X, numbers = _parsed(text, numbering)
            if not have_many_digits(numbers):
                return X, as_labels(numbers)
    labels = _check_lines(path, text, numbering)
    try:
        X, _ = _parsed(_FIRST_WORD.sub(b"0", text), numbering)
    except (ValueError, OverflowError):
        raise DataFileError(f"{path} cannot be read as svmlight.") from None
    return X, labels


def _parsed(text: bytes, numbering: Numbering) -> tuple[sp.csr_matrix, np.ndarray]:
    """Return X and y as scikit-learn parses them; raise ValueError if a value is not finite."""
    from sklearn.datasets import load_svmlight_file

    X, y = load_svmlight_file(
        io.BytesIO(text),
        n_features=numbering.n_features,
        dtype=np.float64,
        zero_based=numbering.zero_based,
    )
    if not np.isfinite(X.data).all() or not np.isfinite(y).all():
        raise ValueError("a value is not finite")
    return X, y


def _check_lines(path: Path, text: bytes, numbering: Numbering) -> np.ndarray:
    """Raise on the first bad line of ``index:value`` pairs; return the labels as strings."""
    labels: list[bytes] = []
    for number, line in enumerate(io.BytesIO(text), 1):
        words = line.partition(b"#")[0].split()
        if not words:
            continue
        label = words.pop(0)
        if b":" in label:
            wanted = "a label before the first 'index:value'"
            raise bad_line(path, number, line, wanted)
        if not is_finite_or_word(label):
            raise bad_line(path, number, line, "a finite label")
        labels.append(label)
        if words and words[0].startswith(b"qid:"):
            words.pop(0)
        _check_words(f"{path}, line {number}", line, words, numbering)
    return as_strings(labels)


def _check_words(
    where: str, line: bytes, words: list[bytes], numbering: Numbering
) -> None:
    """Raise on the first word of a line that is not an ``index:value`` in order."""
    largest = numbering.first - 1
    for word in words:
        wanted = _expected(word, largest, numbering)
        if wanted is None:
            largest = int(word.partition(b":")[0])
            continue
        facts = f"{where}: expected {wanted}. Got {quoted(word)}"
        if word != line.strip():
            facts += f" in {quoted(line)}"
        if word.startswith(b"0:") and not numbering.zero_based:
            way_out = "pass zero_based=True if they count from 0"
            raise DataFileError(facts, way_out, "zero_based")
        raise DataFileError(f"{facts}.")


def _expected(word: bytes, largest: int, numbering: Numbering) -> str | None:
    """Return what a word should be that follows the index `largest`, None if it is."""
    index, _, value = word.partition(b":")
    try:
        i = int(index)
        is_finite = math.isfinite(float(value))
    except ValueError:
        return "'index:value'"
    if b"_" in word:
        return "'index:value' in plain digits"
    if i < numbering.first:
        return f"an index >= {numbering.first}"
    if i > numbering.last:
        return numbering.last_expected
    if i <= largest:
        return f"an index > {largest}: they must increase"
    if not is_finite:
        return "a finite value"
    return None


# --- .npz -----------------------------------------------------------------------------


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
    path = check_file(path)
    _check_n_features(n_features)
    with parsing(path, "a SciPy sparse .npz file"):
        _check_n_members(path)
        with zipfile.ZipFile(path) as archive:
            size = _check_members(path, archive)
        _check_shape(path)
        X = sp.load_npz(path)  # never unpickles
        _check_kind(path, X)
    check_n_rows(path, X.shape[0], size)
    return _as_csr(path, X, n_features), None


def _check_n_members(path: Path) -> None:
    """Raise DataFileError if the list of the members is too long, before it is parsed."""
    with path.open("rb") as stream:
        stream.seek(max(path.stat().st_size - MAX_COMMENT - END_BYTES, 0))
        _, mark, end = stream.read().rpartition(END_OF_DIRECTORY)
    if mark and int.from_bytes(end[8:12], "little") > MAX_DIRECTORY:
        raise DataFileError(
            f"{path} has far more members than the six arrays of a sparse matrix: save "
            "it with scipy.sparse.save_npz."
        )


def _check_members(path: Path, archive: zipfile.ZipFile) -> int:
    """Return the bytes of all members; raise if they, or their numbers, are too many."""
    members = archive.infolist()
    size = sum(member.file_size for member in members)
    check_expansion(path, size, WAY_OUT)
    parsed = 0
    for member in members:
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError("NumPy does not compress files in this way")
        with archive.open(member) as stream:
            name = f"{path} ({member.filename})"
            count = check_array(name, stream, member.file_size)
        parsed += BYTES_PER_NUMBER * count // 2  # half of the numbers are indices
        check_expansion(path, parsed, WAY_OUT)
    return size


def _check_shape(path: Path) -> None:
    """Raise DataFileError if the shape in an archive cannot be that of a matrix."""
    with np.load(path, allow_pickle=False) as arrays:
        if "shape" not in arrays.files:
            return
        shape = arrays["shape"].ravel().tolist()
    if any(not isinstance(n, int) or n < 0 for n in shape):
        raise DataFileError(f"{path} has the impossible shape {shorten(str(shape))}.")


def _check_kind(path: Path, X: Any) -> None:
    """Raise DataFileError unless X is a real matrix in one of three formats."""
    is_known = X.format in ("csr", "csc", "coo")
    if not is_known or X.ndim != 2 or X.dtype.kind not in "biuf":
        raise DataFileError(
            f"{path} holds a {X.format} array with ndim={X.ndim} and "
            f"dtype={X.dtype}, but a real CSR, CSC or COO matrix is expected. "
            "Convert it with .tocsr()."
        )
