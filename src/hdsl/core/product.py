"""The Frank-Wolfe loop on a product of domains: several models at once, one step at a time.

The margins of a comparison are those of the sum of the models (blocks) that it belongs to. Each
block is the hull of the atoms, with its own scale, and 0. The gap of a product is the sum of the
gaps of its blocks, so it is certified if each of them is. An iteration steps in one block: the one
of the largest gap, or each in turn. Rules, oracles and active sets are those of ``solver``; the
oracle of a block is asked whenever the block has changed, so blended steps are not lazy.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

from .active_set import ActiveSet
from .atoms import ZERO
from .oracle import Exact
from .protocols import Correction, Gradient, Margins, Move, Oracle, Step, StepRule
from .solver import DRIFT_LIMIT, EXACT_CHECK_LIMIT, RISE_LIMIT
from .steps import StepContext, corrective
from .trace import (
    NO_ATOM,
    NO_CORRECTIONS,
    TRACE_DTYPE,
    correction_records,
    stepped,
    steps_of,
)

#: A record of ``trace.TRACE_DTYPE``, and the block of the step.
PRODUCT_TRACE_DTYPE = np.dtype([*TRACE_DTYPE.descr, ("block", "i8")])

#: How the block of a step is chosen.
ORDERS = ("largest", "cyclic")


class ProductProblem(Protocol):
    """Mean loss of the margins of a sum of blocks; margins are a handle, as in ``Problem``.

    Attributes
    ----------
    n_features, n_blocks : int
    """

    n_features: int
    n_blocks: int

    @abstractmethod
    def margins(self, blocks: Sequence[ActiveSet]) -> Margins:
        """Return the margins of one model per block, from scratch."""

    @abstractmethod
    def value(self, margins: Margins) -> float:
        """Return the mean loss."""

    @abstractmethod
    def largest_margin(self, margins: Margins) -> float:
        """Return the largest absolute margin."""

    @abstractmethod
    def gradient(self, margins: Margins, block: int) -> Gradient:
        """Return the gradient in one block; the same object where it has not changed."""

    @abstractmethod
    def curvature(self, margins: Margins, block: int, atoms: np.ndarray) -> np.ndarray:
        """Return the second derivatives of the value in the weights of atoms of one block."""

    @abstractmethod
    def step(self, margins: Margins, block: int, move: Move | Correction) -> Step | None:
        """Return the best step along a move in one block; None for no step."""

    @abstractmethod
    def exact_search_cost(self) -> float:
        """Return the number of multiplications of an exact search in every block."""

    @abstractmethod
    def to_user(self, atoms: np.ndarray) -> np.ndarray:
        """Return atoms in the feature numbers of the user's X; (-1, -1, 0) stays."""


@dataclass(frozen=True)
class ProductOptions:
    """How a run goes.

    Parameters
    ----------
    order : {"largest", "cyclic"}, default="largest"
        The block of the next step: that of the largest gap, or each in turn.
    max_iter : int, default=1000
    tol : float, default=1e-3
        Stop when the sum of the gaps is at most this.
    """

    order: str = "largest"
    max_iter: int = 1000
    tol: float = 1e-3


@dataclass(frozen=True)
class ProductResult:
    """What a run learned, one model per block, in the feature numbers of the user's X."""

    blocks: tuple[tuple[np.ndarray, np.ndarray], ...]
    objective: float
    gap: float
    gap_is_exact: bool
    n_iter: int
    status: str
    trace: np.ndarray
    n_exact_checks: int = 0
    corrections: np.ndarray = field(default_factory=NO_CORRECTIONS.copy)


class BlockProblem(NamedTuple):
    """What a step rule asks the problem of its own block."""

    problem: ProductProblem
    block: int

    def curvature(self, margins: Margins, atoms: np.ndarray) -> np.ndarray:
        """Return the second derivatives of the value in the weights of the atoms."""
        return self.problem.curvature(margins, self.block, atoms)


class ProductIterate(NamedTuple):
    """The models, and the step that led to them; replaced as a whole, never in part."""

    n_iter: int
    active: tuple[ActiveSet, ...]
    block: int = 0
    move: Move | Correction | None = None
    step_size: float = 1.0
    drop: bool = False
    corrections: tuple[np.ndarray, ...] = ()  # so far, one table per iteration


@dataclass
class ProductState:
    """Everything that moves. Callbacks read it and do not change it."""

    iterate: ProductIterate
    margins: Margins
    objective: float
    problem: ProductProblem
    largest_margin: float
    gap: float = np.inf
    gap_is_exact: bool = False
    seconds: float = 0.0
    drift: float = 0.0
    records: list[tuple] = field(default_factory=list)

    @property
    def n_iter(self) -> int:
        """Number of iterations so far."""
        return self.iterate.n_iter

    @property
    def active(self) -> tuple[ActiveSet, ...]:
        """The models, in the problem's feature numbers."""
        return self.iterate.active

    @property
    def blocks(self) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
        """Atoms, in the user's feature numbers, and weights of each block."""
        return tuple((self.problem.to_user(own.atoms), own.weights) for own in self.active)


