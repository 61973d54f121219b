"""The gradient in memory: one number per pair of rows, asked for what is needed and no more."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..cached import cached
from ..input.matrices import largest_value
from ..solver.protocols import Gradient
from .atoms import Atoms
from .kernels import partners as kernels
from .kernels.compiled import WIDTH
from .workers import GRAIN

#: Rounding may lift sums of millions of terms above their bounds by less than this.
SLACK = 1.0 + 1e-6

Partners = tuple[np.ndarray, np.ndarray, np.ndarray]


class CPUGradient(Gradient):
    """C = Σ_s w_s x_a x_bᵀ over the pairs s = {a, b} of compared rows.

    Parameters
    ----------
    atoms : Atoms
    scale : float
    w : ndarray of shape (n_pairs,)
    pulls : callable
        Returns the slopes of the loss times -weight, of which w is the sum per pair.
    offset : ndarray of shape (n_comparisons,) or None
        The share of the prior and the base in the margins.
    batch : ndarray, default=None
        The comparisons of a mini-batch.
    """

    def __init__(
        self,
        atoms: Atoms,
        scale: float,
        w: np.ndarray,
        pulls: Callable[[], np.ndarray],
        offset: np.ndarray | None,
        batch: np.ndarray | None = None,
    ) -> None:
        self.atoms = atoms
        self.pairs = atoms.pairs
        self.workers = atoms.pairs.workers
        self.scale = scale
        self.w = w
        self.pulls = pulls
        self.offset = offset
        self.batch = batch
        self.n_features = self.pairs.rows.n_features
        self.covers_all = batch is None

    @property
    def rounding(self) -> float:
        """How far rounding may move an entry of C or S: its terms may be large and cancel."""
        largest = largest_value(self.pairs.rows.by_row[2])
        return 1e-14 * largest**2 * float(np.abs(self.w).sum())

    def is_zero(self) -> bool:
        """Return whether all slopes are zero."""
        has_pull = any(
            self.w[k : k + GRAIN].any() for k in range(0, len(self.w), GRAIN)
        )
        return not has_pull and not self.pulls().any()  # pulls at a pair may cancel

    def dot(self, margins: np.ndarray) -> float:
        """Return ⟨M, -∇f⟩ for the model with these margins."""
        margins = margins if self.batch is None else margins[self.batch]
        pulls = self.pulls()
        total = float((pulls * margins).sum())
        return (
            total if self.offset is None else total - float((pulls * self.offset).sum())
        )

    @cached
    def diagonal(self) -> np.ndarray:
        """C_jj of every feature."""
        return self.pairs.diagonal(self.w)

    # --- atoms ------------------------------------------------------------------------

    def scores(self, atoms: np.ndarray) -> np.ndarray:
        """Return ⟨B, -∇f⟩ for each atom B."""
        return self.scale * self.atoms.scores(atoms, self.w, lambda: self.diagonal)

    # --- rows of S --------------------------------------------------------------------

    def rows(self, features: np.ndarray) -> np.ndarray:
        """Return the rows of S for a few features, shape (len(features), n_features)."""
        rows = self.pairs.rows
        out = np.zeros((len(features), self.n_features))
        groups, rest, n_parts = self._ways(features)
        for some in groups:
            self._spread(features[some])
            _, R, S = rows.rooms
            self.workers.run(kernels.gather, rows.feature_bounds, rows.by_column, R, S)
            out[some] = S[:, : len(some)].T
        if len(rest):
            self.workers.run(
                kernels.add_rows,
                np.arange(n_parts + 1),
                n_parts,
                rest,
                features,
                rows.by_column,
                rows.by_row,
                self.pairs.links,
                self.w,
                rows.single_rooms,
                out,
            )
        return out

    def _ways(self, features: np.ndarray) -> tuple[list[np.ndarray], np.ndarray, int]:
        """Return features whose rows of S are made side by side, and the rest, in how many parts.

        Several rows of S in a pass over X where that is the cheaper way, else one after
        the other, which for a small X is not worth the time to compile it.
        """
        rows = self.pairs.rows
        if rows.is_small:
            every = np.arange(len(features))
            return [every[k : k + WIDTH] for k in every[::WIDTH]], every[:0], 1
        share = np.minimum(
            rows.lengths[features] * (self.pairs.cost / max(rows.nnz, 1) ** 2), 1.0
        )
        order = np.argsort(-share, kind="stable")
        groups = []
        while len(order) and share[order[:WIDTH]].sum() >= self.pairs.side_by_side:
            groups.append(order[:WIDTH])
            order = order[WIDTH:]
        is_long = share[order].sum() * rows.nnz > GRAIN
        n_parts = min(len(order), self.workers.n_threads) if is_long else 1
        order[:n_parts] = order[:n_parts][
            ::-1
        ].copy()  # the longest go where the fewest are
        return groups, order, n_parts

    def _spread(self, features: np.ndarray) -> np.ndarray:
        """Write R = (W + Wᵀ) X[:, features]; return the largest sizes of numbers by columns."""
        rows = self.pairs.rows
        links = self.pairs.links
        U, R = rows.rooms[:2]
        marked = np.empty(rows.n_rows, dtype=np.uint8)
        bounds = np.array(
            self.workers.split(rows.n_rows, grain=GRAIN // 4, work=links[0])
        )
        largest = np.empty((len(bounds) - 1, WIDTH))
        self.workers.run(kernels.unfold, bounds, features, rows.by_column, U, marked)
        given = links, self.w, marked, U, R, largest
        self.workers.run(kernels.spread, np.arange(len(bounds)), bounds, *given)
        return largest.max(axis=0)

    def drift_since(self, other: CPUGradient) -> np.ndarray:
        """Return for each feature i a bound of |S_ij - S_ij of the other gradient| over all j."""
        pairs = self.pairs
        rows = self.pairs.rows
        change = np.abs(self.w - other.w)
        reached = np.bincount(pairs.a, change * rows.largest[pairs.b], rows.n_rows)
        reached += np.bincount(pairs.b, change * rows.largest[pairs.a], rows.n_rows)
        return rows.absolute_sums(reached)

    # --- partners ---------------------------------------------------------------------

    def partners(self, features: np.ndarray, *, after: bool = False) -> Partners:
        """Find for each feature i the j that maximises C_jj + |S_ij|, the smallest of equals."""
        found = np.empty((len(features), 3))
        groups, rest, n_parts = self._ways(features)
        for some in groups:
            found[some] = self._best_of(features[some], after)
        if len(rest):
            found[rest] = self._scatter(features[rest], after, n_parts)
        return found[:, 0], found[:, 1].astype(np.int64), found[:, 2]

    def _best_of(self, features: np.ndarray, after: bool) -> np.ndarray:
        """Find the partners of up to WIDTH features, first among the fullest ones."""
        rows = self.pairs.rows
        limits = SLACK * self._spread(features)
        R = rows.rooms[1]
        found = np.array([[-np.inf], [-1.0], [0.0]]).repeat(WIDTH, axis=1)
        found[0, len(features) :] = np.inf
        for bounds in rows.bounds_by_turn:
            room = np.empty((4, len(bounds) - 1, WIDTH))
            room[1:] = found[:, None]
            self.workers.run(
                kernels.best_of_rows,
                np.arange(len(bounds)),
                bounds,
                features,
                after,
                self.diagonal,
                rows.by_column,
                rows.sizes,
                R,
                limits,
                room,
            )
            found = room[1:, 0]
            if len(bounds) > 2:
                value, partner = room[1:3]
                partner = np.where(value == value.max(axis=0), partner, np.inf)
                best = partner.argmin(axis=0)[None, None]
                found = np.take_along_axis(room[1:], best, axis=1)[:, 0]
        return found.T[: len(features)]

    def _scatter(self, features: np.ndarray, after: bool, n_parts: int) -> np.ndarray:
        """Find the partners of rare features, one row of S at a time."""
        rows = self.pairs.rows
        pairs = self.pairs
        found = np.empty((len(features), 3))
        self.workers.run(
            kernels.scatter,
            np.arange(n_parts + 1),
            n_parts,
            features,
            self._best_others(features, after),
            after,
            rows.by_column,
            rows.by_row,
            pairs.links,
            self.w,
            self.diagonal,
            rows.single_rooms,
            found,
        )
        return found

    def _best_others(self, features: np.ndarray, after: bool) -> np.ndarray:
        """Return for each feature the other one of largest diagonal, or the one after it; or -1."""
        diagonal = self.diagonal
        d = self.n_features
        if not after:
            best = int(diagonal.argmax())
            rest = diagonal.copy()
            rest[best] = -np.inf
            return np.where(features == best, int(rest.argmax()) if d > 1 else -1, best)
        falling = diagonal[::-1]
        is_best = falling == np.maximum.accumulate(falling)
        at = d - 1 - np.maximum.accumulate(np.where(is_best, np.arange(d), 0))
        return np.append(at[::-1], -1)[features + 1]
