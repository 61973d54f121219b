"""The progress of a fit on stderr, as tqdm shows it."""

from __future__ import annotations

import sys
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


class Progress:
    """The progress of one fit: stages one after the other, each with a bar.

    Parameters
    ----------
    verbose : int
        0 shows nothing. 1 shows a live line, or a line every 10 seconds in a log. 2
        makes it every second there.
    """

    def __init__(self, verbose: int) -> None:
        self._verbose = int(verbose)
        self._bar = None

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: Any) -> None:
        self._close()

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
        from tqdm.auto import tqdm

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

    def _interval(self) -> float:
        """Return the seconds between two updates."""
        if sys.stderr.isatty():
            return LIVE_INTERVAL
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
        if self._verbose > 0 and sys.stderr is not None:
            from tqdm.auto import tqdm

            with suppress(*BROKEN):
                tqdm.write(text, file=sys.stderr)
