"""The tables that `hdsl link` reads and writes: their columns, records and ids."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from ..files.atomic import atomic_write
from ..readers import tables
from .files import check_input, separator
from .formulas import as_meant, as_text
from .messages import say
from .wording import counted

#: Columns of a file of links; one of pairs to label has answers before.
LINK_COLUMNS = ("left", "right", "probability", "left_text", "right_text")

Columns = dict[str, list[Any]]
Record = dict[str, Any]


class Format(NamedTuple):
    """How the text of a table is encoded, and what separates its fields."""

    encoding: str = "utf-8"
    sep: str | None = None

    @classmethod
    def of_options(cls, encoding: str, sep: str | None) -> Format:
        """Return the format that --encoding and --sep name."""
        return cls(encoding, separator(sep))


def read_columns(path: Path, form: Format) -> Columns:
    """Return all columns of a table."""
    check_input(path, form.encoding)
    columns = tables.read_columns(path, encoding=form.encoding, sep=form.sep)
    return {name: list(values) for name, values in columns.items()}


def read_written(path: Path) -> Columns:
    """Return all columns of a table that `write_csv` has written."""
    columns = read_columns(path, Format())
    return {
        as_meant(name): [as_meant(value) for value in values]
        for name, values in columns.items()
    }


def records_of(columns: Columns) -> list[Record]:
    """Return the rows of a table, each as values by the names of its columns."""
    rows = zip(*columns.values(), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def id_columns_of(tables: Iterable[Columns], *, is_needed: bool) -> list[str]:
    """Return the columns that are called id; none where a table has none.

    Where ids are needed, as known pairs name records by them, tables of which only some
    have ids are an error.
    """
    names = [_id_column(columns) for columns in tables]
    if all(name is not None for name in names):
        return [name for name in names if name is not None]
    if is_needed and any(name is not None for name in names):
        way_out = "name both with --id, or give both one or none"
        raise ValueError(f"One table has a column id, the other has none: {way_out}.")
    return []


def _id_column(columns: Columns) -> str | None:
    """Return the column called id, in any case if its values differ."""
    for name, values in columns.items():
        if name == "id":
            return name
        if name.lower() == "id" and len(set(values)) == len(values):
            return name
    return None


def ids_of(tables: Iterable[Columns], id_columns: Iterable[str]) -> set[str]:
    """Return all ids of some tables as strings."""
    names = list(id_columns)
    ids = set[str]()
    for columns in tables:
        for name in names:
            ids.update(map(str, columns.get(name, ())))
    return ids


def write_csv(path: Path, header: Iterable[str], records: Iterable[Record]) -> None:
    """Write some columns of records as `csv_of` has them."""
    with atomic_write(path, str(path)) as file:
        file.write(csv_of(path, header, records))


@contextmanager
def written_together(files: Mapping[Path, bytes]) -> Iterator[None]:
    """Replace files once what is done in between has been done, and none after an error.

    All bytes are on the disk before.
    """
    with ExitStack() as stack:
        for path, content in files.items():
            file = stack.enter_context(atomic_write(path, str(path)))
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        yield


def csv_of(path: Path, header: Iterable[str], records: Iterable[Record]) -> bytes:
    """Return some columns of records for a file, empty where a record has none.

    Cells that a spreadsheet would run as formulas are written as text, and it is said.
    """
    names = [*header]
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow([as_text(name) for name in names])
    n_formulas = 0
    for record in records:
        cells = []
        for name in names:
            value = record.get(name, "")
            cell = as_text(value)
            n_formulas += cell is not value
            cells.append(cell)
        writer.writerow(cells)
    if n_formulas:
        say(
            f"{counted(n_formulas, 'cell')} of {path} would be a formula in a "
            "spreadsheet: an apostrophe is put before."
        )
    return text.getvalue().encode("utf-8", "replace")
