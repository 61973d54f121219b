"""The gradient in memory: one number per pair of rows, asked for what is needed and no more."""

from __future__ import annotations

import numpy as np

from ..solver.protocols import Gradient
from .comparisons import Pairs
from .kernels import atoms as atom_kernels
from .kernels import partners as kernels
from .kernels.compiled import WIDTH
from .kernels.pairs import absolute_sums
from .rows import AtomRows
from .workers import GRAIN

#: WIDTH rows of S side by side take the time of so many single ones that reach all rows of X.
SIDE_BY_SIDE = 3.5

Partners = tuple[np.ndarray, np.ndarray, np.ndarray]


class CPUGradient(Gradient):
    """C = Σ_s w_s x_a x_bᵀ over the pairs s = {a, b} of compared rows.

    Parameters
    ----------
    pairs : Pairs
    atom_rows : AtomRows
    scale : float
    w : ndarray of shape (n_pairs,)
    pulls : ndarray of shape (n_comparisons,)
        Slopes of the loss times -weight, of which w is the sum per pair.
    offset : ndarray of shape (n_comparisons,) or None
        The share of the prior and the base in the margins.
    batch : ndarray, default=None
        The comparisons of a mini-batch.
    """

    def __init__(
        self,
        pairs: Pairs,
        atom_rows: AtomRows,
        scale: float,
        w: np.ndarray,
        pulls: np.ndarray,
        offset: np.ndarray | None,
        batch: np.ndarray | None = None,
    ) -> None:
        self.pairs, self.atom_rows, self.workers = pairs, atom_rows, pairs.workers
        self.scale, self.w, self.pulls, self.offset, self.batch = scale, w, pulls, offset, batch
        self.n_features, self.covers_all = pairs.rows.n_features, batch is None
        self._diagonal: np.ndarray | None = None

    @property
    def rounding(self) -> float:
        """How far rounding may move an entry of C or S: its terms may be large and cancel."""
        val = self.pairs.rows.by_row[2]
        largest = max(float(val.max(initial=0.0)), -float(val.min(initial=0.0)))
        return 1e-14 * largest**2 * float(np.abs(self.w).sum())

    def is_zero(self) -> bool:
        """Return whether all slopes are zero."""
        return not self.pulls.any()

    def dot(self, margins: np.ndarray) -> float:
        """Return ⟨M, -∇f⟩ for the model with these margins."""
        margins = margins if self.batch is None else margins[self.batch]
        total = float((self.pulls * margins).sum())
        return total if self.offset is None else total - float((self.pulls * self.offset).sum())

    @property
    def diagonal(self) -> np.ndarray:
        """C_jj of every feature."""
        if self._diagonal is None:
            self._diagonal = self.pairs.diagonal(self.w)
        return self._diagonal

    def largest_diagonal(self, count: int) -> np.ndarray:
        """Return the features of largest C_jj, largest first, the smallest of equals first."""
        count = min(count, self.n_features)
        if count == 0:
            return np.empty(0, dtype=np.int64)
        falling = -self.diagonal
        some = np.flatnonzero(falling <= np.partition(falling, count - 1)[count - 1])
        return some[np.argsort(falling[some], kind="stable")[:count]]

    # --- atoms -----------------------------------------------------------------------------------

    def scores(self, atoms: np.ndarray) -> np.ndarray:
        """Return ⟨B, -∇f⟩ for each atom B: λ Σ_s w_s z_a z_b."""
        if not len(atoms):
            return np.empty(0)
        pairs = self.pairs
        Z, places, n_atoms = self.atom_rows.find(atoms)
        out = np.empty((len(pairs.score_bounds) - 1, n_atoms))
        parts = np.arange(len(out) + 1) if self._is_long(Z[0][-1]) else [0, len(out)]
        self.workers.run(
            atom_kernels.scores, parts, pairs.score_bounds, pairs.ptr, pairs.b, self.w, Z, out
        )
        return self.scale * out.sum(axis=0)[places]

    def _is_long(self, n_values: int) -> bool:
        """Return whether a pass over the pairs with so many values of the rows is worth threads."""
        return n_values * self.pairs.n_pairs > GRAIN * self.pairs.rows.n_rows

    def entries(self, atoms: np.ndarray) -> np.ndarray:
        """Return S_ij for each atom."""
        i, j, sign = atoms.T
        return sign * (self.scores(atoms) / self.scale - self.diagonal[i] - self.diagonal[j])

    # --- rows of S -------------------------------------------------------------------------------

    def rows(self, features: np.ndarray) -> np.ndarray:
        """Return the rows of S for a few features, shape (len(features), n_features)."""
        made = [
            self._side_by_side(features[k : k + WIDTH])[:, : len(features[k : k + WIDTH])].T
            for k in range(0, len(features), WIDTH)
        ]
        return np.concatenate(made) if made else np.empty((0, self.n_features))

    def _side_by_side(self, features: np.ndarray) -> np.ndarray:
        """Return the rows of S for up to WIDTH features as columns."""
        rows, (ptr, idx, val) = self.pairs.rows, self.pairs.rows.by_column
        U, R, S = (lines(n) for n in (rows.n_rows, rows.n_rows, rows.n_features))
        U[:], marked = 0.0, np.zeros(rows.n_rows, dtype=np.uint8)
        for c, i in enumerate(features.tolist()):
            U[idx[ptr[i] : ptr[i + 1]], c] = val[ptr[i] : ptr[i + 1]]
            marked[idx[ptr[i] : ptr[i + 1]]] = 1
        links = self.pairs.links
        bounds = self.workers.split(rows.n_rows, grain=GRAIN // 4, work=links[0])
        self.workers.run(kernels.spread, bounds, links, self.w, marked, U, R)
        self.workers.run(kernels.gather, rows.feature_bounds, rows.by_column, R, S)
        return S

    def drift_since(self, other: CPUGradient) -> np.ndarray:
        """Return for each feature i a bound of |S_ij - S_ij of the other gradient| over all j."""
        pairs, rows, out = self.pairs, self.pairs.rows, np.empty(self.n_features)
        change = np.abs(self.w - other.w)
        reached = np.bincount(pairs.a, change * rows.largest[pairs.b], rows.n_rows)
        reached += np.bincount(pairs.b, change * rows.largest[pairs.a], rows.n_rows)
        self.workers.run(absolute_sums, rows.feature_bounds, rows.by_column, reached, out)
        return out

    # --- partners --------------------------------------------------------------------------------

    def partners(self, features: np.ndarray, *, after: bool = False) -> Partners:
        """Find for each feature i the j that maximises C_jj + |S_ij|, the smallest of equals.

        One row of S after the other where features are rare, else several in a pass over X.
        """
        rows, found = self.pairs.rows, np.empty((len(features), 3))
        share = rows.lengths[features] * (self.pairs.cost / max(rows.nnz, 1) ** 2)
        common = np.flatnonzero(share > SIDE_BY_SIDE / WIDTH)
        left_over = len(common) % WIDTH
        if left_over < SIDE_BY_SIDE:
            common = common[: len(common) - left_over]
        for k in range(0, len(common), WIDTH):
            some = common[k : k + WIDTH]
            found[some] = self._best_of(features[some], after)
        others = np.setdiff1d(np.arange(len(features)), common)
        if len(others):
            found[others] = self._scatter(features[others], after, float(share[others].sum()))
        return found[:, 0], found[:, 1].astype(np.int64), found[:, 2]

    def _best_of(self, features: np.ndarray, after: bool) -> np.ndarray:
        """Find the partners of up to WIDTH features from their whole rows of S."""
        S, found = self._side_by_side(features), np.empty((len(features), 3))
        bounds = np.arange(len(features) + 1)
        if self.n_features < GRAIN // WIDTH:
            bounds = bounds[[0, -1]]
        self.workers.run(kernels.best_of_rows, bounds, features, after, self.diagonal, S, found)
        return found

    def _scatter(self, features: np.ndarray, after: bool, share: float) -> np.ndarray:
        """Find the partners of rare features, one row of S at a time."""
        rows, pairs, found = self.pairs.rows, self.pairs, np.empty((len(features), 3))
        is_long = share * rows.nnz > GRAIN
        bounds = self.workers.pieces(len(features)) if is_long else [0, len(features)]
        self.workers.run(
            kernels.scatter, bounds, features, self._best_others(features, after), after,
            rows.by_column, rows.by_row, pairs.links, self.w, self.diagonal, found,
        )  # fmt: skip
        return found

    def _best_others(self, features: np.ndarray, after: bool) -> np.ndarray:
        """Return for each feature the other one of largest diagonal, or the one after it; or -1."""
        diagonal, d = self.diagonal, self.n_features
        if not after:
            best = self.largest_diagonal(2)
            second = best[1] if d > 1 else -1
            return np.where(features == best[0], second, best[0])
        falling = diagonal[::-1]
        is_best = falling == np.maximum.accumulate(falling)
        at = d - 1 - np.maximum.accumulate(np.where(is_best, np.arange(d), 0))
        return np.append(at[::-1], -1)[features + 1]


def lines(n: int) -> np.ndarray:
    """Return an array of shape (n, WIDTH) whose rows are cache lines: none takes two loads."""
    room = np.empty((n + 1) * WIDTH)
    first = -(room.ctypes.data // 8) % WIDTH
    return room[first : first + n * WIDTH].reshape((n, WIDTH))
