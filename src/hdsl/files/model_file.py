"""Model files: plain arrays and a JSON header in the safetensors format, and nothing that runs.

A file is eight bytes that hold a length n, a JSON text of n bytes, then the bytes of the arrays,
little-endian, end to end. The text gives each array's dtype, shape and place, and under
``__metadata__`` four strings: ``format`` is "hdsl", ``format_version`` is a number, ``header`` is
JSON again: all that is not an array, and ``sha256`` is the checksum of the text without this string
and of the arrays' bytes. The same content makes the same bytes.

Any safetensors reader can open such a file. This one trusts nothing: each claim is held against the
size of the file before memory is taken for an array, and a file that is not what it should be gets
one ValueError that says so.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from io import BufferedReader
from itertools import pairwise
from reprlib import repr as short
from typing import Any, BinaryIO

import numpy as np

from ..core.atoms import check_atoms
from ..core.trace import check_trace

#: The format this version writes, and the newest it reads.
FORMAT = 1

#: Bytes of the JSON text; parsed, it may take 30 times as much. Large things are arrays.
HEADER_LIMIT = 4 * 2**20

#: Containers within containers in the header.
DEPTH_LIMIT = 50

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

WRITE_ERRORS = {
    errno.ENOENT: "the folder does not exist, create it first",
    errno.ENOTDIR: "what should be its folder is a file",
    errno.EISDIR: "this is a folder, add a file name",
    errno.EACCES: "no permission to write here, choose another folder",
    errno.EPERM: "no permission to write here, choose another folder",
    errno.EROFS: "the disk is read-only, choose another folder",
    errno.ENOSPC: "the disk is full, free some space",
    errno.EDQUOT: "the disk quota is used up, free some space",
}

Path = str | os.PathLike[str]
Arrays = dict[str, np.ndarray]


# --- files ---------------------------------------------------------------------------------------


def write(
    path: Path,
    arrays: Mapping[str, np.ndarray],
    header: Mapping[str, Any],
    *,
    what: str = "model",
) -> None:
    """Write arrays and a header to a file, whole or not at all.

    The bytes go to a temporary file in the same folder, which takes the place of `path` when all of
    them are on the disk; after an error what was there before is still there, and nothing else.

    Parameters
    ----------
    path : str or path-like
    arrays : dict of str to ndarray
        Booleans, integers and floats up to 64 bits, of any shape.
    header : dict of str to JSON values
        Tuples come back as lists, NumPy numbers as plain ones. NaN and infinity are no JSON.
    what : str, default="model"
        What error messages call it.

    Examples
    --------
    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.hdsl")
    ...     write(path, {"weights": np.array([0.5, 0.5])}, {"scale": 2.0})
    ...     read(path)
    ({'weights': array([0.5, 0.5])}, {'scale': 2.0})
    """
    text, ordered = _encode(arrays, header)

    def tell(error: OSError) -> str | None:
        told = WRITE_ERRORS.get(error.errno or 0)
        return error.strerror if told is None else f"Cannot write the {what}: {told}"

    with written_whole(path, _check_regular, tell) as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for array in ordered:
            file.write(_bytes_of(array))


@contextmanager
def written_whole(
    path: Path,
    check: Callable[[str], None],
    tell: Callable[[OSError], str | None],
) -> Iterator[BinaryIO]:
    """Give a file whose bytes take the place of `path` when all of them are on the disk.

    They go to a temporary file in the same folder; after an error what was there before is still
    there, and nothing else.

    Parameters
    ----------
    path : str or path-like
    check : callable
        Called with the place of what is there already; raises OSError where it must stay.
    tell : callable
        Returns what is said of an OSError.

    Yields
    ------
    binary file
    """
    path = os.fsdecode(path)
    target = os.path.realpath(path)  # a link stays, what it points to is replaced
    temporary = os.path.join(os.path.dirname(target), f".hdsl-{os.urandom(8).hex()}.tmp")
    try:
        if os.path.exists(target):
            check(target)
        with open(temporary, "xb") as file:
            if os.path.exists(target):  # who may read it stays as it is
                os.chmod(temporary, stat.S_IMODE(os.stat(target).st_mode))
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
        _sync_folder(os.path.dirname(target))
    except BaseException as error:
        with suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError) and error.errno is not None:
            raise OSError(error.errno, tell(error), path) from None
        raise


def _sync_folder(folder: str) -> None:
    """Have the new name of a file on the disk too, where the system can."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def read(path: Path) -> tuple[Arrays, dict[str, Any]]:
    """Return the arrays and the header of a file that `write` made.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    arrays : dict of str to ndarray
        In the machine's byte order, writable, free of the file.
    header : dict

    Raises
    ------
    ValueError
        The file is damaged, of another program, or of a newer format. Nothing in it is ever run.
    """
    path = os.fsdecode(path)
    _check_regular(path)
    with open(path, "rb") as file:
        try:
            places, header = _decode(file, os.fstat(file.fileno()).st_size)
            return {name: _load(file, name, *place) for name, place in places.items()}, header
        except ValueError as error:
            raise ValueError(f"Cannot load {path!r}: {error}") from None


