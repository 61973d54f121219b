"""How threads share the work of one kernel: tasks that they take from counters, phase by phase.

All threads of a team call the same kernel with the same arguments. The work of a phase is a number
of tasks, fixed by the problem and never by the threads::

    gather(who, lobby)                             # the leader's helpers come
    task = take(board, phase)
    while task < n_tasks:
        ...                                        # what the task writes belongs to it
        task = finish(board, phase)                # counts it as done, and takes the next one
    wait(board, phase, n_tasks)                    # until all are done, whoever did them
    part(who, lobby)                               # nobody comes from here on

Nobody waits for a thread, only for tasks that some thread is at. A thread that comes late finds the
phases before it done; one that never comes is not missed. ``board`` is a fresh array of zeros
(``new_board``), one row per phase.

The leader of a team is called from Python. Helpers never are: they stay in ``serve``, which looks
out for a team and calls its kernel with the leader's arguments, without the lock of the
interpreter. A dozen threads that took turns at that lock would come too late for a kernel that
takes a millisecond. The arguments of a team are in a slot of the ``lobby``, which counts who came
and who left: while the two differ, the leader's caller keeps the arrays. A helper that has found
no team for a while goes back to Python, and sleeps.

With the JIT turned off there is one thread, and plain functions do the same.
"""

import os
import re
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .compiler import JIT_IS_OFF, kernel

#: Numbers per row of a board: the two counters must not share a cache line.
_PACE = 16
_TAKEN, _DONE = 0, 8

#: Looks at a counter before the processor is offered to other threads, those of a helper before it
#: goes back to Python, and those of a leader for helpers that are about to leave.
_PATIENCE, _LINGERING, _FAREWELL = 1000, 5000, 200

#: Slots of a lobby, numbers per row of it, and where the first row has the latest team (odd while
#: helpers may come, even from then on) and how often helpers were called back to Python.
N_SLOTS, _ROOM = 7, 768
_TEAM, _CALLED = 0, 8

#: A slot begins with the address of the kernel. Where it has the ticket that comes too late, how
#: many helpers came and left so far, and the arguments.
_WANTED, _CAME, _LEFT, _ARGUMENTS = 1, 8, 16, 24


def new_board(n_phases: int) -> np.ndarray:
    """Return the counters of so many phases."""
    return np.zeros((n_phases, _PACE), dtype=np.int64)


def new_lobby() -> np.ndarray:
    """Return the place where helpers find teams."""
    return np.zeros((1 + N_SLOTS, _ROOM), dtype=np.int64)


def next_team(lobby: np.ndarray, n_helpers: int) -> int:
    """Return the number of a new team for a slot that everybody has left; 0 where there is none."""
    latest = int(lobby[0, _TEAM])
    for team in range(latest + 1, latest + 1 + 2 * N_SLOTS, 2):
        slot = slot_of(team)
        if is_empty(lobby, slot):
            lobby[slot, _WANTED] = lobby[slot, _CAME] + n_helpers
            return team
    return 0


def end_team(lobby: np.ndarray) -> None:
    """Let no more helpers come, also where a kernel failed before it could say so."""
    lobby[0, _TEAM] += lobby[0, _TEAM] % 2


def call_back(lobby: np.ndarray) -> None:
    """Let helpers come back to Python."""
    lobby[0, _CALLED] += 1


def n_calls(lobby: np.ndarray) -> int:
    """Return how often helpers were called back so far."""
    return int(lobby[0, _CALLED])


def _add_plainly(board, row, column):
    """Add 1 to a counter and return what it was."""
    board[row, column] += 1
    return board[row, column] - 1


def _read_plainly(board, row, column):
    """Return a counter, and see all that was written before it was added to."""
    return board[row, column]


def _rest_plainly(n_looks):
    """Wait a moment; after many looks, let another thread have the processor."""


def _place(context, builder, kind, board, row, column):
    """Return the address of board[row, column]."""
    array = context.make_array(kind)(context, builder, board)
    pace = builder.extract_value(array.shape, 1)
    return builder.gep(array.data, [builder.add(builder.mul(row, pace), column)])


@intrinsic
def _add_at_once(typing_context, board, row, column):
    """Do so in one piece: no two threads get the same number."""

    def generate(context, builder, signature, args):
        one = ir.Constant(ir.IntType(64), 1)
        place = _place(context, builder, signature.args[0], *args)
        return builder.atomic_rmw("add", place, one, "seq_cst")

    return types.int64(board, types.int64, types.int64), generate


@intrinsic
def _read_at_once(typing_context, board, row, column):
    """Do so, after what other threads wrote before they added to it."""

    def generate(context, builder, signature, args):
        place = _place(context, builder, signature.args[0], *args)
        return builder.load_atomic(place, "seq_cst", 8)

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


def _gather_plainly(who, lobby):
    """Let helpers come, where `who` leads a team: they call the kernel at hand as it was."""


