"""The line search of a step, on the card: one evaluation per launch.

The state of the search stays on the card. The host reads it when the queue has run, and
queues more evaluations where it has not ended, which is rare.
"""

from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from ..solver.atoms import ZERO, Atom, Correction, Move
from .atoms import Unfolding
from .comparisons import CardData, variant
from .pulls import Pulls
from .runtime import CHUNK, Array


class Measures(NamedTuple):
    """The mean loss of some margins, and whether any of its slopes is not 0."""

    value: float
    has_slope: bool


class CUDAMargins:
    """Margins of all comparisons, on the card.

    Parameters
    ----------
    card : CardData

    Attributes
    ----------
    array : Array of shape (n_comparisons,)
    measures : Measures or None
        Where they are known.
    pulls : Pulls or None
        The gradient at these margins, where it was computed ahead.
    """

    def __init__(self, card: CardData) -> None:
        self._device = card.device
        self.array = card.device.empty(card.comparisons.n)
        self.measures: Measures | None = None
        self.pulls: Pulls | None = None

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """Return a copy on the host."""
        return self._device.download(self.array).astype(dtype or np.float64, copy=False)


#: Evaluations that are queued at once; few searches need more.
SEARCH_POINTS = 10


class SearchState(IntEnum):
    """Where the host reads the state of a search; kernels have more numbers in it."""

    DONE = 10
    RESULT = 11
    VALUE = 13
    ANY_SLOPE = 14


#: Numbers of the state of a search, and of a move.
STATE_SIZE = 16
MOVE_SIZE = 8


class MoveNumber(IntEnum):
    """Where kernels read the numbers of a move.

    A direction is FROM_MARGINS · (margins without the offset) + FROM_U · (margins of
    the first atom) + FROM_V · (margins of the second).
    """

    FROM_MARGINS = 0
    FROM_U = 1
    FROM_V = 2
    MAX_STEP_SIZE = 3


class MoveOnCard:
    """A move as kernels read it: two atoms and four numbers, sent together.

    Parameters
    ----------
    card : CardData
    scale : float
        λ of the domain.

    Attributes
    ----------
    unfolding : Unfolding
        The atom that is moved toward, and the one that is moved away from.
    numbers : Array
    """

    def __init__(self, card: CardData, scale: float) -> None:
        self.device = card.device
        self._scale = scale
        size = Unfolding.SIZE + MOVE_SIZE
        self._packed = self.device.zeros(size, np.int64)
        self._host_packed = self.device.host(size, np.int64)
        self.unfolding = Unfolding(
            card,
            self._packed[: Unfolding.SIZE],
            self._host_packed[: Unfolding.SIZE],
        )
        self.numbers = self._packed[Unfolding.SIZE :].view(np.float64)
        self._host_numbers = self._host_packed[Unfolding.SIZE :].view(np.float64)

    def write(self, move: Move, *, finds_terms: bool) -> None:
        """Write a move on the host; whether the terms of its first atom are wanted."""
        toward = nonzero(move.toward)
        away = nonzero(move.away)
        self.unfolding.write(toward, away, finds_terms=finds_terms)
        numbers = self._host_numbers
        numbers[:] = 0.0
        numbers[MoveNumber.FROM_MARGINS] = move.share_of_model
        if toward is not None:
            numbers[MoveNumber.FROM_U] = self._scale
        if away is not None:
            numbers[MoveNumber.FROM_V] = -self._scale
        numbers[MoveNumber.MAX_STEP_SIZE] = move.max_step_size

    def write_limit(self, move: Move | Correction) -> None:
        """Write a move whose direction is known."""
        self.unfolding.write()
        self._host_numbers[:] = 0.0
        self._host_numbers[MoveNumber.MAX_STEP_SIZE] = move.max_step_size

    def queue_upload(self) -> None:
        """Queue the copy to the card."""
        self.device.copy(self._packed, self._host_packed)


def nonzero(atom: Atom | None) -> Atom | None:
    """Return an atom; None for the zero atom, which has no features to unfold."""
    if atom == ZERO:
        return None
    return atom