def _check_regular(path: str) -> None:
    """Raise OSError for a folder, and for what only looks like a file: a device, a pipe."""
    mode = os.stat(path).st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "A model file must be a regular file", path)


def _bytes_of(array: np.ndarray) -> Any:
    """Return the memory of a contiguous array."""
    return array.reshape(-1).view(np.uint8)


def _encode(
    arrays: Mapping[str, np.ndarray], header: Mapping[str, Any]
) -> tuple[bytes, list[np.ndarray]]:
    """Return the JSON text, padded to a multiple of eight, and the arrays in their order."""
    ready = {}
    for name, array in arrays.items():
        array = np.asarray(array)
        little = array.dtype.newbyteorder("<")
        if little.str not in CODES:
            raise ValueError(
                f"Array {name!r} has dtype {array.dtype}, but a model file holds booleans, "
                "integers and floats up to 64 bits. Pack text by pack_strings and records by "
                "pack_table."
            )
        if name == "__metadata__" or name != name.encode(errors="replace").decode():
            raise ValueError(f"An array cannot be named {name!r}: choose another name.")
        ready[name] = np.asarray(array, dtype=little, order="C")
    layout: dict[str, Any] = {
        "__metadata__": {
            "format": "hdsl",
            "format_version": str(FORMAT),
            "header": json.dumps(_plain(header, "header"), sort_keys=True, separators=(",", ":")),
        }
    }
    # The widest first: each array then starts at a multiple of its item size.
    names = sorted(ready, key=lambda name: (-ready[name].itemsize, name))
    end = 0
    for name in names:
        begin, end = end, end + ready[name].nbytes
        layout[name] = {
            "dtype": CODES[ready[name].dtype.str],
            "shape": list(ready[name].shape),
            "data_offsets": [begin, end],
        }
    layout["__metadata__"]["sha256"] = _checksum(layout, (_bytes_of(ready[name]) for name in names))
    text = _as_json(layout)
    text += b" " * (-len(text) % 8)
    if len(text) > HEADER_LIMIT:
        raise ValueError(
            f"The header has {len(text)} bytes, but at most {HEADER_LIMIT} are read back. Give "
            "what is large, such as a vocabulary, as an array."
        )
    return text, [ready[name] for name in names]


def _as_json(layout: dict[str, Any]) -> bytes:
    return json.dumps(layout, separators=(",", ":")).encode()


