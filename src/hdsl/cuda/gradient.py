"""The gradient on a card: one number per pair of rows; answers come back, rows of S stay there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..cached import cached
from ..solver.atoms import Atom
from ..solver.protocols import Gradient, Vertex
from .runtime import THREADS, Array
from .segments import LANES, WIDTH

if TYPE_CHECKING:
    from .on_card import OnCard
    from .problem import CUDAMargins, CUDAProblem

#: Passes over X that are queued before their answers are taken.
PASSES = 256

#: What a pass finds for each feature: value, partner, entry, and the diagonal at both.
N_FOUND = 5

#: Numbers of a pass: its query, and what it finds.
PASS_SIZE = (2 + N_FOUND) * WIDTH


def variant(kernel: str, code: int, omega_step: int) -> str:
    """Return the name of a kernel for a loss: the paper's, with equal weights, has its own."""
    return kernel if code or omega_step else f"{kernel}_plain"


class Pulls:
    """One number per pair of rows, the diagonal of C, and the places of its largest entries."""

    def __init__(self, card: OnCard) -> None:
        self.card = card
        self.device = card.device
        n = card.n_pairs
        m = card.n_pairs + card.n_features
        room = self.device.empty(m + WIDTH)  # one, so that its place tells all
        self.w = room[:n]
        self.diagonal = room[n:m]
        self.largest = room[m:].view(np.int64)
        self.number = 0  # of the sums over stored terms, where these are known

    def queue(self, code: int, margins: Array, omega: Array, omega_step: int) -> None:
        """Queue all of it at some margins."""
        card = self.card
        self.device.run(
            variant("pull_pairs", code, omega_step),
            card.n_pairs,
            code,
            card.n_pairs,
            card.term_ptr,
            card.term,
            margins,
            omega,
            omega_step,
            self.w,
        )
        card.products.sum(None, self.w, card.slots, self.diagonal)
        self.device.run(
            "largest_places",
            card.n_features,
            card.n_features,
            WIDTH,
            self.diagonal,
            card.tile_value,
            card.tile_place,
            card.ticket,
            self.largest,
            per_block=2048,
        )

    def queue_links(self, other: Array | None = None) -> None:
        """Queue w, or how far it is from another, in the order of the links."""
        card = self.card
        n = len(self.card.link_pair)
        self.device.run(
            "link_weights", n, n, card.link_pair, self.w, other, card.link_w
        )

    def queue_pass(self, query: Array, after: bool, found: Array) -> None:
        """Queue the search of the partners of a query's features; link weights are there."""
        card = self.card
        device = self.device
        (ptr, idx, val) = self.card.by_column
        columns = card.columns
        device.run("scatter_features", card.n_rows, query, ptr, idx, val, card.U)
        card.links.sum(query, card.U, card.slots, card.R, val=card.link_w)
        device.run("scatter_features", card.n_rows, query, ptr, idx, None, card.U)
        columns.sum(query, card.R, card.slots, None)
        device.run(
            "gather_partners",
            columns.n,
            query,
            int(after),
            *columns.entries,
            val,
            card.R,
            card.slots,
            self.diagonal,
            card.block_value,
            card.block_entry,
            card.block_partner,
            card.ticket,
            found,
            per_block=THREADS // LANES,
        )


class HalfSteps:
    """Two passes over X in one go: the partners that the first finds are the second's features.

    Parameters
    ----------
    card : OnCard
    """

    def __init__(self, card: OnCard) -> None:
        self.card = card
        self.device = card.device
        # Of each pass the query, and what it finds.
        (self._told, self._host_told), (self._room, self._host_room) = (
            (self.device.zeros(size, np.int64), self.device.host(size, np.int64))
            for size in (1 + WIDTH, 2 * PASS_SIZE)
        )
        self._graphs: dict[Any, Any] = {}

    def __call__(self, pulls: Pulls, starts: list[int], n_largest: int) -> np.ndarray:
        """Return i, its best j, S_ij and the diagonal at both; link weights are there."""
        self._host_told[0] = len(starts)
        self._host_told[1 : 1 + len(starts)] = starts
        key = self.device.address(pulls.w), n_largest
        self.device.replay(self._graphs, key, lambda: self._queue(pulls, n_largest))
        self.device.wait()
        found = []
        for room in (self._host_room[:PASS_SIZE], self._host_room[PASS_SIZE:]):
            n = room[0]
            numbers = room[2 * WIDTH :].view(np.float64).reshape(N_FOUND, WIDTH)
            found.append(np.vstack([room[1 : 1 + n], numbers[1:, :n]]))
        return np.concatenate(found, axis=1)

    def _queue(self, pulls: Pulls, n_largest: int) -> None:
        device = self.device
        first = self._room[:PASS_SIZE]
        second = self._room[PASS_SIZE:]
        device.copy(self._told, self._host_told)
        device.launch("first_query", 1, self._told, n_largest, pulls.largest, first)
        pulls.queue_pass(first, False, first[2 * WIDTH :])
        device.launch("next_query", 1, first, first[2 * WIDTH :], second)
        pulls.queue_pass(second, False, second[2 * WIDTH :])
        device.copy(self._host_room, self._room)


