"""The problem in memory: margins are an array, one number per comparison."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import scipy.sparse as sp

from ..solver.atoms import Atom, Correction, Move, are_directions, as_keys
from ..solver.directions import Directions
from ..solver.line_search import Slopes, line_search
from ..solver.losses import kernel_code
from ..solver.protocols import Loss, Problem, Step, curvature_stride
from .atoms import Atoms
from .comparisons import EMPTY, Comparisons
from .embedding import EmbeddedComparisons
from .gradient import CPUGradient
from .kernels import atoms as atom_kernels
from .kernels import curvature as curvature_kernels
from .kernels import losses as kernels
from .kernels.losses import CHUNK, MarginLine
from .rows import KernelRows

#: Numbers in the matrices that second derivatives are summed in, the largest number of
#: these, and the least comparisons of each.
MATRICES_LIMIT = 1 << 22
MOST_MATRICES = 16
LEAST_COMPARISONS = 32768

#: Chunks of comparisons whose pulls are computed at a time: fewer calls of Python.
PULLED = 64

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
    direction_scale : float, default=0.0
        s of the atoms s·uuᵀ inside the embedding of the rows; 0 is none.
    """

    #: A line search begins with so many chunks of comparisons, where all are so many
    #: times as many at least.
    sampled_chunks = 16
    least_stride = 16

    def __init__(
        self,
        comparisons: Comparisons,
        features: np.ndarray,
        loss: Loss,
        scale: float,
        offset: np.ndarray | None = None,
        direction_scale: float = 0.0,
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
        self._along_kernel = kernels.along
        if self._code == kernels.SMOOTHED_HINGE and not comparisons.is_weighted:
            self._along_kernel = kernels.along_hinge
        self.offset = offset
        self.embedded: EmbeddedComparisons | None = None
        if direction_scale > 0.0:
            dense = comparisons.rows.dense
            assert dense is not None
            self.directions = Directions(dense.shape[1])
            self.embedded = EmbeddedComparisons(
                comparisons, self.directions, float(direction_scale)
            )

    # --- margins and value ------------------------------------------------------------

    def margins(self, atoms: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return the margins of a combination of atoms, from scratch."""
        return self.combined(atoms, self.sizes(atoms) * weights, self.offset)

    def sizes(self, atoms: np.ndarray) -> np.ndarray:
        """Return the factor of each atom: λ, of directions s."""
        sizes = np.full(len(atoms), self.scale)
        if self.embedded is not None:
            sizes[are_directions(atoms)] = self.embedded.scale
        return sizes

    def combined(
        self, atoms: np.ndarray, factors: np.ndarray, base: np.ndarray | None
    ) -> np.ndarray:
        """Return Σ factor · margins of (e_i ± e_j)(e_i ± e_j)ᵀ or uuᵀ, plus those of a base."""
        if not len(atoms):
            if base is None:
                return np.zeros(self.n_comparisons)
            return base.copy()
        is_direction = are_directions(atoms)
        if is_direction.all():
            by_pair = self.comparisons.pairs.pool.empty()
            by_pair[:] = 0.0
        else:
            paired = ~is_direction
            by_pair = self.atoms.similarities(atoms[paired], factors[paired])
        if self.embedded is not None and is_direction.any():
            numbers = atoms[is_direction, 1]
            self.embedded.add_similarities(numbers, factors[is_direction], by_pair)
        return self.comparisons.differences(by_pair, base)

    def value(self, margins: np.ndarray) -> float:
        """Return the mean loss."""
        return float(self._along(margins, margins, 0.0)[0])

    def _along(
        self,
        margins: np.ndarray,
        direction: np.ndarray,
        step_size: float,
        moved: np.ndarray = EMPTY,
    ) -> np.ndarray:
        """Return value and first two derivatives at a step size; write the margins there."""
        weights = self.comparisons.omega
        if self._code is None:
            moved_margins = margins + step_size * direction
            if len(moved):
                moved[:] = moved_margins
            return self._sums_of_own_loss(moved_margins, direction)
        sums = np.empty((self.comparisons.n_chunks, 3))
        self.workers.run(
            self._along_kernel,
            self.comparisons.chunk_bounds,
            self._code,
            MarginLine(margins, direction, weights),
            float(step_size),
            moved,
            sums,
        )
        return sums.sum(axis=0)

    def _sums_of_own_loss(
        self, margins: np.ndarray, direction: np.ndarray
    ) -> np.ndarray:
        """Return value and first two derivatives of a loss that has no kernel."""
        weights = self.comparisons.omega
        slopes = direction * self.loss.derivative(margins)
        curvatures = direction**2 * self.loss.curvature(margins)
        return np.array(
            [
                (weights * self.loss.value(margins)).sum(),
                (weights * slopes).sum(),
                (weights * curvatures).sum(),
            ]
        )

    # --- steps ------------------------------------------------------------------------

    def direction(self, margins: np.ndarray, move: Move | Correction) -> np.ndarray:
        """Return how margins change along a move, or along a correction of many weights."""
        if isinstance(move, Correction):
            factors = self.sizes(move.atoms) * move.change
            return self.combined(move.atoms, factors, None)
        share = move.share_of_model
        atoms, signs = move.changes
        factors = self.sizes(atoms) * signs
        if self.embedded is not None:
            base = share * margins
            if self.offset is not None:
                base -= share * self.offset
            return self.combined(atoms, factors, base)
        compared = self.comparisons
        atom_rows = np.empty((len(atoms), compared.rows.n_rows))
        for number, atom in enumerate(as_keys(atoms)):
            compared.rows.unfold_atom(Atom(*atom), atom_rows[number])
        offset = self.offset
        if offset is None:
            offset = EMPTY
        out = compared.pool.empty()
        self.workers.run(
            atom_kernels.direction,
            compared.bounds,
            share,
            margins,
            offset,
            factors,
            atom_rows,
            atom_kernels.Sides(*compared.sides),
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
        n_chunks = self.sampled_chunks
        stride = self.n_comparisons // CHUNK // n_chunks
        if self._code != kernels.SMOOTHED_HINGE or stride < self.least_stride:
            return None
        weights = self.comparisons.omega
        if self.comparisons.is_weighted:
            weights = _every(weights, stride, n_chunks)
        line = MarginLine(
            _every(margins, stride, n_chunks),
            _every(direction, stride, n_chunks),
            weights,
        )
        sums = np.empty((n_chunks, 3))

        def slopes(step_size: float) -> tuple[float, float]:
            self._along_kernel(
                0, n_chunks, self._code, line, float(step_size), EMPTY, sums
            )
            _, slope, curvature = sums.sum(axis=0).tolist()
            return slope, curvature

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

        def slopes(step_size: float) -> tuple[float, float]:
            slope, curvature = self.slopes(margins, direction, [step_size])[0].tolist()
            return slope, curvature

        sampled = self.sampled_slopes(margins, direction)
        step_size = line_search(slopes, move.max_step_size, sampled)
        if not step_size > 0.0:
            return None
        return self.advance(margins, direction, step_size)

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
        n_atoms = len(atoms)
        if not n_atoms:
            return np.zeros((0, 0))
        if sample is None:
            sample = curvature_sample(
                self.n_comparisons,
                n_atoms,
                lambda stride: self.n_curved(margins[::stride]),
            )
        numbers, factor = sample
        weights = self.comparisons.omega
        if self.comparisons.is_weighted:
            weights = weights[numbers]
        curvatures = factor * weights * self.loss.curvature(margins[numbers])
        if self.embedded is None:
            return self._curvature_of_pairs(atoms, numbers, self.scale**2 * curvatures)
        return self._curvature_of_both_kinds(atoms, numbers, curvatures)

    def _curvature_of_pairs(
        self, atoms: np.ndarray, numbers: np.ndarray, curvatures: np.ndarray
    ) -> np.ndarray:
        """Return Σ_t c_t v_t v_tᵀ over comparisons t, v_t the margins of the atoms / λ."""
        compared = self.comparisons
        pairs = compared.pairs
        active = self.atoms.activate(atoms)
        Z = active.values_of_rows(self._rows_of(numbers, curvatures))
        columns = active.numbers(atoms)
        n_columns = len(active.signs)
        n = len(numbers)
        n_matrices = min(
            MOST_MATRICES, MATRICES_LIMIT // n_columns**2, n // LEAST_COMPARISONS
        )
        n_matrices = max(1, n_matrices)
        bounds = n * np.arange(n_matrices + 1) // n_matrices
        sums = np.zeros((n_matrices, n_columns, n_columns))
        anchored = curvature_kernels.AnchoredPairs(
            compared.columns[0], compared.winner, compared.loser
        )

        def add(start: int, stop: int) -> None:
            workspace = curvature_kernels.CurvatureWorkspace.empty(n_columns)
            for number in range(start, stop):
                curvature_kernels.add_curvatures(
                    int(bounds[number]),
                    int(bounds[number + 1]),
                    numbers,
                    curvatures,
                    anchored,
                    pairs.a,
                    pairs.b,
                    Z,
                    workspace,
                    sums[number],
                )

        self.workers.run(add, np.arange(n_matrices + 1))
        total = sums.sum(axis=0)
        total += total.T.copy()
        if np.array_equal(columns, np.arange(n_columns)):
            return total
        return total[np.ix_(columns, columns)]

    def _rows_of(self, numbers: np.ndarray, curvatures: np.ndarray) -> np.ndarray:
        """Return which rows of X are needed: all for all comparisons, fewer for a sample."""
        compared = self.comparisons
        pairs = compared.pairs
        n_rows = compared.rows.n_rows
        if len(numbers) == self.n_comparisons:
            return np.ones(n_rows, dtype=bool)
        numbers = numbers[curvatures != 0.0]
        is_used = np.zeros(pairs.n_pairs, dtype=bool)
        is_used[compared.winner[numbers]] = True
        is_used[compared.loser[numbers]] = True
        is_wanted = np.zeros(n_rows, dtype=bool)
        is_wanted[pairs.a[is_used]] = True
        is_wanted[pairs.b[is_used]] = True
        return is_wanted

    def _margins_of_pairs(self, atoms: np.ndarray, numbers: np.ndarray) -> sp.csr_array:
        """Return the margins / λ of atoms (columns) in some comparisons (rows), sparse."""
        n_rows = self.comparisons.rows.n_rows
        active = self.atoms.activate(atoms)
        indptr, indices, values = active.values_of_rows(np.ones(n_rows, dtype=bool))
        Z = sp.csr_array((values, indices, indptr), shape=(n_rows, len(active.signs)))
        Z = Z[:, active.numbers(atoms)]
        a, b, c, d = (Z[side[numbers]] for side in self.comparisons.sides)
        return sp.csr_array(a.multiply(b) - c.multiply(d))

    def _curvature_of_both_kinds(
        self, atoms: np.ndarray, numbers: np.ndarray, curvatures: np.ndarray
    ) -> np.ndarray:
        """Return Σ_t c_t m_t m_tᵀ, m_t the margins of the atoms in comparison t."""
        assert self.embedded is not None
        is_direction = are_directions(atoms)
        n_paired = int(np.count_nonzero(~is_direction))
        is_curved = curvatures != 0.0
        numbers = numbers[is_curved]
        roots = np.sqrt(curvatures[is_curved])
        inside = self.embedded.margins(numbers, atoms[is_direction, 1])
        inside *= self.embedded.scale * roots[:, None]
        answer = np.zeros((len(atoms), len(atoms)))
        answer[np.ix_(is_direction, is_direction)] = inside.T @ inside
        if n_paired:
            paired = self._margins_of_pairs(atoms[~is_direction], numbers)
            paired = paired.multiply(self.scale * roots[:, None]).tocsr()
            across = paired.T @ inside
            answer[np.ix_(~is_direction, ~is_direction)] = (paired.T @ paired).toarray()
            answer[np.ix_(~is_direction, is_direction)] = across
            answer[np.ix_(is_direction, ~is_direction)] = across.T
        return answer

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
        embedded = self.embedded
        if batch is not None:
            compared = self._take(batch, batch_weight)
            margins = margins[batch]
            if offset is not None:
                offset = offset[batch]
            atoms = Atoms(compared.pairs)
            if embedded is not None:
                embedded = embedded.of(compared)
        if self._code == kernels.SMOOTHED_HINGE:
            w = compared.sum_pulls(margins, compared.omega)
        else:
            w = compared.sum_pulls(self._pulls(compared, margins))
        pulls = partial(self._pulls, compared, margins)
        return CPUGradient(atoms, self.scale, w, pulls, offset, batch, embedded)

    def _pulls(self, compared: Comparisons, margins: np.ndarray) -> np.ndarray:
        """Return -omega * loss'(margin) of each comparison."""
        pulls = np.empty(compared.n_comparisons)

        def write(start: int, stop: int) -> None:
            for chunk in range(start, stop, PULLED):
                chunks = slice(chunk * CHUNK, min(chunk + PULLED, stop) * CHUNK)
                weights = compared.omega
                if compared.is_weighted:
                    weights = weights[chunks]
                slopes = self.loss.derivative(margins[chunks])
                np.multiply(-weights, slopes, out=pulls[chunks])

        bounds = compared.chunk_bounds
        if self._code is None:  # another loss is asked by one thread
            bounds = [0, compared.n_chunks]
        self.workers.run(write, bounds)
        return pulls

    def batch_weight(self, batch: np.ndarray) -> float:
        """Return the weight of a batch, as `gradient` counts it."""
        if self.comparisons.is_weighted:
            return float(self.comparisons.omega[batch].sum())
        return float(len(batch))

    def _take(self, batch: np.ndarray, batch_weight: float | None) -> Comparisons:
        """Return some of the comparisons with the rows that they name.

        Feature numbers stay; a batch costs what its own rows hold and nothing else.
        """
        whole = self.comparisons
        if batch_weight is None:
            batch_weight = self.batch_weight(batch)
        omega: np.ndarray | float = 1.0
        if whole.is_weighted:
            omega = whole.omega[batch]
        compared = np.column_stack([column[batch] for column in whole.columns])
        row_numbers, positions = np.unique(compared, return_inverse=True)
        dense = whole.rows.dense
        if dense is not None:
            dense = dense[row_numbers]
        rows = KernelRows(
            whole.rows.matrix[row_numbers],
            self.workers,
            whole.rows.n_features,
            dense,
        )
        return Comparisons(
            rows,
            positions.reshape(compared.shape),
            omega / max(batch_weight, TINY),
        )

    def reset(self) -> None:
        """Drop what is stored of atoms."""
        self.atoms.reset()

    def exact_search_cost(self) -> float:
        """Return the number of multiplications of a search of all pairs of features."""
        return self.comparisons.pairs.cost


def _every(values: np.ndarray, stride: int, n_chunks: int) -> np.ndarray:
    """Return the values of every stride-th chunk of comparisons, so many of them."""
    n_full = len(values) // CHUNK
    chunks = values[: n_full * CHUNK].reshape(-1, CHUNK)
    return chunks[::stride][:n_chunks].ravel()


def curvature_sample(
    n_comparisons: int, n_atoms: int, count: Callable[[int], int]
) -> tuple[np.ndarray, float]:
    """Return evenly spaced comparisons, and the factor of their weights.

    ``count`` is as in `curvature_stride`.
    """
    stride = curvature_stride(n_comparisons, n_atoms, count)
    numbers = np.arange(0, n_comparisons, stride)
    return numbers, n_comparisons / len(numbers)