def _checksum(layout: dict[str, Any], parts: Iterable[Any]) -> str:
    """Return the SHA-256 of the JSON text and of the arrays' bytes, which come in parts."""
    digest = hashlib.sha256(_as_json(layout))
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def _plain(value: Any, where: str, depth: int = 0) -> Any:
    """Return a value as JSON brings it back; raise ValueError where it would be another."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int) and abs(value) < 2**64:
        return int(value)
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    if isinstance(value, str) and json.loads(json.dumps(value)) == value:
        return str(value)
    if depth < DEPTH_LIMIT:
        if isinstance(value, list | tuple):
            return [_plain(v, f"{where}[{k}]", depth + 1) for k, v in enumerate(value)]
        if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
            return {
                _plain(key, where): _plain(v, f"{where}[{key!r}]", depth + 1)
                for key, v in value.items()
            }
    raise ValueError(
        f"{where} is {short(value)}: numbers, strings, booleans, None, and lists and dicts of them "
        "with string keys can be written. Leave it out, or give arrays as arrays."
    )


def _parse(text: str, what: str) -> dict[str, Any]:
    """Return the JSON object that `text` is; every way of not being one is a ValueError."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members = dict(pairs)
        if len(members) < len(pairs):
            raise ValueError("a name occurs twice")
        return members

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is no JSON")

    try:
        value = json.loads(text, object_pairs_hook=unique, parse_constant=refuse)
    except RecursionError:
        raise _damaged(f"{what} is nested too deeply") from None
    except ValueError as error:
        raise _damaged(f"{what} cannot be read ({error})") from None
    if not isinstance(value, dict):
        raise _damaged(f"{what} is {short(value)}, not a JSON object")
    inside: list[Any] = [value]
    for _ in range(DEPTH_LIMIT + 2):
        containers = (v.values() if isinstance(v, dict) else v for v in inside)
        inside = [v for values in containers for v in values if isinstance(v, dict | list)]
        if not inside:
            return value
    raise _damaged(f"{what} is nested too deeply")


def _damaged(what: str) -> ValueError:
    return ValueError(f"{what}. The file is damaged: copy it again, or save the model anew.")


Place = tuple[np.dtype, tuple[int, ...], int]


def _decode(file: BufferedReader, size: int) -> tuple[dict[str, Place], dict[str, Any]]:
    """Return where the arrays are, all within the file, and the header."""
    first = file.read(8)
    length = int.from_bytes(first, "little")
    if size < 8:
        raise _damaged(f"it has {size} bytes, too few for a model" if size else "it is empty")
    if length > HEADER_LIMIT:
        raise _foreign(first)
    if length > size - 8:
        if any(first.startswith(mark) for mark in KINDS if len(mark) > 1):
            raise _foreign(first)
        raise _damaged(f"it ends within its header, at {size} of {length + 8} bytes or more")
    text = file.read(length)
    if not text.startswith(b"{"):
        raise _foreign(first)
    try:
        layout = _parse(text.decode(), "its JSON text")
    except UnicodeDecodeError:
        raise _damaged("its JSON text is not UTF-8") from None
    metadata = layout.pop("__metadata__", None)
    if not isinstance(metadata, dict) or metadata.get("format") != "hdsl":
        raise ValueError(
            "it is a safetensors file of another program, without the mark of hdsl. Expected a "
            "model that hdsl saved."
        )
    version, inner = metadata.get("format_version"), metadata.get("header")
    if not isinstance(version, str) or not re.fullmatch("[1-9][0-9]{0,8}", version):
        raise _damaged(f"its format version is {short(version)}, not a number")
    if not isinstance(inner, str):
        raise _damaged("its header is missing")
    header = _parse(inner, "its header")
    if int(version) > FORMAT:
        versions = header.get("versions")
        writer = versions.get("hdsl", "?") if isinstance(versions, dict) else "?"
        raise ValueError(
            f"it was written by hdsl {str(writer)[:30]}, format {version}; this hdsl reads up to "
            f"format {FORMAT}: upgrade hdsl."
        )
    places = _places(layout, size - 8 - length, 8 + length)
    if "sha256" in metadata:  # a file by other hands may have none
        if text.rstrip(b" ") != _as_json({"__metadata__": metadata, **layout}):
            raise _damaged("its JSON text is not as it was written")
        told = metadata.pop("sha256")
        if told != _checksum(
            {"__metadata__": metadata, **layout}, iter(lambda: file.read(1 << 20), b"")
        ):
            raise _damaged("its checksum is another, so some byte in it has changed")
    if metadata.keys() != {"format", "format_version", "header"}:
        raise _damaged(f"its metadata have the unknown names {short(sorted(metadata))}")
    return places, header


def _foreign(first: bytes) -> ValueError:
    kind = next((kind for mark, kind in KINDS.items() if first.startswith(mark)), None)
    return ValueError(
        f"it is not a model file but {kind or 'something else'}, it starts with {first!r}. "
        "Expected a model that hdsl saved (safetensors)."
    )


