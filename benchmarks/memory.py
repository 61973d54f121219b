"""The memory that fits are estimated to take, against their peaks in fresh processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from . import problems
from .measure import held_mb, peak_mb, record, reset_peak
from .tasks import NO_PROBLEM, Record, Task, benchmark

#: Rows, columns and values per row; 15 triplets per row.
SIZES = {
    "small": (3_000, 10_000, 40),
    "wide": (3_000, 300_000, 200),
    "long": (30_000, 20_000, 40),
    "dense": (1_000, 400, 60),
}

#: Size and parameters of each point; `folds` asks for HDSLCV, the others are parameters of HDSL.
GRID = {
    "all": ("long", {"max_iter": 30}),
    "all, 2 threads": ("long", {"max_iter": 30, "n_jobs": 2}),
    "wide": ("wide", {"max_iter": 30}),
    "small": ("small", {"max_iter": 30}),
    "no prior": ("long", {"max_iter": 30, "prior": 0.0}),
    "exact": ("small", {"max_iter": 30, "oracle": "exact"}),
    "1000 iterations": ("small", {"max_iter": 1000, "tol": 0.0}),
    "dense": ("dense", {"max_iter": 30, "tol": 0.0}),
    "dense, 500 iterations": ("dense", {"max_iter": 500, "tol": 0.0}),
    "dense, 2000 iterations": ("dense", {"max_iter": 2000, "tol": 0.0}),
    "batch 1000": ("long", {"max_iter": 60, "batch_size": 1000}),
    "batch 20000": ("long", {"max_iter": 30, "batch_size": 20_000}),
    "batch 200000": ("long", {"max_iter": 30, "batch_size": 200_000}),
    "batch 1000, exact": ("small", {"max_iter": 30, "batch_size": 1000, "oracle": "exact"}),
    "3 folds": ("small", {"max_iter": 200, "tol": 0.0, "folds": 3}),
    "3 folds, 2 processes": ("small", {"max_iter": 200, "tol": 0.0, "folds": 3, "n_jobs": 2}),
}


@benchmark()
def memory(task: Task) -> Iterator[Record]:
    """Estimated memory against peak memory, each fit in a fresh process: a grid of settings."""
    for name in ("small",) if task.toy else GRID:
        began = time.perf_counter()
        text = subprocess.run(
            [sys.executable, "-m", __spec__.name, json.dumps([name, task.toy])],
            cwd=problems.ROOT, stdout=subprocess.PIPE, text=True, check=True,
        ).stdout  # fmt: skip
        estimated, measured = json.loads(text)
        ratio = estimated / measured
        yield record(
            task, NO_PROBLEM, name, seconds=time.perf_counter() - began, peak=measured,
            estimated_mb=estimated, ratio=ratio,
            note=f"{estimated:.1f} MiB estimated, {measured:.1f} measured, {ratio:.2f}",
        )  # fmt: skip


def measure(name: str, *, toy: bool = False) -> tuple[float, float]:
    """Return MiB estimated and measured for a point of the grid, in this process."""
    from hdsl import HDSL, HDSLCV, cv, fitting

    size, parameters = GRID[name]
    rows, columns, values = (300, 1000, 20) if toy else SIZES[size]
    problem = problems.power_law(rows, columns, values)
    if size == "dense":  # judgements that contradict each other: a long path of many atoms
        drawn = np.random.default_rng(0).integers(rows, size=problem.triplets.shape)
        problem = replace(problem, triplets=drawn[drawn[:, 1] != drawn[:, 2]])
    first = problems.power_law(200, 1000, 20)
    folds = parameters.get("folds")
    given = {k: v for k, v in parameters.items() if k not in ("folds", "n_jobs")}
    model = HDSL(scale=100.0, memory_limit=None, **given)
    n_jobs = parameters.get("n_jobs", 1)
    estimates = []
    if folds:
        model = HDSLCV([10.0, 100.0], priors=[1.0], estimator=model, cv=folds, n_jobs=n_jobs)
        model.estimator.memory_limit = "auto"
        warm = HDSLCV([10.0], priors=[1.0], estimator=HDSL(max_iter=2), cv=2)
    else:
        model.set_params(n_jobs=n_jobs)
        estimates.append(fitting.estimate_fit(model, problem.X, problem.triplets).total)
        warm = HDSL(**model.get_params()).set_params(max_iter=2)
    warnings.simplefilter("ignore")
    warm.fit(first.X, triplets=first.triplets)  # loads what is compiled
    of_search = cv.search_memory
    cv.search_memory = lambda *args: estimates.append(of_search(*args)) or estimates[-1]
    before = held_mb() or 0.0
    reset_peak()
    with Children() as children:
        model.fit(problem.X, triplets=problem.triplets)
    return estimates[-1] / 2**20, peak_mb() - before + children.peak


class Children:
    """Sums the peaks of the processes that this one starts, while it is open."""

    def __enter__(self) -> Children:
        self.peaks: dict[int, float] = {}
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._ends.set()
        self._thread.join()

    @property
    def peak(self) -> float:
        """MiB."""
        return sum(self.peaks.values())

    def _watch(self) -> None:
        listed = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
        while not self._ends.wait(0.02):
            try:
                for child in map(int, listed.read_text().split()):
                    text = Path(f"/proc/{child}/status").read_text()
                    found = [line for line in text.splitlines() if line.startswith("VmHWM")]
                    if found:
                        self.peaks[child] = int(found[0].split()[1]) / 1024
            except OSError:
                continue


if __name__ == "__main__":
    point, is_toy = json.loads(sys.argv[1])
    print(json.dumps(measure(point, toy=is_toy)))
