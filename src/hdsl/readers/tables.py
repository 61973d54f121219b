"""Tables of ids from pandas, polars, pyarrow, mappings or files: checked columns, row numbers."""

from __future__ import annotations

import csv
import json
import math
import os
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from itertools import repeat
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..input.errors import WayOutError, first_few, short
from .files import check_expansion, check_file, parsing

PASS_IDS = "pass ids=, the id of each row of X"


class MissingColumnError(WayOutError):
    """A table without a column that was asked for; `columns` are those that it has."""

    def __init__(
        self, facts: str, way_out: str, remedy: str, columns: tuple[str, ...]
    ) -> None:
        super().__init__(facts, way_out, remedy)
        self.args = (facts, way_out, remedy, columns)
        self.columns = columns


class Table(NamedTuple):
    """Columns of equal length without missing values, and the line of the file of each row.

    `n_skipped` rows had no value in one of the columns and are left out; `rows` numbers
    the others.
    """

    name: str
    columns: dict[str, np.ndarray]
    lines: Any = None
    is_text: bool = False
    n_skipped: int = 0
    rows: np.ndarray | None = None

    def place(self, row: Any) -> str:
        """Return where a row is, for the start of a message."""
        where = f"row {row}" if self.lines is None else f"line {self.lines[row]}"
        return f"{self.name}, {where}"

    def check(self, name: str, is_good: np.ndarray, wanted: str) -> None:
        """Raise ValueError with the first value of a column that is not as wanted."""
        for row in np.flatnonzero(~is_good)[:1]:
            value = short(self.columns[name].tolist()[row])
            raise ValueError(
                f"{self.place(row)} has {value} in column {name!r}: {wanted}."
            )

    def only(self, whole: np.ndarray) -> Table:
        """Return some of the rows; the others count as skipped."""
        return self._replace(
            columns={name: column[whole] for name, column in self.columns.items()},
            lines=None if self.lines is None else np.asarray(self.lines)[whole],
            n_skipped=self.n_skipped + int((~whole).sum()),
            rows=(np.arange(len(whole)) if self.rows is None else self.rows)[whole],
        )


def read_table(
    table: Any,
    wanted: dict[str, str],
    *,
    sep: str | None = None,
    encoding: str = "utf-8",
    skip_missing: bool = False,
) -> Table:
    """Return the wanted columns, {parameter: column name}, of a table or a file.

    `sep` separates the fields of .csv and .tsv, whatever their name is, and `encoding`
    is that of text files. With `skip_missing` rows without a value are left out and
    counted.
    """
    return _checked_table(*_as_given(table, wanted, sep, encoding), skip_missing)


def read_columns(
    path: Any, *, sep: str | None = None, encoding: str = "utf-8"
) -> dict[str, Any]:
    """Return all columns of a file, in their order; values may be missing: None, NaN or empty."""
    wanted: dict[str, str] = {}
    try:  # the error about a column that no file has tells those that this one has
        _as_given(path, {"column": os.urandom(16).hex()}, sep, encoding)
    except MissingColumnError as error:
        wanted = {name: name for name in error.columns}
        other = other_separator(path, error.columns)
        if other is not None and sep is None:
            facts = f"{Path(path).name} has one column, {short(error.columns[0])}"
            way_out = f"if {other!r} separates several, read it with pandas, and pass the frame"
            raise WayOutError(facts, way_out, "sep") from None
    if not wanted:
        name = Path(path).name if isinstance(path, str | os.PathLike) else "The table"
        raise ValueError(
            f"{name} has no rows and no columns: at least one of each is needed."
        )
    return _as_given(path, wanted, sep, encoding)[0].columns


def other_separator(path: Any, columns: Sequence[str]) -> str | None:
    """Return what may separate fields of a file that has one column as it is read."""
    suffix = Path(path).suffix.lower() if isinstance(path, str | os.PathLike) else ""
    if len(columns) != 1 or suffix not in (".csv", ".tsv"):
        return None
    others = ";|," if suffix == ".tsv" else ";\t|"
    return next((c for c in others if c in columns[0]), None)