def _places(layout: dict[str, Any], n_bytes: int, start: int) -> dict[str, Place]:
    """Return dtype, shape and place of each array; they must fill `n_bytes` without a gap."""
    spans = sorted((_entry(name, entry) for name, entry in layout.items()), key=lambda e: e[:2])
    places, end = {}, 0
    for begin, stop, name, dtype, shape in spans:
        if begin != end:
            raise _damaged(f"array {short(name)} starts at byte {begin}, expected {end}")
        places[name], end = (dtype, shape, start + begin), stop
    if end != n_bytes:
        fault = "ends too early" if end > n_bytes else "goes on after its last array"
        raise _damaged(f"it {fault}: {n_bytes} bytes of arrays, expected {end}")
    return places


def _entry(name: str, entry: Any) -> tuple[int, int, str, np.dtype, tuple[int, ...]]:
    """Return first byte, last byte, name, dtype and shape of an array, which agree."""

    def sizes(value: Any, most: int) -> bool:
        return (
            isinstance(value, list)
            and len(value) <= most
            and all(type(n) is int and 0 <= n < 2**63 for n in value)
        )

    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        raise _damaged(f"array {short(name)} lacks dtype, shape and data_offsets")
    code, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(code, str) or code not in DTYPES:
        raise _damaged(f"array {short(name)} has the unknown dtype {short(code)}")
    dtype = np.dtype(DTYPES[code])
    # NumPy counts the bytes of an empty array as if its sides of length 0 were not there.
    if not sizes(shape, 64) or math.prod(n or 1 for n in shape) * dtype.itemsize >= 2**63:
        raise _damaged(f"array {short(name)} has the impossible shape {short(shape)}")
    if not sizes(offsets, 2) or len(offsets) < 2:
        raise _damaged(f"array {short(name)} has impossible offsets {short(offsets)}")
    begin, stop = offsets
    if stop - begin != math.prod(shape) * dtype.itemsize:
        raise _damaged(
            f"array {short(name)} of shape {tuple(shape)} and dtype {dtype} takes "
            f"{math.prod(shape) * dtype.itemsize} bytes, but its offsets say {stop - begin}"
        )
    return begin, stop, name, dtype, tuple(shape)


def _load(
    file: BufferedReader, name: str, dtype: np.dtype, shape: tuple[int, ...], at: int
) -> np.ndarray:
    array = np.empty(shape, dtype)
    raw = _bytes_of(array)
    file.seek(at)
    if file.readinto(raw) != raw.size:
        raise _damaged("it became shorter while it was read")
    if dtype == np.bool_ and raw.size and raw.max() > 1:
        raise _damaged(f"array {short(name)} has a boolean that is neither 0 nor 1")
    return array.astype(dtype.newbyteorder("="), copy=False)


# --- strings and tables --------------------------------------------------------------------------


def pack_strings(strings: Sequence[str]) -> Arrays:
    """Return strings as two arrays: their UTF-8 bytes, and where each begins and ends.

    Every str comes back as it was: empty ones, line breaks, and lone surrogates too (encoded as
    Python's "surrogatepass" does).

    Examples
    --------
    >>> pack_strings(["one", "", "ü"])["offsets"].tolist()
    [0, 3, 3, 5]
    >>> unpack_strings(pack_strings(["one", "", "ü"]))
    ['one', '', 'ü']
    """
    parts = [string.encode("utf-8", "surrogatepass") for string in strings]
    offsets = np.cumsum([0] + [len(part) for part in parts], dtype=np.int64)
    text = np.frombuffer(b"".join(parts), dtype=np.uint8)
    return {"text": text, "offsets": _narrow(offsets)}


def unpack_strings(arrays: Mapping[str, np.ndarray]) -> list[str]:
    """Return the strings that `pack_strings` packed; raise ValueError where they cannot be."""
    text, offsets = _take(arrays, "text"), _take(arrays, "offsets")
    if text.dtype != np.uint8 or text.ndim != 1 or offsets.dtype.kind != "i" or offsets.ndim != 1:
        raise ValueError("'text' must be a vector of uint8, and 'offsets' one of integers")
    ends = offsets.tolist()
    if not ends or ends[0] != 0 or ends[-1] != len(text) or (offsets[1:] < offsets[:-1]).any():
        raise ValueError(f"'offsets' must rise from 0 to the {len(text)} bytes of 'text'")
    raw = text.tobytes()
    try:
        return [raw[begin:end].decode("utf-8", "surrogatepass") for begin, end in pairwise(ends)]
    except UnicodeDecodeError as error:
        raise ValueError(f"'text' is not UTF-8: {error}") from None


