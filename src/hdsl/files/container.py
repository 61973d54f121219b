"""Model files and checkpoints: arrays and one JSON header in a safetensors file, and no code.

The metadata of the file has one key, whose value is JSON: the header, the number of the
format, and the checksum of header and arrays. The same content makes the same bytes.
Readers of arrays and header check their values: this module promises plain arrays and a
dict, as they were written.
"""

import hashlib
import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import safetensors.numpy
import scipy.sparse as sp

from ..input.errors import short
from ..input.matrices import check_structure, narrow
from ..input.parameters import FilePath
from .atomic import atomic_write, check_regular

Arrays = dict[str, np.ndarray]

#: The number of the format that is written.
FORMAT = 6

#: The formats that are read: 5 has one fixed part of the similarity and no list of them.
READABLE = (5, FORMAT)

KEY = "hdsl"

#: Letters of what a message says about a file, whose values may be of any length.
LONGEST = 300


class OtherVersionError(ValueError):
    """A file that is whole, but of another version of the package."""


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
            raise OtherVersionError(f"it has another format: {way_out}")
        if recorded != checksum(arrays, text):
            raise ValueError("its checksum is wrong")
        header = json.loads(text)
        if not isinstance(header, dict):
            raise ValueError("its header is not an object")
    except OtherVersionError as error:
        raise OtherVersionError(f"Cannot load {name!r}: {error}.") from None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ValueError(f"Cannot load {name!r}: {damaged(str(error)[:200])}") from None
    return arrays, header


def damaged(what: str) -> str:
    """Return a message about a file whose content is not as it was written."""
    what = what[:LONGEST].rstrip(".")
    return f"{what}. The file is damaged: copy it again, or save the model anew."


def dumps(value: Any) -> str:
    """Return a value as JSON with sorted keys; raise ValueError if a part has no form in JSON."""
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


# --- parts ----------------------------------------------------------------------------


def nested(**parts: Arrays) -> Arrays:
    """Return the arrays of several parts as one dictionary, under ``part.name``."""
    joined = {}
    for prefix, arrays in parts.items():
        for name, array in arrays.items():
            joined[f"{prefix}.{name}"] = array
    return joined


def part_of(arrays: Arrays, prefix: str) -> Arrays:
    """Return the arrays of the part of `nested` that has this name.

    Examples
    --------
    >>> part_of(nested(a={"x": np.zeros(1)}, b={"y": np.ones(1)}), "b")
    {'y': array([1.])}
    """
    start = prefix + "."
    return {
        name.removeprefix(start): array
        for name, array in arrays.items()
        if name.startswith(start)
    }


def get_array(
    arrays: Arrays,
    name: str,
    kinds: str = "biufO",
    shape: tuple[int | None, ...] | None = None,
) -> np.ndarray:
    """Return an array from a file, its numbers finite.

    Parameters
    ----------
    arrays : dict of str to ndarray
    name : str
    kinds : str, default="biufO"
        Kinds of dtype that are allowed.
    shape : tuple of int or None, default=None
        None in it is any number; None is any shape.

    Raises
    ------
    ValueError
        The array is missing or another one.
    """
    array = arrays.get(name)
    if not isinstance(array, np.ndarray):
        raise ValueError(f"array {short(name)} is missing")
    if array.dtype.kind not in kinds or not _has_shape(array, shape):
        expected = str(shape).replace("None", "n")
        raise ValueError(
            f"{name} is of {array.dtype} and shape {array.shape}, expected a dtype in "
            f"{kinds!r} and shape {expected}"
        )
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ValueError(f"{name} must hold finite numbers")
    return array


def _has_shape(array: np.ndarray, shape: tuple[int | None, ...] | None) -> bool:
    """Whether an array has a shape, in which None is any number; None is any shape."""
    if shape is None:
        return True
    if array.ndim != len(shape):
        return False
    return all(n in (None, m) for n, m in zip(shape, array.shape, strict=True))


def get_value(header: dict[str, Any], name: str, kind: type) -> Any:
    """Return a value of a header; raise ValueError unless it is of exactly this type."""
    value = None
    if isinstance(header, Mapping):
        value = header.get(name)
    if type(value) is not kind:
        raise ValueError(f"{short(name)} is {short(value)}, expected {kind.__name__}")
    return value


# --- strings --------------------------------------------------------------------------


def pack_strings(name: str, strings: Sequence[str]) -> Arrays:
    """Return strings as the bytes of a JSON list, under a name; every str comes back as it was.

    Examples
    --------
    >>> get_strings(pack_strings("words", ["one", "", "ü"]), "words").tolist()
    ['one', '', 'ü']
    """
    text = json.dumps(list(strings), ensure_ascii=False)
    raw = text.encode("utf-8", "surrogatepass")
    return {f"{name}.text": np.frombuffer(raw, dtype=np.uint8)}


def get_strings(arrays: Arrays, name: str) -> np.ndarray:
    """Return the strings of `pack_strings` as objects; raise ValueError if one is not a string."""
    letters = get_array(arrays, f"{name}.text", "u", (None,))
    raw = letters.astype(np.uint8, copy=False).tobytes()
    strings = json.loads(raw.decode("utf-8", "surrogatepass"))
    is_list = isinstance(strings, list)
    if not is_list or not all(isinstance(string, str) for string in strings):
        raise ValueError(f"{name} must be a list of strings")
    return np.array(strings, dtype=object)


