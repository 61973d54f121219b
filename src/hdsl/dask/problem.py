"""The problem and its gradient as the solver sees them, on shards that are elsewhere."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ..cpu import statistics
from ..solver.atoms import are_atoms, positioned, renumbered
from ..solver.line_search import search_in_rounds
from ..solver.protocols import Correction, Gradient, Layout, Loss, Move, Problem, Statistics, Step
from ..solver.snapshot import Arrays, check_arrays, check_finite
from .member import PerShard, best_of
from .shard import CORRECTS, Direction, Past
from .team import Order, Question, Team

#: Fewest and most rows of S that are computed in a round, and numbers that a shard may hold for it,
#: by comparisons and by features.
FEWEST_ROWS, MOST_ROWS, ROOM, WIDE_ROOM = 8, 1024, 1 << 21, 1 << 24

#: So many workers search a line among themselves; each then sends a message to each other one.
FEW_WORKERS = 2

#: Entries of the diagonal that a gradient is asked for at once; oracles start from fewer.
LARGEST = 16


class Handle:
    """A value that shards hold under a number; they drop it when this object goes.

    Parameters
    ----------
    owner : DaskProblem
    past : Past, default=None
        How margins came about.
    """

    def __init__(self, owner: DaskProblem, past: Past | None = None) -> None:
        self.number, self.past, self._owner = owner.team.new_number(), past, owner
        self.direction: Direction | None = None  # that this is
        weakref.finalize(self, owner.team.order, Order("drop", self.number)).atexit = False

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        """Return margins in the order of the comparisons."""
        return self._owner.gather(self)


class DaskLayout(Layout):
    """Rows and comparisons in shards on the workers of a cluster.

    Parameters
    ----------
    team : Team
        Connected.
    features : ndarray of shape (n_features,)
        The columns of X that are features, the fullest first.
    places : Places
        Where each comparison is.
    mean_square : float
        Mean of ‖x‖² over all rows of X.
    """

    def __init__(
        self, team: Team, features: np.ndarray, places: Places, mean_square: float
    ) -> None:
        self.team, self.features, self.places = team, features, places
        self.n_features, self._mean_square = len(features), mean_square

    def statistics(self) -> Statistics:
        """Return what an automatic scale and prior are chosen by."""
        (sums,) = self.team.ask(Question("statistics"))
        return statistics.from_sums(sums, lambda: self._mean_square)

    def problem(self, loss: Loss, scale: float, prior: float = 0.0) -> DaskProblem:
        """Return the problem of a loss, a scale and a prior."""
        return DaskProblem(self, loss, scale, prior)


class Places:
    """Where each comparison is: sorted by anchor as on one machine, dealt out by anchors.

    Parameters
    ----------
    anchors : ndarray of shape (n_anchors,)
        Rising.
    counts : ndarray of shape (n_anchors,)
        Comparisons of each.
    shards : ndarray of shape (n_anchors,)
        The shard of each.
    """

    def __init__(self, anchors: np.ndarray, counts: np.ndarray, shards: np.ndarray) -> None:
        self.anchors, self.counts, self.shards = anchors, counts, shards
        self.n_shards = int(shards.max()) + 1
        self.sizes = np.bincount(shards, counts, self.n_shards).astype(np.int64)
        self.n_comparisons = int(counts.sum())

    @cached_property
    def _starts(self) -> tuple[np.ndarray, np.ndarray]:
        """Number of the first comparison of each anchor, in all and in its shard."""
        starts = np.concatenate([[0], np.cumsum(self.counts)])
        order = np.argsort(self.shards, kind="stable")
        running = np.concatenate([[0], np.cumsum(self.counts[order])[:-1]])
        before = np.concatenate([[0], np.cumsum(self.sizes)[:-1]])
        own = np.empty(len(order), dtype=np.int64)
        own[order] = running - before[self.shards[order]]
        return starts, own

    def deal(self, batch: np.ndarray) -> PerShard:
        """Return the numbers of comparisons in their shards, by shard."""
        starts, own = self._starts
        anchor = np.searchsorted(starts, batch, side="right") - 1
        number, shard = own[anchor] + (batch - starts[anchor]), self.shards[anchor]
        return PerShard({k: number[shard == k] for k in range(self.n_shards)})

    def join(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        """Return one number per comparison, from those of the shards."""
        whole = np.empty(self.n_comparisons)
        shard = np.repeat(self.shards, self.counts)
        for k, part in enumerate(parts):
            whole[shard == k] = part
        return whole


class DaskProblem(Problem):
    """Mean loss of margins that shards hold.

    A question is a round to all workers and back. What the next question will be is asked with the
    one before where it is known: a step computes the gradient at its end, and tells of it what an
    oracle and a step rule begin with.

    Parameters
    ----------
    layout : DaskLayout
    loss : Loss
    scale, prior : float

    Attributes
    ----------
    asked : ndarray of shape (n_atoms, 3)
        The last atoms whose scores were asked for.
    """

    def __init__(self, layout: DaskLayout, loss: Loss, scale: float, prior: float) -> None:
        self.team, self.features, self.places = layout.team, layout.features, layout.places
        self.loss, self.scale, self.prior = loss, float(scale), float(prior)
        self.n_features, self.n_comparisons = layout.n_features, layout.places.n_comparisons
        self.asked = np.empty((0, 3), dtype=np.int64)
        self._ahead: tuple[Handle, DaskGradient] | None = None  # the gradient at the end of a step
        self._uses_batches = False
        self._cost: float | None = None
        self.begin()

    def begin(self) -> None:
        """Let the shards make the problem."""
        self._number = self.team.new_number()
        sizes = (self.scale, self.prior)
        self.team.order(Order("problem", self._number, (self.features, self.loss, *sizes)))

    def _made(self, verb: str, *args: Any, past: Past | None = None) -> Handle:
        handle = Handle(self, past)
        self.team.order(Order(verb, handle.number, (self._number, *args)))
        return handle

    # --- margins and value -----------------------------------------------------------------------

    def margins(self, atoms: np.ndarray, weights: np.ndarray) -> Handle:
        """Return the margins of a combination of atoms, from scratch."""
        if len(atoms) != len(weights):
            raise ValueError("atoms or weights is shorter than the other.")
        past = Past.begin(atoms, weights)
        return self._made("margins", past, None, past=past)

    def value(self, margins: Handle) -> float:
        """Return the mean loss."""
        (value,) = self.team.ask(Question("value", (self._number, margins.number)))
        return float(value[0])

    def largest_margin(self, margins: Handle) -> float:
        """Return the largest absolute margin."""
        (largest,) = self.team.ask(Question("largest", (self._number, margins.number)))
        return max(largest)

    def gather(self, margins: Handle) -> np.ndarray:
        """Return margins in the order of the comparisons; all of them go to the client."""
        (parts,) = self.team.ask(Question("margins", (margins.number,)))
        return self.places.join(parts)

    # --- steps -----------------------------------------------------------------------------------

    def direction(self, margins: Handle, move: Move) -> Handle:
        """Return how margins change along a move."""
        direction = Direction.of(move)
        handle = self._made("direction", margins.number, direction.move)
        handle.direction = direction
        return handle

    def shift(self, atoms: np.ndarray, change: np.ndarray) -> Handle:
        """Return how margins change where the weights of atoms change."""
        handle = self._made("shift", atoms, change)
        handle.direction = Direction(CORRECTS, atoms, change)
        return handle

    def curvature(self, margins: Handle, atoms: np.ndarray) -> np.ndarray:
        """Return the second derivatives of the value in the weights of the atoms."""
        n = len(atoms)
        out, below = np.zeros((n, n)), np.tril_indices(n)
        if n:
            args = (self._number, margins.number, atoms)
            (out[below],) = self.team.ask(Question("curvature", args))
            out.T[below] = out[below]
        return out

    def slopes(self, margins: Handle, direction: Handle, step_sizes: Sequence[float]) -> np.ndarray:
        """Return the first two derivatives of the value at each step size, shape (n, 2)."""
        args = (self._number, margins.number, direction.number, np.array(step_sizes))
        (slopes,) = self.team.ask(Question("slopes", args))
        return slopes

    def advance(self, margins: Handle, direction: Handle, step_size: float) -> Step:
        """Return the step of this size."""
        past, way = margins.past, direction.direction
        assert past is not None
        assert way is not None
        past = past.then(way, step_size)
        args = (margins.number, direction.number, float(step_size))
        new = self._made("step", *args, past=past)
        questions = [
            Question("step_value", (new.number,)),
            Question("largest", (self._number, new.number)),
        ]
        gradient = None
        if not self._uses_batches:
            gradient = DaskGradient(self, new, self._made("gradient", new.number, None, None))
            new_atoms = way.atoms if way.move[0] < 0 else way.move[None, :3]
            self.asked = np.unique(np.vstack([self.asked, new_atoms]), axis=0)
            questions += gradient.first_questions(self.asked)
        value, largest, *rest = self.team.ask(*questions)
        if gradient is not None:
            gradient.take(self.asked, rest)
            self._ahead = new, gradient
        return Step(new, step_size, float(value[0]), max(largest))

    def _best_size(self, margins: Handle, direction: Handle, max_step_size: float) -> float:
        """Return the best step size: a few workers find it together, many through the client."""
        if len(self.team.seats) <= FEW_WORKERS:
            args = (self._number, margins.number, direction.number, max_step_size)
            (size,) = self.team.ask(Question("line_search", args))
            return size
        return search_in_rounds(
            lambda sizes: self._first_slopes(margins, direction, sizes),
            lambda size: self.slopes(margins, direction, [size])[0].tolist(),
            max_step_size,
        )

    def _first_slopes(
        self, margins: Handle, direction: Handle, sizes: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return slopes at 0, and those of a part of the comparisons at some step sizes."""
        args = (self._number, margins.number, direction.number, sizes)
        (slopes,) = self.team.ask(Question("first_slopes", args))
        return slopes[0], slopes[1:]

    def step(self, margins: Handle, move: Move, step_size: float | None = None) -> Step | None:
        """Return the best step along a move, or the one of a given size; None for no step."""
        direction = self.direction(margins, move)
        if step_size is None:
            step_size = self._best_size(margins, direction, float(move.max_step_size))
        return self.advance(margins, direction, step_size) if step_size > 0.0 else None

    def correct(self, margins: Handle, correction: Correction) -> Step | None:
        """Return the best step along a correction; None for no step."""
        direction = self.shift(correction.atoms, correction.change)
        step_size = self._best_size(margins, direction, float(correction.max_step_size))
        return self.advance(margins, direction, step_size) if step_size > 0.0 else None

    # --- gradients -------------------------------------------------------------------------------

    def gradient(
        self,
        margins: Handle,
        batch: np.ndarray | None = None,
        batch_weight: float | None = None,
    ) -> DaskGradient:
        """Return the gradient over all comparisons, or over a batch of them (rising numbers)."""
        if batch is None:
            ahead, self._ahead = self._ahead, None
            if ahead is not None and ahead[0] is margins:
                return ahead[1]
            return DaskGradient(self, margins, self._made("gradient", margins.number, None, None))
        self._uses_batches = True
        dealt = self.places.deal(batch)
        if batch_weight is None:
            batch_weight = self._weight_of(dealt)
        handle = self._made("gradient", margins.number, dealt, batch_weight)
        return DaskGradient(self, margins, handle, covers_all=False)

    def weight_of(self, batch: np.ndarray) -> float:
        """Return the weight of a batch, as `batch_weight` counts it."""
        return self._weight_of(self.places.deal(batch))

    def _weight_of(self, dealt: PerShard) -> float:
        (weight,) = self.team.ask(Question("weight_of", (self._number, dealt)))
        return float(weight[0])

    def exact_search_cost(self) -> float:
        """Return the number of multiplications of a search of all pairs of features."""
        if self._cost is None:
            (cost,) = self.team.ask(Question("exact_search_cost", (self._number,)))
            self._cost = float(cost[0])
        return self._cost

    # --- numbers of features, snapshots ----------------------------------------------------------

    def to_user(self, atoms: np.ndarray) -> np.ndarray:
        """Return atoms in the feature numbers of the user's X; (-1, -1, 0) stays."""
        return renumbered(atoms, self.features)

    def from_user(self, atoms: np.ndarray) -> np.ndarray:
        """Return atoms in the problem's own feature numbers."""
        return positioned(atoms, self.features)

    def snapshot(self, margins: Handle) -> Arrays:
        """Return how the margins came about, and the feature pairs whose terms are stored.

        Margins themselves stay where they are: shards make them again from their past.
        """
        (known,) = self.team.ask(Question("known", (self._number, margins.number)))
        assert margins.past is not None
        shard = np.repeat(np.arange(len(known)), [len(part) for part in known])
        listed = np.column_stack([shard, np.concatenate(known)])
        return {**margins.past._asdict(), "asked": self.asked, "known": listed}

    def restore(self, arrays: Mapping[str, np.ndarray]) -> Handle:
        """Return the margins of a snapshot."""
        n_shards, of_atoms = self.team.n_shards, (np.int64, (-1, 3))
        check_arrays(arrays, {**PAST, "asked": of_atoms, "known": of_atoms})
        past = self._past(arrays)
        shard, low, high = arrays["known"].T
        is_pair = (low >= 0) & (low < high) & (high < self.n_features)
        if not (is_pair & (shard >= 0) & (shard < n_shards)).all():
            raise ValueError("'known' has a feature pair or a shard that does not exist.")
        self._check_atoms("asked", arrays["asked"])
        self.asked = arrays["asked"].copy()
        known = PerShard({k: arrays["known"][shard == k, 1:] for k in range(n_shards)})
        return self._made("margins", past, known, past=past)

    def restore_gradient(self, arrays: Mapping[str, np.ndarray]) -> DaskGradient:
        """Return the gradient of a snapshot."""
        check_arrays(arrays, PAST)
        past = self._past(arrays)
        margins = self._made("margins", past, None, past=past)
        return self.gradient(margins)

    def _past(self, arrays: Mapping[str, np.ndarray]) -> Past:
        """Return a past that a run can have; raise ValueError for any other."""
        past = Past(*(arrays[name] for name in PAST))
        self._check_atoms("atoms", past.atoms)
        if past.weights.shape != (len(past.atoms),) or past.sizes.shape != (len(past.moves),):
            raise ValueError("'weights' or 'sizes' has not the expected length.")
        for half in (past.moves[:, :3], past.moves[:, 3:]):
            self._check_atoms("moves", half[half[:, 0] >= 0])
            none = half[half[:, 0] < 0]
            if not ((none[:, :2] == -1) & np.isin(none[:, 2:], [0, 1])).all():
                raise ValueError("'moves' has an atom that does not exist.")
        number, corrects = past.shifted[:, 0], (past.moves == CORRECTS).all(axis=1)
        self._check_atoms("shifted", past.shifted[:, 1:])
        if past.changes.shape != (len(number),) or (np.diff(number) < 0).any():
            raise ValueError("'shifted' or 'changes' has not the expected length or order.")
        if not np.isin(number, np.flatnonzero(corrects)).all():
            raise ValueError("'shifted' names a correction that does not exist.")
        check_finite(arrays, "weights", "sizes", "changes")
        return past

    def _check_atoms(self, name: str, atoms: np.ndarray) -> None:
        if not are_atoms(atoms.T, self.n_features).all():
            raise ValueError(f"{name!r} has an atom that does not exist.")


