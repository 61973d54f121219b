"""Tables in files, frames and mappings: for texts, judgements and links alike.

`read_table` reads the columns that a caller names, without missing values, as a `CheckedTable`
whose verbs give numbers, flags and row numbers; `read_columns` reads all columns as they
stand.
"""

from __future__ import annotations

import os
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import repeat
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..input.errors import WayOutError, first_few, short, warn
from .sources import (
    OTHER_SEPARATORS,
    MissingColumnError,
    RawTable,
    not_plain,
    table_source,
)

__all__ = [
    "CheckedTable",
    "MissingColumnError",
    "column_names",
    "other_separator",
    "read_columns",
    "read_table",
    "unique_index",
]

#: Former names of columns: they are read if the new name is missing.
FORMER_NAMES = {"query": "anchor", "document": "item"}

#: What to do if ids stand in place of row numbers.
PASS_IDS = "pass ids=, the id of each row of X"

#: Most combining marks in a row, since putting them in order costs the square of their
#: number. Unicode calls 30 enough for any writing (annex 15), and 1,000 are put in order
#: in a few milliseconds.
MARKS_LIMIT = 1000


# --- reading --------------------------------------------------------------------------


def read_table(
    table: Any,
    wanted: dict[str, str],
    *,
    sep: str | None = None,
    encoding: str = "utf-8",
    skip_missing: bool = False,
) -> CheckedTable:
    """Return the wanted columns, {parameter: column name}, of a table or a file.

    `sep` separates the fields of .csv and .tsv, whatever their name is, and `encoding`
    is that of text files. With `skip_missing` rows without a value are left out and
    counted.
    """
    source = table_source(table, sep, encoding)
    try:
        raw = source.read(wanted)
    except MissingColumnError as error:
        former = _former_names(wanted, error.columns)
        if former == wanted:
            raise
        raw = _renamed(source.read(former), former, wanted)
    return _checked_table(raw, skip_missing=skip_missing)


def _former_names(wanted: dict[str, str], columns: Sequence[str]) -> dict[str, str]:
    """Return the wanted columns, with former names if the table has only these.

    A name that the caller chose, other than that of its parameter, stays.
    """
    names = dict(wanted)
    for parameter, name in wanted.items():
        former = FORMER_NAMES.get(name)
        if parameter == name and name not in columns and former in columns:
            names[parameter] = str(former)
    return names


