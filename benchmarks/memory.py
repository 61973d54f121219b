"""The memory that fits are estimated to take, against their peaks in fresh processes."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator

from hdsl.settings import nested_parameters

from . import problems
from .measure import held_mb, peak_mb, record, reset_peak
from .tasks import NO_PROBLEM, Record, Task, benchmark

#: Rows, columns and values per row; 15 triplets per row.
SIZES = {
    "small": (3_000, 10_000, 40),
    "wide": (3_000, 300_000, 200),
    "long": (30_000, 20_000, 40),
}

#: Size and parameters of each point.
GRID = {
    "long": ("long", {}),
    "long, 2 threads": ("long", {"n_jobs": 2}),
    "wide": ("wide", {}),
    "small": ("small", {}),
    "away": ("long", {"step": "away", "max_iter": 30}),
    "no prior": ("long", {"prior": 0.0}),
    "exact": ("small", {"oracle": "exact"}),
    "1000 iterations": ("small", {"step": "away", "max_iter": 1000, "tol": 0.0}),
    "batch 1000": ("long", {"batch_size": 1000}),
    "batch 200000": ("long", {"batch_size": 200_000}),
}


@benchmark()
def memory(task: Task) -> Iterator[Record]:
    """Estimated against peak memory, each fit in a fresh process: a grid of settings."""
    for name in task.by_size(full=tuple(GRID), toy=("small",)):
        start = time.perf_counter()
        text = subprocess.run(
            [sys.executable, "-m", __spec__.name, json.dumps([name, task.toy])],
            cwd=problems.ROOT,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout
        estimated, measured = json.loads(text)
        ratio = estimated / measured
        yield record(
            task,
            NO_PROBLEM,
            name,
            seconds=time.perf_counter() - start,
            peak=measured,
            estimated_mb=estimated,
            ratio=ratio,
            note=f"{estimated:.1f} MiB estimated, {measured:.1f} measured, {ratio:.2f}",
        )


def measure(name: str, *, toy: bool = False) -> tuple[float, float]:
    """Return MiB estimated and measured for a point of the grid, in this process."""
    from sklearn.base import clone

    from hdsl import HDSL
    from hdsl.fit.layouts import estimate_fit
    from hdsl.fit.parameters import FitParameters

    size, parameters = GRID[name]
    if toy:
        problem = problems.power_law(300, 1000, 20)
    else:
        problem = problems.power_law(*SIZES[size])
    model = HDSL(
        100.0,
        **nested_parameters(**{"prior": 8.0, "n_jobs": 1, **parameters}),
    )
    estimated = estimate_fit(FitParameters.of(model), problem.X, problem.triplets).total
    first = problems.power_law(200, 1000, 20)
    warnings.simplefilter("ignore")
    warm = clone(model).set_params(solver__max_iter=2)
    warm.fit(first.X, triplets=first.triplets)  # loads what is compiled
    before = held_mb() or 0.0
    reset_peak()
    model.fit(problem.X, triplets=problem.triplets, memory_limit=None)
    return estimated / 2**20, peak_mb() - before


if __name__ == "__main__":
    point, is_toy = json.loads(sys.argv[1])
    print(json.dumps(measure(point, toy=is_toy)))
