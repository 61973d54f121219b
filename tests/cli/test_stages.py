"""Stages of a command in a log: a line for each that takes long, and few of them."""

import queue
import threading
import time
from itertools import pairwise

import pytest

from commands import LABELLED, good
from hdsl import progress
from hdsl.progress import StageLog

PATIENCE = 60  # seconds until a line that does not come is a failure


@pytest.fixture
def lines():
    """Return a queue of lines."""
    return queue.Queue()


def test_a_stage_that_takes_long_has_a_line_and_is_named_again(lines):
    log = StageLog(lines.put, interval=0.01, long=0.02)
    log.begin("reading")
    assert lines.get(timeout=PATIENCE).startswith("reading …")
    assert lines.get(timeout=PATIENCE).startswith("still reading …")
    log.begin("learning")
    later = [lines.get(timeout=PATIENCE) for _ in range(4)]
    assert any(line.startswith("learning …") for line in later)
    log.close()
    n_lines = lines.qsize()
    log.close()
    assert lines.qsize() == n_lines


def test_short_stages_have_no_line(lines):
    n_threads = threading.active_count()
    log = StageLog(lines.put)
    for stage in ("reading", "counting", "learning"):
        log.begin(stage)
    log.close()
    assert lines.empty()
    assert threading.active_count() == n_threads


def test_lines_keep_their_distance(lines):
    """However many stages there are."""
    interval = 0.05
    log = StageLog(lambda line: lines.put(time.monotonic()), interval=interval)
    begin = time.monotonic()
    times = [begin]
    while len(times) < 4:
        log.begin("another")
        try:
            times.append(lines.get(timeout=interval / 10))
        except queue.Empty:
            assert time.monotonic() < begin + PATIENCE
    log.close()
    steps = [later - earlier for earlier, later in pairwise(times)]
    assert min(steps) >= 0.9 * interval


def test_a_command_names_its_stages_in_a_log_unless_it_is_quiet(
    folder, tmp_path, monkeypatch
):
    monkeypatch.setattr(progress, "LOG_INTERVAL", 0.0)
    fit = (
        "fit",
        folder / "texts.csv",
        *LABELLED,
        "-o",
        tmp_path / "m",
        "--max-iter",
        2,
    )
    named = good(*fit).stderr.splitlines()
    assert all(line.startswith("hdsl: ") for line in named)
    assert any("learning" in line for line in named)
    assert good(*fit, "--quiet").stderr == ""
    assert good(*fit, "--json").stderr == ""
    assert good(*fit).stderr  # the log of a command ends with it
