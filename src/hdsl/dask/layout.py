"""Rows and comparisons in the shards of a cluster."""

from __future__ import annotations

import numpy as np

from ..solver.protocols import Layout, Loss
from ..solver.statistics import Statistics, Sums, from_sample
from .problem import DaskProblem
from .shard import ProblemKey
from .shards import Shards


class DaskLayout(Layout):
    """Rows and comparisons in shards, which are futures of a cluster.

    Parameters
    ----------
    shards : Shards
    features : ndarray of shape (n_features,)
        The columns of X that are features, the fullest first.
    mean_squared_norm : float
        ‖x‖² of all rows, in the mean.
    embedding_width : int, default=0
        Columns of an embedding.
    """

    def __init__(
        self,
        shards: Shards,
        features: np.ndarray,
        mean_squared_norm: float,
        embedding_width: int = 0,
    ) -> None:
        self.shards = shards
        self.features = features
        self.embedding_width = embedding_width
        self.n_features = len(features)
        self._mean_squared_norm = mean_squared_norm

    def statistics(self) -> Statistics:
        """Return what an automatic scale and prior are chosen by."""
        return from_sample(
            self.shards.partition.n_comparisons,
            self._sums_of,
            n_anchors=int(self.shards.ask_sum("n_anchors")),
            mean_square=lambda: self._mean_squared_norm,
        )

    def _sums_of(self, numbers: np.ndarray) -> Sums:
        """Return the sums over comparisons of these numbers."""
        by_shard = self.shards.partition.by_shard(numbers)
        return Sums(*self.shards.ask_sum("sums", by_shard).tolist())

    def problem(
        self,
        loss: Loss,
        scale: float,
        fixed_weights: tuple[float, ...] = (),
        direction_scale: float = 0.0,
    ) -> DaskProblem:
        """Return the problem of a loss, a scale and a weight per fixed part."""
        key = ProblemKey("", loss, float(scale), fixed_weights, float(direction_scale))
        return DaskProblem(self.shards, self.features, key, self.embedding_width)
