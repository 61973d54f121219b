"""The Frank-Wolfe loop.

What is fixed (problem, oracle, rule, options) and what moves (the state) are separate.
One loop serves all rules, losses, oracles and machines; it neither prints nor scores
models. It calls ``callback(state)``, and True means stop.

Every so many iterations the loop rests: problem and oracle forget, and the margins are
computed from the atoms anew. What follows depends on atoms, weights, counters and the
random state alone, so that these are all that a checkpoint holds.
"""

import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ..input.errors import warn
from .active_set import ActiveSet
from .atoms import NOTHING, ZERO, Atom, check_atoms, n_features
from .oracle import Exact
from .protocols import Correction, Gradient, Margins, Move, Oracle, Problem, StepRule
from .steps import StepContext, rest_every
from .trace import (
    CORRECTION_DTYPE,
    NO_ATOM,
    NO_CORRECTIONS,
    STEP_FIELDS,
    TRACE_DTYPE,
    check_corrections,
    check_trace,
    correction_records,
)

#: Steps of size 0 in a row that end a run where the oracle may still find another atom.
IDLE_LIMIT = 1000

#: An exact check of a gap that a heuristic oracle claims may cost so many
#: multiplications. Where it would cost more it is left out, and the status says so.
EXACT_CHECK_LIMIT = 2e11

#: Rounding may raise the objective by this share of it in a step; a larger rise is
#: refused.
RISE_LIMIT = 1e-13

#: A warning says so when rounding moves the objective by this share of it.
VISIBLE_DRIFT = 1e-6

Arrays = dict[str, np.ndarray]

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
    """

    init: str = "oracle"
    batch_size: int | None = None
    max_iter: int = 1000
    tol: float = 1e-3
    are_mined: bool = False


@dataclass(frozen=True, kw_only=True)
class Result:
    """What a run learned, and how it went, in the feature numbers of the user's X."""

    atoms: np.ndarray
    weights: np.ndarray
    objective: float
    gap: float
    gap_is_exact: bool
    n_iter: int
    status: str
    trace: np.ndarray
    corrections: np.ndarray = field(default_factory=NO_CORRECTIONS.copy)
    n_exact_checks: int = 0


class Rests(NamedTuple):
    """How a run is saved and continued.

    Parameters
    ----------
    latest : dict of str to ndarray or None
        The rest to continue from; None starts at the beginning.
    save : callable
        Called at each rest with a function that returns its arrays.
    """

    latest: Arrays | None
    save: Callable[[Callable[[], Arrays]], None]


class RestError(ValueError):
    """The arrays are not a rest of such a run."""