#: The arrays of a past.
PAST = {
    "atoms": (np.int64, (-1, 3)),
    "weights": (np.float64, (-1,)),
    "moves": (np.int64, (-1, 6)),
    "sizes": (np.float64, (-1,)),
    "shifted": (np.int64, (-1, 4)),
    "changes": (np.float64, (-1,)),
}


class DaskGradient(Gradient):
    """C = -∇f, as the shards know it.

    Parameters
    ----------
    problem : DaskProblem
    margins, handle : Handle
        The margins that it belongs to, and the gradient itself.
    covers_all : bool, default=True
    """

    def __init__(
        self, problem: DaskProblem, margins: Handle, handle: Handle, *, covers_all: bool = True
    ) -> None:
        self.problem, self.margins, self.handle = problem, margins, handle
        self.scale, self.n_features, self.covers_all = problem.scale, problem.n_features, covers_all
        self._number, self._team = handle.number, problem.team
        self._has_slopes: bool | None = None
        self._largest: np.ndarray  # features of the largest diagonal entries
        self._diagonal_at: dict[int, float] = {}
        self._entries: dict[tuple[int, int], float] = {}

    # --- what is asked at once -------------------------------------------------------------------

    def first_questions(self, atoms: np.ndarray) -> list[Question]:
        """Return the questions that every iteration begins with."""
        features = np.unique(atoms[:, :2])
        return [
            Question("n_slopes", (self._number,)),
            Question("diagonal", (self._number, LARGEST, features)),
            Question("entries", (self._number, atoms)),
        ]

    def take(self, atoms: np.ndarray, answers: list[Any]) -> None:
        """Remember the answers to the first questions."""
        n_slopes, blocks, entries = answers
        self._has_slopes = bool(n_slopes[0] > 0)
        few, values = (np.concatenate([block[k] for block in blocks]) for k in (0, 1))
        self._largest = few[np.argsort(-values, kind="stable")][:LARGEST]
        self._learn(few, values)
        features = np.unique(atoms[:, :2])
        for *_, inside, known in blocks:
            self._learn(features[inside], known)
        keys = zip(*atoms[:, :2].T.tolist(), strict=True)
        self._entries |= dict(zip(keys, entries.tolist(), strict=True))

    def _look(self, atoms: np.ndarray | None = None) -> None:
        """Ask the first questions, unless the answers are here."""
        if self._has_slopes is None:
            atoms = self.problem.asked if atoms is None else atoms
            self.take(atoms, self._team.ask(*self.first_questions(atoms)))

    def is_zero(self) -> bool:
        """Return whether all slopes are zero."""
        self._look()
        return not self._has_slopes

    # --- atoms -----------------------------------------------------------------------------------

    def scores(self, atoms: np.ndarray) -> np.ndarray:
        """Return ⟨B, -∇f⟩ for each atom B."""
        entries = self.entries(atoms)
        i, j, sign = atoms.T
        return self.scale * (self._diagonal_of(i) + self._diagonal_of(j) + sign * entries)

    def entries(self, atoms: np.ndarray) -> np.ndarray:
        """Return S_ij for each atom."""
        self.problem.asked = atoms
        self._look(atoms)
        keys = list(zip(*atoms[:, :2].T.tolist(), strict=True))
        missing = [k for k, key in enumerate(keys) if key not in self._entries]
        if missing:
            (found,) = self._team.ask(Question("entries", (self._number, atoms[missing])))
            names = (keys[k] for k in missing)
            self._entries |= dict(zip(names, found.tolist(), strict=True))
        return np.array([self._entries[key] for key in keys])

    def _ask_diagonal(self, features: np.ndarray) -> list[np.ndarray]:
        """Let the diagonal be known at some features."""
        question = Question("diagonal", (self._number, LARGEST, features))
        (blocks,) = self._team.ask(question)
        for *_, inside, known in blocks:
            self._learn(features[inside], known)
        return [block[3] for block in blocks]

    # --- features --------------------------------------------------------------------------------

    @cached_property
    def diagonal(self) -> np.ndarray:
        """C_jj of every feature; goes to the client as a whole."""
        return np.concatenate(self._ask_diagonal(np.arange(self.n_features)))

    def largest_diagonal(self, count: int) -> np.ndarray:
        """Return the features of largest C_jj, largest first, the smallest of equals first."""
        self._look()
        if count <= len(self._largest) or len(self._largest) == self.n_features:
            return self._largest[:count]
        return super().largest_diagonal(count)

    def score(self, i: Any, j: Any, entry: Any) -> Any:
        """Return the score of the better atom on features i and j with a known S_ij."""
        return self.scale * (self._diagonal_of(i) + self._diagonal_of(j) + abs(entry))

    def _diagonal_of(self, features: Any) -> Any:
        of, wanted = self._diagonal_at, np.atleast_1d(features)
        missing = [k for k in np.unique(wanted).tolist() if k not in of]
        if missing:
            self._ask_diagonal(np.array(missing))
        values = np.array([of[k] for k in wanted.tolist()])
        return values if np.ndim(features) else float(values[0])

    def partners(
        self, features: np.ndarray, *, after: bool = False
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Find for each feature i the j that maximises C_jj + |S_ij|, the smallest of equals."""
        self._look()
        found = []
        many = max(64, ROOM // (4 * int(self.problem.places.sizes.max())))
        many = max(FEWEST_ROWS, min(many, MOST_ROWS, WIDE_ROOM // self.n_features))
        for k in range(0, len(features), many):
            part = features[k : k + many]
            (blocks,) = self._team.ask(Question("partners", (self._number, part, after)))
            *best, diagonal = best_of(blocks)
            found.append(best)
            self._learn(best[1], diagonal)
            for *_, inside, known in blocks:
                self._learn(part[inside], known)
        value, partner, entry = (np.concatenate(column) for column in zip(*found, strict=True))
        return value, partner, entry

    def _learn(self, features: np.ndarray, diagonal: np.ndarray) -> None:
        """Remember some entries of the diagonal."""
        self._diagonal_at |= dict(zip(features.tolist(), diagonal.tolist(), strict=True))

    def rows(self, features: np.ndarray) -> np.ndarray:
        """Return the rows of S for a few features, shape (len(features), n_features)."""
        (blocks,) = self._team.ask(Question("rows", (self._number, features)))
        return np.concatenate(blocks).T

    def drift_since(self, other: DaskGradient) -> np.ndarray:
        """Return for each feature i a bound of |S_ij - S_ij of the other gradient| over all j."""
        (blocks,) = self._team.ask(Question("drift", (self._number, other.handle.number)))
        return np.concatenate(blocks)[:, 0]

    # --- the whole -------------------------------------------------------------------------------

    def dot(self, margins: Handle) -> float:
        """Return ⟨M, -∇f⟩ for the model with these margins."""
        (dot,) = self._team.ask(Question("dot", (self._number, margins.number)))
        return float(dot[0])

    @property
    def rounding(self) -> float:
        """How far rounding may move an entry of C or S."""
        (rounding,) = self._team.ask(Question("rounding", (self._number,)))
        return float(rounding[0])

    def snapshot(self) -> Arrays:
        """Return how the margins came about."""
        assert self.margins.past is not None
        return self.margins.past._asdict()
