"""Write a page to a file."""

from __future__ import annotations

import errno
import os

from ..files import model_file


def write(path: str | os.PathLike[str], text: str) -> None:
    """Write a page to a file, completely or not at all: an error leaves the old file unchanged.

    Parameters
    ----------
    path : str or path-like
    text : str
        As `page` returns it.
    """
    with model_file.written_whole(path, _check_file, _message) as file:
        file.write(text.encode("utf-8", "replace"))  # half a surrogate pair becomes "?"


def _check_file(path: str) -> None:
    if not os.path.isfile(path):
        raise OSError(errno.EINVAL, "it is there, and not a file")


def _message(error: OSError) -> str:
    why = f"Cannot write the report, {error.strerror}: name a file in a folder that exists"
    return why + " and may be written to"
