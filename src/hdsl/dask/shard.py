"""What runs in tasks: a shard answers the questions of the solver for its own comparisons.

A shard holds the comparisons of some anchors and the rows that they name, as a problem
of one machine whose weights are shares of the whole. Its answers add up over the
shards.
"""

import threading
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..cached import cached
from ..cpu.comparisons import Comparisons
from ..cpu.gradient import CPUGradient
from ..cpu.problem import CPUProblem
from ..cpu.rows import Rows
from ..cpu.statistics import comparison_sums, count_anchors
from ..cpu.workers import Workers
from ..solver.atoms import as_array
from ..solver.protocols import Correction, Loss, Margins, Move, Step

#: Gradients that a shard remembers: an exact oracle compares three.
REMEMBERED = 3


class Setting(NamedTuple):
    """What makes a problem of a layout; `key` is a new one after each `forget`."""

    key: str
    loss: Loss
    scale: float
    fixed_weights: tuple[float, ...]


class At(NamedTuple):
    """Which gradient: its problem, a name, and the comparisons of a batch."""

    setting: Setting
    key: str
    batch: np.ndarray | None = None


class Data(NamedTuple):
    """Comparisons of some anchors, and the rows that they name.

    Parameters
    ----------
    X : csr_array of shape (n_rows, n_columns), float64
        Canonical, in the feature numbers of the whole problem.
    compared : ndarray of shape (n, 3) or (n, 4)
        Rows of X, sorted by anchor.
    weights : ndarray of shape (n,) or None
    total_weight : float
        Of the comparisons of all shards.
    n_features : int
        Columns that are features; later ones count in dot products only.
    """

    X: sp.csr_array
    compared: np.ndarray
    weights: np.ndarray | None
    total_weight: float
    n_features: int


