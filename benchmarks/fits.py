"""Whole runs: time to an objective, mean iteration, threads, triplets, first use, defaults."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import numpy as np
import scipy.sparse as sp

from hdsl import HDSL
from hdsl.triplets import neighbor_triplets

from . import problems, table
from .measure import (
    Clock,
    Yardstick,
    held_mb,
    peak_mb,
    record,
    reset_peak,
    thread_ceiling,
)
from .problems import Problem
from .tasks import Record, Task, benchmark

#: What the paper's authors reach after 2,000 iterations.
TARGETS = {"dexter": 0.10273}

ORACLES = ("ascent", "heuristic", "exact")
STEPS = ("away", "pairwise", "blended", "forward")

#: Where the path of a run is looked at: after so many iterations, and so many CPU seconds.
ITERATION_MARKS = (10, 30, 100, 300, 1000, 3000)
TIME_MARKS = (1, 3, 10, 30)


def load(task: Task) -> Problem:
    """Return the problem of a task."""
    problem = problems.load(task.problem, toy=task.toy)
    return problem if task.scale is None else replace(problem, scale=task.scale)


def fit(problem: Problem, clock: Clock | None = None, *, prior=0.0, **parameters) -> HDSL:
    """Fit an HDSL as the benchmarks do: the paper's model, a fixed seed, no stop by gap."""
    settings = {"scale": problem.scale, "prior": prior, "tol": 0.0, "random_state": 0}
    model = HDSL(callback=clock, **{**settings, **parameters})
    if clock is not None:
        clock.start()
    model.fit(problem.X, triplets=problem.triplets)
    if model.status_ == "interrupted":  # `fit` keeps what it has; a benchmark must not
        raise KeyboardInterrupt
    return model


@cache
def warm_up(
    oracles: tuple[str, ...] = ("ascent",),
    steps: tuple[str, ...] = ("away",),
    batch_size: int | None = None,
) -> None:
    """Load (or compile) the code that a run will use, on a problem of no size."""
    tiny = problems.load("power_law", toy=True)
    for oracle in oracles:
        for step in steps:
            fit(tiny, oracle=oracle, step=step, batch_size=batch_size, max_iter=4, n_jobs=2)


def warm_up_all() -> None:
    """Compile whatever a benchmark may use."""
    warm_up(ORACLES, STEPS)
    warm_up(("ascent",), ("away",), 50)
    problems.load("rcv1_4", toy=True)  # mines its triplets


# --- time to an objective ------------------------------------------------------------------------


@benchmark(
    problems=("dexter",),
    threads=(1,),
    iterations=3000,
    oracles=("ascent",),
    steps=("away", "pairwise", "blended"),
    limit=20.0,
)
def time_to_objective(task: Task) -> Iterator[Record]:
    """CPU seconds to an objective, whole `fit`: dexter to 0.10273; the median of three seeds."""
    warm_up(task.oracles, task.steps)
    problem = load(task)
    target = _target(task, problem)
    for oracle in task.oracles:
        for step in task.steps:
            yield _race(task, problem, target, oracle, step)


def _target(task: Task, problem: Problem) -> float:
    """Return the target given or known, else what a plain run reaches, and 1 % more."""
    if task.target is not None:
        return task.target
    if problem.name in TARGETS:
        return TARGETS[problem.name]
    return 1.01 * fit(problem, max_iter=min(task.iterations, 200)).objective_


def _race(task: Task, problem: Problem, target: float, oracle: str, step: str) -> Record:
    unit = Yardstick(problem.X).sample()
    reset_peak()
    runs = []
    for seed in range(3):
        clock = Clock(limit=task.limit, target=target)
        model = fit(
            problem, clock, oracle=oracle, step=step, max_iter=task.iterations,
            n_jobs=task.threads, random_state=seed, prior=task.prior or 0.0,
        )  # fmt: skip
        runs.append((clock.objective[-1] <= target, clock.total_cpu, clock.total, model))
    peak = peak_mb()
    unit.sample()
    reached = all(run[0] for run in runs)
    _, cpu, wall, model = sorted(runs, key=lambda run: run[1])[1]
    note = (
        f"{cpu:.3f} CPU s to {target:.5f}, {model.n_iter_} iterations, {len(model.weights_)} atoms"
    )
    if not reached:
        note = f"not reached: {target:.5f} in {task.iterations} iterations or {task.limit:g} s"
    return record(
        task, problem, f"{oracle}-{step}", seconds=wall if reached else np.nan,
        cpu_seconds=cpu if reached else np.nan, yardstick=unit, peak=peak, model=model,
        target=target, reached=reached, cpu_of_seeds=[run[1] for run in runs],
        iterations_of_seeds=[run[3].n_iter_ for run in runs], note=note,
    )  # fmt: skip


