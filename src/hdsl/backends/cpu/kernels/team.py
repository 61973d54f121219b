"""How threads share the work of one kernel: tasks that they take from counters, phase by phase.

All threads of a team call the same kernel with the same arguments. The work of a phase is a number
of tasks, fixed by the problem and never by the threads::

    task = take(board, phase)
    while task < n_tasks:
        ...                                        # what the task writes belongs to it
        task = finish(board, phase)                # counts it as done, and takes the next one
    wait(board, phase, n_tasks)                    # until all are done, whoever did them

Nobody waits for a thread, only for tasks that some thread is at. A thread that comes late finds the
phases before it done; one that never comes is not missed. ``board`` is a fresh array of zeros
(``new_board``), one row per phase.

At its end the kernel calls ``linger``: helpers stay for a moment, since the next kernel is a matter
of microseconds, as a rule, and to sleep and to be woken takes longer. ``lobby`` holds the number of
the latest team and how many helpers it wants.

With the JIT turned off there is one thread, and plain functions do the same.
"""

import os
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import config
from numba.extending import intrinsic

from .compiler import kernel

#: Numbers per row of a board: the two counters must not share a cache line.
_PACE = 16
_TAKEN, _DONE = 0, 8

#: Looks at a counter before the processor is offered to other threads, and those of a helper
#: before it goes to sleep.
_PATIENCE, _LINGERING = 1000, 5000

#: Where a board has the number of its team.
_TEAM = 1

#: Whether kernels run as plain Python: then on one thread, since counters are plain numbers.
JIT_IS_OFF = getattr(config, "DISABLE_JIT", 0)


def new_board(n_phases: int, team: int = 0) -> np.ndarray:
    """Return the counters of so many phases, for the team of this number."""
    board = np.zeros((n_phases, _PACE), dtype=np.int64)
    board[0, _TEAM] = team
    return board


def new_lobby() -> np.ndarray:
    """Return the place where helpers wait for the next team."""
    return np.zeros((1, _PACE), dtype=np.int64)


def _add_plainly(board, row, column):
    """Add 1 to a counter and return what it was."""
    board[row, column] += 1
    return board[row, column] - 1


def _read_plainly(board, row, column):
    """Return a counter, and see all that was written before it was added to."""
    return board[row, column]


def _rest_plainly(n_looks):
    """Wait a moment; after many looks, let another thread have the processor."""


def _place(context, builder, signature, args):
    """Return the address of board[row, column]."""
    data = context.make_array(signature.args[0])(context, builder, args[0]).data
    at = builder.add(builder.mul(args[1], ir.Constant(ir.IntType(64), _PACE)), args[2])
    return builder.gep(data, [at])


@intrinsic
def _add_at_once(typing_context, board, row, column):
    """Do so in one piece: no two threads get the same number."""

    def generate(context, builder, signature, args):
        one = ir.Constant(ir.IntType(64), 1)
        place = _place(context, builder, signature, args)
        return builder.atomic_rmw("add", place, one, "acq_rel")

    return types.int64(board, types.int64, types.int64), generate


@intrinsic
def _read_at_once(typing_context, board, row, column):
    """Do so, after what other threads wrote before they added to it."""

    def generate(context, builder, signature, args):
        place = _place(context, builder, signature, args)
        return builder.load_atomic(place, "acquire", 8)

    return types.int64(board, types.int64, types.int64), generate


_yield: Any = types.ExternalFunction("sched_yield", types.int32()) if os.name == "posix" else None


@kernel()
def _rest_by_yielding(n_looks):
    """Do so."""
    if n_looks > _PATIENCE:
        _yield()


_add: Any = _add_plainly if JIT_IS_OFF else _add_at_once
_read: Any = _read_plainly if JIT_IS_OFF else _read_at_once
_rest: Any = _rest_plainly if JIT_IS_OFF else _rest_by_yielding
if _yield is None and not JIT_IS_OFF:
    _rest = kernel()(_rest_plainly)


@kernel()
def take(board, phase):
    """Return the number of a task that no other thread has; there may be none left."""
    return _add(board, phase, _TAKEN)


@kernel()
def finish(board, phase):
    """Count the task at hand as done, and take another one."""
    _add(board, phase, _DONE)
    return _add(board, phase, _TAKEN)


@kernel()
def wait(board, phase, n_tasks):
    """Return when all tasks of a phase are done."""
    n_looks = 0
    while _read(board, phase, _DONE) < n_tasks:
        _rest(n_looks)
        n_looks += 1


@kernel()
def linger(board, lobby, who):
    """Return when a new team wants helper `who`, or after a while; at once for who < 0."""
    team = board[0, _TEAM]
    n_looks = 0
    while who >= 0 and n_looks < _LINGERING:
        latest = _read(lobby, 0, 0)
        if latest != team:
            if who < lobby[0, 1]:
                return
            team = latest
        _rest(n_looks)
        n_looks += 1
