"""Fits to one part of the data, which share a layout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..rows import Rows
from ..similarity import Similarity
from ..similarity.fixed import parts_of_rows
from ..solver import losses, oracle, steps
from ..solver.loop import Callback, Options, Result, frank_wolfe
from ..supervision.compared_rows import ComparedRows
from .automatic import own_similarity, scale_of
from .layouts import make_layout
from .parameters import is_scale_open
from .path import LearnedParts
from .rounding import warn_of_rounding

if TYPE_CHECKING:
    from ..cpu.workers import Workers


class SolverOptions(NamedTuple):
    """How a run is solved."""

    oracle: oracle.Oracle
    rule: steps.StepRule
    limits: Options


def solver_options(model: Any, max_iter: int, are_mined: bool) -> SolverOptions:
    """Return how a run is solved up to iteration `max_iter`, as the parameters of a model say."""
    limits = Options(model.init, model.batch_size, max_iter, model.tol, are_mined)
    return SolverOptions(
        oracle.ORACLES[model.oracle](), steps.RULES[model.step], limits
    )


def inside_embedding(scale: float, weight: float | None) -> dict[str, float]:
    """Return the option of a problem whose rows have an embedding times the root of its weight.

    `scale` is s for an embedding without a weight. There is no option where nothing is
    learned inside one.
    """
    if not scale or not weight:
        return {}
    return {"direction_scale": scale / weight}


class PartFitter:
    """Fits to one part of the data, which share a layout; what `choose` asks for.

    Attributes
    ----------
    unit : float
        The mean ‖x‖² of the anchors.
    learns : bool
        Whether a prior learns anything: there are features to pair, or a bound is given.
    can_learn_inside : bool
        Whether there is an embedding whose bound is open.
    """

    def __init__(
        self,
        model: Any,
        data: ComparedRows,
        rng: np.random.Generator,
        workers: Workers,
        embedding_weight: float | None = None,
    ) -> None:
        self.model = model
        self.data = data
        self.rng = rng
        self.workers = workers
        self.layout: Any = make_layout(model, data, workers)
        statistics = self.layout.statistics()
        self.scale = scale_of(model, statistics)
        self.unit = own_similarity(statistics)
        self.has_pairs = self.layout.n_features > 1
        self.can_learn_inside = isinstance(data.X, Rows) and is_scale_open(model)
        self.embedding_weight = embedding_weight
        self.given_scale = 0.0
        if embedding_weight and model.embedding_scale != "auto":
            self.given_scale = float(model.embedding_scale) / embedding_weight
        self.learns = self.has_pairs or self.given_scale > 0.0
        self.loss = losses.checked(losses.get(model.loss))

    def with_data(self, data: ComparedRows) -> PartFitter:
        """Return the fits to other data."""
        return PartFitter(
            self.model, data, self.rng, self.workers, self.embedding_weight
        )

    def solve(
        self,
        prior: float,
        max_iter: int,
        earlier: Result | None,
        callback: Callback | None,
        inside: float = 0.0,
    ) -> Result:
        """Return the path of a prior, perhaps from the model of another one.

        With `inside` it learns inside the embedding too, up to so many times the prior.
        """
        options = {}
        if inside or self.given_scale:
            options["direction_scale"] = self.given_scale or inside * prior
        problem = self.layout.problem(self.loss, self.scale, (prior,), **options)
        return self.follow(problem, max_iter, earlier, callback)

    def follow(
        self,
        problem: Any,
        max_iter: int,
        earlier: Result | None = None,
        callback: Callback | None = None,
    ) -> Result:
        """Return the path of a problem of this layout; an interrupt is raised."""
        options = solver_options(self.model, max_iter, self.data.is_mined)
        result = frank_wolfe(
            problem,
            options.oracle,
            options.rule,
            options.limits,
            rng=self.rng,
            earlier=earlier,
            callback=callback,
        )
        if result.status == "interrupted":  # there is no model of the user's data yet
            raise KeyboardInterrupt
        warn_of_rounding(result)
        return result

    def similarity(
        self,
        atoms: np.ndarray,
        weights: np.ndarray,
        prior: float,
        vectors: np.ndarray | None = None,
        inside: float = 0.0,
    ) -> Similarity:
        """Return what a run of this prior has learned; `vectors` are those of directions."""
        fixed = parts_of_rows(self.data.X, prior)
        scale = self.given_scale or inside * prior
        parts = LearnedParts.of(atoms, weights, vectors, scale)
        return Similarity(
            parts.atoms,
            parts.weights,
            self.scale,
            fixed,
            self.data.X.shape[1],
            parts.directions,
        )
