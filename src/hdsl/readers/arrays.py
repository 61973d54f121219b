"""Arrays in NumPy's .npy files, which are never unpickled: a header must fit its file."""

import math
from typing import Any

import numpy as np

from ..input.parameters import FilePath
from .files import DataFileError, check_file, parsing, shorten

#: Dimensions of the arrays that NumPy can hold.
MAX_DIMENSIONS = 64


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
        check_array(str(path), stream, path.stat().st_size)
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


def check_array(name: str, stream: Any, size: int) -> int:
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
