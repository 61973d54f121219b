"""The problem on a card: margins stay there, scalars come back.

A step is one queue of work: margins of its atom, line search, new margins and their measures,
and then what the next iteration will ask for first, the gradient and the scores of all atoms that
are known. The host waits once for all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ..cpu.corrective import Sample
from ..cpu.hosted import HostedProblem
from ..cpu.kernels.losses import CODES
from ..solver.atoms import ZERO, Atom
from ..solver.protocols import Loss, Move, Step, Vertex
from ..solver.snapshot import Arrays
from .corrective import CardCorrections
from .gradient import CLIMB_HEAD, CUDAGradient, HeldPulls, Pulls, variant, vertex_of
from .pool import Held, Pool
from .runtime import Array, kernel_for

if TYPE_CHECKING:
    from .layout import OnCard

#: Points of a line search that are queued at once; few searches need more.
SEARCH_POINTS = 10

#: Recorded queues of work that are kept, one per combination of arrays that it runs on.
MOST_RECORDED = 64

#: No atoms, and no feature pair to learn.
NOTHING_TOLD = np.array([-1, -1, 0, 0, -1, -1, 0, 0, 0, -1, -1, -1, 0, 0, 0, 0])

# Places in the state of a line search, as in the kernels.
DONE, RESULT, VALUE, LARGEST, ANY_SLOPE, SEARCH_SIZE = 10, 11, 13, 14, 15, 16


class CUDAMargins(Held):
    """Margins of all comparisons, on the card.

    Attributes
    ----------
    array : Array
    measures : tuple of (value, largest margin, whether any slope is not 0) or None
    pulls : HeldPulls or None
        The gradient there, where it was computed ahead.
    """

    def __init__(self, problem: CUDAProblem) -> None:
        super().__init__(problem.pool)
        self._device = problem.device
        self.measures: tuple[float, float, bool] | None = None
        self.pulls: HeldPulls | None = None

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """Return a copy on the host."""
        return self._device.download(self.array)


class CUDAProblem(HostedProblem):
    """Mean loss of the margins of a convex combination of atoms.

    Parameters
    ----------
    card : OnCard
    features : ndarray of shape (n_features,)
        The user's number of each feature.
    loss : Loss
        One that the kernels know.
    scale : float
        λ of the domain.
    prior : float, default=0.0
        Weight of the plain dot product under the learned part.
    sample : Sample, default=None
        What second derivatives are estimated from; None chooses by these comparisons alone.
    """

    def __init__(
        self,
        card: OnCard,
        features: np.ndarray,
        loss: Loss,
        scale: float,
        prior: float = 0.0,
        sample: Sample | None = None,
    ) -> None:
        super().__init__(card.of, features, loss, scale, prior, sample)
        self.card, self.device, self.code = card, card.device, CODES[type(loss)]
        device = self.device
        self.pool = Pool(lambda: device.empty(card.n))
        self.pulls_pool = Pool(lambda: Pulls(card))
        self.offset = None
        if prior > 0:
            self.offset = device.empty(card.n)
            device.run("scale_values", card.n, card.n, self.prior, card.dot_margins, self.offset)
        self._direction = device.empty(card.n)
        self._search, self._host_search = device.zeros(SEARCH_SIZE), device.host(SEARCH_SIZE)
        # A move, its two atoms, and the feature pair to learn, as kernels read them.
        self._told, self._host_told = device.zeros(24, np.int64), device.host(24, np.int64)
        self._atoms, self._host_atoms = self._told[:16], self._host_told[:16]
        self._move, self._host_move = self._told[16:], self._host_told[16:].view(np.float64)
        self._starts, self._host_starts = device.zeros(16, np.int64), device.host(16, np.int64)
        self._host_climb, self._host_score = device.host(CLIMB_HEAD, np.int64), device.host(1)
        self._recorded: dict[tuple, Callable[[], None]] = {}

    @property
    def weighting(self) -> tuple[Array, int]:
        """Weights of the comparisons, as kernels take them."""
        return self.card.omega, self.card.omega_step

    def _kernel(self, name: str) -> str:
        return variant(name, self.code, self.card.omega_step)

    # --- margins and value -----------------------------------------------------------------------

    def margins(self, atoms: np.ndarray, weights: np.ndarray) -> CUDAMargins:
        """Return the margins of a combination of atoms, from scratch."""
        out = CUDAMargins(self)
        if self.offset is None:
            self.device.clear(out.array)
        else:
            self.device.copy(out.array, self.offset)
        with self.card.undisturbed():
            for atom, weight in zip(atoms, weights, strict=True):
                self._add(Atom(*atom.tolist()), float(weight), out.array)
        return out

    def _add(self, atom: Atom, weight: float, out: Array) -> None:
        """Add the margins of an atom, without the prior's, times a weight."""
        card, device = self.card, self.device
        listed = device.upload(np.array([*atom, 0, -1, -1, 0, 0], dtype=np.int64))
        self._queue_atoms(listed)
        device.run("add_margins", card.n, card.n, self.scale * weight, card.u, *card.rows_of, out)
        self._queue_clearing(listed)

    def _queue_atoms(self, listed: Array) -> None:
        card = self.card
        kernel = kernel_for("scatter_atoms", card.columns.val)
        self.device.run(kernel, card.n_rows, listed, *card.by_column, card.u, card.v)

    def _queue_clearing(self, listed: Array) -> None:
        card = self.card
        self.device.run("clear_atoms", card.n_rows, listed, *card.by_column[:2], card.u, card.v)

    def _measured(self, margins: CUDAMargins) -> tuple[float, float, bool]:
        """Return value, largest margin, and whether any slope is not 0."""
        if margins.measures is None:
            self._queue_advance(margins.array, None, None)
            margins.measures = self._read_measures()
        return margins.measures

    def _queue_advance(self, margins: Array, direction: Array | None, out: Array | None) -> None:
        card = self.card
        self.device.run(
            self._kernel("advance"), card.n, self.code, card.n, margins, direction,
            *self.weighting, out, card.part, card.ticket, self._search, per_block=2048,
        )  # fmt: skip
        self.device.copy(self._host_search, self._search)

    def _read_measures(self) -> tuple[float, float, bool]:
        self.device.wait()
        return self._host_measures()

    def _host_measures(self) -> tuple[float, float, bool]:
        value, largest, any_slope = self._host_search[VALUE:].tolist()
        return value, largest, any_slope > 0.0

    def value(self, margins: CUDAMargins) -> float:
        """Return the mean loss."""
        return self._measured(margins)[0]

    def largest_margin(self, margins: CUDAMargins) -> float:
        """Return the largest absolute margin."""
        return self._measured(margins)[1]

    def has_slope(self, margins: CUDAMargins) -> bool:
        """Return whether any slope is not 0."""
        return self._measured(margins)[2]

    # --- steps -----------------------------------------------------------------------------------

    def _set_move(self, move: Move, step_size: float | None) -> None:
        """Write a move to the host's side of what kernels read."""
        told, numbers = self._host_atoms, self._host_move
        told[:] = NOTHING_TOLD
        numbers[0] = 1.0 if move.toward is None else -1.0 if move.away is None else 0.0
        numbers[1] = numbers[2] = 0.0
        if move.toward is not None and move.toward != ZERO:
            told[0:3], numbers[1] = move.toward, self.scale
        if move.away is not None and move.away != ZERO:
            told[4:7], numbers[2] = move.away, -self.scale
        numbers[3] = move.max_step_size
        numbers[4] = np.nan if step_size is None else step_size

    def _queue_move(self, margins: Array, direction: Array) -> None:
        """Queue the direction of a move, and the slope at its start."""
        card, device = self.card, self.device
        device.copy(self._told, self._host_told)
        self._queue_atoms(self._atoms)
        device.run(
            self._kernel("begin_move"), card.n, self.code, card.n, *card.rows_of, card.u, card.v,
            margins,
            self.offset, self._move, *self.weighting, direction, card.part, card.ticket,
            self._search, per_block=2048,
        )  # fmt: skip
        self._queue_clearing(self._atoms)

    def _queue_search(self, margins: Array) -> None:
        card = self.card
        for _ in range(SEARCH_POINTS):
            self.device.run(
                self._kernel("search_on"), card.n, self.code, card.n, margins, self._direction,
                *self.weighting, card.part, card.ticket, self._search, per_block=2048,
            )  # fmt: skip

    def direction(self, margins: CUDAMargins, move: Move) -> CUDAMargins:
        """Return how margins change along a move."""
        out = CUDAMargins(self)
        self._set_move(move, None)
        with self.card.undisturbed():
            self._queue_move(margins.array, out.array)
        self.device.wait()  # the host's side may be written again
        return out

    def slopes(
        self, margins: CUDAMargins, direction: CUDAMargins, step_sizes: Sequence[float]
    ) -> np.ndarray:
        """Return the first two derivatives of the value at each step size, shape (n, 2)."""
        card, out = self.card, []
        for size in step_sizes:
            self.device.run(
                "slopes", card.n, self.code, card.n, margins.array, direction.array, float(size),
                *self.weighting, card.part, card.ticket, card.scalars, per_block=2048,
            )  # fmt: skip
            out.append(self.device.download(card.scalars)[:2])
        return np.array(out)

    def advance(self, margins: CUDAMargins, direction: CUDAMargins, step_size: float) -> Step:
        """Return the step of this size."""
        out, state = CUDAMargins(self), np.zeros(SEARCH_SIZE)
        state[[DONE, RESULT]] = 1.0, step_size
        if step_size == 0.0:  # kernels take 0 for no step
            self.device.copy(out.array, margins.array)
            out.measures = self._measured(margins)
        else:
            self._host_search[:] = state
            self.device.copy(self._search, self._host_search)
            self._queue_advance(margins.array, direction.array, out.array)
            out.measures = self._read_measures()
        return Step(out, step_size, *out.measures[:2])

    def step(self, margins: CUDAMargins, move: Move, step_size: float | None = None) -> Step | None:
        """Return the best step along a move, or the one of a given size; None for no step."""
        if step_size is not None and not step_size > 0.0:
            return None
        out = CUDAMargins(self)
        out.pulls = HeldPulls(self.pulls_pool, self.card)
        try:
            size = self._carried_out(margins, move, step_size, out)
        except BaseException:
            self.card.reset()
            raise
        if not size > 0.0:
            return None
        out.measures = self._host_measures()
        out.pulls.scores = self.card.terms.host_copy()
        return Step(out, size, *out.measures[:2])

    def _carried_out(
        self, margins: CUDAMargins, move: Move, step_size: float | None, out: CUDAMargins
    ) -> float:
        """Queue a step, wait for it, and return its size."""
        terms = self.card.terms
        assert out.pulls is not None
        self._set_move(move, step_size)
        if move.toward is not None and move.toward != ZERO:
            planned = terms.plan(move.toward.i, move.toward.j)
            if planned is not None:
                lead, other = planned
                self._host_atoms[8:12] = 1, other, lead, other
        arrays = margins.array, out.array, out.pulls.array
        self._replay(self._queue_step, *arrays, version=terms.version)
        self._wait_and_go_on(out.pulls.array)
        terms.note_used()
        while self._host_search[DONE] == 0.0:
            self.card.link_owner = None
            self._queue_search(margins.array)
            self._queue_rest(*arrays)
            self._wait_and_go_on(out.pulls.array)
        return float(self._host_search[RESULT])

    def _queue_step(self, margins: Array, out: Array, pulls: Pulls) -> None:
        self._queue_move(margins, self._direction)
        self.card.terms.queue(self._atoms[8:12])
        self.device.copy(self.card.terms.host_table, self.card.terms.table)
        self._queue_search(margins)
        self._queue_rest(margins, out, pulls)

    def _queue_rest(self, margins: Array, out: Array, pulls: Pulls) -> None:
        """Queue what follows a line search."""
        self._queue_advance(margins, self._direction, out)
        pulls.queue(self.code, out, *self.weighting)
        self.card.terms.queue_scores(pulls.w, pulls.diagonal)

    def _wait_and_go_on(self, pulls: Pulls) -> None:
        """Wait for the answers of a step, and let the card prepare the ascent meanwhile."""
        mark = self.device.mark()
        self.own_links(pulls)
        self.device.wait(mark)

    def own_links(self, pulls: Pulls) -> None:
        """Have the numbers of these pulls in the order of the links."""
        if self.card.link_owner is not pulls:
            self.card.link_owner = pulls
            self._replay(_queue_links, pulls)

    def _replay(self, work: Callable[..., None], *arrays: Any, version: int = 0) -> None:
        """Queue work on arrays, in less time where the same was queued before.

        The arrays are kept, so that no other can have the same id.
        """
        key = (work.__name__, version, *map(id, arrays))
        if key not in self._recorded:
            if len(self._recorded) >= MOST_RECORDED:
                del self._recorded[next(iter(self._recorded))]
            self._recorded[key] = self.device.record(partial(work, *arrays))
        self._recorded[key]()

    # --- corrections -----------------------------------------------------------------------------

    @cached_property
    def _corrections(self) -> CardCorrections:
        return CardCorrections(self.card, self.code, self.scale, self.sample)

    def curvature(self, margins: CUDAMargins, atoms: np.ndarray) -> np.ndarray:
        """Return the second derivatives of the value in the weights of the atoms.

        They are estimated from a sample of the comparisons where there are many.
        """
        return self._corrections.curvature(margins.array, atoms)

    def shift(self, atoms: np.ndarray, change: np.ndarray) -> CUDAMargins:
        """Return how margins change where the weights of atoms change."""
        out = CUDAMargins(self)
        self.device.clear(out.array)
        self._corrections.add_shift(atoms, change, out.array)
        return out

    # --- gradients -------------------------------------------------------------------------------

    def gradient(
        self,
        margins: CUDAMargins,
        batch: np.ndarray | None = None,
        batch_weight: float | None = None,
    ) -> CUDAGradient:
        """Return the gradient over all comparisons, or over a batch of them (rising numbers)."""
        if batch is None:
            if margins.pulls is None:
                margins.pulls = HeldPulls(self.pulls_pool, self.card)
                margins.pulls.array.queue(self.code, margins.array, *self.weighting)
            return CUDAGradient(self, margins.pulls, margins, None)
        weights, pulls = Held(self.pool), HeldPulls(self.pulls_pool, self.card)
        self.device.clear(weights.array)
        self.device.run(
            "batch_weights", len(batch), len(batch), self.device.upload(batch.astype(np.int64)),
            *self.weighting, self.batch_total(batch, batch_weight), weights.array,
        )  # fmt: skip
        pulls.array.queue(self.code, margins.array, weights.array, 1)
        return CUDAGradient(self, pulls, margins, weights)

    def climb(self, pulls: Pulls, starts: list[int], n_largest: int) -> Vertex:
        """Return the best vertex that an ascent reaches; there are at most WIDTH starts."""
        self._host_starts[: 2 + len(starts)] = n_largest, len(starts), *starts
        with self.card.undisturbed():
            self.own_links(pulls)
            self._replay(self._queue_climb, pulls)
            self.device.wait()
            while self._host_climb[0] != 0:
                self._replay(self._queue_rounds, pulls)
                self.device.wait()
        return vertex_of(self._host_climb, float(self._host_score[0]))

    def _queue_climb(self, pulls: Pulls) -> None:
        self.device.copy(self._starts, self._host_starts)
        self.device.launch("begin_climb", 1, pulls.largest, self._starts, pulls.climb)
        self._queue_rounds(pulls)

    def _queue_rounds(self, pulls: Pulls) -> None:
        card = self.card
        pulls.queue_climb(self.scale, (card.value, card.partner, card.entry))
        self.device.copy(self._host_climb, pulls.climb[:CLIMB_HEAD])
        self.device.copy(self._host_score, pulls.best_score)

    # --- snapshots -------------------------------------------------------------------------------

    def snapshot(self, margins: CUDAMargins) -> Arrays:
        """Return the margins, and the feature pairs whose terms are stored."""
        return {"margins": np.asarray(margins), "known": self.card.terms.known}

    def restore(self, arrays: Mapping[str, np.ndarray]) -> CUDAMargins:
        """Return the margins of a snapshot."""
        self.check_snapshot(arrays)
        self.card.terms.learn(list(map(tuple, arrays["known"].tolist())))
        out = CUDAMargins(self)
        self.device.copy(out.array, self.device.upload(arrays["margins"]))
        return out

    def restore_gradient(self, arrays: Mapping[str, np.ndarray]) -> CUDAGradient:
        """Return the gradient of a snapshot."""
        self.check_gradient(arrays)
        pulls = HeldPulls(self.pulls_pool, self.card)
        self.device.copy(pulls.array.w, self.device.upload(arrays["w"]))
        pulls.array.queue_diagonal()
        return CUDAGradient(self, pulls, None, None)


def _queue_links(pulls: Pulls) -> None:
    pulls.queue_link_weights()
