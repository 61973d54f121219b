"""Measurements and their records: yardstick, peak memory, CPU and wall seconds.

The yardstick of a problem is the time of one SciPy ``X.T @ q`` on its X, in the same
process: milliseconds depend on the machine and its other users, ratios to the yardstick
far less.
"""

from __future__ import annotations

import math
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from .problems import ROOT, Problem
from .tasks import Task

STATUS = Path("/proc/self/status")
LIBRARIES = ("hdsl", "numpy", "scipy", "numba", "scikit-learn")


# --- memory ---------------------------------------------------------------------------


def peak_mb() -> float:
    """Return the most memory this process has held, in MiB, since its start or since `reset_peak`.

    On Linux, this is the high-water mark of this process alone: ``ru_maxrss`` of a
    child starts from the memory of its parent.
    """
    if (peak := _status("VmHWM")) is not None:
        return peak / 1024
    import resource  # not everywhere

    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def held_mb() -> float | None:
    """Return the memory this process holds now, in MiB; None if the system does not say."""
    held = _status("VmRSS")
    return None if held is None else held / 1024


def reset_peak() -> bool:
    """Begin a new high-water mark of memory; False where the system cannot."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def _status(key: str) -> int | None:
    with suppress(OSError):
        for line in STATUS.read_text().splitlines():
            if line.startswith(f"{key}:"):
                return int(line.split()[1])
    return None


# --- time -----------------------------------------------------------------------------


class Yardstick:
    """Times of ``X.T @ q``, gathered before, during and after what is measured."""

    def __init__(self, X: sp.csr_array) -> None:
        self.X = X
        self.q = np.ones(X.shape[0])
        self.samples: list[float] = []

    def sample(self, seconds: float = 0.2, least: int = 5) -> Yardstick:
        """Take samples for `seconds`, at least `least` of them, after one to warm up."""
        _ = self.X.T @ self.q
        until = time.perf_counter() + seconds
        for k in range(2000):
            began = time.perf_counter()
            if k >= least and began > until:
                break
            _ = self.X.T @ self.q
            self.samples.append(time.perf_counter() - began)
        return self

    @property
    def seconds(self) -> float:
        """Median of the samples."""
        return statistics.median(self.samples) if self.samples else math.nan


class Measured:
    """A block of code whose peak memory is measured, with the yardstick before and after it.

    Attributes
    ----------
    yardstick : Yardstick
    held_before, peak : float
        MiB held at the start, and at most until the end.
    """

    def __init__(self, X: sp.csr_array) -> None:
        self.yardstick = Yardstick(X)

    def __enter__(self) -> Measured:
        self.yardstick.sample()
        self.held_before = held_mb()
        reset_peak()
        return self

    def __exit__(self, *_) -> None:
        self.peak = peak_mb()
        self.yardstick.sample()


def timed(call: Callable) -> tuple[object, float, float]:
    """Return the result of a call, and its wall and CPU seconds."""
    wall = time.perf_counter()
    cpu = time.process_time()
    result = call()
    return result, time.perf_counter() - wall, time.process_time() - cpu


class Clock:
    """A callback of `fit` that records the wall and CPU seconds of each iteration.

    Its own time, and that of the yardstick samples it takes, is left out. It ends the
    run after `limit` seconds or `cpu_limit` CPU seconds, or at an objective of at most
    `target`. ``wall[0]`` is the time before the first step: checks of input, the
    building of the problem and the first search for a direction.
    """

    def __init__(
        self,
        *,
        limit: float | None = None,
        cpu_limit: float | None = None,
        target: float = -math.inf,
        yardstick: Yardstick | None = None,
        every: float = 2.0,
    ) -> None:
        self.limit = math.inf if limit is None else limit
        self.cpu_limit = math.inf if cpu_limit is None else cpu_limit
        self.target = target
        self.yardstick = yardstick
        self.every = every
        self.wall: list[float] = []
        self.cpu: list[float] = []
        self.objective: list[float] = []
        self.start()

    def start(self) -> None:
        """Start the clock."""
        self.total = self.total_cpu = 0.0
        self.next_sample = self.every
        self.left = time.perf_counter(), time.process_time()

    def __call__(self, state) -> bool:
        """Record the times; True ends the run."""
        wall = time.perf_counter()
        cpu = time.process_time()
        self.wall.append(wall - self.left[0])
        self.cpu.append(cpu - self.left[1])
        self.objective.append(float(state.objective))
        self.total += self.wall[-1]
        self.total_cpu += self.cpu[-1]
        if self.yardstick is not None and self.total >= self.next_sample:
            self.yardstick.sample(seconds=0.0, least=2)
            self.next_sample = self.total + self.every
        spent = self.total >= self.limit or self.total_cpu >= self.cpu_limit
        self.left = time.perf_counter(), time.process_time()
        return spent or state.objective <= self.target

    @property
    def setup(self) -> float:
        """Seconds before the first step."""
        return self.wall[0]

    def per_iteration(self) -> dict[str, float]:
        """Return mean and median wall and CPU seconds per iteration."""
        wall = np.array(self.wall[1:] or [math.nan])
        cpu = np.array(self.cpu[1:] or [math.nan])
        tail = wall[-max(1, len(wall) // 10) :]
        return {
            "seconds": float(wall.mean()),
            "cpu_seconds": float(cpu.mean()),
            "median": float(np.median(wall)),
            "median_cpu": float(np.median(cpu)),
            "last_tenth": float(tail.mean()),
        }


def time_calls(
    call: Callable,
    make: Callable[[], object] | None = None,
    budget: float = 0.5,
    most: int = 200,
) -> tuple[float, float, int]:
    """Return median wall seconds and mean CPU seconds of a call, and the number of calls.

    `make`, not timed, makes the argument of each call. The first call warms up, unless
    it alone takes longer than the budget.
    """
    walls: list[float] = []
    cpus: list[float] = []
    while True:
        arguments = () if make is None else (make(),)
        _, wall, cpu = timed(lambda arguments=arguments: call(*arguments))
        walls.append(wall)
        cpus.append(cpu)
        if sum(walls) > budget or len(walls) > most:
            break
    if len(walls) > 1:
        del walls[0], cpus[0]
    return statistics.median(walls), statistics.fmean(cpus), len(walls)


# --- records --------------------------------------------------------------------------


def record(
    task: Task,
    problem: Problem | str,
    part: str = "",
    *,
    seconds: float,
    cpu_seconds: float | None = None,
    yardstick: Yardstick | None = None,
    peak: float | None = None,
    model=None,
    **extra,
) -> dict:
    """Return one result, ready to be a JSON line; NaN becomes null."""
    made = not isinstance(problem, str)
    known = yardstick is not None and bool(yardstick.samples)
    unit = yardstick.seconds if known else None
    if made:
        extra = {"size": problem.size, **extra}
    if unit and cpu_seconds is not None:
        extra["cpu_ratio"] = (
            cpu_seconds / unit
        )  # other users of the machine disturb it less
    line = {
        "benchmark": f"{task.benchmark}.{part}" if part else task.benchmark,
        "problem": problem.name if made else problem,
        "threads": task.threads,
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "yardstick_seconds": unit,
        "ratio": seconds / unit if unit else None,
        "peak_mb": peak_mb() if peak is None else peak,
        **_of_model(model),
        **environment(),
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "extra": extra,
    }
    return _plain(line)


def _of_model(model) -> dict:
    """Return the size and the objective of a fitted HDSL."""
    if model is None:
        return dict.fromkeys(("objective", "gap", "n_iter", "n_atoms", "n_features"))
    return {
        "objective": model.objective_,
        "gap": model.gap_,
        "n_iter": model.n_iter_,
        "n_atoms": len(model.weights_),
        "n_features": len(np.unique(model.atoms_[:, :2])),
    }


def _plain(value):
    """Return a value that JSON can hold."""
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(part) for part in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


@cache
def environment() -> dict:
    """Return the commit, the machine and the versions that a result depends on."""
    return {
        "commit": commit(),
        "machine": {"cpu": _cpu_model(), "cores": cores()},
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in LIBRARIES},
    }


def cores() -> int:
    """Return the number of processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@cache
def commit() -> str:
    """Return the short name of the commit, with a "+" where files differ from it."""
    head = _git("rev-parse", "--short", "HEAD")
    if head is None:
        return "unknown"
    return head + (
        "+" if _git("status", "--porcelain", "--", "src", "benchmarks") else ""
    )


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", *arguments],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
            timeout=10,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _cpu_model() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
