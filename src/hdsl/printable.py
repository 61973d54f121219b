"""Text from outside, and columns as tables, as a terminal or a page can show them.

The command line imports it at once, so it loads no NumPy.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any

#: Marks that turn the direction of the text around them, so that it reads as another
#: one, and their escape sequences.
TURNS = {
    code: f"\\u{code:04x}"
    for code in (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
}

#: How flags are shown.
FLAGS = {True: "yes", False: ""}


def printable(text: str) -> str:
    r"""Return a text whose characters that cannot be printed are escape sequences.

    These are control characters, which a terminal obeys, marks that turn the direction
    of what follows, and bytes of file names that are not text. Line breaks stay.

    Examples
    --------
    >>> printable("red\x1b[31m.csv")
    'red\\x1b[31m.csv'
    """
    if text.isprintable():
        return text
    return "".join(
        character if character == "\n" else escaped(character) for character in text
    )


def escaped(character: str) -> str:
    """Return a character, or the escape sequence of one that cannot be printed."""
    if character.isprintable():
        return character
    return character.encode("unicode_escape").decode()


def unturned(text: str) -> str:
    r"""Return a text whose marks that turn its direction are escape sequences.

    Other characters that cannot be printed, which a page does not obey, stay.

    Examples
    --------
    >>> unturned("photo\u202egnp.exe")
    'photo\\u202egnp.exe'
    """
    return text.translate(TURNS)


# --- tables ---------------------------------------------------------------------------


class Columns(dict[str, Any]):
    """Columns of equal length by their names: a dict that prints as a table.

    ``pandas.DataFrame(columns)`` and ``polars.DataFrame(columns)`` read it.

    Examples
    --------
    >>> import numpy as np
    >>> Columns(prior=np.array([np.inf, 16.0]), score=np.array([0.8, 0.8123456]))
    prior   score
      inf     0.8
       16  0.8123
    """

    def __repr__(self) -> str:
        return text_table(self._header(), self._cells())

    def _repr_html_(self) -> str:
        return self.to_html()

    def to_html(self) -> str:
        """Return the columns as an HTML table."""
        return html_table(self._header(), self._cells())

    def _header(self) -> list[str]:
        """Return the names as text."""
        return [printable(str(name)) for name in self]

    def _cells(self) -> list[list[str]]:
        """Return the values as text, by rows."""
        rows = zip(*(column.tolist() for column in self.values()), strict=True)
        return [[_cell(value) for value in row] for row in rows]

    def to_frame(self) -> Any:
        """Return the columns as a pandas DataFrame."""
        return frame_of(dict(self))


def _cell(value: Any) -> str:
    """Return a value as text: numbers with four digits, flags as yes or nothing."""
    if isinstance(value, bool):
        return FLAGS[value]
    if isinstance(value, float):
        return f"{value:.4g}"
    return printable(str(value))


def frame_of(data: Any, otherwise: str = "") -> Any:
    """Return columns or records as a pandas DataFrame; without pandas there is `otherwise`."""
    try:
        pandas = import_module("pandas")
    except ImportError as error:
        raise ImportError(
            f"to_frame needs pandas: install it with `pip install pandas`{otherwise}."
        ) from error
    return pandas.DataFrame(data)


def text_table(
    header: Sequence[str], rows: Iterable[Sequence[str]], left: Sequence[int] = ()
) -> str:
    """Return rows of text under a header; columns are flush right but those in `left`."""
    table = [header, *rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = []
    for row in table:
        cells = []
        for k, (cell, width) in enumerate(zip(row, widths, strict=True)):
            if k in left:
                cells.append(cell.ljust(width))
            else:
                cells.append(cell.rjust(width))
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def html_table(
    header: Sequence[str], rows: Iterable[Sequence[str]], left: Sequence[int] = ()
) -> str:
    """Return rows of text under a header as an HTML table."""
    names = "".join(f"<th>{html.escape(name)}</th>" for name in header)
    lines = ["<table>", f"<thead><tr>{names}</tr></thead>", "<tbody>"]
    for row in rows:
        cells = []
        for k, cell in enumerate(row):
            side = "right"
            if k in left:
                side = "left"
            cells.append(f'<td style="text-align:{side}">{html.escape(cell)}</td>')
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return "\n".join([*lines, "</tbody>", "</table>"])