class LineSearch:
    """Searches the best step along a direction of margins.

    Parameters
    ----------
    card : CardData
    loss_code : int

    Attributes
    ----------
    direction : Array of shape (n_comparisons,)
    """

    def __init__(self, card: CardData, loss_code: int) -> None:
        self.card = card
        self.device = card.device
        self._loss_code = loss_code
        self.direction = self.device.empty(card.comparisons.n)
        self._state = self.device.zeros(STATE_SIZE)
        self._host_state = self.device.host(STATE_SIZE)

    # --- what the host knows once the queue has run -----------------------------------

    @property
    def is_done(self) -> bool:
        """Whether the search has ended."""
        return bool(self._host_state[SearchState.DONE])

    @property
    def step_size(self) -> float:
        """The best step; 0 for none."""
        return float(self._host_state[SearchState.RESULT])

    @property
    def measures(self) -> Measures:
        """Those of the margins that were last measured."""
        return Measures(
            value=float(self._host_state[SearchState.VALUE]),
            has_slope=bool(self._host_state[SearchState.ANY_SLOPE] > 0.0),
        )

    # --- what is queued ---------------------------------------------------------------

    def queue_begin(
        self, margins: Array, offset: Array | None, move: MoveOnCard
    ) -> None:
        """Queue the direction of a move of unfolded atoms, and the slope there."""
        workspace = self.card.workspace
        self._queue_begin(margins, offset, move, u=workspace.u, v=workspace.v)

    def queue_begin_along(self, margins: Array, move: MoveOnCard) -> None:
        """Queue the slope at the beginning of the direction that is there."""
        self._queue_begin(margins, None, move, u=None, v=None)

    def _queue_begin(
        self,
        margins: Array,
        offset: Array | None,
        move: MoveOnCard,
        *,
        u: Array | None,
        v: Array | None,
    ) -> None:
        comparisons = self.card.comparisons
        compared = comparisons.compared
        self.device.run(
            self._variant("begin_move"),
            comparisons.n,
            per_block=CHUNK,
            code=self._loss_code,
            n=comparisons.n,
            a=compared.a,
            b=compared.b,
            c=compared.c,
            d=compared.d,
            u=u,
            v=v,
            margins=margins,
            offset=offset,
            move=move.numbers,
            omega=comparisons.weighting.omega,
            omega_step=comparisons.weighting.omega_step,
            direction=self.direction,
            chunk_sums=self.card.workspace.chunk_sums,
            ticket=self.card.workspace.ticket,
            search=self._state,
        )

    def queue_points(self, margins: Array) -> None:
        """Queue evaluations of the slope, which do nothing once the search has ended."""
        comparisons = self.card.comparisons
        for _ in range(SEARCH_POINTS):
            self.device.run(
                self._variant("search_on"),
                comparisons.n,
                per_block=CHUNK,
                code=self._loss_code,
                n=comparisons.n,
                margins=margins,
                direction=self.direction,
                omega=comparisons.weighting.omega,
                omega_step=comparisons.weighting.omega_step,
                chunk_sums=self.card.workspace.chunk_sums,
                ticket=self.card.workspace.ticket,
                search=self._state,
            )

    def queue_advance(self, margins: Array, out: Array) -> None:
        """Queue margins after the best step, and their measures."""
        self._queue_advance(margins, self.direction, out)

    def queue_measures(self, margins: Array) -> None:
        """Queue the measures of some margins."""
        self._queue_advance(margins, None, None)

    def _queue_advance(
        self, margins: Array, direction: Array | None, out: Array | None
    ) -> None:
        comparisons = self.card.comparisons
        self.device.run(
            self._variant("advance"),
            comparisons.n,
            per_block=CHUNK,
            code=self._loss_code,
            n=comparisons.n,
            margins=margins,
            direction=direction,
            omega=comparisons.weighting.omega,
            omega_step=comparisons.weighting.omega_step,
            out=out,
            chunk_sums=self.card.workspace.chunk_sums,
            ticket=self.card.workspace.ticket,
            search=self._state,
        )
        self.device.copy(self._host_state, self._state)

    def _variant(self, kernel: str) -> str:
        return variant(kernel, self._loss_code, self.card.comparisons.weighting)
