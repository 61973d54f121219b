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
from .atoms import ZERO, Atom, are_atoms, check_atoms
from .blocks import (
    PRODUCT_TRACE_DTYPE,
    BlockProblem,
    Callback,
    ProductIterate,
    ProductOptions,
    ProductProblem,
    ProductResult,
    ProductState,
)
from .oracle import Exact
from .protocols import Correction, Move, Oracle, StepRule, Vertex
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
from .solver import DRIFT_LIMIT, EXACT_CHECK_LIMIT, RISE_LIMIT
from .steps import StepContext, corrective
from .trace import (
    CORRECTION_DTYPE,
    NO_ATOM,
    NO_CORRECTIONS,
    atom_of,
    check_corrections,
    check_trace,
    correction_records,
    stepped,
    steps_of,
)


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
            self.record(state, is_exact)
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

    # --- snapshots -------------------------------------------------------------------------------

    def remembering(self) -> Iterator[tuple[str, Oracle, BlockProblem]]:
        """Yield the oracles and checkers, each with its name in a snapshot and its block."""
        for name, oracles in (("oracle", self.oracles), ("checker", self.checkers)):
            for block, oracle in enumerate(oracles):
                yield f"{name}{block}", oracle, BlockProblem(self.problem, block)

    def snapshot(self, state: ProductState) -> Arrays:
        """Return all that the rest of the run depends on, between two iterations."""
        corrections = np.concatenate([NO_CORRECTIONS, *state.iterate.corrections])
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
        active = _active_sets(own, n_features)
        trace, corrections = own["trace"], own.get("corrections", NO_CORRECTIONS)
        check_trace(trace, 0, n_features)
        n_iter, idle, n_checks, next_check, wait = own["counts"].tolist()
        if min(idle, n_checks, next_check, wait - 1) < 0:
            raise ValueError("'counts' has a number that is too small.")
        if len(trace) != n_iter + 1:
            raise ValueError(f"the trace has {len(trace)} lines at iteration {n_iter}.")
        if not ((trace["block"] >= 0) & (trace["block"] < n_blocks)).all():
            raise ValueError("the trace names a block that does not exist.")
        check_corrections(corrections, n_iter + 1, n_features)
        if np.isnan(own["floats"]).any() or np.isnan(own["gaps"]).any():
            raise ValueError("'floats' or 'gaps' has a value that is not a number.")
        for name, oracle, problem in self.remembering():
            oracle.restore(part_of(snapshot, name), problem)  # type: ignore[arg-type]
        margins = self.problem.restore(part_of(snapshot, "problem"))
        self.idle, self.n_checks, self.next_check, self.wait = idle, n_checks, next_check, wait
        self.gaps = own["gaps"].copy()
        drift, seconds = own["floats"].tolist()
        self.began -= seconds
        *records, last = trace
        move = None
        if last["kind"] != "start":
            move = Move(str(last["kind"]), atom_of(last), atom_of(last, "away_"), np.nan)
        size, drop = float(last["step_size"]), bool(last["drop"])
        state = ProductState(
            ProductIterate(n_iter, active, int(last["block"]), move, size, drop, (corrections,)),
            margins,
            float(last["objective"]),
            self.problem,
            self.problem.largest_margin(margins),
            drift=drift,
            records=[record.item() for record in records],
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
        is_zero = (answers == ZERO).all(axis=1)
        if not (is_zero | are_atoms(answers.T, self.problem.n_features)).all():
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
