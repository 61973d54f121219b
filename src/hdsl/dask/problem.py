"""The problem on a cluster: margins are futures, one per shard.

Dask computes what is lost with a worker again from its graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

import numpy as np

from ..cpu.problem import curvature_sample
from ..solver.atoms import Correction, Move
from ..solver.directions import Directions
from ..solver.protocols import Problem, Step
from .cluster import send
from .gradient import DaskGradient, ScoreForecast
from .line_search import search
from .per_shard import PerShard
from .shard import ProblemKey
from .shards import Shards


class DaskProblem(Problem):
    """Mean loss of margins that are futures, one per shard.

    What is asked next as a rule is asked ahead: a step begins with the gradient at its
    end.

    Parameters
    ----------
    shards : Shards
    features : ndarray of shape (n_features,)
        The user's number of each feature.
    key : ProblemKey
    embedding_width : int, default=0
        Columns of an embedding; directions are learned in it where the key says so.
    """

    def __init__(
        self,
        shards: Shards,
        features: np.ndarray,
        key: ProblemKey,
        embedding_width: int = 0,
    ) -> None:
        self.shards = shards
        self.features = features
        self.key = key
        self.scale = key.scale
        self.n_features = len(features)
        self.n_comparisons = shards.partition.n_comparisons
        if key.direction_scale > 0.0:
            self.directions = Directions(embedding_width)
        self._sent: tuple[np.ndarray, Any] | None = None
        self.reset()

    def reset(self) -> None:
        """Drop all that is remembered from one question to the next."""
        self.key = self.key._replace(name=uuid4().hex)
        self.forecast = ScoreForecast()
        self._gradient_ahead: DaskGradient | None = None
        self._uses_batches = False

    @property
    def _vectors(self) -> Any:
        """The vectors of all directions, as a future that each worker fetches once."""
        if self.directions is None:
            return None
        vectors = self.directions.vectors
        if self._sent is None or self._sent[0] is not vectors:
            self._sent = (vectors, send(self.shards.client, vectors))
        return self._sent[1]

    # --- margins and value ------------------------------------------------------------

    def margins(self, atoms: np.ndarray, weights: np.ndarray) -> PerShard:
        """Return the margins of a combination of atoms, from scratch."""
        return self.shards.ask("margins", self.key, self._vectors, atoms, weights)

    def value(self, margins: PerShard) -> float:
        """Return the mean loss."""
        names = ["value"] * len(margins)
        values = self.shards.client.map(getattr, margins, names, pure=False)
        return float(self.shards.sum(values))

    # --- steps ------------------------------------------------------------------------

    def direction(self, margins: PerShard, move: Move | Correction) -> PerShard:
        """Return how margins change along a move, or along a correction of many weights."""
        self.forecast.follow(move)
        return self.shards.ask("direction", self.key, self._vectors, margins, move)

    def slopes(
        self,
        margins: PerShard,
        direction: PerShard,
        step_sizes: Sequence[float] | np.ndarray,
    ) -> np.ndarray:
        """Return the first two derivatives of the value at each step size, shape (n, 2)."""
        sizes = np.array(step_sizes)
        return self.shards.ask_sum("slopes", self.key, margins, direction, sizes)

    def advance(self, margins: PerShard, direction: PerShard, step_size: float) -> Step:
        """Return the step of this size."""
        size = float(step_size)
        moved = self.shards.ask("advance", self.key, margins, direction, size)
        if not self._uses_batches:
            self._gradient_ahead = self._make_gradient(moved)
        return Step(moved, step_size, self.value(moved))

    def step(self, margins: PerShard, move: Move | Correction) -> Step | None:
        """Return the best step along a move; None for no step."""
        direction = self.direction(margins, move)
        size = search(
            lambda sizes: self.slopes(margins, direction, sizes), move.max_step_size
        )
        if size == 0.0:
            return None
        return self.advance(margins, direction, size)

    def curvature(self, margins: PerShard, atoms: np.ndarray) -> np.ndarray:
        """Return the second derivatives of the value in the weights of the atoms."""
        if not len(atoms):
            return np.zeros((0, 0))
        by_shard = self.shards.partition.by_shard

        def n_curved(stride: int) -> int:
            numbers = by_shard(np.arange(0, self.n_comparisons, stride))
            return self.shards.ask_sum("n_curved", self.key, margins, numbers)

        chosen, factor = curvature_sample(self.n_comparisons, len(atoms), n_curved)
        samples = PerShard((numbers, factor) for numbers in by_shard(chosen))
        curvatures = self.shards.ask(
            "curvature", self.key, self._vectors, margins, samples, atoms
        )
        return self.shards.fetch(self.shards.future_sum(curvatures))

    # --- gradients --------------------------------------------------------------------

    def gradient(
        self, margins: PerShard, batch: np.ndarray | None = None
    ) -> DaskGradient:
        """Return the gradient over all comparisons, or over a batch of them (rising numbers)."""
        ahead = self._gradient_ahead
        self._gradient_ahead = None
        if batch is not None:
            self._uses_batches = True
        elif ahead is not None and ahead.margins is margins:
            return ahead
        return self._make_gradient(margins, batch)

    def _make_gradient(
        self, margins: PerShard, batch: np.ndarray | None = None
    ) -> DaskGradient:
        gradient = DaskGradient(
            self.shards, self.key, self.n_features, self.forecast, margins, batch
        )
        gradient.directions = self.directions
        return gradient

    def exact_search_cost(self) -> float:
        """Return the number of multiplications of a search of all pairs of features."""
        return float(self.shards.ask_sum("exact_search_cost", self.key))
