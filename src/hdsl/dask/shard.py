"""What runs in tasks: a shard answers the questions of the solver for its own comparisons.

A shard holds the comparisons of some anchors and the rows that they name, as a problem
of one machine whose weights are shares of the whole. Its answers add up over the
shards.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..cached import cached
from ..cpu.comparisons import Comparisons
from ..cpu.gradient import CPUGradient
from ..cpu.layout import comparison_sums, count_anchors
from ..cpu.problem import CPUProblem
from ..cpu.rows import KernelRows
from ..cpu.workers import Workers
from ..solver.atoms import Correction, Move, are_directions, as_array
from ..solver.protocols import Loss, Margins, Step

#: Gradients that a shard remembers: an exact oracle compares three.
REMEMBERED = 3


class ProblemKey(NamedTuple):
    """What makes a problem of a layout; `name` is a new one after each `reset`."""

    name: str
    loss: Loss
    scale: float
    prior: float
    direction_scale: float = 0.0


class GradientKey(NamedTuple):
    """Which gradient: its problem, a name, and the comparisons of a batch or None for all."""

    problem: ProblemKey
    name: str
    batch: np.ndarray | None = None


class ShardData(NamedTuple):
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
    dense : ndarray of shape (n_rows, width) or None, default=None
        An embedding.
    """

    X: sp.csr_array
    compared: np.ndarray
    weights: np.ndarray | None
    total_weight: float
    n_features: int
    dense: np.ndarray | None = None


class GradientStart(NamedTuple):
    """What is asked of each gradient first; these of the shards add up.

    Parameters
    ----------
    batch_weight : float
        0 where there is no batch.
    n_with_slopes : int
        Shards that have a slope other than zero.
    rounding : float
    scores : ndarray of shape (n_atoms,)
        Of atoms that are asked ahead.
    """

    batch_weight: float
    n_with_slopes: int
    rounding: float
    scores: np.ndarray

    @classmethod
    def sum(cls, starts: Sequence[GradientStart]) -> GradientStart:
        """Return the sums over shards, in order."""
        return cls(
            batch_weight=sum(start.batch_weight for start in starts),
            n_with_slopes=sum(start.n_with_slopes for start in starts),
            rounding=sum(start.rounding for start in starts),
            scores=add(*[start.scores for start in starts]),
        )


