"""A problem on a product domain: one model for all comparisons, and one more per region.

The regions are shards, each with the comparisons of its anchors. Block 0 is the model that all
share, and block r + 1 is that of region r. The margins of a comparison are those of the prior, of
block 0 and of its region's block. A block asks problems without prior at its own scale: of all
shards, or of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..solver.active_set import ActiveSet
from ..solver.atoms import NOTHING
from ..solver.blocks import ProductProblem
from ..solver.line_search import line_search
from ..solver.protocols import Correction, Gradient, Loss, Move, Problem, Statistics, Step
from ..solver.snapshot import Arrays, nested, outside_parts, part_of
from .layout import CPULayout
from .problem import CPUProblem
from .shards import Shard, ShardedGradient, ShardedProblem, make_shard
from .statistics import statistics
from .workers import Workers


class RegionLayout:
    """X and triplets of its rows, dealt out by the region of the anchor.

    Parameters
    ----------
    X : csr_array of shape (n_rows, n_columns), float64
    compared : ndarray of shape (n, 3)
    weights : ndarray of shape (n,), default=None
    regions : ndarray of shape (n_rows,) or None
        The region of each row; None for no regions, block 0 alone.
    workers : Workers

    Attributes
    ----------
    numbers : ndarray
        The regions that have comparisons, in the order of their blocks.
    """

    def __init__(
        self,
        X: sp.csr_array,
        compared: np.ndarray,
        weights: np.ndarray | None = None,
        *,
        regions: np.ndarray | None,
        workers: Workers,
    ) -> None:
        whole = CPULayout(X, compared, weights, workers=workers, store_products=False)
        self.features, self.n_features = whole.features, whole.n_features
        self._rows, anchors = whole.comparisons.rows, whole.comparisons.anchors
        region = np.zeros(len(anchors), dtype=np.int64) if regions is None else regions[anchors]
        numbers = np.unique(region)
        self._shards: list[Shard] = [
            make_shard(whole, np.flatnonzero(region == number)) for number in numbers
        ]
        self.numbers = numbers if regions is not None else np.empty(0, dtype=np.int64)

    def statistics(self) -> Statistics:
        """Return what an automatic scale and prior are chosen by."""
        return statistics(self._rows, self._shards)

    def problem(
        self, loss: Loss, scale: float, local_scale: float, prior: float = 0.0
    ) -> RegionProblem:
        """Return the problem of a loss, the scales of the blocks and a prior."""
        parts = [part for part, _ in self._shards]
        shared = [CPUProblem(part, self.features, loss, scale) for part in parts]
        empty = [
            CPUProblem(part, self.features, loss, scale, prior).margins(*NOTHING) for part in parts
        ]
        local = [
            CPUProblem(part, self.features, loss, local_scale)
            for part, _ in zip(parts, self.numbers, strict=False)  # none without regions
        ]
        return RegionProblem(shared, empty, local)


class RegionMargins(NamedTuple):
    """Margins of the sum, and what the blocks add to them; the value and largest of each shard."""

    total: tuple[Any, ...]
    shared: tuple[Any, ...]
    local: tuple[Any, ...]
    values: tuple[float, ...]
    largest: tuple[float, ...]


class RegionProblem(ProductProblem):
    """The mean loss of one shared model and one per region.

    Parameters
    ----------
    shared : list of Problem
        One per shard, at the scale of block 0, without prior. Weights sum to 1 over all shards.
    empty : list of margins
        Of the prior, one per shard.
    local : list of Problem
        One per shard, at the scale of its region, without prior; none where there are no regions.
    """

    def __init__(
        self,
        shared: Sequence[Problem],
        empty: Sequence[Any],
        local: Sequence[Problem],
    ) -> None:
        self.shared, self.empty, self.local = list(shared), list(empty), list(local)
        self.n_features, self.n_blocks = shared[0].n_features, 1 + len(self.local)
        self._gradients: dict[tuple[bool, int], tuple[Any, Gradient]] = {}
        self._sum: ShardedGradient | None = None

    def margins(self, blocks: Sequence[ActiveSet]) -> RegionMargins:
        """Return the margins of one model per block, from scratch."""
        first = blocks[0]
        shared = tuple(problem.margins(first.atoms, first.weights) for problem in self.shared)
        local = tuple(
            problem.margins(own.atoms, own.weights)
            for problem, own in zip(self.local, blocks[1:], strict=True)
        )
        steps = []
        for shard, problem in enumerate(self.shared):
            step = problem.advance(self.empty[shard], shared[shard], 1.0)
            if local:
                step = problem.advance(step.margins, local[shard], 1.0)
            steps.append(step)
        return RegionMargins(
            tuple(step.margins for step in steps), shared, local,
            tuple(step.value for step in steps), tuple(step.largest_margin for step in steps),
        )  # fmt: skip

    def value(self, margins: RegionMargins) -> float:
        """Return the mean loss."""
        return sum(margins.values)

    def largest_margin(self, margins: RegionMargins) -> float:
        """Return the largest absolute margin."""
        return max(margins.largest)

    def gradient(self, margins: RegionMargins, block: int) -> Gradient:
        """Return the gradient in one block; the same object where it has not changed."""
        if block:
            shard = block - 1
            return self._gradient(self.local[shard], margins.total[shard], (True, shard))
        parts = tuple(
            self._gradient(problem, margins.total[shard], (False, shard))
            for shard, problem in enumerate(self.shared)
        )
        if self._sum is None or any(
            one is not other for one, other in zip(parts, self._sum.parts, strict=True)
        ):
            self._sum = ShardedGradient(parts, tuple(range(len(parts))))
        return self._sum

    def _gradient(self, problem: Problem, total: Any, key: tuple[bool, int]) -> Gradient:
        known = self._gradients.get(key)
        if known is not None and known[0] is total:
            return known[1]
        gradient = problem.gradient(total)
        self._gradients[key] = total, gradient
        return gradient

    def _parts(self, block: int) -> tuple[list[Problem], list[int]]:
        """Return the problems that a block asks, and their shards."""
        if block:
            return [self.local[block - 1]], [block - 1]
        return self.shared, list(range(len(self.shared)))

    def curvature(self, margins: RegionMargins, block: int, atoms: np.ndarray) -> np.ndarray:
        """Return the second derivatives of the value in the weights of atoms of one block."""
        parts = zip(*self._parts(block), strict=True)
        return reduce(np.add, (of.curvature(margins.total[shard], atoms) for of, shard in parts))

    def step(self, margins: RegionMargins, block: int, move: Move | Correction) -> Step | None:
        """Return the best step along a move in one block; None for no step."""
        problems, shards = self._parts(block)
        owns = [margins.local[block - 1]] if block else list(margins.shared)
        if isinstance(move, Correction):
            ways = [of.shift(move.atoms, move.change) for of in problems]
        else:
            ways = [of.direction(own, move) for of, own in zip(problems, owns, strict=True)]

        def slopes(size: float) -> tuple[float, float]:
            found = [
                problem.slopes(margins.total[shard], way, [size])[0]
                for problem, shard, way in zip(problems, shards, ways, strict=True)
            ]
            first, second = np.sum(found, axis=0).tolist()
            return first, second

        size = line_search(slopes, move.max_step_size)
        if size <= 0.0:
            return None
        total, values, largest = list(margins.total), list(margins.values), list(margins.largest)
        shared, local = list(margins.shared), list(margins.local)
        for problem, shard, way, own in zip(problems, shards, ways, owns, strict=True):
            moved = problem.advance(total[shard], way, size)
            total[shard], values[shard] = moved.margins, moved.value
            largest[shard] = moved.largest_margin
            share = problem.advance(own, way, size).margins
            if block:
                local[block - 1] = share
            else:
                shared[shard] = share
        after = RegionMargins(*map(tuple, (total, shared, local, values, largest)))
        return Step(after, size, self.value(after), self.largest_margin(after))

    def exact_search_cost(self) -> float:
        """Return the number of multiplications of an exact search in every block."""
        return sum(problem.exact_search_cost() for problem in (*self.shared, *self.local))

    def to_user(self, atoms: np.ndarray) -> np.ndarray:
        """Return atoms in the feature numbers of the user's X; (-1, -1, 0) stays."""
        return self.shared[0].to_user(atoms)

    def snapshot(self, margins: RegionMargins) -> Arrays:
        """Return the margins of the sum and of the blocks, by shard."""
        every = ShardedProblem(self.shared)
        local = ShardedProblem(self.local).snapshot(margins.local) if self.local else {}
        return nested(
            total=every.snapshot(margins.total), shared=every.snapshot(margins.shared), local=local
        )

    def restore(self, arrays: Mapping[str, np.ndarray]) -> RegionMargins:
        """Return the margins of a snapshot."""
        odd = sorted(outside_parts(arrays, "total", "shared", *(["local"] if self.local else [])))
        if odd:
            raise ValueError(f"{odd[0]!r} is not known.")
        every = ShardedProblem(self.shared)
        total = every.restore(part_of(arrays, "total"))
        shared = every.restore(part_of(arrays, "shared"))
        local: tuple[Any, ...] = ()
        if self.local:
            local = ShardedProblem(self.local).restore(part_of(arrays, "local"))
        both = [*zip(self.shared, total, strict=True)]
        values = tuple(problem.value(own) for problem, own in both)
        largest = tuple(problem.largest_margin(own) for problem, own in both)
        return RegionMargins(total, shared, local, values, largest)

    def restore_gradient(self, arrays: Mapping[str, np.ndarray], block: int) -> Gradient:
        """Return the gradient of a snapshot."""
        if block:
            return self.local[block - 1].restore_gradient(arrays)
        return ShardedProblem(self.shared).restore_gradient(arrays)