class Iterate(NamedTuple):
    """The model, and the step that led to it; replaced as a whole, never in part."""

    n_iter: int
    active: ActiveSet  # in the problem's feature numbers
    step: tuple  # its fields in the trace, in the user's feature numbers
    corrections: tuple[
        np.ndarray, ...
    ] = ()  # of this run so far, one table per iteration


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
    rests: Rests | None = None,
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
    rests : Rests, default=None
        Where a run with the same arguments rested, and what saves new rests.

    Returns
    -------
    Result

    Raises
    ------
    RestError
        The rest to continue from is not of a run with these arguments.
    """
    run = _Run(problem, oracle, rule, options or Options(), rng)
    records: list[tuple] = []
    if rests is not None and rests.latest is not None:
        try:
            first, records = run.restore(
                rests.latest, 0 if earlier is None else earlier.n_iter
            )
        except ValueError as error:
            raise RestError(str(error)) from None
    else:
        first = run.start() if earlier is None else run.resume(earlier)
    margins = problem.margins(first.active.atoms, first.active.weights)
    state = State(problem, first, margins, problem.value(margins), records=records)
    try:
        status = run.iterate(state, callback, rests)
        return run.finish(state, status, earlier)
    except (
        KeyboardInterrupt
    ):  # the model is replaced as a whole, so it is never half changed
        return run.finish(state, "interrupted", earlier)


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
        size = options.batch_size
        self.batch_size = size if size and size < problem.n_comparisons else None
        self.checker = Exact()  # one for all checks, so that each has less to compute
        self.n_checks = 0
        self.next_check = 0
        self.wait = 1
        self.idle = 0  # steps of size 0 since the last other one
        self.seen = -1  # the last model that the callback has seen

    # --- where a run begins -----------------------------------------------------------

    def start(self) -> Iterate:
        if self.options.init == "zero":
            atom = ZERO
        elif self.options.init == "random":
            i, j = self.rng.choice(self.problem.n_features, size=2, replace=False)
            atom = Atom.of(i, j, self.rng.choice([-1, 1]))
        else:
            atom = self.oracle(
                self.gradient(self.problem.margins(*NOTHING)), self.rng
            ).atom
        return self.first(0, ActiveSet.of(atom))

    def resume(self, earlier: Result) -> Iterate:
        self.began -= float(
            np.nan_to_num(earlier.trace["seconds"][-1])
        )  # NaN from a file
        self.seen = earlier.n_iter
        weights = earlier.weights
        zero = (
            max(0.0, 1.0 - float(weights.sum()))
            if self.options.init == "zero"
            else None
        )
        active = ActiveSet(self.problem.from_user(earlier.atoms), weights, zero)
        return self.first(earlier.n_iter, active)

    def first(self, n_iter: int, active: ActiveSet) -> Iterate:
        atom = active[0] if len(active) else ZERO
        return Iterate(
            n_iter, active, ("start", 1.0, *self.user_atom(atom), *NO_ATOM, False)
        )

    # --- the loop ---------------------------------------------------------------------

    def iterate(
        self, state: State, callback: Callback | None, rests: Rests | None
    ) -> str:
        """Iterate until something ends the run; return what."""

        def show() -> bool:
            return (
                callback is not None
                and state.n_iter > self.seen
                and bool(callback(state))
            )

        last_rest = state.n_iter
        every = rest_every(self.rule)
        while True:
            if state.n_iter % every == 0 and state.n_iter > last_rest:
                last_rest = state.n_iter
                self.rest(state)
                if rests is not None:
                    rests.save(lambda: self.snapshot(state))
            context = self.context(state, self.gradient(state.margins), self.oracle)
            if self.is_solved(state, context):
                self.record(state, 0.0, True)
                show()
                return "no_violation"
            is_last = state.n_iter >= self.options.max_iter
            move = None if is_last else self.rule(context)
            if is_last:
                context.scores  # noqa: B018 - the vertex may be an active atom
            if (is_last or context.asked) and context.gap <= self.options.tol:
                status, context = self.check(state, context)
                if status is not None:
                    self.record(state, context.gap, context.certifies)
                    show()
                    return status
                context.gap_estimate = (
                    np.inf
                )  # blended steps: take what the check found
                move = None if is_last else self.rule(context)
            state.gap_estimate = context.gap_estimate
            gap = context.gap if context.asked else np.nan
            is_exact = context.asked and context.certifies
            self.record(state, gap, is_exact)
            if show():
                return "callback"
            if move is None:
                return "max_iter"
            self.idle = 0 if self.take(state, move) else self.idle + 1
            if self.idle and self.is_stuck(context):
                self.record(state, gap, is_exact)  # of the model that it still is
                return "stalled"

    def rest(self, state: State) -> None:
        """Forget all but atoms, weights, counters and the random state."""
        self.problem.forget()
        self.oracle.forget()
        self.checker.forget()
        state.gap_estimate = np.inf
        state.margins, state.objective = self.measured(state.active)

    def measured(self, active: ActiveSet) -> tuple[Margins, float]:
        """Return the margins of a model, from scratch, and its value."""
        margins = self.problem.margins(active.atoms, active.weights)
        return margins, self.problem.value(margins)

    def context(self, state: State, gradient: Gradient, oracle: Oracle) -> StepContext:
        return StepContext(
            self.problem,
            state.active,
            state.margins,
            gradient,
            oracle,
            self.rng,
            self.options.tol,
            state.gap_estimate,
            self.options.are_mined,
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
        if state.n_iter < self.next_check:
            return None, context
        affordable = self.problem.exact_search_cost() <= EXACT_CHECK_LIMIT
        if not affordable and context.gradient.covers_all:
            return "gap_not_certified", context
        self.n_checks += 1
        self.next_check = state.n_iter + self.wait
        self.wait = 2 * self.wait
        state.margins, state.objective = self.measured(state.active)
        gradient = self.problem.gradient(state.margins)
        full = self.context(
            state, gradient, self.checker if affordable else self.oracle
        )
        if full.gap > self.options.tol:
            return None, full
        return "optimal" if full.certifies else "gap_not_certified", full

    def take(self, state: State, move: Move | Correction) -> bool:
        """Carry out a move; return whether it went anywhere."""
        step = self.problem.step(state.margins, move)
        if step is not None and step.value > state.objective * (1.0 + RISE_LIMIT):
            step = None  # rounding is larger than what there is to gain
        n_iter, before, _, corrections = state.iterate
        n_iter = n_iter + 1
        size = 0.0 if step is None else step.step_size
        after, drop = (before, False) if step is None else before.after(move, size)
        if step is not None and isinstance(move, Correction):
            corrections += (
                correction_records(n_iter, self.in_user(before), self.in_user(after)),
            )
        fields = (
            move.kind,
            size,
            *self.user_atom(move.toward),
            *self.user_atom(move.away),
            drop,
        )
        # From here on the model is the new one, whatever interrupts; the rest can be
        # rebuilt.
        state.iterate = Iterate(n_iter, after, fields, corrections)
        if step is None:
            return False
        state.margins = step.margins
        state.objective = step.value
        if (
            move.toward is None and size > 1.0
        ):  # it would multiply the rounding of the margins
            state.margins, state.objective = self.measured(after)
        return True

    def is_stuck(self, context: StepContext) -> bool:
        """Whether there is nothing to hope for after steps of size 0."""
        if context.certifies:
            return self.idle >= 2
        # A random start or another batch may still find a way down.
        return self.idle >= IDLE_LIMIT

    # --- the trace --------------------------------------------------------------------

    def user_atom(self, atom: Atom | None) -> Atom:
        """Return an atom in the user's feature numbers; `NO_ATOM` for None."""
        if atom is None or atom == ZERO:
            return NO_ATOM if atom is None else ZERO
        i, j = (k if k < 0 else self.problem.features[k] for k in atom[:2])
        return Atom.of(i, j, atom.sign)

    def in_user(self, active: ActiveSet) -> ActiveSet:
        return ActiveSet(
            self.problem.to_user(active.atoms), active.weights, active.zero
        )

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
        before = state.objective
        state.margins, state.objective = self.measured(state.active)
        is_visible = not math.isclose(
            before, state.objective, rel_tol=VISIBLE_DRIFT, abs_tol=1e-12
        )
        if is_visible and status != "interrupted":
            warn(
                f"Rounding hides the objective: {before:.9g} by the steps, "
                f"{state.objective:.9g} by the model they led to. The values of X "
                "differ too much in size for the scale: give rows of like length "
                "(sklearn.preprocessing.normalize) or a smaller scale."
            )
        n_before = 0 if earlier is None else earlier.n_iter
        if (
            len(state.records) <= state.n_iter - n_before
        ):  # interrupted before the step's record
            self.record(state, np.nan, False)
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
            gap=state.gap,
            gap_is_exact=state.gap_is_exact,
            n_iter=state.n_iter,
            status=status,
            trace=trace,
            corrections=corrections,
            n_exact_checks=self.n_checks,
        )

    # --- rests ------------------------------------------------------------------------

    def snapshot(self, state: State) -> Arrays:
        """Return all that the rest of the run depends on, in the user's feature numbers."""
        active = self.in_user(state.active)
        return {
            "atoms": active.atoms,
            "weights": active.weights,
            "zero": np.array([np.nan if active.zero is None else active.zero]),
            "trace": np.array([*state.records, self.line(state)], dtype=TRACE_DTYPE),
            "corrections": np.concatenate([NO_CORRECTIONS, *state.iterate.corrections]),
            "counts": np.array(
                [
                    state.n_iter,
                    self.idle,
                    self.seen,
                    self.n_checks,
                    self.next_check,
                    self.wait,
                ]
            ),
            "seconds": np.array([time.perf_counter() - self.began]),
            "random": generator_state(self.rng),
        }

    def restore(self, arrays: Arrays, n_before: int) -> tuple[Iterate, list[tuple]]:
        """Return the model of a rest of a run on the same problem, and the records up to it.

        `n_before` is the number of iterations of the earlier run that it continues. The
        arrays may come from a file that anybody wrote, and compiled loops trust the
        numbers in them.
        """
        _check_kinds(arrays)
        zero = None if np.isnan(arrays["zero"][0]) else float(arrays["zero"][0])
        total = float(arrays["weights"].sum()) + (zero or 0.0)
        if (zero is None) == (self.options.init == "zero") or min(
            zero or 0.0, 0.0
        ) < 0.0:
            raise ValueError(f"'zero' is {zero}, which no run with this init has.")
        if not abs(total - 1.0) <= 1e-9:
            raise ValueError(f"the weights sum to {total!r}, expected 1.")
        n_iter, idle, seen, n_checks, next_check, wait = arrays["counts"].tolist()
        if seen < -1 or min(idle, n_checks, next_check, wait - 1) < 0:
            raise ValueError("'counts' has a number that is too small.")
        limit = np.iinfo(np.int64).max
        check_atoms(arrays["atoms"], arrays["weights"], limit)
        atoms = self.problem.from_user(arrays["atoms"])
        if not np.array_equal(self.problem.to_user(atoms), arrays["atoms"]):
            raise ValueError("'atoms' has a feature that does not exist.")
        trace = arrays["trace"]
        check_trace(trace, 0, limit)
        check_corrections(arrays["corrections"], n_iter + 1, limit)
        if len(trace) != n_iter - n_before + 1:
            raise ValueError(f"the trace has {len(trace)} lines at iteration {n_iter}.")
        set_generator_state(self.rng, arrays["random"])
        self.idle = idle
        self.seen = seen
        self.n_checks = n_checks
        self.next_check = next_check
        self.wait = wait
        self.began -= float(arrays["seconds"][0])
        *records, last = (record.item() for record in trace)
        active = ActiveSet(atoms, arrays["weights"], zero)
        step = last[3 : 3 + len(STEP_FIELDS)]
        return Iterate(n_iter, active, step, (arrays["corrections"],)), records


