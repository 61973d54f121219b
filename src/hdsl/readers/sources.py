"""Where tables come from: files of four kinds, frames and mappings, as columns.

The readers of .csv and .jsonl are Python's own, line by line, so that a message names
the line and a hostile file takes little memory. Parquet is read by pyarrow alone: its
sizes can be looked at before memory is allocated, and Polars prints a panic if a file is
damaged.
"""

from __future__ import annotations

import codecs
import csv
import json
import math
import os
from array import array
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

import numpy as np

from ..input.errors import WayOutError, first_few, short
from .files import check_expansion, check_file, expansion_limit, parsing

#: What separates fields where the caller names nothing, and what else often does.
SEPARATORS = {".csv": ",", ".tsv": "\t"}
OTHER_SEPARATORS = {".csv": ";\t|", ".tsv": ";|,"}

SUFFIXES = (*SEPARATORS, ".jsonl", ".parquet")

#: Characters of a field, which may hold a whole book: the largest C long on Windows.
FIELD_LIMIT = 2**31 - 1

#: Bytes of a value in a column that a record does not have.
POINTER = 8

#: What messages call a table that has no name of its own.
NAME = "table"


@dataclass(frozen=True)
class RawTable:
    """Columns as they stand in their source; nothing is checked but their names.

    Parameters
    ----------
    name : str
        What messages call the table.
    columns : dict of str to list or array
    lines : sequence of int, default=None
        The line of the file of each row.
    is_text : bool, default=False
        Whether all values are text, since the source has no other kind.
    is_null : dict of str to ndarray of bool
        Where values are missing, of the columns whose source says so.
    """

    name: str
    columns: dict[str, Any]
    lines: Any = None
    is_text: bool = False
    is_null: dict[str, np.ndarray] = field(default_factory=dict)


class TableSource(Protocol):
    """Where a table comes from."""

    def column_names(self) -> list[str]:
        """Return the names of all columns, in their order."""

    def read(self, wanted: dict[str, str]) -> RawTable:
        """Return the wanted columns, {parameter: column name}; raise if one is missing."""


def table_source(table: Any, sep: str | None, encoding: str) -> TableSource:
    """Return the source that a user gives as a table."""
    if isinstance(table, str | os.PathLike):
        return _file_source(Path(table), sep, encoding)
    if isinstance(table, Mapping):
        return ColumnMapping(table)
    return Frame(table)


def _file_source(path: Path, sep: str | None, encoding: str) -> TableSource:
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise ValueError(f"{path.name} must end in .csv, .tsv, .jsonl or .parquet.")
    check_file(path)
    if suffix == ".parquet":
        return ParquetFile(path)
    if suffix == ".jsonl":
        return JsonlFile(path, encoding)
    return CsvFile(path, sep or SEPARATORS[suffix], encoding)


# --- names of columns -----------------------------------------------------------------


class MissingColumnError(WayOutError):
    """A table without a column that the caller wants; `columns` are those that it has."""

    def __init__(
        self, facts: str, way_out: str, remedy: str, columns: tuple[str, ...]
    ) -> None:
        super().__init__(facts, way_out, remedy)
        self.args = (facts, way_out, remedy, columns)
        self.columns = columns


def _check_wanted(table: str, names: Sequence[str], wanted: dict[str, str]) -> None:
    """Raise ValueError unless a table has each wanted column, {parameter: name}, once.

    A table of which no column is wanted raises MissingColumnError too: the caller learns
    from it what to choose from.
    """
    if not wanted:
        raise _missing_columns(
            f"No column of {table} is named", "name at least one", names
        )
    counts = Counter(names)
    missing = {key: name for key, name in wanted.items() if not counts[name]}
    if missing:
        different = dict.fromkeys(missing.values())  # two keys may be one column
        parameters = ", ".join(f"{key}=" for key in missing)
        raise _missing_columns(
            f"{table} has no column {', '.join(map(repr, different))}",
            f"say which is meant with {parameters}",
            names,
        )
    for name in wanted.values():
        if counts[name] > 1:
            raise ValueError(f"{table} has column {name!r} more than once: rename one.")


