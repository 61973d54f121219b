"""The learning problem: X and triplets, a loss, a scale and a prior, behind four verbs.

The solver steps by ``direction``, ``slope_along``, ``advance`` and ``gradient``; beside these it
asks for margins and their value from scratch, and of the data only for feature numbers and the cost
of an exact search. Nothing here is ever d × d or T × d. A triplet (a, p, q) compares the
pairs of rows {a, p} and {a, q}; with one number w_s for each distinct pair s = {a, b},

    -∇f = C = Σ_s w_s x_a x_bᵀ,    ⟨λ(e_i ± e_j)(e_i ± e_j)ᵀ, -∇f⟩ = λ (C_ii + C_jj ± S_ij),

where S = C + Cᵀ. ``PairGradient`` computes the diagonal of C, rows of S and entries of S on demand.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from ...core.atoms import Atom
from ...core.losses import Loss
from . import kernels
from .workers import Workers

#: A thread is worth waking for this many multiplications, not for fewer.
GRAIN = 40_000

#: And for this many pairs of rows, of some hundred stored entries.
PAIR_GRAIN = 400

#: Sums that several threads add to are kept apart in so many parts, for any number of threads.
PARTS = 2

#: Rows, pairs of rows and features are numbered by 32 bits.
INDEX_LIMIT = int(np.iinfo(np.int32).max)

#: Stands in for a zero that is divided by.
TINY = float(np.finfo(np.float64).tiny)

#: Most numbers kept to score the active atoms quickly (12 bytes each); past it they are recomputed.
CROSS_TERMS_LIMIT = 1 << 26


class TripletData:
    """X and triplets in the forms that the kernels want; knows no loss, scale or prior.

    Parameters
    ----------
    X : csr_array of shape (n_rows, n_columns), float64
        Canonical: sorted, no duplicates, no stored zeros.
    triplets : ndarray of shape (n_triplets, 3)
        Anchor, positive and negative rows.
    workers : Workers
        Threads to compute with.
    keep : ndarray, default=None
        Columns that count although they may be empty.
    store_products : bool, default=True
        Whether the products of compared rows are kept, once they are asked for.

    Attributes
    ----------
    features : ndarray of shape (n_features,)
        The columns of X that are not empty or are kept, the fullest first. Everywhere below this
        class feature numbers are positions in this list: nothing depends on the number of columns,
        and loops over one column after the other are of nearly equal length, which processors
        predict.
    order : ndarray of shape (n_triplets,)
        The triplets are kept sorted by anchor: ``triplets[order]``.
    """

    def __init__(
        self,
        X: sp.csr_array,
        triplets: np.ndarray,
        workers: Workers,
        keep: np.ndarray | None = None,
        *,
        store_products: bool = True,
    ) -> None:
        self.workers, self.store_products = workers, store_products
        self.features, indices = _compress(X)
        if keep is not None:
            self.features = np.concatenate([self.features, np.setdiff1d(keep, self.features)])
        self.order = np.argsort(triplets[:, 0], kind="stable")
        shape = (X.shape[0], len(self.features))
        self._arrange(sp.csr_array((X.data, indices, X.indptr), shape=shape), triplets[self.order])

    def take(self, subset: np.ndarray) -> TripletData:
        """Return the data of some of the triplets (rising numbers) and of the rows they name.

        Feature numbers stay; a mini-batch then costs what its own rows hold, and nothing else.
        """
        triplets = np.column_stack([part[subset] for part in self.triplets])
        rows, numbers = np.unique(triplets, return_inverse=True)
        part = object.__new__(TripletData)
        part.workers, part.features = self.workers, self.features
        part.store_products = False  # a batch is used once
        part.order = np.arange(len(subset))
        part._arrange(self.rows[rows], numbers.reshape(triplets.shape))
        return part

    def _arrange(self, rows: sp.csr_array, triplets: np.ndarray) -> None:
        """Lay out the rows, and the triplets sorted by anchor, as the kernels want them."""
        self.rows = rows
        self.n_rows, self.n_features = rows.shape
        self.row_ptr = rows.indptr.astype(np.int64)
        self.row_idx, self.row_val = np.asarray(rows.indices, dtype=np.int32), rows.data
        columns = rows.tocsc()
        self.col_ptr = columns.indptr.astype(np.int64)
        self.col_idx, self.col_val = np.asarray(columns.indices, dtype=np.int32), columns.data
        self.nnz = int(self.row_ptr[-1])

        self.n_triplets = len(triplets)
        self.chunks = -(-self.n_triplets // kernels.CHUNK)
        self.triplets = tuple(np.ascontiguousarray(part, dtype=np.int32) for part in triplets.T)
        anchors, self.positive, self.negative = self.triplets
        self.anchor_ptr = np.zeros(self.n_rows + 1, dtype=np.int64)
        kernels.count_into(anchors, self.anchor_ptr)
        np.cumsum(self.anchor_ptr, out=self.anchor_ptr)
        self.positive_pair, self.negative_pair = self._number_pairs(anchors)
        self.n_pairs = len(self.pair_a)
        self._link()

    def _number_pairs(self, anchors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Find the distinct unordered pairs of rows that triplets compare, sorted; number them."""
        n = np.int64(self.n_rows)
        keys = np.concatenate(
            [
                np.minimum(anchors, other) * n + np.maximum(anchors, other)
                for other in (self.positive, self.negative)
            ]
        )
        distinct, number = np.unique(keys, return_inverse=True)
        _check_count(len(distinct), "pairs of rows that are compared", "triplets")
        self.pair_a = (distinct // n).astype(np.int32)
        self.pair_b = (distinct % n).astype(np.int32)
        number = number.astype(np.int32)
        return number[: len(anchors)].copy(), number[len(anchors) :].copy()

    def _link(self) -> None:
        """List, for each row, the rows it is compared with."""
        self.link_ptr = np.zeros(self.n_rows + 1, dtype=np.int64)
        kernels.count_into(self.pair_a, self.link_ptr)
        kernels.count_into(self.pair_b, self.link_ptr)
        np.cumsum(self.link_ptr, out=self.link_ptr)
        self.link_row = np.empty(2 * self.n_pairs, dtype=np.int32)
        self.link_pair = np.empty(2 * self.n_pairs, dtype=np.int32)
        kernels.link_rows(
            self.pair_a, self.pair_b, self.link_ptr[:-1].copy(), self.link_row, self.link_pair
        )

    @cached_property
    def _shared_features(self) -> tuple[np.ndarray, np.ndarray]:
        counts, inner = np.empty(self.n_pairs, dtype=np.int64), np.empty(self.n_pairs)
        self.workers.run(
            kernels.pair_products_count, self.workers.split(self.n_pairs, grain=PAIR_GRAIN),
            self.pair_a, self.pair_b, self.row_ptr, self.row_idx, self.row_val,
            self.n_features, counts, inner,
        )  # fmt: skip
        return counts, inner

    @cached_property
    def products(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """x_a ∘ x_b of every pair of rows, for good, one run a pair: pair, ptr, feature, value.

        Runs are sorted by length; pairs that share no feature have none.
        """
        shared, _ = self._shared_features
        pair = np.argsort(shared, kind="stable").astype(np.int32)
        pair = pair[np.searchsorted(shared[pair], 1) :]
        ptr = np.concatenate([[0], np.cumsum(shared[pair])])
        at = np.zeros(self.n_pairs, dtype=np.int64)
        at[pair] = ptr[:-1]
        feature, product = np.empty(ptr[-1], dtype=np.int32), np.empty(ptr[-1])
        self.workers.run(
            kernels.pair_products_fill, self.workers.split(self.n_pairs, grain=PAIR_GRAIN),
            self.pair_a, self.pair_b, self.row_ptr, self.row_idx, self.row_val,
            self.n_features, at, feature, product,
        )  # fmt: skip
        return pair, ptr, feature, product

    @cached_property
    def product_parts(self) -> np.ndarray:
        """Bounds of the parts of the runs of products whose diagonals are summed apart."""
        _, ptr, *_ = self.products
        return np.searchsorted(ptr, _parts(int(ptr[-1])))

    @cached_property
    def triplet_parts(self) -> np.ndarray:
        """Bounds of the parts of the triplets whose pulls are summed apart."""
        return _parts(self.n_triplets)

    @cached_property
    def dot_margins(self) -> np.ndarray:
        """⟨x_a, x_p⟩ - ⟨x_a, x_q⟩ of every triplet."""
        _, inner = self._shared_features
        return inner[self.positive_pair] - inner[self.negative_pair]

    @cached_property
    def _row_squares(self) -> np.ndarray:
        return np.asarray(self.rows.multiply(self.rows).sum(axis=1)).ravel()

    @property
    def dot_rounding(self) -> np.ndarray:
        """How far rounding may move the margin of the dot product of every triplet."""
        anchors, positive, negative = self.triplets
        norm = np.sqrt(self._row_squares)
        return 1e-14 * norm[anchors] * (norm[positive] + norm[negative])

    @cached_property
    def squared_norms(self) -> np.ndarray:
        """‖x_a(x_p - x_q)ᵀ‖² of every triplet, the paper's ‖Aᵗ‖_F²."""
        anchors, positive, negative = self.triplets
        norm = self._row_squares
        inner, counts = np.empty(self.n_triplets), np.empty(self.n_triplets, dtype=np.int64)
        kernels.pair_products_count(
            0, self.n_triplets, positive, negative, self.row_ptr, self.row_idx, self.row_val,
            self.n_features, counts, inner,
        )  # fmt: skip
        between = norm[positive] + norm[negative] - 2.0 * inner
        return norm[anchors] * np.maximum(between, 0.0)

    @cached_property
    def reach(self) -> np.ndarray:
        """Stored entries of X that a row of S touches, feature by feature."""
        length = np.diff(self.row_ptr)
        by_row = np.add.reduceat(np.append(length[self.link_row], 0), self.link_ptr[:-1])
        by_row[np.diff(self.link_ptr) == 0] = 0
        running = np.concatenate([[0], np.cumsum(by_row[self.col_idx])])
        return running[self.col_ptr[1:]] - running[self.col_ptr[:-1]]

    @cached_property
    def largest_in_row(self) -> np.ndarray:
        """max_j |x_bj| of each row b."""
        out = np.zeros(self.n_rows)
        np.maximum.at(
            out, np.repeat(np.arange(self.n_rows), np.diff(self.row_ptr)), np.abs(self.row_val)
        )
        return out

    @cached_property
    def side_by_side(self) -> np.ndarray:
        """Room for WIDTH columns of numbers, one a row."""
        return kernels.aligned_zeros(self.n_rows)

    @cached_property
    def feature_bounds(self) -> np.ndarray:
        """Features shared out among the threads by the entries of X in them."""
        return np.array(self.workers.split(self.n_features, grain=GRAIN, work=self.col_ptr))

    @cached_property
    def chunk_bounds(self) -> list[int]:
        """Chunks of triplets shared out among the threads."""
        return self.workers.split(self.chunks, grain=GRAIN // kernels.CHUNK)


def _parts(n: int) -> np.ndarray:
    """Return the bounds of PARTS equal parts, or of one where there is little to do."""
    n_parts = PARTS if n > PARTS * GRAIN else 1
    return np.array([n * k // n_parts for k in range(n_parts + 1)])


def _check_count(n: int, what: str, of: str) -> None:
    """Raise ValueError for more things than 32 bits can number."""
    if n > INDEX_LIMIT:
        raise ValueError(
            f"There are {n} {what}, but at most {INDEX_LIMIT} can be numbered: fit on fewer {of}."
        )


def _compress(X: sp.csr_array) -> tuple[np.ndarray, np.ndarray]:
    """Return the non-empty columns of X, the fullest first, and where X's indices stand in them."""
    columns, indices = None, X.indices
    if X.shape[1] > 4 * X.nnz + 1000:  # arrays of the number of columns would be the leak
        columns, indices = np.unique(indices, return_inverse=True)
    length = np.bincount(indices)
    n_features = int(np.count_nonzero(length))
    _check_count(n_features, "features with a non-zero value", "columns")
    features = np.argsort(-length, kind="stable")[:n_features]
    position = np.empty(len(length), dtype=np.int32)
    position[features] = np.arange(len(features), dtype=np.int32)
    return features if columns is None else columns[features].astype(np.int64), position[indices]


class TripletProblem:
    """Mean loss of the margins of a convex combination of atoms, over the triplets of `data`.

    Margins are those of the whole similarity, prior included: with weights that sum to 1 the
    margins of a model are the same combination of its atoms' margins.

    Parameters
    ----------
    data : TripletData
    loss : Loss
    scale : float
        λ of the domain.
    prior : float, default=0.0
        Weight of the plain dot product under the learned part.
    weights : ndarray of shape (n_triplets,), default=None
        Of the triplets as the user numbers them; only their ratios matter.
    """

    def __init__(
        self,
        data: TripletData,
        loss: Loss,
        scale: float,
        prior: float = 0.0,
        weights: np.ndarray | None = None,
    ) -> None:
        self.data, self.loss, self.scale, self.prior = data, loss, float(scale), float(prior)
        self.n_triplets, self.n_features = data.n_triplets, data.n_features
        if weights is None:
            self.omega, self.omega_step = np.array([1.0 / data.n_triplets]), 0
        else:
            self.omega, self.omega_step = (weights / weights.sum())[data.order], 1
        self.offset = prior * data.dot_margins if prior > 0 else None
        self.cross_terms = _CrossTerms(data)
        self._row_work = np.zeros(data.n_rows)

    def atom_margins(self, atom: Atom) -> np.ndarray:
        """Return the margins of the model that is this atom alone, shape (n_triplets,)."""
        return self.margins(np.array([atom]), np.ones(1))

    def margins(self, atoms: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return the margins of a convex combination of atoms, from scratch."""
        out = np.zeros(self.n_triplets) if self.offset is None else self.offset.copy()
        for atom, weight in zip(atoms, weights, strict=True):
            self._add(atom, weight, out)
        return out

    def direction(self, margins: np.ndarray, toward: Atom | None, away: Atom | None) -> np.ndarray:
        """Return how margins change toward an atom, away from one, or from one to the other."""
        if toward is not None and away is not None:
            out = np.zeros(self.n_triplets)
        elif self.offset is None:
            out = margins.copy() if toward is None else -margins
        else:
            out = margins - self.offset if toward is None else self.offset - margins
        if toward is not None:
            self._add(toward, 1.0, out)
        if away is not None:
            self._add(away, -1.0, out)
        return out

    def _add(self, atom: Atom, weight: float, out: np.ndarray) -> None:
        """Add the margins of an atom, the prior's left out, so many times."""
        (i, j, sign), data = atom, self.data
        kernels.add_atom_margins(
            i, j, float(sign), self.scale * weight, data.col_ptr, data.col_idx, data.col_val,
            data.anchor_ptr, data.positive, data.negative, self._row_work, out,
        )  # fmt: skip

    def advance(
        self, margins: np.ndarray, direction: np.ndarray, step_size: float
    ) -> tuple[np.ndarray, float]:
        """Return the margins after a step, and their value."""
        out = np.empty(self.n_triplets)
        self.data.workers.run(
            kernels.advance, self.data.chunk_bounds, margins, direction, step_size, out
        )
        return out, self.value(out)

    def value(self, margins: np.ndarray) -> float:
        """Return the mean loss."""
        out = np.empty(self.data.chunks)
        self.data.workers.run(
            kernels.loss_sums, self.data.chunk_bounds, self.loss.code, margins, self.omega,
            self.omega_step, out,
        )  # fmt: skip
        return float(out.sum())

    def slope_along(
        self, margins: np.ndarray, direction: np.ndarray, step_size: float
    ) -> tuple[float, float]:
        """Return the first two derivatives of the value along a direction, at a step size."""
        first, second = np.empty(self.data.chunks), np.empty(self.data.chunks)
        self.data.workers.run(
            kernels.slopes_along, self.data.chunk_bounds, self.loss.code, margins, direction,
            step_size, self.omega, self.omega_step, first, second,
        )  # fmt: skip
        return float(first.sum()), float(second.sum())

    def gradient(self, margins: np.ndarray, subset: np.ndarray | None = None) -> PairGradient:
        """Return the lazy gradient at these margins, over all triplets or over a subset."""
        data, omega = self.data, self.omega
        if subset is not None:
            data, margins = data.take(subset), margins[subset]
            omega = omega[subset] if self.omega_step else np.ones(1)
            omega = omega / max(omega.sum() if self.omega_step else len(subset), TINY)
        parts = data.triplet_parts
        pulls, w = np.empty(data.n_triplets), np.zeros((len(parts) - 1, data.n_pairs))
        data.workers.run(
            kernels.pull_pairs, range(len(parts)), parts, self.loss.code, margins, omega,
            self.omega_step, data.positive_pair, data.negative_pair, pulls, w,
        )  # fmt: skip
        return PairGradient(self, data, subset, pulls, w.sum(axis=0) if len(w) > 1 else w[0])

    def lipschitz(self) -> float:
        """Return the Lipschitz constant of the gradient in Frobenius norm (Proposition 1)."""
        if self.omega_step:
            mean = float(self.omega @ self.data.squared_norms)
        else:
            mean = float(self.data.squared_norms.mean())
        return self.loss.smoothness * mean


@dataclass(frozen=True)
class PairGradient:
    """C = -∇f, known by one number a pair of rows, asked for what is needed and no more."""

    problem: TripletProblem
    data: TripletData
    subset: np.ndarray | None
    pulls: np.ndarray
    w: np.ndarray

    @property
    def n_features(self) -> int:
        """Number of features, empty columns left out."""
        return self.problem.n_features

    @property
    def scale(self) -> float:
        """λ, which every score carries."""
        return self.problem.scale

    @property
    def covers_all(self) -> bool:
        """Whether this is the gradient over all triplets, not over a mini-batch."""
        return self.subset is None

    @property
    def rounding(self) -> float:
        """How far rounding may move an entry of C or S: its terms may be large and cancel."""
        largest = float(self.data.largest_in_row.max())
        return 1e-14 * largest**2 * float(np.abs(self.w).sum())

    def is_zero(self) -> bool:
        """Return whether no triplet pulls at all."""
        return not kernels.any_nonzero(self.pulls)

    def dot(self, margins: np.ndarray) -> float:
        """Return ⟨M, -∇f⟩ of the model with these margins."""
        offset = self.problem.offset
        if self.subset is not None:
            margins = margins[self.subset]
            offset = None if offset is None else offset[self.subset]
        chunks = -(-margins.size // kernels.CHUNK)
        out = np.empty(chunks)
        kernels.dots(0, chunks, self.pulls, margins, out)
        total = float(out.sum())
        if offset is not None:
            kernels.dots(0, chunks, self.pulls, offset, out)
            total -= float(out.sum())
        return total

    @cached_property
    def diagonal(self) -> np.ndarray:
        """C_jj of every feature."""
        data = self.data
        if not data.store_products:
            out = np.zeros(self.n_features)
            kernels.diagonal_directly(
                data.pair_a, data.pair_b, data.row_ptr, data.row_idx, data.row_val, self.w, out
            )
            return out
        parts = data.product_parts
        out = np.zeros((len(parts) - 1, self.n_features))
        data.workers.run(kernels.diagonal, range(len(parts)), parts, *data.products, self.w, out)
        return out.sum(axis=0) if len(out) > 1 else out[0]

    def largest_diagonal(self, count: int) -> np.ndarray:
        """Return the features of largest C_jj, largest first."""
        out = np.empty(min(count, self.n_features), dtype=np.int64)
        kernels.largest(self.diagonal, out)
        return out

    def rows(self, features: np.ndarray) -> np.ndarray:
        """Return the rows of S = C + Cᵀ for up to WIDTH features, shape (len(features), d)."""
        data = self.data
        R = self._spread(features)
        out = np.empty((self.n_features, kernels.WIDTH))
        data.workers.run(
            kernels.gather_rows, data.feature_bounds, data.col_ptr, data.col_idx, data.col_val,
            R, out,
        )  # fmt: skip
        return out[:, : len(features)].T.copy()

    def drift_since(self, other: PairGradient) -> np.ndarray:
        """Return, for each feature i, a bound of |S_ij - S_ij of the other gradient| for all j."""
        data = self.data
        reached = np.zeros(data.n_rows)
        kernels.pair_drift(self.w, other.w, data.pair_a, data.pair_b, data.largest_in_row, reached)
        out = np.empty(self.n_features)
        data.workers.run(
            kernels.absolute_sums, data.feature_bounds, data.col_ptr, data.col_idx, data.col_val,
            reached, out,
        )  # fmt: skip
        return out

    def entries(self, atoms: np.ndarray) -> np.ndarray:
        """Return S_ij of the features of each atom."""
        if self.covers_all:
            return self.problem.cross_terms.entries(atoms, self.w)
        return _entries_directly(self.data, atoms[:, 0], atoms[:, 1], self.w)

    def scores(self, atoms: np.ndarray) -> np.ndarray:
        """Return ⟨B, -∇f⟩ of each atom B."""
        i, j, sign = atoms.T
        diagonal = self.diagonal
        return self.problem.scale * (diagonal[i] + diagonal[j] + sign * self.entries(atoms))

    def score(self, i: Any, j: Any, entry: Any) -> Any:
        """Return the score of the better atom on features i and j whose S_ij is known."""
        return self.problem.scale * (self.diagonal[i] + self.diagonal[j] + abs(entry))

    def partners(
        self, features: np.ndarray, *, after: bool = False
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Find for each feature i the j that maximises C_jj + |S_ij|, the smallest of equals.

        Returns
        -------
        value, partner, entry : ndarrays of the length of `features`
            C_jj + |S_ij|, j and S_ij; -inf and -1 where `after` asks for j > i and there is none.
        """
        if len(features) <= kernels.WIDTH:
            return (self._scatter if self._is_light(features) else self._gather)(features, after)
        light = 20 * self.data.reach[features] <= self.data.nnz
        found = np.empty(len(features)), np.empty(len(features), np.int64), np.empty(len(features))
        for chosen, find in ((light, self._scatter), (~light, self._gather_many)):
            if chosen.any():
                for whole, part in zip(found, find(features[chosen], after), strict=True):
                    whole[chosen] = part
        return found

    def _is_light(self, features: np.ndarray) -> bool:
        """Whether a few features are cheaper row by row than side by side in a pass over X."""
        data = self.data
        return self.covers_all and bool(2 * data.reach[features].sum() <= data.nnz)

    def _spread(self, features: np.ndarray) -> np.ndarray:
        data, R = self.data, self.data.side_by_side
        kernels.spread(
            features, data.col_ptr, data.col_idx, data.col_val, data.link_ptr, data.link_row,
            data.link_pair, self.w, R,
        )  # fmt: skip
        return R

    def _gather(
        self, features: np.ndarray, after: bool
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Find the partners of up to WIDTH features in one pass over X that the threads share."""
        data, m, bounds = self.data, len(features), self.data.feature_bounds
        shape = (len(bounds) - 1, kernels.WIDTH)
        value, partner, entry = np.empty(shape), np.empty(shape, dtype=np.int64), np.empty(shape)
        data.workers.run(
            kernels.gather_partners, range(len(bounds)), bounds, features, after,
            data.col_ptr, data.col_idx, data.col_val, self._spread(features), self.diagonal,
            value, partner, entry,
        )  # fmt: skip
        if len(value) > 1:
            best = value.argmax(axis=0), np.arange(kernels.WIDTH)  # the first part of equals
            return value[best][:m], partner[best][:m], entry[best][:m]
        return value[0, :m], partner[0, :m], entry[0, :m]

    def _gather_many(
        self, features: np.ndarray, after: bool
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Find the partners of many features, WIDTH of them in a pass; each thread has its own."""
        data, m = self.data, len(features)
        n_blocks = -(-m // kernels.WIDTH)
        padded = np.full(n_blocks * kernels.WIDTH, -1)
        padded[:m] = features
        value, partner = np.full(len(padded), -np.inf), np.full(len(padded), -1)
        value[m:], entry = np.inf, np.zeros(len(padded))  # nothing is better than padding
        data.workers.run(
            kernels.gather_blocks, data.workers.pieces(n_blocks), padded, after, data.col_ptr,
            data.col_idx, data.col_val, data.link_ptr, data.link_row, data.link_pair, self.w,
            self.diagonal, value, partner, entry,
        )  # fmt: skip
        return value[:m], partner[:m], entry[:m]

    def _scatter(
        self, features: np.ndarray, after: bool
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        data, m = self.data, len(features)
        value, partner, entry = np.full(m, -np.inf), np.full(m, -1, dtype=np.int64), np.zeros(m)
        last = np.empty(self.n_features, dtype=np.int64)
        first, second = kernels.largest_after(self.diagonal, last)
        data.workers.run(
            kernels.scatter_partners, data.workers.pieces(m), features, after, data.col_ptr,
            data.col_idx, data.col_val, data.row_ptr, data.row_idx, data.row_val, data.link_ptr,
            data.link_row, data.link_pair, self.w, self.diagonal, last, first, second, value,
            partner, entry,
        )  # fmt: skip
        return value, partner, entry


def _entries_directly(data: TripletData, i: np.ndarray, j: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Return S_ij for listed pairs of features; the rarer feature leads."""
    length = np.diff(data.col_ptr)
    swap = length[i] > length[j]
    out = np.empty(len(i))
    data.workers.run(
        kernels.entries_directly, data.workers.pieces(len(i)), np.where(swap, j, i),
        np.where(swap, i, j), data.col_ptr, data.col_idx, data.col_val, data.link_ptr,
        data.link_row, data.link_pair, w, out,
    )  # fmt: skip
    return out


class _CrossTerms:
    """S_ij of the pairs of features that the active atoms are made of.

    S_ij = Σ_s w_s v_s with a sparse v that depends on i and j alone, so v is kept from one
    iteration to the next: the scores of all active atoms are then one pass over short lists.
    """

    def __init__(self, data: TripletData) -> None:
        self.data = data
        self.runs: dict[tuple[int, int], tuple[int, int]] = {}  # where the terms of (i, j) are kept
        self.pair = np.empty(0, dtype=np.int32)
        self.value = np.empty(0)
        self.used = 0
        self._work = np.zeros(data.n_rows)
        degree = np.diff(data.link_ptr)[data.col_idx]
        running = np.concatenate([[0], np.cumsum(degree)])
        #: At most so many terms if the feature is the first of the pair.
        self.bound = running[data.col_ptr[1:]] - running[data.col_ptr[:-1]]
        self._atoms: np.ndarray | None = None  # those that _found is the place of
        self._found: tuple[np.ndarray, np.ndarray, list[int]]

    @property
    def known(self) -> np.ndarray:
        """The pairs of features whose terms are kept, in their order, shape (n_known, 2)."""
        return np.array(list(self.runs), dtype=np.int64).reshape(-1, 2)

    def learn(self, known: np.ndarray) -> None:
        """Keep the terms of the pairs that another object knows, as it does."""
        self._learn(list(map(tuple, known.tolist())))

    def entries(self, atoms: np.ndarray, w: np.ndarray) -> np.ndarray:
        """Return S_ij for each atom."""
        if atoms is not self._atoms:  # the active set changes now and then only
            self._found, self._atoms = self._locate(atoms), atoms
        first, last, bounds = self._found
        out = np.empty(len(atoms))
        self.data.workers.run(
            kernels.sparse_dots, bounds, first, last, self.pair, self.value, w, out
        )
        lacking = (first < 0).nonzero()[0]
        if len(lacking):  # no room to keep them
            out[lacking] = _entries_directly(self.data, atoms[lacking, 0], atoms[lacking, 1], w)
        return out

    def _locate(self, atoms: np.ndarray) -> tuple[np.ndarray, np.ndarray, list[int]]:
        """Return where the terms of each atom begin and end, and how threads share them."""
        keys = list(map(tuple, atoms[:, :2].tolist()))
        found = list(map(self.runs.get, keys))
        if None in found:
            self._learn(keys)
            found = [self.runs.get(key, (-1, -1)) for key in keys]
        first, last = np.ascontiguousarray(np.array(found, dtype=np.int64).T)
        work = np.concatenate([[0], np.cumsum(last - first)])
        return first, last, self.data.workers.split(len(keys), grain=GRAIN, work=work)

    def _learn(self, keys: list[tuple[int, int]]) -> None:
        """Keep the terms of pairs not seen before; forget those no longer asked for when many."""
        for key in keys:
            if key in self.runs:
                continue
            pair, value = self._terms(*key)
            if self.used + len(pair) > CROSS_TERMS_LIMIT:
                self._forget(keys)
                if self.used + len(pair) > CROSS_TERMS_LIMIT:
                    return
            end = self.used + len(pair)
            if end > len(self.pair):
                self.pair, self.value = (
                    np.concatenate([a[: self.used], np.empty(max(end, 4096), dtype=a.dtype)])
                    for a in (self.pair, self.value)
                )
            self.pair[self.used : end], self.value[self.used : end] = pair, value
            self.runs[key] = self.used, end
            self.used = end

    def _terms(self, i: int, j: int) -> tuple[np.ndarray, np.ndarray]:
        if self.bound[i] > self.bound[j]:
            i, j = j, i
        data = self.data
        pair, value = np.empty(self.bound[i], dtype=np.int32), np.empty(self.bound[i])
        n = kernels.cross_terms(
            i, j, data.col_ptr, data.col_idx, data.col_val, data.link_ptr, data.link_row,
            data.link_pair, self._work, pair, value,
        )  # fmt: skip
        return pair[:n], value[:n]

    def _forget(self, keys: list[tuple[int, int]]) -> None:
        """Close the gaps left by pairs that are not in `keys`."""
        kept = {key: self.runs[key] for key in keys if key in self.runs}
        taken = [np.arange(first, last) for first, last in kept.values()]
        places = np.concatenate([np.empty(0, dtype=np.int64), *taken])
        self.pair, self.value, self.used = self.pair[places], self.value[places], len(places)
        ends = np.cumsum([0, *map(len, taken)]).tolist()
        self.runs = dict(zip(kept, pairwise(ends), strict=True))
