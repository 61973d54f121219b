"""Objective and validation error along runs: what the defaults are chosen by."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from hdsl import HDSL
from hdsl.evaluate import knn_error

from . import table
from .fits import ITERATION_MARKS, ORACLES, STEPS, fit, load, warm_up
from .measure import Clock, Measured, record
from .problems import Problem
from .tasks import Record, Task, benchmark

#: CPU seconds at which the path of a run is evaluated.
TIME_MARKS = (1, 3, 10, 30)


@benchmark(
    problems=("dexter", "dorothea", "rcv1_4", "rcv1_2"),
    iterations=3000,
    oracles=ORACLES,
    steps=STEPS,
    limit=30.0,
    threads=(1,),
)
def steps(task: Task) -> Iterator[Record]:
    """Objective and 3-NN validation error against CPU seconds, by oracle and step."""
    warm_up(task.oracles, task.steps)
    problem = load(task)
    plain = _error(None, problem)
    for oracle, step in product(task.oracles, task.steps):
        yield _path(task, problem, oracle, step, plain)


def _path(task: Task, problem: Problem, oracle: str, step: str, plain: float) -> Record:
    with Measured(problem.X) as measured:
        clock = Clock(cpu_limit=task.limit, yardstick=measured.yardstick)
        model = fit(
            problem,
            clock,
            oracle=oracle,
            step=step,
            max_iter=task.iterations,
            n_jobs=task.threads,
            prior=task.prior or 0.0,
            device=task.device or "cpu",
        )
    seconds = np.cumsum(clock.wall)
    cpu = np.cumsum(clock.cpu)
    path = [
        {
            "n_iter": k,
            "seconds": seconds[k],
            "cpu_seconds": cpu[k],
            "objective": model.trace_["objective"][k],
            "n_atoms": model.trace_["n_atoms"][k],
            "n_features": model.trace_["n_features"][k],
            "error": _error(model.at(k), problem),
        }
        for k in _marks(cpu)
    ]
    best = min(point["error"] for point in path)
    return record(
        task,
        problem,
        f"{oracle}-{step}",
        seconds=clock.total,
        cpu_seconds=clock.total_cpu,
        yardstick=measured.yardstick,
        peak=measured.peak,
        model=model,
        path=path,
        dot_error=plain,
        best_error=best,
        scale=model.scale_,
        prior=model.prior_,
        status=model.status_,
        note=f"{model.n_iter_} iterations, 3-NN error {path[-1]['error']:.2%} "
        f"(best {best:.2%}, plain dot product {plain:.2%})",
    )


def _marks(seconds: np.ndarray) -> list[int]:
    """Return the iterations to evaluate: marks, those reached in time, the last."""
    last = len(seconds) - 1
    by_time = np.searchsorted(seconds, TIME_MARKS, side="right") - 1
    marks = {
        0,
        last,
        *(k for k in ITERATION_MARKS if k < last),
        *(k for k in by_time if k > 0),
    }
    return sorted(int(k) for k in marks)


def _error(model: HDSL | None, problem: Problem) -> float:
    valid = (problem.X_valid, problem.y_valid)
    return knn_error(model, problem.X, problem.y, *valid, cosine=False)


def steps_table(records: list[Record]) -> str:
    """Return the table of objective and error at marks of CPU time.

    A dash stands where the limit ended a run before the mark.
    """
    paths = [record for record in records if "path" in record["extra"]]
    headings = [
        "problem",
        "oracle",
        "step",
        *(f"{mark} s" for mark in TIME_MARKS),
        "end",
    ]
    rows = []
    for line in sorted(paths, key=lambda line: line["problem"]):
        oracle, _, step = line["benchmark"].partition(".")[2].partition("-")
        path = line["extra"]["path"]
        last = path[-1]
        end_of_limit = np.inf
        if line["extra"]["status"] == "callback":
            end_of_limit = last["cpu_seconds"]
        cells = []
        for mark in TIME_MARKS:
            if mark <= end_of_limit:
                cells.append(_cell(path, mark))
            else:
                cells.append("-")
        end = f"{_cell(path)} ({last['n_iter']} it., {last['cpu_seconds']:.1f} s)"
        rows.append([line["problem"], oracle, step, *cells, end])
    if not rows:
        return ""
    return table.aligned(rows, headings, ())


def _cell(path: list[dict], mark: float = np.inf) -> str:
    """Return objective and error at the last point of a path before the mark."""
    reached = [point for point in path if point["cpu_seconds"] <= mark]
    if not reached:
        return "-"
    return f"{reached[-1]['objective']:.5f} {100 * reached[-1]['error']:5.2f} %"
