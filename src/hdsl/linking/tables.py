"""Tables of records as columns of texts, and the numbers of their records."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from ..input.errors import first_few, warn
from ..input.labels import is_missing
from ..readers.tables import read_columns, unique_index
from .results import Links, library_of

#: Columns that candidates agree in: all of a rule.
Rule = tuple[str, ...]

#: Characters of a cell that are compared.
MAX_CELL = 100_000
#: The part of a time that is less than a second.
_FRACTION = re.compile(r"\.\d+")


class Table(NamedTuple):
    """Columns of texts, empty where a value is missing; ids, and the row of each.

    The ids are row numbers where the table has no column of ids. `row_of` has them as
    text; `blocked` has the columns that candidates agree in.
    """

    columns: dict[str, list[str]]
    ids: np.ndarray
    row_of: dict[str, int]
    blocked: dict[str, list[str]]

    def texts(self) -> list[str]:
        """Return each record as one text."""
        records = zip(*self.columns.values(), strict=True)
        return [" ".join(filter(None, record)) for record in records]

    def record_text(self, row: int) -> str:
        """Return a record as one text."""
        values = [texts[row] for texts in self.columns.values()]
        return " ".join(filter(None, values))

    def text(self, name: str, row: int) -> str:
        """Return the value of a column, empty where the table does not have it."""
        if name not in self.columns:
            return ""
        return self.columns[name][row]

    def take(self, rows: np.ndarray) -> Table:
        """Return some of the records, by the numbers of their rows."""
        numbers = rows.tolist()
        columns, blocked = (
            {
                name: [texts[number] for number in numbers]
                for name, texts in each.items()
            }
            for each in (self.columns, self.blocked)
        )
        return make_table(columns, self.ids[rows].tolist(), blocked)

    def followed_by(self, later: Table) -> Table:
        """Return these records and later ones."""
        columns = _joined(self.columns, later.columns)
        first = len(self.ids)
        row_of_later = {text: first + row for text, row in later.row_of.items()}
        ids = _as_ids(self.ids.tolist() + later.ids.tolist())
        blocked = _joined(self.blocked, later.blocked)
        return Table(columns, ids, self.row_of | row_of_later, blocked)

    def row_numbers(self, ids: Iterable[Any], side: str, name: str) -> np.ndarray:
        """Return the rows of ids; `side` and `name` say in a message whose they are."""
        texts = [text_of(value) for value in ids]
        rows = self.find(texts)
        unknown = [text for text, row in zip(texts, rows, strict=True) if row < 0]
        if unknown:
            raise ValueError(
                f"{name} has {first_few(unknown)} as {side} record, but these are "
                f"{first_few(self.row_of, 3)}: name ids of the column that id_column "
                "(--id) names, or row numbers where it names none."
            )
        return rows

    def find(self, texts: Iterable[str]) -> np.ndarray:
        """Return the rows of ids as texts, -1 where the table has no such id."""
        rows = [self.row_of.get(text, -1) for text in texts]
        return np.array(rows, dtype=np.int64)


def _joined(
    columns: dict[str, list[str]], later: dict[str, list[str]]
) -> dict[str, list[str]]:
    return {name: texts + later[name] for name, texts in columns.items()}


class NamedPairs(NamedTuple):
    """Pairs of ids as texts, and the numbers of their records.

    The numbers are -1 where a table has no such id.
    """

    ids: list[tuple[str, str]]
    records: np.ndarray


class Field(NamedTuple):
    """A column of two records; a text is empty where it is missing."""

    name: str
    left: str
    right: str


class Tables:
    """Two tables, or one in which duplicates are looked for.

    Records are numbered: those of the right table follow those of the left one. In one
    table, `right` is `left`.
    """

    def __init__(self, left: Table, right: Table | None = None) -> None:
        self.is_single = right is None
        self.left = left
        self.right = left if right is None else right
        self.n_left = len(left.ids)
        self.first_right = 0 if self.is_single else self.n_left

    @property
    def n_records(self) -> int:
        """Records of both tables together."""
        return self.first_right + len(self.right.ids)

    @property
    def each(self) -> list[Table]:
        """The table, or both."""
        return [self.left] if self.is_single else [self.left, self.right]

    def emptied(self, later: Table, side: str) -> Tables:
        """Return the same tables with nothing but later records of one side."""
        if self.is_single:
            return Tables(later)
        no_row = np.zeros(0, dtype=np.int64)
        if side == "left":
            return Tables(later, self.right.take(no_row))
        return Tables(self.left.take(no_row), later)

    def only(self, records: np.ndarray) -> Tables:
        """Return tables with some of the records, by number."""
        if len(records) == self.n_records:
            return self
        left = self.left.take(records[records < self.n_left])
        if self.is_single:
            return Tables(left)
        is_right = records >= self.n_left
        return Tables(left, self.right.take(records[is_right] - self.n_left))

    def with_later(self, later: Table, side: str) -> Tables:
        """Return tables with later records of one side."""
        if self.is_single:
            return Tables(self.left.followed_by(later))
        if side == "left":
            return Tables(self.left.followed_by(later), self.right)
        return Tables(self.left, self.right.followed_by(later))

    def side(self, side: str) -> Table:
        """Return the table of a side, left or right."""
        if side == "left":
            return self.left
        return self.right

    def texts(self) -> list[str]:
        """Return each record as one text."""
        return [text for table in self.each for text in table.texts()]

    def text(self, record: int) -> str:
        """Return a record as one text."""
        if record < self.n_left:
            return self.left.record_text(record)
        return self.right.record_text(record - self.first_right)

    def shared_columns(self) -> list[str]:
        """Return the names of the columns that both tables have."""
        return [name for name in self.left.columns if name in self.right.columns]

    def columns_of_one_table(self) -> tuple[list[str], list[str]]:
        """Return the names of the columns that the left or the right table alone has."""
        left, right = self.left.columns, self.right.columns
        return (
            [name for name in left if name not in right],
            [name for name in right if name not in left],
        )

    def column(self, name: str) -> list[str]:
        """Return a shared column, one text per record."""
        return [text for table in self.each for text in table.columns[name]]

    def have_only(self, name: str) -> bool:
        """Return whether a column is the only one of each table."""
        return all([*table.columns] == [name] for table in self.each)

    def records(self, pairs: Any, name: str) -> np.ndarray:
        """Return pairs of ids as numbers of records, shape (n, 2), left and right.

        `name` says in a message which pairs they are.
        """
        pairs = _as_pairs(pairs, name)
        left = self.left.row_numbers((pair[0] for pair in pairs), "left", name)
        right = self.right.row_numbers((pair[1] for pair in pairs), "right", name)
        return np.column_stack([left, right + self.first_right])

    def named_pairs(self, pairs: Any, name: str) -> NamedPairs:
        """Return pairs of ids, known or not, as texts and as numbers of records."""
        ids = [
            (text_of(left), text_of(right)) for left, right in _as_pairs(pairs, name)
        ]
        left = self.left.find(left for left, _ in ids)
        right = self.right.find(right for _, right in ids)
        numbers = np.where(right < 0, -1, right + self.first_right)
        return NamedPairs(ids, np.column_stack([left, numbers]))

    def pairs(self, pairs: Any, name: str) -> np.ndarray:
        """Return pairs of ids as numbers of records, the smaller one first."""
        return np.sort(self.records(pairs, name), axis=1)

    def ids(self, pairs: np.ndarray) -> tuple[Any, Any]:
        """Return the ids of pairs of records: those on the left, and on the right."""
        left = self.left.ids[pairs[..., 0]]
        right = self.right.ids[pairs[..., 1] - self.first_right]
        return left, right

    def fields(self, left: int, right: int) -> list[Field]:
        """Return the columns of a left and a right record, shared ones first."""
        right_row = right - self.first_right
        every = [*self.shared_columns(), *self.left.columns, *self.right.columns]
        return [
            Field(name, self.left.text(name, left), self.right.text(name, right_row))
            for name in dict.fromkeys(every)
        ]

    def record_ids(self) -> np.ndarray:
        """Return the ids of all records, by their numbers."""
        if self.is_single:
            return self.left.ids
        ids = self.left.ids.tolist() + self.right.ids.tolist()
        return _as_ids(ids)


def _as_ids(ids: list[Any]) -> np.ndarray:
    """Return ids as an array that changes none of them."""
    array = np.array(ids)
    if array.tolist() != ids:
        # Numbers that lose digits, texts that end in a null character.
        array = np.array(ids, dtype=object)
    return array


def _as_pairs(pairs: Any, name: str) -> list[Any]:
    """Return pairs of ids from links, a frame or any sequence, as a list."""
    if pairs is None:
        return []
    if isinstance(pairs, Links):
        return [*zip(pairs.left, pairs.right, strict=True)]
    if library_of(pairs) is not None:
        pairs = _pairs_of_frame(pairs, name)
    if not np.iterable(pairs):
        raise ValueError(
            f"{name} must be pairs of a left and a right record. Got {pairs!r}."
        )
    pairs = [*pairs]
    if any(isinstance(pair, str) or np.size(pair) != 2 for pair in pairs):
        raise ValueError(f"{name} must be pairs of a left and a right record.")
    return pairs


def _pairs_of_frame(frame: Any, name: str) -> Iterable[Any]:
    """Return the pairs in the columns left and right, or in the only two columns."""
    import narwhals.stable.v1 as nw

    frame = nw.from_native(frame, eager_only=True)
    if "match" in frame.columns:
        raise ValueError(
            f"{name} has a column match, which is not read: pass the rows that match, "
            "and the others as non_matches."
        )
    sides = frame.columns
    if {"left", "right"} <= {*sides}:
        sides = ["left", "right"]
    # Column by column: one array of both may round ids.
    return zip(*(frame[side].to_list() for side in sides), strict=True)


# --- reading --------------------------------------------------------------------------


def read_tables(
    left: Any,
    right: Any,
    columns: str | Sequence[str] | None,
    id_column: Any,
    rules: Sequence[Rule] = (),
) -> Tables:
    """Return the columns of one table or two that are compared, as texts.

    Parameters
    ----------
    left, right : DataFrame, list of str or of dicts, or mapping of columns
        None as `right`: there is one table.
    columns : list of str or None
        Columns to compare; None chooses.
    id_column : str, (str, str) or None
        Column of ids, or one per table.
    rules : sequence of tuples of str
        Columns that candidates agree in.
    """
    left_id, right_id = _id_columns(id_column)
    if isinstance(columns, str):
        columns = [columns]
    left = _read_table(left, columns, left_id, rules, "left")
    if right is not None:
        right = _read_table(right, columns, right_id, rules, "right")
    tables = Tables(left, right)
    known = {name for table in tables.each for name in table.columns}
    unknown = {*(columns or ())} - known
    if unknown:
        raise ValueError(
            f"No table has a column {first_few(sorted(unknown))}. Columns to compare "
            f"are among {first_few(sorted(known), 10)}."
        )
    return tables


def read_later(table: Any, tables: Tables, id_column: Any, side: str) -> Table:
    """Return records that come later, with the columns of their table.

    Parameters
    ----------
    table : DataFrame, list of str or of dicts, or mapping of columns
        A column that is not there is empty, and others do not count.
    tables : Tables
        The earlier ones.
    id_column : str, (str, str) or None
        Column of ids, or one per table. Without one the records are numbered on.
    side : {"left", "right"}
    """
    if side not in ("left", "right"):
        raise ValueError(f"side must be 'left' or 'right'. Got {side!r}.")
    earlier = tables.side(side)
    values = columns_of(table)
    n_rows = _check_n_rows(values, "new")
    if earlier.columns.keys().isdisjoint(values):
        raise ValueError(
            f"The new table has no column {first_few(earlier.columns)}, as the {side} "
            f"one has, only {first_few(values)}."
        )
    first_row = len(earlier.ids)
    ids: list[Any] = [*range(first_row, first_row + n_rows)]
    names = dict(zip(("left", "right"), _id_columns(id_column), strict=True))
    if names[side] is not None:
        ids = _read_ids(values, names[side], "new")
        known = [value for value in ids if text_of(value) in earlier.row_of]
        if known:
            raise ValueError(
                f"The {side} table has {first_few(known)} already: leave out records "
                "that are there, or give them other ids."
            )
    empty = [""] * n_rows
    columns, blocked = (
        {name: texts_of(values.get(name, empty), name) for name in names}
        for names in (earlier.columns, earlier.blocked)
    )
    return make_table(columns, ids, blocked)


def _id_columns(id_column: Any) -> tuple[Any, Any]:
    """Return the column of ids of the left table and of the right one."""
    if np.ndim(id_column) == 0:
        return id_column, id_column
    names = [*id_column]
    if len(names) not in (1, 2):
        raise ValueError(
            "id_column must be a column of ids, or one per table. Got "
            f"{len(names)} names."
        )
    return names[0], names[-1]


def _read_table(
    table: Any,
    columns: Sequence[str] | None,
    id_column: str | None,
    rules: Sequence[Rule],
    side: str,
) -> Table:
    """Return the columns that count; raise where there are none, or no row or text."""
    values = columns_of(table)
    n_rows = _check_n_rows(values, side)
    ids: list[Any] = [*range(n_rows)]
    if id_column is not None:
        ids = _read_ids(values, id_column, side)
    texts = {
        name: texts_of(column, name)
        for name, column in values.items()
        if name != id_column
    }
    blocked: dict[str, list[str]] = {}
    for name in dict.fromkeys(chain.from_iterable(rules)):
        if name not in values:
            raise ValueError(
                f"The {side} table has no column {name!r} to block on, only "
                f"{first_few(values)}."
            )
        blocked[name] = texts.get(name) or texts_of(values[name], name)
    if columns:
        chosen = {name: texts[name] for name in texts if name in columns}
        if not chosen:
            raise ValueError(
                f"The {side} table has no column {first_few(columns)}, only "
                f"{first_few(values)}: name others with columns=."
            )
    else:
        chosen = {name: texts[name] for name in texts if _is_content(name, texts[name])}
    if not _has_letters(chosen):
        searched = first_few(columns or chosen) or "any"
        raise ValueError(
            f"The {side} table has no text in {searched} of {first_few(values)}: name "
            "others with columns=."
        )
    return make_table(chosen, ids, blocked)


def make_table(
    columns: Mapping[str, list[str]],
    ids: list[Any],
    blocked: Mapping[str, list[str]] | None = None,
) -> Table:
    """Return a table of columns of texts, with an index of its ids, which must differ."""
    blocked = dict(blocked or {})
    lengths = {len(column) for column in [*columns.values(), *blocked.values()]}
    if lengths != {len(ids)}:
        raise ValueError("A table must have one text per record and column.")
    row_of = unique_index([text_of(value) for value in ids])
    return Table(dict(columns), _as_ids(ids), row_of, blocked)


def columns_of(table: Any) -> dict[str, list[Any]]:
    """Return the columns of a list of texts or records, a frame, or a mapping."""
    if _are_records(table):
        names = dict.fromkeys(chain(*table))
        columns: Any = {name: [record.get(name) for record in table] for name in names}
    elif library_of(table) is None and np.ndim(table) == 1:
        columns = {"text": table}
    else:
        columns = table
    return {str(name): list(column) for name, column in read_columns(columns).items()}


def texts_of(values: Iterable[Any], name: str) -> list[str]:
    """Return the values of a column as texts; cut, and say so, where they are very long."""
    texts = [text_of(value) for value in values]
    n_cut = sum(len(text) > MAX_CELL for text in texts)
    if n_cut:
        cells = "1 cell" if n_cut == 1 else f"{n_cut:,} cells"
        have = "has" if n_cut == 1 else "have"
        warn(
            f"{cells} of column {name!r} {have} more than {MAX_CELL:,} characters: "
            "only the first ones are compared."
        )
        texts = [text[:MAX_CELL] for text in texts]
    return texts


def _are_records(table: Any) -> bool:
    """Return whether a table is a list of mappings, one per record."""
    is_filled = isinstance(table, list) and bool(table)
    return is_filled and all(isinstance(record, Mapping) for record in table)


def _check_n_rows(values: dict[str, list[Any]], side: str) -> int:
    """Return the number of rows; raise ValueError where it is 0, or columns differ."""
    lengths = {len(column) for column in values.values()} or {0}
    fault = ""
    if lengths == {0}:
        fault = "is empty"
    elif len(lengths) > 1:
        fault = f"has unequal columns, of {sorted(lengths)} rows"
    if fault:
        raise ValueError(
            f"The {side} table {fault}: it must have a value per record and column."
        )
    return lengths.pop()


def _read_ids(values: dict[str, list[Any]], id_column: str, side: str) -> list[Any]:
    """Return the ids of records; raise ValueError with the first row that has none."""
    if id_column not in values:
        raise ValueError(
            f"The {side} table has no column {id_column!r}, only {first_few(values)}."
        )
    ids = values[id_column]
    for row, value in enumerate(ids):
        if text_of(value) == "":
            raise ValueError(
                f"Row {row} of the {side} table has no {id_column!r}: fill it in."
            )
    return ids


def _is_content(name: str, texts: list[str]) -> bool:
    """Return whether a column is neither called id nor numbers the rows."""
    numbers = {int(text) for text in texts if text.isdecimal() and len(text) < 20}
    is_count = 1 < len(numbers) == len(texts) == max(numbers) - min(numbers) + 1
    return name.lower() != "id" and not is_count


def _has_letters(columns: dict[str, list[str]]) -> bool:
    """Return whether any text has a letter."""
    return any(
        any(map(str.isalpha, text)) for texts in columns.values() for text in texts
    )


def text_of(value: Any) -> str:
    """Return a value as text, empty where it is missing.

    Examples
    --------
    >>> [text_of(value) for value in (" a ", 3.0, 3.5, None, float("nan"))]
    ['a', '3', '3.5', '', '']
    >>> text_of(np.datetime64("2024-03-01T00:00"))
    '2024-03-01'
    >>> text_of(np.datetime64("2024-03-01T00:00:00.250000"))
    '2024-03-01 00:00:00.25'
    """
    if isinstance(value, str):
        return value.strip()
    if type(value) is int:
        return str(value)
    if is_missing(value):
        return ""
    if isinstance(value, datetime | np.datetime64):
        return _text_of_time(value)
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, float | np.floating) and value.is_integer():
        value = int(value)
    return str(value).strip()


def _text_of_time(value: datetime | np.datetime64) -> str:
    """Return a time as text, without the hour if it is midnight, and with all its digits."""
    if isinstance(value, np.datetime64):
        text = str(value.astype("datetime64[s]")).replace("T", " ")
        _, dot, fraction = str(value).partition(".")
        text += dot + fraction
    else:
        text = value.isoformat(sep=" ")
    text = _FRACTION.sub(_without_zeros, text)
    return text.removesuffix(" 00:00:00")


def _without_zeros(fraction: re.Match[str]) -> str:
    """Return a fraction of a second without zeros at its end."""
    digits = fraction[0].rstrip("0")
    return digits.removesuffix(".")
