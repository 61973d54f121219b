"""Threads that share work: every range once, whatever happens."""

import os
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdsl.cpu.workers import Workers


def count(workers, n_ranges=37):
    """Return how often each range was visited."""
    seen = []
    lock = threading.Lock()

    def note(start, stop):
        with lock:
            seen.append((start, stop))

    workers.run(note, range(n_ranges + 1))
    return sorted(at for start, stop in seen for at in range(start, stop))


@pytest.mark.parametrize("n_jobs", [1, 2, 3, 8])
def test_each_range_is_visited_once(n_jobs):
    with Workers(n_jobs) as workers:
        for _ in range(5):
            assert count(workers) == list(range(37))


def test_threads_end_with_the_workers():
    before = threading.active_count()
    with Workers(3) as workers:
        count(workers)
        assert threading.active_count() > before
    assert threading.active_count() == before


def test_several_threads_share_the_same_workers():
    found = []
    with Workers(2) as shared:
        threads = [
            threading.Thread(target=lambda: found.append(count(shared)))
            for _ in range(3)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == [list(range(37))] * 3


def test_an_error_comes_out_and_the_workers_work_on():
    def fail(start, stop):
        raise IndexError(f"range {start}")

    with Workers(3) as workers:
        for _ in range(3):
            with pytest.raises(IndexError, match="range"):
                workers.run(fail, [0, 1, 2, 3])
        assert count(workers) == list(range(37))


def test_an_interrupt_ends_the_work_before_it_comes_out():
    """No thread writes to an array after the call has returned."""
    running = threading.Semaphore(0)
    n_started = []

    def work(start, stop):
        n_started.append(start)
        if threading.current_thread() is threading.main_thread():
            running.acquire()  # until a helper is at work
            raise KeyboardInterrupt
        running.release()

    with Workers(2) as workers:
        with pytest.raises(KeyboardInterrupt):
            workers.run(work, range(10_001))
        n = len(n_started)
        assert count(workers) == list(range(37))
        assert len(n_started) == n


def test_no_more_threads_than_numba_is_allowed(monkeypatch):
    """joblib's processes set NUMBA_NUM_THREADS to their share of the cores."""
    assert Workers(None).n_threads == 1
    monkeypatch.setenv("NUMBA_NUM_THREADS", "2")
    assert Workers(8).n_threads == 2
    monkeypatch.setenv("NUMBA_NUM_THREADS", "no number")
    assert Workers(8).n_threads == 8
    assert Workers(-1).n_threads == os.cpu_count() or Workers(-1).n_threads >= 1


def test_where_no_thread_can_be_started_the_caller_works_alone(monkeypatch):
    def refuse(self):
        raise RuntimeError("can't start new thread")

    with Workers(3) as workers:
        monkeypatch.setattr(threading.Thread, "start", refuse)
        assert count(workers) == list(range(37))
        monkeypatch.undo()


@given(
    n_jobs=st.integers(1, 5),
    items=st.lists(st.integers(0, 9), min_size=1, max_size=30),
    grain=st.integers(1, 20),
)
def test_splits_cover_all_items(n_jobs, items, grain):
    workers = Workers(n_jobs)
    n = len(items)
    work = np.concatenate([[0], np.cumsum(items)])
    for bounds in (
        workers.split(n, grain=grain),
        workers.split(n, grain=grain, work=work),
    ):
        assert bounds[0] == 0
        assert bounds[-1] == n
        assert sorted(bounds) == list(bounds)
