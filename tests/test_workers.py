"""Threads that share work: every task once, whoever comes, whatever happens."""

import os
import sys
import threading
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdsl.cpu.kernels import step
from hdsl.cpu.kernels.compiler import kernel
from hdsl.cpu.kernels.team import JIT_IS_OFF, finish, gather, new_board, part, take, wait
from hdsl.cpu.rooms import LIMIT, Rooms
from hdsl.cpu.workers import Workers
from hdsl.solver.line_search import line_search


@kernel()
def count_in_phases(who, lobby, board, n_tasks, n_phases, counts, seen):
    """Add 1 to each count once per phase; note in seen[phase] how often phases came too early."""
    gather(who, lobby)
    for phase in range(n_phases):
        task = take(board, phase)
        while task < n_tasks:
            for other in range(n_tasks):
                seen[phase, task] += counts[phase - 1, other] != 1 if phase else 0
            counts[phase, task] += 1
            task = finish(board, phase)
        wait(board, phase, n_tasks)
    part(who, lobby)


def count(workers, n_tasks=37, n_phases=20):
    counts, early = np.zeros((2, n_phases, n_tasks), dtype=np.int64)
    workers.together(count_in_phases, n_phases, 1e12, n_tasks, n_phases, counts, early)
    return bool((counts == 1).all() and not early.any())


@pytest.mark.parametrize("n_jobs", [1, 2, 3, 8])
def test_each_task_is_done_once_and_after_the_phase_before(n_jobs):
    with Workers(n_jobs) as workers:
        assert all(count(workers) for _ in range(30))


def test_threads_end_with_the_workers():
    before = threading.active_count()
    with Workers(3) as workers:
        assert count(workers)
        assert threading.active_count() == before + (0 if JIT_IS_OFF else 2)
    assert threading.active_count() == before


