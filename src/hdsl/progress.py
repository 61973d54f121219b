"""What a fit or a command says while it works: a bar, or lines in a log or a notebook."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from .solver.loop import State

Item = TypeVar("Item")

#: Seconds between two updates in a terminal.
LIVE_INTERVAL = 0.1

#: Seconds between two lines in a log, for `verbose=1` and for more.
LOG_INTERVAL = 10.0
DENSE_LOG_INTERVAL = 1.0

#: What a closed or full stderr raises; the work goes on.
BROKEN = (OSError, ValueError)

#: Seconds after which a stage that goes on is named again.
LONG = 60.0


def is_notebook() -> bool:
    """Return whether this runs in a notebook, whose stderr is a red box."""
    ipython = sys.modules.get("IPython")
    if ipython is None:
        return False
    return hasattr(ipython.get_ipython(), "kernel")


class Progress:
    """The progress of one fit: stages one after the other, each with a bar.

    In a notebook they are lines of plain output.

    Parameters
    ----------
    verbose : int
        0 shows nothing. 1 shows a live line, or a line every 10 seconds in a log. 2
        makes it every second there.
    """

    def __init__(self, verbose: int) -> None:
        self._verbose = int(verbose)
        self._bar: Any = None
        self._log: StageLog | None = None

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: Any) -> None:
        self._close()
        if self._log is not None:
            self._log.close()
            self._log = None

    def _close(self) -> None:
        if self._bar is not None:
            with suppress(*BROKEN):
                self._bar.close()
            self._bar = None

    def stage(self, title: str, total: int | None = None) -> None:
        """Begin a stage of `total` steps, or of no known number."""
        self._close()
        if self._verbose <= 0 or sys.stderr is None or sys.stderr.closed:
            return
        if is_notebook():
            self._bar = self._line_of_notebook(title, total)
            return
        from tqdm import tqdm

        bar_format = None
        if not total:
            bar_format = "{desc} [{elapsed}]"
        interval = self._interval()
        with suppress(*BROKEN):
            self._bar = tqdm(
                total=total,
                desc=title,
                leave=False,
                bar_format=bar_format,
                dynamic_ncols=True,
                mininterval=interval,
            )

    def _line_of_notebook(self, title: str, total: int | None) -> _Line:
        """Begin a stage in the log of a notebook."""
        if self._log is None:
            self._log = StageLog(_write_plainly, self._log_interval())
        self._log.begin(title)
        return _Line(self._log, title, total)

    def _interval(self) -> float:
        """Return the seconds between two updates."""
        if sys.stderr.isatty():
            return LIVE_INTERVAL
        return self._log_interval()

    def _log_interval(self) -> float:
        """Return the seconds between two lines of a log."""
        if self._verbose == 1:
            return LOG_INTERVAL
        return DENSE_LOG_INTERVAL

    def each(self, items: Iterable[Item]) -> Iterator[Item]:
        """Yield the items, each a step of the stage when it is done."""
        for item in items:
            yield item
            if self._bar is not None:
                with suppress(*BROKEN):
                    self._bar.update(1)

    def follow(
        self, title: str, first: int, last: int
    ) -> Callable[[State], None] | None:
        """Begin the stage of a run of the solver; return its callback, None if nothing is shown."""
        self.stage(title, last - first)
        bar = self._bar
        if bar is None:
            return None

        def show(state: State) -> None:
            text = f"objective {state.objective:.4g}, {len(state.weights)} pairs"
            with suppress(*BROKEN):
                bar.set_postfix_str(text, refresh=False)
                bar.update(state.n_iter - first - bar.n)

        return show

    def say(self, text: str) -> None:
        """Leave a line."""
        if self._verbose <= 0:
            return
        if is_notebook():
            _write_plainly(text)
        elif sys.stderr is not None:
            from tqdm import tqdm

            with suppress(*BROKEN):
                tqdm.write(text, file=sys.stderr)


class _Line:
    """A stage in the log of a notebook; it has the methods of a bar."""

    def __init__(self, log: StageLog, title: str, total: int | None) -> None:
        self.n = 0
        self._log = log
        self._title = title
        self._total = total

    def set_postfix_str(self, text: str, refresh: bool = False) -> None:
        """Leave the details out."""

    def update(self, n: int) -> None:
        """Count steps."""
        self.n += n
        if self._total:
            self._log.rename(f"{self._title}: {self.n} of {self._total}")

    def close(self) -> None:
        """Leave the line as it is: the next stage ends this one."""


def _write_plainly(line: str) -> None:
    """Write a line of plain output."""
    with suppress(*BROKEN):
        print(line, flush=True)  # noqa: T201


# --- stages of a log ------------------------------------------------------------------


class StageLog:
    """Lines about the stages of a command, if no terminal shows them live.

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
        interval: float = LOG_INTERVAL,
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


def duration(seconds: float) -> str:
    """Return a time in the unit that suits its size.

    Examples
    --------
    >>> [duration(seconds) for seconds in (0.04, 1.26, 75, 600, 9000)]
    ['0.0 s', '1.3 s', '75 s', '10 min', '2.5 h']
    """
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
