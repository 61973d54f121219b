"""Texts as users give them."""

from collections.abc import Iterable
from typing import Any

from .errors import short


def as_texts(texts: Iterable[Any], owner: str) -> list[Any]:
    """Return several texts as a list; raise ValueError for one text or a whole table.

    Examples
    --------
    >>> as_texts(("a text", "another"), "learn")
    ['a text', 'another']
    """
    is_table = hasattr(texts, "columns") or getattr(texts, "ndim", 1) != 1
    if isinstance(texts, str | bytes) or is_table:
        raise ValueError(
            f"{owner} takes a list of texts, such as one column of a table. Got "
            f"{short(texts)}."
        )
    return [*texts]
