"""A product of domains: who may ask what of a problem with several models, and what moves in a run.

Each model is a block, the hull of the atoms and 0 with its own scale. ``product`` has the loop.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from .active_set import ActiveSet
from .protocols import Correction, Gradient, Margins, Move, Step
from .run import RunResult, RunState
from .snapshot import Arrays
from .trace import TRACE_DTYPE

#: A record of ``trace.TRACE_DTYPE``, and the block of the step.
PRODUCT_TRACE_DTYPE = np.dtype([*TRACE_DTYPE.descr, ("block", "i8")])

#: How the block of a step is chosen.
ORDERS = ("largest", "cyclic")


class ProductProblem(Protocol):
    """Mean loss of the margins of a sum of blocks; margins are a handle, as in ``Problem``.

    Attributes
    ----------
    n_features, n_blocks : int
    """

    n_features: int
    n_blocks: int

    @abstractmethod
    def margins(self, blocks: Sequence[ActiveSet]) -> Margins:
        """Return the margins of one model per block, from scratch."""

    @abstractmethod
    def value(self, margins: Margins) -> float:
        """Return the mean loss."""

    @abstractmethod
    def largest_margin(self, margins: Margins) -> float:
        """Return the largest absolute margin."""

    @abstractmethod
    def gradient(self, margins: Margins, block: int) -> Gradient:
        """Return the gradient in one block; the same object where it has not changed."""

    @abstractmethod
    def curvature(self, margins: Margins, block: int, atoms: np.ndarray) -> np.ndarray:
        """Return the second derivatives of the value in the weights of atoms of one block."""

    @abstractmethod
    def step(self, margins: Margins, block: int, move: Move | Correction) -> Step | None:
        """Return the best step along a move in one block; None for no step."""

    @abstractmethod
    def exact_search_cost(self) -> float:
        """Return the number of multiplications of an exact search in every block."""

    @abstractmethod
    def to_user(self, atoms: np.ndarray) -> np.ndarray:
        """Return atoms in the feature numbers of the user's X; (-1, -1, 0) stays."""

    @abstractmethod
    def snapshot(self, margins: Margins) -> Arrays:
        """Return margins, and whatever else later answers depend on, as plain arrays."""

    @abstractmethod
    def restore(self, arrays: Mapping[str, np.ndarray]) -> Margins:
        """Return the margins of a snapshot; raise ValueError where the arrays are not one."""

    @abstractmethod
    def restore_gradient(self, arrays: Mapping[str, np.ndarray], block: int) -> Gradient:
        """Return the gradient of a snapshot; raise ValueError where the arrays are not one."""


@dataclass(frozen=True)
class ProductOptions:
    """How a run goes.

    Parameters
    ----------
    order : {"largest", "cyclic"}, default="largest"
        The block of the next step: that of the largest gap, or each in turn.
    max_iter : int, default=1000
    tol : float, default=1e-3
        Stop when the sum of the gaps is at most this.
    """

    order: str = "largest"
    max_iter: int = 1000
    tol: float = 1e-3


@dataclass(frozen=True)
class ProductResult(RunResult):
    """What a run learned, one model per block, in the feature numbers of the user's X."""

    blocks: tuple[tuple[np.ndarray, np.ndarray], ...]


class BlockProblem(NamedTuple):
    """What a step rule and an oracle ask the problem of their own block."""

    problem: ProductProblem
    block: int

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.problem.n_features

    def restore_gradient(self, arrays: Mapping[str, np.ndarray]) -> Gradient:
        """Return the gradient of a snapshot."""
        return self.problem.restore_gradient(arrays, self.block)

    def curvature(self, margins: Margins, atoms: np.ndarray) -> np.ndarray:
        """Return the second derivatives of the value in the weights of the atoms."""
        return self.problem.curvature(margins, self.block, atoms)


@dataclass
class ProductState(RunState):
    """Everything that moves. Callbacks read it and do not change it."""

    @property
    def active(self) -> tuple[ActiveSet, ...]:
        """The models, in the problem's feature numbers."""
        return self.iterate.models

    @property
    def blocks(self) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
        """Atoms, in the user's feature numbers, and weights of each block."""
        return tuple((self.problem.to_user(own.atoms), own.weights) for own in self.active)


Callback = Callable[[ProductState], bool | None]