class Shard:
    """What answers for some comparisons.

    It travels as plain arrays: problem and gradients are made where it is asked. An
    answer depends on the question alone, so that a shard that is built again gives the
    same.

    Parameters
    ----------
    data : Data
    """

    def __init__(self, data: Data) -> None:
        self.data = data
        self.lock = threading.Lock()
        self._problem: CPUProblem | None = None
        self._setting = ""
        self._atoms = as_array([])  # that the last question was about
        self._gradients: dict[str, CPUGradient] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return Shard, (self.data,)

    def __sizeof__(self) -> int:
        # Dask weighs moves by it: X by rows and by columns, and the pairs of rows.
        return 36 * self.data.X.nnz + 80 * len(self.data.compared)

    # --- what is made here ------------------------------------------------------------

    @cached
    def comparisons(self) -> Comparisons:
        """Rows and comparisons, laid out."""
        weights = 1.0 if self.data.weights is None else self.data.weights
        rows = Rows(self.data.X, Workers(1), self.data.n_features)
        return Comparisons(rows, self.data.compared, weights / self.data.total_weight)

    def problem(self, setting: Setting) -> CPUProblem:
        """Return the problem of a setting; the one before is forgotten."""
        if self._problem is None or setting.key != self._setting:
            columns = np.arange(self.data.n_features)
            offset = self.comparisons.fixed_margins(setting.fixed_weights)
            self._problem = CPUProblem(
                self.comparisons, columns, setting.loss, setting.scale, offset
            )
            self._setting = setting.key
            self._gradients = {}
        return self._problem

    def gradient(self, step: Step, at: At) -> CPUGradient:
        """Return a gradient, not divided by the weight of a batch; it is asked again."""
        problem = self.problem(at.setting)
        if at.key not in self._gradients:
            while len(self._gradients) >= REMEMBERED:
                del self._gradients[next(iter(self._gradients))]
            self._gradients[at.key] = problem.gradient(step.margins, at.batch, 1.0)
        return self._gradients[at.key]

    def sums(self, numbers: np.ndarray) -> np.ndarray:
        """Return the sums over some comparisons that statistics are made of."""
        return np.array(comparison_sums(self.comparisons, self.data.weights, numbers))

    def n_anchors(self) -> int:
        """Return how many rows comparisons of a positive weight start from."""
        return count_anchors(self.comparisons, self.data.weights)

    # --- margins ----------------------------------------------------------------------

    def margins(self, setting: Setting, atoms: np.ndarray, weights: np.ndarray) -> Step:
        """Return the margins of a model."""
        problem = self.problem(setting)
        self._turn_to(atoms)
        margins = problem.margins(atoms, weights)
        return Step(margins, np.nan, problem.value(margins))

    def direction(
        self, setting: Setting, step: Step, move: Move | Correction
    ) -> Margins:
        """Return how margins change along a move."""
        problem = self.problem(setting)
        self._turn_to(getattr(move, "atoms", self._atoms))
        return problem.direction(step.margins, move)

    def advance(self, setting: Setting, step: Step, way: Margins, size: float) -> Step:
        """Return the margins after a step."""
        return self.problem(setting).advance(step.margins, way.copy(), size)

    def slopes(
        self, setting: Setting, step: Step, way: Margins, sizes: np.ndarray
    ) -> np.ndarray:
        """Return the first two derivatives of the value at each step size."""
        return self.problem(setting).slopes(step.margins, way, sizes.tolist())

    def n_curved(self, setting: Setting, step: Step, numbers: np.ndarray) -> int:
        """Return how many of some comparisons have a loss that is curved."""
        return self.problem(setting).n_curved(step.margins[numbers])

    def curvature(
        self,
        setting: Setting,
        step: Step,
        sample: tuple[np.ndarray, float],
        atoms: np.ndarray,
    ) -> np.ndarray:
        """Return the second derivatives in the weights of atoms, from some comparisons."""
        if not len(sample[0]):
            return np.zeros((len(atoms), len(atoms)))
        problem = self.problem(setting)
        self._turn_to(atoms)
        return problem.curvature(step.margins, atoms, sample)

    def exact_search_cost(self, setting: Setting) -> float:
        """Return the number of multiplications of a search of all pairs of features."""
        return self.problem(setting).exact_search_cost()

    # --- gradients --------------------------------------------------------------------

    def first(self, step: Step, at: At, atoms: np.ndarray, at_once: bool) -> np.ndarray:
        """Return the weight of the batch, whether there are slopes, rounding, scores of atoms."""
        gradient = self.gradient(step, at)
        weight = (
            0.0 if at.batch is None else self.problem(at.setting).batch_weight(at.batch)
        )
        known = weight, not gradient.is_zero(), gradient.rounding
        return np.array([*known, *self.scores(step, at, atoms, at_once)])

    def scores(
        self, step: Step, at: At, atoms: np.ndarray, at_once: bool
    ) -> np.ndarray:
        """Return the scores of atoms, of all in one pass or from the terms of each."""
        gradient = self.gradient(step, at)
        self._turn_to(atoms)
        if at_once and len(atoms):
            gradient.atoms.active(atoms)
        return gradient.scores(atoms)

    def diagonal(self, step: Step, at: At) -> np.ndarray:
        """Return C_jj of every feature."""
        return self.gradient(step, at).diagonal

    def rows(self, step: Step, at: At, features: np.ndarray) -> np.ndarray:
        """Return the rows of S of some features."""
        return self.gradient(step, at).rows(features)

    def drift(self, step: Step, at: At, before: Step, then: At) -> np.ndarray:
        """Return a bound of |S_ij - S_ij of an earlier gradient| for each feature i."""
        return self.gradient(step, at).drift_since(self.gradient(before, then))

    def dot(self, step: Step, at: At, other: Step) -> float:
        """Return the product of the gradient and a model with these margins."""
        return self.gradient(step, at).dot(other.margins)

    def _turn_to(self, atoms: np.ndarray) -> None:
        """Forget what the problem remembers of other atoms than these.

        It may move the last bits of an answer, and a shard that is built again
        remembers nothing.
        """
        if self._problem is not None and not np.array_equal(atoms, self._atoms):
            self._problem.forget()
            self._atoms = atoms


# --- tasks ----------------------------------------------------------------------------


def ask(shard: Shard, question: str, *args: Any) -> Any:
    """Return the answer of a shard; one question at a time, as answers share its memory."""
    with shard.lock:
        return getattr(shard, question)(*args)


def add(*parts: np.ndarray) -> np.ndarray:
    """Return the sum, in order."""
    total = np.array(parts[0])
    for part in parts[1:]:
        total += part
    return total


def best_partners(
    diagonal: np.ndarray, features: np.ndarray, after: bool, *parts: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return for each feature i the largest C_jj + |S_ij|, the smallest such j, and S_ij.

    Rows of S are the sum of the parts.
    """
    rows = add(*parts)
    values = np.abs(rows)
    number = np.arange(len(features))
    values += diagonal
    if after:
        values[np.arange(rows.shape[1]) <= features[:, None]] = -np.inf
    else:
        values[number, features] = -np.inf
    at = number, values.argmax(axis=1)
    none = values[at] == -np.inf
    return values[at], np.where(none, -1, at[1]), np.where(none, 0.0, rows[at])
