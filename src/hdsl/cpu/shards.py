"""A problem made of problems: comparisons dealt out to shards, sums added in shard order.

A shard is a problem of its own, with its comparisons and the rows that these name. Margins are a
tuple, one handle per shard. Everything that is additive over comparisons is asked of each shard and
added up; the rest follows from that. The number of shards is fixed by the data, so results do not
depend on where the shards are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, reduce
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..solver.protocols import Gradient, Layout, Loss, Move, Problem, Statistics, Step
from ..solver.snapshot import Arrays, nested, part_of
from .comparisons import Comparisons, make_comparisons
from .corrective import Sample, choose_sample, share_sample
from .layout import CPULayout
from .problem import CPUProblem
from .rows import Rows
from .statistics import statistics
from .workers import Workers

#: Margins of a sharded problem.
Handles = tuple[Any, ...]


#: The comparisons of a shard, and their weights relative to the largest of all, or None.
Shard = tuple[Comparisons, np.ndarray | None]


def make_shard(whole: CPULayout, chosen: np.ndarray) -> Shard:
    """Return some comparisons of a layout, by rising numbers, with the rows that they name."""
    of = whole.comparisons
    part = np.column_stack([column[chosen] for column in of.columns])
    rows, numbers = np.unique(part, return_inverse=True)
    omega = of.omega[chosen] if of.omega_step else float(of.omega[0])
    own = Rows(of.rows.matrix[rows], of.workers)
    comparisons = make_comparisons(own, numbers.reshape(part.shape), omega)
    return comparisons, None if whole.weights is None else whole.weights[chosen]


class ShardedLayout(Layout):
    """Shards in one process: ranges of the comparisons, sorted by anchor, none cut in two.

    Parameters
    ----------
    X : csr_array of shape (n_rows, n_columns), float64
    compared : ndarray of shape (n, 3) or (n, 4)
    weights : ndarray of shape (n,), default=None
    workers : Workers
    n_shards : int, default=2
        There are fewer where there are fewer anchors.
    """

    def __init__(
        self,
        X: sp.csr_array,
        compared: np.ndarray,
        weights: np.ndarray | None = None,
        *,
        workers: Workers,
        n_shards: int = 2,
    ) -> None:
        whole = CPULayout(X, compared, weights, workers=workers)
        self.features, self.n_features = whole.features, whole.n_features
        of = whole.comparisons
        self._rows = of.rows
        begins = np.flatnonzero(np.diff(of.anchors, prepend=-1))  # where an anchor begins
        wanted = np.arange(1, n_shards) * of.n_comparisons // n_shards
        cuts = begins[np.minimum(np.searchsorted(begins, wanted), len(begins) - 1)]
        bounds = np.unique([0, *cuts, of.n_comparisons])
        self._shards: list[Shard] = []
        self._samples: list[Sample] = []
        chosen, share = choose_sample(of)
        n = of.rows.n_rows
        keys = of.pairs.a[chosen] * np.int64(n) + of.pairs.b[chosen]
        for first, last in pairwise(bounds):
            shard = make_shard(whole, np.arange(first, last))
            names = np.unique(np.column_stack([column[first:last] for column in of.columns]))
            self._shards.append(shard)
            self._samples.append(share_sample(shard[0], names, n, keys, share))

    def statistics(self) -> Statistics:
        """Return what an automatic scale and prior are chosen by."""
        return statistics(self._rows, self._shards)

    def problem(self, loss: Loss, scale: float, prior: float = 0.0) -> ShardedProblem:
        """Return the problem of a loss, a scale and a prior."""
        given = self.features, loss, scale, prior
        pairs = zip(self._shards, self._samples, strict=True)
        return ShardedProblem([CPUProblem(part, *given, sample) for (part, _), sample in pairs])


class ShardedProblem(Problem):
    """The sum of the problems of the shards, which share the numbers of the features.

    Parameters
    ----------
    shards : list of Problem
        Their weights sum to 1 over all shards.
    """

    def __init__(self, shards: Sequence[Problem]) -> None:
        self.shards = list(shards)
        self.n_features = shards[0].n_features
        self.n_comparisons = sum(shard.n_comparisons for shard in shards)
        self._bounds = np.cumsum([0, *(shard.n_comparisons for shard in shards)])

    def _each(self, ask: Callable[..., Any], *handles: Handles) -> Handles:
        """Ask every shard, in order."""
        return tuple(ask(shard, *own) for shard, *own in zip(self.shards, *handles, strict=True))

    def margins(self, atoms: np.ndarray, weights: np.ndarray) -> Handles:
        """Return the margins of a combination of atoms, from scratch."""
        return self._each(lambda shard: shard.margins(atoms, weights))

    def value(self, margins: Handles) -> float:
        """Return the mean loss."""
        return sum(self._each(lambda shard, own: shard.value(own), margins))

    def largest_margin(self, margins: Handles) -> float:
        """Return the largest absolute margin."""
        return max(self._each(lambda shard, own: shard.largest_margin(own), margins))

    def direction(self, margins: Handles, move: Move) -> Handles:
        """Return how margins change along a move."""
        return self._each(lambda shard, own: shard.direction(own, move), margins)

    def slopes(
        self, margins: Handles, direction: Handles, step_sizes: Sequence[float]
    ) -> np.ndarray:
        """Return the first two derivatives of the value at each step size, shape (n, 2)."""
        ask = lambda shard, own, way: shard.slopes(own, way, step_sizes)  # noqa: E731
        return reduce(np.add, self._each(ask, margins, direction))

    def advance(self, margins: Handles, direction: Handles, step_size: float) -> Step:
        """Return the step of this size."""
        ask = lambda shard, own, way: shard.advance(own, way, step_size)  # noqa: E731
        steps = self._each(ask, margins, direction)
        return Step(
            tuple(step.margins for step in steps),
            step_size,
            sum(step.value for step in steps),
            max(step.largest_margin for step in steps),
        )

    def curvature(self, margins: Handles, atoms: np.ndarray) -> np.ndarray:
        """Return the second derivatives of the value in the weights of the atoms."""
        return reduce(np.add, self._each(lambda shard, own: shard.curvature(own, atoms), margins))

    def shift(self, atoms: np.ndarray, change: np.ndarray) -> Handles:
        """Return how margins change where the weights of atoms change."""
        return self._each(lambda shard: shard.shift(atoms, change))

    def gradient(
        self,
        margins: Handles,
        batch: np.ndarray | None = None,
        batch_weight: float | None = None,
    ) -> ShardedGradient:
        """Return the gradient over all comparisons, or over a batch of them (rising numbers)."""
        if batch is None:
            parts = self._each(lambda shard, own: shard.gradient(own), margins)
            return ShardedGradient(parts, tuple(range(len(parts))))
        if batch_weight is None:
            batch_weight = self.weight_of(batch)
        dealt = self._dealt(batch)
        parts = tuple(
            self.shards[k].gradient(margins[k], own, batch_weight) for k, own in dealt.items()
        )
        return ShardedGradient(parts, tuple(dealt))

    def weight_of(self, batch: np.ndarray) -> float:
        """Return the weight of a batch, as `batch_weight` counts it."""
        return sum(self.shards[k].weight_of(own) for k, own in self._dealt(batch).items())

    def _dealt(self, batch: np.ndarray) -> dict[int, np.ndarray]:
        """Return the comparisons of a batch by the shards that have some."""
        parts = np.split(batch, np.searchsorted(batch, self._bounds[1:-1]))
        starts = self._bounds[:-1]
        return {k: own - starts[k] for k, own in enumerate(parts) if len(own)}

    def exact_search_cost(self) -> float:
        """Return the number of multiplications of a search of all pairs of features."""
        return sum(self._each(lambda shard: shard.exact_search_cost()))

    def to_user(self, atoms: np.ndarray) -> np.ndarray:
        """Return atoms in the feature numbers of the user's X; (-1, -1, 0) stays."""
        return self.shards[0].to_user(atoms)

    def from_user(self, atoms: np.ndarray) -> np.ndarray:
        """Return atoms in the problem's own feature numbers."""
        return self.shards[0].from_user(atoms)

    def snapshot(self, margins: Handles) -> Arrays:
        """Return the snapshots of the shards, under their numbers."""
        parts = self._each(lambda shard, own: shard.snapshot(own), margins)
        return nested(**{str(k): part for k, part in enumerate(parts)})

    def restore(self, arrays: Mapping[str, np.ndarray]) -> Handles:
        """Return the margins of a snapshot."""
        return self._each(lambda shard, own: shard.restore(own), _parts(arrays, len(self.shards)))

    def restore_gradient(self, arrays: Mapping[str, np.ndarray]) -> ShardedGradient:
        """Return the gradient of a snapshot."""
        own = _parts(arrays, len(self.shards))
        parts = self._each(lambda shard, part: shard.restore_gradient(part), own)
        return ShardedGradient(parts, tuple(range(len(parts))))