# --- the mean iteration --------------------------------------------------------------------------


@benchmark(
    problems=("dexter", "rcv1_4", "rcv1_binary", "dorothea"),
    threads=(1, None),
    iterations=1000,
    oracles=("ascent",),
    steps=("away",),
)
def mean_iteration(task: Task) -> Iterator[Record]:
    """Mean seconds of an iteration over the first 1,000, all triplets at each."""
    warm_up(task.oracles, task.steps)
    yield from _mean_iterations(task, None)


@benchmark(
    problems=("rcv1_binary",),
    iterations=1000,
    oracles=("ascent",),
    steps=("away",),
    threads=(None,),
)
def minibatch(task: Task) -> Iterator[Record]:
    """Mean seconds of an iteration with directions chosen by 10,000 triplets."""
    batch_size = 100 if task.toy else 10_000
    warm_up(task.oracles, task.steps, 50)
    yield from _mean_iterations(task, batch_size)


def _mean_iterations(task: Task, batch_size: int | None) -> Iterator[Record]:
    problem = load(task)
    for oracle in task.oracles:
        for step in task.steps:
            yield timed_fit(
                task, problem, f"{oracle}-{step}", oracle=oracle, step=step, batch_size=batch_size
            )


def timed_fit(
    task: Task, problem: Problem, part: str = "", *, sampled: bool = True, **parameters
) -> Record:
    """Fit, and record the mean iteration; peak memory is that of the fit, X and triplets held."""
    unit = Yardstick(problem.X).sample()
    before = held_mb()
    reset_peak()
    clock = Clock(limit=task.limit, yardstick=unit if sampled else None)
    model = fit(
        problem, clock, max_iter=task.iterations, n_jobs=task.threads, prior=task.prior or 0.0,
        **parameters,
    )  # fmt: skip
    peak = peak_mb()
    unit.sample()
    times = clock.per_iteration()
    return record(
        task, problem, part, seconds=times["seconds"], cpu_seconds=times["cpu_seconds"],
        yardstick=unit, peak=peak, model=model, setup_seconds=clock.setup,
        median_iteration=times["median"], median_cpu=times["median_cpu"],
        last_tenth=times["last_tenth"], held_before_mb=before, status=model.status_,
        scale=problem.scale,
    )  # fmt: skip


@benchmark(problems=("rcv1_binary",), iterations=1000, threads=(None,))
def threads(task: Task) -> Iterator[Record]:
    """One thread against all on the same run, and whether the results are the same bits."""
    warm_up()
    problem = load(task)
    unit = Yardstick(problem.X).sample()
    clocks, models = [], []
    for count in (1, task.threads):
        clocks.append(Clock(limit=task.limit, yardstick=unit))
        models.append(fit(problem, clocks[-1], max_iter=task.iterations, n_jobs=count))
    unit.sample()
    ceiling = thread_ceiling(task.threads, toy=task.toy)
    n = min(len(clock.wall) for clock in clocks)
    one, many = (np.array(clock.wall[1:n]) for clock in clocks)
    speedup = float(one.sum() / many.sum())
    same = n == len(clocks[0].wall) == len(clocks[1].wall) and _same_bits(*models)
    for count, clock, model in zip((1, task.threads), clocks, models, strict=True):
        times = clock.per_iteration()
        note = (
            f"{speedup:.2f} x faster (arithmetic that needs no memory: {ceiling:.2f} x), "
            f"{'same bits' if same else 'OTHER BITS'}"
        )
        yield record(
            task, problem, seconds=times["seconds"], cpu_seconds=times["cpu_seconds"],
            yardstick=unit, model=model, threads=count, speedup=speedup,
            median_speedup=float(np.median(one / many)), same_bits=same, ceiling=ceiling,
            note="" if count == 1 else note,
        )  # fmt: skip


def _same_bits(a: HDSL, b: HDSL) -> bool:
    return np.array_equal(a.atoms_, b.atoms_) and a.weights_.tobytes() == b.weights_.tobytes()


# --- triplets ------------------------------------------------------------------------------------