class CUDAGradient(Gradient):
    """C = Σ_s w_s x_a x_bᵀ over the pairs s = {a, b} of compared rows.

    Parameters
    ----------
    problem : CUDAProblem
    pulls : Pulls
    margins : CUDAMargins
        Where it was computed.
    batch_weights : Array or None
        Weights of the comparisons of a batch, 0 elsewhere.
    """

    def __init__(
        self,
        problem: CUDAProblem,
        pulls: Pulls,
        margins: CUDAMargins,
        batch_weights: Array | None,
    ) -> None:
        self.problem = problem
        self.margins = margins
        self.pulls = pulls
        self._batch_weights = batch_weights
        self.covers_all = batch_weights is None
        self.card = problem.card
        self.device = problem.device
        self.scale = problem.scale
        self.n_features = problem.n_features
        self._ends: dict[int, float] = {}  # diagonal entries that came with answers

    # --- sums -------------------------------------------------------------------------

    @cached
    def diagonal(self) -> np.ndarray:
        """C_jj of every feature."""
        return self.device.download(self.pulls.diagonal)

    def largest_diagonal(self, count: int) -> np.ndarray:
        """Return the features of largest C_jj, largest first, the smallest of equals first."""
        if count > WIDTH:
            return self.device.largest(self.pulls.diagonal, count)
        found = self.device.download(self.pulls.largest)[:count]
        return found[found >= 0]

    @property
    def rounding(self) -> float:
        """How far rounding may move an entry of C or S: its terms may be large and cancel."""
        card = self.card
        self.device.run(
            "absolute_sum",
            card.n_pairs,
            card.n_pairs,
            self.pulls.w,
            card.part,
            card.ticket,
            card.scalars,
            per_block=2048,
        )
        total = float(self.device.download(card.scalars)[0])
        return 1e-14 * float(self.device.download(card.row_sizes[0]).max()) ** 2 * total

    def is_zero(self) -> bool:
        """Return whether all slopes are zero."""
        if self.covers_all:
            return not self.problem.has_slope(self.margins)
        return self._dot(self.margins)[1] == 0.0

    def dot(self, margins: CUDAMargins) -> float:
        """Return ⟨M, -∇f⟩ for the model with these margins."""
        return self._dot(margins)[0]

    def _dot(self, margins: CUDAMargins) -> tuple[float, float]:
        """Return ⟨M, -∇f⟩, and 0 where there is no pull."""
        card = self.card
        weighting = self.card.weighting
        if self._batch_weights is not None:
            weighting = self._batch_weights, 1
        self.device.run(
            "dot_pulls",
            card.n,
            self.problem.code,
            card.n,
            self.margins.array,
            *weighting,
            margins.array,
            self.problem.offset,
            card.part,
            card.ticket,
            card.scalars,
            per_block=2048,
        )
        total, any_pull, *_ = self.device.download(card.scalars).tolist()
        return total, any_pull

    def drift_since(self, other: CUDAGradient) -> np.ndarray:
        """Return for each feature i a bound of |S_ij - S_ij of the other gradient| over all j."""
        card = self.card
        self.pulls.queue_links(other.pulls.w)
        card.link_owner = None
        card.links.sum(None, card.row_sizes[0], card.slots, card.R, val=card.link_w)
        out = self.device.empty(self.n_features)
        card.columns.sum(None, card.R, card.slots, out, absolute=True)
        return self.device.download(out)

    # --- scores -----------------------------------------------------------------------

    def vertex(self, i: int, j: int, entry: float) -> Vertex:
        """Return the better atom on features i and j with a known S_ij, and its score."""
        if "diagonal" in vars(self) or not self._ends.keys() >= {i, j}:
            return super().vertex(i, j, entry)
        score = self.scale * (self._ends[i] + self._ends[j] + abs(entry))
        return Vertex(score, Atom.of(i, j, entry))

    def scores(self, atoms: np.ndarray) -> np.ndarray:
        """Return ⟨B, -∇f⟩ for each atom B."""
        return self.scale * self.problem.score_sums(atoms, self.pulls)

    # --- searches ---------------------------------------------------------------------

    def partners(
        self, features: np.ndarray, *, after: bool = False
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Find for each feature i the j that maximises C_jj + |S_ij|, the smallest of equals."""
        found = self.device.download(self._search(features, after)).reshape(
            -1, N_FOUND, WIDTH
        )
        value, place, entry, *ends = np.moveaxis(found, 1, 0).reshape(N_FOUND, -1)
        m = len(features)
        partner = place[: len(features)].astype(np.int64)
        if m <= WIDTH:
            self._ends.update(zip(features.tolist(), ends[0].tolist(), strict=False))
            self._ends.update(zip(partner.tolist(), ends[1].tolist(), strict=False))
        return value[:m], partner, entry[:m]

    def half_steps(self, starts: Iterable[int], n_largest: int) -> np.ndarray:
        """Return scores, i, j and S_ij of each start and its partner, and each partner and its."""
        starts = list(starts)
        if n_largest + len(starts) > WIDTH:
            return super().half_steps(starts, n_largest)
        *found, at_i, at_j = self.problem.half_steps(self.pulls, starts, n_largest)
        return np.array([self.scale * (at_i + at_j + np.abs(found[2])), *found])

    def _search(self, features: np.ndarray, after: bool) -> Array:
        """Queue passes for all features, and return where their answers will be."""
        m = len(features)
        n_passes = -(-len(features) // WIDTH)
        queries = np.zeros((n_passes, 2 * WIDTH), np.int64)
        padded = np.zeros((n_passes, WIDTH))
        padded.flat[:m] = features
        queries[:, 0] = np.minimum(m - WIDTH * np.arange(n_passes), WIDTH)
        queries[:, 1 : 1 + WIDTH] = padded
        listed = self.device.upload(queries)
        size = N_FOUND * WIDTH
        found = self.device.empty(n_passes * size)
        self.problem.own_links(self.pulls)
        with self.problem.undisturbed():
            for k in range(n_passes):
                self.pulls.queue_pass(
                    listed[k], after, found[k * size : (k + 1) * size]
                )
                if k % PASSES == PASSES - 1:
                    self.device.wait()  # so that an interrupt ends the search soon
        return found