def _parts(arrays: Mapping[str, np.ndarray], n_shards: int) -> Handles:
    """Return the arrays of each shard; raise ValueError for any other."""
    names = {str(k) for k in range(n_shards)}
    odd = sorted(name for name in arrays if name.partition(".")[0] not in names)
    if odd:
        raise ValueError(f"{odd[0]!r} belongs to no shard: there are {n_shards}.")
    return tuple(part_of(arrays, str(k)) for k in range(n_shards))


class ShardedGradient(Gradient):
    """The sum of the gradients of the shards.

    Parameters
    ----------
    parts : tuple of Gradient
    shards : tuple of int
        The shards they come from: a batch need not have comparisons of all.
    """

    def __init__(self, parts: tuple[Gradient, ...], shards: tuple[int, ...]) -> None:
        self.parts, self.shards = parts, shards
        self.scale, self.n_features = parts[0].scale, parts[0].n_features
        self.covers_all = parts[0].covers_all

    @cached_property
    def diagonal(self) -> np.ndarray:
        """C_jj of every feature."""
        return reduce(np.add, (part.diagonal for part in self.parts))

    def rows(self, features: np.ndarray) -> np.ndarray:
        """Return the rows of S for a few features, shape (len(features), n_features)."""
        return reduce(np.add, (part.rows(features) for part in self.parts))

    def entries(self, atoms: np.ndarray) -> np.ndarray:
        """Return S_ij for each atom."""
        return reduce(np.add, (part.entries(atoms) for part in self.parts))

    def dot(self, margins: Handles) -> float:
        """Return ⟨M, -∇f⟩ for the model with these margins."""
        return sum(part.dot(margins[k]) for part, k in zip(self.parts, self.shards, strict=True))

    def drift_since(self, other: ShardedGradient) -> np.ndarray:
        """Return for each feature i a bound of |S_ij - S_ij of the other gradient| over all j."""
        both = zip(self.parts, other.parts, strict=True)
        return reduce(np.add, (part.drift_since(its) for part, its in both))

    @property
    def rounding(self) -> float:
        """How far rounding may move an entry of C or S."""
        return sum(part.rounding for part in self.parts)

    def is_zero(self) -> bool:
        """Return whether all slopes are zero."""
        return all(part.is_zero() for part in self.parts)

    def snapshot(self) -> Arrays:
        """Return the snapshots of the shards' gradients, under their numbers."""
        return nested(**{str(k): part.snapshot() for k, part in enumerate(self.parts)})
