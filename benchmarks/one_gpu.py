"""One GPU beside the CPU of the same machine: the solver's own loop on both layouts."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from hdsl.cpu.layout import CPULayout
from hdsl.cpu.workers import Workers
from hdsl.solver import losses
from hdsl.solver.loop import Options, Result, frank_wolfe
from hdsl.solver.oracle import ORACLES
from hdsl.solver.steps import RULES

from . import problems
from .fits import load
from .measure import record
from .tasks import Record, Task, benchmark

#: Iterations on the CPU of what takes it a second each.
FEW = 10

STEP_NAMES = ("i", "j", "sign", "away_i", "away_j", "away_sign", "kind", "drop")


def make_device():
    """Return the card."""
    from hdsl.cuda.runtime import get_device

    return get_device("cuda")


def why_missing() -> str | None:
    """Return why there is no card, or None."""
    from hdsl.cuda.runtime import DeviceError

    try:
        make_device()
    except DeviceError as error:
        return str(error)
    return None


def solve(
    layout,
    scale: float,
    iterations: int,
    oracle: str = "ascent",
    batch_size: int | None = None,
    rule: str = "away",
) -> tuple[Result, np.ndarray]:
    """Return the result of a run, and the seconds of each iteration."""
    problem = layout.problem(losses.get("smoothed_hinge"), scale)
    times = []
    options = Options(max_iter=iterations, tol=0.0, batch_size=batch_size)
    result = frank_wolfe(
        problem,
        ORACLES[oracle](),
        RULES[rule],
        options,
        rng=np.random.default_rng(0),
        callback=lambda state: times.append(time.perf_counter()),
    )
    return result, np.diff(times)


def same_path(a: Result, b: Result) -> tuple[int, float]:
    """Return for how many iterations two runs agree, and how far objectives differ."""
    n = min(len(a.trace), len(b.trace))
    same = np.ones(n, dtype=bool)
    for name in STEP_NAMES:
        same &= a.trace[name][:n] == b.trace[name][:n]
    n_same = n
    if not same.all():
        n_same = int(np.argmin(same))
    ratios = a.trace["objective"][:n_same] / b.trace["objective"][:n_same]
    return n_same, float(np.abs(ratios - 1.0).max(initial=0.0))


@benchmark(
    problems=("rcv1_2", "million"),
    iterations=300,
    threads=(None,),
    oracles=("ascent",),
)
def one_gpu(task: Task) -> Iterator[Record]:
    """Mean and median iteration with away steps: 1 and all CPU threads, one GPU."""
    problem = load(task)
    device = make_device()
    toy = problems.load("power_law", toy=True)
    for oracle in task.oracles:
        run = {"oracle": oracle, "batch_size": task.batch_size}
        solve(_on_card(toy, device), 100.0, 4, **run)  # compiles
        yield from _compared(task, problem, device, run)


def _compared(task: Task, problem, device, run: dict) -> Iterator[Record]:
    """Yield the records of the CPU and of the GPU."""
    suffix = ""
    if run["oracle"] != "ascent":
        suffix = f"-{run['oracle']}"
    counts = (1, task.threads)
    n_iterations = task.iterations
    if problem.X.shape[0] > 10**5:
        counts = (task.threads,)
        n_iterations = FEW
    runs = {}
    for count in counts:
        with Workers(count) as workers:
            layout = CPULayout(problem.X, problem.triplets, workers=workers)
            runs[count] = solve(layout, problem.scale, n_iterations, **run)
            del layout
    for count, (result, times) in runs.items():
        yield record(
            replace(task, threads=count),
            problem,
            f"cpu{suffix}",
            seconds=float(times.mean()),
            median_iteration=float(np.median(times)),
            reached=result.objective,
            note=f"median {1e3 * np.median(times):.3f} ms, {len(times)} iterations",
        )
    start = time.perf_counter()
    layout = _on_card(problem, device)
    setup = time.perf_counter() - start
    result, times = solve(layout, problem.scale, task.iterations, **run)
    expected, _ = runs[task.threads]
    n_same, distance = same_path(result, expected)
    memory = device.memory()
    digest = hashlib.sha256(result.weights.tobytes()).hexdigest()[:8]
    note = (
        f"median {1e3 * np.median(times):.3f} ms, {len(times)} iterations; set-up "
        f"{setup:.1f} s; the CPU's path for {n_same} models, objective to "
        f"{distance:.0e}; "
        f"{memory['used'] / 1e9:.2f} GB in arrays, {memory['held'] / 1e9:.2f} GB at "
        f"most; bits {digest}"
    )
    if task.batch_size:
        note += f"; batches of {task.batch_size}"
    yield record(
        task,
        problem,
        f"gpu{suffix}",
        seconds=float(times.mean()),
        note=note,
        median_iteration=float(np.median(times)),
        device=device.name,
        memory=memory,
        setup_seconds=setup,
        same_until=n_same,
        objective_distance=distance,
        digest=digest,
        reached=result.objective,
        batch_size=task.batch_size,
    )


def _on_card(problem, device):
    from hdsl.cuda.layout import CUDALayout

    return CUDALayout(problem.X, problem.triplets, device=device)
