"""The problem in memory: margins are an array, one number per comparison."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from ..solver.atoms import ZERO
from ..solver.line_search import Slopes, line_search
from ..solver.losses import kernel_code
from ..solver.protocols import (
    Correction,
    Loss,
    Move,
    Problem,
    Step,
    curvature_stride,
)
from .atoms import Atoms
from .comparisons import EMPTY, Comparisons
from .gradient import CPUGradient
from .kernels import atoms as atom_kernels
from .kernels import losses as kernels
from .kernels.compiled import CHUNK
from .rows import Rows

#: Numbers in the matrices that they are summed in, most of these, and least comparisons
#: of each.
CURVATURE_ROOM = 1 << 22
MOST_PARTS = 16
LEAST_IN_PART = 32768

#: Chunks of comparisons whose pulls are computed at a time: fewer calls of Python for
#: each.
PULLED = 64

#: A line search begins with so many chunks, where all are so many times as many at
#: least.
SAMPLED = 16
FEWER = 16

#: A batch whose weights are all zero has this weight.
TINY = 1e-300


class CPUProblem(Problem):
    """Mean loss of the margins of a convex combination of atoms.

    Margins are those of the whole similarity, its fixed parts included. The zero atom
    has theirs: with it, weights sum to 1, and the margins of a model are the same
    combination of its atoms'.

    Parameters
    ----------
    comparisons : Comparisons
    features : ndarray of shape (n_features,)
        The user's number of each feature.
    loss : Loss
    scale : float
        λ of the domain.
    offset : ndarray of shape (n_comparisons,), default=None
        Margins of what is not learned; None where they are zero.
    """

    def __init__(
        self,
        comparisons: Comparisons,
        features: np.ndarray,
        loss: Loss,
        scale: float,
        offset: np.ndarray | None = None,
    ) -> None:
        self.comparisons = comparisons
        self.features = features
        self.loss = loss
        self.scale = float(scale)
        self.workers = comparisons.workers
        self.n_comparisons = comparisons.n_comparisons
        self.n_features = len(features)
        self.atoms = Atoms(comparisons.pairs)
        self._code = kernel_code(loss)
        is_usual = self._code == kernels.SMOOTHED_HINGE and not comparisons.is_weighted
        self._along_kernel = kernels.along_hinge if is_usual else kernels.along
        self.offset = offset

    # --- margins and value ------------------------------------------------------------

    def margins(self, atoms: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return the margins of a combination of atoms, from scratch."""
        return self.combined(atoms, self.scale * weights, self.offset)

    def combined(
        self, atoms: np.ndarray, factors: np.ndarray, base: np.ndarray | None
    ) -> np.ndarray:
        """Return Σ factor · margins of (e_i ± e_j)(e_i ± e_j)ᵀ, plus those of a base."""
        if not len(atoms):
            return np.zeros(self.n_comparisons) if base is None else base.copy()
        return self.comparisons.differences(
            self.atoms.similarities(atoms, factors), base
        )

    def value(self, margins: np.ndarray) -> float:
        """Return the mean loss."""
        return float(self._along(margins, margins, 0.0)[0])

    def _along(
        self,
        margins: np.ndarray,
        direction: np.ndarray,
        size: float,
        moved: np.ndarray | None = None,
    ) -> np.ndarray:
        """Return value and first two derivatives at a step size; write the margins there."""
        omega = self.comparisons.omega
        n_chunks = self.comparisons.n_chunks
        if self._code is None:
            there = margins + size * direction
            terms = (
                self.loss.value(there),
                direction * self.loss.derivative(there),
                direction**2 * self.loss.curvature(there),
            )
            if moved is not None:
                moved[:] = there
            return np.array([(omega * term).sum() for term in terms])
        sums = np.empty((n_chunks, 3))
        moved = EMPTY if moved is None else moved
        self.workers.run(
            self._along_kernel,
            self.comparisons.chunk_bounds,
            self._code,
            margins,
            direction,
            float(size),
            omega,
            moved,
            sums,
        )
        return sums.sum(axis=0)

    # --- steps ------------------------------------------------------------------------

    def direction(self, margins: np.ndarray, move: Move | Correction) -> np.ndarray:
        """Return how margins change along a move, or along a correction of many weights."""
        if isinstance(move, Correction):
            return self.combined(move.atoms, self.scale * move.change, None)
        moved = [
            (atom, factor)
            for atom, factor in ((move.toward, self.scale), (move.away, -self.scale))
            if atom is not None and atom != ZERO
        ]
        share = 0.0
        if move.toward is None or move.away is None:
            share = 1.0 if move.toward is None else -1.0
        compared = self.comparisons
        U = np.empty((len(moved), compared.rows.n_rows))
        out = compared.recycled.empty()
        for u, (atom, _) in zip(U, moved, strict=True):
            compared.rows.unfold_atom(atom, u)
        self.workers.run(
            atom_kernels.direction,
            compared.bounds,
            share,
            margins,
            EMPTY if self.offset is None else self.offset,
            np.array([factor for _, factor in moved]),
            U,
            *compared.sides,
            out,
        )
        return out

    def slopes(
        self, margins: np.ndarray, direction: np.ndarray, step_sizes: Sequence[float]
    ) -> np.ndarray:
        """Return the first two derivatives of the value at each step size, shape (n, 2)."""
        return np.array(
            [self._along(margins, direction, size)[1:] for size in step_sizes]
        )

    def sampled_slopes(
        self, margins: np.ndarray, direction: np.ndarray
    ) -> Slopes | None:
        """Return slopes from chunks of comparisons here and there, where all are many.

        They are of the smoothed hinge: other losses are slow on one thread.
        """
        n_full = self.n_comparisons // CHUNK
        every = n_full // SAMPLED
        if self._code != kernels.SMOOTHED_HINGE or every < FEWER:
            return None
        given = (margins, direction, self.comparisons.omega)
        sums = np.empty((SAMPLED, 3))

        def some(x: np.ndarray) -> np.ndarray:
            return x[: n_full * CHUNK].reshape(-1, CHUNK)[::every][:SAMPLED].ravel()

        m, d, omega = (some(x) if len(x) > 1 else x for x in given)

        def slopes(size: float) -> tuple[float, float]:
            self._along_kernel(
                0, SAMPLED, self._code, m, d, float(size), omega, EMPTY, sums
            )
            _, slope, bend = sums.sum(axis=0).tolist()
            return slope, bend

        return slopes

    def advance(
        self, margins: np.ndarray, direction: np.ndarray, step_size: float
    ) -> Step:
        """Return the step of this size; its margins take the place of the direction."""
        value = self._along(margins, direction, step_size, direction)[0]
        return Step(direction, step_size, float(value))

    def step(self, margins: np.ndarray, move: Move | Correction) -> Step | None:
        """Return the best step along a move; None for no step."""
        direction = self.direction(margins, move)
        slopes = lambda size: self.slopes(margins, direction, [size])[0].tolist()  # noqa: E731
        size = line_search(
            slopes, move.max_step_size, self.sampled_slopes(margins, direction)
        )
        return self.advance(margins, direction, size) if size > 0.0 else None

    def curvature(
        self,
        margins: np.ndarray,
        atoms: np.ndarray,
        sample: tuple[np.ndarray, float] | None = None,
    ) -> np.ndarray:
        """Return the second derivatives of the value in the weights of the atoms.

        `sample` names comparisons and a factor of their weights; by default they are
        chosen by the numbers of atoms and of curved comparisons.
        """
        n = len(atoms)
        compared = self.comparisons
        if not n:
            return np.zeros((0, 0))
        if sample is None:
            sample = curvature_sample(
                compared.n_comparisons, n, lambda step: self.n_curved(margins[::step])
            )
        chosen, factor = sample
        omega = compared.omega[chosen] if compared.is_weighted else compared.omega
        bend = factor * self.scale**2 * omega * self.loss.curvature(margins[chosen])
        ends = (compared.pairs.a, compared.pairs.b)
        numbers = (compared.winner, compared.loser)
        wanted = np.full(compared.rows.n_rows, len(chosen) == compared.n_comparisons)
        if len(chosen) < compared.n_comparisons:  # a sample needs some rows alone
            is_used = np.zeros(compared.pairs.n_pairs, dtype=bool)
            for number in numbers:
                is_used[number[chosen[bend != 0.0]]] = True
            for end in ends:
                wanted[end[is_used]] = True
        Z, places, n_atoms = self.atoms.terms_of(atoms, wanted)
        n_parts = min(
            MOST_PARTS, CURVATURE_ROOM // n_atoms**2, len(chosen) // LEAST_IN_PART
        )
        n_parts = max(1, n_parts)
        bounds = len(chosen) * np.arange(n_parts + 1) // n_parts
        out = np.zeros((n_parts, n_atoms, n_atoms))
        given = chosen, bend, (compared.columns[0], *numbers), ends, Z

        def add_up(start: int, stop: int) -> None:
            rooms = _rooms(n_atoms)
            for part in range(start, stop):
                bound = int(bounds[part]), int(bounds[part + 1])
                atom_kernels.curvatures(*bound, *given, rooms, out[part])

        self.workers.run(add_up, np.arange(n_parts + 1))
        total = out.sum(axis=0)
        total += total.T.copy()
        is_whole = np.array_equal(places, np.arange(n_atoms))
        return total if is_whole else total[np.ix_(places, places)]

    def n_curved(self, margins: np.ndarray) -> int:
        """Return at how many margins the loss is curved."""
        return int(np.count_nonzero(self.loss.curvature(margins)))

    # --- gradients --------------------------------------------------------------------

    def gradient(
        self,
        margins: np.ndarray,
        batch: np.ndarray | None = None,
        batch_weight: float | None = None,
    ) -> CPUGradient:
        """Return the gradient over all comparisons, or over a batch of them (rising numbers).

        `batch_weight` is the weight of the whole batch where these comparisons are a
        part of it.
        """
        compared = self.comparisons
        offset = self.offset
        atoms = self.atoms
        if batch is not None:
            compared = self._take(batch, batch_weight)
            margins = margins[batch]
            offset = None if offset is None else offset[batch]
            atoms = Atoms(compared.pairs)
        if self._code == kernels.SMOOTHED_HINGE:
            w = compared.sum_pulls(margins, compared.omega)
        else:
            w = compared.sum_pulls(self._pulls(compared, margins))
        pulls = partial(self._pulls, compared, margins)
        return CPUGradient(atoms, self.scale, w, pulls, offset, batch)

    def _pulls(self, compared: Comparisons, margins: np.ndarray) -> np.ndarray:
        """Return -omega * loss'(margin) of each comparison."""
        pulls = np.empty(compared.n_comparisons)
        omega = compared.omega

        def write(start: int, stop: int) -> None:
            for c in range(start, stop, PULLED):
                part = slice(c * CHUNK, min(c + PULLED, stop) * CHUNK)
                weight = omega[part] if len(omega) > 1 else omega
                np.multiply(
                    -weight, self.loss.derivative(margins[part]), out=pulls[part]
                )

        is_ours = self._code is not None  # another loss is asked by one thread
        self.workers.run(
            write, compared.chunk_bounds if is_ours else [0, compared.n_chunks]
        )
        return pulls

    def batch_weight(self, batch: np.ndarray) -> float:
        """Return the weight of a batch, as `gradient` counts it."""
        compared = self.comparisons
        return (
            float(compared.omega[batch].sum())
            if compared.is_weighted
            else float(len(batch))
        )

    def _take(self, batch: np.ndarray, batch_weight: float | None) -> Comparisons:
        """Return some of the comparisons with the rows that they name.

        Feature numbers stay; a batch costs what its own rows hold and nothing else.
        """
        whole = self.comparisons
        total = max(
            self.batch_weight(batch) if batch_weight is None else batch_weight, TINY
        )
        omega = (whole.omega[batch] if whole.is_weighted else 1.0) / total
        compared = np.column_stack([column[batch] for column in whole.columns])
        rows, numbers = np.unique(compared, return_inverse=True)
        taken = Rows(whole.rows.matrix[rows], self.workers, whole.rows.n_features)
        return Comparisons(taken, numbers.reshape(compared.shape), omega)

    def forget(self) -> None:
        """Drop what is stored of atoms."""
        self.atoms.forget()

    def exact_search_cost(self) -> float:
        """Return the number of multiplications of a search of all pairs of features."""
        return self.comparisons.pairs.cost


def _rooms(n_atoms: int) -> tuple[np.ndarray, ...]:
    """Return the work arrays of a sum of second derivatives; most of them are never touched."""
    n_pairs = 2 * atom_kernels.GROUP
    return (
        np.zeros(n_atoms),
        np.full(n_atoms, -1),
        np.empty(n_atoms, dtype=np.int64),
        np.empty(n_pairs, dtype=np.int64),
        np.empty((atom_kernels.GROUP, 2), dtype=np.int64),
        np.zeros((n_pairs, n_atoms)),
        np.zeros((n_pairs, n_atoms)),
        np.zeros((n_atoms, n_atoms)),
    )


def curvature_sample(
    n_comparisons: int, n_atoms: int, count: Callable[[int], int]
) -> tuple[np.ndarray, float]:
    """Return the comparisons that second derivatives are estimated from, and their factor."""
    chosen = np.arange(
        0, n_comparisons, curvature_stride(n_comparisons, n_atoms, count)
    )
    return chosen, n_comparisons / len(chosen)
