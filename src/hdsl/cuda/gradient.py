"""The gradient on a card: rows of S stay there, answers come back."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

import numpy as np

from ..cached import cached
from ..solver.atoms import Atom
from ..solver.protocols import FeaturePairs, Gradient, Vertex
from .comparisons import Weighting
from .data import CardData
from .margins import CUDAMargins
from .pulls import ANSWER_SIZE, QUERY_SIZE, Answers, Pulls, read_answers
from .runtime import CHUNK, Array
from .segments import WIDTH

#: Passes over X that are queued before their answers are taken, so that an interrupt
#: ends a search soon.
PASSES = 256

#: An entry of C or S is rounded by at most this share of its terms.
ROUNDING = 1e-14


class _Dot(NamedTuple):
    """⟨M, -∇f⟩ of a model M, and whether any comparison pulls."""

    value: float
    has_pull: bool


class GradientSource(Protocol):
    """What a gradient knows of its problem, and asks of it.

    Attributes
    ----------
    card : CardData
    scale : float
        λ of the domain.
    loss_code : int
    offset : Array or None
        Margins of what is not learned; None where they are zero.
    """

    card: CardData
    scale: float
    loss_code: int
    offset: Array | None

    def has_slope(self, margins: CUDAMargins) -> bool:
        """Return whether any slope is not 0."""

    def score_sums(self, atoms: np.ndarray, pulls: Pulls) -> np.ndarray:
        """Return C_ii + C_jj ± S_ij for each atom."""

    def gradient_block(self, pulls: Pulls) -> np.ndarray:
        """Return G inside the embedding."""

    def half_steps(
        self, pulls: Pulls, starts: list[int], n_largest: int
    ) -> tuple[np.ndarray, Answers]:
        """Return starts and their partners, and the best partners of both."""

    def undisturbed(self) -> AbstractContextManager[None]:
        """Make sure that an interrupt between two launches leaves nothing half done."""


class CUDAGradient(Gradient):
    """C = Σ_s w_s x_a x_bᵀ over the pairs s = {a, b} of compared rows.

    Parameters
    ----------
    problem : GradientSource
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
        problem: GradientSource,
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
