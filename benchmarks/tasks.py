"""Benchmarks by name, and tasks: one run of a benchmark on one problem."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

Value = TypeVar("Value")

#: The modules that register benchmarks when imported.
MODULES = (
    "fits",
    "roads",
    "steps",
    "scaling",
    "neighbors",
    "memory",
    "linking",
    "one_gpu",
    "gpu_search",
)

#: A problem name for benchmarks that make their own.
NO_PROBLEM = "-"


@dataclass(frozen=True)
class Task:
    """One run of one benchmark on one problem; None means the benchmark's own choice."""

    benchmark: str
    problem: str
    threads: int = 1
    iterations: int | None = None
    oracles: tuple[str, ...] | None = None
    steps: tuple[str, ...] | None = None
    limit: float | None = None
    target: float | None = None
    prior: float | None = None
    scale: float | None = None
    device: str | None = None
    batch_size: int | None = None
    rows: tuple[int, ...] | None = None
    toy: bool = False

    def by_size(self, *, full: Value, toy: Value) -> Value:
        """Return the value for a task of this size."""
        if self.toy:
            return toy
        return full


Record = dict
Run = Callable[[Task], Iterator[Record]]
Summary = Callable[[list[Record]], Iterator[Record]]


@dataclass(frozen=True)
class Benchmark:
    """A function from a task to records, and the defaults of its options."""

    name: str
    run: Run
    problems: tuple[str, ...]
    threads: tuple[int | None, ...]  # None is all processors
    defaults: dict
    summary: Summary | None

    @property
    def purpose(self) -> str:
        """First line of the function's docstring."""
        return (self.run.__doc__ or "").strip().splitlines()[0]

    def complete(self, task: Task) -> Task:
        """Return the task with the defaults of the options it does not set."""
        defaults = dict(self.defaults)
        if task.toy and "iterations" in defaults:
            defaults["iterations"] = 6
        missing = [name for name in defaults if getattr(task, name) is None]
        return replace(task, **{name: defaults[name] for name in missing})


_REGISTERED: dict[str, Benchmark] = {}


def benchmark(
    *,
    problems: tuple[str, ...] = (NO_PROBLEM,),
    threads: tuple[int | None, ...] = (None,),
    summary: Summary | None = None,
    **defaults,
) -> Callable[[Run], Run]:
    """Register a function as a benchmark under its own name."""

    def register(run: Run) -> Run:
        name = run.__name__
        _REGISTERED[name] = Benchmark(name, run, problems, threads, defaults, summary)
        return run

    return register


def registered() -> dict[str, Benchmark]:
    """Return all benchmarks by name."""
    for module in MODULES:
        importlib.import_module(f"{__package__}.{module}")
    return _REGISTERED


def run(task: Task) -> Iterator[Record]:
    """Run a task in this process."""
    yield from registered()[task.benchmark].run(task)


def plan(
    names: Iterable[str],
    *,
    problems: tuple[str, ...] | None = None,
    threads: tuple[int, ...] | None = None,
    n_cores: int,
    **options,
) -> list[Task]:
    """Return the tasks of some benchmarks: one for each problem and number of threads."""
    tasks = []
    for name in names:
        known = registered()[name]
        wanted = known.problems
        if problems and known.problems != (NO_PROBLEM,):
            wanted = problems
        counts = threads
        if not counts:
            usual = [count or n_cores for count in known.threads]
            counts = tuple(dict.fromkeys(usual))
        tasks += [
            known.complete(Task(name, problem, count, **options))
            for problem in wanted
            for count in counts
        ]
    return tasks
