"""What runs in tasks: a shard answers the questions of the solver for its own comparisons.

A shard holds the comparisons of some anchors and the rows that they name. Its answers are means
over its comparisons times their total weight. They add up over the shards, and the client divides
the sum by the weight of all.
"""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..cpu.statistics import sums
from ..solver.atoms import Atom, as_array
from ..solver.protocols import Base, Correction, Gradient, Layout, Loss, Margins, Move, Problem

#: Rows of S that a machine computes in one pass.
WIDTH = 8

#: Gradients that a shard remembers: an exact oracle compares three.
REMEMBERED = 3


class Setting(NamedTuple):
    """What makes a problem of a layout; `key` is a new one after each `forget`."""

    key: str
    loss: Loss
    scale: float
    prior: float
    base: Base | None


class Point(NamedTuple):
    """Margins of all comparisons and of those that curvature is estimated from, and the value."""

    margins: list[Margins]
    value: float = np.nan


class At(NamedTuple):
    """Which gradient: its problem, a name, and the comparisons of a batch."""

    setting: Setting
    key: str
    batch: np.ndarray | None = None


class Shard:
    """Comparisons of some anchors, and the rows that they name.

    It travels as plain arrays: layouts, problems and gradients are made where it is asked.

    Parameters
    ----------
    X : csr_array of shape (n_rows, n_features), float64
        Canonical, in the feature numbers of the whole problem.
    compared : ndarray of shape (n, 3) or (n, 4)
        Rows of X, sorted by anchor.
    weights : ndarray of shape (n,) or None
    n_features : int
        Columns that are features; later ones only count in dot products.
    every : int
        Curvature is estimated from one in so many of the pairs that are to win.
    """

    def __init__(
        self,
        X: sp.csr_array,
        compared: np.ndarray,
        weights: np.ndarray | None,
        n_features: int,
        every: int,
    ) -> None:
        self.X, self.compared, self.weights = X, compared, weights
        self.n_features, self.every = n_features, every
        self.weight = self.weight_of(None)
        self.lock = threading.Lock()
        self._layouts: list[Layout] = []
        self._problems: list[Problem] = []
        self._positions: list[np.ndarray] = []  # of all features, among those of each layout
        self._setting = ""
        self._gradients: dict[str, Gradient] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return Shard, (self.X, self.compared, self.weights, self.n_features, self.every)

    def __sizeof__(self) -> int:
        # Dask weighs moves by it: X by rows and by columns, and the pairs of rows.
        return 36 * self.X.nnz + 80 * len(self.compared)

    # --- what is made here -----------------------------------------------------------------------

    def weight_of(self, batch: np.ndarray | None) -> float:
        """Return the weight of some comparisons, or of all."""
        if self.weights is None:
            return float(len(self.compared) if batch is None else len(batch))
        return float((self.weights if batch is None else self.weights[batch]).sum())

    def layouts(self) -> list[Layout]:
        """Return all comparisons laid out, and a part that curvature is estimated from."""
        if not self._layouts:
            winners = self.compared[:, :2]
            is_new = np.append(True, (winners[1:] != winners[:-1]).any(axis=1))
            chosen = (np.cumsum(is_new) - 1) % self.every == 0
            self._layouts = [self._laid_out(self.X, self.compared, self.weights)]
            if not chosen.all():
                rows, numbers = np.unique(self.compared[chosen], return_inverse=True)
                weights = None if self.weights is None else self.weights[chosen]
                compared = numbers.reshape(-1, self.compared.shape[1])
                self._layouts.append(self._laid_out(self.X[rows], compared, weights))
        return self._layouts

    def _laid_out(
        self, X: sp.csr_array, compared: np.ndarray, weights: np.ndarray | None
    ) -> Layout:
        from ..cpu.layout import CPULayout  # workers load compiled code when they build a shard
        from ..cpu.workers import Workers

        if weights is not None and not weights.any():
            weights = None  # the shard has weight 0
        options: dict[str, Any] = {"columns": np.arange(self.n_features)}
        if self.n_features < X.shape[1]:
            options["min_rows"] = X.shape[0] + 1  # no other column is a feature
        return CPULayout(X, compared, weights, workers=Workers(1), **options)

    def problems(self, setting: Setting) -> list[Problem]:
        """Return the problem of each layout; those of another setting are forgotten."""
        if setting.key != self._setting:
            self._problems = [layout.problem(*setting[1:]) for layout in self.layouts()]
            self._positions = self._positions or [*map(_positions, self._problems)]
            self._setting, self._gradients = setting.key, {}
        return self._problems

    def gradient(self, point: Point, at: At) -> Gradient:
        """Return a gradient; the next questions are about it, too."""
        problem = self.problems(at.setting)[0]
        if at.key not in self._gradients:
            while len(self._gradients) >= REMEMBERED:
                del self._gradients[next(iter(self._gradients))]
            self._gradients[at.key] = problem.gradient(point.margins[0], at.batch)
        return self._gradients[at.key]

    def largest_weight(self) -> float:
        """Return the weight of the heaviest comparison."""
        return 1.0 if self.weights is None else float(self.weights.max())

    def statistics(self) -> np.ndarray:
        """Return the sums that the statistics of all comparisons are made of."""
        layout: Any = self.layouts()[0]
        found = sums(layout.comparisons, layout.weights)
        found[:-1] *= self.largest_weight()  # the last is the number of anchors
        return found if self.weight > 0.0 else np.zeros(len(found))

    def exact_search_cost(self, setting: Setting) -> float:
        """Return the number of multiplications of a search of all pairs of features."""
        return self.problems(setting)[0].exact_search_cost()

    # --- margins ---------------------------------------------------------------------------------

    def margins(self, setting: Setting, atoms: np.ndarray, weights: np.ndarray) -> Point:
        """Return the margins of a model."""
        problems = self.problems(setting)
        found = [each.margins(self._own(atoms, k), weights) for k, each in enumerate(problems)]
        return Point(found, problems[0].value(found[0]))

    def direction(self, setting: Setting, point: Point, move: Move | Correction) -> Point:
        """Return how margins change along a move."""
        pairs = enumerate(zip(self.problems(setting), point.margins, strict=True))
        return Point([each.direction(own, self._own_move(move, k)) for k, (each, own) in pairs])

    def advance(self, setting: Setting, point: Point, way: Point, size: float) -> Point:
        """Return the margins after a step."""
        triples = zip(self.problems(setting), point.margins, way.margins, strict=True)
        steps = [problem.advance(own, change, size) for problem, own, change in triples]
        return Point([step.margins for step in steps], steps[0].value)

    def value(self, point: Point) -> float:
        """Return the loss."""
        return self.weight * point.value

    def slopes(self, setting: Setting, point: Point, way: Point, sizes: np.ndarray) -> np.ndarray:
        """Return the first two derivatives of the loss at each step size."""
        problem = self.problems(setting)[0]
        return self.weight * problem.slopes(point.margins[0], way.margins[0], sizes.tolist())

    def curvature(self, setting: Setting, point: Point, atoms: np.ndarray) -> np.ndarray:
        """Return the second derivatives of the loss in the weights of atoms."""
        problem = self.problems(setting)[-1]
        return self.weight * problem.curvature(point.margins[-1], self._own(atoms, -1))

    # --- gradients -------------------------------------------------------------------------------

    def first(self, point: Point, at: At, atoms: np.ndarray) -> np.ndarray:
        """Return weight, whether there are slopes, rounding, and the scores of atoms."""
        gradient, weight = self.gradient(point, at), self.weight_of(at.batch)
        has_slopes = weight > 0.0 and not gradient.is_zero()
        known = weight, has_slopes, weight * gradient.rounding
        return np.array([*known, *self.scores(point, at, atoms)])

    def scores(self, point: Point, at: At, atoms: np.ndarray) -> np.ndarray:
        """Return the scores of atoms."""
        gradient = self.gradient(point, at)
        return self.weight_of(at.batch) * gradient.scores(self._own(atoms))

    def entries(self, point: Point, at: At, atoms: np.ndarray) -> np.ndarray:
        """Return S_ij of atoms."""
        gradient = self.gradient(point, at)
        return self.weight_of(at.batch) * gradient.entries(self._own(atoms))

    def diagonal(self, point: Point, at: At) -> np.ndarray:
        """Return C_jj of every feature."""
        return self._numbered(self.weight_of(at.batch) * self.gradient(point, at).diagonal)

    def rows(self, point: Point, at: At, features: np.ndarray) -> np.ndarray:
        """Return the rows of S of some features."""
        gradient = self.gradient(point, at)
        features = self._positions[0][features]
        steps = range(0, len(features), WIDTH)
        found = np.concatenate([gradient.rows(features[k : k + WIDTH]) for k in steps])
        return self._numbered(self.weight_of(at.batch) * found)

    def drift(self, point: Point, at: At, before: Point, then: At) -> np.ndarray:
        """Return a bound of |S_ij - S_ij of an earlier gradient| for each feature i."""
        change = self.gradient(point, at).drift_since(self.gradient(before, then))
        return self._numbered(self.weight * change)

    def dot(self, point: Point, at: At, other: Point) -> float:
        """Return the product of the gradient and a model with these margins."""
        return self.weight_of(at.batch) * self.gradient(point, at).dot(other.margins[0])

    # --- numbers of features ---------------------------------------------------------------------

    def _own(self, atoms: np.ndarray, k: int = 0) -> np.ndarray:
        """Return atoms in the feature numbers of a layout."""
        ends = np.where(atoms[:, :2] < 0, -1, self._positions[k][atoms[:, :2]])
        return np.column_stack([np.sort(ends, axis=1), atoms[:, 2]])

    def _own_move(self, move: Any, k: int) -> Any:
        """Return a move or a correction in the feature numbers of a layout."""
        if isinstance(move, Correction):
            return move._replace(atoms=self._own(move.atoms, k))
        ends = (
            atom and Atom(*self._own(as_array([atom]), k)[0].tolist())
            for atom in (move.toward, move.away)
        )
        toward, away = ends
        return move._replace(toward=toward, away=away)

    def _numbered(self, values: np.ndarray) -> np.ndarray:
        """Return one value per feature, in the numbers of the whole problem."""
        return values[..., self._positions[0]]


def _positions(problem: Problem) -> np.ndarray:
    """Return the numbers that a problem gives features 0, 1 and so on."""
    numbers = np.arange(problem.n_features)
    features = problem.to_user(np.column_stack([numbers, numbers, np.ones_like(numbers)]))[:, 0]
    positions = np.empty_like(features)
    positions[features] = numbers
    return positions


# --- tasks ---------------------------------------------------------------------------------------


def ask(shard: Shard, question: str, *args: Any) -> Any:
    """Return the answer of a shard; one question at a time, as problems share their memory."""
    with shard.lock:
        return getattr(shard, question)(*args)


def add(*parts: np.ndarray) -> np.ndarray:
    """Return the sum, in order."""
    total = parts[0].copy()
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
