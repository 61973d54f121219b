"""The seam on a cluster: layout, problem and gradient over shards that are futures.

A question is one task per shard. Small answers are added on the client in the order of
the shards; long ones, a number per feature, in a tree of tasks. The order is fixed by
the shards alone, so that the bits do not depend on where they are. Margins are futures
too: Dask computes what is lost with a worker again from its graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any
from uuid import uuid4

import numpy as np

from ..cpu.problem import curvature_sample
from ..solver.atoms import ZERO, as_array, as_keys
from ..solver.protocols import (
    Correction,
    Gradient,
    Layout,
    Move,
    Problem,
    Statistics,
    Step,
)
from ..solver.statistics import Sums, from_sample
from .line_search import search
from .shard import At, Setting, add, ask, best_partners

#: A batch whose weights are all zero has this weight.
TINY = 1e-300

#: How often a task that Dask gave up is tried again.
MOST_LOSSES = 10

#: Sums that one task adds up, and most numbers of the rows of S that one task computes.
FAN_IN = 4
LARGEST_ANSWER = 1 << 21


class ClusterError(RuntimeError):
    """The cluster lost what a fit needs: its scheduler, a client, or data that it cannot remake."""


class Places:
    """Where each comparison is: numbered by rising anchors, dealt out by anchors.

    Parameters
    ----------
    counts, shards : ndarray of shape (n_anchors,)
        How many comparisons start from each row that some start from, by rising rows,
        and its shard.
    """

    def __init__(self, counts: np.ndarray, shards: np.ndarray) -> None:
        self.counts = counts
        self.shards = shards
        self.n_shards = int(shards.max()) + 1
        self.n_comparisons = int(counts.sum())
        self._ends = np.cumsum(counts)
        self._shift = np.empty(
            len(counts), dtype=np.int64
        )  # comparisons of other shards before
        for k in range(self.n_shards):
            is_here = shards == k
            self._shift[is_here] = np.cumsum(np.where(is_here, 0, counts))[is_here]

    def deal(self, numbers: np.ndarray) -> dict[int, np.ndarray]:
        """Return comparisons by shards, in the shards' own numbers."""
        anchor = np.searchsorted(self._ends, numbers, side="right")
        shard = self.shards[anchor]
        number = numbers - self._shift[anchor]
        return {k: number[shard == k] for k in range(self.n_shards)}


class Handle(list):
    """Margins, or how they change: one future per shard."""


class DaskLayout(Layout):
    """Rows and comparisons in shards, which are futures of a cluster.

    Parameters
    ----------
    client : distributed.Client
    shards : list of Future
    features : ndarray of shape (n_features,)
        The columns of X that are features, the fullest first.
    places : Places
    mean_square : float
        ‖x‖² of all rows, in the mean.
    """

    def __init__(
        self,
        client: Any,
        shards: Sequence[Any],
        features: np.ndarray,
        places: Places,
        mean_square: float,
    ) -> None:
        self.client = client
        self.shards = shards
        self.features = features
        self.places = places
        self.n_features = len(features)
        self._mean_square = mean_square

    def statistics(self) -> Statistics:
        """Return what an automatic scale and prior are chosen by."""

        def sums_of(numbers: np.ndarray) -> Sums:
            numbers_of_shards = [*self.places.deal(numbers).values()]
            return Sums(*self.sum(self.ask("sums", numbers_of_shards)).tolist())

        return from_sample(
            self.places.n_comparisons,
            sums_of,
            int(self.sum(self.ask("n_anchors"))),
            lambda: self._mean_square,
        )

    def problem(
        self, loss: Any, scale: float, fixed_weights: tuple[float, ...] = ()
    ) -> DaskProblem:
        """Return the problem of a loss, a scale and a weight per fixed part."""
        return DaskProblem(self, Setting("", loss, float(scale), fixed_weights))

    # --- questions --------------------------------------------------------------------

    def ask(
        self, question: str, *args: Any, chosen: Iterable[int] | None = None
    ) -> Handle:
        """Return the answers of all shards, or of chosen ones, as futures.

        An argument that is a list has one value per shard.
        """
        numbers = range(len(self.shards)) if chosen is None else chosen
        columns = [
            [arg[k] if isinstance(arg, list) else arg for k in numbers]
            for arg in (self.shards, question, *args)
        ]
        return Handle(self.client.map(ask, *columns, pure=False))

    def total(self, parts: list[Any]) -> Any:
        """Return the future of a sum, by groups of neighbours."""
        return self.fewer(parts, 1)[0]

    def fewer(self, parts: list[Any], most: int) -> list[Any]:
        """Return the futures of a few sums that have the same total."""
        while len(parts) > most:
            groups = range(0, len(parts), FAN_IN)
            parts = [
                self.client.submit(add, *parts[k : k + FAN_IN], pure=False)
                for k in groups
            ]
        return parts

    def sum(self, futures: list[Any]) -> Any:
        """Return the sum of small answers."""
        return add(*gather(self.client, futures))