def test_workers_of_several_threads_at_once():
    """Also when the workers are the same: who finds them busy works alone."""
    with Workers(2) as shared:
        found = []

        def work(workers):
            found.extend(count(workers) for _ in range(20))

        threads = [threading.Thread(target=work, args=(shared,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [True] * 60


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_works_alone():
    with Workers(3) as workers:
        assert count(workers)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                out = np.zeros(6)
                workers.run(lambda start, stop: out[start:stop].fill(1.0), [0, 2, 4, 6])
                code = 0 if count(workers) and out.all() else 2
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0


def test_an_error_comes_out_and_nobody_goes_on():
    def fail(start, stop):
        raise ValueError(f"range {start}")

    with Workers(3) as workers:
        for _ in range(5):
            with pytest.raises(ValueError, match="range"):
                workers.run(fail, [0, 1, 2, 3])
        assert count(workers)


@kernel()
def wait_for(board, came, n_wanted):
    """Wait until so many have come, but not for ever."""
    n_looks = 0
    while n_looks < 10**9 and came.sum() < n_wanted:
        n_looks += 1
        wait(board, 0, 0)


@kernel()
def note_helpers(who, lobby, board, n_wanted, came):
    """Wait a while until some helpers have come, and note who came."""
    gather(who, lobby)
    if who >= 0:
        came[who] += 1
    else:
        wait_for(board, came, n_wanted)
    part(who, lobby)


@pytest.mark.skipif(JIT_IS_OFF, reason="one thread without compiled kernels")
def test_helpers_come_with_the_arguments_of_the_leader():
    with Workers(3) as workers:
        for _ in range(20):
            came = np.zeros(2, dtype=np.int64)
            workers.together(note_helpers, 1, 1e12, 2, came)
            assert came.tolist() == [1, 1]


@kernel()
def stay(who, lobby, board, a, gate, state):
    """Stay in the team as a helper until the gate is open, and take hold of an array then."""
    gather(who, lobby)
    if who >= 0:
        state[0] = 1
        wait(gate, 0, 1)
        held = [a[row % len(a)] for row in range(100)]
        state[0] = int(held[-1].sum())
    else:
        wait_for(board, state, 1)
    part(who, lobby)


@pytest.mark.skipif(JIT_IS_OFF, reason="one thread without compiled kernels")
def test_a_helper_may_stay_when_the_leader_has_gone():
    with Workers(2) as workers:
        for _ in range(20):
            gate, state = new_board(1), np.zeros(1, dtype=np.int64)
            workers.together(stay, 1, 1e12, np.ones((16, 5)), gate, state)
            assert state[0] == 1
            others = [np.zeros(size) for size in range(1, 50)]  # memory that was let go is theirs
            wait_for_gate = take(gate, 0), finish(gate, 0)
            while state[0] == 1:
                time.sleep(0)
            assert state[0] == 5
            assert not any(other.any() for other in others)
            assert wait_for_gate == (0, 1)
            assert count(workers)


@kernel()
def fail(who, lobby, board):
    gather(who, lobby)
    if who < 0:
        raise ValueError("the leader fails")
    part(who, lobby)


def test_after_a_kernel_that_fails_helpers_come_and_go_as_before():
    with Workers(3) as workers:
        for _ in range(3):
            with pytest.raises(ValueError, match="the leader fails"):
                workers.together(fail, 1, 1e12)
            assert count(workers)
            if not JIT_IS_OFF:
                came = np.zeros(2, dtype=np.int64)
                workers.together(note_helpers, 1, 1e12, 2, came)
                assert came.tolist() == [1, 1]


@pytest.mark.skipif(JIT_IS_OFF, reason="one thread without compiled kernels")
def test_any_helper_that_is_awake_joins_a_small_team(monkeypatch):
    """Three of seven are wanted, and all sleep in between."""
    with Workers(8) as workers:
        count(workers)  # all seven exist
        monkeypatch.setattr(Workers, "team_size", lambda self, work: 4)
        for _ in range(3):
            time.sleep(0.1)
            came = np.zeros(7, dtype=np.int64)
            workers.together(note_helpers, 1, 1e12, 3, came)
            assert came.sum() == 3


def test_arguments_are_let_go():
    """Arrays are used again once nobody holds them, helpers included."""
    with Workers(3) as workers:
        counts, early = np.zeros((2, 5, 50), dtype=np.int64)
        before = sys.getrefcount(counts)
        workers.together(count_in_phases, 5, 1e12, 50, 5, counts, early)
        for _ in range(1000):
            count(workers)
            if sys.getrefcount(counts) == before:
                break
        assert sys.getrefcount(counts) == before


def test_more_threads_for_more_work():
    with Workers(16) as workers:
        sizes = [workers.team_size(work) for work in (0, 1e4, 1e5, 1e6, 1e7, 1e8)]
    assert sizes == sorted(sizes)
    assert sizes[0] == 1
    assert sizes[-1] == (1 if JIT_IS_OFF else 16)


def test_rooms_are_used_again_when_nobody_holds_them():
    rooms = Rooms()
    first = rooms.take(5)
    view = first[1:]
    address = first.ctypes.data
    del first
    assert rooms.take(5).ctypes.data != address  # the view holds it
    del view
    assert address in [room.ctypes.data for room in [rooms.take(5), rooms.take(5)]]
    held = [rooms.take(5) for _ in range(3 * LIMIT)]
    assert len({room.ctypes.data for room in held}) == len(held)
    assert sys.getrefcount(held[0]) < 5


# --- the line search, step by step ---------------------------------------------------------------


@given(
    kinks=st.lists(st.floats(0.0, 2.0), min_size=1, max_size=5),
    weights=st.lists(st.floats(0.1, 3.0), min_size=5, max_size=5),
    smooth=st.booleans(),
    limit=st.floats(0.0, 3.0),
    tilt=st.floats(-3.0, 1.0),
)
def test_search_in_pieces_is_the_line_search(kinks, weights, smooth, limit, tilt):
    """On convex functions: sums of parabolas to the right of kinks, or of e^x, and a line."""

    def slopes(x):
        first, second = tilt, 0.0
        for kink, weight in zip(kinks, weights, strict=False):
            if smooth:
                first += weight * np.exp(x - kink)
                second += weight * np.exp(x - kink)
            elif x > kink:
                first += weight * (x - kink)
                second += weight
        return float(first), float(second)

    state, size = np.empty(step.STATE_SIZE), 0.0
    goes_on = step.begin_search(state, *slopes(0.0), limit)
    for _ in range(step.MOST_TRIALS):
        trial = step.next_trial(state) if goes_on else -1.0
        if trial < 0.0:
            break
        goes_on = step.note_trial(state, trial, *slopes(trial))
        size = step.found_step(state)
    assert size == line_search(slopes, limit)
