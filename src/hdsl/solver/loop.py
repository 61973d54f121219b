"""The Frank-Wolfe loop.

What is fixed (problem, oracle, rule, options) and what moves (the state) are separate. One loop
serves all rules, losses, oracles and machines; it neither prints nor scores models. It calls
``callback(state)``, and True means stop.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .active_set import ActiveSet
from .atoms import NOTHING, ZERO, Atom, check_atoms
from .oracle import Exact
from .protocols import Correction, Gradient, Margins, Move, Oracle, Problem, StepRule, StepSize
from .run import EXACT_CHECK_LIMIT, Iterate, Run, RunResult, RunState
from .snapshot import (
    Arrays,
    SnapshotError,
    Snapshots,
    check_arrays,
    generator_state,
    nested,
    outside_parts,
    part_of,
    set_generator_state,
)
from .steps import StepContext, best_size
from .trace import CORRECTION_DTYPE, STEP_FIELDS, TRACE_DTYPE, check_corrections, check_trace

#: A warning says so when rounding moves the objective by this share of it.
VISIBLE_DRIFT = 1e-6

Callback = Callable[["State"], bool | None]


@dataclass(frozen=True)
class Options:
    """How a run goes.

    Parameters
    ----------
    step_size : callable, default=best_size
        From the iteration to the step size, or to None for a line search.
    init : {"oracle", "zero", "random"}, default="oracle"
        "zero": the domain has M = 0, and the path starts there. The others are the paper's domain,
        without 0: start from the atom that the oracle picks at M = 0, or from a random one.
    batch_size : int or None, default=None
        Comparisons that directions are chosen by, drawn anew in each iteration; None is all.
    max_iter : int, default=1000
        Most iterations, those of an earlier run included.
    tol : float, default=1e-3
        Stop when the gap is at most this.
    """

    step_size: StepSize = best_size
    init: str = "oracle"
    batch_size: int | None = None
    max_iter: int = 1000
    tol: float = 1e-3


@dataclass(frozen=True)
class Result(RunResult):
    """What a run learned, and how it went, in the feature numbers of the user's X."""

    atoms: np.ndarray
    weights: np.ndarray


def stored_result(
    atoms: np.ndarray,
    weights: np.ndarray,
    trace: np.ndarray,
    corrections: np.ndarray,
    n_iter: int,
    n_features: int,
) -> Result:
    """Return the result of a run from what a file has of it, for another run to continue.

    Raise ValueError where the arrays are not those of a run.
    """
    check_atoms(atoms, weights, n_features)
    check_trace(trace, n_iter, n_features)
    if trace.dtype != TRACE_DTYPE or len(trace) != n_iter + 1:
        raise ValueError("the trace is not that of a run.")
    check_corrections(corrections, len(trace), n_features)
    return Result(
        atoms,
        weights,
        objective=np.nan,
        gap=np.nan,
        gap_is_exact=False,
        n_iter=n_iter,
        status="max_iter",
        trace=trace,
        corrections=corrections,
    )


@dataclass
class State(RunState):
    """Everything that moves. Callbacks read it and do not change it."""

    gap_estimate: float = np.inf  # of lazy blended steps

    @property
    def active(self) -> ActiveSet:
        """The model, in the problem's feature numbers."""
        return self.iterate.models[0]

    @property
    def atoms(self) -> np.ndarray:
        """Active atoms, shape (n_atoms, 3), in the user's feature numbers."""
        return self.problem.to_user(self.active.atoms)

    @property
    def weights(self) -> np.ndarray:
        """Weights of the active atoms."""
        return self.active.weights


