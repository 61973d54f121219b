"""Numbers and dates that the texts of a column hold."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import date

import numpy as np

#: Share of the values of a column of numbers that are numbers; of dates likewise.
MIN_SHARE = 0.9

#: More digits than this are a code and no amount; they would overflow, too.
MAX_DIGITS = 15

#: A number, perhaps with thousands, a currency before it or a unit behind it.
AMOUNT = re.compile(
    r"[^\w\s-]?\s*(-?\d{1,15}|-?\d{1,3}(?:,\d{3}){1,4})(\.\d{1,15})?\s*[^\W\d_]{0,3}\W?"
)

#: Year, month and day, as ISO writes them, perhaps with a time.
DATE = re.compile(r"(\d{4})([-/.]?)(\d\d)\2(\d\d)(?:[ T]\d\d:\d\d.*)?")

#: The first number anywhere in a text.
NUMBER = re.compile(r"\d{1,15}(?:\.\d{1,15})?")


def amount(text: str) -> float:
    """Return the number that a text is, NaN if it is none.

    Examples
    --------
    >>> [amount(text) for text in ("$1,299.50", "12", "4 GB", "DSC-12")]
    [1299.5, 12.0, 4.0, nan]
    """
    match = AMOUNT.fullmatch(text)
    if match is None:
        return np.nan
    return float(match[1].replace(",", "") + (match[2] or ""))


def day(text: str) -> float:
    """Return the number of the day that a text names, NaN if it names none.

    Examples
    --------
    >>> day("2024-03-01") - day("20240229"), day("2024-13-01")
    (1.0, nan)
    """
    match = DATE.fullmatch(text)
    if match is None:
        return np.nan
    try:
        return float(date(int(match[1]), int(match[3]), int(match[4])).toordinal())
    except ValueError:
        return np.nan


def first_number(text: str) -> float:
    """Return the first number in a text, NaN if there is none."""
    match = NUMBER.search(text)
    if match is None:
        return np.nan
    return float(match[0])


def read_values(texts: Sequence[str], read: Callable[[str], float]) -> np.ndarray:
    """Return the texts of a column as values, NaN where they are none."""
    return np.array([read(text) for text in texts], dtype=np.float64)


def are_values(texts: Sequence[str], values: np.ndarray) -> bool:
    """Return whether nearly all texts of a column that are not empty are values.

    Examples
    --------
    >>> texts = ["3", "", "5"]
    >>> are_values(texts, read_values(texts, amount))
    True
    >>> are_values(["red", "5"], read_values(["red", "5"], amount))
    False
    """
    n_filled = sum(text != "" for text in texts)
    n_values = int(np.sum(~np.isnan(values)))
    return n_filled > 0 and n_values >= MIN_SHARE * n_filled


def relative_difference(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return differences divided by the larger number of both, 0 of equal ones.

    Examples
    --------
    >>> relative_difference(np.array([4.0, 0.0]), np.array([5.0, 0.0])).tolist()
    [0.2, 0.0]
    """
    largest = np.maximum(abs(left), abs(right))
    return abs(left - right) / np.where(largest == 0.0, 1.0, largest)
