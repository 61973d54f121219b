"""Columns of equal length without missing values, as a reader of any source leaves them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ...input.errors import WayOutError, first_few, short


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

    def only(self, is_kept: np.ndarray) -> Table:
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


def checked_table(raw: RawTable, *, skip_missing: bool) -> Table:
    """Return the columns as arrays of equal length; refuse or skip rows without a value."""
    columns = {
        name: _as_column(raw.name, name, values) for name, values in raw.columns.items()
    }
    table = Table(raw.name, columns, raw.lines, raw.is_text)
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


def not_plain(table: str, column: str) -> ValueError:
    """Return the error about a column whose values are lists or the like."""
    return ValueError(f"Column {column!r} of {table} must hold one value in each row.")


def _as_column(table: str, name: str, values: Any) -> np.ndarray:
    """Return the values of a column as a vector; raise ValueError where they make none."""
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


def _check_filled(table: Table, name: str, is_empty: np.ndarray) -> None:
    """Raise WayOutError with the first row that has no value in a column."""
    rows = np.flatnonzero(is_empty)
    if not len(rows):
        return
    facts = f"{table.place(rows[0])} has no value in column {name!r}"
    if len(rows) > 1:
        facts += f" ({len(rows)} such rows)"
    raise WayOutError(facts, "drop it or fill it", "missing")
