"""What a run on one domain and a run on a product of domains share.

``solver`` has the loop of the first and ``product`` that of the second. On one domain there is one
model, of block 0.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from .active_set import ActiveSet
from .atoms import ZERO, n_features
from .protocols import Correction, Margins, Move, Step
from .snapshot import Arrays
from .trace import (
    NO_ATOM,
    NO_CORRECTIONS,
    TRACE_DTYPE,
    atom_of,
    check_corrections,
    check_trace,
    correction_records,
)

#: An exact check of a gap that a heuristic oracle claims may cost so many multiplications. Where it
#: would cost more it is left out, and the status says so.
EXACT_CHECK_LIMIT = 2e11

#: Rounding may raise the objective by this share of it in a step; a larger rise is refused.
RISE_LIMIT = 1e-13

#: Margins are computed from scratch when rounding may have moved them by this much, in units of the
#: largest of them or of 1, the margin that losses ask for.
DRIFT_LIMIT = 1e-12


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """How a run went, in the feature numbers of the user's X."""

    objective: float
    gap: float
    gap_is_exact: bool
    n_iter: int
    status: str
    trace: np.ndarray
    n_exact_checks: int = 0
    corrections: np.ndarray = field(default_factory=NO_CORRECTIONS.copy)


class Iterate(NamedTuple):
    """The models, and the step that led to them; replaced as a whole, never in part."""

    n_iter: int
    models: tuple[ActiveSet, ...]  # one per block, in the problem's feature numbers
    block: int = 0  # of the step
    move: Move | Correction | None = None
    step_size: float = 1.0
    drop: bool = False
    corrections: tuple[np.ndarray, ...] = ()  # of this run so far, one table per iteration


@dataclass
class RunState:
    """Everything that moves. Callbacks read it and do not change it."""

    problem: Any
    iterate: Iterate
    margins: Margins
    objective: float
    largest_margin: float
    gap: float = np.nan
    gap_is_exact: bool = False
    seconds: float = 0.0
    drift: float = 0.0
    records: list[tuple] = field(default_factory=list)

    @property
    def n_iter(self) -> int:
        """Number of iterations so far."""
        return self.iterate.n_iter


State = TypeVar("State", bound=RunState)