def _missing_columns(
    fault: str, way_out: str, names: Sequence[str]
) -> MissingColumnError:
    listed = first_few(names, 12) or "none"
    return MissingColumnError(
        f"{fault}. Its columns are {listed}", way_out, "columns", tuple(names)
    )


def not_plain(table: str, column: str) -> ValueError:
    """Return the error about a column whose values are lists or the like."""
    return ValueError(f"Column {column!r} of {table} must hold one value in each row.")


# --- lines of text files --------------------------------------------------------------


def _text_lines(path: Path, encoding: str) -> Generator[str, None, None]:
    """Yield the lines of a text file with their ends; raise if one is not such text."""
    if encoding == "utf-8":
        return _utf8_lines(path)
    return _encoded_lines(path, encoding)


def _utf8_lines(path: Path) -> Generator[str, None, None]:
    """Yield the lines, without the byte order mark; the error names the first bad line."""
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if number == 1:
                line = line.removeprefix(codecs.BOM_UTF8)
            try:
                text = line.decode("utf-8")
            except UnicodeError as error:
                where = f"{path.name}, line {number}"
                raise _not_text(where, "UTF-8", error) from None
            yield text


def _encoded_lines(path: Path, encoding: str) -> Generator[str, None, None]:
    try:
        with path.open(encoding=encoding, newline="") as file:
            yield from file
    except (LookupError, UnicodeError) as error:
        raise _not_text(path.name, repr(encoding), error) from None


def _not_text(where: str, encoding: str, error: Exception) -> WayOutError:
    facts = f"{where} is not {encoding} text ({error})"
    return WayOutError(facts, "save the file as UTF-8", "encoding")


# --- .csv and .tsv --------------------------------------------------------------------


@dataclass(frozen=True)
class CsvFile:
    """A file whose first line names the columns."""

    path: Path
    separator: str
    encoding: str

    def column_names(self) -> list[str]:
        """Return the fields of the header."""
        with self._records() as records:
            return next(records, [])

    def read(self, wanted: dict[str, str]) -> RawTable:
        """Return the wanted columns, {parameter: column name}; all values are text."""
        name = self.path.name
        columns: dict[str, list[str]] = {column: [] for column in wanted.values()}
        lines = array("q")
        with self._records() as records:
            header: list[str] = next(records, [])
            _check_wanted(name, header, wanted)
            numbers = {column: number for number, column in enumerate(header)}
            appends = [
                (numbers[column], values.append) for column, values in columns.items()
            ]
            for fields in records:
                if not fields:  # an empty line
                    continue
                if len(fields) != len(header):
                    raise ValueError(
                        f"{name}, line {records.line_num} has {_n_fields(fields)}, but "
                        f"the header has {len(header)}."
                    )
                for number, append in appends:
                    append(fields[number])
                lines.append(records.line_num)
        return RawTable(name, columns, lines, is_text=True)

    @contextmanager
    def _records(self) -> Iterator[Any]:
        """Yield a reader of records; an error of its parser names the line."""
        text = _text_lines(self.path, self.encoding)
        records = csv.reader(text, delimiter=self.separator, strict=True)
        limit = csv.field_size_limit(FIELD_LIMIT)
        try:
            yield records
        except csv.Error as error:
            raise ValueError(
                f"{self.path.name}, line {records.line_num} cannot be read: {error}."
            ) from None
        finally:
            csv.field_size_limit(limit)
            text.close()  # the file, even if its lines are not read to the end


def _n_fields(fields: list[str]) -> str:
    return "1 field" if len(fields) == 1 else f"{len(fields)} fields"


# --- .jsonl ---------------------------------------------------------------------------