@benchmark(problems=("rcv1_binary",), threads=(1, None))
def mining(task: Task) -> Iterator[Record]:
    """Making 3 x 5 neighbour triplets: seconds, and memory against that of an n x n matrix."""
    problem = load(task)
    neighbor_triplets(problem.X[:60], np.arange(60) % 2, 3, 5, n_jobs=2)
    unit = Yardstick(problem.X).sample()
    before = held_mb()
    reset_peak()
    wall, cpu = time.perf_counter(), time.process_time()
    made = neighbor_triplets(problem.X, problem.y, 3, 5, n_jobs=task.threads)
    wall, cpu, peak = time.perf_counter() - wall, time.process_time() - cpu, peak_mb()
    unit.sample()
    square = 8 * problem.X.shape[0] ** 2 / 2**20
    more = None if before is None else peak - before
    note = f"{len(made)} triplets, {cpu:.2f} CPU s, n² doubles are {square:.0f} MiB"
    if more is not None:
        note += f", {more:.0f} MiB were added"
    yield record(
        task, problem, seconds=wall, cpu_seconds=cpu, yardstick=unit, peak=peak, added_mb=more,
        square_mb=square, n_made=len(made), note=note,
    )  # fmt: skip


# --- first use -----------------------------------------------------------------------------------

IMPORT = """
import json, sys, time
began, cpu = time.perf_counter(), time.process_time()
{statement}
seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
print(json.dumps({{"seconds": seconds, "cpu": cpu, "numba": "numba" in sys.modules}}))
"""

FIRST_FIT = """
import json, time
import numpy as np
from hdsl import HDSL
rng = np.random.default_rng(0)
X = rng.random((200, 300)) * (rng.random((200, 300)) < 0.05)
def clocks():
    return time.perf_counter(), time.process_time()
reached = []
began = clocks()
HDSL(max_iter=3, callback=lambda state: reached.append(clocks()), random_state=0).fit(
    X, np.arange(200) % 2)
reached = reached[0], clocks()
before, whole = ([now - then for now, then in zip(at, began)] for at in reached)
print(json.dumps({"before": before, "whole": whole}))
"""


