"""The Frank-Wolfe loop on a product of domains: several models at once, one step at a time.

The margins of a comparison are those of the sum of the models (blocks) that it belongs to. Each
block is the hull of the atoms, with its own scale, and 0. The gap of a product is the sum of the
gaps of its blocks, so it is certified if each of them is. An iteration steps in one block: the one
of the largest gap, or each in turn. Rules, oracles and active sets are those of ``solver``; the
oracle of a block is asked whenever the block has changed, so blended steps are not lazy.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .active_set import ActiveSet
from .atoms import ZERO, Atom, are_vertices, check_atoms
from .blocks import (
    PRODUCT_TRACE_DTYPE,
    BlockProblem,
    Callback,
    ProductOptions,
    ProductProblem,
    ProductResult,
    ProductState,
)
from .oracle import Exact
from .protocols import Correction, Margins, Move, Oracle, StepRule, Vertex
from .run import EXACT_CHECK_LIMIT, Iterate, Run
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
from .steps import StepContext, corrective
from .trace import CORRECTION_DTYPE, NO_CORRECTIONS, stepped, steps_of


def product_frank_wolfe(
    problem: ProductProblem,
    make_oracle: Callable[[], Oracle],
    rule: StepRule,
    options: ProductOptions | None = None,
    *,
    rng: np.random.Generator,
    callback: Callback | None = None,
    snapshots: Snapshots | None = None,
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
    snapshots : Snapshots, default=None
        Where a run with the same arguments was, and what takes new snapshots.

    Returns
    -------
    ProductResult

    Raises
    ------
    SnapshotError
        The snapshot is not of a run with these arguments.
    """
    run = _ProductRun(problem, make_oracle, rule, options or ProductOptions(), rng)
    if snapshots is not None and snapshots.latest is not None:
        try:
            state = run.restore(snapshots.latest)
        except ValueError as error:
            raise SnapshotError(str(error)) from None
    else:
        state = run.start()
    try:
        status = run.iterate(state, callback, snapshots)
    except KeyboardInterrupt:  # models are replaced as a whole, so none is half changed
        status = "interrupted"
    return run.finish(state, status)


