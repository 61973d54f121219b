"""How comparisons are made from labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

METHODS = ("neighbors", "random")


class Miner(NamedTuple):
    """Makes comparisons from labels, by the parameters of `hdsl.Mining` and on a machine."""

    mining: str | Callable[..., np.ndarray] = "neighbors"
    n_targets: int = 10
    n_impostors: int = 10
    max_anchors: int | None = None
    n_jobs: int | None = None
    device: str = "cpu"
    memory_limit: float | str | None = "auto"

    @classmethod
    def of(cls, model: Any) -> Miner:
        """Return how a model makes comparisons; what it has no parameter for is the default."""
        parameters = {
            name: getattr(model, name) for name in cls._fields if hasattr(model, name)
        }
        return cls(**parameters)

    @property
    def search_options(self) -> dict[str, Any]:
        """How neighbors are searched."""
        return {
            "n_jobs": self.n_jobs,
            "device": self.device,
            "memory_limit": self.memory_limit,
        }

    def with_at_most(self, n_neighbors: int) -> Miner:
        """Return the same with at most so many neighbors of each kind per row."""
        return self._replace(
            n_targets=min(self.n_targets, n_neighbors),
            n_impostors=min(self.n_impostors, n_neighbors),
        )
