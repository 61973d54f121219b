"""The problem on a card: margins stay there, scalars come back.

A step is one queue of work: margins of its atom, line search, new margins and their
measures, and then the gradient there with the scores of known atoms, which the next
iteration will ask for first. The host waits once for all of it. Steps along a move are
recorded, and replayed as a CUDA graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ..solver.atoms import ZERO
from ..solver.protocols import Correction, Move, Problem, Step
from .atoms import Atoms
from .gradient import CUDAGradient, HalfSteps, Pulls, variant
from .runtime import Array, BrokenDeviceError

if TYPE_CHECKING:
    from .on_card import OnCard

#: Points of a line search that are queued at once; few searches need more.
SEARCH_POINTS = 10

#: No atoms.
NO_ATOMS = np.array([-1, -1, 0, 0, -1, -1, 0, 0])

# Places in the state of a line search, as in the kernels.
DONE = 10
RESULT = 11
VALUE = 13
ANY_SLOPE = 14
SEARCH_SIZE = 16

#: Stands in for a zero that is divided by.
TINY = float(np.finfo(np.float64).tiny)


class CUDAMargins:
    """Margins of all comparisons, on the card.

    Attributes
    ----------
    array : Array
    measures : tuple of (value, whether any slope is not 0) or None
    pulls : Pulls or None
        The gradient there, where it was computed ahead.
    """

    def __init__(self, problem: CUDAProblem) -> None:
        self._device = problem.device
        self.array = problem.device.empty(problem.card.n)
        self.measures: tuple[float, bool] | None = None
        self.pulls: Pulls | None = None

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """Return a copy on the host."""
        return self._device.download(self.array).astype(dtype or np.float64, copy=False)


class CUDAProblem(Problem):
    """Mean loss of the margins of a convex combination of atoms.

    Parameters
    ----------
    card : OnCard
    code : int
        Of the loss.
    scale : float
        λ of the domain.
    fixed_weights : tuple of float, default=()
        Weight of each fixed part. There is one: the plain dot product.
    """

    def __init__(
        self,
        card: OnCard,
        code: int,
        scale: float,
        fixed_weights: tuple[float, ...] = (),
    ) -> None:
        self.card = card
        self.device = card.device
        self.code = code
        self.scale = float(scale)
        self.features = card.features
        self.n_features = card.n_features
        self.n_comparisons = card.n
        device = card.device
        self._by_pair = device.empty(card.n_pairs)
        self._atoms_of = Atoms(card)
        self._half_steps = HalfSteps(card)
        self._graphs: dict[Any, Any] = {}
        self.offset: Array | None = None
        if any(fixed_weights):
            (prior,) = fixed_weights
            self.offset = device.empty(card.n)
            self._queue_margins(card.dots, float(prior), 0.0, self.offset)
        self._direction = device.empty(card.n)
        self._search = device.zeros(SEARCH_SIZE)
        self._host_search = device.host(SEARCH_SIZE)
        # The two atoms of a move, and its numbers, as kernels read them.
        self._told = device.zeros(16, np.int64)
        self._host_told = device.host(16, np.int64)
        self._atoms = self._told[:8]
        self._host_atoms = self._host_told[:8]
        self._move = self._told[8:]
        self._host_move = self._host_told[8:].view(np.float64)

    def exact_search_cost(self) -> float:
        """Return the number of multiplications of a search of all pairs of features."""
        return self.card.exact_search_cost()

    def forget(self) -> None:
        """Drop all that is remembered from one question to the next."""
        self._atoms_of.forget()

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Make sure that an interrupt between two launches leaves nothing half done."""
        try:
            yield
        except BaseException:
            self.card.reset()
            with suppress(BrokenDeviceError):
                self._atoms_of.terms.clear()
                self.forget()
                self.device.wait()  # nothing that a graph uses may go before its end
            raise

    def _kernel(self, name: str) -> str:
        return variant(name, self.code, self.card.omega_step)

    # --- margins and value ------------------------------------------------------------

    def margins(self, atoms: np.ndarray, weights: np.ndarray) -> CUDAMargins:
        """Return the margins of a combination of atoms, from scratch."""
        out = CUDAMargins(self)
        if self.offset is None:
            self.device.clear(out.array)
        else:
            self.device.copy(out.array, self.offset)
        if len(atoms):
            self._queue_values(atoms, weights)
            self._queue_margins(self._by_pair, 1.0, 1.0, out.array)
        return out

    def _queue_values(self, atoms: np.ndarray, weights: np.ndarray) -> None:
        """Queue what a combination of atoms adds to the similarity of each pair of rows."""
        with self.undisturbed():
            self._atoms_of.values(atoms, self.scale * weights, self._by_pair, 0.0)

    def _queue_margins(
        self, by_pair: Array, factor: float, base: float, out: Array
    ) -> None:
        """Queue out = base · out + factor · the margins by these numbers of pairs."""
        n = self.card.n
        side = self.card.side
        self.device.run("pair_margins", n, n, side, by_pair, factor, base, out)

    def score_sums(self, atoms: np.ndarray, pulls: Pulls) -> np.ndarray:
        """Return C_ii + C_jj ± S_ij for each atom."""
        with self.undisturbed():
            return self._atoms_of.scores(atoms, pulls)

    def curvature(self, margins: CUDAMargins, atoms: np.ndarray) -> np.ndarray:
        """Return the second derivatives of the value in the weights of the atoms."""
        with self.undisturbed():
            return self._atoms_of.curvature(
                atoms, self.code, self.scale**2, margins.array
            )

    def _measured(self, margins: CUDAMargins) -> tuple[float, bool]:
        """Return the value, and whether any slope is not 0."""
        if margins.measures is None:
            self._queue_advance(margins.array, None, None)
            self.device.wait()
            margins.measures = self._measures()
        return margins.measures

    def _queue_advance(
        self, margins: Array, direction: Array | None, out: Array | None
    ) -> None:
        card = self.card
        self.device.run(
            self._kernel("advance"),
            card.n,
            self.code,
            card.n,
            margins,
            direction,
            *card.weighting,
            out,
            card.part,
            card.ticket,
            self._search,
            per_block=2048,
        )
        self.device.copy(self._host_search, self._search)

    def _measures(self) -> tuple[float, bool]:
        return float(self._host_search[VALUE]), bool(self._host_search[ANY_SLOPE] > 0.0)

    def value(self, margins: CUDAMargins) -> float:
        """Return the mean loss."""
        return self._measured(margins)[0]

    def has_slope(self, margins: CUDAMargins) -> bool:
        """Return whether any slope is not 0."""
        return self._measured(margins)[1]

    # --- steps ------------------------------------------------------------------------

    def _set_move(self, move: Move | Correction) -> None:
        """Write a move to the host's side of what kernels read."""
        told = self._host_atoms
        numbers = self._host_move
        terms = self._atoms_of.terms
        terms.expect(None)
        told[:] = NO_ATOMS
        numbers[:4] = 0.0, 0.0, 0.0, move.max_step_size
        if isinstance(move, Correction):
            return
        numbers[0] = 1.0 if move.toward is None else -1.0 if move.away is None else 0.0
        if move.toward is not None and move.toward != ZERO:
            told[0:3] = move.toward
            numbers[1] = self.scale
            told[3] = terms.expect(terms.code(*move.toward))
        if move.away is not None and move.away != ZERO:
            told[4:7] = move.away
            numbers[2] = -self.scale

    def _queue_move(
        self, margins: Array, queue: Callable[[], None], pulls: Pulls
    ) -> None:
        """Queue a whole step along a move, and the scores of the atoms whose terms are stored."""
        self.device.copy(self._told, self._host_told)
        self.card.unfold(self._atoms)
        self._atoms_of.terms.queue_terms(self._atoms)
        self._queue_start(margins, self.card.u, self.card.v)
        self.card.unfold(self._atoms, back=True)
        queue()
        self._atoms_of.terms.queue(pulls.w)

    def _queue_start(self, margins: Array, *unfolded: Array | None) -> None:
        """Queue the direction of a move, and the slope at its start."""
        card = self.card
        self.device.run(
            self._kernel("begin_move"),
            card.n,
            self.code,
            card.n,
            *card.rows_of,
            *unfolded,
            margins,
            self.offset,
            self._move,
            *card.weighting,
            self._direction,
            card.part,
            card.ticket,
            self._search,
            per_block=2048,
        )

    def _queue_rest(self, margins: Array, out: Array, pulls: Pulls) -> None:
        """Queue the line search, or more of it, new margins, and the gradient there."""
        card = self.card
        for _ in range(SEARCH_POINTS):
            self.device.run(
                self._kernel("search_on"),
                card.n,
                self.code,
                card.n,
                margins,
                self._direction,
                *card.weighting,
                card.part,
                card.ticket,
                self._search,
                per_block=2048,
            )
        self._queue_advance(margins, self._direction, out)
        pulls.queue(self.code, out, *card.weighting)

    def step(self, margins: CUDAMargins, move: Move | Correction) -> Step | None:
        """Return the best step along a move; None for no step."""
        out = CUDAMargins(self)
        out.pulls = Pulls(self.card)
        with self.undisturbed():
            size = self._carried_out(margins.array, move, out.array, out.pulls)
        if not size > 0.0:
            return None
        out.measures = self._measures()
        return Step(out, size, out.measures[0])

    def _carried_out(
        self, margins: Array, move: Move | Correction, out: Array, pulls: Pulls
    ) -> float:
        """Queue a step, wait for it, and return its size."""
        queue = partial(self._queue_rest, margins, out, pulls)
        self._set_move(move)
        if isinstance(move, Correction):
            self._queue_values(move.atoms, move.change)
            self.device.copy(self._told, self._host_told)
            self._queue_margins(self._by_pair, 1.0, 0.0, self._direction)
            self._queue_start(margins, None, None)
            queue()
            self._wait_for(pulls)
        else:
            terms = self._atoms_of.terms
            places = map(self.device.address, (margins, out, pulls.w))
            key = *places, len(terms.room[0])  # each room has a length of its own
            self.device.replay(
                self._graphs, key, lambda: self._queue_move(margins, queue, pulls)
            )
            self._wait_for(pulls)
            terms.take(pulls if self._host_search[DONE] else None)
        while not self._host_search[DONE]:
            self.card.link_owner = None
            queue()
            self._wait_for(pulls)
        return float(self._host_search[RESULT])

    def _wait_for(self, pulls: Pulls) -> None:
        """Wait for a step; the card prepares the ascent meanwhile."""
        mark = self.device.mark()
        self.own_links(pulls)
        self.device.wait(mark)

    def own_links(self, pulls: Pulls) -> None:
        """Have the numbers of these pulls in the order of the links."""
        if self.card.link_owner is not pulls:
            self.card.link_owner = None
            pulls.queue_links()
            self.card.link_owner = pulls

    def half_steps(self, pulls: Pulls, starts: list[int], n_largest: int) -> np.ndarray:
        """Return i, its best j, S_ij and the diagonal at both, for starts and their partners."""
        with self.undisturbed():
            self.own_links(pulls)
            return self._half_steps(pulls, starts, n_largest)

    # --- gradients --------------------------------------------------------------------

    def gradient(
        self, margins: CUDAMargins, batch: np.ndarray | None = None
    ) -> CUDAGradient:
        """Return the gradient over all comparisons, or over a batch of them (rising numbers)."""
        card = self.card
        device = self.device
        if batch is None:
            if margins.pulls is None:
                margins.pulls = Pulls(card)
                margins.pulls.queue(self.code, margins.array, *card.weighting)
            return CUDAGradient(self, margins.pulls, margins, None)
        weights = device.zeros(card.n)
        pulls = Pulls(card)
        listed = device.upload(batch.astype(np.int64))
        total = float(len(batch))
        if card.omega_step:
            total = max(
                float(device.download(device.take(card.omega, listed)).sum()), TINY
            )
        device.run(
            "batch_weights",
            len(batch),
            len(batch),
            listed,
            *card.weighting,
            total,
            weights,
        )
        pulls.queue(self.code, margins.array, weights, 1)
        return CUDAGradient(self, pulls, margins, weights)
