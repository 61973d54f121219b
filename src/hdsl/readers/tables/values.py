"""Columns as numbers or flags, whether their source has text or values."""

from __future__ import annotations

from itertools import repeat
from typing import Any

import numpy as np

from ...input.errors import WayOutError, short
from .columns import Table

#: What to do where ids stand in place of row numbers.
PASS_IDS = "pass ids=, the id of each row of X"


def numbers(table: Table, name: str) -> np.ndarray:
    """Return a column of finite numbers."""
    column = table.columns[name]
    if table.is_text:
        column = _parsed_numbers(table, name)
    if column.dtype.kind not in "biuf":
        raise ValueError(
            f"Column {name!r} of {table.name} must hold numbers. Got dtype "
            f"{column.dtype}."
        )
    table.check(name, np.isfinite(column), "numbers must be finite")
    return column.astype(np.float64)


def flags(table: Table, name: str) -> np.ndarray:
    """Return a column of true and false as 1 and 0."""
    values = table.columns[name].tolist()
    meaning: dict[Any, int] = {1: 1, 0: 0}
    if table.is_text:
        values = [value.lower() for value in values]
        meaning = {"true": 1, "false": 0, "1": 1, "0": 0}
    flags = np.fromiter(map(meaning.get, values, repeat(-1)), np.int64, len(values))
    table.check(name, flags >= 0, "true or false, or 1 or 0, is expected")
    return flags


# --- text -----------------------------------------------------------------------------


def whole_numbers(table: Table, name: str) -> np.ndarray:
    """Return a column of text as row numbers, integers of any size."""
    numbers = []
    for row, text in enumerate(table.columns[name].tolist()):
        try:
            numbers.append(_whole_number(text))
        except ValueError:
            facts = f"{_named_value(table, name, row)}, which is not a row number"
            raise WayOutError(facts, PASS_IDS, "ids") from None
    return np.array(numbers)


def _parsed_numbers(table: Table, name: str) -> np.ndarray:
    """Return a column of text as floats."""
    numbers = []
    for row, text in enumerate(table.columns[name].tolist()):
        try:
            numbers.append(_number(text))
        except ValueError:
            facts = f"{_named_value(table, name, row)}, which is not a number"
            raise ValueError(f"{facts}.") from None
    return np.array(numbers)


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


def _named_value(table: Table, name: str, row: int) -> str:
    value = short(table.columns[name].tolist()[row])
    return f"{table.place(row)} has {value} in column {name!r}"
