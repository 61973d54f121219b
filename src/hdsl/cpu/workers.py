"""Run compiled kernels on several threads, same bits whatever their number.

Kernels release the GIL, so plain threads do. They live as long as one fit or search.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from itertools import pairwise
from typing import Any

import joblib
import numpy as np

#: A thread is worth calling for this many multiplications, not fewer.
GRAIN = 200_000

#: Ranges per thread: one that is done early takes from the others.
SHARES = 4

#: Most and fewest multiplications of a piece of work, and pieces per thread that run before
#: interrupts are served.
PIECE, LEAST_PIECE, TURN = 2e7, 1e5, 8


class Workers:
    """A handful of threads; use as a context manager to let them go at the end.

    Parameters
    ----------
    n_jobs : int or None, default=None
        As joblib understands it: within its workers None is one thread. There are never more
        threads than NUMBA_NUM_THREADS says where it is set, as it is in joblib's processes: these
        share out the cores.
    """

    def __init__(self, n_jobs: int | None = None) -> None:
        self.n_threads = int(joblib.effective_n_jobs(n_jobs))
        limit = os.environ.get("NUMBA_NUM_THREADS", "")
        if limit.isdecimal():
            self.n_threads = max(1, min(self.n_threads, int(limit)))
        self._helpers: ThreadPoolExecutor | None = None

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._helpers is not None:
            self._helpers.shutdown()
            self._helpers = None

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
        pending = deque(pairwise(map(int, bounds)))

        def work() -> None:
            while True:
                try:
                    start, stop = pending.popleft()
                except IndexError:
                    return
                kernel(start, stop, *args)

        helping = self._call(work, min(self.n_threads, n_ranges) - 1)
        try:
            work()
        finally:  # also when interrupted: nobody may write to an array that has moved on
            pending.clear()
            wait(helping)
        for helper in helping:
            helper.result()

    def _call(self, work: Callable[[], None], n_helpers: int) -> list[Future]:
        """Have helpers do the same work; as many as can be started."""
        if self._helpers is None:
            self._helpers = ThreadPoolExecutor(self.n_threads - 1, thread_name_prefix="hdsl")
        helping: list[Future] = []
        with suppress(RuntimeError):  # the system gives no more threads
            while len(helping) < n_helpers:
                helping.append(self._helpers.submit(work))
        return helping

    def run_pieces(
        self, kernel: Callable[..., Any], n_items: int, item_cost: float, *args: Any
    ) -> None:
        """Call ``kernel(start, stop, *args)`` for pieces of the items, a few at a time.

        A piece takes some hundredths of a second, also on one thread, and an interrupt is served
        between pieces. `item_cost` is the number of multiplications of an item.
        """
        share = max(n_items * item_cost / (4 * self.n_threads), LEAST_PIECE)
        size = max(1, int(min(PIECE, share) / max(item_cost, 1.0)))
        bounds = [*range(0, n_items, size), n_items]
        step = TURN * self.n_threads if self.n_threads > 1 else 1
        for first in range(0, len(bounds) - 1, step):
            self.run(kernel, bounds[first : first + step + 1], *args)

    def split(self, n_items: int, *, grain: int = 1, work: np.ndarray | None = None) -> list[int]:
        """Bounds that share out `n_items`, evenly or by their running `work`, none below `grain`.

        `work` holds, for each item, the work of all items before it, and the total at the end.
        """
        total = n_items if work is None else int(work[-1])
        most = SHARES * self.n_threads if self.n_threads > 1 else 1
        n_parts = max(1, min(most, total // max(grain, 1), n_items))
        if n_parts == 1:
            return [0, n_items]
        shares = [total * k // n_parts for k in range(n_parts + 1)]
        if work is not None:
            shares = [int(k) for k in np.searchsorted(work, shares)]
            shares[0], shares[-1] = 0, n_items
        return shares