Callback = Callable[[ProductState], bool | None]


def product_frank_wolfe(
    problem: ProductProblem,
    make_oracle: Callable[[], Oracle],
    rule: StepRule,
    options: ProductOptions | None = None,
    *,
    rng: np.random.Generator,
    callback: Callback | None = None,
) -> ProductResult:
    """Minimise the problem's value over one model per block, from 0.

    Parameters
    ----------
    problem : ProductProblem
    make_oracle : callable
        Makes an oracle; each block has its own, which remembers.
    rule : callable
        One of ``steps.RULES``. A correction changes the weights of one block.
    options : ProductOptions, default=None
    rng : numpy.random.Generator
    callback : callable, default=None
        Called with the state of each model, before the step from it; True stops the run.

    Returns
    -------
    ProductResult
    """
    run = _ProductRun(problem, make_oracle, rule, options or ProductOptions(), rng)
    state = run.start()
    try:
        status = run.iterate(state, callback)
    except KeyboardInterrupt:  # models are replaced as a whole, so none is half changed
        status = "interrupted"
    return run.finish(state, status)


class _ProductRun:
    """One run: the fixed parts, and the steps that it is made of."""

    def __init__(
        self,
        problem: ProductProblem,
        make_oracle: Callable[[], Oracle],
        rule: StepRule,
        options: ProductOptions,
        rng: np.random.Generator,
    ) -> None:
        self.problem, self.rule, self.options, self.rng = problem, rule, options, rng
        self.oracles = [make_oracle() for _ in range(problem.n_blocks)]
        self.checkers = [Exact() for _ in range(problem.n_blocks)]
        self.gaps = np.full(problem.n_blocks, np.inf)  # the newest of each block
        self.known: list[StepContext | None] = [None] * problem.n_blocks
        self.n_checks, self.next_check, self.wait, self.idle = 0, 0, 1, 0
        self.began = time.perf_counter()

    def start(self) -> ProductState:
        iterate = ProductIterate(0, (ActiveSet.of(ZERO),) * self.problem.n_blocks)
        margins = self.problem.margins(iterate.active)
        value, largest = self.problem.value(margins), self.problem.largest_margin(margins)
        return ProductState(iterate, margins, value, self.problem, largest)

    def iterate(self, state: ProductState, callback: Callback | None) -> str:
        """Iterate until something ends the run; return what."""
        while True:
            block, context = self.choose(state)
            status, is_exact = None, False
            if float(self.gaps.sum()) <= self.options.tol:
                status, is_exact, best = self.check(state)
                block, context = best or (block, context)
            self.record(state, is_exact)
            stop = callback is not None and bool(callback(state))
            if status is not None:
                return status
            if stop:
                return "callback"
            if state.n_iter >= self.options.max_iter:
                return "max_iter"
            moved = self.take(state, block, self.rule(context))
            self.idle = 0 if moved else self.idle + 1
            if self.idle > 2 * self.problem.n_blocks:
                self.record(state, False)
                return "stalled"

    def choose(self, state: ProductState) -> tuple[int, StepContext]:
        """Return the block of the next step, and what is known there."""
        if self.options.order == "cyclic":
            block = state.n_iter % self.problem.n_blocks
            context = self.asked(state, block, self.oracles[block])
            self.gaps[block] = context.gap
            return block, context
        contexts = [self.asked(state, block, oracle) for block, oracle in enumerate(self.oracles)]
        self.gaps[:] = [context.gap for context in contexts]
        # A block whose last step went nowhere must not hold up the others.
        order = np.argsort(-self.gaps, kind="stable")
        block = int(order[self.idle % len(order)])
        return block, contexts[block]

    def asked(self, state: ProductState, block: int, oracle: Oracle) -> StepContext:
        """Return the context of a block, scores first: the vertex is then at least as good.

        A step in another block may leave a block as it was: what is known there still holds.
        """
        active, gradient = state.active[block], self.problem.gradient(state.margins, block)
        known = self.known[block]
        same = (active, gradient, oracle)
        if known is not None and all(
            one is other
            for one, other in zip((known.active, known.gradient, known.oracle), same, strict=True)
        ):
            return known
        problem: Any = BlockProblem(self.problem, block)
        context = StepContext(
            problem, active, state.margins, gradient, oracle, self.rng, self.options.tol, np.inf
        )
        context.scores  # noqa: B018
        if self.rule is corrective:  # the gap below would ask for one vertex only
            context.vertices  # noqa: B018
        self.known[block] = context
        return context

    def check(self, state: ProductState) -> tuple[str | None, bool, tuple[int, StepContext] | None]:
        """Search every block exactly where the gap is small; return how the run ends, if it does.

        Where it goes on, what the search found comes back too: the block of the largest gap.
        """
        if state.n_iter < self.next_check:
            return None, False, None
        if self.problem.exact_search_cost() > EXACT_CHECK_LIMIT:
            return "gap_not_certified", False, None
        # Each failure doubles the wait, so a run of k iterations makes at most log2(k) + 2 checks.
        self.n_checks += 1
        self.next_check, self.wait = state.n_iter + self.wait, 2 * self.wait
        self.rebuild(state)
        contexts = [
            self.asked(state, block, checker) for block, checker in enumerate(self.checkers)
        ]
        self.gaps[:] = [context.gap for context in contexts]
        if float(self.gaps.sum()) <= self.options.tol:
            return "optimal", True, None
        block = int(np.argmax(self.gaps))
        return None, True, (block, contexts[block])

    def take(self, state: ProductState, block: int, move: Move | Correction) -> bool:
        """Carry out a move in a block; return whether it went anywhere."""
        step = self.problem.step(state.margins, block, move)
        if step is not None and step.value > state.objective * (1.0 + RISE_LIMIT):
            step = None  # rounding is larger than what there is to gain
        before, n_iter, corrections = state.active, state.n_iter + 1, state.iterate.corrections
        if step is None:
            state.iterate = ProductIterate(n_iter, before, block, move, 0.0, False, corrections)
            return False
        own, size, drop = before[block], step.step_size, False
        if isinstance(move, Correction):
            weights = np.concatenate([own.weights, np.zeros(len(move.atoms) - len(own))])
            own = own.corrected(move.atoms, weights + size * move.change)
            corrections += (correction_records(n_iter, before[block], own),)
        else:
            drop = move.away is not None and size >= move.max_step_size
            own = own.moved(move.toward, move.away, size, drop)
        # From here on the models are the new ones, whatever interrupts; the rest can be rebuilt.
        active = (*before[:block], own, *before[block + 1 :])
        state.iterate = ProductIterate(n_iter, active, block, move, size, drop, corrections)
        grown = 1.0 + size if move.toward is None else 1.0
        rounding = 1e-14 if isinstance(move, Correction) else 1e-15  # of many atoms, or of two
        old, new = max(1.0, state.largest_margin), max(1.0, step.largest_margin)
        state.drift = (state.drift * grown + rounding) * max(1.0, old / new)
        state.margins, state.objective = step.margins, step.value
        state.largest_margin = step.largest_margin
        if state.drift > DRIFT_LIMIT:
            self.rebuild(state)
        return True

    def rebuild(self, state: ProductState) -> None:
        """Compute the margins anew from the atoms, so that rounding does not add up."""
        state.margins = self.problem.margins(state.active)
        state.objective = self.problem.value(state.margins)
        state.largest_margin = self.problem.largest_margin(state.margins)
        state.drift = 0.0

    def record(self, state: ProductState, gap_is_exact: bool) -> None:
        """Add the record of the current models and of the step that led to them."""
        certified = all(oracle.certifies for oracle in self.oracles)
        is_exact = gap_is_exact or (certified and self.options.order == "largest")
        state.gap, state.gap_is_exact = float(self.gaps.sum()), is_exact
        state.seconds = time.perf_counter() - self.began
        state.records.append(self.line(state))

    def line(self, state: ProductState) -> tuple:
        """Return the record of the current models."""
        _, _, block, move, size, drop, _ = state.iterate
        kind, toward, away = "start", ZERO, NO_ATOM
        if move is not None:
            kind, toward, away = move.kind, move.toward or NO_ATOM, move.away or NO_ATOM
        features = {f for own in state.active for f in own.atoms[:, :2].ravel().tolist()}
        gap = state.gap if np.isfinite(state.gap) else np.nan
        return (
            state.objective, gap, state.gap_is_exact, kind, size, *toward, *away, drop,
            sum(map(len, state.active)), len(features), state.seconds, np.nan, block,
        )  # fmt: skip

    def finish(self, state: ProductState, status: str) -> ProductResult:
        """Return the models in the user's feature numbers, with an objective free of drift."""
        self.rebuild(state)
        if len(state.records) <= state.n_iter:  # interrupted before the step's record
            self.gaps[:] = np.nan
            self.record(state, False)
        trace = np.array(state.records, dtype=PRODUCT_TRACE_DTYPE)
        corrections = np.concatenate([NO_CORRECTIONS, *state.iterate.corrections])
        for table, prefix in ((trace, ""), (trace, "away_"), (corrections, "")):
            names = [prefix + part for part in ("i", "j", "sign")]
            atoms = self.problem.to_user(np.column_stack([table[name] for name in names]))
            for name, column in zip(names, atoms.T, strict=True):
                table[name] = column
        return ProductResult(
            state.blocks, state.objective, float(trace["gap"][-1]), state.gap_is_exact,
            state.n_iter, status, trace, self.n_checks, corrections,
        )  # fmt: skip


def replay_product(
    trace: np.ndarray, n_iter: int, n_blocks: int, corrections: np.ndarray = NO_CORRECTIONS
) -> list[ActiveSet]:
    """Return the models after `n_iter` iterations, one per block, from the steps alone."""
    active = [ActiveSet.of(ZERO)] * n_blocks
    for step, changed in steps_of(trace, n_iter, corrections):
        block = int(step["block"])
        active[block] = stepped(active[block], step, changed)
    return active