def is_text(value: np.ndarray) -> bool:
    """Return whether an array is a vector of strings."""
    is_vector = value.ndim == 1 and value.dtype.kind in "OUT"
    return is_vector and all(isinstance(v, str) for v in value)


def pack_values(name: str, values: np.ndarray) -> Arrays:
    """Return a vector of numbers or of strings, such as labels, under a name."""
    if is_text(values):
        return pack_strings(name, values.tolist())
    if values.dtype.kind not in "biuf":
        raise ValueError(
            f"{name} must be numbers or strings to be saved. Got {values.dtype}."
        )
    return {name: values}


def unpack_values(arrays: Arrays, name: str, n: int | None = None) -> np.ndarray:
    """Return the vector of `pack_values`, strings as objects; raise ValueError if it is not one."""
    if name in arrays:
        return get_array(arrays, name, "biuf", (n,))
    values = get_strings(arrays, name)
    if n not in (None, len(values)):
        raise ValueError(f"{name} has {len(values)} entries, expected {n}")
    return values


# --- tables ---------------------------------------------------------------------------


def pack_table(table: np.ndarray, name: str) -> tuple[Arrays, dict[str, Any]]:
    """Return the bytes of a structured array under a name, and a layout that JSON can hold.

    Parameters
    ----------
    table : structured ndarray of shape (n_rows,)
    name : str

    Returns
    -------
    arrays : dict of str to ndarray of uint8
    layout : dict
        "columns" holds name and dtype of each column.

    Examples
    --------
    >>> table = np.array([(1, "up"), (300, "up")], dtype=[("n", "i8"), ("kind", "U8")])
    >>> arrays, layout = pack_table(table, "steps")
    >>> layout
    {'columns': [['n', '<i8'], ['kind', '<U8']]}
    >>> unpack_table(arrays, "steps", layout)
    array([(  1, 'up'), (300, 'up')], dtype=[('n', '<i8'), ('kind', '<U8')])
    """
    columns = [
        [column, table.dtype[column].newbyteorder("<").str]
        for column in table.dtype.names or ()
    ]
    raw = table.astype([tuple(column) for column in columns]).tobytes()
    return {name: np.frombuffer(raw, np.uint8)}, {"columns": columns}


def unpack_table(arrays: Arrays, name: str, layout: Any) -> np.ndarray:
    """Return the structured array of `pack_table`; raise ValueError if arrays or layout are bad."""
    raw = get_array(arrays, name, "u", (None,))
    columns = get_value(layout, "columns", list)
    for column in columns:
        if not _is_column(column):
            raise ValueError(f"{name} has the impossible column {short(column)}")
    dtype = np.dtype([tuple(column) for column in columns])
    if raw.dtype != np.uint8 or not columns or raw.size % dtype.itemsize:
        raise ValueError(
            f"{name} has {raw.size} bytes, expected a multiple of {dtype.itemsize}"
        )
    table = np.frombuffer(raw.tobytes(), dtype).copy()
    for column in dtype.names or ():
        if dtype[column].kind == "U" and not _is_unicode(table[column]):
            raise ValueError(
                f"column {column!r} of {name} has characters that there are not"
            )
    return table


def _is_column(column: Any) -> bool:
    """Whether a value of a layout is the name of a column and its dtype, a plain one."""
    if not isinstance(column, list) or len(column) != 2:
        return False
    if not all(isinstance(text, str) for text in column):
        return False
    _, dtype = column
    return re.fullmatch(r"[<|][biuf][1248]|<U[1-9][0-9]?", dtype) is not None


def _is_unicode(strings: np.ndarray) -> bool:
    """Whether all characters of an array of strings exist."""
    codes = np.ascontiguousarray(strings).view(np.uint32)
    return bool(np.max(codes, initial=0) <= sys.maxunicode)


# --- columns and rows -----------------------------------------------------------------


def check_columns(columns: np.ndarray, n_features: int) -> None:
    """Raise ValueError unless these are column numbers, sorted, at least one."""
    is_sorted = columns.ndim == 1 and columns.dtype == np.int64 and len(columns) > 0
    is_sorted = is_sorted and bool((columns[1:] > columns[:-1]).all())
    if not is_sorted or columns[0] < 0 or columns[-1] >= n_features:
        raise ValueError(
            "columns must hold rising column numbers, below n_features_in."
        )


def csr_to_arrays(rows: sp.csr_array, name: str) -> Arrays:
    """Return sparse rows as ``name``, ``name_indices`` and ``name_indptr``."""
    return {
        name: rows.data.astype(np.float64),
        f"{name}_indices": rows.indices.astype(np.int64),
        f"{name}_indptr": rows.indptr.astype(np.int64),
    }


def csr_from_arrays(arrays: Arrays, name: str, n_features: int) -> sp.csr_array:
    """Return the rows of `csr_to_arrays`; raise ValueError if the arrays are not rows."""
    indptr = get_array(arrays, f"{name}_indptr", "i", (None,))
    data = get_array(arrays, name, "f", (None,))
    indices = get_array(arrays, f"{name}_indices", "i", (len(data),))
    if not len(indptr) or indptr[0] != 0 or indptr[-1] != len(data):
        raise ValueError(f"{name}_indptr must rise from 0 to {len(data)}")
    rows = sp.csr_array((data, indices, indptr), shape=(len(indptr) - 1, n_features))
    check_structure(rows, name)
    return narrow(rows)
