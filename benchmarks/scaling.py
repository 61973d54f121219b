"""How the cost grows with the columns, with the triplets, and up to a million rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from .fits import load, timed_fit, warm_up
from .measure import environment
from .tasks import Record, Task, benchmark


def _summary(records: list[Record], **extra) -> Record:
    """Return a record about other records."""
    first = records[0]
    empty = dict.fromkeys(first)
    return {
        **empty,
        **environment(),
        "benchmark": f"{first['benchmark']}.summary",
        "problem": first["problem"].partition(":")[0],
        "threads": first["threads"],
        "extra": extra,
    }


def _by_threads(records: list[Record]) -> Iterator[list[Record]]:
    for count in sorted({record["threads"] for record in records}):
        yield [record for record in records if record["threads"] == count]


def _flatness(records: list[Record]) -> Iterator[Record]:
    """Compare each number of columns with the first: the median iteration, the peak."""
    for group in _by_threads(records):
        ratios = {
            "time": _to_first(record["extra"]["median_iteration"] for record in group),
            "CPU": _to_first(record["extra"]["median_cpu"] for record in group),
            "peak": _to_first(record["peak_mb"] for record in group),
        }
        shown = (
            f"{name} {' '.join(f'{x:.2f}' for x in values)}"
            for name, values in ratios.items()
        )
        note = f"of the first: {'; '.join(shown)}"
        yield _summary(group, ratios=ratios, note=note)


def _to_first(values: Iterable[float]) -> list[float]:
    listed = list(values)
    return [value / listed[0] for value in listed]


@benchmark(
    problems=tuple(f"same_nonzeros:1e{k}" for k in (4, 5, 6, 7)),
    iterations=200,
    threads=(1,),
    summary=_flatness,
)
def dimension(task: Task) -> Iterator[Record]:
    """Time and memory from 10⁴ to 10⁷ columns with the same non-zeros."""
    warm_up()
    # No yardstick during the fit: its result has the length of the columns.
    yield timed_fit(task, load(task), sampled=False)


def _exponents(records: list[Record]) -> Iterator[Record]:
    """Fit time = c · Tᵉ, for iterations and, as caches matter, for the yardstick."""
    for group in _by_threads(records):
        sizes = [record["extra"]["size"]["n_triplets"] for record in group]
        if len(set(sizes)) < 2:
            continue
        iteration = _exponent(sizes, [record["seconds"] for record in group])
        unit = _exponent(sizes, [record["yardstick_seconds"] for record in group])
        note = f"exponent {iteration:.3f} (of the yardstick: {unit:.3f})"
        yield _summary(group, exponent=iteration, yardstick_exponent=unit, note=note)


def _exponent(sizes: list[int], seconds: list[float]) -> float:
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


@benchmark(
    problems=tuple(f"scaled:1e{k}" for k in (5, 6, 7)),
    iterations=50,
    threads=(None,),
    summary=_exponents,
)
def triplets(task: Task) -> Iterator[Record]:
    """Time of an iteration as triplets, rows and non-zeros grow to 10⁷ triplets."""
    warm_up()
    yield timed_fit(task, load(task))


@benchmark(
    problems=("million",), iterations=10, steps=("away", "corrective"), threads=(None,)
)
def million(task: Task) -> Iterator[Record]:
    """A million rows and features, 15 million triplets: seconds, set-up, memory."""
    warm_up(steps=task.steps)
    problem = load(task)
    for step in task.steps:
        line = timed_fit(task, problem, step, step=step, batch_size=task.batch_size)
        note = f"{line['extra']['setup_seconds']:.1f} s before the first step"
        if line["peak_mb"] is not None:
            note = f"peak {line['peak_mb'] / 1024:.2f} GiB, {note}"
        line["extra"]["note"] = note
        yield line
