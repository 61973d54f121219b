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

from ..solver.atoms import positioned, renumbered
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

#: Sums that one task adds up, and most numbers of the rows of S that one task computes.
FAN_IN, LARGEST_ANSWER = 4, 1 << 23

#: Step sizes of the first question of a line search, in parts of the longest step or of 1.
FIRST_SIZES = np.array([1 / 64, 1 / 16, 1 / 4, 1 / 2, 3 / 4, 1.0])

#: Parts of a bracket that a line search looks at in a round, and the share of the step size within
#: which Newton's method ends: its next error is the square.
INSIDE, CLOSE = np.array([0.25, 0.5, 0.75]), 1e-8


class ClusterError(RuntimeError):
    """The cluster lost what a fit needs: its scheduler, a client, or data that it cannot remake."""


class Shards:
    """Futures of the shards, and how they are asked.

    Parameters
    ----------
    client : distributed.Client
    futures : list of Future
    """

    def __init__(self, client: Any, futures: Sequence[Any]) -> None:
        self.client, self.futures = client, list(futures)

    def ask(self, question: str, *columns: Sequence[Any], chosen: Sequence[int] | None = None) -> list[Any]:
        """Return the futures of the answers; each column has one argument per shard."""
        shards = self.futures if chosen is None else [self.futures[k] for k in chosen]
        return self.client.map(ask, shards, [question] * len(shards), *columns, pure=False)

    def total(self, parts: Sequence[Any]) -> Any:
        """Return the future of a sum, by groups of neighbours."""
        parts = list(parts)
        while len(parts) > 1:
            groups = range(0, len(parts), FAN_IN)
            parts = [self.client.submit(add, *parts[k : k + FAN_IN], pure=False) for k in groups]
        return parts[0]

    def gather(self, futures: Any) -> Any:
        """Return results; say what is lost where they cannot be had."""
        return gathered(self.client, futures)


def gathered(client: Any, futures: Any) -> Any:
    """Return the results of futures; raise ClusterError where they cannot be had any more."""
    try:
        return client.gather(futures)
    except CancelledError as error:
        raise ClusterError(
            f"The cluster lost what the fit needs ({error}): its scheduler is gone, the client is "
            "closed, or blocks that were given as futures died with a worker. Fit again; give "
            "blocks as delayed objects or a dask.array, which can be loaded again."
        ) from error


class Handle:
    """Margins, or how they change: one future per shard."""

    def __init__(self, problem: DaskProblem, parts: list[Any]) -> None:
        self.parts, self._problem = parts, problem

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        """Return one number per comparison; all of them go to the client."""
        return self._problem.joined(self.parts).astype(dtype or np.float64)