@benchmark(threads=(1,))
def first_use(task: Task) -> Iterator[Record]:
    """Import and first fit in new processes: empty cache of compiled code, then a warm one."""
    yield from _imports(task)
    with tempfile.TemporaryDirectory() as folder:
        place = {} if task.toy else {"NUMBA_CACHE_DIR": folder}  # a toy compiles nothing
        cold = _probe(FIRST_FIT, **place)
        warm = [_probe(FIRST_FIT, **place) for _ in range(1 if task.toy else 3)]
    warm = sorted(warm, key=lambda probe: probe["before"])[len(warm) // 2]
    compiled = cold["whole"][0] - warm["whole"][0]
    notes = {
        "cold_fit": f"whole fit in an empty cache, compiled for {compiled:.1f} s",
        "warm_fit": f"before the first iteration of a new process, {warm['before'][1]:.2f} CPU s",
    }
    for part, probe, (wall, cpu) in (
        ("cold_fit", cold, cold["whole"]),
        ("warm_fit", warm, warm["before"]),
    ):
        yield record(
            task, task.problem, part, seconds=wall, cpu_seconds=cpu, peak=np.nan,
            before_first_iteration=probe["before"][0], whole_fit=probe["whole"][0],
            note=notes[part],
        )  # fmt: skip


def _imports(task: Task) -> Iterator[Record]:
    statements = {
        "import_sklearn": "from sklearn.neighbors import KNeighborsClassifier",
        "import_hdsl": "import hdsl",
    }
    taken = {name: [] for name in statements}
    for _ in range(1 if task.toy else 5):
        for name, statement in statements.items():
            taken[name].append(_probe(IMPORT.format(statement=statement)))
    seconds, cpu = (
        {name: statistics.median(probe[key] for probe in taken[name]) for name in statements}
        for key in ("seconds", "cpu")
    )
    more, more_cpu = (each["import_hdsl"] - each["import_sklearn"] for each in (seconds, cpu))
    numba = taken["import_hdsl"][0]["numba"]
    notes = {
        "import_sklearn": statements["import_sklearn"],
        "import_hdsl": f"{more:+.2f} s against it ({more_cpu:+.2f} CPU s), "
        f"numba {'IMPORTED' if numba else 'not imported'}",
    }
    for name in statements:
        yield record(
            task, task.problem, name, seconds=seconds[name], cpu_seconds=cpu[name], peak=np.nan,
            note=notes[name], numba_imported=taken[name][0]["numba"],
        )  # fmt: skip


def _probe(code: str, **variables: str) -> dict:
    """Run a few lines in a new process and return what they print."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **variables},
        cwd=problems.ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"A process of first_use failed:\n{done.stderr}")
    return json.loads(done.stdout)


# --- what the defaults are chosen by -------------------------------------------------------------


@benchmark(
    problems=("dexter", "dorothea", "rcv1_4", "rcv1_binary"),
    iterations=3000,
    oracles=ORACLES,
    steps=STEPS,
    limit=30.0,
    threads=(1,),
)
def steps(task: Task) -> Iterator[Record]:
    """Objective and 3-NN validation error against CPU seconds, for every oracle and step."""
    warm_up(task.oracles, task.steps)
    problem = load(task)
    plain = knn_error(problem.X, problem.y, problem.X_valid, problem.y_valid)
    for oracle in task.oracles:
        for step in task.steps:
            yield _path(task, problem, oracle, step, plain)


def _path(task: Task, problem: Problem, oracle: str, step: str, plain: float) -> Record:
    unit = Yardstick(problem.X).sample()
    reset_peak()
    clock = Clock(cpu_limit=task.limit, yardstick=unit)
    model = fit(
        problem, clock, oracle=oracle, step=step, max_iter=task.iterations, n_jobs=task.threads,
        prior=0.0 if task.prior is None else task.prior,
    )  # fmt: skip
    peak = peak_mb()
    seconds, cpu = np.cumsum(clock.wall), np.cumsum(clock.cpu)
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
        task, problem, f"{oracle}-{step}", seconds=clock.total, cpu_seconds=clock.total_cpu,
        yardstick=unit, peak=peak, model=model, path=path, dot_error=plain, best_error=best,
        scale=model.scale_, prior=model.prior_, status=model.status_,
        note=f"{model.n_iter_} iterations, 3-NN error {path[-1]['error']:.2%} (best {best:.2%}, "
        f"plain dot product {plain:.2%})",
    )  # fmt: skip


def _marks(seconds: np.ndarray) -> list[int]:
    """Return the iterations to look at: those of the marks, those reached in time, the last."""
    last = len(seconds) - 1
    by_time = np.searchsorted(seconds, TIME_MARKS, side="right") - 1
    marks = {0, last, *(k for k in ITERATION_MARKS if k < last), *(k for k in by_time if k > 0)}
    return sorted(int(k) for k in marks)


def _error(model: HDSL, problem: Problem) -> float:
    Z, Z_valid = (sp.csr_array(model.transform(X)) for X in (problem.X, problem.X_valid))
    return knn_error(Z, problem.y, Z_valid, problem.y_valid)


def knn_error(
    X: sp.csr_array, y: np.ndarray, X_valid: sp.csr_array, y_valid: np.ndarray, block: int = 500
) -> float:
    """Return the share of wrong answers of plain 3-NN by inner product, rows as they are.

    The first of equal rows is the nearer one; of three different labels the nearest row's wins.
    """
    columns = sp.csr_array(X.T)
    wrong = 0
    for start in range(0, X_valid.shape[0], block):
        S = (X_valid[start : start + block] @ columns).toarray()
        rows = np.arange(len(S))
        votes = np.empty((3, len(S)), dtype=y.dtype)
        for k in range(3):
            nearest = S.argmax(axis=1)
            votes[k] = y[nearest]
            S[rows, nearest] = -np.inf
        answer = np.where(votes[1] == votes[2], votes[1], votes[0])
        wrong += int((answer != y_valid[start : start + block]).sum())
    return wrong / X_valid.shape[0]


def steps_table(records: list[Record]) -> str:
    """Return the table that defaults are chosen by: objective and error at marks of CPU time.

    A dash stands where a run was ended before the mark, by its limit.
    """
    paths = [record for record in records if "path" in record["extra"]]
    headings = ["problem", "oracle", "step", *(f"{mark} s" for mark in TIME_MARKS), "end"]
    rows = []
    for line in sorted(paths, key=lambda line: line["problem"]):
        oracle, _, step = line["benchmark"].partition(".")[2].partition("-")
        path, cut = line["extra"]["path"], line["extra"]["status"] == "callback"
        cells = [
            "-" if cut and path[-1]["cpu_seconds"] < mark else _cell(path, mark)
            for mark in TIME_MARKS
        ]
        end = f"{_cell(path)} ({path[-1]['n_iter']} it., {path[-1]['cpu_seconds']:.1f} s)"
        rows.append([line["problem"], oracle, step, *cells, end])
    return table.aligned(rows, headings, ()) if rows else ""


def _cell(path: list[dict], mark: float = np.inf) -> str:
    """Return objective and error at the last point of a path that was reached in time."""
    reached = [point for point in path if point["cpu_seconds"] <= mark]
    if not reached:
        return "-"
    return f"{reached[-1]['objective']:.5f} {100 * reached[-1]['error']:5.2f} %"