def frank_wolfe(
    problem: Problem,
    oracle: Oracle,
    rule: StepRule,
    options: Options | None = None,
    *,
    rng: np.random.Generator,
    callback: Callback | None = None,
    earlier: Result | None = None,
    snapshots: Snapshots | None = None,
) -> Result:
    """Minimise the problem's value over convex combinations of atoms.

    Parameters
    ----------
    problem : Problem
    oracle : Oracle
        A fresh one: it remembers the run.
    rule : callable
        One of ``steps.RULES``.
    options : Options, default=None
    rng : numpy.random.Generator
    callback : callable, default=None
        Called with the state of each model, before the step from it; True stops the run.
    earlier : Result, default=None
        A run whose path this one continues, perhaps on another problem that knows the features of
        its atoms.
    snapshots : Snapshots, default=None
        Where a run with the same arguments was, and what takes new snapshots.

    Returns
    -------
    Result

    Raises
    ------
    SnapshotError
        The snapshot is not of a run with these arguments.
    """
    run = _Run(problem, oracle, rule, options or Options(), rng)
    if snapshots is not None and snapshots.latest is not None:
        try:
            state = run.restore(snapshots.latest, 0 if earlier is None else earlier.n_iter)
        except ValueError as error:
            raise SnapshotError(str(error)) from None
    else:
        state = run.start() if earlier is None else run.resume(earlier)
    try:
        status = run.iterate(state, callback, snapshots)
        return run.finish(state, status, earlier)
    except KeyboardInterrupt:  # the model is replaced as a whole, so it is never half changed
        return run.finish(state, "interrupted", earlier)


