"""What runs in tasks: a shard answers the questions of the solver for its own comparisons.

A shard holds the comparisons of some anchors and the rows that they name, as a problem of one
machine whose weights are shares of the whole. Its answers add up over the shards.
"""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..cpu.layout import CPULayout
from ..cpu.problem import CPUProblem
from ..cpu.workers import Workers
from ..solver.atoms import Atom, as_array
from ..solver.protocols import Base, Correction, Gradient, Loss, Margins, Move, Statistics, Step

#: Gradients that a shard remembers: an exact oracle compares three.
REMEMBERED = 3


class Setting(NamedTuple):
    """What makes a problem of a layout; `key` is a new one after each `forget`."""

    key: str
    loss: Loss
    scale: float
    prior: float
    base: Base | None


class At(NamedTuple):
    """Which gradient: its problem, a name, and the comparisons of a batch."""

    setting: Setting
    key: str
    batch: np.ndarray | None = None


class Shard:
    """Comparisons of some anchors, and the rows that they name.

    It travels as plain arrays: layout, problem and gradients are made where it is asked. An answer
    depends on the question alone, so that a shard that is built again gives the same.

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

    def __init__(
        self,
        X: sp.csr_array,
        compared: np.ndarray,
        weights: np.ndarray | None,
        total_weight: float,
        n_features: int,
    ) -> None:
        self.X, self.compared, self.weights = X, compared, weights
        self.total_weight, self.n_features = total_weight, n_features
        self.lock = threading.Lock()
        self._layout: CPULayout | None = None
        self._problem: CPUProblem | None = None
        self._setting = ""
        self._atoms = as_array([])  # that the last question was about
        self._gradients: dict[str, Gradient] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        given = self.X, self.compared, self.weights, self.total_weight, self.n_features
        return Shard, given

    def __sizeof__(self) -> int:
        # Dask weighs moves by it: X by rows and by columns, and the pairs of rows.
        return 36 * self.X.nnz + 80 * len(self.compared)

    # --- what is made here -----------------------------------------------------------------------

    def layout(self) -> CPULayout:
        """Return rows and comparisons laid out."""
        if self._layout is None:
            options: dict[str, Any] = {"columns": np.arange(self.n_features)}
            if self.n_features < self.X.shape[1]:
                options["min_rows"] = self.X.shape[0] + 1  # no other column is a feature
            with np.errstate(invalid="ignore"):  # all weights may be zero
                self._layout = CPULayout(
                    self.X, self.compared, self.weights, workers=Workers(1),
                    total_weight=self.total_weight, **options,
                )  # fmt: skip
            features = self._layout.features
            self._positions = np.empty_like(features)  # of the features among its own
            self._positions[features] = np.arange(len(features))
        return self._layout

    def problem(self, setting: Setting) -> CPUProblem:
        """Return the problem of a setting; the one before is forgotten."""
        if self._problem is None or setting.key != self._setting:
            self._problem = self.layout().problem(*setting[1:])
            self._setting, self._gradients = setting.key, {}
        return self._problem

    def gradient(self, step: Step, at: At) -> Gradient:
        """Return a gradient, not divided by the weight of a batch; it is asked again."""
        problem = self.problem(at.setting)
        if at.key not in self._gradients:
            while len(self._gradients) >= REMEMBERED:
                del self._gradients[next(iter(self._gradients))]
            self._gradients[at.key] = problem.gradient(step.margins, at.batch, 1.0)
        return self._gradients[at.key]

    def statistics(self) -> tuple[Statistics, float, float]:
        """Return statistics, the largest weight, and the mean margin of the dot product or 0."""
        layout, largest = self.layout(), 1.0 if self.weights is None else float(self.weights.max())
        found = layout.statistics()
        size = float(np.square(layout.comparisons.rows.largest).max(initial=0.0))
        is_zero = np.abs(layout.comparisons.dot_margins).max() <= 1e-14 * size
        return found, largest, 0.0 if is_zero else found.typical_margin

    # --- margins ---------------------------------------------------------------------------------

    def margins(self, setting: Setting, atoms: np.ndarray, weights: np.ndarray) -> Step:
        """Return the margins of a model."""
        problem = self.problem(setting)
        margins = problem.margins(self._own(atoms), weights)
        return Step(margins, np.nan, problem.value(margins))

    def direction(self, setting: Setting, step: Step, move: Move | Correction) -> Margins:
        """Return how margins change along a move."""
        problem = self.problem(setting)
        if isinstance(move, Correction):
            return problem.direction(step.margins, move._replace(atoms=self._own(move.atoms)))
        toward, away = (
            atom and Atom(*self._own(as_array([atom]))[0].tolist())
            for atom in (move.toward, move.away)
        )
        return problem.direction(step.margins, move._replace(toward=toward, away=away))

    def advance(self, setting: Setting, step: Step, way: Margins, size: float) -> Step:
        """Return the margins after a step."""
        return self.problem(setting).advance(step.margins, way, size)

    def value(self, step: Step) -> float:
        """Return the share in the mean loss."""
        return step.value

    def slopes(self, setting: Setting, step: Step, way: Margins, sizes: np.ndarray) -> np.ndarray:
        """Return the first two derivatives of the value at each step size."""
        return self.problem(setting).slopes(step.margins, way, sizes.tolist())

    def curvature(
        self, setting: Setting, step: Step, sample: tuple[np.ndarray, float], atoms: np.ndarray
    ) -> np.ndarray:
        """Return the second derivatives in the weights of atoms, from some comparisons."""
        if not len(sample[0]):
            return np.zeros((len(atoms), len(atoms)))
        return self.problem(setting).curvature(step.margins, self._own(atoms), sample)

    def exact_search_cost(self, setting: Setting) -> float:
        """Return the number of multiplications of a search of all pairs of features."""
        return self.problem(setting).exact_search_cost()

    # --- gradients -------------------------------------------------------------------------------

    def first(self, step: Step, at: At, atoms: np.ndarray) -> np.ndarray:
        """Return the weight of the batch, whether there are slopes, rounding, scores of atoms."""
        gradient = self.gradient(step, at)
        weight = 0.0 if at.batch is None else self.problem(at.setting).batch_weight(at.batch)
        known = weight, not gradient.is_zero(), gradient.rounding
        return np.array([*known, *self.scores(step, at, atoms)])

    def scores(self, step: Step, at: At, atoms: np.ndarray) -> np.ndarray:
        """Return the scores of atoms."""
        return self.gradient(step, at).scores(self._own(atoms))

    def entries(self, step: Step, at: At, atoms: np.ndarray) -> np.ndarray:
        """Return S_ij of atoms."""
        return self.gradient(step, at).entries(self._own(atoms))

    def diagonal(self, step: Step, at: At) -> np.ndarray:
        """Return C_jj of every feature."""
        return self.gradient(step, at).diagonal[self._positions]

    def rows(self, step: Step, at: At, features: np.ndarray) -> np.ndarray:
        """Return the rows of S of some features."""
        rows = self.gradient(step, at).rows(self._positions[features])
        return rows[:, self._positions]

    def drift(self, step: Step, at: At, before: Step, then: At) -> np.ndarray:
        """Return a bound of |S_ij - S_ij of an earlier gradient| for each feature i."""
        change = self.gradient(step, at).drift_since(self.gradient(before, then))
        return change[self._positions]

    def dot(self, step: Step, at: At, other: Step) -> float:
        """Return the product of the gradient and a model with these margins."""
        return self.gradient(step, at).dot(other.margins)

    def _own(self, atoms: np.ndarray) -> np.ndarray:
        """Return atoms in the feature numbers of the layout.

        What a problem remembers of other atoms may move the last bits of its answer, and a shard
        that is built again has not been asked about them: it is forgotten.
        """
        if self._problem is not None and not np.array_equal(atoms, self._atoms):
            self._problem.forget()
            self._atoms = atoms
        ends = np.where(atoms[:, :2] < 0, -1, self._positions[atoms[:, :2]])
        return np.column_stack([np.sort(ends, axis=1), atoms[:, 2]])


# --- tasks ---------------------------------------------------------------------------------------


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
    rows: np.ndarray, diagonal: np.ndarray, features: np.ndarray, after: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return for each feature i the largest C_jj + |S_ij|, the smallest such j, and S_ij."""
    values, column = diagonal + np.abs(rows), np.arange(rows.shape[1])
    values[column <= features[:, None] if after else column == features[:, None]] = -np.inf
    at = np.arange(len(features)), values.argmax(axis=1)
    none = values[at] == -np.inf
    return values[at], np.where(none, -1, at[1]), np.where(none, 0.0, rows[at])