def pack_table(table: np.ndarray) -> tuple[Arrays, dict[str, list[str]]]:
    """Return the columns of a structured array, and the words of its columns of text.

    Floats keep every bit. Integers get the narrowest dtype that holds them. Text becomes numbers
    of words.

    Examples
    --------
    >>> table = np.array([(1, "up"), (300, "up")], dtype=[("n", "i8"), ("kind", "U8")])
    >>> columns, words = pack_table(table)
    >>> columns
    {'n': array([  1, 300], dtype=int16), 'kind': array([0, 0], dtype=int8)}
    >>> words
    {'kind': ['up']}
    >>> unpack_table(columns, words, table.dtype)
    array([(  1, 'up'), (300, 'up')], dtype=[('n', '<i8'), ('kind', '<U8')])
    """
    columns, words = {}, {}
    for name, code in _columns(table.dtype):
        column = table[name]
        if "U" in code:
            known, column = np.unique(column, return_inverse=True)
            words[name] = known.tolist()
        columns[name] = _narrow(column) if column.dtype.kind in "iu" else column.copy()
    return columns, words


def unpack_table(
    columns: Mapping[str, np.ndarray], words: Mapping[str, Sequence[str]], dtype: np.dtype
) -> np.ndarray:
    """Return the structured array of a dtype; raise ValueError where the columns do not fit it."""
    found = {name: _take(columns, name) for name, _ in _columns(dtype)}
    n_rows = next(iter(found.values())).size
    for name, column in found.items():
        if column.shape != (n_rows,):
            raise ValueError(f"column {name!r} has shape {column.shape}, expected {(n_rows,)}")
    table = np.empty(n_rows, dtype)
    for name, column in found.items():
        want, have = dtype[name], column.dtype
        if want.kind == "U":
            column = _words(name, column, words.get(name), want)
        elif have.kind != want.kind or not np.can_cast(have, want, "safe"):
            raise ValueError(f"column {name!r} is of {have}, expected {want}")
        table[name] = column
    return table


def table_to_arrays(table: np.ndarray, name: str) -> tuple[Arrays, dict[str, Any]]:
    """Return a structured array as named arrays, and its layout for the header."""
    columns, words = pack_table(table)
    layout = {"columns": [list(column) for column in _columns(table.dtype)], "words": words}
    return _named(name, columns), layout


def table_from_arrays(arrays: Mapping[str, np.ndarray], name: str, layout: Any) -> np.ndarray:
    """Return a structured array, whose dtype the header tells and is not trusted for."""
    columns = _under(arrays, name)
    layout = layout if isinstance(layout, dict) else {}
    described, words = layout.get("columns"), layout.get("words")
    if not isinstance(described, list) or not isinstance(words, dict):
        raise ValueError(f"the header does not tell the columns of {short(name)}")
    fields = []
    for column in described:
        good = isinstance(column, list) and len(column) == 2
        if not good or not all(isinstance(part, str) for part in column):
            raise ValueError(f"{name} has the impossible column {short(column)}")
        _check_code(*column)
        fields.append(tuple(column))
    dtype = np.dtype(fields)
    n_bytes = sum(column.nbytes for column in columns.values())
    n_rows = max((column.size for column in columns.values()), default=0)
    if n_rows * dtype.itemsize > TRACE_GROWTH * n_bytes:
        raise ValueError(f"{name} would take {n_rows * dtype.itemsize} bytes, from {n_bytes}")
    return unpack_table(columns, words, dtype)


def _words(name: str, numbers: np.ndarray, words: Any, dtype: np.dtype) -> np.ndarray:
    width = dtype.itemsize // 4
    if not isinstance(words, list) or not all(
        isinstance(word, str) and len(word) <= width for word in words
    ):
        raise ValueError(f"column {name!r} needs a list of words of at most {width} characters")
    if numbers.dtype.kind != "i" or ((numbers < 0) | (numbers >= len(words))).any():
        raise ValueError(f"column {name!r} must hold numbers of its {len(words)} words")
    return np.array(words, dtype)[numbers]


