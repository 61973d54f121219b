"""Linking generated tables: seconds per stage, memory, and records that come later."""

from __future__ import annotations

import statistics
import sys
import time
import warnings
from collections.abc import Iterator
from unittest import mock

import numpy as np

from hdsl.linking import Linker, linker
from hdsl.progress import Progress

from .linking_tables import Records, Table, one_table, two_tables
from .measure import peak_mb, record, reset_peak
from .tasks import NO_PROBLEM, Record, Task, benchmark

#: Records of each table where no number is asked for.
N_ROWS = 10_000
N_TOY_ROWS = 150

#: Known matches that are learned from.
N_MATCHES = 1000

#: Later records that are linked together, and one by one.
N_LATER = 2000
N_SINGLE = 30


class Stages(Progress):
    """The stages of a fit, and how long each takes; they are told as they begin."""

    def __init__(self, verbose: int) -> None:
        super().__init__(verbose)
        self._first = time.perf_counter()
        self.begins: list[tuple[str, float]] = []

    def stage(self, title: str, total: int | None = None) -> None:
        """Begin a stage."""
        now = time.perf_counter()
        self.begins.append((title, now))
        print(f"{now - self._first:8.1f} s  {title}", file=sys.stderr, flush=True)

    def seconds(self) -> dict[str, float]:
        """Return the seconds of each stage; the parts of learning a similarity are one."""
        ends = [*(begin for _, begin in self.begins[1:]), time.perf_counter()]
        seconds: dict[str, float] = {}
        for (title, begin), end in zip(self.begins, ends, strict=True):
            if title.startswith("learning, "):
                title = "learning a similarity"
            seconds[title] = seconds.get(title, 0.0) + end - begin
        return seconds


@benchmark()
def linking(task: Task) -> Iterator[Record]:
    """Two generated tables of 12 words: a fit by stage, later records, and one of them."""
    for n_rows in sizes(task):
        yield from measure(task, two_tables(n_rows), f"{n_rows} x {n_rows}")


@benchmark()
def duplicates(task: Task) -> Iterator[Record]:
    """Duplicates in a generated table of 12 words: as `linking`."""
    for n_rows in sizes(task):
        yield from measure(task, one_table(n_rows), f"{n_rows}")


def sizes(task: Task) -> tuple[int, ...]:
    """Return the numbers of records that are asked for."""
    return task.rows or (task.by_size(full=N_ROWS, toy=N_TOY_ROWS),)


def measure(task: Task, records: Records, size: str) -> Iterator[Record]:
    """Yield what a fit and later records take."""
    warnings.simplefilter("ignore")
    load_compiled(task)
    n_rows = len(records.left["title"])
    n_later = min(N_LATER, n_rows // 10)
    earlier, later = parted(records, n_later)
    rng = np.random.default_rng(0)
    n_known = min(N_MATCHES, len(earlier.matches) // 3)
    known = rng.choice(len(earlier.matches), n_known, replace=False)
    reset_peak()
    fitted = Linker(random_state=0, n_jobs=task.threads)
    start = time.perf_counter()
    stages = Stages(0)
    with mock.patch.object(linker, "Progress", return_value=stages):
        fitted.fit(earlier.left, earlier.right, earlier.matches[known])
    total = time.perf_counter() - start
    peak = peak_mb()
    for title, seconds in stages.seconds().items():
        yield record(task, NO_PROBLEM, f"{size}: {title}", seconds=seconds, peak=peak)
    note = f"{peak / 1024:.2f} GiB; {quality(fitted, earlier)}"
    yield record(
        task, NO_PROBLEM, f"{size}: the whole fit", seconds=total, peak=peak, note=note
    )
    yield from measure_later(task, fitted, later, size)


def measure_later(
    task: Task, fitted: Linker, later: Table, size: str
) -> Iterator[Record]:
    """Yield what it takes to link later records, many and one, and to keep them."""
    start = time.perf_counter()
    fitted.link(rows_of(later, range(1)))
    seconds = time.perf_counter() - start
    yield record(task, NO_PROBLEM, f"{size}: link, the first time", seconds=seconds)
    n_later = len(later["title"])
    start = time.perf_counter()
    fitted.link(later)
    seconds = time.perf_counter() - start
    note = f"{n_later / seconds:,.0f} records per second"
    yield record(
        task, NO_PROBLEM, f"{size}: link {n_later}", seconds=seconds, note=note
    )
    times = []
    for number in range(min(N_SINGLE, n_later)):
        start = time.perf_counter()
        fitted.link(rows_of(later, range(number, number + 1)))
        times.append(time.perf_counter() - start)
    seconds = statistics.median(times)
    yield record(
        task, NO_PROBLEM, f"{size}: link 1", seconds=seconds, note="the median"
    )
    for number in range(2):
        start = time.perf_counter()
        fitted.add(rows_of(later, range(number, number + 1)))
        seconds = time.perf_counter() - start
    yield record(
        task, NO_PROBLEM, f"{size}: add 1", seconds=seconds, note="the second time"
    )


def load_compiled(task: Task) -> None:
    """Link small tables, so that nothing is compiled or loaded later."""
    for records in (two_tables(200), one_table(200)):
        small = Linker(random_state=0, n_jobs=task.threads)
        small.fit(records.left, records.right, records.matches[:40])
        small.link(rows_of(records.left, range(2)))


def parted(records: Records, n_later: int) -> tuple[Records, Table]:
    """Return records without the last ones of the right table, or of the only one, and these."""
    table = records.right or records.left
    n_first = len(table["title"]) - n_later
    first = rows_of(table, range(n_first))
    later = rows_of(table, range(n_first, n_first + n_later))
    matches = records.matches
    if records.right is None:
        kept = matches[(matches < n_first).all(axis=1)]
        return Records(first, None, kept), later
    kept = matches[matches[:, 1] < n_first]
    return Records(records.left, first, kept), later


def rows_of(table: Table, rows: range) -> Table:
    """Return some rows of a table."""
    return {name: values[rows.start : rows.stop] for name, values in table.items()}


def quality(fitted: Linker, records: Records) -> str:
    """Return how many links are matches, and how many matches are links."""
    links = fitted.predict(0.5)
    pairs = np.column_stack([links.left, links.right])
    expected = records.matches
    if records.right is None:
        pairs = np.sort(pairs, axis=1)
        expected = np.sort(expected, axis=1)
    matches = {*map(tuple, expected.tolist())}
    hits = len(matches.intersection(map(tuple, pairs.tolist())))
    precision = hits / max(len(pairs), 1)
    return f"precision {precision:.3f}, recall {hits / len(matches):.3f}"
