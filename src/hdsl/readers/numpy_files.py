"""Files of NumPy and SciPy: ``.npy`` arrays and ``.npz`` sparse matrices. Nothing is unpickled."""

from __future__ import annotations

import math
import zipfile
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from . import files
from .files import Data, DataFileError

#: Bytes of the list of members in a .npz file; that of a sparse matrix has about 500.
MAX_DIRECTORY = 4096


def read_npz(path: str | PathLike[str], *, n_features: int | None = None) -> Data:
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
    files.check_n_features(n_features)
    with files.parsing(path, "a SciPy sparse .npz file"):
        _check_n_members(path)
        with zipfile.ZipFile(path) as archive:
            size = sum(member.file_size for member in archive.infolist())
            way_out = "Save it with compressed=False"
            files.check_expansion(path, size, way_out)
            parsed = 0
            for member in archive.infolist():
                if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    raise ValueError("NumPy does not compress files in this way")
                with archive.open(member) as stream:
                    count = _check_npy(path, stream, member.file_size, f" ({member.filename})")
                parsed += files.BYTES_PER_NUMBER * count // 2  # one of two is an index
                files.check_expansion(path, parsed, way_out)
        with np.load(path, allow_pickle=False) as arrays:
            if "shape" in arrays.files:
                _check_shape(path, arrays["shape"].ravel().tolist())
        X = sp.load_npz(path)  # never unpickles
        if X.format not in ("csr", "csc", "coo") or X.ndim != 2 or X.dtype.kind not in "biuf":
            raise DataFileError(
                f"{path} holds a {X.format} array with ndim={X.ndim} and dtype={X.dtype}, "
                "but a real CSR, CSC or COO matrix is expected. Convert it with .tocsr()."
            )
    files.check_n_rows(path, X.shape[0], size)
    return files.as_csr(path, X, n_features), None


def _check_n_members(path: Path) -> None:
    """Raise DataFileError where the list of the members is too long, before it is parsed."""
    with path.open("rb") as stream:
        stream.seek(max(path.stat().st_size - 2**16 - 22, 0))
        _, found, end = stream.read().rpartition(b"PK\5\6")
    if found and int.from_bytes(end[8:12], "little") > MAX_DIRECTORY:
        raise DataFileError(
            f"{path} has far more members than the six arrays of a sparse matrix: save it with "
            "scipy.sparse.save_npz."
        )


def _check_shape(path: Path, shape: list[Any]) -> None:
    if any(not isinstance(n, int) or n < 0 for n in shape):
        raise DataFileError(f"{path} has the impossible shape {files.shorten(str(shape))}.")


def read_array(path: str | PathLike[str]) -> np.ndarray:
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
            f"{path}{member} holds pickled Python objects, which can run code when read: "
            "save numbers or strings."
        )
    rest = size - stream.tell()
    count = math.prod(shape) if len(shape) <= 64 and max(shape, default=0) < 2**63 else -1
    if min(count, *shape, 0) < 0 or count * dtype.itemsize != rest or count > size:
        raise DataFileError(
            f"{path}{member} claims an array of shape {files.shorten(str(shape))} and dtype "
            f"{files.shorten(str(dtype))}, but {rest} bytes follow: it is cut off or damaged."
        )
    return count
