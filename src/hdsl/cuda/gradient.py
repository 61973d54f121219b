"""The gradient on a card: one number per pair of rows; answers come back, rows of S stay there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from ..solver.atoms import Atom
from ..solver.protocols import Gradient, Vertex
from .pool import Held, Pool
from .runtime import THREADS, Array
from .segments import LANES, WIDTH

if TYPE_CHECKING:
    from .on_card import OnCard
    from .problem import CUDAMargins, CUDAProblem

#: Rounds of an ascent that are queued at once; more are queued where it goes on.
ROUNDS = 4

#: Passes over X that are queued before their answers are taken.
PASSES = 256

#: The diagonal of so many features is copied as fast as a few entries of it.
FEW_FEATURES = 1 << 17

# Places in the state of an ascent, as in the kernels.
BEST_I, BEST_SIGN, CLIMB_HEAD, CLIMB_SIZE = 18, 20, 32, 32 + 1024

Partners = tuple[np.ndarray, np.ndarray, np.ndarray]


def variant(kernel: str, code: int, omega_step: int) -> str:
    """Return the name of a kernel for a loss: the paper's, with equal weights, has its own."""
    return kernel if code or omega_step else f"{kernel}_plain"


class Pulls:
    """One number per pair of rows, the diagonal of C, and its largest entries.

    Attributes
    ----------
    w, diagonal, largest : Array
    climb, best_score : Array
        The state of an ascent.
    """

    def __init__(self, card: OnCard) -> None:
        self.card, self.device = card, card.device
        self.w, self.diagonal = self.device.empty(card.n_pairs), self.device.empty(card.n_features)
        self.largest = self.device.empty(WIDTH, np.int64)
        self.climb = self.device.zeros(CLIMB_SIZE, np.int64)
        self.best_score = self.device.zeros(1)

    def queue(self, code: int, margins: Array, omega: Array, omega_step: int) -> None:
        """Queue all of it at some margins."""
        card = self.card
        self.device.run(
            variant("pull_pairs", code, omega_step), card.n_pairs, code, card.n_pairs,
            card.term_ptr, card.term, margins, omega, omega_step, self.w,
        )  # fmt: skip
        self.queue_diagonal()

    def queue_diagonal(self) -> None:
        """Queue what follows from the numbers of the pairs."""
        card = self.card
        card.products.sum(None, self.w, card.slots, self.diagonal)
        self.device.run(
            "largest_places", card.n_features, card.n_features, WIDTH, self.diagonal,
            card.tile_value, card.tile_place, card.ticket, self.largest, per_block=2048,
        )  # fmt: skip

    def queue_link_weights(self, other: Array | None = None) -> None:
        """Queue w, or how far it is from another, in the order of the links."""
        card = self.card
        n_links = len(card.link_pair)
        self.device.run(
            "link_weights", n_links, n_links, card.link_pair, self.w, other, card.link_w
        )

    def queue_spread(self, query: Array) -> None:
        """Queue (W + Wᵀ) X[:, f] for the features f of a query; link weights are there."""
        card, device = self.card, self.device
        device.run("scatter_features", card.n_rows, query, *card.by_column, card.U)
        card.links.sum(query, card.U, card.slots, card.R, val=card.link_w)
        device.run("scatter_features", card.n_rows, query, *card.by_column[:2], None, card.U)

    def queue_partners(
        self, query: Array, after: bool, found: tuple[Array, Array, Array], S: Array | None = None
    ) -> None:
        """Queue the search of the partners of a query's features."""
        self.queue_spread(query)
        self._queue_pass(query, after, found, S, 0.0, None, None)

    def _queue_pass(
        self,
        query: Array,
        after: bool,
        found: tuple[Array, Array, Array],
        S: Array | None,
        scale: float,
        climb: Array | None,
        score: Array | None,
    ) -> None:
        card, columns = self.card, self.card.columns
        columns.sum_chunks(query, card.R, card.slots)
        self.device.run(
            "gather_partners", columns.n, query, int(after),
            *columns.entries, columns.val, card.R, card.slots, self.diagonal, S, card.block_value,
            card.block_entry, card.block_partner, card.ticket, *found, scale, climb, score,
            per_block=THREADS // LANES,
        )  # fmt: skip

    def queue_climb(self, scale: float, found: tuple[Array, Array, Array]) -> None:
        """Queue some rounds of an ascent."""
        for _ in range(ROUNDS):
            self.queue_spread(self.climb)
            self._queue_pass(self.climb, False, found, None, scale, self.climb, self.best_score)