def _check_kinds(arrays: Mapping[str, np.ndarray]) -> None:
    """Raise ValueError unless the arrays have the names, dtypes and shapes of a rest."""
    kinds: dict[str, tuple] = {
        "atoms": (np.int64, (-1, 3)),
        "weights": (np.float64, (-1,)),
        "zero": (np.float64, (1,)),
        "trace": (TRACE_DTYPE, (-1,)),
        "corrections": (CORRECTION_DTYPE, (-1,)),
        "counts": (np.int64, (6,)),
        "seconds": (np.float64, (1,)),
        "random": (np.uint8, (-1,)),
    }
    odd = sorted(kinds.keys() ^ arrays.keys())
    if odd:
        raise ValueError(f"{odd[0]!r} is missing or not known.")
    for name, array in arrays.items():
        dtype, shape = kinds[name]
        fits = array.ndim == len(shape) and all(
            n in (-1, length) for n, length in zip(shape, array.shape, strict=True)
        )
        if array.dtype != dtype or not fits:
            raise ValueError(
                f"{name!r} has dtype {array.dtype} and shape {array.shape}, expected "
                f"{np.dtype(dtype)} and {shape}."
            )
    if not np.isfinite(arrays["seconds"]).all():
        raise ValueError("'seconds' is not a number.")


def generator_state(rng: np.random.Generator) -> np.ndarray:
    """Return the state of a random generator, as bytes of JSON."""
    return np.frombuffer(json.dumps(rng.bit_generator.state).encode(), np.uint8)


def set_generator_state(rng: np.random.Generator, state: np.ndarray) -> None:
    """Set the state of a random generator; raise ValueError where it is not one."""
    try:
        rng.bit_generator.state = json.loads(state.tobytes())
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        raise ValueError("it holds no state of a random generator.") from None
