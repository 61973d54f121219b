"""Model files and checkpoints: arrays and one JSON header in a safetensors file, and no code.

The metadata of the file has one key, whose value is JSON: the header, the number of the
format, and the checksum of header and arrays. The same content makes the same bytes.
Readers of arrays and header check their values: this module promises plain arrays and a
dict, as they were written.
"""

import hashlib
import json
import os
from typing import Any

import numpy as np
import safetensors.numpy

from ..input.paths import FilePath
from .atomic import atomic_write, check_regular

Arrays = dict[str, np.ndarray]

#: The number of the format that is written.
FORMAT = 6

#: The formats that are read: 5 has one fixed part of the similarity and no list of them.
READABLE = (5, FORMAT)

KEY = "hdsl"

#: Letters of what a message says about a file, whose values may be of any length.
LONGEST = 300


def write(
    path: FilePath, arrays: Arrays, header: dict[str, Any], *, what: str = "the model"
) -> None:
    """Write arrays of numbers and a header that JSON has a form for, as a whole or not at all.

    Parameters
    ----------
    path : str or path-like
    arrays : dict of str to ndarray
    header : dict
        Tuples become lists, and NumPy scalars plain numbers.
    what : str, default="the model"
        What error messages call the file.
    """
    plain = {name: _as_stored(name, array) for name, array in sorted(arrays.items())}
    text = dumps(header)
    sealed = json.dumps(
        {"format": FORMAT, "header": text, "sha256": checksum(plain, text)}
    )
    raw = safetensors.numpy.save(plain, metadata={KEY: sealed})
    with atomic_write(path, what) as file:
        file.write(raw)


def read(path: FilePath) -> tuple[Arrays, dict[str, Any]]:
    """Return the arrays and the header of a file.

    Raises
    ------
    ValueError
        The file is damaged, of another program, or of another format.
    """
    name = os.fsdecode(path)
    check_regular(os.stat(path).st_mode, name)
    with open(path, "rb") as file:
        raw = file.read()
    try:
        arrays = safetensors.numpy.load(raw)
        header_size = int.from_bytes(raw[:8], "little")
        metadata = json.loads(raw[8 : 8 + header_size])["__metadata__"]
    except Exception as error:
        # Errors of safetensors, and of NumPy for dtypes that it has not.
        raise ValueError(_not_ours(name, raw, str(error))) from None
    if KEY not in metadata:
        raise ValueError(_not_ours(name, raw, ""))
    try:
        sealed = json.loads(metadata[KEY])
        version = sealed["format"]
        text = sealed["header"]
        recorded = sealed["sha256"]
        if version not in READABLE:
            way_out = "fit again"
            if isinstance(version, int) and version > FORMAT:
                way_out = "update hdsl"
            raise ValueError(f"it has another format: {way_out}")
        if recorded != checksum(arrays, text):
            raise ValueError("its checksum is wrong")
        header = json.loads(text)
        if not isinstance(header, dict):
            raise ValueError("its header is not an object")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ValueError(f"Cannot load {name!r}: {damaged(str(error)[:200])}") from None
    return arrays, header


def damaged(what: str) -> str:
    """Return a message about a file whose content is not as it was written."""
    what = what[:LONGEST].rstrip(".")
    return f"{what}. The file is damaged: copy it again, or save the model anew."


def dumps(value: Any) -> str:
    """Return a value as JSON with sorted keys; raise ValueError where it has no form for a part."""
    try:
        return json.dumps(value, sort_keys=True, default=_plain)
    except (TypeError, RecursionError) as error:
        raise ValueError(
            "A model file holds arrays, numbers, strings, and lists and dicts of "
            f"them: {error}."
        ) from None


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} is none of them")


def _as_stored(name: str, array: np.ndarray) -> np.ndarray:
    if array.dtype.kind not in "biuf":
        raise ValueError(
            f"A model file holds arrays of numbers. {name!r} is of {array.dtype}."
        )
    return np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")


def checksum(arrays: Arrays, text: str) -> str:
    """Return the SHA-256 of arrays and the text of a header."""
    sha = hashlib.sha256(text.encode("utf-8", "surrogatepass"))
    for name, array in sorted(arrays.items()):
        sha.update(
            f"{name}\0{array.dtype.str}{array.shape}".encode("utf-8", "surrogatepass")
        )
        sha.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return sha.hexdigest()


def _not_ours(name: str, raw: bytes, reason: str) -> str:
    if not raw:
        return f"Cannot load {name!r}: it is empty."
    message = f"Cannot load {name!r}: it is not a model file of hdsl, or it is damaged"
    if reason:
        message += f" ({reason[:100]})"
    return f"{message}."
