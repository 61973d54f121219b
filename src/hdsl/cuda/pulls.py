"""One number per pair of rows, which a gradient is made of, and searches with them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .comparisons import CardData, Weighting, variant
from .rows import SEGMENTS_PER_BLOCK, WIDTH
from .runtime import CHUNK, Array

#: Numbers of a query: how many features it has, and these; the rest is not used.
QUERY_SIZE = 2 * WIDTH

#: Kinds of numbers in an answer, of WIDTH numbers each: see ``Answers``.
N_KINDS = 5

#: Numbers of an answer.
ANSWER_SIZE = N_KINDS * WIDTH


class Answers(NamedTuple):
    """The best partner of each feature i, in the order in which kernels write it.

    Attributes
    ----------
    values : ndarray of shape (n,)
        C_jj + |S_ij|.
    partners : ndarray of shape (n,)
        j, as floats.
    entries : ndarray of shape (n,)
        S_ij.
    diagonal, partner_diagonal : ndarray of shape (n,)
        C_ii and C_jj.
    """

    values: np.ndarray
    partners: np.ndarray
    entries: np.ndarray
    diagonal: np.ndarray
    partner_diagonal: np.ndarray

    def first(self, n: int) -> Answers:
        """Return those of the first n features."""
        return Answers(*[kind[:n] for kind in self])

    def followed_by(self, others: Answers) -> Answers:
        """Return these answers and then the others."""
        pairs = zip(self, others, strict=True)
        return Answers(*[np.concatenate(pair) for pair in pairs])


def read_answers(numbers: np.ndarray) -> Answers:
    """Return the answers of one pass after the other; there are WIDTH of each pass."""
    kinds = np.moveaxis(numbers.reshape(-1, N_KINDS, WIDTH), 1, 0)
    return Answers(*kinds.reshape(N_KINDS, -1))


class Pulls:
    """One number per pair of rows, and the diagonal of C with its largest entries.

    Parameters
    ----------
    card : CardData

    Attributes
    ----------
    w : Array of shape (n_pairs,)
        How much the comparisons that a pair is to win pull, less the others.
    diagonal : Array of shape (n_features,)
        C_jj.
    largest : Array of shape (WIDTH,)
        The features of the largest C_jj.
    term_version : int
        Of ``AtomTerms``, where the sums there are those of these pulls.
    """

    def __init__(self, card: CardData) -> None:
        self.card = card
        self.device = card.device
        n_pairs = card.comparisons.n_pairs
        n_numbers = n_pairs + card.rows.n_features
        # One array, so that the address of its beginning tells the others.
        numbers = self.device.empty(n_numbers + WIDTH)
        self.w = numbers[:n_pairs]
        self.diagonal = numbers[n_pairs:n_numbers]
        self.largest = numbers[n_numbers:].view(np.int64)
        self.term_version = 0

    def queue(self, loss_code: int, margins: Array, weighting: Weighting) -> None:
        """Queue all of it at some margins."""
        comparisons = self.card.comparisons
        workspace = self.card.workspace
        n_features = self.card.rows.n_features
        self.device.run(
            variant("pull_pairs", loss_code, weighting),
            comparisons.n_pairs,
            code=loss_code,
            n_pairs=comparisons.n_pairs,
            signed_ptr=comparisons.signed_ptr,
            signed_comparison=comparisons.signed,
            margins=margins,
            omega=weighting.omega,
            omega_step=weighting.omega_step,
            w=self.w,
        )
        comparisons.products.sum(None, self.w, workspace.slots, self.diagonal)
        self.device.run(
            "largest_places",
            n_features,
            per_block=CHUNK,
            n=n_features,
            count=WIDTH,
            values=self.diagonal,
            tile_value=workspace.tile_value,
            tile_place=workspace.tile_place,
            ticket=workspace.ticket,
            out=self.largest,
        )

    # --- rows of S --------------------------------------------------------------------

    def own_links(self) -> None:
        """Have w in the order of the links, for passes to come."""
        workspace = self.card.workspace
        if workspace.link_owner is not self:
            workspace.link_owner = None
            self._queue_link_weights(None)
            workspace.link_owner = self

    def queue_distance(self, other: Pulls) -> None:
        """Queue |w - w of the others| in the order of the links."""
        self.card.workspace.link_owner = None
        self._queue_link_weights(other.w)

    def _queue_link_weights(self, other: Array | None) -> None:
        comparisons = self.card.comparisons
        n_links = len(comparisons.link_pair)
        self.device.run(
            "link_weights",
            n_links,
            n_links=n_links,
            link_pair=comparisons.link_pair,
            w=self.w,
            other=other,
            out=self.card.workspace.link_weights,
        )

    def queue_pass(self, query: Array, after: bool, answers: Array) -> None:
        """Queue the search of the best partners of a query's features.

        It is a pass over the links of rows, and then over X: the features are unfolded
        in U, R = W U, and S_ij is sum_a x_aj R_ai. The links must be owned.
        """
        workspace = self.card.workspace
        by_feature = self.card.rows.by_feature
        links = self.card.comparisons.links
        self._queue_scatter(query, by_feature.val)
        links.sum(
            query,
            workspace.U,
            workspace.slots,
            workspace.R,
            val=workspace.link_weights,
        )
        self._queue_scatter(query, None)
        by_feature.sum_chunks(query, workspace.R, workspace.slots)
        self.device.run(
            "gather_partners",
            by_feature.n,
            per_block=SEGMENTS_PER_BLOCK,
            query=query,
            after=int(after),
            **by_feature.entries,
            val=by_feature.val,
            source=workspace.R,
            slots=workspace.slots,
            diagonal=self.diagonal,
            block_value=workspace.block_value,
            block_entry=workspace.block_entry,
            block_partner=workspace.block_partner,
            ticket=workspace.ticket,
            answers=answers,
        )

    def _queue_scatter(self, query: Array, val: Array | None) -> None:
        """Queue U = the features of a query side by side, or zeros without values."""
        rows = self.card.rows
        self.device.run(
            "scatter_features",
            rows.n,
            query=query,
            ptr=rows.by_feature.ptr,
            idx=rows.by_feature.idx,
            val=val,
            U=self.card.workspace.U,
        )


class PassBuffer:
    """The query of a pass and its answer, as numbers of 64 bits side by side."""

    #: Numbers of a pass.
    SIZE = QUERY_SIZE + ANSWER_SIZE

    def __init__(self, numbers: Any) -> None:
        self.query = numbers[:QUERY_SIZE]
        self.answers = numbers[QUERY_SIZE:].view(np.float64)

    def read(self) -> tuple[np.ndarray, Answers]:
        """Return the features of the query and their answers, on the host."""
        n_features = int(self.query[0])
        answers = read_answers(self.answers)
        features = self.query[1 : 1 + n_features]
        return features, answers.first(n_features)


class HalfSteps:
    """Finds the best partners of some features, and then those of these partners.

    The partners that the first pass finds are the query of the second one, on the card.

    Parameters
    ----------
    card : CardData
    """

    def __init__(self, card: CardData) -> None:
        self.device = card.device
        self._starts = self.device.zeros(1 + WIDTH, np.int64)
        self._host_starts = self.device.host(1 + WIDTH, np.int64)
        self._passes = self.device.zeros(2 * PassBuffer.SIZE, np.int64)
        self._host_passes = self.device.host(2 * PassBuffer.SIZE, np.int64)
        self._graphs: dict[Any, Any] = {}

    def __call__(
        self, pulls: Pulls, starts: list[int], n_largest: int
    ) -> tuple[np.ndarray, Answers]:
        """Return features and their answers; the links must be owned.

        Parameters
        ----------
        pulls : Pulls
        starts : list of int
            Features to start from.
        n_largest : int
            Features of the largest diagonal entries to start from. Together at most
            WIDTH.
        """
        self._host_starts[0] = len(starts)
        self._host_starts[1 : 1 + len(starts)] = starts
        key = (self.device.address(pulls.w), n_largest)
        self.device.replay(self._graphs, key, lambda: self._queue(pulls, n_largest))
        self.device.wait()
        first, second = self._split(self._host_passes)
        features, answers = first.read()
        more_features, more_answers = second.read()
        all_features = np.concatenate([features, more_features])
        return all_features, answers.followed_by(more_answers)

    def _queue(self, pulls: Pulls, n_largest: int) -> None:
        """Queue both passes, and copies of their numbers."""
        device = self.device
        first, second = self._split(self._passes)
        device.copy(self._starts, self._host_starts)
        device.launch(
            "first_query",
            1,
            starts=self._starts,
            n_largest=n_largest,
            largest=pulls.largest,
            query=first.query,
        )
        pulls.queue_pass(first.query, False, first.answers)
        device.launch(
            "next_query",
            1,
            query=first.query,
            answers=first.answers,
            next=second.query,
        )
        pulls.queue_pass(second.query, False, second.answers)
        device.copy(self._host_passes, self._passes)

    def _split(self, numbers: Array) -> tuple[PassBuffer, PassBuffer]:
        """Return the buffers of the first and the second pass."""
        first = PassBuffer(numbers[: PassBuffer.SIZE])
        second = PassBuffer(numbers[PassBuffer.SIZE :])
        return first, second
