"""The numbers that a run goes by: scale, prior and number of iterations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..evaluate.choose import Choice, joined_table
from ..files.checkpoint import digest
from ..input.matrices import check_margins
from ..model_arrays import choice_from
from ..similarity.cosine import COSINE, RANKINGS
from ..solver.statistics import Statistics
from ..solver.trace import Arrays
from ..supervision.compared_rows import ComparedRows
from .automatic import n_iterations, own_similarity, scale_of

if TYPE_CHECKING:
    from .inputs import CheckedInput
    from .layouts import LaidOut


class Settings(NamedTuple):
    """The numbers that a run goes by, and how rows are ranked by what it learns."""

    scale: float
    prior: float
    max_iter: int
    ranking: str = COSINE
    embedding_scale: float = 0.0

    def as_array(self, data: ComparedRows | None) -> np.ndarray:
        """Return the numbers, and a fingerprint of the comparisons that they go with."""
        numbers = [
            self.scale,
            self.prior,
            self.max_iter,
            RANKINGS.index(self.ranking),
            self.embedding_scale,
            _fingerprint(data),
        ]
        return np.array(numbers, dtype=np.float64)


def settings_of_run(
    model: Any, run: CheckedInput, choice: Choice | None, laid_out: LaidOut
) -> tuple[Settings, Arrays | None]:
    """Return the numbers that a run goes by, checked with its rows, and what was tried.

    They are those of the path that it continues, those of its checkpoint, or new ones.
    """
    if run.earlier is not None:
        settings = continued_settings(model, run)
        table = getattr(model, "choice_", None)
    elif run.is_resumed:
        with run.checkpoint.explain_damage():
            settings = resumed_settings(run.checkpoint.arrays, laid_out.data)
            check_margins(laid_out.margin_rows, settings.scale, settings.prior)
        table = choice_from(run.checkpoint.arrays)
    else:
        statistics = laid_out.layout.statistics()
        weight = 0.0 if run.embedding is None else run.embedding.weight
        settings = new_settings(run.parameters, statistics, choice, weight)
        table = table_as_used(run.parameters, statistics, choice, weight)
        if not laid_out.layout.n_features and not settings.embedding_scale:
            settings = settings._replace(max_iter=0)  # there is nothing to learn
    if run.earlier is None and not run.is_resumed:
        table = joined_table(run.embedding, table)
    if run.earlier is not None or not run.is_resumed:
        check_margins(laid_out.margin_rows, settings.scale, settings.prior)
    return settings, table


def continued_settings(model: Any, run: CheckedInput) -> Settings:
    """Return the numbers of the path of a model that goes on."""
    assert run.earlier is not None
    max_iter = run.earlier.n_iter + n_iterations(run.parameters)
    return Settings(
        model.scale_,
        model.prior_,
        max_iter,
        model.ranking_,
        model.embedding_scale_ or 0.0,
    )


def resumed_settings(arrays: Arrays, data: ComparedRows | None) -> Settings:
    """Return the numbers of a checkpoint; raise ValueError where no run has them."""
    numbers = arrays["size"]
    is_valid = (
        numbers.shape == (6,)
        and (np.isfinite(numbers) & (numbers >= 0)).all()
        and numbers[0] > 0
        and numbers[3] < len(RANKINGS)
    )
    if not is_valid:
        raise ValueError("scale and prior are not numbers that a run can have.")
    scale, prior, max_iter, ranking, embedding_scale, fingerprint = numbers.tolist()
    if fingerprint != _fingerprint(data):
        raise ValueError("`mining` gave other triplets than when the run began.")
    ranked = RANKINGS[int(ranking)]
    return Settings(scale, prior, int(max_iter), ranked, embedding_scale)


def resumed_weight(arrays: Arrays) -> float:
    """Return the weight of the embedding in a checkpoint; raise ValueError if damaged."""
    weight = arrays.get("embedding_weight", np.empty(0))
    if weight.shape != (1,) or not np.isfinite(weight[0]) or weight[0] < 0:
        raise ValueError(
            "the weight of the embedding is no number that a run can have."
        )
    return float(weight[0])


def new_settings(
    model: Any, statistics: Statistics, choice: Choice | None, weight: float
) -> Settings:
    """Return the numbers as given, automatic or chosen; `weight` is that of an embedding."""
    scale = scale_of(model, statistics)
    embedding_scale = 0.0
    if model.embedding_scale != "auto":
        embedding_scale = float(model.embedding_scale)
    if choice is None:
        prior = float(model.prior)
        n_iter = n_iterations(model)
        return Settings(scale, prior, n_iter, embedding_scale=embedding_scale)
    prior = choice.prior / prior_unit(model, statistics)
    if model.embedding_scale == "auto":
        embedding_scale = choice.embedding_scale * prior * weight
    return Settings(scale, prior, choice.n_iter, choice.ranking, embedding_scale)


def table_as_used(
    model: Any, statistics: Statistics, choice: Choice | None, weight: float
) -> Arrays | None:
    """Return what was tried, with numbers as a model has them; None where nothing was."""
    if choice is None or choice.table is None:
        return None
    priors = choice.table["prior"] / prior_unit(model, statistics)
    table = {**choice.table, "prior": priors}
    if "embedding_scale" in table:
        inside = table["embedding_scale"]
        units = np.where(inside > 0.0, priors, 0.0) * weight
        table["embedding_scale"] = inside * units
    return table


def prior_unit(model: Any, statistics: Statistics) -> float:
    """Return what candidates for the prior are divided by."""
    if model.prior == "auto":
        return own_similarity(statistics)
    return 1.0


def _fingerprint(data: ComparedRows | None) -> float:
    """Return a number of the comparisons, equal for equal ones."""
    compared = None if data is None else data.compared
    weights = None if data is None else data.weights
    return float(int(digest(compared, weights)["sha256"][:12], 16))
