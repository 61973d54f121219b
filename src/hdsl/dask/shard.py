"""A shard on a worker: a part of the comparisons, the rows that they name, and what is asked of it.

Margins, directions and gradients stay here, under numbers that the client gives them. An order
makes such a value; a question returns an array, which is added up over the shards.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..cpu import statistics
from ..cpu.comparisons import make_comparisons
from ..cpu.corrective import Sample
from ..cpu.gradient import CPUGradient
from ..cpu.problem import CPUProblem
from ..cpu.rows import Rows
from ..cpu.workers import Workers
from ..cuda.layout import OnCard
from ..cuda.memory import estimate
from ..cuda.problem import CUDAProblem
from ..cuda.runtime import Device
from ..solver.atoms import NOTHING, Atom
from ..solver.protocols import Loss, Move, Step
from ..solver.trace import NO_ATOM

#: Rows of S that share a pass over X.
WIDTH = 8


class Past(NamedTuple):
    """How margins came about, so that they can be made again to the last bit.

    Parameters
    ----------
    atoms, weights : ndarray
        The model whose margins were computed from scratch.
    moves : ndarray of int64 of shape (n, 6)
        The moves since: atom toward, atom away; (-1, -1, 0) for none. A correction has neither.
    sizes : ndarray of shape (n,)
        Their step sizes.
    shifted : ndarray of int64 of shape (m, 4)
        The number of a correction among the moves, and an atom whose weight it changes.
    changes : ndarray of shape (m,)
        By how much.
    """

    atoms: np.ndarray
    weights: np.ndarray
    moves: np.ndarray
    sizes: np.ndarray
    shifted: np.ndarray
    changes: np.ndarray

    @classmethod
    def begin(cls, atoms: np.ndarray, weights: np.ndarray) -> Past:
        """Return the past of margins from scratch."""
        none = np.empty((0, 6), dtype=np.int64), np.empty(0), np.empty((0, 4), dtype=np.int64)
        return cls(atoms.copy(), weights.copy(), *none, np.empty(0))

    def then(self, direction: Direction, size: float) -> Past:
        """Return the past after one more step."""
        number = np.full((len(direction.atoms), 1), len(self.moves), dtype=np.int64)
        return self._replace(
            moves=np.vstack([self.moves, direction.move]),
            sizes=np.append(self.sizes, size),
            shifted=np.vstack([self.shifted, np.hstack([number, direction.atoms])]),
            changes=np.concatenate([self.changes, direction.change]),
        )


class Direction(NamedTuple):
    """What margins change along: two atoms, or the weights of many."""

    move: np.ndarray
    atoms: np.ndarray
    change: np.ndarray

    @classmethod
    def of(cls, move: Move) -> Direction:
        """Return the direction of a move."""
        numbers = np.array(encoded(move), dtype=np.int64)
        return cls(numbers, *NOTHING)


#: A move that is a correction.
CORRECTS = np.array([*NO_ATOM, *NO_ATOM], dtype=np.int64)


def encoded(move: Move) -> list[int]:
    """Return the two atoms of a move as six numbers."""
    return [*(move.toward or NO_ATOM), *(move.away or NO_ATOM)]


def decoded(numbers: np.ndarray) -> Move:
    """Return the move of six numbers."""
    ends = (Atom(*numbers[:3].tolist()), Atom(*numbers[3:].tolist()))
    toward, away = (None if atom == NO_ATOM else atom for atom in ends)
    return Move("", toward, away, np.nan)


class Sampled(NamedTuple):
    """The comparisons of all shards that second derivatives are estimated from.

    Parameters
    ----------
    n_rows : int
        Of X.
    keys : ndarray of int64
        row * n_rows + row of the pairs that are to win in them, the smaller row first.
    share : float
        Of the weight of all comparisons.
    """

    n_rows: int
    keys: np.ndarray
    share: float


class Shard:
    """Some of the comparisons, with the features of the whole.

    Parameters
    ----------
    matrix : csr_array of shape (n_rows, n_features), float64
        The rows that the comparisons name; canonical, in the numbers of the features.
    compared : ndarray of shape (n, 3) or (n, 4)
        Rows of the matrix, sorted by anchor.
    omega : ndarray of shape (n,) or float
        Weights, which sum to 1 over all shards.
    weights : ndarray of shape (n,) or None
        The same, relative to the largest of all.
    workers : Workers
    store_products : bool
    device : Device, default=None
        The card that computes; None is the processor.

    Attributes
    ----------
    sample : Sample or None
        What second derivatives are estimated from; None is all comparisons.
    """

    def __init__(
        self,
        matrix: sp.csr_array,
        compared: np.ndarray,
        omega: np.ndarray | float,
        weights: np.ndarray | None,
        *,
        workers: Workers,
        store_products: bool,
        device: Device | None = None,
    ) -> None:
        if device is not None:
            need = estimate(matrix, compared, corrects=True).total
            device.check_fits("A shard", need, "auto", ("use more workers with a GPU each",))
        store_products = store_products and device is None
        self.comparisons = make_comparisons(
            Rows(matrix, workers), compared, omega, store_products=store_products
        )
        self.sample: Sample | None = None
        self._card = None if device is None else OnCard(self.comparisons, device)
        self.weights = weights
        self.n_features, self.nnz = matrix.shape[1], matrix.nnz
        self.problems: dict[int, CPUProblem | CUDAProblem] = {}
        self.values: dict[int, Any] = {}
        self.steps: dict[int, Step] = {}
        self._spread: Any = None

    @cached_property
    def present(self) -> np.ndarray:
        """Whether each feature has a value in these rows."""
        found = np.zeros(self.n_features, dtype=bool)
        found[self.comparisons.rows.row_idx] = True
        return found

    # --- orders ----------------------------------------------------------------------------------

    def order(self, verb: str, out: int, *args: Any) -> None:
        """Make the value of this number, or drop it."""
        getattr(self, f"_make_{verb}")(out, *args)

    def _make_problem(
        self, out: int, features: np.ndarray, loss: Loss, scale: float, prior: float
    ) -> None:
        given = features, loss, scale, prior, self.sample
        if self._card is None:
            self.problems[out] = CPUProblem(self.comparisons, *given)
        else:
            self.problems[out] = CUDAProblem(self._card, *given)

    def _make_margins(self, out: int, of: int, past: Past, known: np.ndarray | None) -> None:
        problem: Any = self.problems[of]
        margins = problem.margins(past.atoms, past.weights)
        bounds = np.searchsorted(past.shifted[:, 0], np.arange(len(past.moves) + 1))
        for k, (numbers, size) in enumerate(zip(past.moves, past.sizes.tolist(), strict=True)):
            if (numbers == CORRECTS).all():
                own = slice(*bounds[k : k + 2])
                direction = problem.shift(past.shifted[own, 1:], past.changes[own])
            else:
                direction = problem.direction(margins, decoded(numbers))
            margins = problem.advance(margins, direction, size).margins
        if known is not None:
            margins = problem.restore({"margins": np.asarray(margins), "known": known})
        self.values[out] = margins

    def _make_direction(self, out: int, of: int, margins: int, numbers: np.ndarray) -> None:
        self.values[out] = self.problems[of].direction(self.values[margins], decoded(numbers))

    def _make_shift(self, out: int, of: int, atoms: np.ndarray, change: np.ndarray) -> None:
        self.values[out] = self.problems[of].shift(atoms, change)

    def _make_step(self, out: int, of: int, margins: int, direction: int, size: float) -> None:
        step = self.problems[of].advance(self.values[margins], self.values[direction], size)
        self.values[out], self.steps[out] = step.margins, step

    def _make_gradient(
        self, out: int, of: int, margins: int, batch: np.ndarray | None, weight: float | None
    ) -> None:
        if batch is None or len(batch):
            problem = self.problems[of]
            self.values[out] = problem.gradient(self.values[margins], batch, weight)
        else:
            self.values[out] = None  # the batch has none of these comparisons

    def _make_drop(self, out: int) -> None:
        for held in (self.values, self.steps, self.problems):
            held.pop(out, None)

    # --- questions -------------------------------------------------------------------------------

    def ask(self, question: str, *args: Any) -> Any:
        """Return the share of this shard in a sum, or what it tells of itself."""
        return getattr(self, f"_{question}")(*args)

    def _value(self, of: int, margins: int) -> np.ndarray:
        return np.array([self.problems[of].value(self.values[margins])])

    def _step_value(self, margins: int) -> np.ndarray:
        return np.array([self.steps[margins].value])

    def _slopes(self, of: int, margins: int, direction: int, sizes: np.ndarray) -> np.ndarray:
        problem = self.problems[of]
        return problem.slopes(self.values[margins], self.values[direction], sizes.tolist())

    def _first_slopes(self, of: int, margins: int, direction: int, sizes: np.ndarray) -> np.ndarray:
        """Return slopes at 0, and those of a part of the comparisons at some step sizes."""
        problem, at = self.problems[of], (self.values[margins], self.values[direction])
        return np.vstack([problem.slopes(*at, [0.0]), problem.sampled_slopes(*at, sizes.tolist())])

    def _curvature(self, of: int, margins: int, atoms: np.ndarray) -> np.ndarray:
        """Return the second derivatives in the weights of two atoms each, the lower triangle."""
        whole = self.problems[of].curvature(self.values[margins], atoms)
        return whole[np.tril_indices(len(atoms))]

    def _weight_of(self, of: int, batch: np.ndarray) -> np.ndarray:
        return np.array([self.problems[of].weight_of(batch) if len(batch) else 0.0])

    def _exact_search_cost(self, of: int) -> np.ndarray:
        return np.array([self.problems[of].exact_search_cost()])

    def _n_slopes(self, gradient: int) -> np.ndarray:
        """Return 1 where some slope is not zero."""
        of = self.values[gradient]
        return np.array([0.0 if of is None or of.is_zero() else 1.0])

    def _rounding(self, gradient: int) -> np.ndarray:
        of = self.values[gradient]
        return np.array([0.0 if of is None else of.rounding])

    def _dot(self, gradient: int, margins: int) -> np.ndarray:
        of = self.values[gradient]
        return np.array([0.0 if of is None else of.dot(self.values[margins])])

    def _entries(self, gradient: int, atoms: np.ndarray) -> np.ndarray:
        of = self.values[gradient]
        return np.zeros(len(atoms)) if of is None else of.entries(atoms)

    # What is as long as the features has one row per feature, so that blocks of them are in one
    # piece.

    def _diagonal(self, gradient: int, *_: Any) -> np.ndarray:
        of = self.values[gradient]
        return np.zeros((self.n_features, 1)) if of is None else of.diagonal[:, None]

    def _rows(self, gradient: int, features: np.ndarray, *_: Any) -> np.ndarray:
        of = self.values[gradient]
        if of is None:
            return np.zeros((self.n_features, len(features)))
        steps = range(0, len(features), WIDTH)
        parts = [of.rows(features[k : k + WIDTH]).T for k in steps]
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)

    def spread(self, gradient: int, features: np.ndarray) -> np.ndarray:
        """Begin with the rows of S of some features; return a bound of |S_ij| / Σ|x_j| for each."""
        of = self.values[gradient]
        if isinstance(of, CPUGradient):
            self._spread, peak = of.spread(features)
            return peak
        self._spread = None if of is None else self._rows(gradient, features)
        return np.full(len(features), 0.0 if of is None else np.inf)

    def rows_at(self, gradient: int, n: int, columns: np.ndarray) -> np.ndarray:
        """Return S_ij for listed j and the n features that were spread last."""
        of = self.values[gradient]
        if isinstance(of, CPUGradient):
            return of.rows_at(self._spread, n, columns)
        return np.zeros((len(columns), n)) if of is None else self._spread[columns]

    @cached_property
    def sizes(self) -> np.ndarray:
        """Σ|x| of each feature."""
        return self.comparisons.rows.column_sizes

    def _drift(self, gradient: int, other: int) -> np.ndarray:
        return self.values[gradient].drift_since(self.values[other])[:, None]

    def _statistics(self) -> np.ndarray:
        """Return weight, margins of the dot product, values and ‖x‖² per anchor, and anchors."""
        return statistics.sums(self.comparisons, self.weights)

    def _sizes(self) -> np.ndarray:
        """Return the numbers of comparisons, rows and values."""
        return np.array([self.comparisons.n_comparisons, self.comparisons.rows.n_rows, self.nnz])

    # --- what is not added up --------------------------------------------------------------------

    def _largest(self, of: int, margins: int) -> float:
        step = self.steps.get(margins)
        if step is not None:
            return step.largest_margin
        return self.problems[of].largest_margin(self.values[margins])

    def _margins(self, margins: int) -> np.ndarray:
        return np.asarray(self.values[margins])

    def _known(self, of: int, margins: int) -> np.ndarray:
        return self.problems[of].snapshot(self.values[margins])["known"]


#: What is as long as the features: workers add it up, each a block of features.
LONG = {"diagonal", "partners", "rows", "drift"}

#: What members find together; all of them give the same answer.
AGREED = {"line_search"}

#: What each shard tells of itself; everything else is added up.
TOLD = {"largest", "margins", "known"}