class Run(Generic[State]):
    """One run of a loop: what it counts, and the parts of an iteration that all loops share."""

    trace_dtype = TRACE_DTYPE

    def __init__(self, problem: Any, rng: np.random.Generator) -> None:
        self.problem, self.rng = problem, rng
        self.began = time.perf_counter()
        self.n_checks, self.next_check, self.wait = 0, 0, 1
        self.idle = 0  # steps of size 0 since the last other one

    @abstractmethod
    def margins(self, models: tuple[ActiveSet, ...]) -> Margins:
        """Return the margins of the models, from scratch."""

    def measured(self, models: tuple[ActiveSet, ...]) -> tuple[Margins, float, float]:
        """Return the margins of the models, from scratch, their value and the largest of them."""
        margins = self.margins(models)
        return margins, self.problem.value(margins), self.problem.largest_margin(margins)

    # --- an iteration ----------------------------------------------------------------------------

    def count_check(self, state: State) -> None:
        """Note that the gap is checked.

        Each failure doubles the wait, so a run of k iterations makes at most log2(k) + 2 checks.
        """
        self.n_checks += 1
        self.next_check, self.wait = state.n_iter + self.wait, 2 * self.wait

    def rises(self, state: State, step: Step) -> bool:
        """Whether a step raises the objective: rounding is larger than what there is to gain."""
        return step.value > state.objective * (1.0 + RISE_LIMIT)

    def follow(
        self, state: State, move: Move | Correction, step: Step | None, block: int = 0
    ) -> bool:
        """Replace the model of a block by that after a step; return whether there is a step."""
        models, corrections, n_iter = state.iterate.models, state.iterate.corrections, state.n_iter
        if step is None:
            state.iterate = Iterate(n_iter + 1, models, block, move, 0.0, False, corrections)
            return False
        size = step.step_size
        own, drop = models[block].after(move, size)
        if isinstance(move, Correction):
            corrections += (correction_records(n_iter + 1, models[block], own),)
        models = (*models[:block], own, *models[block + 1 :])
        # From here on the models are the new ones, whatever interrupts; the rest can be rebuilt.
        state.iterate = Iterate(n_iter + 1, models, block, move, size, drop, corrections)
        # A step of size γ multiplies what rounding has done so far by at most 1 + γ. Drift is
        # relative to the largest margin, and large ones may cancel to much smaller ones.
        grown = 1.0 + size if move.toward is None else 1.0
        rounding = 1e-14 if isinstance(move, Correction) else 1e-15  # of many atoms, or of two
        before, after = max(1.0, state.largest_margin), max(1.0, step.largest_margin)
        state.drift = (state.drift * grown + rounding) * max(1.0, before / after)
        state.margins, state.objective = step.margins, step.value
        state.largest_margin = step.largest_margin
        if state.drift > DRIFT_LIMIT:
            self.rebuild(state)
        return True

    def rebuild(self, state: State) -> None:
        """Compute the margins anew from the atoms, so that rounding does not add up."""
        state.margins, state.objective, state.largest_margin = self.measured(state.iterate.models)
        state.drift = 0.0

    # --- the trace -------------------------------------------------------------------------------

    def record(self, state: State, gap: float, gap_is_exact: bool) -> None:
        """Add the record of the current models and of the step that led to them."""
        state.gap, state.gap_is_exact = float(gap), bool(gap_is_exact)
        state.seconds = time.perf_counter() - self.began
        state.records.append(self.line(state))

    def line(self, state: State) -> tuple:
        """Return the record of the current models."""
        _, models, _, move, size, drop, _ = state.iterate
        if move is None:
            start = models[0][0] if len(models[0]) else ZERO
            kind, toward, away = "start", start, NO_ATOM
        else:
            kind, toward, away = move.kind, move.toward or NO_ATOM, move.away or NO_ATOM
        atoms = np.concatenate([own.atoms for own in models])
        return (
            state.objective, state.gap, state.gap_is_exact, kind, size, *toward, *away, drop,
            len(atoms), n_features(atoms), state.seconds, np.nan,
        )  # fmt: skip

    def corrections(self, state: State) -> np.ndarray:
        """Return the corrections of this run as one table."""
        return np.concatenate([NO_CORRECTIONS, *state.iterate.corrections])

    def tables(self, state: State) -> tuple[np.ndarray, np.ndarray]:
        """Return the trace and the corrections, in the user's feature numbers."""
        trace, corrections = np.array(state.records, self.trace_dtype), self.corrections(state)
        for table, prefix in ((trace, ""), (trace, "away_"), (corrections, "")):
            names = [prefix + part for part in ("i", "j", "sign")]
            atoms = self.problem.to_user(np.column_stack([table[name] for name in names]))
            for name, column in zip(names, atoms.T, strict=True):
                table[name] = column
        return trace, corrections

    # --- snapshots -------------------------------------------------------------------------------

    def restore_counts(self, idle: int, n_checks: int, next_check: int, wait: int) -> None:
        """Take over the counts of a snapshot; raise ValueError where no run has them."""
        if min(idle, n_checks, next_check, wait - 1) < 0:
            raise ValueError("'counts' has a number that is too small.")
        self.idle, self.n_checks, self.next_check, self.wait = idle, n_checks, next_check, wait

    def restore_path(
        self, arrays: Arrays, models: tuple[ActiveSet, ...], n_iter: int, n_before: int = 0
    ) -> tuple[Iterate, list[tuple]]:
        """Return the iterate of a snapshot, and the records of the models before it.

        `n_before` is the number of iterations of the earlier run that it continues. Raise
        ValueError where the trace or the corrections are of no run at iteration `n_iter`.
        """
        trace, corrections = arrays["trace"], arrays.get("corrections", NO_CORRECTIONS)
        check_trace(trace, 0, self.problem.n_features)
        if len(trace) != n_iter - n_before + 1:
            raise ValueError(f"the trace has {len(trace)} lines at iteration {n_iter}.")
        check_corrections(corrections, n_iter + 1, self.problem.n_features)
        *records, last = trace
        move = None
        if last["kind"] != "start":
            move = Move(str(last["kind"]), atom_of(last), atom_of(last, "away_"), np.nan)
        size, drop = float(last["step_size"]), bool(last["drop"])
        iterate = Iterate(n_iter, models, 0, move, size, drop, (corrections,))
        return iterate, [record.item() for record in records]
