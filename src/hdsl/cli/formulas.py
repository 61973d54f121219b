"""Cells of tables that a spreadsheet would run as formulas, written as text."""

import re
from typing import Any

#: What a formula begins with; apostrophes before it are of a cell that was text already.
BEGINNING = re.compile(r"'*[=+\-@\t\r]")


def as_text(value: Any) -> Any:
    """Return a cell with an apostrophe before what a spreadsheet would run.

    Examples
    --------
    >>> [as_text(cell) for cell in ("=cmd|'/C calc'!A0", "@home", "-1.5", "a=b", 3)]
    ["'=cmd|'/C calc'!A0", "'@home", '-1.5', 'a=b', 3]
    """
    if not isinstance(value, str) or not BEGINNING.match(value) or _is_number(value):
        return value
    return f"'{value}"


def as_meant(value: Any) -> Any:
    """Return a cell of `as_text` as it was.

    Examples
    --------
    >>> [as_meant(cell) for cell in ("'@home", "-1.5", "'quoted'")]
    ['@home', '-1.5', "'quoted'"]
    """
    is_text = isinstance(value, str) and value.startswith("'")
    if is_text and BEGINNING.match(value):
        return value[1:]
    return value


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
