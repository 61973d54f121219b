"""What commands print on stdout: lines, tables and JSON."""

from __future__ import annotations

import json
import math
import shutil
import sys
import unicodedata
from collections.abc import Sequence
from typing import Any

from ..printable import printable
from .messages import is_terminal

#: Columns of output that does not go to a terminal.
WIDTH = 120

#: Fewest columns that a table is cut to; a narrower terminal wraps its lines.
LEAST_WIDTH = 60


def show(*lines: str) -> None:
    """Print lines; what a terminal would obey is escaped."""
    for line in lines:
        print(printable(line))  # noqa: T201


def show_json(facts: Any) -> None:
    """Print facts as JSON; NumPy values become plain ones, and NaN becomes null."""
    text = json.dumps(_plain(facts), indent=2, ensure_ascii=False, allow_nan=False)
    print("\n".join(map(_escaped_json, text.split("\n"))))  # noqa: T201


def _escaped_json(line: str) -> str:
    """Return a line of JSON; what cannot be printed becomes its number in digits."""
    if line.isprintable():
        return line
    return "".join(
        character if character.isprintable() else json.dumps(character)[1:-1]
        for character in line
    )


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): _plain(v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, str | int | float | bool | None):
        return value
    return str(value)


def show_table(rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()) -> None:
    """Print aligned columns, those in `right` to the right; cut the last one to the terminal."""
    show(*table_lines(rows, right=right))


def table_lines(
    rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()
) -> list[str]:
    """Return the lines of a table, as `show_table` prints them."""
    n_columns = len(rows[0])
    widths = [max(_n_columns(row[k]) for row in rows) for k in range(n_columns)]
    lines = []
    for row in rows:
        cells = []
        for k, cell in enumerate(row):
            blank = " " * (widths[k] - _n_columns(cell))
            cells.append(blank + cell if k in right else cell + blank)
        lines.append(_cut("  ".join(cells).rstrip()))
    return lines


def _cut(line: str) -> str:
    """Return a line that is no wider than the terminal."""
    limit = width()
    if _n_columns(line) <= limit:
        return line
    while _n_columns(line) >= limit:
        line = line[:-1]
    return line.rstrip() + "…"


def _n_columns(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    n_wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    n_combining = sum(unicodedata.combining(c) != 0 for c in text)
    return len(text) + n_wide - n_combining


def width() -> int:
    """Return the columns of the terminal, or of output that goes elsewhere."""
    if is_terminal(sys.stdout):
        return max(shutil.get_terminal_size().columns, LEAST_WIDTH)
    return WIDTH
