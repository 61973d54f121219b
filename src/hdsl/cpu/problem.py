"""The problem in memory: margins are an array, one number per comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from ..solver.atoms import ZERO, Atom, as_array
from ..solver.protocols import Loss, Move, Step
from ..solver.snapshot import Arrays
from .comparisons import Comparisons, make_comparisons
from .corrective import Corrections, Sample
from .cross_terms import CrossTerms
from .gradient import CPUGradient
from .hosted import HostedProblem
from .kernels import comparisons as kernels
from .kernels import step as step_kernels
from .kernels.compiler import CHUNK
from .kernels.gradient import pairs_and_diagonal
from .kernels.losses import CODES, GIVEN
from .rooms import Rooms
from .rows import Rows

#: A part of the comparisons has no fewer chunks than this, and one in so many at least.
SAMPLE, MOST_LEFT_OUT = 4, 16

_NOTHING = np.empty(0)


class CPUProblem(HostedProblem):
    """Mean loss of the margins of a convex combination of atoms.

    Margins are those of the whole similarity, prior included. The zero atom has the prior's: with
    it, weights sum to 1, and the margins of a model are the same combination of its atoms'.

    Parameters are those of ``HostedProblem``.
    """

    def __init__(
        self,
        comparisons: Comparisons,
        features: np.ndarray,
        loss: Loss,
        scale: float,
        prior: float = 0.0,
        sample: Sample | None = None,
    ) -> None:
        super().__init__(comparisons, features, loss, scale, prior, sample)
        self.workers = comparisons.workers
        self.offset = prior * comparisons.dot_margins if prior > 0 else None
        self.cross_terms = CrossTerms(comparisons.pairs)
        self._code = CODES.get(type(loss), GIVEN)
        self._rooms = Rooms()

    # --- margins and value -----------------------------------------------------------------------

    def margins(self, atoms: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return the margins of a combination of atoms, from scratch."""
        out = np.zeros(self.n_comparisons) if self.offset is None else self.offset.copy()
        for atom, weight in zip(atoms, weights, strict=True):
            self._add(atom, weight, out)
        return out

    def _add(self, atom: Atom | np.ndarray, weight: float, out: np.ndarray) -> None:
        """Add the margins of an atom, without the prior's, times a weight."""
        self.comparisons.add_atom_margins(Atom(*atom), self.scale * weight, out)

    def value(self, margins: np.ndarray) -> float:
        """Return the mean loss."""
        if self._code == GIVEN:
            return self._weighted_sum(self.loss.value(margins))
        return self._weighted_sum(margins, self._code)

    def _weighted_sum(self, values: np.ndarray, code: int = GIVEN) -> float:
        """Return the weighted sum of values, or of the losses of margins."""
        of, out = self.comparisons, np.empty(self.comparisons.n_chunks)
        self.workers.run(
            kernels.loss_sums, of.chunk_bounds, code, values, of.omega, of.omega_step, out
        )
        return float(out.sum())

    def largest_margin(self, margins: np.ndarray) -> float:
        """Return the largest absolute margin."""
        return max(float(margins.max()), -float(margins.min()))

    # --- steps -----------------------------------------------------------------------------------

    def direction(self, margins: np.ndarray, move: Move) -> np.ndarray:
        """Return how margins change along a move."""
        if move.toward is not None and move.away is not None:
            out = np.zeros(self.n_comparisons)
        elif self.offset is None:
            out = margins.copy() if move.toward is None else -margins
        else:
            out = margins - self.offset if move.toward is None else self.offset - margins
        for atom, sign in ((move.toward, 1.0), (move.away, -1.0)):
            if atom is not None and atom != ZERO:
                self._add(atom, sign, out)
        return out

    def slopes(
        self, margins: np.ndarray, direction: np.ndarray, step_sizes: Sequence[float]
    ) -> np.ndarray:
        """Return the first two derivatives of the value at each step size, shape (n, 2)."""
        sizes = np.array(step_sizes, dtype=np.float64)
        if self._code == GIVEN:
            return np.array([self._slopes_of_given(margins, direction, size) for size in sizes])
        of = self.comparisons
        sums = np.empty((2, len(sizes), of.n_chunks))
        self.workers.run(
            kernels.slopes_along, of.chunk_bounds, self._code, margins, direction, sizes,
            of.omega, of.omega_step, *sums,
        )  # fmt: skip
        return sums.sum(axis=2).T

    def sampled_slopes(
        self, margins: np.ndarray, direction: np.ndarray, step_sizes: Sequence[float]
    ) -> np.ndarray:
        """Return what slopes may be: those of some chunks of the comparisons."""
        of = self.comparisons
        if self._code == GIVEN or of.n_chunks < 2 * SAMPLE:
            return self.slopes(margins, direction, step_sizes)
        every = min(of.n_chunks // SAMPLE, MOST_LEFT_OUT)
        end = of.n_comparisons // CHUNK * CHUNK
        sizes = np.array(step_sizes, dtype=np.float64)
        m, d, omega = (
            array[:end].reshape(-1, CHUNK)[::every].ravel() if array.size > 1 else array
            for array in (margins, direction, of.omega)
        )
        n_chunks = m.size // CHUNK
        sums = np.empty((2, len(sizes), n_chunks))
        kernels.slopes_along(0, n_chunks, self._code, m, d, sizes, omega, of.omega_step, *sums)
        return sums.sum(axis=2).T

    def _slopes_of_given(
        self, margins: np.ndarray, direction: np.ndarray, step_size: float
    ) -> tuple[float, float]:
        there = margins + step_size * direction
        return (
            self._weighted_sum(direction * self.loss.derivative(there)),
            self._weighted_sum(direction**2 * self.loss.curvature(there)),
        )

    def advance(self, margins: np.ndarray, direction: np.ndarray, step_size: float) -> Step:
        """Return the step of this size."""
        out = np.empty(self.n_comparisons)
        bounds = self.comparisons.chunk_bounds
        self.workers.run(kernels.advance, bounds, margins, direction, step_size, out)
        return Step(out, step_size, self.value(out), self.largest_margin(out))

    def step(self, margins: np.ndarray, move: Move, step_size: float | None = None) -> Step | None:
        """Return the best step along a move, or the one of a given size; None for no step."""
        if self._code == GIVEN:
            return super().step(margins, move, step_size)
        of, n_chunks = self.comparisons, self.comparisons.n_chunks
        toward, away = move.toward, move.away
        share = 0.0 if toward is not None and away is not None else 1.0 if toward is None else -1.0
        chosen = [
            (atom, sign * self.scale)
            for atom, sign in ((toward, 1.0), (away, -1.0))
            if atom is not None and atom != ZERO
        ]
        atoms = as_array([atom for atom, _ in chosen])
        factors = np.array([factor for _, factor in chosen])
        direction, out = (self._rooms.take(self.n_comparisons) for _ in range(2))
        sums, totals, result = (
            np.empty((2, n_chunks)),
            np.empty((step_kernels.N_PHASES, 2)),
            np.zeros(3),
        )
        self.workers.together(
            step_kernels.take_step, step_kernels.N_PHASES, 8 * self.n_comparisons, self._code,
            margins, _NOTHING if self.offset is None else self.offset, share, atoms, factors,
            *of.rows.by_column, *of.by_anchor, of.omega, of.omega_step,
            np.nan if step_size is None else step_size, move.max_step_size, of.two_per_row,
            direction, out, *sums, totals, result,
        )  # fmt: skip
        size, value, largest = result.tolist()
        return Step(out, size, value, largest) if size > 0.0 else None

    @cached_property
    def _corrections(self) -> Corrections:
        return Corrections(self.comparisons, self.loss, self.scale, self.sample)

    def curvature(self, margins: np.ndarray, atoms: np.ndarray) -> np.ndarray:
        """Return the second derivatives of the value in the weights of the atoms."""
        return self._corrections.curvature(margins, atoms)

    def shift(self, atoms: np.ndarray, change: np.ndarray) -> np.ndarray:
        """Return how margins change where the weights of atoms change."""
        return self._corrections.shift(atoms, change)

    # --- gradients -------------------------------------------------------------------------------

    def gradient(
        self,
        margins: np.ndarray,
        batch: np.ndarray | None = None,
        batch_weight: float | None = None,
    ) -> CPUGradient:
        """Return the gradient over all comparisons, or over a batch of them (rising numbers)."""
        of, offset = self.comparisons, self.offset
        if batch is not None:
            of, margins = self._take(batch, batch_weight), margins[batch]
            offset = None if offset is None else offset[batch]
        given = self.loss.derivative(margins) if self._code == GIVEN else margins
        pairs, pulls = of.pairs, self._rooms.take(of.n_comparisons)
        if not pairs.store_products:
            w = np.zeros(pairs.n_pairs)
            kernels.pull_pairs_once(
                self._code, given, of.omega, of.omega_step, of.positive_pair, of.negative_pair,
                pulls, w,
            )  # fmt: skip
            terms = self.cross_terms if batch is None else None
            return CPUGradient(pairs, self.scale, w, pulls, offset, batch, terms)
        w, diagonal = self._rooms.take(pairs.n_pairs), np.empty(self.n_features)
        pair, ptr, feature, product = pairs.products
        self.workers.together(
            pairs_and_diagonal, 6, 2 * of.n_comparisons + product.size, self._code, given,
            of.omega, of.omega_step, *of.terms, pairs.product_parts, pair, ptr, feature, product,
            pairs.diagonal_parts, pulls, w, diagonal,
        )  # fmt: skip
        gradient = CPUGradient(pairs, self.scale, w, pulls, offset, batch, self.cross_terms)
        gradient.diagonal = diagonal
        return gradient

    def _take(self, batch: np.ndarray, batch_weight: float | None) -> Comparisons:
        """Return some of the comparisons with the rows that they name.

        Feature numbers stay; a batch costs what its own rows hold and nothing else.
        """
        of = self.comparisons
        total = self.batch_total(batch, batch_weight)
        omega = (of.omega[batch] if of.omega_step else 1.0) / total
        compared = np.column_stack([column[batch] for column in of.columns])
        rows, numbers = np.unique(compared, return_inverse=True)
        return make_comparisons(
            Rows(of.rows.matrix[rows], self.workers),
            numbers.reshape(compared.shape),
            omega,
            store_products=False,  # a batch is used once
        )

    # --- snapshots -------------------------------------------------------------------------------

    def snapshot(self, margins: np.ndarray) -> Arrays:
        """Return the margins, and the feature pairs whose terms are stored."""
        return {"margins": margins, "known": self.cross_terms.known}

    def restore(self, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the margins of a snapshot."""
        self.check_snapshot(arrays)
        self.cross_terms.learn(arrays["known"])
        return arrays["margins"]

    def restore_gradient(self, arrays: Mapping[str, np.ndarray]) -> CPUGradient:
        """Return the gradient of a snapshot."""
        self.check_gradient(arrays)
        pairs, nothing = self.comparisons.pairs, np.empty(0)
        return CPUGradient(pairs, self.scale, arrays["w"], nothing, None, None, self.cross_terms)
