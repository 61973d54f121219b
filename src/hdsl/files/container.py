"""The container of model files and checkpoints: arrays and a JSON header, in safetensors layout.

A file has three parts:

1. eight bytes, the length n of the JSON text;
2. n bytes, the JSON text, with the dtype, shape and position of each array;
3. the bytes of the arrays, little-endian, without gaps.

``__metadata__`` in the JSON text holds four strings: ``format`` is "hdsl", ``format_version`` is a
number, ``header`` is JSON again and holds all that is not an array, and ``sha256`` is the checksum
of the JSON text without this string and of the arrays. The same content makes the same bytes.

Any safetensors reader can open such a file. The reader here trusts nothing: it compares each claim
with the size of the file before it takes memory, it never runs anything, and it raises one
ValueError for a file that is not as expected.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Iterable, Mapping
from io import BufferedReader
from reprlib import repr as short
from typing import Any, NamedTuple

import numpy as np

from .. import strict_json
from .atomic import FilePath, atomic_write, check_regular

#: The format of models and checkpoints, and the newest that this version reads: 3 has classifiers.
FORMAT, NEWEST = 2, 3

#: Bytes of the JSON text; parsed, it may take 30 times as much. Large things are arrays.
HEADER_LIMIT = 4 * 2**20

DTYPES = {
    "BOOL": "|b1",
    "U8": "|u1",
    "I8": "|i1",
    "U16": "<u2",
    "I16": "<i2",
    "F16": "<f2",
    "U32": "<u4",
    "I32": "<i4",
    "F32": "<f4",
    "U64": "<u8",
    "I64": "<i8",
    "F64": "<f8",
}
CODES = {code: name for name, code in DTYPES.items()}

#: What people take for a model file, by its first bytes.
KINDS = {
    b"\x80": "a pickle",
    b"\x93NUMPY": "a NumPy array",
    b"\x89HDF": "an HDF5 file",
    b"\x1f\x8b": "a gzip file",
    b"PK": "a zip archive",
    b"<": "HTML or XML",
    b"{": "JSON",
}

Arrays = dict[str, np.ndarray]


# --- writing -------------------------------------------------------------------------------------


def write(
    path: FilePath,
    arrays: Mapping[str, np.ndarray],
    header: Mapping[str, Any],
    *,
    what: str = "the model",
    version: int = FORMAT,
) -> None:
    """Write arrays and a header to a file, as a whole or not at all.

    Parameters
    ----------
    path : str or path-like
    arrays : dict of str to ndarray
        Booleans, integers and floats up to 64 bits, of any shape.
    header : dict of str to JSON values
        Tuples come back as lists, NumPy numbers as plain ones. NaN and infinity are not JSON.
    what : str, default="the model"
        What error messages call the file.
    version : int, default=FORMAT
        The oldest format that has what is written: versions that know no newer one can read it.

    Examples
    --------
    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.hdsl")
    ...     write(path, {"weights": np.array([0.5, 0.5])}, {"scale": 2.0})
    ...     read(path)
    ({'weights': array([0.5, 0.5])}, {'scale': 2.0})
    """
    ready = {name: _little_endian(name, np.asarray(array)) for name, array in arrays.items()}
    # The widest first: each array then starts at a multiple of its item size.
    names = sorted(ready, key=lambda name: (-ready[name].itemsize, name))
    metadata = {
        "format": "hdsl",
        "format_version": str(version),
        "header": _dumps(strict_json.to_plain(header, "header"), sort_keys=True),
    }
    layout: dict[str, Any] = {"__metadata__": metadata}
    end = 0
    for name in names:
        begin, end = end, end + ready[name].nbytes
        layout[name] = {
            "dtype": CODES[ready[name].dtype.str],
            "shape": list(ready[name].shape),
            "data_offsets": [begin, end],
        }
    parts = [_bytes_of(ready[name]) for name in names]
    metadata["sha256"] = _checksum(_dumps(layout).encode(), parts)
    text = _dumps(layout).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > HEADER_LIMIT:
        raise ValueError(
            f"The header has {len(text)} bytes, but at most {HEADER_LIMIT} are read back. Pass "
            "what is large, such as a vocabulary, as an array."
        )
    with atomic_write(path, what) as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for part in parts:
            file.write(part)


def _dumps(value: Any, *, sort_keys: bool = False) -> str:
    return json.dumps(value, sort_keys=sort_keys, separators=(",", ":"))


def _little_endian(name: str, array: np.ndarray) -> np.ndarray:
    little = array.dtype.newbyteorder("<")
    if little.str not in CODES:
        raise ValueError(
            f"Array {name!r} has dtype {array.dtype}, expected booleans, integers or floats up to "
            "64 bits. Pack text by pack_strings and structured arrays by pack_table."
        )
    if name == "__metadata__" or name != name.encode(errors="replace").decode():
        raise ValueError(f"An array cannot be named {name!r}: choose another name.")
    return np.asarray(array, dtype=little, order="C")


def _bytes_of(array: np.ndarray) -> Any:
    """Return the memory of a contiguous array."""
    return array.reshape(-1).view(np.uint8)


def _checksum(text: bytes, parts: Iterable[Any]) -> str:
    """Return the SHA-256 of the JSON text without the checksum, and of the bytes of the arrays."""
    digest = hashlib.sha256(text)
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


# --- reading -------------------------------------------------------------------------------------


class _Entry(NamedTuple):
    """An array in a file: its bytes, from the end of the JSON text on, and what they hold."""

    begin: int
    end: int
    name: str
    dtype: np.dtype
    shape: tuple[int, ...]


def read(path: FilePath) -> tuple[Arrays, dict[str, Any]]:
    """Return the arrays and the header of a file that `write` made.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    arrays : dict of str to ndarray
        In the byte order of the machine, writable, in memory.
    header : dict

    Raises
    ------
    ValueError
        The file is damaged, of another program, or of a newer format.
    """
    path = os.fsdecode(path)
    try:
        check_regular(os.stat(path).st_mode)
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None
    with open(path, "rb") as file:
        try:
            size = os.fstat(file.fileno()).st_size
            text = _read_text(file, size)
            layout = _parse(text, "its JSON text")
            metadata = layout.pop("__metadata__", None)
            header = _check_metadata(metadata)
            start = 8 + len(text)
            entries = _check_layout(layout, size - start)
            if "sha256" in metadata:  # a file by another program may have none
                _check_checksum(file, text, metadata["sha256"])
            return {entry.name: _load(file, entry, start) for entry in entries}, header
        except ValueError as error:
            raise ValueError(f"Cannot load {path!r}: {error}") from None


def damaged(what: str) -> ValueError:
    """Return the error for a file that is damaged, as `what` says."""
    return ValueError(f"{what}. The file is damaged: copy it again, or save the model again.")


def _read_text(file: BufferedReader, size: int) -> bytes:
    first = file.read(8)
    length = int.from_bytes(first, "little")
    if size < 8:
        raise damaged(f"it has {size} bytes, too few for a model" if size else "it is empty")
    if length > HEADER_LIMIT:
        raise _foreign(first)
    if length > size - 8:
        if any(first.startswith(mark) for mark in KINDS if len(mark) > 1):
            raise _foreign(first)
        raise damaged(f"it ends within its header, at {size} of {length + 8} bytes or more")
    text = file.read(length)
    if not text.startswith(b"{"):
        raise _foreign(first)
    return text


def _foreign(first: bytes) -> ValueError:
    kind = next((kind for mark, kind in KINDS.items() if first.startswith(mark)), None)
    return ValueError(
        f"it is not a model file but {kind or 'something else'}, it starts with {first!r}. "
        "Expected a model that hdsl saved (safetensors)."
    )


def _parse(text: str | bytes, what: str) -> dict[str, Any]:
    try:
        value = strict_json.loads(text if isinstance(text, str) else text.decode())
    except UnicodeDecodeError:
        raise damaged(f"{what} is not UTF-8") from None
    except ValueError as error:
        raise damaged(f"{what} cannot be read: {error}") from None
    if not isinstance(value, dict):
        raise damaged(f"{what} is {short(value)}, not a JSON object")
    return value


def _check_metadata(metadata: Any) -> dict[str, Any]:
    """Return the header; raise ValueError if this version cannot read the file."""
    if not isinstance(metadata, dict) or metadata.get("format") != "hdsl":
        raise ValueError(
            "it is a safetensors file of another program. Expected a model that hdsl saved."
        )
    version, text = metadata.get("format_version"), metadata.get("header")
    if not isinstance(version, str) or not re.fullmatch("[1-9][0-9]{0,8}", version):
        raise damaged(f"its format version is {short(version)}, not a number")
    if not isinstance(text, str):
        raise damaged("its header is missing")
    header = _parse(text, "its header")
    if int(version) > NEWEST:
        versions = header.get("versions")
        writer = versions.get("hdsl", "?") if isinstance(versions, dict) else "?"
        raise ValueError(
            f"it was written by hdsl {str(writer)[:30]}, format {version}; this hdsl reads up to "
            f"format {NEWEST}: upgrade hdsl."
        )
    unknown = metadata.keys() - {"format", "format_version", "header", "sha256"}
    if unknown:
        raise damaged(f"its metadata have the unknown names {short(sorted(unknown))}")
    return header


def _check_checksum(file: BufferedReader, text: bytes, stated: Any) -> None:
    """Raise ValueError if the JSON text or the rest of the file are not those of the checksum."""
    # In a string the quotes would be escaped, so this can only be the entry itself.
    entry = f',"sha256":{json.dumps(stated)}'.encode()
    blocks = iter(lambda: file.read(1 << 20), b"")
    if stated != _checksum(text.rstrip(b" ").replace(entry, b"", 1), blocks):
        raise damaged("its checksum is wrong, so some byte in it has changed")


def _check_layout(layout: dict[str, Any], n_bytes: int) -> list[_Entry]:
    """Return the arrays in their order; they must fill `n_bytes` without a gap."""
    entries = sorted((_entry(name, value) for name, value in layout.items()), key=lambda e: e[:2])
    end = 0
    for entry in entries:
        if entry.begin != end:
            raise damaged(f"array {short(entry.name)} starts at byte {entry.begin}, expected {end}")
        end = entry.end
    if end != n_bytes:
        fault = "ends too early" if end > n_bytes else "goes on after its last array"
        raise damaged(f"it {fault}: {n_bytes} bytes of arrays, expected {end}")
    return entries


def _entry(name: str, entry: Any) -> _Entry:
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        raise damaged(f"array {short(name)} lacks dtype, shape and data_offsets")
    code, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(code, str) or code not in DTYPES:
        raise damaged(f"array {short(name)} has the unknown dtype {short(code)}")
    dtype = np.dtype(DTYPES[code])
    # NumPy counts the bytes of an empty array as if its sides of length 0 were not there.
    if not _are_sizes(shape, 64) or math.prod(n or 1 for n in shape) * dtype.itemsize >= 2**63:
        raise damaged(f"array {short(name)} has the impossible shape {short(shape)}")
    if not _are_sizes(offsets, 2) or len(offsets) < 2:
        raise damaged(f"array {short(name)} has impossible offsets {short(offsets)}")
    begin, end = offsets
    n_bytes = math.prod(shape) * dtype.itemsize
    if end - begin != n_bytes:
        raise damaged(
            f"array {short(name)} of shape {tuple(shape)} and dtype {dtype} takes {n_bytes} bytes, "
            f"but its offsets say {end - begin}"
        )
    return _Entry(begin, end, name, dtype, tuple(shape))


def _are_sizes(value: Any, most: int) -> bool:
    return (
        isinstance(value, list)
        and len(value) <= most
        and all(type(n) is int and 0 <= n < 2**63 for n in value)
    )


def _load(file: BufferedReader, entry: _Entry, start: int) -> np.ndarray:
    array = np.empty(entry.shape, entry.dtype)
    raw = _bytes_of(array)
    file.seek(start + entry.begin)
    if file.readinto(raw) != raw.size:
        raise damaged("it became shorter while it was read")
    if entry.dtype == np.bool_ and raw.size and raw.max() > 1:
        raise damaged(f"array {short(entry.name)} has a boolean that is neither 0 nor 1")
    return array.astype(entry.dtype.newbyteorder("="), copy=False)
