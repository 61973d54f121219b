"""The gradient on a cluster, at margins that are futures."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np

from ..cached import cached
from ..solver.atoms import Correction, Move, are_directions, as_array, as_keys
from ..solver.protocols import Gradient
from .cluster import gather
from .per_shard import PerShard
from .shard import GradientKey, GradientStart, Partners, ProblemKey, best_partners
from .shards import Shards

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