def _as_given(
    table: Any, wanted: dict[str, str], sep: str | None, encoding: str
) -> tuple[Table, dict[str, np.ndarray]]:
    """Return the wanted columns, and where their values are missing, if the table says so."""
    name = "table"
    if isinstance(table, str | os.PathLike):
        path = Path(table)
        name = path.name
        suffix = path.suffix.lower()
        if suffix not in (".csv", ".tsv", ".jsonl", ".parquet"):
            raise ValueError(f"{name} must end in .csv, .tsv, .jsonl or .parquet.")
        check_file(path)
        if suffix != ".parquet":
            lines = _lines(path, encoding)
            if suffix == ".jsonl":
                return _read_jsonl(path, lines, wanted), {}
            sep = sep or ("\t" if suffix == ".tsv" else ",")
            return _read_csv(path, lines, wanted, sep), {}
        table = _read_parquet(path, wanted)
    if isinstance(table, Mapping):
        _check_columns(name, list(table), wanted)
        return Table(name, {c: table[c] for c in wanted.values()}), {}
    import narwhals.stable.v1 as nw

    try:
        frame = nw.from_native(table, eager_only=True)
    except TypeError:
        raise TypeError(
            "table must be a DataFrame of pandas, polars or pyarrow in memory, a "
            "mapping of columns, or a path to a .csv, .tsv, .jsonl or .parquet file. "
            f"Got {type(table).__module__}.{type(table).__name__}."
        ) from None
    _check_columns(name, frame.columns, wanted)
    _check_text(name, table)
    given = {c: frame.get_column(c) for c in wanted.values()}
    null = {c: column.is_null().to_numpy() for c, column in given.items()}
    return Table(name, {c: column.to_numpy() for c, column in given.items()}), null


def _check_columns(name: str, there: list[str], wanted: dict[str, str]) -> None:
    missing = {key: column for key, column in wanted.items() if column not in there}
    named = dict.fromkeys(missing.values())  # two keys may be one column
    if missing:
        raise MissingColumnError(
            f"{name} has no column {', '.join(map(repr, named))}. Its columns are "
            f"{first_few(there, 12) or 'none'}",
            f"say which is meant with {', '.join(f'{key}=' for key in missing)}",
            "columns",
            tuple(there),
        )
    twice = [column for column in wanted.values() if there.count(column) > 1]
    if twice:
        raise ValueError(f"{name} has column {twice[0]!r} more than once: rename one.")


def _check_text(name: str, table: Any) -> None:
    """Raise ValueError where a pyarrow table has text that is not UTF-8; other libraries check."""
    if not hasattr(table, "validate"):
        return
    try:
        table.validate(full=True)
    except Exception as error:
        reason = str(error).strip().partition("\n")[0][:200]
        raise ValueError(
            f"{name} is damaged, or has text that is not UTF-8: {reason}"
        ) from None