def gather(client: Any, futures: list[Any]) -> list[Any]:
    """Return the results of futures; raise ClusterError where they cannot be had any more.

    Dask computes what dies with a worker again. It gives up a task that was at work
    when several workers died, and is then asked once more.
    """
    from distributed import KilledWorker

    try:
        for _ in range(MOST_LOSSES):
            with suppress(KilledWorker):
                return client.gather([*futures])
            client.retry(futures)
        return client.gather([*futures])
    except CancelledError as error:
        raise ClusterError(
            f"The cluster lost what the fit needs ({error}): its scheduler is gone, "
            "the client is closed, or blocks given as futures died with a worker. "
            "Give blocks as delayed objects or as a dask.array, which can be loaded "
            "again, and fit again."
        ) from error


class DaskProblem(Problem):
    """Mean loss of margins that are futures, one per shard.

    What is asked next as a rule is asked ahead: a step begins with the gradient at its
    end.

    Parameters
    ----------
    layout : DaskLayout
    setting : Setting
    """

    def __init__(self, layout: DaskLayout, setting: Setting) -> None:
        self.layout = layout
        self.setting = setting
        self.scale = setting.scale
        self.n_features = layout.n_features
        self.n_comparisons = layout.places.n_comparisons
        self.features = layout.features
        self.forget()

    def forget(self) -> None:
        """Drop all that is remembered from one question to the next."""
        self.setting = self.setting._replace(key=uuid4().hex)
        self.recent = as_array([])  # atoms whose scores were asked last
        self.at_once = True  # whether those asked next are many new ones
        self._ahead: tuple[Handle, DaskGradient] | None = None
        self._uses_batches = False

    # --- margins and value ------------------------------------------------------------

    def margins(self, atoms: np.ndarray, weights: np.ndarray) -> Handle:
        """Return the margins of a combination of atoms, from scratch."""
        return self.layout.ask("margins", self.setting, atoms, weights)

    def value(self, margins: Handle) -> float:
        """Return the mean loss."""
        values = self.layout.client.map(
            getattr, margins, ["value"] * len(margins), pure=False
        )
        return float(self.layout.sum(values))

    # --- steps ------------------------------------------------------------------------

    def direction(self, margins: Handle, move: Move | Correction) -> Handle:
        """Return how margins change along a move, or along a correction of many weights."""
        self.at_once = isinstance(move, Correction)
        if isinstance(move, Correction):
            self.recent = move.atoms
        elif move.toward is not None and move.toward != ZERO:
            self.recent = np.unique([*map(tuple, self.recent), move.toward], axis=0)
        return self.layout.ask("direction", self.setting, margins, move)

    def slopes(
        self,
        margins: Handle,
        direction: Handle,
        step_sizes: Sequence[float] | np.ndarray,
    ) -> np.ndarray:
        """Return the first two derivatives of the value at each step size, shape (n, 2)."""
        sizes = np.array(step_sizes)
        return self.layout.sum(
            self.layout.ask("slopes", self.setting, margins, direction, sizes)
        )

    def advance(self, margins: Handle, direction: Handle, step_size: float) -> Step:
        """Return the step of this size."""
        there = self.layout.ask(
            "advance", self.setting, margins, direction, float(step_size)
        )
        if not self._uses_batches:
            self._ahead = there, DaskGradient(self, there)
        return Step(there, step_size, self.value(there))

    def step(self, margins: Handle, move: Move | Correction) -> Step | None:
        """Return the best step along a move; None for no step."""
        direction = self.direction(margins, move)
        size = search(
            lambda sizes: self.slopes(margins, direction, sizes), move.max_step_size
        )
        if size == 0.0:
            return None
        return self.advance(margins, direction, size)

    def curvature(self, margins: Handle, atoms: np.ndarray) -> np.ndarray:
        """Return the second derivatives of the value in the weights of the atoms."""
        if not len(atoms):
            return np.zeros((0, 0))
        deal = self.layout.places.deal

        def n_curved(step: int) -> int:
            numbers = [*deal(np.arange(0, self.n_comparisons, step)).values()]
            return self.layout.sum(
                self.layout.ask("n_curved", self.setting, margins, numbers)
            )

        chosen, factor = curvature_sample(self.n_comparisons, len(atoms), n_curved)
        samples = [(numbers, factor) for numbers in deal(chosen).values()]
        parts = self.layout.ask("curvature", self.setting, margins, samples, atoms)
        return gather(self.layout.client, [self.layout.total(parts)])[0]

    # --- gradients --------------------------------------------------------------------

    def gradient(
        self, margins: Handle, batch: np.ndarray | None = None
    ) -> DaskGradient:
        """Return the gradient over all comparisons, or over a batch of them (rising numbers)."""
        ahead = self._ahead
        self._ahead = None
        self._uses_batches = self._uses_batches or batch is not None
        if batch is None and ahead is not None and ahead[0] is margins:
            return ahead[1]
        return DaskGradient(self, margins, batch)

    def exact_search_cost(self) -> float:
        """Return the number of multiplications of a search of all pairs of features."""
        return float(
            self.layout.sum(self.layout.ask("exact_search_cost", self.setting))
        )


