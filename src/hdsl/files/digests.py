"""Fingerprints of data: what a run was given, too large to be kept."""

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..rows import Rows, blocks_of


def digest(*values: Any) -> dict[str, str]:
    """Return a fingerprint of arrays, sparse arrays, mixed rows and None; equal for equal content.

    Examples
    --------
    >>> digest(np.arange(3)) == digest(np.arange(3)) != digest(np.arange(4))
    True
    """
    sha = hashlib.sha256()
    for array in map(_in_one_width, _plain_arrays(values)):
        sha.update(f"{array.dtype.str}{array.shape}".encode())
        sha.update(array.reshape(-1).view(np.uint8).data)
    return {"sha256": sha.hexdigest()}


def _plain_arrays(values: Iterable[Any]) -> Iterator[np.ndarray]:
    """Yield arrays, those of a sparse array one by one."""
    for value in values:
        if value is None:
            yield np.asarray("none")
        elif isinstance(value, Rows):
            yield from _plain_arrays(blocks_of(value))
        elif sp.issparse(value):
            yield np.array(value.shape)
            yield value.indptr.astype(np.int64)
            yield value.indices.astype(np.int64)
            yield value.data
        else:
            yield np.asarray(value)


def _in_one_width(array: np.ndarray) -> np.ndarray:
    """Return an array with the same bytes for integers of any width, and for objects their text."""
    match array.dtype.kind:
        case "O":
            array = np.array([repr(value) for value in array.ravel()], dtype=str)
        case "i":
            array = array.astype(np.int64)
        case "u":
            array = array.astype(np.uint64)
    return np.ascontiguousarray(array)