def _columns(dtype: np.dtype) -> list[tuple[str, str]]:
    """Return names and codes of the columns, which must be plain numbers or text."""
    if not dtype.names:
        raise ValueError(f"a table is a structured array with columns, got dtype {dtype}")
    columns = [(name, dtype[name].newbyteorder("<").str) for name in dtype.names]
    for name, code in columns:
        _check_code(name, code)
    return columns


def _check_code(name: str, code: str) -> None:
    if code not in CODES and not re.fullmatch("<U[1-9][0-9]?", code):
        raise ValueError(
            f"column {short(name)} has dtype {short(code)}, expected a boolean, an integer, a "
            "float, or text of fixed width below 100"
        )


def _narrow(values: np.ndarray) -> np.ndarray:
    """Return integers in the narrowest dtype of their kind that holds them."""
    low, high = (values.min(), values.max()) if values.size else (0, 0)
    for code in ("i1", "i2", "i4") if values.dtype.kind == "i" else ("u1", "u2", "u4"):
        if np.iinfo(code).min <= low and high <= np.iinfo(code).max:
            return values.astype(code)
    return values.copy()


def _take(arrays: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    if name not in arrays:
        raise ValueError(f"array {short(name)} is missing")
    return arrays[name]


# --- models --------------------------------------------------------------------------------------

FLOATS = ("scale", "prior", "objective", "gap")
COUNTS = ("n_iter", "n_triplets", "n_features_in")
NOT_FINITE = ("nan", "inf", "-inf")

#: Bytes of a table in memory for one in the file: about 3 where it is honest.
TRACE_GROWTH = 16


def model_to_arrays(state: Mapping[str, Any]) -> tuple[Arrays, dict[str, Any]]:
    """Return a model as the arrays and the header that `write` takes.

    Parameters
    ----------
    state : dict
        params : dict
            Of the constructor. What JSON has no form for, such as a function, is left out: None
            takes its place, and "params_left_out" has its name.
        atoms : ndarray of shape (n_atoms, 3)
        weights : ndarray of shape (n_atoms,)
        scale, prior, objective, gap : float
        gap_is_exact : bool
        status : str
        n_iter, n_triplets, n_features_in : int
        trace : structured ndarray of n_iter + 1 records or more
        versions : dict of str to str
            What the model was made by: "hdsl", "numpy", "python"; "format" is added.
        feature_names_in : sequence of str of length n_features_in, optional
        extra : dict, optional
            Values are arrays of numbers, vectors of text, or JSON.

    Returns
    -------
    arrays : dict of str to ndarray
    header : dict

    Raises
    ------
    ValueError
        The state is not one of a fitted model.
    """
    check_model(state)
    params, left_out = {}, dict(state.get("params_left_out") or {})
    for name, value in state["params"].items():
        try:
            params[name] = _plain(value, name)
        except ValueError:
            params[name] = None
            left_out[name] = getattr(value, "__qualname__", type(value).__qualname__)
    trace, trace_layout = table_to_arrays(state["trace"], "trace")
    arrays = {
        "atoms": _narrow(np.asarray(state["atoms"])),
        "weights": np.asarray(state["weights"], dtype=np.float64),
        **trace,
    }
    header: dict[str, Any] = {
        "params": params,
        "params_left_out": left_out,
        "versions": {**state["versions"], "format": FORMAT},
        "status": state["status"],
        "gap_is_exact": bool(state["gap_is_exact"]),
        "trace": trace_layout,
        "feature_names": state.get("feature_names_in") is not None,
        "extra": {},
        "extra_arrays": [],
        "extra_strings": [],
    }
    header |= {name: int(state[name]) for name in COUNTS}
    for name in FLOATS:
        value = float(state[name])
        header[name] = value if math.isfinite(value) else repr(value)
    if header["feature_names"]:
        arrays |= _named("feature_names", pack_strings(list(state["feature_names_in"])))
    for key, value in sorted((state.get("extra") or {}).items()):
        if not isinstance(value, np.ndarray):
            header["extra"][key] = _plain(value, f"extra[{key!r}]")
        elif value.ndim == 1 and value.dtype.kind in "OUT" and all(map(_is_text, value)):
            header["extra_strings"].append(key)
            arrays |= _named(f"extra_strings.{key}", pack_strings(value.tolist()))
        else:
            header["extra_arrays"].append(key)
            arrays[f"extra_arrays.{key}"] = value
    return arrays, header


def model_from_arrays(
    arrays: Mapping[str, np.ndarray], header: Mapping[str, Any], *, path: Path = "the model"
) -> dict[str, Any]:
    """Return the state that `model_to_arrays` was given, checked.

    Parameters
    ----------
    arrays, header : dict
        From `read`.
    path : str or path-like
        What error messages call the model.

    Returns
    -------
    dict
        As in `model_to_arrays`, with "params_left_out"; "feature_names_in" is an array of objects
        or None, "extra" a dict where text is an array of objects.

    Raises
    ------
    ValueError
        The arrays and the header are not a model; the first fault is named.
    """
    if "checkpoint" in header:
        raise ValueError(
            f"Cannot load {os.fsdecode(path)!r}: it is the checkpoint of a run that did not end. "
            "Fit with the same data and parameters, and with this file as checkpoint, to go on."
        )
    try:
        state = _state(arrays, header)
        check_model(state)
    except ValueError as error:
        what = str(error).removesuffix(".")
        raise ValueError(f"Cannot load {os.fsdecode(path)!r}: {_damaged(what)}") from None
    return state


def _state(arrays: Mapping[str, np.ndarray], header: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state with its parts of the right types; what they say is not looked at."""

    def get(name: str, kind: type) -> Any:
        value = header.get(name)
        if type(value) is not kind:
            raise ValueError(f"{name} is {short(value)}, expected {kind.__name__}")
        return value

    state: dict[str, Any] = {
        name: get(name, dict) for name in ("params", "params_left_out", "versions")
    }
    for name in FLOATS:
        not_finite = header.get(name) in NOT_FINITE
        state[name] = float(header[name]) if not_finite else get(name, float)
    for name in COUNTS:
        state[name] = get(name, int)
    state["gap_is_exact"], state["status"] = get("gap_is_exact", bool), get("status", str)
    atoms = _take(arrays, "atoms")
    state["atoms"] = atoms.astype(np.int64) if atoms.dtype.kind == "i" else atoms
    state["weights"] = _take(arrays, "weights")
    state["trace"] = table_from_arrays(arrays, "trace", get("trace", dict))
    state["feature_names_in"] = None
    if get("feature_names", bool):
        state["feature_names_in"] = _text(arrays, "feature_names")
    state["extra"] = dict(get("extra", dict))
    for key in get("extra_arrays", list):
        state["extra"][str(key)] = _take(arrays, f"extra_arrays.{key}")
    for key in get("extra_strings", list):
        state["extra"][str(key)] = _text(arrays, f"extra_strings.{key}")
    return state


def check_model(state: Mapping[str, Any]) -> None:
    """Raise ValueError for the first thing that no fitted model has."""
    for name, least in (("n_iter", 0), ("n_triplets", 1), ("n_features_in", 2)):
        if not least <= state[name] < 2**63:
            raise ValueError(f"{name} is {short(state[name])}, expected an int >= {least}.")
    if not 0.0 < state["scale"] < math.inf:
        raise ValueError(f"scale is {state['scale']}, expected a finite number > 0.")
    if not 0.0 <= state["prior"] < math.inf:
        raise ValueError(f"prior is {state['prior']}, expected a finite number >= 0.")
    check_atoms(state["atoms"], state["weights"], state["n_features_in"])
    check_trace(state["trace"], state["n_iter"], state["n_features_in"])
    names = state.get("feature_names_in")
    if names is not None and len(names) != state["n_features_in"]:
        raise ValueError(
            f"feature_names_in has {len(names)} names, but n_features_in is "
            f"{state['n_features_in']}."
        )


def _text(arrays: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    try:
        strings = unpack_strings(_under(arrays, name))
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    return np.array(strings, dtype=object)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _named(prefix: str, arrays: Arrays) -> Arrays:
    return {f"{prefix}.{name}": array for name, array in arrays.items()}


def _under(arrays: Mapping[str, np.ndarray], prefix: str) -> Arrays:
    start = prefix + "."
    return {
        name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)
    }
