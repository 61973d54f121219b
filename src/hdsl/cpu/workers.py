"""Run compiled kernels on several threads, same bits whatever their number.

Kernels release the GIL, so plain threads do. Threads live as long as one fit: no global state, no
thread layer that forbids two fits at once.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import pairwise
from queue import SimpleQueue
from typing import Any

import joblib
import numpy as np

from .kernels import team

#: A thread that looks out for a team is worth this many multiplications, not fewer; one that is
#: called to pieces of work through the interpreter must get more.
TEAM_GRAIN, GRAIN = 20_000, 200_000

#: Milliseconds that a thread may take to start.
START_LIMIT = 1000

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
        self._helpers: list[threading.Thread] = []
        # A helper that sleeps takes a call, and looks for work; one that does not comes by itself.
        self._calls: SimpleQueue[bool] = SimpleQueue()
        self._asleep: deque[None] = deque()
        self._work: _Work | None = None
        self._lobby = team.new_lobby()
        self._leading, self._is_leading = threading.Lock(), False
        self._lent: dict[int, tuple[Any, ...]] = {}  # arguments that helpers may still read

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *exc: object) -> None:
        for _ in self._helpers:
            self._calls.put(False)
        team.call_back(self._lobby)
        for helper in self._helpers:
            for _ in range(START_LIMIT):
                with suppress(RuntimeError):  # an interrupt came while it was started
                    helper.join()
                    break
                time.sleep(0.001)
        self._helpers = []

    def run(
        self, kernel: Callable[..., Any], bounds: Sequence[int] | np.ndarray, *args: Any
    ) -> None:
        """Call ``kernel(start, stop, *args)`` for each range between neighbouring bounds."""
        n_ranges = len(bounds) - 1
        if self.n_threads == 1 or n_ranges <= 1:
            kernel(bounds[0], bounds[-1], *args)
            return
        pending = deque(pairwise(bounds))

        def work(who: int) -> None:
            while True:
                try:
                    start, stop = pending.popleft()
                except IndexError:
                    return
                kernel(start, stop, *args)

        shared = _Work(work)
        try:
            self._work = shared
            team.call_back(self._lobby)
            self._wake(min(self.n_threads, n_ranges) - 1)
            work(-1)
        finally:  # also when interrupted: nobody may write to an array that has moved on
            pending.clear()
            self._work = None
            shared.close()
        if shared.errors:
            raise shared.errors[0]

    def together(self, kernel: Callable[..., Any], n_phases: int, work: float, *args: Any) -> None:
        """Call ``kernel(who, lobby, board, *args)`` on as many threads as the work is worth.

        The kernel shares its work, of about `work` multiplications, by the counters of the board,
        as ``kernels.team`` says: it ends when all of its tasks are done.
        """
        n_helpers, board = self.team_size(work) - 1, team.new_board(n_phases)
        if n_helpers < 1 or not self._leading.acquire(blocking=False):
            kernel(-1, self._lobby, board, *args)
            return
        try:
            number = team.next_team(self._lobby, n_helpers)
            if number:
                self._is_leading = True
                self._wake(n_helpers)
                self._lent[team.slot_of(number)] = (board, *args)
            kernel(-1 - number, self._lobby, board, *args)
            for slot in [slot for slot in self._lent if team.is_empty(self._lobby, slot)]:
                del self._lent[slot]
        finally:
            team.end_team(self._lobby)
            self._is_leading = False
            self._leading.release()

    def team_size(self, work: float) -> int:
        """Return how many threads are worth their waking for so many multiplications.

        A thread more costs all others a moment, so that their number grows with the square root.
        """
        if team.JIT_IS_OFF:  # counters are then plain numbers
            return 1
        return int(max(1, min(self.n_threads, math.sqrt(2.0 * work / TEAM_GRAIN))))

    def _wake(self, n_helpers: int) -> None:
        """Wake helpers, or start them, until so many are looking for work."""
        while len(self._helpers) < n_helpers:
            who = len(self._helpers)
            helper = threading.Thread(target=self._help, args=(who,), name="hdsl", daemon=True)
            self._helpers.append(helper)
            self._asleep.append(None)
            helper.start()
        # Who was called before may not have come yet.
        n_awake = len(self._helpers) - len(self._asleep)
        for _ in range(n_helpers - n_awake - self._calls.qsize()):
            self._calls.put(True)

    def _help(self, who: int) -> None:
        latest = np.zeros(1, dtype=np.int64)  # the last team that it knows of
        while self._calls.get():
            self._asleep.pop()
            last, goes_on = None, True
            while goes_on:
                n_calls, work = team.n_calls(self._lobby), self._work
                if work is not None and work is not last:
                    work.join(who)
                    last, work = work, None
                elif not team.serve(self._lobby, who, n_calls, latest):
                    # Who leads now may have counted on this helper before it says that it sleeps.
                    self._asleep.append(None)
                    work = self._work
                    goes_on = self._is_leading or (work is not None and work is not last)
                    if goes_on:
                        self._asleep.pop()

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
        n_parts = max(1, min(self.n_threads, total // max(grain, 1), n_items))
        shares = [total * k // n_parts for k in range(n_parts + 1)]
        if work is not None:
            shares = [int(k) for k in np.searchsorted(work, shares)]
            shares[-1] = n_items
        return shares

    def pieces(self, n_items: int) -> list[int]:
        """Bounds of several pieces a thread, so that none waits long where items differ."""
        n_pieces = max(1, min(n_items, 8 * self.n_threads)) if self.n_threads > 1 else 1
        return [n_items * k // n_pieces for k in range(n_pieces + 1)]


class _Work:
    """Something that helpers may join until it is closed."""

    def __init__(self, do: Callable[[int], None]) -> None:
        self._do: Callable[[int], None] | None = do
        self._came: deque[None] = deque()
        self._left: SimpleQueue[None] = SimpleQueue()
        self.errors: list[BaseException] = []

    def join(self, who: int) -> None:
        """Take part as helper `who`, unless it is closed."""
        self._came.append(None)
        do = self._do
        try:
            if do is not None:
                do(who)
        except BaseException as error:
            self.errors.append(error)
        finally:
            self._left.put(None)

    def close(self) -> None:
        """Let nobody in, and return when all are out."""
        self._do = None
        for _ in range(len(self._came)):
            self._left.get()
