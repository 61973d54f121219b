"""What commands print: lines, tables and JSON on stdout, and messages on stderr."""

from __future__ import annotations

import json
import math
import shutil
import sys
import unicodedata
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from .. import progress
from ..printable import printable


def say(message: str) -> None:
    """Write one line to stderr."""
    if sys.stderr is not None:
        with suppress(OSError):  # nobody reads it, or the disk is full
            line = printable(" ".join(message.split()))
            print(f"hdsl: {line}", file=sys.stderr, flush=True)  # noqa: T201


def announce(step: str, *, quiet: bool = False) -> None:
    """Say on stderr what is done from now on: at once in a terminal, seldom in a log."""
    if is_watched(quiet):
        print(f"{printable(step)} …", file=sys.stderr, flush=True)  # noqa: T201
    elif not quiet and sys.stderr is not None:
        _LOG.begin(step)


class _Log:
    """The stages of the command that runs, from the first that is announced to its end."""

    def __init__(self) -> None:
        self._stages: progress.StageLog | None = None

    def begin(self, step: str) -> None:
        """Begin a stage."""
        if self._stages is None:
            self._stages = progress.StageLog(say, progress.LOG_INTERVAL)
        self._stages.begin(step)

    def close(self) -> None:
        """Write no more lines, until a stage begins anew."""
        if self._stages is not None:
            self._stages.close()
            self._stages = None


_LOG = _Log()


def end_stages() -> None:
    """End the last stage that was announced."""
    _LOG.close()


def is_watched(quiet: bool = False) -> bool:
    """Return whether to show progress: stderr is a terminal, and `quiet` is False."""
    return not quiet and is_terminal(sys.stderr)


def is_terminal(stream: Any) -> bool:
    """Return whether a stream ends in a terminal; None is a stream that was closed."""
    return stream is not None and stream.isatty()


def one_line(text: Any, width: int = 200) -> str:
    """Return a text as one line without control characters."""
    printable = [c if c.isprintable() else " " for c in str(text)]
    words = " ".join("".join(printable).split())
    if len(words) <= width:
        return words
    return words[: width - 1] + "…"


def counted(n: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun.

    Examples
    --------
    >>> counted(1, "query", "queries"), counted(1200, "row")
    ('1 query', '1,200 rows')
    """
    if n == 1:
        return f"{n:,} {noun}"
    return f"{n:,} {plural or noun + 's'}"


def share_of(n: int, total: int, noun: str) -> str:
    """Return a number with its noun, and of how many they are if not of all.

    Examples
    --------
    >>> share_of(90, 90, "row"), share_of(20_000, 60_000, "row")
    ('90 rows', '20,000 of 60,000 rows')
    """
    if n == total:
        return counted(n, noun)
    return f"{n:,} of {counted(total, noun)}"


def percent(share: float) -> str:
    """Return a share in percent.

    Examples
    --------
    >>> percent(0.0712)
    '7.1 %'
    """
    return f"{100 * share:.1f} %"


def ordinal(n: int) -> str:
    """Return a rank.

    Examples
    --------
    >>> [ordinal(n) for n in (1, 2, 3, 4, 11, 1222)]
    ['1st', '2nd', '3rd', '4th', '11th', '1,222nd']
    """
    if n % 100 in (11, 12, 13):
        return f"{n:,}th"
    ending = {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n:,}{ending}"


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
