"""Numbers and texts as sentences and tables show them."""

from typing import Any


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
