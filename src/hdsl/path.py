"""The fitted attributes of a model, at any iteration of its path."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from . import checks
from .callbacks import Tasks
from .fitting import Learned
from .progress import Progress
from .solver.loop import Result
from .solver.trace import replay
from .supervision import Supervision

if TYPE_CHECKING:
    from .cpu.workers import Workers
    from .hdsl import HDSL


Model = TypeVar("Model")


class Run(Protocol):
    """A fit that is ready to run."""

    @property
    def model(self) -> HDSL:
        """Holds the parameters, and gets what is learned."""

    @property
    def supervision(self) -> Supervision:
        """What it learns from."""

    @property
    def n_runs(self) -> int:
        """Runs of the solver."""

    def run(self, workers: Workers, progress: Progress, tasks: Tasks) -> Learned:
        """Learn."""


def learn(fit: Run, checked: HDSL | None = None) -> Learned:
    """Run a fit, give its model the fitted attributes, and return all that it found.

    `checked` is a copy of the model that knows the features of X; None takes what the model knows.
    An interrupt or an error leaves all of the old attributes or all of the new ones.
    """
    # Compiled code is loaded by the first fit, not by the import.
    from .cpu.workers import Workers

    model = fit.model
    with (
        Workers(model.n_jobs) as workers,
        Progress(model.verbose) as progress,
        Tasks(model) as tasks,
    ):
        tasks.begin(fit.supervision, fit.n_runs * model.max_iter)
        found = fit.run(workers, progress, tasks)
        learned = copy(model) if checked is None else checked
        try:
            store(learned, found)
        except KeyboardInterrupt:
            result = replace(found.result, status="interrupted")
            store(learned, found._replace(result=result))
        checks.replace_fitted(model, learned)
        progress.end(model)
        tasks.end()
    return found


def store(model: HDSL, learned: Learned) -> None:
    """Give a model the fitted attributes of a run: with scores, those of the chosen iteration."""
    model.atoms_, model.weights_ = learned.result.atoms, learned.result.weights
    store_run(model, learned)
    take_scores(model, learned, go_to)


def store_run(model: Any, learned: Learned) -> None:
    """Give a model the fitted attributes of a run that do not depend on what is learned."""
    result = learned.result
    model.scale_, model.prior_ = learned.scale, learned.prior
    model.objective_, model.gap_ = result.objective, result.gap
    model.gap_is_exact_, model.status_ = result.gap_is_exact, result.status
    model.n_iter_, model.trace_ = result.n_iter, result.trace
    model.corrections_ = result.corrections
    model.n_triplets_ = learned.n_comparisons


def take_scores(model: Any, learned: Learned, go_to: Callable[[Any, int], None]) -> None:
    """Give a model the scores of a run and, by `go_to`, the chosen iteration."""
    result, scores = learned.result, learned.scores
    model.__dict__.pop("validation_score_", None)
    if scores is None or not scores.scores:  # interrupted before the first score
        return
    along = model.trace_["validation_score"]
    for n_iter, score in scores.scores.items():
        if n_iter < len(along):
            along[n_iter] = score.value
    if scores.gave_up and result.status == ("max_iter" if learned.is_refit else "callback"):
        model.status_ = "no_change"
    if not learned.is_refit:
        go_to(model, scores.chosen_n_iter)
    elif result.status != "interrupted":  # the refit may have converged before
        along[model.n_iter_] = scores.scores[scores.chosen_n_iter].value
    model.validation_score_ = float(along[model.n_iter_])


def go_to(model: HDSL, n_iter: int) -> None:
    """Give a model the fitted attributes that it had after `n_iter` iterations."""
    if n_iter == model.n_iter_:
        return
    active = replay(model.trace_, n_iter, model.corrections_)
    model.atoms_, model.weights_ = active.atoms, active.weights
    take_record(model, n_iter)


def take_record(model: Any, n_iter: int) -> None:
    """Give a model what the trace knows of it after `n_iter` iterations."""
    then = model.trace_[n_iter]
    model.__dict__.pop("validation_score_", None)
    if not np.isnan(then["validation_score"]):
        model.validation_score_ = float(then["validation_score"])
    model.objective_, model.gap_ = float(then["objective"]), float(then["gap"])
    model.gap_is_exact_, model.n_iter_ = bool(then["gap_is_exact"]), int(n_iter)


def at(model: Model, n_iter: int, go_to: Callable[[Any, int], None]) -> Model:
    """Return a copy of a fitted model as it was after `n_iter` iterations."""
    copied: Any = copy(model)
    go_to(copied, n_iter)
    copied.trace_ = copied.trace_[: n_iter + 1]
    copied.corrections_ = corrections_until(copied, n_iter)
    copied.status_ = "at"
    copied.__dict__.pop("checkpoint_file_", None)  # the whole path is not saved with this model
    return copied


def result_of(model: HDSL) -> Result:
    """Return the path of a fitted model, for a run to continue."""
    trace = model.trace_[: model.n_iter_ + 1]  # with early stopping the run went further
    return Result(
        model.atoms_,
        model.weights_,
        objective=model.objective_,
        gap=model.gap_,
        gap_is_exact=model.gap_is_exact_,
        n_iter=model.n_iter_,
        status=model.status_,
        trace=trace,
        corrections=corrections_until(model, model.n_iter_),
    )


def corrections_until(model: HDSL, n_iter: int) -> np.ndarray:
    """Return the corrections of the first iterations of a path."""
    return model.corrections_[: np.searchsorted(model.corrections_["n_iter"], n_iter + 1)]