def _renamed(raw: RawTable, former: dict[str, str], wanted: dict[str, str]) -> RawTable:
    """Return a table that was read by former names with the wanted names."""
    columns = {name: raw.columns[former[key]] for key, name in wanted.items()}
    is_null = {
        name: raw.is_null[former[key]]
        for key, name in wanted.items()
        if former[key] in raw.is_null
    }
    return replace(raw, columns=columns, is_null=is_null)


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

    A text with very many combining marks in a row is refused: whoever compares texts puts
    these marks in order.
    """
    names = column_names(table, sep=sep, encoding=encoding)
    subject = Path(table).name if _is_path(table) else "The table"
    if not names:
        raise ValueError(
            f"{subject} has no rows and no columns: at least one of each is needed."
        )
    wanted = {name: name for name in names}
    columns = table_source(table, sep, encoding).read(wanted).columns
    _check_marks(columns, subject)
    return columns


def other_separator(table: Any, names: Sequence[str]) -> str | None:
    """Return what may separate fields of a file that has one column as it is read."""
    if len(names) != 1 or not _is_path(table):
        return None
    separators = OTHER_SEPARATORS.get(Path(table).suffix.lower(), "")
    return next((separator for separator in separators if separator in names[0]), None)


def _is_path(table: Any) -> bool:
    return isinstance(table, str | os.PathLike)


class CheckedTable(NamedTuple):
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
        if self.lines is None:
            return f"{self.name}, row {row}"
        return f"{self.name}, line {self.lines[row]}"

    def check(self, name: str, is_good: np.ndarray, wanted: str) -> None:
        """Raise ValueError with the first value of a column that is not as wanted."""
        for row in np.flatnonzero(~is_good)[:1]:
            value = short(self.columns[name].tolist()[row])
            raise ValueError(
                f"{self.place(row)} has {value} in column {name!r}: {wanted}."
            )

    def only(self, is_kept: np.ndarray) -> CheckedTable:
        """Return the rows that are kept; the others count as skipped."""
        lines = self.lines
        if lines is not None:
            lines = np.asarray(lines)[is_kept]
        rows = self.rows
        if rows is None:
            rows = np.arange(len(is_kept))
        return self._replace(
            columns={name: column[is_kept] for name, column in self.columns.items()},
            lines=lines,
            n_skipped=self.n_skipped + int((~is_kept).sum()),
            rows=rows[is_kept],
        )

    def numbers(self, name: str) -> np.ndarray:
        """Return a column of finite numbers."""
        column = self.columns[name]
        if self.is_text:
            column = _parsed(self, name, _number, _not_a_number)
        if column.dtype.kind not in "biuf":
            raise ValueError(
                f"Column {name!r} of {self.name} must hold numbers. Got dtype "
                f"{column.dtype}."
            )
        self.check(name, np.isfinite(column), "numbers must be finite")
        return column.astype(np.float64)

    def flags(self, name: str) -> np.ndarray:
        """Return a column of true and false as 1 and 0."""
        values = self.columns[name].tolist()
        meaning: dict[Any, int] = {1: 1, 0: 0}
        if self.is_text:
            values = [value.lower() for value in values]
            meaning = {"true": 1, "false": 0, "1": 1, "0": 0}
        flags = np.fromiter(map(meaning.get, values, repeat(-1)), np.int64, len(values))
        self.check(name, flags >= 0, "true or false, or 1 or 0, is expected")
        return flags

    def row_index(self, ids: Any) -> dict[Any, int] | None:
        """Return the row of each id, as text if the table has only text; None without ids."""
        if ids is None:
            return None
        # A NumPy array of strings would strip null characters.
        dtype = object if isinstance(ids, list | tuple) else None
        array = np.asarray(ids, dtype=dtype)
        if array.ndim != 1:
            raise ValueError(
                f"ids must have shape (n_rows,), one id per row. Got shape {array.shape}."
            )
        keys = array.tolist()
        if self.is_text:
            keys = [str(key) for key in keys]
        return unique_index(keys)

    def row_numbers(self, name: str, index: dict[Any, int] | None) -> np.ndarray:
        """Return the row numbers of X that a column of ids, or of row numbers, stands for."""
        if index is None:
            return _plain_numbers(self, name)
        ids = self.columns[name].tolist()
        rows = np.fromiter(map(index.get, ids, repeat(-1)), np.int64, len(ids))
        if rows.min() < 0:
            unknown = list(dict.fromkeys(ids[k] for k in np.flatnonzero(rows < 0)))
            raise ValueError(_about_unknown(self, name, index, unknown))
        return rows

    def without_unknown(
        self, name: str, index: dict[Any, int] | None, max_unknown: float
    ) -> CheckedTable:
        """Return the lines whose id in a column has a row; warn of the others.

        More lines than the share `max_unknown` are an error, as those of a log about another
        table would be. Nothing is left out if it is 0, nor of row numbers.
        """
        if index is None or max_unknown == 0.0:
            return self
        ids = self.columns[name].tolist()
        is_known = np.fromiter((key in index for key in ids), bool, len(ids))
        n_unknown = int((~is_known).sum())
        if n_unknown == 0:
            return self
        unknown = list(dict.fromkeys(ids[k] for k in np.flatnonzero(~is_known)))
        facts = f"{_about_unknown(self, name, index, unknown)[:-1]}"
        share = f"{n_unknown:,} of {len(ids):,} lines"
        if n_unknown > max_unknown * len(ids):
            raise WayOutError(
                f"{facts}. These are {share}, more than a share of {max_unknown:g}",
                "check the ids, or raise max_unknown if these rows no longer exist",
                "unknown",
            )
        warn(f"{facts}: {share} are left out.")
        return self.only(is_known)


def _checked_table(raw: RawTable, *, skip_missing: bool) -> CheckedTable:
    """Return the columns as arrays of equal length; refuse or skip rows without a value."""
    columns = {
        name: _as_column(raw.name, name, values) for name, values in raw.columns.items()
    }
    table = CheckedTable(raw.name, columns, raw.lines, raw.is_text)
    is_missing = {name: _missing(raw, name, columns[name]) for name in columns}
    if not skip_missing:
        for name, is_empty in is_missing.items():
            _check_filled(table, name, is_empty)
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(
            f"Columns of {table.name} must have the same length. Got {lengths}."
        )
    if not any(lengths.values()):
        raise ValueError(f"{table.name} has no rows: at least one is needed.")
    is_complete = ~np.logical_or.reduce(list(is_missing.values()))
    if is_complete.all():
        return table
    if not is_complete.any():
        raise ValueError(
            f"{table.name} has no row with a value in each of {first_few(columns)}."
        )
    return table.only(is_complete)


# --- values as a vector ---------------------------------------------------------------


def _as_column(table: str, name: str, values: Any) -> np.ndarray:
    """Return the values of a column as a vector; raise ValueError if they are not one."""
    try:
        column = _as_array(values)
    except ValueError:  # lists of unequal length
        raise not_plain(table, name) from None
    if column.ndim != 1 or _holds_collections(column):
        raise not_plain(table, name)
    return column


def _as_array(values: Any) -> np.ndarray:
    """Return values as an array that keeps each of them as it is."""
    if not isinstance(values, list):
        return np.asarray(values)
    if any(isinstance(value, str) for value in values):
        # A NumPy string array gives each item the width of the longest.
        return np.asarray(values, dtype=object)
    column = np.asarray(values)
    if column.dtype.kind == "f" and any(map(_has_many_digits, values)):
        return np.array(values, dtype=object)
    return column


def _has_many_digits(value: Any) -> bool:
    """Whether a value is an integer, such as an id, that a float cannot hold."""
    return isinstance(value, int) and abs(value) >= 2**53


def _holds_collections(column: np.ndarray) -> bool:
    if column.dtype.kind != "O":
        return False
    return any(isinstance(cell, list | dict | np.ndarray) for cell in column.tolist())


# --- missing values -------------------------------------------------------------------


def _missing(raw: RawTable, name: str, column: np.ndarray) -> np.ndarray:
    """Return where a column has no value: by its source, or empty, None or NaN."""
    if raw.is_text:
        return column == ""
    is_null = raw.is_null.get(name, np.zeros(len(column), dtype=bool))
    if column.dtype.kind == "f":
        return is_null | np.isnan(column)
    if column.dtype.kind == "O":
        is_odd = [_is_none_or_nan(value) for value in column.tolist()]
        return is_null | np.array(is_odd, dtype=bool)
    return is_null


def _is_none_or_nan(value: Any) -> bool:
    return value is None or (isinstance(value, float) and value != value)


def _check_filled(table: CheckedTable, name: str, is_empty: np.ndarray) -> None:
    """Raise WayOutError with the first row that has no value in a column."""
    rows = np.flatnonzero(is_empty)
    if not len(rows):
        return
    facts = f"{table.place(rows[0])} has no value in column {name!r}"
    if len(rows) > 1:
        facts += f" ({len(rows)} such rows)"
    raise WayOutError(facts, "drop it or fill it", "missing")


# --- numbers and flags ----------------------------------------------------------------


def _parsed(
    table: CheckedTable,
    name: str,
    parse: Callable[[str], Any],
    error: Callable[[str], ValueError],
) -> np.ndarray:
    """Return what a function makes of the texts of a column; raise the error of a bad one."""
    values = []
    for row, text in enumerate(table.columns[name].tolist()):
        try:
            values.append(parse(text))
        except ValueError:
            facts = f"{table.place(row)} has {short(text)} in column {name!r}, which"
            raise error(facts) from None
    return np.array(values)


def _not_a_number(facts: str) -> ValueError:
    return ValueError(f"{facts} is not a number.")


def _not_a_row_number(facts: str) -> ValueError:
    return WayOutError(f"{facts} is not a row number", PASS_IDS, "ids")


def _whole_number(text: str) -> int:
    """Return an integer; 01 is an id, though Python reads it as 1."""
    digits = text.strip()
    if "_" in text or (digits.startswith("0") and len(digits) > 1):
        raise ValueError
    return int(text)


def _number(text: str) -> float:
    """Return a number; 1_0 is a name, though Python reads it as 10."""
    if "_" in text:
        raise ValueError
    return float(text)


# --- ids ------------------------------------------------------------------------------


def unique_index(keys: list[Any]) -> dict[Any, int]:
    """Return the number of each key; raise ValueError if a key occurs twice."""
    index = {key: number for number, key in enumerate(keys)}
    if len(index) < len(keys):
        repeated = [key for key, count in Counter(keys).items() if count > 1]
        raise ValueError(
            f"ids must be different, but {len(repeated)} of them occur more than once: "
            f"{first_few(repeated)}."
        )
    return index


def _about_unknown(
    table: CheckedTable, name: str, index: dict[Any, int], unknown: list[Any]
) -> str:
    """Return the message about ids that no row has; their type may be why."""
    clause = f"{len(unknown)} ids in column {name!r} of {table.name} match no row"
    if len(unknown) == 1:
        clause = f"1 id in column {name!r} of {table.name} matches no row"
    message = f"{clause}: {first_few(unknown)}."
    column_type = type(unknown[0]).__name__
    ids_type = type(next(iter(index), None)).__name__
    if not index:
        message += " There are no rows."
    elif column_type != ids_type:
        message += f" The column holds {column_type}, ids hold {ids_type}: convert one."
    return message


def _plain_numbers(table: CheckedTable, name: str) -> np.ndarray:
    """Return a column of row numbers; raise ValueError if it holds anything else."""
    column = table.columns[name]
    if table.is_text:
        column = _parsed(table, name, _whole_number, _not_a_row_number)
    if column.dtype.kind not in "iu":
        raise WayOutError(
            f"Column {name!r} of {table.name} must hold row numbers, integers. Got "
            f"dtype {column.dtype}",
            f"{PASS_IDS}, or convert the column",
            "ids",
        )
    is_row = (column >= 0) & (column <= np.iinfo(np.int64).max)
    table.check(name, is_row, "rows are numbered from 0")
    return column.astype(np.int64)


# --- combining marks ------------------------------------------------------------------


def _check_marks(columns: Mapping[str, Iterable[Any]], name: str) -> None:
    """Raise ValueError with the first cell that has more combining marks in a row.

    Examples
    --------
    >>> _check_marks({"title": ["é", "e" + 2000 * chr(0x301)]}, "left.csv")
    Traceback (most recent call last):
    ValueError: left.csv has more than 1,000 combining marks in a row in column 'title' ...
    """
    for column_name, column in columns.items():
        for row, value in enumerate(column):
            if isinstance(value, str) and _has_many_marks(value):
                raise ValueError(
                    f"{name} has more than {MARKS_LIMIT:,} combining marks in a row in "
                    f"column {column_name!r} of record {row}: no writing has so many. "
                    "Shorten or drop this text."
                )


def _has_many_marks(text: str) -> bool:
    """Return whether a text has more marks in a row than the limit."""
    if len(text) <= MARKS_LIMIT or text.isascii():
        return False
    # Each window of this many characters has a character in a place of this grid.
    places = range(MARKS_LIMIT, len(text), MARKS_LIMIT)
    if not any(unicodedata.combining(text[place]) for place in places):
        return False
    length = 0
    for character in text:
        length = length + 1 if unicodedata.combining(character) else 0
        if length > MARKS_LIMIT:
            return True
    return False
