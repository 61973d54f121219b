"""The Frank-Wolfe loop: active set, step rules, line search, trace.

What is fixed (the problem) and what moves (the state) are two objects. A step rule looks at the
outlook of an iteration — gradient, scores of the active atoms, the oracle's vertex if it asks for
it — and names a move. One loop serves all rules, losses and oracles; it neither prints nor scores,
it calls ``callback(state)``, and True means stop.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from .. import user_input
from ..backends.cpu.problem import PairGradient, TripletProblem
from . import atoms as atoms_module
from .atoms import Atom
from .oracle import ORACLES, Exact, Oracle, Vertex
from .trace import STEP_FIELDS, TRACE_DTYPE, check_trace

#: Lazy blended steps go on inside the active set while they promise so many times the last gap.
BLENDED_SHARE = 1.5

#: Scores of active atoms within this relative distance are equal.
TIE = 1e-12

#: An exact check of a gap that a heuristic oracle claims may cost so many multiplications; where
#: it would cost more it is left out, and the status says so.
EXACT_CHECK_LIMIT = 2e11

#: A step may raise the objective by this share of it, by rounding, and no more.
RISE = 1e-13

#: Margins are rebuilt from the atoms when rounding may have moved them by this much, in units of
#: the largest of them or of 1, the margin that losses ask for.
DRIFT_LIMIT = 1e-12

#: Rounding that moves the objective by this share of it is told.
SEEN = 1e-6

NO_ATOM = Atom(-1, -1, 0)

#: Where a run is, between two iterations: all that the rest of it depends on.
Place = dict[str, np.ndarray]


@dataclass(frozen=True)
class ActiveSet:
    """Atoms with positive weights that sum to 1; a value, so a step makes a new one."""

    atoms: np.ndarray
    weights: np.ndarray

    @classmethod
    def of(cls, atom: Atom) -> ActiveSet:
        """Return the set of one atom."""
        return cls(atoms_module.as_array([atom]), np.ones(1))

    def __len__(self) -> int:
        return len(self.weights)

    def __getitem__(self, k: int) -> Atom:
        return Atom(*self.atoms[k].tolist())

    def find(self, atom: Atom) -> int | None:
        """Return the position of an atom, None where it is not active."""
        i, j, sign = atom
        at = ((self.atoms[:, 0] == i) & (self.atoms[:, 1] == j)).nonzero()[0].tolist()
        return next((k for k in at if self.atoms[k, 2] == sign), None)

    def extreme(self, scores: np.ndarray, *, largest: bool) -> int:
        """Return the atom of largest or smallest score, the smallest (i, j, -sign) of equals.

        Equal up to rounding: after an exact line search between two atoms their scores are the
        same in theory, and chance must not decide which is the worse.
        """
        high, low = float(scores.max()), float(scores.min())
        near = TIE * max(abs(high), abs(low))
        candidates = (scores >= high - near if largest else scores <= low + near).nonzero()[0]
        if len(candidates) == 1:
            return int(candidates[0])
        return min(candidates.tolist(), key=lambda k: self[k].order)

    def moved(
        self, toward: Atom | None, away: Atom | None, step_size: float, drop: bool
    ) -> ActiveSet:
        """Return the set with weight moved toward one atom, from all (away is None) or from one.

        toward alone: w ← (1 - γ)w + γe; away alone: w ← (1 + γ)w - γe; both: w ← w + γ(e - e').
        `drop` says that the step was as long as could be, so the atom moved away from leaves.
        """
        atoms, weights = self.atoms, self.weights
        if away is None:
            weights = weights * (1.0 - step_size)
        elif toward is None:
            weights = weights * (1.0 + step_size)
        else:
            weights = weights.copy()
        if away is not None:
            k = self.find(away)
            if k is None:  # the loop never does this; a trace from a file may
                raise ValueError(f"The trace moves away from {tuple(away)}, which is not active.")
            weights[k] = 0.0 if drop else max(weights[k] - step_size, 0.0)
        if toward is not None:
            k = self.find(toward)
            if k is None:
                atoms = np.vstack([atoms, [toward]])
                weights = np.append(weights, step_size)
            else:
                weights[k] += step_size
        keep = weights > 0.0
        if not keep.all():
            atoms, weights = atoms[keep], weights[keep]
        return ActiveSet(atoms, weights / weights.sum())

    def n_features(self) -> int:
        """Return how many features the atoms use."""
        return atoms_module.n_features(self.atoms)


class Move(NamedTuple):
    """What a step rule decided: toward an atom, away from one, or both."""

    kind: str
    toward: Atom | None
    away: Atom | None
    max_step: float


class Iterate(NamedTuple):
    """A model of the path and the step that led to it; replaced as a whole, never in part."""

    n_iter: int
    active: ActiveSet
    move: Move | None = None
    step_size: float = 1.0
    drop: bool = False


@dataclass
class State:
    """Everything that moves. Callbacks get it; they may look but not touch."""

    iterate: Iterate
    margins: np.ndarray
    objective: float
    features: np.ndarray
    gap: float = np.nan
    gap_is_exact: bool = False
    seconds: float = 0.0
    drift: float = 0.0
    gap_estimate: float = np.inf  # of lazy blended steps
    records: list[tuple] = field(default_factory=list)

    @property
    def n_iter(self) -> int:
        """Iterations done."""
        return self.iterate.n_iter

    @property
    def active(self) -> ActiveSet:
        """The model, in the problem's feature numbers."""
        return self.iterate.active

    @property
    def atoms(self) -> np.ndarray:
        """Active atoms, shape (n_atoms, 3), in the user's feature numbers."""
        return atoms_module.renumbered(self.active.atoms, self.features)

    @property
    def weights(self) -> np.ndarray:
        """Weights of the active atoms."""
        return self.active.weights


class Outlook:
    """What can be known before a step; each thing is computed when first asked for."""

    def __init__(
        self,
        state: State,
        gradient: PairGradient,
        oracle: Oracle,
        rng: np.random.Generator,
        tol: float,
    ) -> None:
        self.state, self.gradient, self.oracle, self.rng = state, gradient, oracle, rng
        self.tol = tol
        self.asked = False
        self.is_exact = isinstance(oracle, Exact) and gradient.covers_all

    @cached_property
    def scores(self) -> np.ndarray:
        """⟨B, -∇f⟩ of the active atoms."""
        return self.gradient.scores(self.state.active.atoms)

    @cached_property
    def score(self) -> float:
        """⟨M, -∇f⟩."""
        if "scores" in self.__dict__:
            return float((self.state.active.weights * self.scores).sum())  # same bits: no BLAS
        return self.gradient.dot(self.state.margins)

    @cached_property
    def vertex(self) -> Vertex:
        """The oracle's answer, or the best active atom where that is better."""
        self.asked = True
        vertex = self.oracle(self.gradient, self.rng)
        if "scores" in self.__dict__ and not self.is_exact:
            active = self.state.active
            k = active.extreme(self.scores, largest=True)
            own = Vertex(float(self.scores[k]), active[k])
            vertex = own if own.beats(vertex) else vertex
        return vertex

    @property
    def gap(self) -> float:
        """⟨B - M, -∇f⟩ for the oracle's B: no less than f - f* if the oracle is exact."""
        return self.vertex.score - self.score


# --- step rules ----------------------------------------------------------------------------------


def forward(look: Outlook) -> Move:
    """Return a step toward the vertex (Algorithm 1)."""
    return Move("forward", look.vertex.atom, None, 1.0)


def away(look: Outlook) -> Move:
    """Return the steeper of a forward step and a step away from the worst atom (Algorithm 3)."""
    active = look.state.active
    worst = active.extreme(look.scores, largest=False)
    if len(active) == 1 or look.gap >= look.score - look.scores[worst]:
        return forward(look)
    # The others may be too light to make a difference to 1.
    others = np.delete(active.weights, worst).sum()
    return Move("away", None, active[worst], float(active.weights[worst] / others))


def pairwise(look: Outlook) -> Move:
    """Return a shift of weight from the worst active atom to the vertex."""
    active = look.state.active
    worst = active.extreme(look.scores, largest=False)
    if active[worst] == look.vertex.atom:  # one atom only, and the best there is
        return forward(look)
    return Move("pairwise", look.vertex.atom, active[worst], float(active.weights[worst]))


def blended(look: Outlook) -> Move:
    """Return a shift of weight inside the active set while it is worth it, else a forward step.

    Lazy blended pairwise steps (Tsuji, Tanaka and Pokutta, 2022): the oracle is asked only when no
    shift between active atoms promises a share of the last known gap.
    """
    state, active = look.state, look.state.active
    worst = active.extreme(look.scores, largest=False)
    best = active.extreme(look.scores, largest=True)
    local = look.scores[best] - look.scores[worst]
    if local < BLENDED_SHARE * state.gap_estimate:
        # A poor vertex may show hardly any gap; to believe it at once would stop the asking.
        least = 0.1 * state.gap_estimate if np.isfinite(state.gap_estimate) else 0.0
        state.gap_estimate = max(look.gap, least, look.tol)
        if local <= look.gap:
            return forward(look)
    return Move("pairwise", active[best], active[worst], float(active.weights[worst]))


Rule = Callable[[Outlook], Move]

STEPS: dict[str, Rule] = {
    "forward": forward,
    "away": away,
    "pairwise": pairwise,
    "blended": blended,
}


# --- line search ---------------------------------------------------------------------------------


def line_search(
    problem: TripletProblem, margins: np.ndarray, direction: np.ndarray, max_step: float
) -> float:
    """Return the step in [0, max_step] that minimises the value along a direction.

    Newton's method on the derivative, kept inside a bracket. For the hinge losses the derivative
    is piecewise linear, so a Newton step from the right piece is exact; for the others it goes on
    to a relative 1e-12.
    """
    slope, curvature = problem.slope_along(margins, direction, 0.0)
    if not slope < 0.0 or max_step <= 0.0:
        return 0.0
    tiny = 4e-16 * -slope
    low, low_slope, high, high_slope = 0.0, slope, max_step, np.nan
    step = 0.0
    for _ in range(200):
        guess = step - slope / curvature if curvature > 0.0 else np.inf
        if guess >= high and np.isnan(high_slope):
            guess = high  # is the far end still downhill?
        elif not low < guess < high:
            guess = _between(low, high, low_slope, high_slope)
        if not low < guess <= high or (guess == high and not np.isnan(high_slope)):
            break  # no number left between the two
        moved, step = abs(guess - step), guess
        slope, curvature = problem.slope_along(margins, direction, step)
        if slope < 0.0:
            low, low_slope = step, slope
            if step == max_step:
                return max_step
        else:
            high, high_slope = step, slope
        if abs(slope) <= tiny or moved <= 1e-16 * step:
            break
    if abs(slope) <= tiny or np.isnan(high_slope):
        return step
    return low if -low_slope < high_slope else high


def _between(low: float, high: float, low_slope: float, high_slope: float) -> float:
    """Return a point inside a bracket: where the chord crosses zero, kept off the ends."""
    if np.isnan(high_slope):
        return 0.5 * (low + high)
    share = low_slope / (low_slope - high_slope)
    return low + min(max(share, 0.05), 0.95) * (high - low)


# --- the loop ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Result:
    """What a run learned, and how it went. Feature numbers are those of the user's X."""

    atoms: np.ndarray
    weights: np.ndarray
    objective: float
    gap: float
    gap_is_exact: bool
    n_iter: int
    status: str
    trace: np.ndarray
    n_exact_checks: int


def frank_wolfe(
    problem: TripletProblem,
    *,
    oracle: str = "ascent",
    step: str = "away",
    step_size: str = "line_search",
    init: str = "oracle",
    batch_size: int | None = None,
    max_iter: int = 1000,
    tol: float = 1e-3,
    callback: Callable[[State], bool | None] | None = None,
    rng: np.random.Generator,
    earlier: Result | None = None,
    keep: Callable[[Callable[[], Place]], None] | None = None,
    place: Place | None = None,
) -> Result:
    """Minimise the problem's value over convex combinations of atoms.

    Parameters
    ----------
    problem : TripletProblem
    oracle : {"exact", "heuristic", "ascent"}
    step : {"forward", "away", "pairwise", "blended"}
    step_size : {"line_search", "2/(k+2)"}
        The second for forward steps only.
    init : {"oracle", "random"}
        Start from the atom that the oracle picks at M = 0, or from a random one.
    batch_size : int, default=None
        Triplets that the directions are chosen by, drawn anew at each iteration; None is all.
    max_iter : int
        Iterations, those of an earlier run included.
    tol : float
        Stop when the gap is at most this.
    callback : callable, default=None
        Called with the state of each model, before the step from it; True stops the run.
    rng : numpy.random.Generator
    earlier : Result, default=None
        A run whose path this one continues, perhaps on another problem. Its margins are computed
        anew from its atoms, whose features the problem must know.
    keep : callable, default=None
        Called before each iteration with a function that returns the place of the run.
    place : dict of str to ndarray, default=None
        Where a run with the same arguments was (see `check_place`): this one goes on from there,
        to the same end.

    Returns
    -------
    Result
    """
    run = _Run(problem, ORACLES[oracle](), STEPS[step], batch_size, tol, rng)
    if place is not None:
        state = run.go_to(place)
    else:
        state = run.start(init) if earlier is None else run.resume(earlier)
    try:
        status = run.iterate(state, max_iter, step_size, callback, keep)
        return run.finish(state, status, earlier)
    except KeyboardInterrupt:  # the model changes in one stroke, so it is always whole
        return run.finish(state, "interrupted", earlier)


class _Run:
    """One run of the loop: the fixed parts, and the steps it is made of."""

    def __init__(
        self,
        problem: TripletProblem,
        oracle: Oracle,
        rule: Rule,
        batch_size: int | None,
        tol: float,
        rng: np.random.Generator,
    ) -> None:
        self.problem, self.oracle, self.rule, self.tol, self.rng = problem, oracle, rule, tol, rng
        self.batch_size = batch_size if batch_size and batch_size < problem.n_triplets else None
        self.began = time.perf_counter()
        self.checker = Exact()  # kept, so that each check has less to look at than the one before
        self.n_checks, self.next_check, self.wait = 0, 0, 1
        self.idle, self.seen = 0, -1  # steps of length 0; the last model the callback has seen

    def start(self, init: str) -> State:
        problem = self.problem
        if init == "random":
            i, j = self.rng.choice(problem.n_features, size=2, replace=False)
            atom = Atom.of(i, j, self.rng.choice([-1, 1]))
        else:
            nothing = np.empty(0)
            margins = problem.margins(nothing, nothing)
            atom = self.oracle(self.gradient(margins), self.rng).atom
        margins = problem.atom_margins(atom)
        return State(
            Iterate(0, ActiveSet.of(atom)), margins, problem.value(margins), problem.data.features
        )

    def resume(self, earlier: Result) -> State:
        features = self.problem.data.features
        order = np.argsort(features)
        ends = order[np.searchsorted(features, earlier.atoms[:, :2], sorter=order)]
        atoms = np.column_stack([np.sort(ends), earlier.atoms[:, 2]])
        active = ActiveSet(atoms, earlier.weights)
        margins = self.problem.margins(atoms, earlier.weights)
        self.began -= float(np.nan_to_num(earlier.trace["seconds"][-1]))  # NaN from a file
        self.seen = earlier.n_iter
        return State(
            Iterate(earlier.n_iter, active), margins, self.problem.value(margins), features
        )

    def gradient(self, margins: np.ndarray) -> PairGradient:
        subset = None
        if self.batch_size is not None:
            subset = np.sort(
                self.rng.choice(self.problem.n_triplets, size=self.batch_size, replace=False)
            )
        return self.problem.gradient(margins, subset)

    def iterate(
        self,
        state: State,
        max_iter: int,
        step_size: str,
        callback: Callable[[State], bool | None] | None,
        keep: Callable[[Callable[[], Place]], None] | None,
    ) -> str:
        def shown() -> bool:
            return callback is not None and state.n_iter > self.seen and bool(callback(state))

        while True:
            if keep is not None:
                keep(lambda: self.place(state))
            look = Outlook(state, self.gradient(state.margins), self.oracle, self.rng, self.tol)
            if self.is_solved(state, look):
                self.record(state, 0.0, True)
                shown()
                return "no_violation"
            move = self.rule(look)
            if look.asked and look.gap <= self.tol:
                verdict, look = self.check(state, look)
                if verdict is not None:
                    self.record(state, look.gap, look.is_exact)
                    shown()
                    return verdict
                state.gap_estimate = np.inf  # blended steps: take what the check found
                move = self.rule(look)
            last = state.n_iter >= max_iter
            gap = look.gap if look.asked or last else np.nan
            self.record(state, gap, look.asked and look.is_exact)
            if shown():
                return "callback"
            if last:
                return "max_iter"
            moved = self.take(state, move, step_size)
            self.idle = 0 if moved else self.idle + 1
            if self.idle and self.is_stuck(look):
                self.record(state, gap, look.asked and look.is_exact)  # of the model it still is
                return "stalled"

    def is_solved(self, state: State, look: Outlook) -> bool:
        """Whether no triplet pulls any more: the gap is then 0, whatever the oracle."""
        return look.gradient.is_zero() and (look.gradient.covers_all or state.objective == 0.0)

    def check(self, state: State, look: Outlook) -> tuple[str | None, Outlook]:
        """Decide whether a gap below tol is true; None means go on, with what the check found."""
        if look.is_exact:
            return "optimal", look
        if state.n_iter < self.next_check:
            return None, look
        affordable = float(self.problem.data.reach.sum()) <= EXACT_CHECK_LIMIT
        if not affordable and look.gradient.covers_all:
            return "gap_not_certified", look
        # Each failure doubles the wait, so a run of k iterations makes at most log2(k) + 2 checks.
        self.n_checks += 1
        self.next_check, self.wait = state.n_iter + self.wait, 2 * self.wait
        self.rebuild(state)
        gradient = self.problem.gradient(state.margins)
        checker = self.checker if affordable else self.oracle
        full = Outlook(state, gradient, checker, self.rng, self.tol)
        if full.gap > self.tol:
            return None, full
        return "optimal" if full.is_exact else "gap_not_certified", full

    def take(self, state: State, move: Move, step_size: str) -> bool:
        """Carry out a move; return whether it went anywhere."""
        problem, margins = self.problem, state.margins
        direction = problem.direction(margins, move.toward, move.away)
        if step_size == "line_search":
            size = line_search(problem, margins, direction, move.max_step)
        else:
            size = 2.0 / (state.n_iter + 2.0)
        drop = move.away is not None and size >= move.max_step
        objective = state.objective
        if size > 0.0:
            margins, objective = problem.advance(margins, direction, size)
            if step_size == "line_search" and objective > state.objective * (1.0 + RISE):
                size, drop = 0.0, False  # rounding is larger than what there is to gain
        active = state.active
        if size > 0.0:
            active = active.moved(move.toward, move.away, size, drop)
        # From here on the model is the new one, whatever interrupts; the rest can be rebuilt.
        state.iterate = Iterate(state.n_iter + 1, active, move, size, drop)
        if size > 0.0:
            # A step of size γ multiplies what rounding has done so far by at most 1 + γ. Drift is
            # relative to the largest margin, and large ones may cancel to much smaller ones.
            away_only = move.toward is None
            shrunk = max(1.0, _largest(state.margins) / _largest(margins))
            state.drift = (state.drift * (1.0 + size if away_only else 1.0) + 1e-15) * shrunk
            state.margins, state.objective = margins, objective
            if state.drift > DRIFT_LIMIT:
                self.rebuild(state)
        return size > 0.0

    def is_stuck(self, look: Outlook) -> bool:
        """Whether nothing new can be hoped for after steps of length 0."""
        if look.is_exact:
            return self.idle >= 2
        # A random start or another batch may still find a way down.
        return self.idle >= 1000

    def rebuild(self, state: State) -> None:
        """Compute the margins anew from the atoms, so that rounding does not add up."""
        state.margins = self.problem.margins(state.active.atoms, state.active.weights)
        state.objective = self.problem.value(state.margins)
        state.drift = 0.0

    def record(self, state: State, gap: float, gap_is_exact: bool) -> None:
        """Write the line of the trace for the current model and the step that led to it."""
        state.gap, state.gap_is_exact = float(gap), bool(gap_is_exact)
        state.seconds = time.perf_counter() - self.began
        state.records.append(self.line(state))

    def line(self, state: State) -> tuple:
        """Return what the trace says of the current model and the step that led to it."""
        move, size, drop = state.iterate[2:]
        if move is None:
            kind, toward, gone = "start", state.active[0], NO_ATOM
        else:
            kind, toward, gone = move.kind, move.toward or NO_ATOM, move.away or NO_ATOM
        return (
            state.objective, state.gap, state.gap_is_exact, kind, size, *toward, *gone, drop,
            len(state.active), state.active.n_features(), state.seconds, np.nan,
        )  # fmt: skip

    def place(self, state: State) -> Place:
        """Return all that the rest of the run depends on, between two iterations."""
        return {
            "atoms": state.active.atoms,
            "weights": state.active.weights,
            "margins": state.margins,
            "trace": np.array([*state.records, self.line(state)], dtype=TRACE_DTYPE),
            "floats": np.array([state.drift, state.gap_estimate, time.perf_counter() - self.began]),
            "counts": np.array(
                [state.n_iter, self.idle, self.seen, self.n_checks, self.next_check, self.wait]
            ),
            "random": user_input.generator_bytes(self.rng),
            "known": self.problem.cross_terms.known,
            **{f"oracle.{name}": array for name, array in self.oracle.memory().items()},
            **{f"checker.{name}": array for name, array in self.checker.memory().items()},
        }

    def go_to(self, place: Place) -> State:
        """Go to a place of a run on the same problem."""
        problem = self.problem
        n_iter, self.idle, self.seen, self.n_checks, self.next_check, self.wait = place[
            "counts"
        ].tolist()
        drift, gap_estimate, seconds = place["floats"].tolist()
        self.began -= seconds
        user_input.set_generator(self.rng, place["random"])
        problem.cross_terms.learn(place["known"])
        for name, oracle in (("oracle.", self.oracle), ("checker.", self.checker)):
            memory = {k.removeprefix(name): v for k, v in place.items() if k.startswith(name)}
            oracle.recall(memory, problem)
        *records, last = place["trace"].tolist()
        line = dict(zip(TRACE_DTYPE.names or (), last, strict=True))
        toward = Atom(line["i"], line["j"], line["sign"])
        gone = Atom(line["away_i"], line["away_j"], line["away_sign"])
        move = Move(
            line["kind"],
            None if toward == NO_ATOM else toward,
            None if gone == NO_ATOM else gone,
            np.nan,  # the step is taken
        )
        start = line["kind"] == "start"
        active = ActiveSet(place["atoms"], place["weights"])
        return State(
            Iterate(n_iter, active, None if start else move, line["step_size"], line["drop"]),
            place["margins"],
            line["objective"],
            problem.data.features,
            drift=drift,
            gap_estimate=gap_estimate,
            records=records,
        )

    def finish(self, state: State, status: str, earlier: Result | None) -> Result:
        """Give the model back in the user's feature numbers, with an objective free of drift."""
        before = state.objective
        self.rebuild(state)
        is_seen = not math.isclose(before, state.objective, rel_tol=SEEN, abs_tol=1e-12)
        if is_seen and status != "interrupted":
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
        trace = np.array(state.records, dtype=TRACE_DTYPE)
        for i, j in (("i", "j"), ("away_i", "away_j")):
            ends = np.column_stack([trace[i], trace[j], trace["sign"]])
            trace[i], trace[j], _ = atoms_module.renumbered(ends, state.features).T
        if earlier is not None:  # the first model is the last of the earlier run, seen anew
            trace[STEP_FIELDS][0] = earlier.trace[STEP_FIELDS][-1]
            trace = np.concatenate([earlier.trace[:-1], trace])
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
        )


