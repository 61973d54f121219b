"""The problem on a cluster: margins are futures, one per shard.

Dask computes what is lost with a worker again from its graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np

from ..cached import cached
from ..cpu.problem import curvature_sample
from ..solver.atoms import Correction, Move, are_directions, as_array, as_keys
from ..solver.directions import Directions
from ..solver.line_search import Bracket, Point, line_search
from ..solver.protocols import Gradient, Problem, Step
from .cluster import gather, send
from .shard import GradientKey, GradientStart, Partners, ProblemKey, best_partners
from .shards import PerShard, Shards

#: From step sizes to the first two derivatives of the value at each, shape (n, 2).
Slopes = Callable[[np.ndarray], np.ndarray]

#: Step sizes of the first round, in parts of the longest step or of 1.
FIRST_SIZES = np.array([1 / 64, 1 / 16, 1 / 4, 1 / 2, 3 / 4, 1.0])

#: Parts of a bracket that each later round looks at.
INSIDE = (0.25, 0.5, 0.75)

#: Newton's method ends at a change by this share of the step size: its next error is
#: the square.
CLOSE = 1e-8

#: A slope is zero up to this share of the first one.
FLAT = 4e-16


def search(slopes: Slopes, max_step_size: float) -> float:
    """Return the step size that minimises a convex value.

    Parameters
    ----------
    slopes : callable
    max_step_size : float

    Examples
    --------
    >>> search(lambda sizes: np.column_stack([2.0 * sizes - 1.0, 0.0 * sizes + 2.0]), 1.0)
    0.5
    """
    if not max_step_size > 0.0:
        return 0.0
    first_sizes = min(1.0, max_step_size) * FIRST_SIZES
    points = look(slopes, np.unique([0.0, *first_sizes, max_step_size]))
    start = points[0]
    if not start.slope < 0.0:
        return 0.0
    bracket = Bracket.among(points)
    if bracket is None:
        return float(max_step_size)
    while True:
        if abs(bracket.high.slope) <= FLAT * -start.slope:
            return first_minimum(slopes, max_step_size)
        sizes = sizes_inside(bracket)
        minimum = minimum_of(bracket, is_last=not len(sizes))
        if minimum is not None:
            return minimum
        bracket = narrowed(bracket, look(slopes, sizes))


def look(slopes: Slopes, sizes: np.ndarray) -> list[Point]:
    """Return the points at step sizes, in one round."""
    pairs = zip(sizes.tolist(), slopes(sizes).tolist(), strict=True)
    return [Point(size, slope, curvature) for size, (slope, curvature) in pairs]


def first_minimum(slopes: Slopes, max_step_size: float) -> float:
    """Return the first of several minima, as a search of one size per round finds it."""

    def slopes_at(size: float) -> tuple[float, float]:
        slope, curvature = slopes(np.array([size]))[0].tolist()
        return slope, curvature

    return line_search(slopes_at, max_step_size)


def minimum_of(bracket: Bracket, *, is_last: bool) -> float | None:
    """Return the minimum where Newton's method hardly moves from an end; None where it does.

    `is_last` says that there is no step size between the ends, so that it is at the low
    end.
    """
    low = bracket.low
    high = bracket.high
    if is_last or abs(low.newton - low.size) <= CLOSE * low.size:
        if not low.curvature > 0.0:
            return low.size
        return min(max(low.newton, low.size), high.size)
    if abs(high.newton - high.size) <= CLOSE * high.size:
        return max(high.newton, low.size)
    return None


def narrowed(bracket: Bracket, points: list[Point]) -> Bracket:
    """Return the bracket of the minimum among the ends of a bracket and points inside."""
    narrower = Bracket.among([bracket.low, *points, bracket.high])
    assert narrower is not None  # its high end is not downhill
    return narrower


def sizes_inside(bracket: Bracket) -> np.ndarray:
    """Return the step sizes to look at in a closed bracket, rising.

    They are those of Newton's method from both ends, of the chord, and a few between.

    Examples
    --------
    >>> sizes_inside(Bracket(Point(0.0, -1.0, 2.0), Point(1.0, 2.0, 0.0))).round(2).tolist()
    [0.25, 0.33, 0.5, 0.75]
    """
    shares = [bracket.chord_share(), *INSIDE]
    sizes = [bracket.low.newton, bracket.high.newton, *map(bracket.cut, shares)]
    return np.unique([size for size in sizes if bracket.contains(size)])


#: A batch whose weights are all zero has this weight.
TINY = 1e-300

#: Most numbers of the rows of S that one task computes.
LARGEST_ANSWER = 1 << 21

#: Features whose rows of S share a pass over X.
ROWS_PER_PASS = 8


@dataclass
class ScoreForecast:
    """Which pairs the next gradient is asked for, as a rule: their scores are asked ahead."""

    atoms: np.ndarray = field(default_factory=lambda: as_array([]))
    in_one_pass: bool = True  # whether they are many new ones

    def follow(self, move: Move | Correction) -> None:
        """Take in the atoms that a move makes active."""
        self.in_one_pass = isinstance(move, Correction)
        if isinstance(move, Correction):
            self.atoms = move.atoms[~are_directions(move.atoms)]
        elif move.toward is not None and move.toward.i >= 0:
            self.atoms = np.unique([*as_keys(self.atoms), move.toward], axis=0)

    def repeat(self, atoms: np.ndarray) -> None:
        """Expect the atoms that were asked last."""
        self.atoms = atoms


class FirstAnswers(NamedTuple):
    """What all shards answered first, divided by the weight of the batch."""

    weight: float
    has_slopes: bool
    rounding: float
    diagonal: np.ndarray
    scores: dict[tuple[int, ...], float]  # of the atoms that were forecast


class DaskGradient(Gradient):
    """C = -∇f at margins that are futures.

    What is asked of every gradient is asked when it is made, and waited for when it is
    needed.

    Parameters
    ----------
    shards : Shards
    problem_key : ProblemKey
    n_features : int
    forecast : ScoreForecast
        Of the problem; each gradient tells it which atoms it was asked for.
    margins : PerShard
    batch : ndarray, default=None
        Comparisons of a mini-batch, in rising order.
    """

    def __init__(
        self,
        shards: Shards,
        problem_key: ProblemKey,
        n_features: int,
        forecast: ScoreForecast,
        margins: PerShard,
        batch: np.ndarray | None = None,
    ) -> None:
        self.shards = shards
        self.scale = problem_key.scale
        self.n_features = n_features
        self.forecast = forecast
        self.margins = margins
        self.covers_all = batch is None
        name = uuid4().hex
        self._among: list[int] | None = None  # shards that have some of the batch
        self.key: Any = GradientKey(problem_key, name)
        if batch is not None:
            batches = shards.partition.by_shard(batch)
            self._among = [k for k, numbers in enumerate(batches) if len(numbers)]
            self.key = PerShard(
                GradientKey(problem_key, name, numbers) for numbers in batches
            )
        self._forecast_atoms = forecast.atoms
        self._starts = self._ask("start", forecast.atoms, forecast.in_one_pass)
        self._diagonal_sum = shards.future_sum(self._ask("diagonal"))
        self.direction_scale = problem_key.direction_scale
        if self.direction_scale > 0.0:
            self._block_sum = shards.future_sum(self._ask("block"))

    def _ask(self, question: str, *args: Any) -> PerShard:
        return self.shards.ask(
            question, self.margins, self.key, *args, among=self._among
        )

    @cached
    def _first(self) -> FirstAnswers:
        """The first answers, as soon as they are there."""
        *starts, diagonal = gather(
            self.shards.client, [*self._starts, self._diagonal_sum]
        )
        start = GradientStart.sum(starts)
        weight = 1.0
        if not self.covers_all:
            weight = max(start.batch_weight, TINY)
        return FirstAnswers(
            weight=weight,
            has_slopes=start.n_with_slopes > 0,
            rounding=start.rounding / weight,
            diagonal=diagonal / weight,
            scores=by_atom(self._forecast_atoms, start.scores / weight),
        )

    @property
    def diagonal(self) -> np.ndarray:
        """C_jj of every feature."""
        return self._first.diagonal

    @property
    def rounding(self) -> float:
        """How far rounding may move an entry of C or S."""
        return self._first.rounding

    def is_zero(self) -> bool:
        """Return whether all slopes are zero."""
        return not self._first.has_slopes

    @cached
    def block(self) -> np.ndarray:
        """G inside the embedding, of shape (width, width)."""
        return self.shards.fetch(self._block_sum) / self._first.weight

    def pair_scores(self, atoms: np.ndarray) -> np.ndarray:
        """Return ⟨B, -∇f⟩ for each atom B that pairs features."""
        known = self._first.scores
        keys = as_keys(atoms)
        missing = atoms[[key not in known for key in keys]]
        if len(missing):
            answers = self._ask("scores", missing, self.forecast.in_one_pass)
            scores = self.shards.sum(answers) / self._first.weight
            known.update(by_atom(missing, scores))
        self.forecast.repeat(atoms)
        return np.array([known[key] for key in keys])

    def partners(
        self, features: np.ndarray, *, after: bool = False
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Find for each feature i the j that maximises C_jj + |S_ij|, the smallest of equals."""
        n_passes = max(1, LARGEST_ANSWER // self.n_features // ROWS_PER_PASS)
        n_per_task = n_passes * ROWS_PER_PASS
        tasks = []
        for first in range(0, len(features), n_per_task):
            block = features[first : first + n_per_task]
            rows = self.shards.partial_sums(self._ask("rows", block))
            tasks.append(
                self.shards.client.submit(
                    best_partners,
                    self._diagonal_sum,
                    block,
                    *rows,
                    after=after,
                    pure=False,
                )
            )
        weight = self._first.weight
        blocks: list[Partners] = gather(self.shards.client, tasks)
        values = np.concatenate([block.values for block in blocks])
        partners = np.concatenate([block.features for block in blocks])
        entries = np.concatenate([block.entries for block in blocks])
        return values / weight, partners, entries / weight

    def dot(self, margins: PerShard) -> float:
        """Return ⟨M, -∇f⟩ for the model with these margins."""
        answers = self._ask("dot", margins)
        return float(self.shards.sum(answers) / self._first.weight)

    def drift_since(self, other: DaskGradient) -> np.ndarray:
        """Return for each feature i a bound of |S_ij - S_ij of the other gradient| over all j."""
        drifts = self._ask("drift", other.margins, other.key)
        drift = self.shards.fetch(self.shards.future_sum(drifts))
        return drift / self._first.weight


def by_atom(atoms: np.ndarray, scores: np.ndarray) -> dict[tuple[int, ...], float]:
    """Return the score of each atom."""
    return dict(zip(as_keys(atoms), scores.tolist(), strict=True))


class DaskProblem(Problem):
    """Mean loss of margins that are futures, one per shard.

    What is asked next as a rule is asked ahead: a step begins with the gradient at its
    end.

    Parameters
    ----------
    shards : Shards
    features : ndarray of shape (n_features,)
        The user's number of each feature.
    key : ProblemKey
    embedding_width : int, default=0
        Columns of an embedding; directions are learned in it where the key says so.
    """

    def __init__(
        self,
        shards: Shards,
        features: np.ndarray,
        key: ProblemKey,
        embedding_width: int = 0,
    ) -> None:
        self.shards = shards
        self.features = features
        self.key = key
        self.scale = key.scale
        self.n_features = len(features)
        self.n_comparisons = shards.partition.n_comparisons
        if key.direction_scale > 0.0:
            self.directions = Directions(embedding_width)
        self._sent: tuple[np.ndarray, Any] | None = None
        self.reset()

    def reset(self) -> None:
        """Drop all that is remembered from one question to the next."""
        self.key = self.key._replace(name=uuid4().hex)
        self.forecast = ScoreForecast()
        self._gradient_ahead: DaskGradient | None = None
        self._uses_batches = False

    @property
    def _vectors(self) -> Any:
        """The vectors of all directions, as a future that each worker fetches once."""
        if self.directions is None:
            return None
        vectors = self.directions.vectors
        if self._sent is None or self._sent[0] is not vectors:
            self._sent = (vectors, send(self.shards.client, vectors))
        return self._sent[1]

    # --- margins and value ------------------------------------------------------------

    def margins(self, atoms: np.ndarray, weights: np.ndarray) -> PerShard:
        """Return the margins of a combination of atoms, from scratch."""
        return self.shards.ask("margins", self.key, self._vectors, atoms, weights)

    def value(self, margins: PerShard) -> float:
        """Return the mean loss."""
        names = ["value"] * len(margins)
        values = self.shards.client.map(getattr, margins, names, pure=False)
        return float(self.shards.sum(values))

    # --- steps ------------------------------------------------------------------------

    def direction(self, margins: PerShard, move: Move | Correction) -> PerShard:
        """Return how margins change along a move, or along a correction of many weights."""
        self.forecast.follow(move)
        return self.shards.ask("direction", self.key, self._vectors, margins, move)

    def slopes(
        self,
        margins: PerShard,
        direction: PerShard,
        step_sizes: Sequence[float] | np.ndarray,
    ) -> np.ndarray:
        """Return the first two derivatives of the value at each step size, shape (n, 2)."""
        sizes = np.array(step_sizes)
        return self.shards.ask_sum("slopes", self.key, margins, direction, sizes)

    def advance(self, margins: PerShard, direction: PerShard, step_size: float) -> Step:
        """Return the step of this size."""
        size = float(step_size)
        moved = self.shards.ask("advance", self.key, margins, direction, size)
        if not self._uses_batches:
            self._gradient_ahead = self._make_gradient(moved)
        return Step(moved, step_size, self.value(moved))

    def step(self, margins: PerShard, move: Move | Correction) -> Step | None:
        """Return the best step along a move; None for no step."""
        direction = self.direction(margins, move)
        size = search(
            lambda sizes: self.slopes(margins, direction, sizes), move.max_step_size
        )
        if size == 0.0:
            return None
        return self.advance(margins, direction, size)

    def curvature(self, margins: PerShard, atoms: np.ndarray) -> np.ndarray:
        """Return the second derivatives of the value in the weights of the atoms."""
        if not len(atoms):
            return np.zeros((0, 0))
        by_shard = self.shards.partition.by_shard

        def n_curved(stride: int) -> int:
            numbers = by_shard(np.arange(0, self.n_comparisons, stride))
            return self.shards.ask_sum("n_curved", self.key, margins, numbers)

        chosen, factor = curvature_sample(self.n_comparisons, len(atoms), n_curved)
        samples = PerShard((numbers, factor) for numbers in by_shard(chosen))
        curvatures = self.shards.ask(
            "curvature", self.key, self._vectors, margins, samples, atoms
        )
        return self.shards.fetch(self.shards.future_sum(curvatures))

    # --- gradients --------------------------------------------------------------------

    def gradient(
        self, margins: PerShard, batch: np.ndarray | None = None
    ) -> DaskGradient:
        """Return the gradient over all comparisons, or over a batch of them (rising numbers)."""
        ahead = self._gradient_ahead
        self._gradient_ahead = None
        if batch is not None:
            self._uses_batches = True
        elif ahead is not None and ahead.margins is margins:
            return ahead
        return self._make_gradient(margins, batch)

    def _make_gradient(
        self, margins: PerShard, batch: np.ndarray | None = None
    ) -> DaskGradient:
        gradient = DaskGradient(
            self.shards, self.key, self.n_features, self.forecast, margins, batch
        )
        gradient.directions = self.directions
        return gradient

    def exact_search_cost(self) -> float:
        """Return the number of multiplications of a search of all pairs of features."""
        return float(self.shards.ask_sum("exact_search_cost", self.key))
