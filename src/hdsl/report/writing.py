"""Write a page to a file."""

from __future__ import annotations

import os

from ..files.atomic import atomic_write, check_can_write

WHAT = "the report"


def check_path(path: str | os.PathLike[str]) -> None:
    """Raise OSError if no page can be written to `path`: to be called before the page is made."""
    check_can_write(path, WHAT)


def write(path: str | os.PathLike[str], text: str) -> None:
    """Write a page to a file, completely or not at all: an error leaves the old file unchanged.

    Parameters
    ----------
    path : str or path-like
    text : str
        As `page` returns it.
    """
    with atomic_write(path, WHAT) as file:
        file.write(text.encode("utf-8", "replace"))  # half a surrogate pair becomes "?"
