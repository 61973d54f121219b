"""Reading a table from wherever it is: a file by its suffix, a frame, or a mapping."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from ...input.errors import WayOutError, short
from ..files import check_file
from .columns import RawTable, Table, checked_table
from .csv_files import CsvFile
from .frames import ColumnMapping, Frame
from .jsonl_files import JsonlFile
from .marks import check_marks
from .parquet_files import ParquetFile

#: What separates fields where the caller names nothing, and what else often does.
SEPARATORS = {".csv": ",", ".tsv": "\t"}
OTHER_SEPARATORS = {".csv": ";\t|", ".tsv": ";|,"}

SUFFIXES = (*SEPARATORS, ".jsonl", ".parquet")


class TableSource(Protocol):
    """Where a table comes from."""

    def column_names(self) -> list[str]:
        """Return the names of all columns, in their order."""

    def read(self, wanted: dict[str, str]) -> RawTable:
        """Return the wanted columns, {parameter: column name}; raise where one is missing."""


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
    raw = table_source(table, sep, encoding).read(wanted)
    return checked_table(raw, skip_missing=skip_missing)


def column_names(
    table: Any, *, sep: str | None = None, encoding: str = "utf-8"
) -> list[str]:
    """Return the names of all columns of a table or a file, in their order.

    Raises
    ------
    WayOutError
        The only name looks like several that something else than `sep` separates.
    """
    names = table_source(table, sep, encoding).column_names()
    other = other_separator(table, names)
    if other is not None and sep is None:
        raise WayOutError(
            f"{Path(table).name} has one column, {short(names[0])}",
            f"if {other!r} separates several, read it with pandas, and pass the frame",
            "sep",
        )
    return names


def read_columns(
    table: Any, *, sep: str | None = None, encoding: str = "utf-8"
) -> dict[str, Any]:
    """Return all columns of a table or a file; values may be missing: None, NaN or empty.

    Texts are put in order by whoever compares them: `check_marks` limits what that costs.
    """
    names = column_names(table, sep=sep, encoding=encoding)
    subject = Path(table).name if _is_path(table) else "The table"
    if not names:
        raise ValueError(
            f"{subject} has no rows and no columns: at least one of each is needed."
        )
    wanted = {name: name for name in names}
    columns = table_source(table, sep, encoding).read(wanted).columns
    check_marks(columns, subject)
    return columns


def other_separator(table: Any, names: Sequence[str]) -> str | None:
    """Return what may separate fields of a file that has one column as it is read."""
    if len(names) != 1 or not _is_path(table):
        return None
    separators = OTHER_SEPARATORS.get(Path(table).suffix.lower(), "")
    return next((separator for separator in separators if separator in names[0]), None)


def _is_path(table: Any) -> bool:
    return isinstance(table, str | os.PathLike)
