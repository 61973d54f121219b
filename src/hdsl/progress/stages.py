"""The stages of a command in a log: a plain line for each, and few of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from .durations import duration

#: Seconds between two lines, and before the first.
INTERVAL = 10.0

#: Seconds after which a stage that goes on is named again.
LONG = 60.0


class StageLog:
    """Lines about the stages of a command, where no terminal shows them live.

    A stage has one line, a few seconds after it began if another line was just written.
    A stage that is over by then has none, so a command of a few seconds writes nothing.
    A stage that takes minutes is named again every minute.

    Parameters
    ----------
    write : callable
        Takes a line.
    interval : float, default=10
        Seconds between two lines.
    long : float, default=60
        Seconds after which a stage is named again.
    """

    def __init__(
        self,
        write: Callable[[str], None],
        interval: float = INTERVAL,
        long: float = LONG,
    ) -> None:
        self._write = write
        self._interval = interval
        self._long = long
        self._begin = time.monotonic()
        self._last_line = self._begin
        self._stage_begin = self._begin
        self._stage = ""
        self._is_named = True
        self._has_news = threading.Condition()
        self._is_open = False
        self._thread: threading.Thread | None = None

    def begin(self, stage: str) -> None:
        """Begin a stage; it ends the one before."""
        with self._has_news:
            self._stage = stage
            self._stage_begin = time.monotonic()
            self._is_named = False
            if self._thread is None:
                self._is_open = True
                self._thread = threading.Thread(target=self._run, daemon=True)
                self._thread.start()
            self._has_news.notify()

    def rename(self, stage: str) -> None:
        """Say from now on how far the stage is, which goes on."""
        with self._has_news:
            self._stage = stage

    def close(self) -> None:
        """Write no more lines."""
        with self._has_news:
            self._is_open = False
            self._has_news.notify()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        """Write lines when they are due, until the log is closed."""
        with self._has_news:
            while self._is_open:
                wait = self._due() - time.monotonic()
                if wait > 0:
                    self._has_news.wait(wait)
                    continue
                self._write(self._line())
                self._last_line = time.monotonic()
                self._is_named = True

    def _due(self) -> float:
        """Return when the next line is due."""
        if self._is_named:
            return self._last_line + self._long
        return self._last_line + self._interval

    def _line(self) -> str:
        """Return the stage, and the time since the command began."""
        now = time.monotonic()
        line = f"{self._stage} … ({duration(now - self._begin)} so far)"
        if self._is_named:
            return f"still {line}"
        return line