class _Run(Run[State]):
    """One run of the loop: the fixed parts, and the steps it is made of."""

    problem: Problem

    def __init__(
        self,
        problem: Problem,
        oracle: Oracle,
        rule: StepRule,
        options: Options,
        rng: np.random.Generator,
    ) -> None:
        super().__init__(problem, rng)
        self.oracle, self.rule, self.options = oracle, rule, options
        size = options.batch_size
        self.batch_size = size if size and size < problem.n_comparisons else None
        self.checker = Exact()  # one for all checks, so that each has less to compute
        self.seen = -1  # the last model that the callback has seen

    def margins(self, models: tuple[ActiveSet, ...]) -> Margins:
        return self.problem.margins(models[0].atoms, models[0].weights)

    # --- where a run begins ----------------------------------------------------------------------

    def start(self) -> State:
        problem = self.problem
        if self.options.init == "zero":
            return self.state(0, ActiveSet.of(ZERO))
        if self.options.init == "random":
            i, j = self.rng.choice(problem.n_features, size=2, replace=False)
            atom = Atom.of(i, j, self.rng.choice([-1, 1]))
        else:
            atom = self.oracle(self.gradient(problem.margins(*NOTHING)), self.rng).atom
        return self.state(0, ActiveSet.of(atom))

    def resume(self, earlier: Result) -> State:
        self.began -= float(np.nan_to_num(earlier.trace["seconds"][-1]))  # NaN from a file
        self.seen = earlier.n_iter
        weights = earlier.weights
        zero = max(0.0, 1.0 - float(weights.sum())) if self.options.init == "zero" else None
        active = ActiveSet(self.problem.from_user(earlier.atoms), weights, zero)
        return self.state(earlier.n_iter, active)

    def state(self, n_iter: int, active: ActiveSet) -> State:
        iterate = Iterate(n_iter, (active,))
        return State(self.problem, iterate, *self.measured(iterate.models))

    # --- the loop --------------------------------------------------------------------------------

    def iterate(self, state: State, callback: Callback | None, snapshots: Snapshots | None) -> str:
        """Iterate until something ends the run; return what."""

        def show() -> bool:
            return callback is not None and state.n_iter > self.seen and bool(callback(state))

        while True:
            if snapshots is not None:
                snapshots.save(lambda: self.snapshot(state))
            context = self.context(state, self.gradient(state.margins), self.oracle)
            if self.is_solved(state, context):
                self.record(state, 0.0, True)
                show()
                return "no_violation"
            move = self.rule(context)
            if context.asked and context.gap <= self.options.tol:
                status, context = self.check(state, context)
                if status is not None:
                    self.record(state, context.gap, context.certifies)
                    show()
                    return status
                context.gap_estimate = np.inf  # blended steps: take what the check found
                move = self.rule(context)
            state.gap_estimate = context.gap_estimate
            is_last = state.n_iter >= self.options.max_iter
            gap = context.gap if context.asked or is_last else np.nan
            is_exact = context.asked and context.certifies
            self.record(state, gap, is_exact)
            if show():
                return "callback"
            if is_last:
                return "max_iter"
            self.idle = 0 if self.take(state, move) else self.idle + 1
            if self.idle and self.is_stuck(context):
                self.record(state, gap, is_exact)  # of the model that it still is
                return "stalled"

    def context(self, state: State, gradient: Gradient, oracle: Oracle) -> StepContext:
        return StepContext(
            self.problem, state.active, state.margins, gradient, oracle, self.rng, self.options.tol,
            state.gap_estimate,
        )  # fmt: skip

    def gradient(self, margins: Margins) -> Gradient:
        """Return the gradient over all comparisons, or over a new batch."""
        batch = None
        if self.batch_size is not None:
            n = self.problem.n_comparisons
            batch = np.sort(self.rng.choice(n, size=self.batch_size, replace=False))
        return self.problem.gradient(margins, batch)

    def is_solved(self, state: State, context: StepContext) -> bool:
        """Whether all slopes are zero: the gap is then 0, whatever the oracle."""
        gradient = context.gradient
        return gradient.is_zero() and (gradient.covers_all or state.objective == 0.0)

    def check(self, state: State, context: StepContext) -> tuple[str | None, StepContext]:
        """Check a gap below tol; a status of None means go on, with what the check found."""
        if context.certifies:
            return "optimal", context
        if state.n_iter < self.next_check:
            return None, context
        affordable = self.problem.exact_search_cost() <= EXACT_CHECK_LIMIT
        if not affordable and context.gradient.covers_all:
            return "gap_not_certified", context
        self.count_check(state)
        self.rebuild(state)
        gradient = self.problem.gradient(state.margins)
        full = self.context(state, gradient, self.checker if affordable else self.oracle)
        if full.gap > self.options.tol:
            return None, full
        return "optimal" if full.certifies else "gap_not_certified", full

    def take(self, state: State, move: Move | Correction) -> bool:
        """Carry out a move; return whether it went anywhere."""
        size = self.options.step_size(state.n_iter)
        if isinstance(move, Correction):
            step = self.problem.correct(state.margins, move)
        else:
            step = self.problem.step(state.margins, move, size)
        if step is not None and size is None and self.rises(state, step):
            step = None
        return self.follow(state, move, step)

    def is_stuck(self, context: StepContext) -> bool:
        """Whether there is nothing to hope for after steps of size 0."""
        if context.certifies:
            return self.idle >= 2
        # A random start or another batch may still find a way down.
        return self.idle >= 1000

    # --- the end ---------------------------------------------------------------------------------

    def finish(self, state: State, status: str, earlier: Result | None) -> Result:
        """Return the model in the user's feature numbers, with an objective free of drift."""
        before = state.objective
        self.rebuild(state)
        is_visible = not math.isclose(before, state.objective, rel_tol=VISIBLE_DRIFT, abs_tol=1e-12)
        if is_visible and status != "interrupted":
            warnings.warn(
                f"Rounding hides the objective: {before:.9g} by the steps, {state.objective:.9g} "
                "by the model they led to. The values of X differ too much in size for the scale: "
                "give rows of like length (sklearn.preprocessing.normalize) or a smaller scale.",
                UserWarning,
                stacklevel=2,
            )
        n_before = 0 if earlier is None else earlier.n_iter
        if len(state.records) <= state.n_iter - n_before:  # interrupted before the step's record
            self.record(state, np.nan, False)
        trace, corrections = self.tables(state)
        if earlier is not None:  # the first model is the last of the earlier run
            trace[STEP_FIELDS][0] = earlier.trace[STEP_FIELDS][-1]
            trace = np.concatenate([earlier.trace[:-1], trace])
            corrections = np.concatenate([earlier.corrections, corrections])
        return Result(
            atoms=state.atoms,
            weights=state.active.weights,
            objective=state.objective,
            gap=state.gap,
            gap_is_exact=state.gap_is_exact,
            n_iter=state.n_iter,
            status=status,
            trace=trace,
            n_exact_checks=self.n_checks,
            corrections=corrections,
        )

    # --- snapshots -------------------------------------------------------------------------------

    def snapshot(self, state: State) -> Arrays:
        """Return all that the rest of the run depends on, between two iterations."""
        corrections = self.corrections(state)
        return {
            **({"corrections": corrections} if len(corrections) else {}),
            "atoms": state.active.atoms,
            "weights": state.active.weights,
            "trace": np.array([*state.records, self.line(state)], dtype=TRACE_DTYPE),
            "floats": np.array([state.drift, state.gap_estimate, time.perf_counter() - self.began]),
            "zero": np.array([np.nan if state.active.zero is None else state.active.zero]),
            "counts": np.array(
                [state.n_iter, self.idle, self.seen, self.n_checks, self.next_check, self.wait]
            ),
            "random": generator_state(self.rng),
            **nested(
                problem=self.problem.snapshot(state.margins),
                oracle=self.oracle.snapshot(),
                checker=self.checker.snapshot(),
            ),
        }

    def restore(self, snapshot: Arrays, n_before: int) -> State:
        """Return the state of a snapshot of a run on the same problem.

        `n_before` is the number of iterations of the earlier run that it continues. A snapshot may
        come from a file that anybody wrote, and compiled loops trust the numbers in it: each part
        checks its own.
        """
        own = outside_parts(snapshot, "problem", "oracle", "checker")
        check_arrays(
            own,
            {
                "atoms": (np.int64, (-1, 3)),
                "weights": (np.float64, (-1,)),
                "trace": (TRACE_DTYPE, (-1,)),
                "floats": (np.float64, (3,)),
                "zero": (np.float64, (1,)),
                "counts": (np.int64, (6,)),
                "random": (np.uint8, (-1,)),
            },
            {"corrections": (CORRECTION_DTYPE, (-1,))},
        )
        n_features = self.problem.n_features
        check_atoms(own["atoms"], own["weights"], n_features)
        zero = None if np.isnan(own["zero"][0]) else float(own["zero"][0])
        total = float(own["weights"].sum()) + (zero or 0.0)
        if (zero is None) == (self.options.init == "zero") or min(zero or 0.0, 0.0) < 0.0:
            raise ValueError(f"'zero' is {zero}, which no run with this init has.")
        if not abs(total - 1.0) <= 1e-9:
            raise ValueError(f"the weights sum to {total!r}, expected 1.")
        n_iter, idle, seen, *checks = own["counts"].tolist()
        if seen < -1:
            raise ValueError("'counts' has a number that is too small.")
        self.seen = seen
        self.restore_counts(idle, *checks)
        active = ActiveSet(own["atoms"], own["weights"], zero)
        iterate, records = self.restore_path(own, (active,), n_iter, n_before)
        if np.isnan(own["floats"]).any():
            raise ValueError("'floats' has a value that is not a number.")
        drift, gap_estimate, seconds = own["floats"].tolist()
        self.began -= seconds
        for name, oracle in (("oracle", self.oracle), ("checker", self.checker)):
            oracle.restore(part_of(snapshot, name), self.problem)
        margins = self.problem.restore(part_of(snapshot, "problem"))
        set_generator_state(self.rng, own["random"])
        return State(
            self.problem,
            iterate,
            margins,
            float(own["trace"]["objective"][-1]),
            self.problem.largest_margin(margins),
            drift=drift,
            gap_estimate=gap_estimate,
            records=records,
        )