def _checked_table(table: Table, null: dict[str, np.ndarray], skip: bool) -> Table:
    """Return the table with its columns as arrays of equal length; refuse or skip empty fields."""
    empty: dict[str, np.ndarray] = {}
    for name, values in table.columns.items():
        # Text stays Python strings: a NumPy string array gives each item the width of
        # the longest.
        text = isinstance(values, list) and any(
            isinstance(value, str) for value in values
        )
        try:
            column = np.asarray(values, dtype=object if text else None)
            if column.dtype.kind == "f" and isinstance(
                values, list
            ):  # ids may have more digits
                is_long = any(
                    isinstance(value, int) and abs(value) >= 2**53 for value in values
                )
                column = np.array(values, dtype=object) if is_long else column
        except ValueError:  # lists of unequal length
            column = np.empty((0, 0))
        cells = column.ravel().tolist() if column.dtype.kind == "O" else []
        if column.ndim != 1 or any(
            isinstance(cell, list | dict | np.ndarray) for cell in cells
        ):
            raise _not_plain(table.name, name)
        table.columns[name] = column
        missing = null.get(name, np.zeros(len(column), dtype=bool))
        if table.is_text:
            missing = column == ""
        elif column.dtype.kind == "f":
            missing = missing | np.isnan(column)
        elif column.dtype.kind == "O":
            odd = [
                v is None or (isinstance(v, float) and v != v) for v in column.tolist()
            ]
            missing = missing | np.array(odd, dtype=bool)
        empty[name] = missing
        bad = np.flatnonzero(missing)
        if len(bad) and not skip:
            such = "" if len(bad) == 1 else f" ({len(bad)} such rows)"
            facts = f"{table.place(bad[0])} has no value in column {name!r}{such}"
            raise WayOutError(facts, "drop it or fill it", "missing")
    lengths = {name: len(column) for name, column in table.columns.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(
            f"Columns of {table.name} must have the same length. Got {lengths}."
        )
    if not any(lengths.values()):
        raise ValueError(f"{table.name} has no rows: at least one is needed.")
    whole = ~np.logical_or.reduce(list(empty.values()))
    if not whole.any():
        raise ValueError(
            f"{table.name} has no row with a value in each of {first_few(table.columns)}."
        )
    return table if whole.all() else table.only(whole)


def _lines(path: Path, encoding: str) -> Iterator[str]:
    """Yield the lines of a text file; the first that is not UTF-8 is named."""
    is_utf8 = encoding == "utf-8"
    where = path.name
    opened: dict[str, Any] = (
        {"mode": "rb"} if is_utf8 else {"encoding": encoding, "newline": ""}
    )
    try:
        with path.open(**opened) as file:
            for number, line in enumerate(file, start=1):
                where = f"{path.name}, line {number}" if is_utf8 else path.name
                yield (
                    line.decode("utf-8-sig" if number == 1 else "utf-8")
                    if is_utf8
                    else line
                )
    except (LookupError, UnicodeError) as error:
        facts = (
            f"{where} is not {'UTF-8' if is_utf8 else repr(encoding)} text ({error})"
        )
        raise WayOutError(facts, "save the file as UTF-8", "encoding") from None


def _read_csv(
    path: Path, text: Iterator[str], wanted: dict[str, str], sep: str
) -> Table:
    reader = csv.reader(text, delimiter=sep, strict=True)
    lines = array("q")
    limit = csv.field_size_limit(
        2**31 - 1
    )  # a field may hold a whole book; a C long on Windows
    try:
        header = next(reader, [])
        _check_columns(path.name, header, wanted)
        columns: dict[str, Any] = {name: [] for name in wanted.values()}
        keep = [(header.index(name), column.append) for name, column in columns.items()]
        for fields in reader:
            if len(fields) == len(header):
                for place, append in keep:
                    append(fields[place])
                lines.append(reader.line_num)
            elif fields:
                raise ValueError(
                    f"{path.name}, line {reader.line_num} has {len(fields)} "
                    f"field{'s' * (len(fields) > 1)}, but the header has {len(header)}."
                )
    except csv.Error as error:
        raise ValueError(
            f"{path.name}, line {reader.line_num} cannot be read: {error}."
        ) from None
    finally:
        csv.field_size_limit(limit)
    return Table(path.name, columns, lines, is_text=True)


def _read_jsonl(path: Path, text: Iterator[str], wanted: dict[str, str]) -> Table:
    columns: dict[str, Any] = {name: [] for name in wanted.values()}
    lines = array("q")
    there = dict[str, None]()
    for number, line in enumerate(text, start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line, object_pairs_hook=_unique, parse_constant=_refuse)
        except (ValueError, RecursionError) as error:
            reason = str(error)[:100]
            raise ValueError(
                f"{path.name}, line {number} cannot be read: {reason}."
            ) from None
        if not isinstance(record, dict):
            raise ValueError(f"{path.name}, line {number} must be an object, {{...}}.")
        there |= dict.fromkeys(record)
        for name, column in columns.items():
            column.append(record.get(name))
        lines.append(number)
    if lines:
        _check_columns(path.name, list(there), wanted)
    return Table(path.name, columns, lines)


def _unique(members: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the members of an object; refuse a name that occurs twice, and endless numbers."""
    for _, value in members:
        if isinstance(value, float) and math.isinf(value):
            raise ValueError("a number is too large")
    if len(dict(members)) < len(members):
        twice, _ = Counter(name for name, _ in members).most_common(1)[0]
        raise ValueError(f"the name {short(twice)} occurs twice")
    return dict(members)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _read_parquet(path: Path, wanted: dict[str, str]) -> Any:
    """Return the wanted columns; Polars would print a panic of its threads for a damaged file."""
    try:
        pa, pq = map(import_module, ("pyarrow", "pyarrow.parquet"))
    except ImportError:
        raise ImportError(
            f"Reading {path.name} needs pyarrow: install it, pass a DataFrame, or save "
            "the table as .csv."
        ) from None
    names = list(wanted.values())
    with parsing(path, "Parquet"):
        schema = pq.read_schema(path)
    _check_columns(path.name, schema.names, wanted)
    for name in names:
        kind = schema.field(name).type
        if pa.types.is_nested(kind) or pa.types.is_fixed_size_binary(kind):
            raise _not_plain(path.name, name)
    with parsing(path, "Parquet"), pq.ParquetFile(path, read_dictionary=names) as file:
        _check_sizes(path, file.metadata, len(names))
        table = file.read(names, use_threads=False)
    _check_text(path.name, table)
    chunks = {name: table.column(name).chunks for name in names}
    return {
        name: [v for one in some for v in _values(one)] for name, some in chunks.items()
    }


def _check_sizes(path: Path, metadata: Any, n_columns: int) -> None:
    """Raise DataFileError where the sizes in the file say that it expands to far more."""
    groups = map(metadata.row_group, range(metadata.num_row_groups))
    # Of all columns: to ask for the size of one ends the process where the file is
    # damaged.
    size = 8 * n_columns * metadata.num_rows + sum(
        max(g.total_byte_size, 0) for g in groups
    )
    check_expansion(path, size, "Save it as .csv")


def _values(column: Any) -> list[Any]:
    """Return the values of a column; a text that occurs a million times is one object."""
    if not hasattr(column, "dictionary"):
        return column.to_pylist()
    known = [*column.dictionary.to_pylist(), None]
    return [known[-1 if k is None else k] for k in column.indices.to_pylist()]


def _not_plain(table: str, column: str) -> ValueError:
    return ValueError(f"Column {column!r} of {table} must hold one value in each row.")


def row_index(ids: Any, is_text: bool) -> dict[Any, int] | None:
    """Return the row of each id, None without ids."""
    if ids is None:
        return None
    # A NumPy array of strings would strip null characters.
    given = (
        np.array(ids, dtype=object)
        if isinstance(ids, list | tuple)
        else np.asarray(ids)
    )
    if given.ndim != 1:
        raise ValueError(
            f"ids must have shape (n_rows,), one id per row. Got shape {given.shape}."
        )
    keys = [str(key) for key in given.tolist()] if is_text else given.tolist()
    return unique_index(keys)


def unique_index(keys: list[Any]) -> dict[Any, int]:
    """Return the number of each key; raise ValueError where one occurs twice."""
    index = {key: number for number, key in enumerate(keys)}
    if len(index) < len(keys):
        several = [key for key, count in Counter(keys).items() if count > 1]
        raise ValueError(
            f"ids must be different, but {len(several)} of them occur more than once: "
            f"{first_few(several)}."
        )
    return index


def row_numbers(table: Table, name: str, index: dict[Any, int] | None) -> np.ndarray:
    """Return the row numbers of X that a column of ids, or of row numbers, stands for."""
    column = table.columns[name]
    if index is not None:
        values = column.tolist()
        rows = np.fromiter(map(index.get, values, repeat(-1)), np.int64, len(values))
        if rows.min() >= 0:
            return rows
        unknown = list(dict.fromkeys(values[k] for k in np.flatnonzero(rows < 0)))
        many = "1 id" if len(unknown) == 1 else f"{len(unknown)} ids"
        match = "matches" if len(unknown) == 1 else "match"
        message = f"{many} in column {name!r} of {table.name} {match} no row: {first_few(unknown)}."
        kinds = [
            type(value).__name__ for value in (unknown[0], next(iter(index), None))
        ]
        if kinds[0] != kinds[1]:
            message += (
                f" The column holds {kinds[0]}, ids hold {kinds[1]}: convert one."
            )
        raise ValueError(message)
    if table.is_text:
        column = _parsed(table, name, int, "a row number")
    if column.dtype.kind not in "iu":
        raise WayOutError(
            f"Column {name!r} of {table.name} must hold row numbers, integers. Got "
            f"dtype {column.dtype}",
            f"{PASS_IDS}, or convert the column",
            "ids",
        )
    good = (column >= 0) & (column <= np.iinfo(np.int64).max)
    table.check(name, good, "rows are numbered from 0")
    return column.astype(np.int64)


def numbers(table: Table, name: str) -> np.ndarray:
    """Return a column of finite numbers."""
    column = table.columns[name]
    if table.is_text:
        column = _parsed(table, name, float, "a number")
    if column.dtype.kind not in "biuf":
        raise ValueError(
            f"Column {name!r} of {table.name} must hold numbers. Got dtype "
            f"{column.dtype}."
        )
    table.check(name, np.isfinite(column), "numbers must be finite")
    return column.astype(np.float64)


def flags(table: Table, name: str) -> np.ndarray:
    """Return a column of true and false as 1 and 0."""
    words = {"true": 1, "false": 0, "1": 1, "0": 0} if table.is_text else {1: 1, 0: 0}
    values = [
        value.lower() if table.is_text else value
        for value in table.columns[name].tolist()
    ]
    flags = np.fromiter(map(words.get, values, repeat(-1)), np.int64, len(values))
    table.check(name, flags >= 0, "true or false, or 1 or 0, is expected")
    return flags


def _parsed(table: Table, name: str, kind: type, what: str) -> np.ndarray:
    """Return a column of text as numbers."""
    found = []
    for row, value in enumerate(table.columns[name].tolist()):
        try:
            digits = value.strip()
            is_name = "_" in value or (
                kind is int and digits[:1] == "0" and len(digits) > 1
            )
            found.append(
                kind("x" if is_name else value)
            )  # Python reads 1_0 as 10 and 01 as 1
        except ValueError:
            where = f"{table.place(row)} has {short(value)} in column {name!r}"
            facts = f"{where}, which is not {what}"
            if kind is int:
                raise WayOutError(facts, PASS_IDS, "ids") from None
            raise ValueError(f"{facts}.") from None
    return np.array(found)
