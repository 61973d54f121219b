"""The seam on a cluster: layout, problem and gradient over shards that are futures.

A question is one task per shard. Small answers are added on the client in the order of the shards;
long ones, a number per feature, in a tree of tasks. The order is fixed by the shards alone, so that
the bits do not depend on where they are. Margins are futures too: Dask computes what is lost with a
worker again from its graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from typing import Any
from uuid import uuid4

import numpy as np

from ..cpu.problem import curvature_sample
from ..solver.atoms import ZERO, as_array, positioned, renumbered
from ..solver.protocols import (
    Base,
    Correction,
    Gradient,
    Layout,
    Loss,
    Move,
    Problem,
    Statistics,
    Step,
)
from .shard import At, Setting, add, ask, best_partners

#: A batch whose weights are all zero has this weight.
TINY = 1e-300

#: Sums that one task adds up, and most numbers of the rows of S that one task computes.
FAN_IN, LARGEST_ANSWER = 4, 1 << 21

#: Step sizes of the first question of a line search, in parts of the longest step or of 1.
FIRST_SIZES = np.array([1 / 64, 1 / 16, 1 / 4, 1 / 2, 3 / 4, 1.0])

#: Parts of a bracket that a line search looks at in a round, and the share of the step size within
#: which Newton's method ends: its next error is the square.
INSIDE, CLOSE = np.array([0.25, 0.5, 0.75]), 1e-8


class ClusterError(RuntimeError):
    """The cluster lost what a fit needs: its scheduler, a client, or data that it cannot remake."""


class Places:
    """Where each comparison is: numbered by rising anchors, dealt out by anchors.

    Parameters
    ----------
    counts, shards : ndarray of shape (n_anchors,)
        How many comparisons start from each row that some start from, by rising rows, and its
        shard.
    """

    def __init__(self, counts: np.ndarray, shards: np.ndarray) -> None:
        self.counts, self.shards = counts, shards
        self.n_shards, self.n_comparisons = int(shards.max()) + 1, int(counts.sum())
        self._ends = np.cumsum(counts)
        self._shift = np.empty(len(counts), dtype=np.int64)  # comparisons of other shards before
        for k in range(self.n_shards):
            own = shards == k
            self._shift[own] = np.cumsum(np.where(own, 0, counts))[own]

    def deal(self, numbers: np.ndarray) -> dict[int, np.ndarray]:
        """Return comparisons by shards, in the shards' own numbers."""
        anchor = np.searchsorted(self._ends, numbers, side="right")
        shard, own = self.shards[anchor], numbers - self._shift[anchor]
        return {k: own[shard == k] for k in range(self.n_shards)}

    def join(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        """Return one number per comparison, from those of the shards."""
        whole, shard = np.empty(self.n_comparisons), np.repeat(self.shards, self.counts)
        for k, part in enumerate(parts):
            whole[shard == k] = part
        return whole


class Handle:
    """Margins, or how they change: one future per shard."""

    def __init__(self, layout: DaskLayout, parts: list[Any]) -> None:
        self.parts, self._layout = parts, layout

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        """Return one number per comparison; all of them go to the client."""
        parts = [getattr(part, "margins", part) for part in self._layout.gather(self.parts)]
        return self._layout.places.join(parts).astype(dtype or np.float64)


class DaskLayout(Layout):
    """Rows and comparisons in shards, which are futures of a cluster.

    Parameters
    ----------
    client : distributed.Client
    shards : list of Future
    features : ndarray of shape (n_features,)
        The columns of X that are features, the fullest first.
    places : Places
    sizes : tuple of float
        ‖x‖² of all rows, in the mean, and the weight of the heaviest comparison.

    Attributes
    ----------
    again : callable
        Returns the same layout on shards that are built anew.
    """

    again: Callable[[], DaskLayout]

    def __init__(
        self,
        client: Any,
        shards: Sequence[Any],
        features: np.ndarray,
        places: Places,
        sizes: tuple[float, float],
    ) -> None:
        self.client, self.shards, self.features, self.places = client, shards, features, places
        self.n_features, self._sizes = len(features), sizes

    def statistics(self) -> Statistics:
        """Return what an automatic scale and prior are chosen by."""
        weight, margin, values, own, n_anchors = self.sum(self.ask("statistics")).tolist()
        mean_square, heaviest = self._sizes
        typical = margin / weight or mean_square  # where no two dot products differ
        return Statistics(weight / heaviest, typical, int(n_anchors), values / weight, own / weight)

    def problem(
        self, loss: Loss, scale: float, prior: float = 0.0, base: Base | None = None
    ) -> DaskProblem:
        """Return the problem of a loss, a scale and a prior, perhaps on top of a fixed model."""
        if base is not None:
            base = base._replace(atoms=positioned(base.atoms, self.features))
        return DaskProblem(self, Setting("", loss, float(scale), float(prior), base))

    # --- questions -------------------------------------------------------------------------------

    def ask(
        self, question: str, *columns: Sequence[Any], chosen: Sequence[int] | None = None
    ) -> list[Any]:
        """Return the futures of answers; a column has one argument per shard."""
        shards = [self.shards[k] for k in range(len(self.shards)) if chosen is None or k in chosen]
        return self.client.map(ask, shards, [question] * len(shards), *columns, pure=False)

    def total(self, parts: list[Any]) -> Any:
        """Return the future of a sum, by groups of neighbours."""
        while len(parts) > 1:
            groups = range(0, len(parts), FAN_IN)
            parts = [self.client.submit(add, *parts[k : k + FAN_IN], pure=False) for k in groups]
        return parts[0]

    def gather(self, futures: Any) -> Any:
        """Return the results of futures; raise ClusterError where they cannot be had any more."""
        return gather(self.client, futures)

    def sum(self, futures: list[Any]) -> Any:
        """Return the sum of small answers."""
        return add(*self.gather(futures))


def gather(client: Any, futures: Any) -> Any:
    """Return the results of futures; raise ClusterError where they cannot be had any more."""
    try:
        return client.gather(futures)
    except CancelledError as error:
        raise ClusterError(
            f"The cluster lost what the fit needs ({error}): its scheduler is gone, the client is "
            "closed, or blocks given as futures died with a worker. Give blocks as delayed objects "
            "or as a dask.array, which can be loaded again, and fit again."
        ) from error


class DaskProblem(Problem):
    """Mean loss of margins that are futures, one per shard.

    What is asked next as a rule is asked ahead: a step begins with the gradient at its end.

    Parameters
    ----------
    layout : DaskLayout
    setting : Setting
    """

    def __init__(self, layout: DaskLayout, setting: Setting) -> None:
        self.layout, self.scale = layout, setting.scale
        self.n_features, self.n_comparisons = layout.n_features, layout.places.n_comparisons
        self._setting = setting
        self._cost: float | None = None
        self.forget()

    def forget(self) -> None:
        """Drop all that is remembered from one question to the next."""
        self._setting = self._setting._replace(key=uuid4().hex)
        self.recent = as_array([])  # atoms whose scores were asked last
        self._ahead: tuple[Handle, DaskGradient] | None = None
        self._uses_batches = False

    def _ask(self, question: str, *args: Any, parts: Sequence[Sequence[Any]] = ()) -> list[Any]:
        """Ask all shards; `parts` have one argument per shard, `args` are the same for all."""
        n = len(self.layout.shards)
        columns = [[self._setting] * n, *parts, *([arg] * n for arg in args)]
        return self.layout.ask(question, *columns)

    # --- margins and value -----------------------------------------------------------------------

    def margins(self, atoms: np.ndarray, weights: np.ndarray) -> Handle:
        """Return the margins of a combination of atoms, from scratch."""
        if len(atoms) != len(weights):
            raise ValueError("atoms or weights is shorter than the other.")
        return Handle(self.layout, self._ask("margins", atoms, weights))

    def value(self, margins: Handle) -> float:
        """Return the mean loss."""
        return float(self.layout.sum(self.layout.ask("value", margins.parts)))

    # --- steps -----------------------------------------------------------------------------------

    def direction(self, margins: Handle, move: Move | Correction) -> Handle:
        """Return how margins change along a move, or along a correction of many weights."""
        if isinstance(move, Correction):
            self.recent = move.atoms
        elif move.toward is not None and move.toward != ZERO:
            self.recent = np.unique([*map(tuple, self.recent), move.toward], axis=0)
        return Handle(self.layout, self._ask("direction", move, parts=[margins.parts]))

    def slopes(self, margins: Handle, direction: Handle, step_sizes: Sequence[float]) -> np.ndarray:
        """Return the first two derivatives of the value at each step size, shape (n, 2)."""
        parts = [margins.parts, direction.parts]
        return self.layout.sum(self._ask("slopes", np.array(step_sizes), parts=parts))

    def advance(self, margins: Handle, direction: Handle, step_size: float) -> Step:
        """Return the step of this size."""
        parts = [margins.parts, direction.parts]
        there = Handle(self.layout, self._ask("advance", float(step_size), parts=parts))
        if not self._uses_batches:
            self._ahead = there, DaskGradient(self, self._setting, there)
        return Step(there, step_size, self.value(there))

    def step(self, margins: Handle, move: Move | Correction) -> Step | None:
        """Return the best step along a move; None for no step."""
        direction = self.direction(margins, move)
        size = search(lambda sizes: self.slopes(margins, direction, sizes), move.max_step_size)
        return self.advance(margins, direction, size) if size > 0.0 else None

    def curvature(self, margins: Handle, atoms: np.ndarray) -> np.ndarray:
        """Return the second derivatives of the value in the weights of the atoms."""
        if not len(atoms):
            return np.zeros((0, 0))
        chosen, factor = curvature_sample(self.n_comparisons, len(atoms))
        samples = [(own, factor) for own in self.layout.places.deal(chosen).values()]
        parts = self._ask("curvature", atoms, parts=[margins.parts, samples])
        return self.layout.gather(self.layout.total(parts))

    # --- gradients -------------------------------------------------------------------------------

    def gradient(self, margins: Handle, batch: np.ndarray | None = None) -> DaskGradient:
        """Return the gradient over all comparisons, or over a batch of them (rising numbers)."""
        ahead, self._ahead = self._ahead, None
        self._uses_batches = self._uses_batches or batch is not None
        if batch is None and ahead is not None and ahead[0] is margins:
            return ahead[1]
        return DaskGradient(self, self._setting, margins, batch)

    def exact_search_cost(self) -> float:
        """Return the number of multiplications of a search of all pairs of features."""
        if self._cost is None:
            self._cost = float(self.layout.sum(self._ask("exact_search_cost")))
        return self._cost

    def to_user(self, atoms: np.ndarray) -> np.ndarray:
        """Return atoms in the feature numbers of the user's X; (-1, -1, 0) stays."""
        return renumbered(atoms, self.layout.features)

    def from_user(self, atoms: np.ndarray) -> np.ndarray:
        """Return atoms in the problem's own feature numbers."""
        return positioned(atoms, self.layout.features)


def search(slopes: Callable[[np.ndarray], np.ndarray], max_step_size: float) -> float:
    """Return the step size that minimises a convex value, in few rounds of several sizes each.

    Parameters
    ----------
    slopes : callable
        From step sizes to the first two derivatives at each, shape (n, 2).
    max_step_size : float

    Examples
    --------
    >>> search(lambda sizes: np.column_stack([2.0 * sizes - 1.0, 0.0 * sizes + 2.0]), 1.0)
    0.5
    """
    if not max_step_size > 0.0:
        return 0.0
    sizes = np.unique([0.0, *min(1.0, max_step_size) * FIRST_SIZES, max_step_size])
    found = slopes(sizes)
    if not found[0, 0] < 0.0:
        return 0.0
    tiny = 4e-16 * -found[0, 0]
    for _ in range(100):
        k = int(np.searchsorted(-(found[:, 0] < 0.0).astype(int), 0))  # the first size uphill
        if k == len(sizes):
            return float(sizes[-1])
        low, high = sizes[k - 1 : k + 1]
        newton = [
            at - slope / bend if bend > 0.0 else np.nan
            for at, (slope, bend) in zip((low, high), found[k - 1 : k + 1], strict=True)
        ]
        for at, guess, slope in zip((low, high), newton, found[k - 1 : k + 1, 0], strict=True):
            if abs(slope) <= tiny:
                return float(at)
            if abs(guess - at) <= CLOSE * at:
                return float(min(max(guess, low), high))
        chord = low + (high - low) * found[k - 1, 0] / (found[k - 1, 0] - found[k, 0])
        inside = [*newton, chord, *(low + (high - low) * INSIDE)]
        more = np.unique([size for size in inside if low < size < high])
        if not len(more):
            return float(low if -found[k - 1, 0] < found[k, 0] else high)
        sizes = np.concatenate([[low], more, [high]])
        found = np.concatenate([found[k - 1 : k], slopes(more), found[k : k + 1]])
    return float(low)


class DaskGradient(Gradient):
    """C = -∇f at margins that are futures.

    Parameters
    ----------
    problem : DaskProblem
    setting : Setting
    margins : Handle
    batch : ndarray, default=None
        Comparisons of a mini-batch, in rising order.
    """

    def __init__(
        self,
        problem: DaskProblem,
        setting: Setting,
        margins: Handle,
        batch: np.ndarray | None = None,
    ) -> None:
        self.problem, self.layout, self.margins = problem, problem.layout, margins
        self.scale, self.n_features = problem.scale, problem.n_features
        self.covers_all, key = batch is None, uuid4().hex
        if batch is None:
            self.at = dict.fromkeys(range(len(margins.parts)), At(setting, key))
        else:
            dealt = self.layout.places.deal(batch)
            self.at = {k: At(setting, key, part) for k, part in dealt.items() if len(part)}
        self._atoms, self._scores = problem.recent, dict[tuple, float]()
        self._first = self._ask("first", self._atoms)
        self._diagonal_sum = self.layout.total(self._ask("diagonal"))
        self._diagonal: np.ndarray | None = None

    def _ask(self, question: str, *args: Any, parts: Sequence[Sequence[Any]] = ()) -> list[Any]:
        """Ask the shards that have some of the comparisons."""
        columns = [self.margins.parts, *parts]
        own = [[column[k] for k in self.at] for column in columns]
        constant = ([arg] * len(self.at) for arg in args)
        return self.layout.ask(
            question, own[0], [*self.at.values()], *own[1:], *constant, chosen=self.at
        )

    def _mean(self, parts: list[Any]) -> np.ndarray:
        self._look()
        return self.layout.sum(parts) / self._weight

    def _look(self) -> None:
        """Take the first answers."""
        if self._diagonal is None:
            first, diagonal = self.layout.gather([self._first, self._diagonal_sum])
            weight, n_slopes, rounding, *scores = add(*first).tolist()
            self._weight = 1.0 if self.covers_all else max(weight, TINY)
            self._has_slopes, self._rounding = n_slopes > 0, rounding / self._weight
            self._learn(self._atoms, np.array(scores) / self._weight)
            self._diagonal = diagonal / self._weight

    def _learn(self, atoms: np.ndarray, scores: np.ndarray) -> None:
        self._scores |= zip(map(tuple, atoms.tolist()), scores.tolist(), strict=True)

    @property
    def diagonal(self) -> np.ndarray:
        """C_jj of every feature."""
        self._look()
        assert self._diagonal is not None
        return self._diagonal

    @property
    def rounding(self) -> float:
        """How far rounding may move an entry of C or S."""
        self._look()
        return self._rounding

    def is_zero(self) -> bool:
        """Return whether all slopes are zero."""
        self._look()
        return not self._has_slopes

    def scores(self, atoms: np.ndarray) -> np.ndarray:
        """Return ⟨B, -∇f⟩ for each atom B."""
        self._look()
        keys = [*map(tuple, atoms.tolist())]
        missing = atoms[[key not in self._scores for key in keys]]
        if len(missing):
            self._learn(missing, self._mean(self._ask("scores", missing)))
        self.problem.recent = atoms
        return np.array([self._scores[key] for key in keys])

    def entries(self, atoms: np.ndarray) -> np.ndarray:
        """Return S_ij for each atom."""
        return self._mean(self._ask("entries", atoms))

    def rows(self, features: np.ndarray) -> np.ndarray:
        """Return the rows of S for a few features, shape (len(features), n_features)."""
        self._look()
        return self.layout.gather(self.layout.total(self._ask("rows", features))) / self._weight

    def partners(
        self, features: np.ndarray, *, after: bool = False
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Find for each feature i the j that maximises C_jj + |S_ij|, the smallest of equals."""
        many, found = max(8, LARGEST_ANSWER // self.n_features // 8 * 8), []
        for k in range(0, len(features), many):
            part = features[k : k + many]
            rows = self.layout.total(self._ask("rows", part))
            found.append(
                self.layout.client.submit(
                    best_partners, rows, self._diagonal_sum, part, after, pure=False
                )
            )
        self._look()
        answers = zip(*self.layout.gather(found), strict=True)
        value, partner, entry = map(np.concatenate, answers)
        return value / self._weight, partner, entry / self._weight

    def dot(self, margins: Handle) -> float:
        """Return ⟨M, -∇f⟩ for the model with these margins."""
        return float(self._mean(self._ask("dot", parts=[margins.parts])))

    def drift_since(self, other: DaskGradient) -> np.ndarray:
        """Return for each feature i a bound of |S_ij - S_ij of the other gradient| over all j."""
        parts = [other.margins.parts, [*other.at.values()]]
        self._look()
        return self.layout.gather(self.layout.total(self._ask("drift", parts=parts))) / self._weight