class Shard:
    """What answers for the comparisons of some anchors.

    It travels as plain arrays: problem and gradients are made where it is asked. An
    answer depends on the question alone, so that a shard that is built again gives the
    same.

    Parameters
    ----------
    data : ShardData
    """

    def __init__(self, data: ShardData) -> None:
        self.data = data
        self.lock = threading.Lock()
        self._problem: CPUProblem | None = None
        self._problem_name = ""
        self._atoms = as_array([])  # that the last question was about
        self._gradients: dict[str, CPUGradient] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return Shard, (self.data,)

    def __sizeof__(self) -> int:
        # Dask weighs moves by it: X by rows and by columns, and the pairs of rows.
        n_bytes = 36 * self.data.X.nnz + 80 * len(self.data.compared)
        if self.data.dense is not None:
            n_bytes += self.data.dense.nbytes
        return n_bytes

    # --- what is made on the worker ---------------------------------------------------

    @cached
    def comparisons(self) -> Comparisons:
        """Rows and comparisons, laid out."""
        rows = KernelRows(
            self.data.X, Workers(1), self.data.n_features, dense=self.data.dense
        )
        weights: np.ndarray | float = 1.0
        if self.data.weights is not None:
            weights = self.data.weights
        return Comparisons(rows, self.data.compared, weights / self.data.total_weight)

    def problem(self, key: ProblemKey, vectors: np.ndarray | None = None) -> CPUProblem:
        """Return the problem of a key; the one before is forgotten.

        `vectors` are those of the directions that the question is about.
        """
        if self._problem is None or key.name != self._problem_name:
            columns = np.arange(self.data.n_features)
            offset = self.comparisons.prior_margins(key.prior)
            self._problem = CPUProblem(
                self.comparisons,
                columns,
                key.loss,
                key.scale,
                offset,
                key.direction_scale,
            )
            self._problem_name = key.name
            self._gradients = {}
        if vectors is not None and self._problem.directions is not None:
            self._problem.directions.restore(vectors)
        return self._problem

    def gradient(self, step: Step, key: GradientKey) -> CPUGradient:
        """Return a gradient, not divided by the weight of a batch.

        It is remembered, as it is asked more than once.
        """
        problem = self.problem(key.problem)
        if key.name not in self._gradients:
            while len(self._gradients) >= REMEMBERED:
                oldest = next(iter(self._gradients))
                del self._gradients[oldest]
            self._gradients[key.name] = problem.gradient(step.margins, key.batch, 1.0)
        return self._gradients[key.name]

    # --- statistics -------------------------------------------------------------------

    def sums(self, numbers: np.ndarray) -> np.ndarray:
        """Return the sums over comparisons of these numbers that statistics are made of."""
        return np.array(comparison_sums(self.comparisons, self.data.weights, numbers))

    def n_anchors(self) -> int:
        """Return how many rows comparisons of a positive weight start from."""
        return count_anchors(self.comparisons, self.data.weights)

    # --- margins ----------------------------------------------------------------------

    def margins(
        self,
        key: ProblemKey,
        vectors: np.ndarray | None,
        atoms: np.ndarray,
        weights: np.ndarray,
    ) -> Step:
        """Return the margins of a model."""
        problem = self.problem(key, vectors)
        self._turn_to(atoms)
        margins = problem.margins(atoms, weights)
        return Step(margins, np.nan, problem.value(margins))

    def direction(
        self,
        key: ProblemKey,
        vectors: np.ndarray | None,
        step: Step,
        move: Move | Correction,
    ) -> Margins:
        """Return how margins change along a move."""
        problem = self.problem(key, vectors)
        if isinstance(move, Correction):
            self._turn_to(move.atoms)
        return problem.direction(step.margins, move)

    def advance(
        self, key: ProblemKey, step: Step, direction: Margins, size: float
    ) -> Step:
        """Return the margins after a step."""
        return self.problem(key).advance(step.margins, direction.copy(), size)

    def slopes(
        self, key: ProblemKey, step: Step, direction: Margins, sizes: np.ndarray
    ) -> np.ndarray:
        """Return the first two derivatives of the value at each step size."""
        return self.problem(key).slopes(step.margins, direction, sizes.tolist())

    def n_curved(self, key: ProblemKey, step: Step, numbers: np.ndarray) -> int:
        """Return how many comparisons of these numbers have a loss that is curved."""
        return self.problem(key).n_curved(step.margins[numbers])

    def curvature(
        self,
        key: ProblemKey,
        vectors: np.ndarray | None,
        step: Step,
        sample: tuple[np.ndarray, float],
        atoms: np.ndarray,
    ) -> np.ndarray:
        """Return the second derivatives in the weights of atoms, from a sample of comparisons."""
        numbers, _ = sample
        if not len(numbers):
            return np.zeros((len(atoms), len(atoms)))
        problem = self.problem(key, vectors)
        self._turn_to(atoms)
        return problem.curvature(step.margins, atoms, sample)

    def exact_search_cost(self, key: ProblemKey) -> float:
        """Return the number of multiplications of a search of all pairs of features."""
        return self.problem(key).exact_search_cost()

    # --- gradients --------------------------------------------------------------------

    def start(
        self, step: Step, key: GradientKey, atoms: np.ndarray, in_one_pass: bool
    ) -> GradientStart:
        """Return what is asked of each gradient first, with the scores of atoms."""
        gradient = self.gradient(step, key)
        batch_weight = 0.0
        if key.batch is not None:
            batch_weight = self.problem(key.problem).batch_weight(key.batch)
        return GradientStart(
            batch_weight=batch_weight,
            n_with_slopes=int(not gradient.is_zero()),
            rounding=gradient.rounding,
            scores=self.scores(step, key, atoms, in_one_pass),
        )

    def scores(
        self, step: Step, key: GradientKey, atoms: np.ndarray, in_one_pass: bool
    ) -> np.ndarray:
        """Return the scores of pairs, of all in one pass or from the terms of each."""
        gradient = self.gradient(step, key)
        self._turn_to(atoms)
        if in_one_pass and len(atoms):
            gradient.atoms.activate(atoms)
        return gradient.pair_scores(atoms)

    def diagonal(self, step: Step, key: GradientKey) -> np.ndarray:
        """Return C_jj of every feature."""
        return self.gradient(step, key).diagonal

    def block(self, step: Step, key: GradientKey) -> np.ndarray:
        """Return G inside the embedding."""
        return self.gradient(step, key).block

    def rows(self, step: Step, key: GradientKey, features: np.ndarray) -> np.ndarray:
        """Return the rows of S of these features."""
        return self.gradient(step, key).rows(features)

    def drift(
        self,
        step: Step,
        key: GradientKey,
        earlier_step: Step,
        earlier_key: GradientKey,
    ) -> np.ndarray:
        """Return a bound of |S_ij - S_ij of an earlier gradient| for each feature i."""
        earlier = self.gradient(earlier_step, earlier_key)
        return self.gradient(step, key).drift_since(earlier)

    def dot(self, step: Step, key: GradientKey, model: Step) -> float:
        """Return the product of the gradient and a model with these margins."""
        return self.gradient(step, key).dot(model.margins)

    def _turn_to(self, atoms: np.ndarray) -> None:
        """Forget what the problem remembers of other pairs of features than these.

        It may move the last bits of an answer, and a shard that is built again
        remembers nothing.
        """
        atoms = atoms[~are_directions(atoms)]
        if self._problem is not None and not np.array_equal(atoms, self._atoms):
            self._problem.reset()
            self._atoms = atoms


# --- tasks ----------------------------------------------------------------------------


def ask(shard: Shard, question: str, *args: Any) -> Any:
    """Return the answer of a shard; one question at a time, as answers share its memory."""
    with shard.lock:
        return getattr(shard, question)(*args)


def add(*terms: np.ndarray) -> np.ndarray:
    """Return the sum, in order."""
    total = np.array(terms[0])
    for term in terms[1:]:
        total += term
    return total


class Partners(NamedTuple):
    """The best partner of each of several features.

    Parameters
    ----------
    values : ndarray
        C_jj + |S_ij|; -inf where there is no partner.
    features : ndarray
        j; -1 where there is none.
    entries : ndarray
        S_ij; 0 where there is none.
    """

    values: np.ndarray
    features: np.ndarray
    entries: np.ndarray


def best_partners(
    diagonal: np.ndarray, features: np.ndarray, *rows: np.ndarray, after: bool
) -> Partners:
    """Return for each feature i the j of the largest C_jj + |S_ij|, the smallest of equals.

    Rows of S are the sum of the given ones. `after` asks for j > i.
    """
    S = add(*rows)
    values = np.abs(S)
    values += diagonal
    number = np.arange(len(features))
    if after:
        values[np.arange(S.shape[1]) <= features[:, None]] = -np.inf
    else:
        values[number, features] = -np.inf
    partners = values.argmax(axis=1)
    best = values[number, partners]
    is_none = best == -np.inf
    return Partners(
        values=best,
        features=np.where(is_none, -1, partners),
        entries=np.where(is_none, 0.0, S[number, partners]),
    )