class _ProductRun(Run[ProductState]):
    """One run: the fixed parts, and the steps that it is made of."""

    problem: ProductProblem
    trace_dtype = PRODUCT_TRACE_DTYPE

    def __init__(
        self,
        problem: ProductProblem,
        make_oracle: Callable[[], Oracle],
        rule: StepRule,
        options: ProductOptions,
        rng: np.random.Generator,
    ) -> None:
        super().__init__(problem, rng)
        self.rule, self.options = rule, options
        self.oracles = [make_oracle() for _ in range(problem.n_blocks)]
        self.checkers = [Exact() for _ in range(problem.n_blocks)]
        self.gaps = np.full(problem.n_blocks, np.inf)  # the newest of each block
        self.known: list[StepContext | None] = [None] * problem.n_blocks

    def margins(self, models: tuple[ActiveSet, ...]) -> Margins:
        return self.problem.margins(models)

    def start(self) -> ProductState:
        iterate = Iterate(0, (ActiveSet.of(ZERO),) * self.problem.n_blocks)
        return ProductState(self.problem, iterate, *self.measured(iterate.models))

    def iterate(
        self, state: ProductState, callback: Callback | None, snapshots: Snapshots | None
    ) -> str:
        """Iterate until something ends the run; return what."""
        while True:
            if snapshots is not None:
                snapshots.save(lambda: self.snapshot(state))
            block, context = self.choose(state)
            status, is_exact = None, False
            if float(self.gaps.sum()) <= self.options.tol:
                status, is_exact, best = self.check(state)
                block, context = best or (block, context)
            self.record_gaps(state, is_exact)
            stop = callback is not None and bool(callback(state))
            if status is not None:
                return status
            if stop:
                return "callback"
            if state.n_iter >= self.options.max_iter:
                return "max_iter"
            context.margins = state.margins  # not before: a context may outlive its margins
            moved = self.take(state, block, self.rule(context))
            context.margins = None
            self.idle = 0 if moved else self.idle + 1
            if self.idle > 2 * self.problem.n_blocks:
                self.record_gaps(state, False)
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
        context = self.context(state, block, oracle)
        context.scores  # noqa: B018
        if self.rule is corrective:  # the gap below would ask for one vertex only
            context.vertices  # noqa: B018
        self.known[block] = context
        return context

    def context(self, state: ProductState, block: int, oracle: Oracle) -> StepContext:
        """Return the context of a block, of which nothing is known yet."""
        problem: Any = BlockProblem(self.problem, block)
        gradient = self.problem.gradient(state.margins, block)
        return StepContext(
            problem, state.active[block], None, gradient, oracle, self.rng, self.options.tol, np.inf
        )

    def check(self, state: ProductState) -> tuple[str | None, bool, tuple[int, StepContext] | None]:
        """Search every block exactly where the gap is small; return how the run ends, if it does.

        Where it goes on, what the search found comes back too: the block of the largest gap.
        """
        if state.n_iter < self.next_check:
            return None, False, None
        if self.problem.exact_search_cost() > EXACT_CHECK_LIMIT:
            return "gap_not_certified", False, None
        self.count_check(state)
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
        if step is not None and self.rises(state, step):
            step = None
        return self.follow(state, move, step, block)

    def record_gaps(self, state: ProductState, is_exact: bool) -> None:
        """Add the record of the current models, with the sum of the gaps of their blocks."""
        certified = all(oracle.certifies for oracle in self.oracles)
        is_exact = is_exact or (certified and self.options.order == "largest")
        self.record(state, float(self.gaps.sum()), is_exact)

    def line(self, state: ProductState) -> tuple:
        """Return the record of the current models, with the block of the step."""
        objective, gap, *rest = super().line(state)
        return objective, gap if np.isfinite(gap) else np.nan, *rest, state.iterate.block

    def finish(self, state: ProductState, status: str) -> ProductResult:
        """Return the models in the user's feature numbers, with an objective free of drift."""
        self.rebuild(state)
        if len(state.records) <= state.n_iter:  # interrupted before the step's record
            self.gaps[:] = np.nan
            self.record_gaps(state, False)
        trace, corrections = self.tables(state)
        return ProductResult(
            blocks=state.blocks,
            objective=state.objective,
            gap=float(trace["gap"][-1]),
            gap_is_exact=state.gap_is_exact,
            n_iter=state.n_iter,
            status=status,
            trace=trace,
            n_exact_checks=self.n_checks,
            corrections=corrections,
        )

    # --- snapshots -------------------------------------------------------------------------------

    def remembering(self) -> Iterator[tuple[str, Oracle, BlockProblem]]:
        """Yield the oracles and checkers, each with its name in a snapshot and its block."""
        for name, oracles in (("oracle", self.oracles), ("checker", self.checkers)):
            for block, oracle in enumerate(oracles):
                yield f"{name}{block}", oracle, BlockProblem(self.problem, block)

    def snapshot(self, state: ProductState) -> Arrays:
        """Return all that the rest of the run depends on, between two iterations."""
        corrections = self.corrections(state)
        sizes = list(map(len, state.active))
        blocks = np.repeat(np.arange(len(sizes)), sizes)
        counts = [state.n_iter, self.idle, self.n_checks, self.next_check, self.wait]
        return {
            **({"corrections": corrections} if len(corrections) else {}),
            "atoms": np.column_stack([blocks, np.vstack([own.atoms for own in state.active])]),
            "weights": np.concatenate([own.weights for own in state.active]),
            "zero": np.array([own.zero for own in state.active], dtype=np.float64),
            "gaps": self.gaps.copy(),
            "trace": np.array([*state.records, self.line(state)], dtype=PRODUCT_TRACE_DTYPE),
            "floats": np.array([state.drift, time.perf_counter() - self.began]),
            "counts": np.array(counts),
            "random": generator_state(self.rng),
            **self.known_snapshot(state),
            **nested(problem=self.problem.snapshot(state.margins)),
            **nested(**{name: oracle.snapshot() for name, oracle, _ in self.remembering()}),
        }

    def known_snapshot(self, state: ProductState) -> Arrays:
        """Return the answers of oracles about blocks that have not changed since, as arrays."""
        known = [
            (block, context)
            for block, context in enumerate(self.known)
            if context is not None
            and context.active is state.active[block]
            and context.gradient is self.problem.gradient(state.margins, block)
        ]
        answers = [
            (k, *vertex.atom, vertex.score)
            for k, (_, context) in enumerate(known)
            for vertex in (context.vertex, *context.__dict__.get("vertices", ()))
        ]
        numbers = [(b, int(context.oracle is self.checkers[b])) for b, context in known]
        return {
            "known": np.array(numbers, dtype=np.int64).reshape(-1, 2),
            "known_scores": np.concatenate([np.empty(0), *(of.scores for _, of in known)]),
            "answers": np.array([a[:4] for a in answers], dtype=np.int64).reshape(-1, 4),
            "answer_scores": np.array([a[4] for a in answers], dtype=np.float64),
        }

    def restore(self, snapshot: Arrays) -> ProductState:
        """Return the state of a snapshot of a run on the same problem.

        A snapshot may come from a file that anybody wrote, and compiled loops trust the numbers in
        it: each part checks its own.
        """
        n_blocks, n_features = self.problem.n_blocks, self.problem.n_features
        own = outside_parts(snapshot, "problem", *(name for name, _, _ in self.remembering()))
        check_arrays(
            own,
            {
                "atoms": (np.int64, (-1, 4)),
                "weights": (np.float64, (len(own.get("atoms", ())),)),
                "zero": (np.float64, (n_blocks,)),
                "gaps": (np.float64, (n_blocks,)),
                "trace": (PRODUCT_TRACE_DTYPE, (-1,)),
                "floats": (np.float64, (2,)),
                "counts": (np.int64, (5,)),
                "random": (np.uint8, (-1,)),
                "known": (np.int64, (-1, 2)),
                "known_scores": (np.float64, (-1,)),
                "answers": (np.int64, (-1, 4)),
                "answer_scores": (np.float64, (len(own.get("answers", ())),)),
            },
            {"corrections": (CORRECTION_DTYPE, (-1,))},
        )
        n_iter, *counts = own["counts"].tolist()
        self.restore_counts(*counts)
        iterate, records = self.restore_path(own, _active_sets(own, n_features), n_iter)
        blocks = own["trace"]["block"]
        if not ((blocks >= 0) & (blocks < n_blocks)).all():
            raise ValueError("the trace names a block that does not exist.")
        if np.isnan(own["floats"]).any() or np.isnan(own["gaps"]).any():
            raise ValueError("'floats' or 'gaps' has a value that is not a number.")
        for name, oracle, problem in self.remembering():
            oracle.restore(part_of(snapshot, name), problem)  # type: ignore[arg-type]
        margins = self.problem.restore(part_of(snapshot, "problem"))
        self.gaps = own["gaps"].copy()
        drift, seconds = own["floats"].tolist()
        self.began -= seconds
        state = ProductState(
            self.problem,
            iterate._replace(block=int(blocks[-1])),
            margins,
            float(own["trace"]["objective"][-1]),
            self.problem.largest_margin(margins),
            drift=drift,
            records=records,
        )
        self.restore_known(own, state)
        set_generator_state(self.rng, own["random"])
        return state

    def restore_known(self, arrays: Arrays, state: ProductState) -> None:
        """Remember the answers of oracles; raise ValueError where the arrays are none."""
        blocks, kinds = arrays["known"].T
        good = ((blocks >= 0) & (blocks < len(self.known))).all() and np.isin(kinds, (0, 1)).all()
        if not good or len(np.unique(blocks)) != len(blocks):
            raise ValueError("'known' has a block that does not exist.")
        ends = np.cumsum([len(state.active[block]) for block in blocks.tolist()])
        if len(arrays["known_scores"]) != (ends[-1] if len(ends) else 0):
            raise ValueError("'known_scores' does not fit the atoms.")
        of, answers = arrays["answers"][:, 0], arrays["answers"][:, 1:]
        if not are_vertices(answers.T, self.problem.n_features).all():
            raise ValueError("'answers' has an atom that does not exist.")
        if not np.array_equal(np.unique(of), np.arange(len(blocks))) or (np.diff(of) < 0).any():
            raise ValueError("'answers' does not fit what is known.")
        scores = np.split(arrays["known_scores"], ends[:-1]) if len(ends) else []
        for k, (block, kind) in enumerate(arrays["known"].tolist()):
            oracle: Oracle = self.checkers[block] if kind else self.oracles[block]
            vertex, *others = (
                Vertex(float(score), Atom(*atom))
                for atom, score in zip(
                    answers[of == k].tolist(), arrays["answer_scores"][of == k], strict=True
                )
            )
            context = self.context(state, block, oracle)
            context.scores, context.vertex, context.asked = scores[k], vertex, True
            if others:
                context.vertices = others
            self.known[block] = context


