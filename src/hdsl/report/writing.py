"""Write a page to a file."""

from __future__ import annotations

import os

from ..files.atomic import atomic_write


def write(path: str | os.PathLike[str], text: str) -> None:
    """Write a page to a file, completely or not at all: an error leaves the old file unchanged.

    Parameters
    ----------
    path : str or path-like
    text : str
        As `page` returns it.
    """
    with atomic_write(path, "the report") as file:
        file.write(text.encode("utf-8", "replace"))  # half a surrogate pair becomes "?"
