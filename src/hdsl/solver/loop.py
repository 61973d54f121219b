"""The Frank-Wolfe loop.

What is fixed (problem, oracle, rule, options) and what moves (the state) are separate.
One loop serves all rules, losses, oracles and machines; it neither prints nor scores
models. It calls ``callback(state)``, and True means stop.

Every few iterations the loop comes to a restart point: problem and oracle are reset, and
the margins are computed from the atoms again. What follows depends on atoms, weights,
counters and the random state alone, so a checkpoint holds nothing else.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from .atoms import (
    DIRECTION,
    NOTHING,
    ZERO,
    ActiveSet,
    Atom,
    Correction,
    Move,
    check_atoms,
    n_features,
)
from .oracle import BothKinds, Exact, Without
from .protocols import Gradient, Margins, Oracle, Problem, StepRule
from .steps import StepContext, restart_every
from .trace import (
    NO_ATOM,
    NO_CORRECTIONS,
    STEP_FIELDS,
    TRACE_DTYPE,
    Arrays,
    Counters,
    RestartError,
    RestartPoint,
    Restarts,
    StepRecord,
    check_corrections,
    check_trace,
    correction_records,
    generator_state,
    set_generator_state,
)

Callback = Callable[["State"], bool | None]


@dataclass(frozen=True)
class Options:
    """How a run goes.

    Parameters
    ----------
    init : {"oracle", "zero", "random"}, default="oracle"
        "zero": the domain has M = 0, and the path starts there. The others are the
        paper's domain, without 0: start from the atom that the oracle picks at M = 0,
        or from a random one.
    batch_size : int or None, default=None
        Comparisons that directions are chosen by, drawn anew in each iteration; None is
        all.
    max_iter : int, default=1000
        Most iterations, those of an earlier run included.
    tol : float, default=1e-3
        Stop when the gap is at most this.
    are_mined : bool, default=False
        Whether comparisons were made from labels, so that many say nearly the same.
    forbidden : ndarray of shape (n_pairs, 2) or None, default=None
        Pairs of features that no atom may have, in the user's numbers.
    """

    init: str = "oracle"
    batch_size: int | None = None
    max_iter: int = 1000
    tol: float = 1e-3
    are_mined: bool = False
    forbidden: np.ndarray | None = None


@dataclass(frozen=True, kw_only=True)
class Result:
    """What a run learned, and how it went, in the feature numbers of the user's X.

    `directions` are the unit vectors of the embedding that atoms name by their numbers,
    in float32.
    """

    atoms: np.ndarray
    weights: np.ndarray
    objective: float
    gap: float
    gap_is_exact: bool
    n_iter: int
    status: str
    trace: np.ndarray
    corrections: np.ndarray = field(default_factory=NO_CORRECTIONS.copy)
    directions: np.ndarray | None = None
    n_exact_checks: int = 0

    #: What the steps summed up to: another number than `objective`, by rounding.
    objective_by_steps: float = np.nan


class Iterate(NamedTuple):
    """The model, and the step that led to it; replaced as a whole, never in part."""

    n_iter: int
    active: ActiveSet  # in the problem's feature numbers
    step: StepRecord  # in the user's feature numbers
    corrections: tuple[np.ndarray, ...] = ()  # of this run, a table per iteration


@dataclass
class State:
    """Everything that moves. Callbacks read it and do not change it."""

    problem: Problem
    iterate: Iterate
    margins: Margins
    objective: float
    gap: float = np.nan
    gap_is_exact: bool = False
    seconds: float = 0.0
    gap_estimate: float = np.inf  # of lazy blended steps
    records: list[tuple] = field(default_factory=list)

    @property
    def n_iter(self) -> int:
        """Number of iterations so far."""
        return self.iterate.n_iter

    @property
    def active(self) -> ActiveSet:
        """The model, in the problem's feature numbers."""
        return self.iterate.active

    @property
    def atoms(self) -> np.ndarray:
        """Active atoms, shape (n_atoms, 3), in the user's feature numbers."""
        return self.problem.to_user(self.active.atoms)

    @property
    def directions(self) -> np.ndarray | None:
        """Unit vectors that active atoms name by their numbers; None without any."""
        if self.problem.directions is None:
            return None
        return self.problem.directions.vectors

    @property
    def weights(self) -> np.ndarray:
        """Weights of the active atoms."""
        return self.active.weights


