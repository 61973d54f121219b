"""The gradient in memory: one number per pair of rows, asked for what is needed and no more."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..cached import cached
from ..input.matrices import largest_value
from ..solver.protocols import Gradient
from .atoms import Atoms
from .comparisons import Pairs
from .embedding import EmbeddedComparisons
from .kernels import partners as kernels
from .kernels.lines import WIDTH

#: Rounding may lift sums of millions of terms above their bounds by less than this.
SLACK = 1.0 + 1e-6


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
        Margins of what is not learned; None where they are zero.
    batch : ndarray, default=None
        The comparisons of a mini-batch.
    embedded : EmbeddedComparisons, default=None
        The embedding that directions are learned in.
    """

    def __init__(
        self,
        atoms: Atoms,
        scale: float,
        w: np.ndarray,
        pulls: Callable[[], np.ndarray],
        offset: np.ndarray | None,
        batch: np.ndarray | None = None,
        embedded: EmbeddedComparisons | None = None,
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
        self.embedded = embedded
        if embedded is not None:
            self.directions = embedded.directions
            self.direction_scale = embedded.scale

    @property
    def rounding(self) -> float:
        """How far rounding may move an entry of C or S: its terms may be large and cancel."""
        largest = largest_value(self.pairs.rows.by_row.data)
        return 1e-14 * largest**2 * float(np.abs(self.w).sum())

    def is_zero(self) -> bool:
        """Return whether all slopes are zero."""
        if self.w.any():
            return False
        return not self.pulls().any()  # pulls at a pair may cancel

    def dot(self, margins: np.ndarray) -> float:
        """Return ⟨M, -∇f⟩ for the model with these margins."""
        if self.batch is not None:
            margins = margins[self.batch]
        pulls = self.pulls()
        product = float((pulls * margins).sum())
        if self.offset is not None:
            product -= float((pulls * self.offset).sum())
        return product

    @cached
    def diagonal(self) -> np.ndarray:
        """C_jj of every feature."""
        return self.pairs.diagonal(self.w)

    # --- atoms ------------------------------------------------------------------------

    def pair_scores(self, atoms: np.ndarray) -> np.ndarray:
        """Return ⟨B, -∇f⟩ for each atom B that pairs features."""
        return self.scale * self.atoms.scores(atoms, self.w, lambda: self.diagonal)

    @cached
    def block(self) -> np.ndarray:
        """G inside the embedding, of shape (width, width)."""
        assert self.embedded is not None
        return self.embedded.gradient_block(self.w)

    # --- rows of S --------------------------------------------------------------------

    def rows(self, features: np.ndarray) -> np.ndarray:
        """Return the rows of S for a few features, shape (len(features), n_features)."""
        rows = self.pairs.rows
        out = np.zeros((len(features), self.n_features))
        groups, singles, n_shares = plan_rows(features, self.pairs)
        for group in groups:
            spread = self._spread(features[group])
            S = rows.entry_lines
            self.workers.run(
                kernels.gather, rows.feature_bounds, rows.by_column, spread.lines, S
            )
            out[group] = S[:, : len(group)].T
        if len(singles):
            self.workers.run(
                kernels.add_rows,
                np.arange(n_shares + 1),
                n_shares,
                features,
                singles,
                self._weighted_rows,
                rows.row_workspaces,
                out,
            )
        return out

    @property
    def _weighted_rows(self) -> kernels.WeightedRows:
        rows = self.pairs.rows
        return kernels.WeightedRows(
            rows=rows.by_row,
            columns=rows.by_column,
            links=self.pairs.links,
            weights=self.w,
        )

    def _spread(self, features: np.ndarray) -> kernels.SpreadFeatures:
        """Return (W + Wᵀ) X[:, features], in memory that the next call takes again."""
        rows = self.pairs.rows
        links = self.pairs.links
        lines = rows.spread_lines
        unfolded = kernels.UnfoldedFeatures(
            lines=rows.unfolded_lines,
            is_marked=np.empty(rows.n_rows, dtype=np.uint8),
        )
        bounds = np.array(
            self.workers.split(
                rows.n_rows, grain=self.workers.grain // 4, work=links.indptr
            )
        )
        self.workers.run(kernels.unfold, bounds, features, rows.by_column, unfolded)
        n_shares = len(bounds) - 1
        largest = np.empty((n_shares, WIDTH))
        self.workers.run(
            kernels.spread,
            np.arange(n_shares + 1),
            bounds,
            links,
            self.w,
            unfolded,
            lines,
            largest,
        )
        return kernels.SpreadFeatures(lines, limits=SLACK * largest.max(axis=0))

    def drift_since(self, other: CPUGradient) -> np.ndarray:
        """Return for each feature i a bound of |S_ij - S_ij of the other gradient| over all j."""
        pairs = self.pairs
        rows = pairs.rows
        change = np.abs(self.w - other.w)
        by_row = np.bincount(pairs.a, change * rows.largest[pairs.b], rows.n_rows)
        by_row += np.bincount(pairs.b, change * rows.largest[pairs.a], rows.n_rows)
        return rows.absolute_sums(by_row)

    # --- partners ---------------------------------------------------------------------

    def partners(
        self, features: np.ndarray, *, after: bool = False
    ) -> kernels.BestPartners:
        """Find for each feature i the j that maximises C_jj + |S_ij|, the smallest of equals."""
        best = kernels.BestPartners.empty(len(features))
        groups, singles, n_shares = plan_rows(features, self.pairs)
        for group in groups:
            search = kernels.PartnerSearch(features[group], after, self.diagonal)
            best.put(group, self._best_in_columns(search))
        if len(singles):
            search = kernels.PartnerSearch(features[singles], after, self.diagonal)
            best.put(singles, self._best_of_reached(search, n_shares))
        return best

    def _best_in_columns(self, search: kernels.PartnerSearch) -> kernels.BestPartners:
        """Find the partners of up to WIDTH features, first among the fullest ones."""
        rows = self.pairs.rows
        n_features = len(search.features)
        spread = self._spread(search.features)
        best = kernels.BestByShare.none(n_features)
        for bounds in rows.bounds_by_turn:
            n_shares = len(bounds) - 1
            shares = best.repeated(n_shares)
            self.workers.run(
                kernels.best_of_columns,
                np.arange(n_shares + 1),
                bounds,
                search,
                rows.by_column,
                rows.sizes,
                spread,
                shares,
            )
            best = shares.best()
        return best.of_features(n_features)

    def _best_of_reached(
        self, search: kernels.PartnerSearch, n_shares: int
    ) -> kernels.BestPartners:
        """Find the partners of rare features, one row of S at a time."""
        if search.only_later:
            others = best_later(self.diagonal, search.features)
        else:
            others = best_others(self.diagonal, search.features)
        best = kernels.BestPartners.empty(len(search.features))
        self.workers.run(
            kernels.best_of_reached,
            np.arange(n_shares + 1),
            n_shares,
            search,
            others,
            self._weighted_rows,
            self.pairs.rows.row_workspaces,
            best,
        )
        return best


def best_others(diagonal: np.ndarray, features: np.ndarray) -> np.ndarray:
    """Return for each feature the other one of largest C_jj, the smallest of equals, or -1.

    Examples
    --------
    >>> best_others(np.array([5.0, 7.0, 7.0]), np.array([0, 1, 2])).tolist()
    [1, 2, 1]
    """
    best = int(diagonal.argmax())
    second = -1
    if len(diagonal) > 1:
        others = diagonal.copy()
        others[best] = -np.inf
        second = int(others.argmax())
    return np.where(features == best, second, best)


def best_later(diagonal: np.ndarray, features: np.ndarray) -> np.ndarray:
    """Return for each feature the later one of largest C_jj, the smallest of equals, or -1.

    Examples
    --------
    >>> best_later(np.array([5.0, 7.0, 7.0]), np.array([0, 1, 2])).tolist()
    [1, 2, -1]
    """
    n = len(diagonal)
    backward = diagonal[::-1]
    is_largest = backward == np.maximum.accumulate(backward)
    positions = np.where(is_largest, np.arange(n), 0)
    best_from = n - 1 - np.maximum.accumulate(positions)[::-1]
    return np.append(best_from, -1)[features + 1]


def plan_rows(
    features: np.ndarray, pairs: Pairs
) -> tuple[list[np.ndarray], np.ndarray, int]:
    """Return how rows of S are made in the least time.

    That is the positions of features whose rows are made side by side, up to WIDTH in
    each group; those of the others, whose rows are made one at a time; and a number n:
    every n-th of these is made by the same thread.

    Several rows share a pass over X where that is the cheaper way. Of a small X all do:
    the other way is not worth the time to compile it.
    """
    rows = pairs.rows
    positions = np.arange(len(features))
    if rows.is_small:
        groups = [positions[k : k + WIDTH] for k in positions[::WIDTH]]
        return groups, positions[:0], 1
    # The share of X that a feature reaches, in the mean.
    reach = rows.lengths[features] * (pairs.cost / max(rows.nnz, 1) ** 2)
    reach = np.minimum(reach, 1.0)
    order = np.argsort(-reach, kind="stable")
    groups = []
    while len(order) and reach[order[:WIDTH]].sum() >= pairs.side_by_side:
        groups.append(order[:WIDTH])
        order = order[WIDTH:]
    n_shares = 1
    if reach[order].sum() * rows.nnz > rows.workers.grain:
        n_shares = min(len(order), rows.workers.n_threads)
    # The first shares have one feature more: the longest rows go to the last ones.
    singles = order.copy()
    singles[:n_shares] = order[:n_shares][::-1]
    return groups, singles, n_shares
