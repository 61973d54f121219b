"""Fits to one part of the data, which share a layout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..similarity import FixedPart, Similarity
from ..solver import losses, oracle, steps
from ..solver.loop import (
    Callback,
    Options,
    Result,
    frank_wolfe,
)
from ..supervision.supervision import Supervision
from .layouts import make_layout
from .rounding import warn_of_rounding
from .sizes import automatic_scale, own_similarity

if TYPE_CHECKING:
    from ..cpu.workers import Workers


def solver(
    model: Any, max_iter: int, are_mined: bool
) -> tuple[oracle.Oracle, steps.StepRule, Options]:
    """Return what runs the solver as the parameters of a model say, up to iteration `max_iter`."""
    options = Options(model.init, model.batch_size, max_iter, model.tol, are_mined)
    return oracle.ORACLES[model.oracle](), steps.RULES[model.step], options


class PartFitter:
    """Fits to one part of the data, which share a layout; what `choose` asks for."""

    def __init__(
        self, model: Any, data: Supervision, rng: np.random.Generator, workers: Workers
    ) -> None:
        self.model = model
        self.data = data
        self.rng = rng
        self.workers = workers
        self.layout: Any = make_layout(
            model, data.X, data.compared, data.compared_weights, workers
        )
        statistics = self.layout.statistics()
        self.scale = (
            automatic_scale(statistics) if model.scale == "auto" else float(model.scale)
        )
        self.unit = own_similarity(statistics)
        self.loss = losses.checked(losses.get(model.loss))

    def with_data(self, data: Supervision) -> PartFitter:
        """Return the fits to other data."""
        return PartFitter(self.model, data, self.rng, self.workers)

    def solve(
        self,
        prior: float,
        max_iter: int,
        earlier: Result | None,
        callback: Callback | None,
    ) -> Result:
        """Return the path of a prior, perhaps from the model of another one."""
        problem = self.layout.problem(self.loss, self.scale, (prior,))
        return self.follow(problem, max_iter, earlier, callback)

    def follow(
        self,
        problem: Any,
        max_iter: int,
        earlier: Result | None = None,
        callback: Callback | None = None,
    ) -> Result:
        """Return the path of a problem of this layout; an interrupt is raised."""
        how = solver(self.model, max_iter, not self.data.is_judged)
        result = frank_wolfe(
            problem, *how, rng=self.rng, earlier=earlier, callback=callback
        )
        if result.status == "interrupted":  # there is no model of the user's data yet
            raise KeyboardInterrupt
        warn_of_rounding(result)
        return result

    def similarity(
        self, atoms: np.ndarray, weights: np.ndarray, prior: float
    ) -> Similarity:
        """Return what a run of this prior has learned."""
        fixed = (FixedPart("prior", prior),)
        return Similarity(atoms, weights, self.scale, fixed, self.data.X.shape[1])