#: Steps of size 0 in a row that end a run where the oracle may still find another atom.
IDLE_LIMIT = 1000

#: An exact check of a gap that a heuristic oracle claims may cost so many
#: multiplications. Where it would cost more it is left out, and the status says so.
EXACT_CHECK_LIMIT = 2e11

#: Rounding may raise the objective by this share of it in a step; a larger rise is
#: refused.
RISE_LIMIT = 1e-13


def frank_wolfe(
    problem: Problem,
    oracle: Oracle,
    rule: StepRule,
    options: Options | None = None,
    *,
    rng: np.random.Generator,
    callback: Callback | None = None,
    earlier: Result | None = None,
    restarts: Restarts | None = None,
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
        Called with the state of each model, before the step from it; True stops the
        run.
    earlier : Result, default=None
        A run whose path this one continues, perhaps on another problem that knows the
        features of its atoms.
    restarts : Restarts, default=None
        Where a run with the same arguments rested, and what saves new restarts.

    Returns
    -------
    Result

    Raises
    ------
    RestartError
        The restart point to continue from is not of a run with these arguments.
    """
    run = _Run(problem, oracle, rule, options or Options(), rng)
    records: list[tuple] = []
    if restarts is not None and restarts.latest is not None:
        try:
            first, records = run.restore(restarts.latest, n_iterations_of(earlier))
        except ValueError as error:
            raise RestartError(str(error)) from None
    elif earlier is not None:
        first = run.resume(earlier)
    else:
        first = run.start()
    margins = problem.margins(first.active.atoms, first.active.weights)
    state = State(problem, first, margins, problem.value(margins), records=records)
    try:
        status = run.iterate(state, callback, restarts)
        return run.finish(state, status, earlier)
    except KeyboardInterrupt:  # the model is replaced as a whole: it is a valid one
        return run.finish(state, "interrupted", earlier)


def n_iterations_of(earlier: Result | None) -> int:
    """Return how many iterations an earlier run had; none where there is none."""
    if earlier is None:
        return 0
    return earlier.n_iter


class _Run:
    """One run of the loop: the fixed parts, and the steps it is made of."""

    def __init__(
        self,
        problem: Problem,
        oracle: Oracle,
        rule: StepRule,
        options: Options,
        rng: np.random.Generator,
    ) -> None:
        self.problem = problem
        self.oracle = oracle
        self.rule = rule
        self.options = options
        self.rng = rng
        self.began = time.perf_counter()
        self.batch_size: int | None = None  # None is all comparisons
        if options.batch_size and options.batch_size < problem.n_comparisons:
            self.batch_size = options.batch_size
        # One for all checks, so that each has less to compute.
        self.checker: Oracle = Exact()
        if problem.directions is not None:
            self.oracle = BothKinds(oracle, problem.n_features)
            self.checker = BothKinds(self.checker, problem.n_features)
        if self.options.forbidden is not None:
            pairs = (self.options.forbidden, problem.features)
            self.oracle = Without(self.oracle, *pairs)
            self.checker = Without(self.checker, *pairs)
        self.counters = Counters()

    # --- where a run begins -----------------------------------------------------------

    def start(self) -> Iterate:
        """Return the first model of a new run."""
        if self.options.init == "zero":
            atom = ZERO
        elif self.options.init == "random" and self.problem.n_features > 1:
            i, j = self.rng.choice(self.problem.n_features, size=2, replace=False)
            atom = Atom.of(i, j, self.rng.choice([-1, 1]))
        else:
            atoms, weights = NOTHING
            gradient = self.gradient(self.problem.margins(atoms, weights))
            atom = self.oracle(gradient, self.rng).atom
        return self.first(0, ActiveSet.of(atom))

    def resume(self, earlier: Result) -> Iterate:
        """Return the last model of an earlier run, which this one continues."""
        seconds = float(earlier.trace["seconds"][-1])
        if math.isfinite(seconds):  # a file may hold none
            self.began -= seconds
        self.counters.seen = earlier.n_iter
        zero = None
        if self.options.init == "zero":
            zero = max(0.0, 1.0 - float(earlier.weights.sum()))
        if self.problem.directions is not None and earlier.directions is not None:
            self.problem.directions.restore(earlier.directions)
        atoms = self.problem.from_user(earlier.atoms)
        return self.first(earlier.n_iter, ActiveSet(atoms, earlier.weights, zero))

    def first(self, n_iter: int, active: ActiveSet) -> Iterate:
        """Return a model that no step of this run led to."""
        atom = ZERO
        if len(active):
            atom = active[0]
        step = StepRecord.of("start", 1.0, self.user_atom(atom), NO_ATOM, False)
        return Iterate(n_iter, active, step)

    # --- the loop ---------------------------------------------------------------------

    def iterate(
        self, state: State, callback: Callback | None, restarts: Restarts | None
    ) -> str:
        """Iterate until something ends the run; return what."""

        def show() -> bool:
            is_new = state.n_iter > self.counters.seen
            return callback is not None and is_new and bool(callback(state))

        last_restart = state.n_iter
        every = restart_every(self.rule)
        while True:
            if state.n_iter % every == 0 and state.n_iter > last_restart:
                last_restart = state.n_iter
                self.restart(state, restarts)
            context = self.context(state, self.gradient(state.margins), self.oracle)
            if self.is_solved(state, context):
                self.record(state, 0.0, True)
                show()
                return "no_violation"
            move = self.next_move(state, context)
            if (
                move is None or context.oracle_was_called
            ) and context.gap <= self.options.tol:
                status, context = self.check(state, context)
                if status is not None:
                    self.record(state, context.gap, context.certifies)
                    show()
                    return status
                context.gap_estimate = np.inf  # blended steps: take what it found
                move = self.next_move(state, context)
            state.gap_estimate = context.gap_estimate
            self.record(state, context.known_gap, context.gap_is_exact)
            if show():
                return "callback"
            if move is None:
                return "max_iter"
            if not self.take(state, move) and self.is_stuck(context):
                self.record(state, context.known_gap, context.gap_is_exact)
                return "stalled"

    def restart(self, state: State, restarts: Restarts | None) -> None:
        """Forget all but atoms, weights, counters and the random state, and save these."""
        self.problem.reset()
        self.oracle.reset()
        self.checker.reset()
        state.gap_estimate = np.inf
        state.margins, state.objective = self.measured(state.active)
        if restarts is not None:
            restarts.save(self.snapshot(state).as_arrays)

    def next_move(self, state: State, context: StepContext) -> Move | Correction | None:
        """Return the move of the rule; None at the last model, whose gap is left to find."""
        if state.n_iter < self.options.max_iter:
            return self.rule(context)
        context.include_active()
        return None

    def measured(self, active: ActiveSet) -> tuple[Margins, float]:
        """Return the margins of a model, from scratch, and its value."""
        margins = self.problem.margins(active.atoms, active.weights)
        return margins, self.problem.value(margins)

    def context(self, state: State, gradient: Gradient, oracle: Oracle) -> StepContext:
        """Return what can be known before the step from a model."""
        return StepContext(
            problem=self.problem,
            active=state.active,
            margins=state.margins,
            gradient=gradient,
            oracle=oracle,
            rng=self.rng,
            tol=self.options.tol,
            gap_estimate=state.gap_estimate,
            are_mined=self.options.are_mined,
        )

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

    def check(
        self, state: State, context: StepContext
    ) -> tuple[str | None, StepContext]:
        """Check a gap below tol; a status of None means go on, with what the check found.

        Each failure doubles the wait, so a run of k iterations makes at most log2(k) +
        2 checks.
        """
        if context.certifies:
            return "optimal", context
        counters = self.counters
        if state.n_iter < counters.next_check:
            return None, context
        affordable = self.problem.exact_search_cost() <= EXACT_CHECK_LIMIT
        if not affordable and context.gradient.covers_all:
            return "gap_not_certified", context
        counters.n_checks += 1
        counters.next_check = state.n_iter + counters.wait
        counters.wait *= 2
        state.margins, state.objective = self.measured(state.active)
        oracle: Oracle = self.oracle
        if affordable:
            oracle = self.checker
        full = self.context(state, self.problem.gradient(state.margins), oracle)
        if full.gap > self.options.tol:
            return None, full
        if full.certifies:
            return "optimal", full
        return "gap_not_certified", full

    def take(self, state: State, move: Move | Correction) -> bool:
        """Carry out a move; return whether it went anywhere."""
        step = self.problem.step(state.margins, move)
        if step is not None and step.value > state.objective * (1.0 + RISE_LIMIT):
            step = None  # rounding is larger than what there is to gain
        n_iter = state.n_iter + 1
        before = state.active
        after = before
        drop = False
        step_size = 0.0
        corrections = state.iterate.corrections
        if step is not None:
            step_size = step.step_size
            after, drop = before.after(move, step_size)
            if isinstance(move, Correction):
                changed = correction_records(
                    n_iter, self.in_user(before), self.in_user(after)
                )
                corrections = (*corrections, changed)
        record = StepRecord.of(
            move.kind,
            step_size,
            self.user_atom(move.toward),
            self.user_atom(move.away),
            drop,
        )
        # From here on the model is the new one, whatever interrupts; the rest can be
        # rebuilt.
        state.iterate = Iterate(n_iter, after, record, corrections)
        if step is None:
            self.counters.idle += 1
            return False
        self.counters.idle = 0
        state.margins = step.margins
        state.objective = step.value
        if move.toward is None and step_size > 1.0:
            # Such a step would multiply the rounding of the margins.
            state.margins, state.objective = self.measured(after)
        return True

    def is_stuck(self, context: StepContext) -> bool:
        """Whether there is nothing to hope for after steps of size 0."""
        if context.certifies:
            return self.counters.idle >= 2
        # A random start or another batch may still find a way down.
        return self.counters.idle >= IDLE_LIMIT

    # --- the trace --------------------------------------------------------------------

    def user_atom(self, atom: Atom | None) -> Atom:
        """Return an atom in the user's feature numbers; `NO_ATOM` for None."""
        if atom is None:
            return NO_ATOM
        if atom == ZERO or atom.i == DIRECTION:
            return atom
        i = self.user_feature(atom.i)
        j = self.user_feature(atom.j)
        return Atom.of(i, j, atom.sign)

    def user_feature(self, k: int) -> int:
        """Return the user's number of a feature; -1 stays."""
        if k < 0:
            return -1
        return self.problem.features[k]

    def in_user(self, active: ActiveSet) -> ActiveSet:
        """Return a model in the user's feature numbers."""
        atoms = self.problem.to_user(active.atoms)
        return replace(active, atoms=atoms)

    def record(self, state: State, gap: float, gap_is_exact: bool) -> None:
        """Add the record of the current model and of the step that led to it."""
        state.gap = float(gap)
        state.gap_is_exact = bool(gap_is_exact)
        state.seconds = time.perf_counter() - self.began
        state.records.append(self.line(state))

    def line(self, state: State) -> tuple:
        """Return the record of the current model."""
        atoms = state.active.atoms
        return (
            state.objective,
            state.gap,
            state.gap_is_exact,
            *state.iterate.step,
            len(atoms),
            n_features(atoms),
            state.seconds,
        )

    # --- the end ----------------------------------------------------------------------

    def finish(self, state: State, status: str, earlier: Result | None) -> Result:
        """Return the model in the user's feature numbers, with an objective free of drift."""
        by_steps = state.objective
        state.margins, state.objective = self.measured(state.active)
        if len(state.records) <= state.n_iter - n_iterations_of(earlier):
            self.record(state, np.nan, False)  # interrupted before the step's record
        trace = np.array(state.records, TRACE_DTYPE)
        corrections = np.concatenate([NO_CORRECTIONS, *state.iterate.corrections])
        if earlier is not None:  # the first model is the last of the earlier run
            trace[STEP_FIELDS][0] = earlier.trace[STEP_FIELDS][-1]
            trace = np.concatenate([earlier.trace[:-1], trace])
            corrections = np.concatenate([earlier.corrections, corrections])
        return Result(
            atoms=state.atoms,
            weights=state.active.weights,
            objective=state.objective,
            objective_by_steps=by_steps,
            gap=state.gap,
            gap_is_exact=state.gap_is_exact,
            n_iter=state.n_iter,
            status=status,
            trace=trace,
            corrections=corrections,
            directions=self.unit_vectors(),
            n_exact_checks=self.counters.n_checks,
        )

    def unit_vectors(self) -> np.ndarray | None:
        """Return the directions that atoms have named; None without an embedding."""
        if self.problem.directions is None:
            return None
        return self.problem.directions.vectors

    # --- restart points ---------------------------------------------------------------

    def snapshot(self, state: State) -> RestartPoint:
        """Return the run as it is; nothing that grows with it is copied."""
        return RestartPoint(
            n_iter=state.n_iter,
            active=self.in_user(state.active),
            records=state.records,
            n_records=len(state.records),
            line=self.line(state),
            corrections=state.iterate.corrections,
            counters=replace(self.counters),
            seconds=time.perf_counter() - self.began,
            random_state=generator_state(self.rng),
            directions=self.unit_vectors(),
        )

    def restore(self, arrays: Arrays, n_before: int) -> tuple[Iterate, list[tuple]]:
        """Return the model of a restart point on the same problem, and the records up to it.

        `n_before` is the number of iterations of the earlier run that it continues. The
        arrays may come from a file that anybody wrote, and compiled loops trust the
        numbers in them.
        """
        point = RestartPoint.from_arrays(arrays)
        active = point.active
        if (active.zero is None) == (self.options.init == "zero"):
            raise ValueError(
                f"'zero' is {active.zero}, which is impossible with this init."
            )
        limit = np.iinfo(np.int64).max
        n_directions = 0
        if self.problem.directions is not None:
            vectors = arrays["directions"]
            self.problem.directions.restore(vectors)
            n_directions = len(vectors)
        check_atoms(active.atoms, active.weights, limit, n_directions)
        atoms = self.problem.from_user(active.atoms)
        if not np.array_equal(self.problem.to_user(atoms), active.atoms):
            raise ValueError("'atoms' has a feature that does not exist.")
        check_trace(arrays["trace"], 0, limit, n_directions)
        check_corrections(arrays["corrections"], point.n_iter + 1, limit, n_directions)
        if point.n_records != point.n_iter - n_before:
            raise ValueError(
                f"the trace has {point.n_records + 1} lines at iteration {point.n_iter}."
            )
        set_generator_state(self.rng, point.random_state)
        self.counters = point.counters
        self.began -= point.seconds
        step = StepRecord(*arrays["trace"][STEP_FIELDS][-1].item())
        iterate = Iterate(
            point.n_iter, replace(active, atoms=atoms), step, point.corrections
        )
        return iterate, [*point.records]
