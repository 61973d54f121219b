"""The parts of an iteration, timed one by one, and the rows that the exact oracle evaluates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import cycle
from unittest import mock

import numpy as np

from hdsl.cpu.layout import CPULayout
from hdsl.cpu.problem import CPUProblem
from hdsl.cpu.workers import Workers
from hdsl.solver import losses
from hdsl.solver.loop import Options, frank_wolfe
from hdsl.solver.oracle import ORACLES, Exact
from hdsl.solver.steps import RULES

from . import problems
from .fits import ITERATION_MARKS, fit, load, warm_up
from .measure import Clock, Measured, Yardstick, record, time_calls, timed
from .tasks import Record, Task, benchmark

#: How many active atoms are scored.
N_ATOMS = 1000


@dataclass
class Scene:
    """A problem in the middle of a run: two models one step apart, and active atoms."""

    problem: CPUProblem
    margins: list[np.ndarray]
    atoms: np.ndarray

    def __post_init__(self) -> None:
        # Each call sees other margins than the last one, as in a run.
        self._turn = cycle(self.margins)
        diagonal = self.problem.gradient(self.margins[0]).diagonal
        self.features = np.argsort(-diagonal, kind="stable")[:8].astype(np.int64)
        self.active = cycle([tuple(int(part) for part in atom) for atom in self.atoms[:50]])

    def next_margins(self) -> np.ndarray:
        """Return the margins of the two models in turn."""
        return next(self._turn)

    def gradient(self):
        """Return a new gradient."""
        return self.problem.gradient(self.next_margins())

    def look(self):
        """Return a new gradient whose diagonal is known."""
        gradient = self.gradient()
        _ = gradient.diagonal
        return gradient


@benchmark(
    problems=("dexter", "rcv1_4", "rcv1_2", "dorothea"),
    threads=(1, None),
    iterations=200,
    oracles=("exact", "ascent"),
)
def kernels(task: Task) -> Iterator[Record]:
    """Each part of an iteration by itself, after a warm-up."""
    warm_up(oracles=task.oracles)
    problem = load(task)
    unit = Yardstick(problem.X).sample()
    rng = np.random.default_rng(0)
    with Workers(task.threads) as workers:
        made, *times = timed(lambda: _make_problem(problem, workers))
        yield _line(task, problem, unit, "build", *times)
        # The first gradient and oracle also make what later ones reuse.
        start = np.zeros(made.n_comparisons)
        _, *times = timed(lambda: ORACLES["ascent"]()(made.gradient(start), rng))
        yield _line(task, problem, unit, "first_look", *times)
        scene = _scene(made, task.iterations)
        for name, call, make in _parts(scene, task.oracles, rng):
            times = time_calls(call, make)
            unit.sample(seconds=0.02, least=3)
            yield _line(task, problem, unit, name, *times)


def _line(
    task: Task,
    problem: problems.Problem,
    unit: Yardstick,
    part: str,
    wall: float,
    cpu: float,
    n_calls: int = 1,
) -> Record:
    note = f"{n_calls} call{'s' if n_calls > 1 else ''}"
    return record(
        task, problem, part, seconds=wall, cpu_seconds=cpu, yardstick=unit, n_calls=n_calls,
        note=note,
    )  # fmt: skip


def _make_problem(problem: problems.Problem, workers: Workers) -> CPUProblem:
    layout = CPULayout(problem.X, problem.triplets, workers=workers)
    return layout.problem(losses.get("smoothed_hinge"), problem.scale)


def _scene(made: CPUProblem, n_iter: int) -> Scene:
    """Run some iterations; add other pairs of the active features, up to N_ATOMS atoms."""
    seen: list[np.ndarray] = []
    atoms: list[np.ndarray] = []

    def remember(state) -> None:
        seen.append(state.margins.copy())
        del seen[:-2]
        atoms[:] = [state.active.atoms.copy()]

    rng = np.random.default_rng(0)
    options = Options(max_iter=n_iter, tol=0.0)
    frank_wolfe(made, ORACLES["ascent"](), RULES["away"], options, callback=remember, rng=rng)
    return Scene(made, seen, _completed(atoms[0], rng))


def _completed(atoms: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    features = np.unique(atoms[:, :2])
    i, j = (rng.choice(features, size=4 * N_ATOMS) for _ in range(2))
    more = np.column_stack([np.minimum(i, j), np.maximum(i, j), rng.choice([-1, 1], size=len(i))])
    listed = np.concatenate([atoms, more[i != j]]).astype(np.int64)
    _, first = np.unique(listed, axis=0, return_index=True)
    return listed[np.sort(first)][:N_ATOMS]


def _parts(
    scene: Scene, oracles: tuple[str, ...], rng: np.random.Generator
) -> Iterator[tuple[str, Callable, Callable | None]]:
    """Yield the name of each part, the call to time, and what makes its argument."""
    made = scene.problem
    direction = made.margins(scene.atoms[:1], np.ones(1)) - scene.margins[0]
    yield "gradient", made.gradient, scene.next_margins
    yield "diagonal", lambda gradient: gradient.diagonal, scene.gradient
    yield "rows_1", lambda look: look.partners(scene.features[:1]), scene.look
    yield "rows_8", lambda look: look.partners(scene.features), scene.look
    yield "scores", lambda look: look.scores(scene.atoms), scene.look
    yield "atom_margins", lambda atom: made.margins([atom], np.ones(1)), lambda: next(scene.active)
    yield (
        "slope_along",
        lambda margins: made.slopes(margins, direction, [0.01]),
        scene.next_margins,
    )
    yield "value", made.value, scene.next_margins
    for name in oracles:
        # One that remembers, as in a run, and a new one at each call.
        used, new = ORACLES[name](), ORACLES[name]
        used(scene.look(), rng)
        yield f"oracle_{name}", lambda look, used=used: used(look, rng), scene.look
        yield f"oracle_{name}_new", lambda look, new=new: new()(look, rng), scene.look


# --- the exact oracle ----------------------------------------------------------------------------


@benchmark(
    problems=("dexter", "rcv1_4", "rcv1_2", "dorothea"),
    iterations=1000,
    steps=("away",),
    limit=120.0,
    threads=(None,),
)
def exact_rows(task: Task) -> Iterator[Record]:
    """Rows of S that the exact oracle evaluates along a run, of all there are."""
    warm_up(("exact",), task.steps)
    problem = load(task)
    for step in task.steps:
        yield _count_rows(task, problem, step)


def _count_rows(task: Task, problem: problems.Problem, step: str) -> Record:
    with Measured(problem.X) as measured:
        counted = _CountedRows(Clock(limit=task.limit, yardstick=measured.yardstick))
        with mock.patch.dict(ORACLES, exact=counted.oracle):
            model = fit(
                problem, counted, oracle="exact", step=step, max_iter=task.iterations,
                n_jobs=task.threads,
            )  # fmt: skip
    times = counted.clock.per_iteration()
    n_live = len(np.unique(problem.X.indices))
    per_call = counted.n_rows / max(1, counted.n_calls)
    return record(
        task, problem, step, seconds=times["seconds"], cpu_seconds=times["cpu_seconds"],
        yardstick=measured.yardstick, peak=measured.peak, model=model, n_calls=counted.n_calls,
        n_rows=counted.n_rows, n_live=n_live, rows_by_iteration=counted.path(),
        note=f"{per_call:.0f} of {n_live} rows per call ({per_call / n_live:.1%}), "
        f"{counted.n_calls} calls, {model.n_iter_} iterations",
    )  # fmt: skip


class _CountedRows:
    """A callback that records the number of rows evaluated so far."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.made = clock, []
        self.seen: list[int] = []

    def oracle(self) -> Exact:
        """Make the oracle of the run and remember it."""
        self.made.append(Exact())
        return self.made[-1]

    def start(self) -> None:
        self.clock.start()

    def __call__(self, state) -> bool:
        self.seen.append(self.n_rows)
        return self.clock(state)

    @property
    def n_rows(self) -> int:
        return sum(made.n_rows for made in self.made)

    @property
    def n_calls(self) -> int:
        return sum(made.n_calls for made in self.made)

    def path(self) -> dict[str, int]:
        """Return the number of rows evaluated up to some iterations."""
        marks = (0, *ITERATION_MARKS, len(self.seen) - 1)
        return {str(k): self.seen[k] for k in sorted(set(marks)) if k < len(self.seen)}