def check_place(place: Place, problem: TripletProblem, oracle: str, n_before: int = 0) -> None:
    """Raise ValueError for what is no place of a run on the problem with the oracle.

    `n_before` are the iterations of the earlier run that it continues. A place may come from a file
    that anybody wrote, and compiled loops trust the numbers in it.
    """
    n_features, n_pairs = problem.n_features, problem.data.n_pairs
    wanted: dict[str, tuple[np.dtype, tuple[int, ...]]] = {
        "atoms": (np.dtype(np.int64), (-1, 3)),
        "weights": (np.dtype(np.float64), (-1,)),
        "margins": (np.dtype(np.float64), (problem.n_triplets,)),
        "trace": (TRACE_DTYPE, (-1,)),
        "floats": (np.dtype(np.float64), (3,)),
        "counts": (np.dtype(np.int64), (6,)),
        "random": (np.dtype(np.uint8), (-1,)),
        "known": (np.dtype(np.int64), (-1, 2)),
        "oracle.recent": (np.dtype(np.int64), (-1,)),
    }
    for name in ("oracle", "checker"):
        wanted[f"{name}.counts"] = (np.dtype(np.int64), (3,))
        for part in ("value", "base_value"):
            wanted[f"{name}.{part}"] = (np.dtype(np.float64), (n_features,))
        for part in ("base", "last"):
            wanted[f"{name}.{part}"] = (np.dtype(np.float64), (n_pairs,))
    needed = {name for name in wanted if "." not in name} | {"checker.counts"}
    needed |= {f"oracle.{name}" for name in ORACLES[oracle]().memory()}
    for name in ("oracle", "checker"):  # what an exact search remembers comes whole or not at all
        parts = {f"{name}.{part}" for part in ("value", "base_value", "base", "last")}
        needed |= parts if parts & place.keys() else set()
    if not needed <= place.keys() <= wanted.keys():
        odd = sorted((needed - place.keys()) | (place.keys() - wanted.keys()))
        raise ValueError(f"{odd[0]!r} is missing or not known.")
    for name, array in place.items():
        dtype, shape = wanted[name]
        fits = array.ndim == len(shape) and all(
            n in (-1, length) for n, length in zip(shape, array.shape, strict=True)
        )
        if array.dtype != dtype or not fits:
            raise ValueError(
                f"{name!r} has dtype {array.dtype} and shape {array.shape}, expected {dtype} and "
                f"{shape}."
            )
    atoms_module.check_atoms(place["atoms"], place["weights"], n_features)
    check_trace(place["trace"], 0, n_features)
    low, high = place["known"].T
    recent = place.get("oracle.recent", np.array([]))
    if not ((low >= 0) & (low < high) & (high < n_features)).all():
        raise ValueError("'known' has a pair of features that there is not.")
    if ((recent < 0) | (recent >= n_features)).any():
        raise ValueError("'oracle.recent' has a feature that there is not.")
    n_iter, idle, seen, n_checks, next_check, wait = place["counts"].tolist()
    if min(idle, seen + 1, n_checks, next_check, wait - 1) < 0:
        raise ValueError("'counts' has a number that is too small.")
    if len(place["trace"]) != n_iter - n_before + 1:
        raise ValueError(f"the trace has {len(place['trace'])} lines at iteration {n_iter}.")
    if not np.isfinite(place["margins"]).all() or np.isnan(place["floats"]).any():
        raise ValueError("a margin, or another number, is not finite.")
    user_input.set_generator(np.random.default_rng(), place["random"])


def _largest(margins: np.ndarray) -> float:
    """Return the size of the largest margin, at least 1."""
    return max(1.0, float(margins.max()), -float(margins.min()))


def replay(trace: np.ndarray, n_iter: int) -> tuple[np.ndarray, np.ndarray]:
    """Return atoms and weights as they were after `n_iter` iterations, from the steps alone."""
    first = trace[0]
    active = ActiveSet.of(Atom(int(first["i"]), int(first["j"]), int(first["sign"])))
    for step in trace[1 : n_iter + 1]:
        if step["step_size"] > 0.0:
            toward = Atom(int(step["i"]), int(step["j"]), int(step["sign"]))
            gone = Atom(int(step["away_i"]), int(step["away_j"]), int(step["away_sign"]))
            active = active.moved(
                toward if toward.i >= 0 else None,
                gone if gone.i >= 0 else None,
                float(step["step_size"]),
                bool(step["drop"]),
            )
    return active.atoms, active.weights
