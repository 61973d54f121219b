"""The parts of an iteration, timed one by one, through the verbs that every machine has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import cycle

import numpy as np

from hdsl.cpu.layout import CPULayout
from hdsl.cpu.workers import Workers
from hdsl.solver import losses
from hdsl.solver.loop import Options, frank_wolfe
from hdsl.solver.oracle import ORACLES
from hdsl.solver.protocols import Move
from hdsl.solver.steps import RULES

from . import problems
from .fits import load, warm_up
from .measure import Yardstick, record, time_calls, timed
from .tasks import Record, Task, benchmark

#: How many active atoms are scored.
N_ATOMS = 1000


class Scene:
    """A problem in the middle of a run: two models one step apart, and active atoms."""

    def __init__(self, problem, n_iter: int) -> None:
        self.problem = problem
        seen: list = []

        def remember(state) -> None:
            seen.append((state.active.atoms.copy(), state.active.weights.copy()))
            del seen[:-2]

        rng = np.random.default_rng(0)
        options = Options(max_iter=n_iter, tol=0.0)
        frank_wolfe(
            problem, ORACLES["ascent"](), RULES["away"], options, callback=remember, rng=rng
        )
        # Each call sees other margins than the last one, as in a run.
        self._turn = cycle([problem.margins(*model) for model in seen])
        self.model = seen[-1]
        self.atoms = _completed(self.model[0], rng)
        self._atoms = cycle([tuple(int(part) for part in atom) for atom in self.atoms[:50]])
        diagonal = np.asarray(self.gradient().diagonal)
        self.features = np.argsort(-diagonal, kind="stable")[:8].astype(np.int64)

    def margins(self):
        """Return the margins of the two models in turn."""
        return next(self._turn)

    def move(self) -> tuple:
        """Return margins and a step toward an atom."""
        return self.margins(), Move("forward", next(self._atoms), None, 1.0)

    def gradient(self):
        """Return a new gradient."""
        return self.problem.gradient(self.margins())

    def look(self):
        """Return a new gradient whose diagonal is known."""
        gradient = self.gradient()
        _ = gradient.diagonal
        return gradient

    def parts(self, oracles: tuple[str, ...]) -> Iterator[tuple[str, Callable, Callable]]:
        """Yield the name of each part, the call to time, and what makes its argument."""
        problem, rng = self.problem, np.random.default_rng(0)
        yield "margins", lambda _: problem.margins(*self.model), self.margins
        yield "value", problem.value, self.margins
        yield "gradient", problem.gradient, self.margins
        yield "diagonal", lambda gradient: gradient.diagonal, self.gradient
        yield "rows_1", lambda look: look.partners(self.features[:1]), self.look
        yield "rows_8", lambda look: look.partners(self.features), self.look
        yield "scores", lambda look: look.scores(self.atoms), self.look
        yield "step", lambda given: problem.step(*given), self.move
        few = self.atoms[:100]
        yield "curvature", lambda margins: problem.curvature(margins, few), self.margins
        for name in oracles:
            used = ORACLES[name]()  # one that remembers, as in a run
            used(self.look(), rng)
            yield f"oracle_{name}", lambda look, used=used: used(look, rng), self.look


def _completed(atoms: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return active atoms and other pairs of their features, up to N_ATOMS."""
    features = np.unique(atoms[:, :2])
    i, j = (rng.choice(features, size=4 * N_ATOMS) for _ in range(2))
    more = np.column_stack([np.minimum(i, j), np.maximum(i, j), rng.choice([-1, 1], size=len(i))])
    listed = np.concatenate([atoms, more[i != j]]).astype(np.int64)
    _, first = np.unique(listed, axis=0, return_index=True)
    return listed[np.sort(first)][:N_ATOMS]


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

    def line(part: str, wall: float, cpu: float, n_calls: int = 1) -> Record:
        return record(
            task, problem, part, seconds=wall, cpu_seconds=cpu, yardstick=unit, n_calls=n_calls,
            note=f"{n_calls} call{'s' if n_calls > 1 else ''}",
        )  # fmt: skip

    with Workers(task.threads) as workers:
        made, *times = timed(lambda: _make_problem(problem, workers))
        yield line("build", *times)
        for name, call, make in Scene(made, task.iterations).parts(task.oracles):
            times = time_calls(call, make)
            unit.sample(seconds=0.02, least=3)
            yield line(name, *times)


def _make_problem(problem: problems.Problem, workers: Workers):
    layout = CPULayout(problem.X, problem.triplets, workers=workers)
    return layout.problem(losses.get("smoothed_hinge"), problem.scale)
