"""Names, texts and boosts of documents as SQL writes them."""

import math
from collections.abc import Mapping
from numbers import Integral
from typing import Any


def quoted_name(name: str) -> str:
    """Return the name of a table or a column, whatever characters it has.

    Examples
    --------
    >>> print(quoted_name('5" disks'))
    "5"" disks"
    """
    return '"' + name.replace('"', '""').replace("\0", "") + '"'


def quoted_text(text: str) -> str:
    """Return a text as a string.

    Examples
    --------
    >>> print(quoted_text("o'clock"))
    'o''clock'
    """
    return "'" + text.replace("'", "''") + "'"


def checked_boosts(boosts: Mapping[Any, float] | None) -> dict[Any, float]:
    """Return boosts of documents as floats; raise ValueError unless all are finite and >= 0.

    Those of 0 are left out.
    """
    checked = {}
    for document, boost in (boosts or {}).items():
        value = float(boost)
        if not (math.isfinite(value) and value >= 0.0):
            raise ValueError(
                f"boosts[{document!r}] is {boost!r}: a finite number >= 0 is expected."
            )
        if value > 0.0:
            checked[document] = value
    return checked


def sql_values(boosts: Mapping[Any, float]) -> str:
    """Return boosts of documents as rows of VALUES.

    Examples
    --------
    >>> sql_values({7: 0.5, "o'clock": 0.25})
    "(7, 0.5), ('o''clock', 0.25)"
    """
    rows = []
    for document, boost in checked_boosts(boosts).items():
        name = quoted_text(str(document).replace("\0", ""))
        if isinstance(document, Integral):
            name = str(int(document))
        rows.append(f"({name}, {boost:.6g})")
    return ", ".join(rows)
