"""Lines on stderr: what a command does, and what it has to say beside its output."""

import sys
from contextlib import suppress
from typing import Any

from .. import progress
from ..printable import printable


def say(message: str) -> None:
    """Write one line to stderr."""
    if sys.stderr is not None:
        with suppress(OSError):  # nobody reads it, or the disk is full
            line = printable(" ".join(message.split()))
            print(f"hdsl: {line}", file=sys.stderr, flush=True)  # noqa: T201


def announce(step: str, *, quiet: bool = False) -> None:
    """Say on stderr what is done from now on: at once in a terminal, seldom in a log."""
    if is_watched(quiet):
        print(f"{printable(step)} …", file=sys.stderr, flush=True)  # noqa: T201
    elif not quiet and sys.stderr is not None:
        _LOG.begin(step)


class _Log:
    """The stages of the command that runs, from the first that is announced to its end."""

    def __init__(self) -> None:
        self._stages: progress.StageLog | None = None

    def begin(self, step: str) -> None:
        """Begin a stage."""
        if self._stages is None:
            self._stages = progress.StageLog(say, progress.LOG_INTERVAL)
        self._stages.begin(step)

    def close(self) -> None:
        """Write no more lines, until a stage begins anew."""
        if self._stages is not None:
            self._stages.close()
            self._stages = None


_LOG = _Log()


def end_stages() -> None:
    """End the last stage that was announced."""
    _LOG.close()


def is_watched(quiet: bool = False) -> bool:
    """Return whether to show progress: stderr is a terminal, and `quiet` is False."""
    return not quiet and is_terminal(sys.stderr)


def is_terminal(stream: Any) -> bool:
    """Return whether a stream ends in a terminal; None is a stream that was closed."""
    return stream is not None and stream.isatty()
