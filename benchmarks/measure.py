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
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from .problems import ROOT, Problem
from .tasks import Task

STATUS = Path("/proc/self/status")
LIBRARIES = ("hdsl", "numpy", "scipy", "numba", "scikit-learn")


# --- memory ---------------------------------------------------------------------------


def peak_mb() -> float:
    """Return the peak of this process's memory in MiB, since its start or a reset.

    On Linux, this is the high-water mark of this process alone: ``ru_maxrss`` of a
    child starts from the memory of its parent.
    """
    if (peak := _status("VmHWM")) is not None:
        return peak / 1024
    import resource  # not everywhere

    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def held_mb() -> float | None:
    """Return the memory that this process has now in MiB, None if it is not known."""
    kibibytes = _status("VmRSS")
    if kibibytes is None:
        return None
    return kibibytes / 1024


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
        end = time.perf_counter() + seconds
        for k in range(2000):
            start = time.perf_counter()
            if k >= least and start > end:
                break
            _ = self.X.T @ self.q
            self.samples.append(time.perf_counter() - start)
        return self

    @property
    def seconds(self) -> float:
        """Median of the samples."""
        if not self.samples:
            return math.nan
        return statistics.median(self.samples)


class Measured:
    """A block of code whose peak memory is measured, with yardsticks around it.

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


class Moment(NamedTuple):
    """A time by the clock of the wall and by that of this process, in seconds."""

    wall: float
    cpu: float

    @classmethod
    def now(cls) -> Moment:
        """Return the present moment."""
        return cls(time.perf_counter(), time.process_time())


def _or_infinite(limit: float | None) -> float:
    """Return a limit; infinity for None."""
    if limit is None:
        return math.inf
    return limit


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
        self.limit = _or_infinite(limit)
        self.cpu_limit = _or_infinite(cpu_limit)
        self.target = target
        self.yardstick = yardstick
        self.every = every
        self.wall: list[float] = []
        self.cpu: list[float] = []
        self.objective: list[float] = []
        self.start()

    def start(self) -> None:
        """Start the clock."""
        self.total = 0.0
        self.total_cpu = 0.0
        self.next_sample = self.every
        self._left_at = Moment.now()

    def __call__(self, state) -> bool:
        """Record the times; True ends the run."""
        now = Moment.now()
        self.wall.append(now.wall - self._left_at.wall)
        self.cpu.append(now.cpu - self._left_at.cpu)
        self.objective.append(float(state.objective))
        self.total += self.wall[-1]
        self.total_cpu += self.cpu[-1]
        if self.yardstick is not None and self.total >= self.next_sample:
            self.yardstick.sample(seconds=0.0, least=2)
            self.next_sample = self.total + self.every
        is_late = self.total >= self.limit or self.total_cpu >= self.cpu_limit
        self._left_at = Moment.now()
        return is_late or state.objective <= self.target

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
    max_calls: int = 200,
) -> tuple[float, float, int]:
    """Return median wall seconds and mean CPU seconds of a call, and how many there were.

    `make`, not timed, makes the argument of each call. The first call warms up, unless
    it alone takes longer than the budget.
    """
    walls: list[float] = []
    cpus: list[float] = []
    while True:
        prepared = call
        if make is not None:
            prepared = partial(call, make())
        _, wall, cpu = timed(prepared)
        walls.append(wall)
        cpus.append(cpu)
        if sum(walls) > budget or len(walls) > max_calls:
            break
    if len(walls) > 1:
        del walls[0], cpus[0]
    return statistics.median(walls), statistics.fmean(cpus), len(walls)


# --- records --------------------------------------------------------------------------


def record(
    task: Task,
    problem: Problem | str,
    variant: str = "",
    *,
    seconds: float,
    cpu_seconds: float | None = None,
    yardstick: Yardstick | None = None,
    peak: float | None = None,
    model=None,
    **extra,
) -> dict:
    """Return one result, ready to be a JSON line; NaN becomes null."""
    name = task.benchmark
    if variant:
        name = f"{task.benchmark}.{variant}"
    problem_name = problem
    if isinstance(problem, Problem):
        problem_name = problem.name
        extra = {"size": problem.size, **extra}
    unit = None
    ratio = None
    if yardstick is not None and yardstick.samples:
        unit = yardstick.seconds
        ratio = seconds / unit
        if cpu_seconds is not None:
            # Other users of the machine disturb it less.
            extra["cpu_ratio"] = cpu_seconds / unit
    if peak is None:
        peak = peak_mb()
    line = {
        "benchmark": name,
        "problem": problem_name,
        "threads": task.threads,
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "yardstick_seconds": unit,
        "ratio": ratio,
        "peak_mb": peak,
        **_of_model(model),
        **environment(),
        "load": _load(),
        "extra": extra,
    }
    return _plain(line)


def _load() -> float | None:
    """Return the load of the machine over the last minute, where it is known."""
    if not hasattr(os, "getloadavg"):
        return None
    last_minute, _, _ = os.getloadavg()
    return last_minute


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
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(item) for item in value]
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
    if _git("status", "--porcelain", "--", "src", "benchmarks"):
        return f"{head}+"
    return head


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
