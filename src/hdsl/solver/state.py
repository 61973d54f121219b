"""What moves in a run of the solver, and what it ends with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from .active_set import ActiveSet
from .protocols import Margins, Problem
from .trace import NO_CORRECTIONS, StepRecord

Callback = Callable[["State"], bool | None]


@dataclass(frozen=True)
class Options:
    """How a run goes.

    Parameters
    ----------
    init : {"oracle", "zero", "random"}, default="oracle"
        "zero": the domain has M = 0, and the path starts there. The others are the
        paper's domain, without 0: start from the atom that the oracle picks at M = 0,
        or from a random one.
    batch_size : int or None, default=None
        Comparisons that directions are chosen by, drawn anew in each iteration; None is
        all.
    max_iter : int, default=1000
        Most iterations, those of an earlier run included.
    tol : float, default=1e-3
        Stop when the gap is at most this.
    are_mined : bool, default=False
        Whether comparisons were made from labels, so that many say nearly the same.
    forbidden : ndarray of shape (n_pairs, 2) or None, default=None
        Pairs of features that no atom may have, in the user's numbers.
    """

    init: str = "oracle"
    batch_size: int | None = None
    max_iter: int = 1000
    tol: float = 1e-3
    are_mined: bool = False
    forbidden: np.ndarray | None = None


@dataclass(frozen=True, kw_only=True)
class Result:
    """What a run learned, and how it went, in the feature numbers of the user's X.

    `directions` are the unit vectors of the embedding that atoms name by their numbers,
    in float32.
    """

    atoms: np.ndarray
    weights: np.ndarray
    objective: float
    gap: float
    gap_is_exact: bool
    n_iter: int
    status: str
    trace: np.ndarray
    corrections: np.ndarray = field(default_factory=NO_CORRECTIONS.copy)
    directions: np.ndarray | None = None
    n_exact_checks: int = 0

    #: What the steps summed up to: another number than `objective`, by rounding.
    objective_by_steps: float = np.nan


class Iterate(NamedTuple):
    """The model, and the step that led to it; replaced as a whole, never in part."""

    n_iter: int
    active: ActiveSet  # in the problem's feature numbers
    step: StepRecord  # in the user's feature numbers
    corrections: tuple[np.ndarray, ...] = ()  # of this run, a table per iteration


@dataclass
class State:
    """Everything that moves. Callbacks read it and do not change it."""

    problem: Problem
    iterate: Iterate
    margins: Margins
    objective: float
    gap: float = np.nan
    gap_is_exact: bool = False
    seconds: float = 0.0
    gap_estimate: float = np.inf  # of lazy blended steps
    records: list[tuple] = field(default_factory=list)

    @property
    def n_iter(self) -> int:
        """Number of iterations so far."""
        return self.iterate.n_iter

    @property
    def active(self) -> ActiveSet:
        """The model, in the problem's feature numbers."""
        return self.iterate.active

    @property
    def atoms(self) -> np.ndarray:
        """Active atoms, shape (n_atoms, 3), in the user's feature numbers."""
        return self.problem.to_user(self.active.atoms)

    @property
    def directions(self) -> np.ndarray | None:
        """Unit vectors that active atoms name by their numbers; None without any."""
        if self.problem.directions is None:
            return None
        return self.problem.directions.vectors

    @property
    def weights(self) -> np.ndarray:
        """Weights of the active atoms."""
        return self.active.weights
