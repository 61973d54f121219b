"""The problem on a card: margins stay there, scalars come back.

A step is one queue of work: margins of its atom, line search, new margins and their
measures, and then the gradient there with the scores of known atoms, which the next
iteration will ask for first. The host waits once for all of it. Steps along a move are
recorded, and replayed as a CUDA graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import numpy as np

from ..cached import cached
from ..solver.atoms import Atom, Correction, Move, are_directions
from ..solver.directions import Directions
from ..solver.protocols import FeaturePairs, Gradient, Problem, Step, Vertex
from .atoms import Atoms
from .comparisons import CardData, Weighting
from .curvature import Curvature
from .embedding import EmbeddedRows
from .line_search import CUDAMargins, LineSearch, Measures, MoveOnCard, nonzero
from .pulls import ANSWER_SIZE, QUERY_SIZE, Answers, HalfSteps, Pulls, read_answers
from .rows import WIDTH
from .runtime import CHUNK, Array, BrokenDeviceError

#: Passes over X that are queued before their answers are taken, so that an interrupt
#: ends a search soon.
PASSES = 256

#: An entry of C or S is rounded by at most this share of its terms.
ROUNDING = 1e-14


class _Dot(NamedTuple):
    """⟨M, -∇f⟩ of a model M, and whether any comparison pulls."""

    value: float
    has_pull: bool


class CUDAGradient(Gradient):
    """C = Σ_s w_s x_a x_bᵀ over the pairs s = {a, b} of compared rows.

    Parameters
    ----------
    problem : CUDAProblem
    pulls : Pulls
    margins : CUDAMargins
        Where it was computed.
    weighting : Weighting
        Weights of the comparisons; those outside of a batch have 0.
    covers_all : bool
        Whether it is that of all comparisons.
    """

    def __init__(
        self,
        problem: CUDAProblem,
        pulls: Pulls,
        margins: CUDAMargins,
        weighting: Weighting,
        *,
        covers_all: bool,
    ) -> None:
        self.problem = problem
        self.margins = margins
        self.pulls = pulls
        self.weighting = weighting
        self.covers_all = covers_all
        self.card = problem.card
        self.device = problem.card.device
        self.scale = problem.scale
        self.n_features = problem.card.rows.n_features
        # Diagonal entries that came with answers.
        self._known_diagonal: dict[int, float] = {}

    # --- sums -------------------------------------------------------------------------

    @cached
    def diagonal(self) -> np.ndarray:
        """C_jj of every feature."""
        return self.device.download(self.pulls.diagonal)

    def largest_diagonal(self, count: int) -> np.ndarray:
        """Return the features of largest C_jj, the smallest of equals first."""
        if count > WIDTH:
            return self.device.largest(self.pulls.diagonal, count)
        features = self.device.download(self.pulls.largest)[:count]
        return features[features >= 0]

    @property
    def rounding(self) -> float:
        """How far rounding may move an entry of C or S, whose terms may cancel."""
        workspace = self.card.workspace
        n_pairs = self.card.comparisons.n_pairs
        self.device.run(
            "absolute_sum",
            n_pairs,
            per_block=CHUNK,
            n=n_pairs,
            values=self.pulls.w,
            chunk_sums=workspace.chunk_sums,
            ticket=workspace.ticket,
            out=workspace.scalars,
        )
        total = float(self.device.download(workspace.scalars)[0])
        largest_value = float(self.device.download(self.card.rows.sizes.largest).max())
        return ROUNDING * largest_value**2 * total

    def is_zero(self) -> bool:
        """Return whether all slopes are zero."""
        if self.covers_all:
            return not self.problem.has_slope(self.margins)
        return not self._dot(self.margins).has_pull

    def dot(self, margins: CUDAMargins) -> float:
        """Return ⟨M, -∇f⟩ for the model with these margins."""
        return self._dot(margins).value

    def _dot(self, margins: CUDAMargins) -> _Dot:
        """Return ⟨M, -∇f⟩ for these margins, and whether any comparison pulls."""
        workspace = self.card.workspace
        n_comparisons = self.card.comparisons.n
        self.device.run(
            "dot_pulls",
            n_comparisons,
            per_block=CHUNK,
            code=self.problem.loss_code,
            n=n_comparisons,
            margins=self.margins.array,
            omega=self.weighting.omega,
            omega_step=self.weighting.omega_step,
            other_margins=margins.array,
            offset=self.problem.offset,
            chunk_sums=workspace.chunk_sums,
            ticket=workspace.ticket,
            out=workspace.scalars,
        )
        scalars = self.device.download(workspace.scalars).tolist()
        return _Dot(value=scalars[0], has_pull=scalars[1] != 0.0)

    def drift_since(self, other: CUDAGradient) -> np.ndarray:
        """Return per feature i a bound of |S_ij - S_ij of the other| over all j."""
        rows = self.card.rows
        workspace = self.card.workspace
        self.pulls.queue_distance(other.pulls)
        self.card.comparisons.links.sum(
            None,
            rows.sizes.largest,
            workspace.slots,
            workspace.R,
            val=workspace.link_weights,
        )
        bound = self.device.empty(self.n_features)
        rows.by_feature.sum(None, workspace.R, workspace.slots, bound, absolute=True)
        return self.device.download(bound)

    # --- scores -----------------------------------------------------------------------

    def vertex(self, i: int, j: int, entry: float) -> Vertex:
        """Return the better atom on features i and j, given S_ij, and its score."""
        is_known = self._known_diagonal.keys() >= {i, j}
        if "diagonal" in vars(self) or not is_known:
            return super().vertex(i, j, entry)
        diagonal = self._known_diagonal[i] + self._known_diagonal[j]
        return Vertex(self.scale * (diagonal + abs(entry)), Atom.of(i, j, entry))

    @cached
    def block(self) -> np.ndarray:
        """G inside the embedding, of shape (width, width)."""
        return self.problem.gradient_block(self.pulls)

    def pair_scores(self, atoms: np.ndarray) -> np.ndarray:
        """Return ⟨B, -∇f⟩ for each atom B that pairs features."""
        return self.scale * self.problem.score_sums(atoms, self.pulls)

    # --- searches ---------------------------------------------------------------------

    def partners(
        self, features: np.ndarray, *, after: bool = False
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Find for each feature i the j of the largest C_jj + |S_ij|."""
        n = len(features)
        answers = self._search(features, after).first(n)
        partners = answers.partners.astype(np.int64)
        if n <= WIDTH:
            self._remember_diagonal(features, answers.diagonal)
            self._remember_diagonal(partners, answers.partner_diagonal)
        return answers.values, partners, answers.entries

    def _remember_diagonal(self, features: np.ndarray, entries: np.ndarray) -> None:
        pairs = zip(features.tolist(), entries.tolist(), strict=True)
        self._known_diagonal.update(pairs)

    def half_steps(self, starts: Iterable[int], n_largest: int) -> FeaturePairs:
        """Return each start with its best partner, and each of these with its own."""
        starts = list(starts)
        if n_largest + len(starts) > WIDTH:
            return super().half_steps(starts, n_largest)
        features, answers = self.problem.half_steps(self.pulls, starts, n_largest)
        diagonal = answers.diagonal + answers.partner_diagonal
        scores = self.scale * (diagonal + np.abs(answers.entries))
        return FeaturePairs(scores, features, answers.partners, answers.entries)

    def _search(self, features: np.ndarray, after: bool) -> Answers:
        """Return the best partners of all features, and of those that fill a pass."""
        n_passes = -(-len(features) // WIDTH)
        queries = self.device.upload(_queries(features, n_passes))
        answers = self.device.empty((n_passes, ANSWER_SIZE))
        self.pulls.own_links()
        with self.problem.undisturbed():
            for k in range(n_passes):
                self.pulls.queue_pass(queries[k], after, answers[k])
                if k % PASSES == PASSES - 1:
                    self.device.wait()
        return read_answers(self.device.download(answers))


def _queries(features: np.ndarray, n_passes: int) -> np.ndarray:
    """Return the queries of passes over X: how many features each has, and these.

    Examples
    --------
    >>> _queries(np.arange(10), n_passes=2)[:, :4].tolist()
    [[8, 0, 1, 2], [2, 8, 9, 0]]
    """
    padded = np.zeros(n_passes * WIDTH)
    padded[: len(features)] = features
    n_left = len(features) - WIDTH * np.arange(n_passes)
    queries = np.zeros((n_passes, QUERY_SIZE), dtype=np.int64)
    queries[:, 0] = np.minimum(n_left, WIDTH)
    queries[:, 1 : 1 + WIDTH] = padded.reshape(n_passes, WIDTH)
    return queries


#: Stands in for a zero that is divided by.
TINY = float(np.finfo(np.float64).tiny)


class CUDAProblem(Problem):
    """Mean loss of the margins of a convex combination of atoms.

    Parameters
    ----------
    card : CardData
    loss_code : int
    scale : float
        λ of the domain.
    offset : Array of shape (n_comparisons,), default=None
        Margins of what is not learned; None where they are zero.
    direction_scale : float, default=0.0
        s of the atoms s·uuᵀ inside the embedding of the rows; 0 is none.
    """

    def __init__(
        self,
        card: CardData,
        loss_code: int,
        scale: float,
        offset: Array | None = None,
        direction_scale: float = 0.0,
    ) -> None:
        self.card = card
        self.device = card.device
        self.loss_code = loss_code
        self.scale = float(scale)
        self.offset = offset
        self.features = card.rows.features
        self.n_features = card.rows.n_features
        self.n_comparisons = card.comparisons.n
        self._by_pair = card.device.empty(card.comparisons.n_pairs)
        self._atoms = Atoms(card)
        self._embedded: EmbeddedRows | None = None
        self.direction_scale = float(direction_scale)
        if direction_scale > 0.0:
            assert card.rows.dense is not None
            self.directions = Directions(card.rows.dense.shape[1])
            self._embedded = EmbeddedRows(card, self.directions, self.direction_scale)
        self._curvature = Curvature(
            card.comparisons, self._atoms.rows, loss_code, self._embedded
        )
        self._half_steps = HalfSteps(card)
        self._move = MoveOnCard(card, self.scale)
        self._search = LineSearch(card, loss_code)
        self._graphs: dict[Any, Any] = {}

    def exact_search_cost(self) -> float:
        """Return the number of multiplications of a search of all feature pairs."""
        return self.card.comparisons.exact_search_cost()

    def reset(self) -> None:
        """Drop all that is remembered from one question to the next."""
        self._atoms.reset()

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Make sure that an interrupt between two launches leaves nothing half done."""
        try:
            yield
        except BaseException:
            self.card.workspace.reset()
            with suppress(BrokenDeviceError):
                self._atoms.terms.clear()
                self.reset()
                self.device.wait()  # nothing that a graph uses may go before its end
            raise

    # --- margins and value ------------------------------------------------------------

    def margins(self, atoms: np.ndarray, weights: np.ndarray) -> CUDAMargins:
        """Return the margins of a combination of atoms, from scratch."""
        margins = CUDAMargins(self.card)
        if self.offset is None:
            self.device.clear(margins.array)
        else:
            self.device.copy(margins.array, self.offset)
        if len(atoms):
            with self.undisturbed():
                self._queue_similarities(atoms, weights)
            self.card.comparisons.queue_margins(self._by_pair, margins.array, base=1.0)
        return margins

    def _queue_similarities(self, atoms: np.ndarray, weights: np.ndarray) -> None:
        """Queue what a combination of atoms adds to the similarity of each pair."""
        is_direction = are_directions(atoms)
        self._atoms.queue_similarities(
            atoms[~is_direction], self.scale * weights[~is_direction], self._by_pair
        )
        if self._embedded is not None:
            self._embedded.queue_similarities(
                atoms[is_direction, 1],
                self.direction_scale * weights[is_direction],
                self._by_pair,
            )

    def value(self, margins: CUDAMargins) -> float:
        """Return the mean loss."""
        return self._measured(margins).value

    def has_slope(self, margins: CUDAMargins) -> bool:
        """Return whether any slope is not 0."""
        return self._measured(margins).has_slope

    def _measured(self, margins: CUDAMargins) -> Measures:
        """Return the measures of some margins."""
        if margins.measures is None:
            self._search.queue_measures(margins.array)
            self.device.wait()
            margins.measures = self._search.measures
        return margins.measures

    def curvature(self, margins: CUDAMargins, atoms: np.ndarray) -> np.ndarray:
        """Return the second derivatives of the value in the weights of the atoms."""
        with self.undisturbed():
            return self._curvature(atoms, margins.array, self.scale)

    # --- steps ------------------------------------------------------------------------

    def step(self, margins: CUDAMargins, move: Move | Correction) -> Step | None:
        """Return the best step along a move; None for no step."""
        out = CUDAMargins(self.card)
        pulls = Pulls(self.card)
        out.pulls = pulls
        with self.undisturbed():
            if isinstance(move, Correction) or self._embedded is not None:
                self._move_along(move, margins.array, out.array, pulls)
            else:
                self._move_atoms(move, margins.array, out.array, pulls)
            while not self._search.is_done:
                self.card.workspace.link_owner = None
                self._queue_rest(margins.array, out.array, pulls)
                self._wait_for(pulls)
        step_size = self._search.step_size
        if not step_size > 0.0:
            return None
        out.measures = self._search.measures
        return Step(out, step_size, out.measures.value)

    def _move_atoms(self, move: Move, margins: Array, out: Array, pulls: Pulls) -> None:
        """Carry out a step along one or two atoms, as a graph where it was before."""
        terms = self._atoms.terms
        finds_terms = terms.expect(nonzero(move.toward))
        self._move.write(move, finds_terms=finds_terms)
        address = self.device.address
        # The capacity changes with the addresses of the terms.
        key = (address(margins), address(out), address(pulls.w), terms.capacity)
        self.device.replay(
            self._graphs, key, lambda: self._queue_move(margins, out, pulls)
        )
        self._wait_for(pulls)
        if self._search.is_done:
            terms.take_results(pulls)
        else:  # the pulls are not yet those of the new margins
            terms.take_results()

    def _queue_move(self, margins: Array, out: Array, pulls: Pulls) -> None:
        """Queue a step along a move, and the scores of atoms with stored terms."""
        terms = self._atoms.terms
        unfolding = self._move.unfolding
        self._move.queue_upload()
        unfolding.queue_unfold()
        terms.queue_find(unfolding)
        self._search.queue_begin(margins, self.offset, self._move)
        unfolding.queue_fold()
        self._queue_rest(margins, out, pulls)
        terms.queue_sums(pulls.w)

    def _move_along(
        self, move: Move | Correction, margins: Array, out: Array, pulls: Pulls
    ) -> None:
        """Carry out a step along a change of the weights of any atoms."""
        self._atoms.terms.expect(None)
        self._move.write_limit(move)
        direction = self._search.direction
        base = 0.0
        if isinstance(move, Correction):
            self._queue_similarities(move.atoms, move.change)
        else:
            base = 1.0
            self.device.run(
                "learned_margins",
                self.n_comparisons,
                n=self.n_comparisons,
                factor=move.share_of_model,
                margins=margins,
                offset=self.offset,
                out=direction,
            )
            self._queue_similarities(*move.changes)
        self._move.queue_upload()
        self.card.comparisons.queue_margins(self._by_pair, direction, base=base)
        self._search.queue_begin_along(margins, self._move)
        self._queue_rest(margins, out, pulls)
        self._wait_for(pulls)

    def _queue_rest(self, margins: Array, out: Array, pulls: Pulls) -> None:
        """Queue the line search, or more of it, new margins, and the gradient there."""
        self._search.queue_points(margins)
        self._search.queue_advance(margins, out)
        pulls.queue(self.loss_code, out, self.card.comparisons.weighting)

    def _wait_for(self, pulls: Pulls) -> None:
        """Wait for a step; the card prepares the ascent meanwhile."""
        mark = self.device.mark()
        pulls.own_links()
        self.device.wait(mark)

    # --- gradients --------------------------------------------------------------------

    def gradient(
        self, margins: CUDAMargins, batch: np.ndarray | None = None
    ) -> CUDAGradient:
        """Return the gradient over all comparisons, or a batch of rising numbers."""
        weighting = self.card.comparisons.weighting
        pulls = margins.pulls
        if batch is not None:
            weighting = self._batch_weighting(batch)
            pulls = None
        if pulls is None:
            pulls = Pulls(self.card)
            pulls.queue(self.loss_code, margins.array, weighting)
        if batch is None:
            margins.pulls = pulls
        gradient = CUDAGradient(
            self, pulls, margins, weighting, covers_all=batch is None
        )
        gradient.directions = self.directions
        gradient.direction_scale = self.direction_scale
        return gradient

    def _batch_weighting(self, batch: np.ndarray) -> Weighting:
        """Return the weights of a batch, which sum to 1; those outside have 0."""
        device = self.device
        weighting = self.card.comparisons.weighting
        out = device.zeros(self.n_comparisons)
        numbers = device.upload(batch.astype(np.int64))
        total = float(len(batch))
        if not weighting.is_equal:
            weights = device.download(device.take(weighting.omega, numbers))
            total = max(float(weights.sum()), TINY)
        device.run(
            "batch_weights",
            len(batch),
            n=len(batch),
            batch=numbers,
            omega=weighting.omega,
            omega_step=weighting.omega_step,
            total=total,
            out=out,
        )
        return Weighting(out, omega_step=1)

    def score_sums(self, atoms: np.ndarray, pulls: Pulls) -> np.ndarray:
        """Return C_ii + C_jj ± S_ij for each atom."""
        with self.undisturbed():
            return self._atoms.scores(atoms, pulls)

    def gradient_block(self, pulls: Pulls) -> np.ndarray:
        """Return G inside the embedding."""
        assert self._embedded is not None
        with self.undisturbed():
            return self._embedded.gradient_block(pulls)

    def half_steps(
        self, pulls: Pulls, starts: list[int], n_largest: int
    ) -> tuple[np.ndarray, Answers]:
        """Return starts and their partners, and the best partners of both."""
        with self.undisturbed():
            pulls.own_links()
            return self._half_steps(pulls, starts, n_largest)
