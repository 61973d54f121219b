"""Run compiled kernels on several threads, same bits whatever their number.

Kernels release the GIL, so plain threads do. They live as long as one fit or search.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import pairwise
from queue import SimpleQueue
from threading import Thread
from typing import Any

import joblib
import numpy as np

#: Ranges per thread: one that is done early takes from the others.
SHARES = 4

#: The largest and the least number of multiplications of a piece of work, and pieces
#: per thread that run before interrupts are served.
PIECE = 2e7
LEAST_PIECE = 1e5
TURN = 8


class Workers:
    """A handful of threads; use as a context manager to let them go at the end.

    Parameters
    ----------
    n_jobs : int or None, default=None
        As joblib understands it: within its workers None is one thread. There are never
        more threads than NUMBA_NUM_THREADS says where it is set, as it is in joblib's
        processes: these share out the cores.
    grain : int, default=200_000
        A thread is worth calling for this many multiplications, not fewer.

    Attributes
    ----------
    n_threads : int
    """

    def __init__(self, n_jobs: int | None = None, *, grain: int = 200_000) -> None:
        self.grain = grain
        self.n_threads = int(joblib.effective_n_jobs(n_jobs))
        limit = os.environ.get("NUMBA_NUM_THREADS", "")
        if limit.isdecimal():
            self.n_threads = max(1, min(self.n_threads, int(limit)))
        self._helpers: list[Thread] = []
        self._tasks: SimpleQueue[Callable[[], None] | None] = SimpleQueue()

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *exc: object) -> None:
        for _ in self._helpers:
            self._tasks.put(None)
        for helper in self._helpers:
            helper.join()
        self._helpers = []

    def run(
        self, kernel: Callable[..., Any], bounds: Sequence[int] | np.ndarray, *args: Any
    ) -> None:
        """Call ``kernel(start, stop, *args)`` for each range between neighbouring bounds.

        The calling thread takes part. One range, or one thread, is a plain call.
        """
        n_ranges = len(bounds) - 1
        if self.n_threads == 1 or n_ranges <= 1:
            kernel(int(bounds[0]), int(bounds[-1]), *args)
            return
        ranges = iter([*pairwise(map(int, bounds))])  # each thread takes the next one
        ended = SimpleQueue[None]()
        errors = list[BaseException]()
        n_asked = 0

        def work() -> None:
            for start, stop in ranges:
                kernel(start, stop, *args)

        def help_out() -> None:
            try:
                work()
            except BaseException as error:
                errors.append(error)
            ended.put(None)

        n_helpers = self._started(min(self.n_threads, n_ranges) - 1)
        try:
            while n_asked < n_helpers:
                self._tasks.put(help_out)
                n_asked += 1
            work()
        finally:  # also when interrupted: nobody may write to an array that has moved on
            list(ranges)  # none is left
            for _ in range(n_asked):
                ended.get()
        if errors:
            raise errors[0]

    def _started(self, n_helpers: int) -> int:
        """Start so many helpers if there are fewer; return how many of them there are."""
        with suppress(RuntimeError):  # the system gives no more threads
            while len(self._helpers) < n_helpers:
                helper = Thread(
                    target=_help, args=(self._tasks,), name="hdsl", daemon=True
                )
                helper.start()
                self._helpers.append(helper)
        return min(n_helpers, len(self._helpers))

    def run_pieces(
        self, kernel: Callable[..., Any], n_items: int, item_cost: float, *args: Any
    ) -> None:
        """Call ``kernel(start, stop, *args)`` for pieces of the items, a few at a time.

        A piece takes some hundredths of a second, also on one thread, and an interrupt
        is served between pieces. `item_cost` is the number of multiplications of an
        item.
        """
        share = max(n_items * item_cost / (4 * self.n_threads), LEAST_PIECE)
        size = max(1, int(min(PIECE, share) / max(item_cost, 1.0)))
        bounds = [*range(0, n_items, size), n_items]
        n_at_once = 1
        if self.n_threads > 1:
            n_at_once = TURN * self.n_threads
        for first in range(0, len(bounds) - 1, n_at_once):
            self.run(kernel, bounds[first : first + n_at_once + 1], *args)

    def split(
        self, n_items: int, *, grain: int = 1, work: np.ndarray | None = None
    ) -> list[int]:
        """Bounds that share out `n_items`, evenly or by their running `work`, none below `grain`.

        `work` holds, for each item, the work of all items before it, and the total at
        the end.
        """
        total = n_items
        if work is not None:
            total = int(work[-1])
        n_ranges = 1
        if self.n_threads > 1:
            n_ranges = min(SHARES * self.n_threads, total // max(grain, 1), n_items)
        if n_ranges <= 1:
            return [0, n_items]
        if n_ranges > self.n_threads:  # of equal ranges each thread has as many
            n_ranges -= n_ranges % self.n_threads
        bounds = [total * k // n_ranges for k in range(n_ranges + 1)]
        if work is not None:
            bounds = [int(k) for k in np.searchsorted(work, bounds)]
            bounds[0] = 0
            bounds[-1] = n_items
        return bounds


def _help(tasks: SimpleQueue[Callable[[], None] | None]) -> None:
    """Do tasks until there is a None. A future per task takes twice the time to hand it over."""
    while (task := tasks.get()) is not None:
        task()
        del task  # and the arrays that it has
