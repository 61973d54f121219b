"""One GPU beside the CPU of the same machine: the solver's own loop on both layouts."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from hdsl.backends.cpu.layout import CPULayout
from hdsl.backends.cpu.workers import Workers
from hdsl.core import losses
from hdsl.core.oracle import ORACLES
from hdsl.core.solver import Options, Result, frank_wolfe
from hdsl.core.steps import RULES

from . import problems
from .fits import load
from .measure import record
from .tasks import Record, Task, benchmark

#: Iterations on the CPU of what takes it a second each.
FEW = 10

STEP_NAMES = ("i", "j", "sign", "away_i", "away_j", "away_sign", "kind", "drop")


def make_device():
    """Return the card."""
    from hdsl.backends.cuda.runtime import get_device

    return get_device("cuda")


def why_missing() -> str | None:
    """Return why there is no card, or None."""
    from hdsl.backends.cuda.runtime import DeviceError

    try:
        make_device()
    except DeviceError as error:
        return str(error)
    return None


def solve(layout, scale: float, iterations: int) -> tuple[Result, np.ndarray]:
    """Return the result of an ascent with away steps, and the seconds of each iteration."""
    problem = layout.problem(losses.get("smoothed_hinge"), scale)
    times = []
    result = frank_wolfe(
        problem, ORACLES["ascent"](), RULES["away"], Options(max_iter=iterations, tol=0.0),
        rng=np.random.default_rng(0), callback=lambda state: times.append(time.perf_counter()),
    )  # fmt: skip
    return result, np.diff(times)


def same_path(a: Result, b: Result) -> tuple[int, float]:
    """Return for how many iterations two runs agree, and how far their objectives are apart."""
    n = min(len(a.trace), len(b.trace))
    same = np.ones(n, dtype=bool)
    for name in STEP_NAMES:
        same &= a.trace[name][:n] == b.trace[name][:n]
    until = n if same.all() else int(np.argmin(same))
    far = np.abs(a.trace["objective"][:until] / b.trace["objective"][:until] - 1.0)
    return until, float(far.max(initial=0.0))


@benchmark(problems=("rcv1_2", "million"), iterations=300, threads=(None,))
def one_gpu(task: Task) -> Iterator[Record]:
    """Mean and median iteration of ascent with away steps: 1 and all CPU threads, one GPU."""
    from hdsl.backends.cuda.layout import CUDALayout

    problem, device = load(task), make_device()
    solve(_layout(CUDALayout, problems.load("power_law", toy=True), device), 100.0, 4)  # compiles
    is_large = problem.X.shape[0] > 10**5
    counts = (task.threads,) if is_large else (1, task.threads)
    runs = {}
    for count in counts:
        with Workers(count) as workers:
            layout = CPULayout(problem.X, problem.triplets, workers=workers)
            runs[count] = solve(layout, problem.scale, FEW if is_large else task.iterations)
            del layout
    for count, (result, times) in runs.items():
        yield record(
            replace(task, threads=count), problem, "cpu", seconds=float(times.mean()),
            median_iteration=float(np.median(times)), reached=result.objective,
            note=f"median {1e3 * np.median(times):.3f} ms, {len(times)} iterations",
        )  # fmt: skip
    began = time.perf_counter()
    layout = _layout(CUDALayout, problem, device)
    whole = time.perf_counter() - began
    result, times = solve(layout, problem.scale, task.iterations)
    until, far = same_path(result, runs[task.threads][0])
    memory = device.memory()
    digest = hashlib.sha256(result.weights.tobytes()).hexdigest()[:8]
    note = (
        f"median {1e3 * np.median(times):.3f} ms, {len(times)} iterations; set-up {whole:.1f} s, "
        f"{layout.setup_seconds:.2f} s beyond the CPU's; the CPU's path for {until} models, "
        f"objective to {far:.0e}; {memory['used'] / 1e9:.2f} GB in arrays, "
        f"{memory['held'] / 1e9:.2f} GB at most; bits {digest}"
    )
    yield record(
        task, problem, "gpu", seconds=float(times.mean()), note=note,
        median_iteration=float(np.median(times)), device=device.name, memory=memory,
        setup_seconds=layout.setup_seconds, same_until=until, objective_distance=far,
        digest=digest, reached=result.objective,
    )  # fmt: skip


def _layout(kind, problem, device):
    with Workers(None) as workers:
        return kind(problem.X, problem.triplets, device=device, workers=workers)