def _active_sets(arrays: Arrays, n_features: int) -> tuple[ActiveSet, ...]:
    """Return the models of a snapshot; raise ValueError where the arrays are none."""
    block, atoms, weights = arrays["atoms"][:, 0], arrays["atoms"][:, 1:], arrays["weights"]
    sets = []
    for k, zero in enumerate(arrays["zero"].tolist()):
        own = block == k
        check_atoms(atoms[own], weights[own], n_features)
        total = float(weights[own].sum()) + zero
        if not (zero >= 0.0 and abs(total - 1.0) <= 1e-9):
            raise ValueError(f"the weights of block {k} sum to {total!r}, expected 1.")
        sets.append(ActiveSet(atoms[own], weights[own], zero))
    if sum(map(len, sets)) != len(block):
        raise ValueError("'atoms' names a block that does not exist.")
    return tuple(sets)


def replay_product(
    trace: np.ndarray, n_iter: int, n_blocks: int, corrections: np.ndarray = NO_CORRECTIONS
) -> list[ActiveSet]:
    """Return the models after `n_iter` iterations, one per block, from the steps alone."""
    active = [ActiveSet.of(ZERO)] * n_blocks
    for step, changed in steps_of(trace, n_iter, corrections):
        block = int(step["block"])
        active[block] = stepped(active[block], step, changed)
    return active