class HeldPulls(Held):
    """Pulls of a pool.

    Attributes
    ----------
    array : Pulls
    scores : ndarray or None
        C_ii + C_jj and S_ij of all known feature pairs, where they were computed ahead.
    """

    array: Pulls
    scores: np.ndarray | None = None

    def __init__(self, pool: Pool, card: OnCard) -> None:
        super().__init__(pool)
        if card.link_owner is self.array:  # its numbers are about to change
            card.link_owner = None


class CUDAGradient(Gradient):
    """C = Σ_s w_s x_a x_bᵀ over the pairs s = {a, b} of compared rows.

    Parameters
    ----------
    problem : CUDAProblem
    pulls : HeldPulls
    margins : CUDAMargins or None
        Where it was computed; None where that is not known.
    batch_weights : Held or None
        Weights of the comparisons of a batch, 0 elsewhere.
    """

    def __init__(
        self,
        problem: CUDAProblem,
        pulls: HeldPulls,
        margins: CUDAMargins,
        batch_weights: Held | None,
    ) -> None:
        self.problem, self.margins, self.pulls = problem, margins, pulls.array
        self._held, self._batch_weights = pulls, batch_weights
        self.covers_all = batch_weights is None
        self.card, self.device = problem.card, problem.device
        self.scale, self.n_features = problem.scale, problem.n_features
        self._diagonal: np.ndarray | None = None

    # --- what is asked for now and then ----------------------------------------------------------

    @property
    def diagonal(self) -> np.ndarray:
        """C_jj of every feature."""
        if self._diagonal is None:
            self._diagonal = self.device.download(self.pulls.diagonal)
        return self._diagonal

    @property
    def rounding(self) -> float:
        """How far rounding may move an entry of C or S: its terms may be large and cancel."""
        card = self.card
        self.device.run(
            "absolute_sum", card.n_pairs, card.n_pairs, self.pulls.w, card.part, card.ticket,
            card.scalars, per_block=2048,
        )  # fmt: skip
        total = float(self.device.download(card.scalars)[0])
        largest = float(self.device.download(card.row_sizes[0]).max())
        return 1e-14 * largest**2 * total

    def is_zero(self) -> bool:
        """Return whether all slopes are zero."""
        if self.covers_all:
            return not self.problem.has_slope(self.margins)
        return self._dot(self.margins)[1] == 0.0

    def dot(self, margins: CUDAMargins) -> float:
        """Return ⟨M, -∇f⟩ for the model with these margins."""
        return self._dot(margins)[0]

    def _dot(self, margins: CUDAMargins) -> tuple[float, float]:
        card, weighting = self.card, self.card.weighting
        if self._batch_weights is not None:
            weighting = self._batch_weights.array, 1
        self.device.run(
            "dot_pulls", card.n, self.problem.code, card.n, self.margins.array, *weighting,
            margins.array, self.problem.offset, card.part, card.ticket, card.scalars,
            per_block=2048,
        )  # fmt: skip
        total, any_pull, *_ = self.device.download(card.scalars).tolist()
        return total, any_pull

    def drift_since(self, other: CUDAGradient) -> np.ndarray:
        """Return for each feature i a bound of |S_ij - S_ij of the other gradient| over all j."""
        card = self.card
        self.pulls.queue_link_weights(other.pulls.w)
        card.link_owner = None
        card.links.sum(None, card.row_sizes[0], card.slots, card.R, val=card.link_w)
        out = self.device.empty(self.n_features)
        card.columns.sum(None, card.R, card.slots, out, absolute=True)
        return self.device.download(out)

    def vertex(self, i: int, j: int, entry: float) -> Vertex:
        """Return the better atom on features i and j with a known S_ij, and its score."""
        if self._diagonal is not None:
            return super().vertex(i, j, entry)
        atom = Atom.of(i, j, entry)
        ends = [float(self.device.download(self.pulls.diagonal[k : k + 1])[0]) for k in atom[:2]]
        return Vertex(self.scale * (ends[0] + ends[1] + abs(entry)), atom)

    def largest_diagonal(self, count: int) -> np.ndarray:
        """Return the features of largest C_jj, largest first, the smallest of equals first."""
        if count > WIDTH:
            return super().largest_diagonal(count)
        found = self.device.download(self.pulls.largest)[:count]
        return found[found >= 0]

    # --- scores ----------------------------------------------------------------------------------

    def scores(self, atoms: np.ndarray) -> np.ndarray:
        """Return ⟨B, -∇f⟩ for each atom B.

        After a step toward or away from one atom, from stored terms of the atoms; elsewhere in one
        pass over the pairs of rows.
        """
        if self.margins.is_of_move and len(atoms):
            found = self._stored(atoms)
            if found is not None:
                return self.scale * (found[:, 0] + atoms[:, 2] * found[:, 1])
        return self.scale * self.problem.score_sums(atoms, self.pulls.w)

    def _stored(self, atoms: np.ndarray) -> np.ndarray | None:
        """Return C_ii + C_jj and S_ij for each atom, shape (n, 2), from stored terms."""
        terms, ahead = self.problem.terms, self._held.scores
        runs = None if ahead is None else terms.locate(atoms)
        if ahead is not None and runs is not None and runs.max() < len(ahead):
            return ahead[runs]
        with self.problem.undisturbed():
            return terms.scored(atoms, self.pulls.w, self.pulls.diagonal)

    def entries(self, atoms: np.ndarray) -> np.ndarray:
        """Return S_ij for each atom."""
        i, j, sign = atoms.T
        sums = self.problem.score_sums(atoms, self.pulls.w)
        return sign * (sums - self.diagonal[i] - self.diagonal[j])

    # --- searches --------------------------------------------------------------------------------

    def rows(self, features: np.ndarray) -> np.ndarray:
        """Return the rows of S for up to WIDTH features, shape (len(features), n_features)."""
        card = self.card
        self.problem.own_links(self.pulls)
        query = np.zeros(1 + WIDTH, dtype=np.int64)
        query[: 1 + len(features)] = len(features), *features
        S = self.device.empty(len(features) * self.n_features)
        found = card.value, card.partner, card.entry
        with card.undisturbed():
            self.pulls.queue_partners(self.device.upload(query), False, found, S)
        return self.device.download(S).reshape(len(features), self.n_features)

    def partners(self, features: np.ndarray, *, after: bool = False) -> Partners:
        """Find for each feature i the j that maximises C_jj + |S_ij|, the smallest of equals."""
        m = len(features)
        n_passes = -(-m // WIDTH)
        queries = np.zeros((n_passes, 2 * WIDTH), dtype=np.int64)
        padded = np.zeros(n_passes * WIDTH, dtype=np.int64)
        padded[:m] = features
        queries[:, 0] = np.minimum(m - WIDTH * np.arange(n_passes), WIDTH)
        queries[:, 1 : 1 + WIDTH] = padded.reshape(n_passes, WIDTH)
        listed = self.device.upload(queries)
        found = (
            self.device.empty(len(padded)),
            self.device.empty(len(padded), np.int64),
            self.device.empty(len(padded)),
        )
        self.problem.own_links(self.pulls)
        with self.card.undisturbed():
            for k in range(n_passes):
                part = tuple(array[k * WIDTH : (k + 1) * WIDTH] for array in found)
                self.pulls.queue_partners(listed[k], after, part)
                if k % PASSES == PASSES - 1:
                    self.device.wait()  # so that an interrupt ends the search soon
        value, partner, entry = (self.device.download(array)[:m] for array in found)
        return value, partner, entry

    def climb(self, starts: Iterable[int], n_largest: int) -> Vertex:
        """Return the best vertex that alternating maximisation reaches."""
        listed = [int(start) for start in starts]
        if n_largest + len(listed) > WIDTH:
            return super().climb(listed, n_largest)
        return self.problem.climb(self.pulls, listed, n_largest)

    def climb_all(self, starts: Iterable[int], n_largest: int) -> list[Vertex]:
        """Return the distinct vertices of two half steps from each start, best first."""
        if self.n_features <= FEW_FEATURES:
            self.diagonal  # noqa: B018 - one copy is cheaper than one per vertex
        return super().climb_all(starts, n_largest)


def vertex_of(climb: np.ndarray, score: float) -> Vertex:
    """Return the vertex that an ascent has reached."""
    return Vertex(score, Atom(*climb[BEST_I : BEST_SIGN + 1].tolist()))