@dataclass(frozen=True)
class JsonlFile:
    """A file of records, each of which has some of the columns."""

    path: Path
    encoding: str

    def column_names(self) -> list[str]:
        """Return the names in all records, since a later one may have others."""
        names: dict[str, None] = {}
        for _, record in self._records():
            names |= dict.fromkeys(record)
        return list(names)

    def read(self, wanted: dict[str, str]) -> RawTable:
        """Return the wanted columns, {parameter: column name}; None if a record lacks it."""
        columns: dict[str, list[Any]] = {name: [] for name in wanted.values()}
        names: dict[str, None] = {}
        lines = array("q")
        n_most = expansion_limit(self.path) // POINTER
        for number, record in self._records():
            if len(columns) * len(lines) > n_most:
                size = POINTER * len(columns) * len(lines)
                check_expansion(self.path, size, "Save it as .csv")
            names |= dict.fromkeys(record)
            for name, values in columns.items():
                values.append(record.get(name))
            lines.append(number)
        if lines:
            _check_wanted(self.path.name, list(names), wanted)
        return RawTable(self.path.name, columns, lines)

    def _records(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the number of each line that is not blank, and its record."""
        for number, line in enumerate(_text_lines(self.path, self.encoding), start=1):
            if line.strip():
                yield number, _record(f"{self.path.name}, line {number}", line)


def _record(where: str, line: str) -> dict[str, Any]:
    """Return the object in a line; raise ValueError if there is none or it is doubtful."""
    try:
        record = json.loads(line, object_pairs_hook=_members, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        reason = str(error)[:100]
        raise ValueError(f"{where} cannot be read: {reason}.") from None
    if not isinstance(record, dict):
        raise ValueError(f"{where} must be an object, {{...}}.")
    return record


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the members of an object; refuse a name that occurs twice, and endless numbers."""
    for _, value in pairs:
        if isinstance(value, float) and math.isinf(value):
            raise ValueError("a number is too large")
    members = dict(pairs)
    if len(members) < len(pairs):
        repeated, _ = Counter(name for name, _ in pairs).most_common(1)[0]
        raise ValueError(f"the name {short(repeated)} occurs twice")
    return members


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


# --- .parquet -------------------------------------------------------------------------


@dataclass(frozen=True)
class ParquetFile:
    """A file whose schema names the columns."""

    path: Path

    def column_names(self) -> list[str]:
        """Return the names in the schema."""
        return list(self._schema().names)

    def read(self, wanted: dict[str, str]) -> RawTable:
        """Return the wanted columns, {parameter: column name}."""
        schema = self._schema()
        _check_wanted(self.path.name, schema.names, wanted)
        names = list(wanted.values())
        self._check_plain(schema, names)
        parquet = self._parquet()
        with (
            parsing(self.path, "Parquet"),
            parquet.ParquetFile(self.path, read_dictionary=names) as file,
        ):
            _check_sizes(self.path, file.metadata, n_columns=len(names))
            table = file.read(names, use_threads=False)
        _check_arrow_text(self.path.name, table)
        columns = {name: _values(table.column(name)) for name in names}
        return RawTable(self.path.name, columns)

    def _parquet(self) -> ModuleType:
        """Return the module of pyarrow that reads Parquet."""
        try:
            import pyarrow.parquet
        except ImportError:
            raise ImportError(
                f"Reading {self.path.name} needs pyarrow: install it, pass a DataFrame, "
                "or save the table as .csv."
            ) from None
        return pyarrow.parquet

    def _schema(self) -> Any:
        parquet = self._parquet()
        with parsing(self.path, "Parquet"):
            return parquet.read_schema(self.path)

    def _check_plain(self, schema: Any, names: list[str]) -> None:
        """Raise ValueError if a column holds lists, records or pieces of bytes."""
        from pyarrow import types

        for name in names:
            kind = schema.field(name).type
            if types.is_nested(kind) or types.is_fixed_size_binary(kind):
                raise not_plain(self.path.name, name)


def _check_sizes(path: Path, metadata: Any, *, n_columns: int) -> None:
    """Raise DataFileError if the sizes in the file say that it expands to far more."""
    # Of all columns: to ask for the size of a single column ends the process where the
    # file is damaged.
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    content = sum(max(group.total_byte_size, 0) for group in groups)
    pointers = 8 * n_columns * metadata.num_rows
    check_expansion(path, pointers + content, "Save it as .csv")


def _values(column: Any) -> list[Any]:
    """Return the values of a column that comes in chunks."""
    return list(chain.from_iterable(map(_chunk_values, column.chunks)))


def _chunk_values(chunk: Any) -> list[Any]:
    """Return the values of a chunk; a text that occurs a million times is one object."""
    if not hasattr(chunk, "dictionary"):
        return chunk.to_pylist()
    words = chunk.dictionary.to_pylist()
    return [_word(words, number) for number in chunk.indices.to_pylist()]


def _word(words: list[Any], number: int | None) -> Any:
    return None if number is None else words[number]


def _check_arrow_text(name: str, table: Any) -> None:
    """Raise ValueError if a pyarrow table has text that is not UTF-8.

    A table of another library passes: they check text when they read it.
    """
    if not hasattr(table, "validate"):
        return
    try:
        table.validate(full=True)
    except Exception as error:
        reason = str(error).strip().partition("\n")[0][:200]
        raise ValueError(
            f"{name} is damaged, or has text that is not UTF-8: {reason}"
        ) from None


# --- tables in memory -----------------------------------------------------------------


@dataclass(frozen=True)
class ColumnMapping:
    """A mapping of names to columns."""

    mapping: Mapping[str, Any]

    def column_names(self) -> list[str]:
        """Return the keys."""
        return list(self.mapping)

    def read(self, wanted: dict[str, str]) -> RawTable:
        """Return the wanted columns, {parameter: column name}."""
        _check_wanted(NAME, self.column_names(), wanted)
        columns = {name: self.mapping[name] for name in wanted.values()}
        for name, column in columns.items():
            if isinstance(column, str | bytes):
                raise ValueError(
                    f"Column {name!r} of {NAME} must be a list of values, one per row. "
                    f"Got {short(column)}."
                )
        return RawTable(NAME, columns)


@dataclass(frozen=True)
class Frame:
    """A DataFrame of pandas, polars or pyarrow."""

    table: Any

    def column_names(self) -> list[str]:
        """Return the names of the columns."""
        return self._narwhals().columns

    def read(self, wanted: dict[str, str]) -> RawTable:
        """Return the wanted columns, {parameter: column name}, and where the frame has nulls."""
        frame = self._narwhals()
        _check_wanted(NAME, frame.columns, wanted)
        _check_arrow_text(NAME, self.table)
        columns = {name: frame.get_column(name) for name in wanted.values()}
        return RawTable(
            name=NAME,
            columns={name: column.to_numpy() for name, column in columns.items()},
            is_null={
                name: column.is_null().to_numpy() for name, column in columns.items()
            },
        )

    def _narwhals(self) -> Any:
        """Return the frame with the verbs that all libraries share."""
        import narwhals.stable.v1 as nw
        from narwhals.exceptions import DuplicateError

        try:
            return nw.from_native(self.table, eager_only=True)
        except DuplicateError as error:
            words = " ".join(str(error).split())
            raise ValueError(
                f"{NAME} has a column name more than once: rename one. {words}."
            ) from None
        except TypeError:
            kind = type(self.table)
            raise TypeError(
                "table must be a DataFrame of pandas, polars or pyarrow in memory, a "
                "mapping of columns, or a path to a .csv, .tsv, .jsonl or .parquet "
                f"file. Got {kind.__module__}.{kind.__name__}."
            ) from None