@intrinsic
def _gather_helpers(typing_context, who, lobby):
    """Do so: the kernel at hand is the function that is being compiled.

    It is never made part of another one: leader and helpers run the same code, which gives the same
    bits. Its arguments go to the slot of the team, but for the first, which is the helper's own
    `who`. Helpers do not own arrays and do not count as holders: what counts them is gone once the
    leader returns, the numbers are not. The number of the team comes last: the slot is then
    complete.
    """

    def generate(context, builder, signature, args):
        function, int64 = builder.function, ir.IntType(64)
        function.attributes.add("noinline")
        given = function.args[3:]  # after those for the result, for errors, and who
        packed = ir.LiteralStructType([argument.type for argument in given])
        if context.get_abi_sizeof(packed) > 8 * (_ROOM - _ARGUMENTS):
            raise ValueError(f"{function.name} has too many arguments for a slot.")
        entry = _entry(builder.module, function, packed)
        zero, one, slots = (ir.Constant(int64, n) for n in (0, 1, N_SLOTS))
        team = builder.sub(ir.Constant(int64, -1), args[0])
        with builder.if_then(builder.icmp_signed(">", team, zero)):
            slot = builder.add(one, builder.urem(builder.lshr(team, one), slots))
            place = _place(context, builder, signature.args[1], args[1], slot, zero)
            room = builder.gep(place, [ir.Constant(int64, _ARGUMENTS)])
            room = builder.bitcast(room, packed.as_pointer())
            for k, argument in enumerate(given):
                lent = argument.type(None) if _is_owner(argument) else argument
                builder.store(lent, cgutils.gep_inbounds(builder, room, 0, k))
            builder.store(builder.ptrtoint(entry, int64), place)
            latest = _place(
                context, builder, signature.args[1], args[1], zero, ir.Constant(int64, _TEAM)
            )
            builder.store_atomic(team, latest, "seq_cst", 8)
        return context.get_dummy_value()

    return types.void(types.int64, lobby), generate


def _is_owner(argument):
    """Return whether an argument is what counts the holders of an array, or the array's object."""
    if not isinstance(argument.type, ir.PointerType):
        return False
    if re.fullmatch(r"arg\.\w+(\.\d+){2,}", argument.name):
        raise TypeError(f"{argument.name} is of an array in a tuple: pass arrays one by one.")
    return bool(re.fullmatch(r"arg\.\w+\.[01]", argument.name))


def _entry(module, function, packed):
    """Return a new function (address of arguments, who) that calls a compiled one."""
    int64 = ir.IntType(64)
    kind = ir.FunctionType(ir.VoidType(), [int64, int64])
    entry = ir.Function(module, kind, module.get_unique_name("join." + function.name))
    entry.linkage = "internal"
    builder = ir.IRBuilder(entry.append_basic_block())
    address, who = entry.args
    room = builder.inttoptr(address, packed.as_pointer())
    given = [
        builder.load(cgutils.gep_inbounds(builder, room, 0, k)) for k in range(len(packed.elements))
    ]
    result, error = (builder.alloca(argument.type.pointee) for argument in function.args[:2])
    builder.call(function, [result, error, who, *given])
    builder.ret_void()
    return entry


@intrinsic
def _join_team(typing_context, lobby, slot, who):
    """Call the kernel of a slot as helper `who`."""

    def generate(context, builder, signature, args):
        int64 = ir.IntType(64)
        room, slot, who = args
        place = _place(context, builder, signature.args[0], room, slot, ir.Constant(int64, 0))
        kind = ir.FunctionType(ir.VoidType(), [int64, int64])
        entry = builder.inttoptr(builder.load(place), kind.as_pointer())
        arguments = builder.gep(place, [ir.Constant(int64, _ARGUMENTS)])
        builder.call(entry, [builder.ptrtoint(arguments, int64), who])
        return context.get_dummy_value()

    return types.void(lobby, types.int64, types.int64), generate


_join: Any = _join_team  # an intrinsic has a parameter more than its calls
gather: Any = _gather_plainly if JIT_IS_OFF else _gather_helpers


@kernel()
def slot_of(team):
    """Return the slot of a team, by its odd number."""
    return 1 + team // 2 % N_SLOTS


@kernel()
def is_empty(lobby, slot):
    """Return whether all helpers that came to a slot have left it."""
    left = _read(lobby, slot, _LEFT)  # first: who comes now must not hide who stays
    return left == _read(lobby, slot, _CAME)


@kernel()
def part(who, lobby):
    """Let no more helpers come, where `who` leads a team; those that are there leave by themselves.

    As a rule they have left when this returns.
    """
    team = -1 - who
    if team > 0:
        _add(lobby, 0, _TEAM)
        n_looks = 0
        while n_looks < _FAREWELL and not is_empty(lobby, slot_of(team)):
            n_looks += 1


@kernel()
def serve(lobby, who, n_calls, latest):
    """Join the teams after the `latest` that want more helpers, one after the other, as `who`.

    Returns True when helpers were called back since there were `n_calls`, and False after a while
    without a team.
    """
    n_looks = 0
    while n_looks < _LINGERING:
        team = _read(lobby, 0, _TEAM)
        if team % 2 == 1 and team != latest[0]:
            latest[0], slot = team, slot_of(team)
            if _read(lobby, slot, _CAME) < lobby[slot, _WANTED]:
                ticket = _add(lobby, slot, _CAME)
                # If the team is another by now, the slot may be another's, too.
                if ticket < lobby[slot, _WANTED] and _read(lobby, 0, _TEAM) == team:
                    _join(lobby, slot, who)
                    n_looks = 0
                _add(lobby, slot, _LEFT)
        if _read(lobby, 0, _CALLED) != n_calls:
            return True
        _rest(n_looks)
        n_looks += 1
    return False
