"""Files of NumPy and SciPy, ``.npy`` and ``.npz``; none is unpickled."""

import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..input.paths import FilePath
from .errors import DataFileError, parsing, shorten
from .expansion import check_expansion, check_n_rows
from .files import check_file
from .sparse_rows import Data, as_csr, check_n_features

#: Bytes of the list of members in a .npz file; that of a sparse matrix has about 500.
MAX_DIRECTORY = 4096

#: The end of a zip file: its mark, its own length, and that of the longest comment.
END_OF_DIRECTORY = b"PK\5\6"
END_BYTES = 22
MAX_COMMENT = 2**16

#: Bytes that parsing takes per number, at its peak.
BYTES_PER_NUMBER = 32

#: Dimensions of the arrays that NumPy can hold.
MAX_DIMENSIONS = 64

WAY_OUT = "Save it with compressed=False"


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
    check_n_features(n_features)
    with parsing(path, "a SciPy sparse .npz file"):
        _check_n_members(path)
        with zipfile.ZipFile(path) as archive:
            size = _check_members(path, archive)
        _check_shape(path)
        X = sp.load_npz(path)  # never unpickles
        _check_kind(path, X)
    check_n_rows(path, X.shape[0], size)
    return as_csr(path, X, n_features), None


def read_array(path: FilePath) -> np.ndarray:
    """Return the array in a NumPy ``.npy`` file; pickled objects are refused.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    ndarray
    """
    path = check_file(path)
    with parsing(path, "a .npy file"), path.open("rb") as stream:
        _check_array(str(path), stream, path.stat().st_size)
        stream.seek(0)
        return np.lib.format.read_array(stream, allow_pickle=False)


def read_vector(path: FilePath, kinds: str, content: str) -> np.ndarray:
    """Return the vector in a ``.npy`` file, bytes as strings.

    Parameters
    ----------
    path : str or path
    kinds : str
        Kinds of dtype that are expected.
    content : str
        What messages say that the vector holds.
    """
    values = read_array(path)
    if values.ndim != 1 or values.dtype.kind not in kinds:
        raise DataFileError(
            f"{path} must hold a vector of {content}. Got shape {values.shape}, dtype "
            f"{values.dtype}."
        )
    if values.dtype.kind == "S":
        return _decoded(path, values)
    return values


def _decoded(path: FilePath, values: np.ndarray) -> np.ndarray:
    """Return an array of bytes of a file as strings."""
    try:
        return np.char.decode(values, "utf-8")
    except UnicodeDecodeError as error:
        raise DataFileError(
            f"{path} holds bytes that are not UTF-8: {error}."
        ) from None


# --- archives -------------------------------------------------------------------------


def _check_n_members(path: Path) -> None:
    """Raise DataFileError where the list of the members is too long, before it is parsed."""
    with path.open("rb") as stream:
        stream.seek(max(path.stat().st_size - MAX_COMMENT - END_BYTES, 0))
        _, mark, end = stream.read().rpartition(END_OF_DIRECTORY)
    if mark and int.from_bytes(end[8:12], "little") > MAX_DIRECTORY:
        raise DataFileError(
            f"{path} has far more members than the six arrays of a sparse matrix: save "
            "it with scipy.sparse.save_npz."
        )


def _check_members(path: Path, archive: zipfile.ZipFile) -> int:
    """Return the bytes of all members; raise where they, or their numbers, are too many."""
    members = archive.infolist()
    size = sum(member.file_size for member in members)
    check_expansion(path, size, WAY_OUT)
    parsed = 0
    for member in members:
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError("NumPy does not compress files in this way")
        with archive.open(member) as stream:
            name = f"{path} ({member.filename})"
            count = _check_array(name, stream, member.file_size)
        parsed += BYTES_PER_NUMBER * count // 2  # half of the numbers are indices
        check_expansion(path, parsed, WAY_OUT)
    return size


def _check_shape(path: Path) -> None:
    """Raise DataFileError where the shape in an archive is none of a matrix."""
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


# --- arrays ---------------------------------------------------------------------------


def _check_array(name: str, stream: Any, size: int) -> int:
    """Return the number of values; raise unless the header describes the bytes that follow it."""
    shape, dtype = _read_header(stream)
    if dtype.hasobject:
        raise DataFileError(
            f"{name} holds pickled Python objects, which can run code when read: save "
            "numbers or strings."
        )
    n_bytes = size - stream.tell()
    if not _describes(shape, dtype, n_bytes, size):
        raise DataFileError(
            f"{name} claims an array of shape {shorten(str(shape))} and dtype "
            f"{shorten(str(dtype))}, but {n_bytes} bytes follow: it is cut off or "
            "damaged."
        )
    return math.prod(shape)


def _read_header(stream: Any) -> tuple[tuple[int, ...], np.dtype]:
    """Return the shape and the dtype that the header of an array claims."""
    version = np.lib.format.read_magic(stream)
    try:
        if version == (1, 0):
            shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
        else:
            shape, _, dtype = np.lib.format.read_array_header_2_0(stream)
    except (MemoryError, RecursionError):  # Python's parser raises both
        raise ValueError("its header is nested too deeply") from None
    return shape, dtype


def _describes(
    shape: tuple[int, ...], dtype: np.dtype, n_bytes: int, size: int
) -> bool:
    """Whether an array of this shape and dtype takes so many bytes of a file of this size."""
    if len(shape) > MAX_DIMENSIONS:
        return False
    if any(not 0 <= n < 2**63 for n in shape):
        return False
    count = math.prod(shape)
    # Values of no bytes could be any number.
    return count * dtype.itemsize == n_bytes and count <= size
