"""Strings, structured arrays and columns as the plain arrays that a container holds."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from reprlib import repr as short
from typing import Any

import numpy as np

from ..solver.snapshot import nested, part_of
from .container import CODES, Arrays

#: Bytes of a table in memory per byte in the file. An honest table has about 3.
MAX_GROWTH = 16

#: Bytes that strings of fixed width may take beyond that.
MAX_SPARE = 2**24


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
    return {"text": text, "offsets": narrow(offsets)}


def unpack_strings(arrays: Mapping[str, np.ndarray]) -> list[str]:
    """Return the strings of `pack_strings`; raise ValueError if the arrays are not theirs."""
    text, offsets = get_array(arrays, "text"), get_array(arrays, "offsets")
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


def pack_table(table: np.ndarray, name: str) -> tuple[Arrays, dict[str, Any]]:
    """Return the columns of a structured array, and a layout that JSON can hold.

    Floats keep every bit. Integers get the narrowest dtype that holds them. A column of text
    becomes numbers of words, and the words are in the layout.

    Parameters
    ----------
    table : structured ndarray of shape (n_rows,)
    name : str
        The names of the columns start with it and a dot.

    Returns
    -------
    arrays : dict of str to ndarray of shape (n_rows,)
    layout : dict
        "columns" holds name and dtype of each column, "words" the words of each column of text.

    Examples
    --------
    >>> table = np.array([(1, "up"), (300, "up")], dtype=[("n", "i8"), ("kind", "U8")])
    >>> arrays, layout = pack_table(table, "steps")
    >>> arrays
    {'steps.n': array([  1, 300], dtype=int16), 'steps.kind': array([0, 0], dtype=int8)}
    >>> layout
    {'columns': [['n', '<i8'], ['kind', '<U8']], 'words': {'kind': ['up']}}
    >>> unpack_table(arrays, "steps", layout)
    array([(  1, 'up'), (300, 'up')], dtype=[('n', '<i8'), ('kind', '<U8')])
    """
    if not table.dtype.names:
        raise ValueError(f"a table is a structured array with columns, got dtype {table.dtype}")
    columns, words, described = {}, {}, []
    for part in table.dtype.names:
        column, code = table[part], table.dtype[part].newbyteorder("<").str
        _check_code(part, code)
        described.append([part, code])
        if column.dtype.kind == "U":
            known, column = np.unique(column, return_inverse=True)
            words[part] = known.tolist()
        columns[part] = narrow(column) if column.dtype.kind in "iu" else column.copy()
    return nested(**{name: columns}), {"columns": described, "words": words}


def unpack_table(arrays: Mapping[str, np.ndarray], name: str, layout: Any) -> np.ndarray:
    """Return the structured array of `pack_table`; raise ValueError if arrays or layout are bad.

    Nothing in the layout is trusted.
    """
    columns = part_of(arrays, name)
    dtype, words = _check_table_layout(name, layout)
    n_bytes = sum(column.nbytes for column in columns.values())
    n_rows = max((column.size for column in columns.values()), default=0)
    if n_rows * dtype.itemsize > MAX_GROWTH * n_bytes:
        raise ValueError(f"{name} would take {n_rows * dtype.itemsize} bytes, from {n_bytes}")
    table = np.empty(n_rows, dtype)
    for part in dtype.names or ():
        column, expected = get_array(columns, part), dtype[part]
        if column.shape != (n_rows,):
            raise ValueError(f"column {part!r} has shape {column.shape}, expected {(n_rows,)}")
        if expected.kind == "U":
            column = _words_of(part, column, words.get(part), expected)
        elif column.dtype.kind != expected.kind or not np.can_cast(column.dtype, expected, "safe"):
            raise ValueError(f"column {part!r} is of {column.dtype}, expected {expected}")
        table[part] = column
    return table


def _check_table_layout(name: str, layout: Any) -> tuple[np.dtype, dict[str, Any]]:
    """Return the dtype of a table and the words of its columns of text."""
    layout = layout if isinstance(layout, dict) else {}
    described, words = layout.get("columns"), layout.get("words")
    if not isinstance(described, list) or not described or not isinstance(words, dict):
        raise ValueError(f"the header does not describe the columns of {short(name)}")
    for column in described:
        good = isinstance(column, list) and len(column) == 2
        if not good or not all(isinstance(part, str) for part in column):
            raise ValueError(f"{name} has the impossible column {short(column)}")
        _check_code(*column)
    return np.dtype([tuple(column) for column in described]), words


def _check_code(column: str, code: str) -> None:
    if code not in CODES and not re.fullmatch("<U[1-9][0-9]?", code):
        raise ValueError(
            f"column {short(column)} has dtype {short(code)}, expected a boolean, an integer, a "
            "float, or text of fixed width below 100"
        )


def _words_of(column: str, numbers: np.ndarray, words: Any, dtype: np.dtype) -> np.ndarray:
    width = dtype.itemsize // 4
    if not isinstance(words, list) or not all(
        isinstance(word, str) and len(word) <= width for word in words
    ):
        raise ValueError(f"column {column!r} needs a list of words of at most {width} characters")
    if numbers.dtype.kind != "i" or ((numbers < 0) | (numbers >= len(words))).any():
        raise ValueError(f"column {column!r} must hold numbers of its {len(words)} words")
    return np.array(words, dtype)[numbers]


def narrow(values: np.ndarray) -> np.ndarray:
    """Return integers in the narrowest dtype of their kind that holds them."""
    low, high = (values.min(), values.max()) if values.size else (0, 0)
    for code in ("i1", "i2", "i4") if values.dtype.kind == "i" else ("u1", "u2", "u4"):
        if np.iinfo(code).min <= low and high <= np.iinfo(code).max:
            return values.astype(code)
    return values.copy()


def get_array(arrays: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    """Return the array of a name; raise ValueError if there is none."""
    if name not in arrays:
        raise ValueError(f"array {short(name)} is missing")
    return arrays[name]


def get_strings(arrays: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    """Return the strings of a name, as an array of objects; raise ValueError if they are none."""
    try:
        strings = unpack_strings(part_of(arrays, name))
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    return np.array(strings, dtype=object)


def is_text(value: np.ndarray) -> bool:
    """Return whether an array is a vector of strings."""
    is_vector = value.ndim == 1 and value.dtype.kind in "OUT"
    return is_vector and all(isinstance(v, str) for v in value)


def as_fixed_width(strings: np.ndarray, code: str) -> np.ndarray:
    """Return strings in a dtype such as "<U8"; as they are where the code is another one.

    Raises
    ------
    ValueError
        They are longer, or take more memory than a file of their size may.
    """
    found = re.fullmatch("<U([1-9][0-9]{0,7})", code)
    if found is None:
        return strings
    lengths = [len(string) for string in strings]
    width, n_bytes = int(found[1]), 4 * int(found[1]) * len(strings)
    if n_bytes > MAX_SPARE + MAX_GROWTH * sum(lengths):
        raise ValueError(f"{len(strings)} strings would take {n_bytes} bytes")
    fixed = strings.astype(code)
    if max(lengths, default=0) > width or fixed.tolist() != strings.tolist():
        raise ValueError(f"strings do not fit in dtype {code}")
    return fixed


def get_value(header: Mapping[str, Any], name: str, kind: type) -> Any:
    """Return a value of a header; raise ValueError unless it is of exactly this type."""
    value = header.get(name)
    if type(value) is not kind:
        raise ValueError(f"{name} is {short(value)}, expected {kind.__name__}")
    return value


def pack_columns(columns: np.ndarray, n_features: int) -> np.ndarray:
    """Return column numbers as bits, one per feature, or as they are where that is shorter."""
    if n_features > 64 * len(columns):
        return narrow(np.asarray(columns, dtype=np.int64))
    bits = np.zeros(n_features, dtype=bool)
    bits[columns] = True
    return np.packbits(bits)


def unpack_columns(packed: np.ndarray, n_features: int) -> np.ndarray:
    """Return the column numbers that `pack_columns` was given."""
    if packed.dtype != np.uint8:
        return packed.astype(np.int64) if packed.dtype.kind == "i" else packed
    if packed.shape != (-(-n_features // 8),):
        raise ValueError(f"columns has shape {packed.shape}, expected one bit per feature")
    return np.flatnonzero(np.unpackbits(packed)).astype(np.int64)


def check_columns(columns: np.ndarray, n_features: int) -> None:
    """Raise ValueError unless these are column numbers, sorted, at least one."""
    is_sorted = columns.ndim == 1 and columns.dtype == np.int64 and len(columns) > 0
    is_sorted = is_sorted and bool((np.diff(columns) > 0).all())
    if not is_sorted or columns[0] < 0 or columns[-1] >= n_features:
        raise ValueError("columns must hold rising column numbers, below n_features_in.")