class DaskGradient(Gradient):
    """C = -∇f at margins that are futures.

    Parameters
    ----------
    problem : DaskProblem
    margins : Handle
    batch : ndarray, default=None
        Comparisons of a mini-batch, in rising order.
    """

    def __init__(
        self, problem: DaskProblem, margins: Handle, batch: np.ndarray | None = None
    ) -> None:
        self.problem = problem
        self.layout = problem.layout
        self.margins = margins
        self.scale = problem.scale
        self.n_features = problem.n_features
        self.covers_all = batch is None
        key = uuid4().hex
        self._chosen: list[int] | None = None  # shards that have some of the batch
        self.at: Any = At(problem.setting, key)
        if batch is not None:
            dealt = self.layout.places.deal(batch)
            self._chosen = [k for k, part in dealt.items() if len(part)]
            self.at = [At(problem.setting, key, part) for part in dealt.values()]
        self._atoms = problem.recent
        self._scores = dict[tuple, float]()
        self._first = self._ask("first", self._atoms, problem.at_once)
        self._diagonal_sum = self.layout.total(self._ask("diagonal"))
        self._diagonal: np.ndarray | None = None

    def _ask(self, question: str, *args: Any) -> Handle:
        return self.layout.ask(
            question, self.margins, self.at, *args, chosen=self._chosen
        )

    def _mean(self, parts: list[Any]) -> np.ndarray:
        self._look()
        return self.layout.sum(parts) / self._weight

    def _look(self) -> None:
        """Take the first answers."""
        if self._diagonal is None:
            *first, diagonal = gather(
                self.layout.client, [*self._first, self._diagonal_sum]
            )
            weight, n_slopes, rounding, *scores = add(*first).tolist()
            self._weight = 1.0 if self.covers_all else max(weight, TINY)
            self._has_slopes = n_slopes > 0
            self._rounding = rounding / self._weight
            self._learn(self._atoms, np.array(scores) / self._weight)
            self._diagonal = diagonal / self._weight

    def _learn(self, atoms: np.ndarray, scores: np.ndarray) -> None:
        self._scores |= zip(as_keys(atoms), scores.tolist(), strict=True)

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
        keys = as_keys(atoms)
        missing = atoms[[key not in self._scores for key in keys]]
        if len(missing):
            self._learn(
                missing, self._mean(self._ask("scores", missing, self.problem.at_once))
            )
        self.problem.recent = atoms
        return np.array([self._scores[key] for key in keys])

    def partners(
        self, features: np.ndarray, *, after: bool = False
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Find for each feature i the j that maximises C_jj + |S_ij|, the smallest of equals."""
        many = max(8, LARGEST_ANSWER // self.n_features // 8 * 8)
        best = []
        for k in range(0, len(features), many):
            part = features[k : k + many]
            sums = self.layout.fewer(self._ask("rows", part), FAN_IN)
            given = self._diagonal_sum, part, after, *sums
            best.append(self.layout.client.submit(best_partners, *given, pure=False))
        self._look()
        found = zip(*gather(self.layout.client, best), strict=True)
        value, partner, entry = map(np.concatenate, found)
        return value / self._weight, partner, entry / self._weight

    def dot(self, margins: Handle) -> float:
        """Return ⟨M, -∇f⟩ for the model with these margins."""
        return float(self._mean(self._ask("dot", margins)))

    def drift_since(self, other: DaskGradient) -> np.ndarray:
        """Return for each feature i a bound of |S_ij - S_ij of the other gradient| over all j."""
        parts = self._ask("drift", other.margins, other.at)
        self._look()
        return gather(self.layout.client, [self.layout.total(parts)])[0] / self._weight
