"""The limit on combining marks in a row, whose order costs the square of their number."""

import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any

#: Most marks in a row. Unicode calls 30 enough for any writing (annex 15), and 1,000
#: are put in order in a few milliseconds.
MARKS_LIMIT = 1000


def check_marks(columns: Mapping[str, Iterable[Any]], name: str) -> None:
    """Raise ValueError with the first cell that has more combining marks in a row.

    Examples
    --------
    >>> check_marks({"title": ["é", "e" + 2000 * chr(0x301)]}, "left.csv")
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
