"""Lines on stderr: what a command does, and what it has to say beside its output."""

import sys
from contextlib import suppress
from typing import Any

from ..input.printable import printable


def say(message: str) -> None:
    """Write one line to stderr."""
    if sys.stderr is not None:
        with suppress(OSError):  # nobody reads it, or the disk is full
            line = printable(" ".join(message.split()))
            print(f"hdsl: {line}", file=sys.stderr, flush=True)  # noqa: T201


def announce(step: str, *, quiet: bool = False) -> None:
    """Say on stderr what is done from now on, where stderr is a terminal."""
    if is_watched(quiet):
        print(f"{printable(step)} …", file=sys.stderr, flush=True)  # noqa: T201


def is_watched(quiet: bool = False) -> bool:
    """Return whether to show progress: stderr is a terminal, and `quiet` is False."""
    return not quiet and is_terminal(sys.stderr)


def is_terminal(stream: Any) -> bool:
    """Return whether a stream ends in a terminal; None is a stream that was closed."""
    return stream is not None and stream.isatty()
