"""The road of a fit: checked, chosen, laid out, solved, and stored."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..evaluate.choose import (
    Choice,
    EmbeddingChoice,
    choose,
    choose_embedding_weight,
)
from ..files.container import nested
from ..input.estimators import replace_fitted
from ..progress import Progress
from ..solver import losses
from ..solver.loop import Callback, RestartError, State, frank_wolfe
from ..supervision.compared_rows import ComparedRows
from .callbacks import all_of
from .edits import forbidden_pairs
from .inputs import CheckedInput, FitInput, check_input
from .layouts import LaidOut
from .parameters import is_scale_open
from .part_fitter import PartFitter, inside_embedding, solver_options
from .path import FitOutcome, LearnedParts, store, summary
from .remembered import JudgedQueries
from .resume import checkpoint_hooks, keep_checkpoint
from .rounding import warn_of_rounding
from .settings import Settings, resumed_weight, settings_of_run

if TYPE_CHECKING:
    from ..cpu.workers import Workers


def learn(
    model: Any,
    fit_input: FitInput,
    continues: bool,
    check: Callable[..., CheckedInput] = check_input,
) -> Any:
    """Fit a model to rows and what is known of them; return the model.

    An interrupt or an error leaves all of the old fitted attributes or all of the new
    ones.

    Parameters
    ----------
    model : HDSL
    fit_input : FitInput
    continues : bool
        Whether the path of the model so far, if there is one, goes on.
    check : callable
        Makes the input that the road is for: of one machine or of a cluster.
    """
    from ..cpu.workers import Workers  # compiled code is loaded by the first fit

    run = check(model, fit_input, continues)
    with (
        Workers(run.parameters.n_jobs) as workers,
        Progress(run.parameters.verbose) as progress,
        run.explain_loss(),
    ):
        run = weigh_embedding(model, run, progress)
        judged = JudgedQueries.of(model, run)
        run.check_memory()
        choice = choose_open_settings(run, workers, progress)
        laid_out = run.lay_out(workers, progress)
        outcome = solve(model, run, choice, laid_out, progress)
        outcome = outcome._replace(memory=judged.remember(outcome, progress))
        keep_outcome(model, run, outcome)
        progress.say(summary(model))
    keep_checkpoint(model, run.checkpoint)
    return model


def weigh_embedding(model: Any, run: CheckedInput, progress: Progress) -> CheckedInput:
    """Return a run whose rows are features and embedding in one; as it is without one.

    The weight is that of the path that goes on, that of the checkpoint, given or
    chosen on data that are made for it.
    """
    if not run.has_embedding:
        return run
    weight = None
    if run.earlier is not None:
        weight = model.embedding_weight_
    elif run.is_resumed:
        with run.checkpoint.explain_damage():
            weight = resumed_weight(run.checkpoint.arrays)
    elif run.parameters.embedding_weight != "auto":
        weight = float(run.parameters.embedding_weight)
    elif run.has_embedding_alone:
        weight = 1.0  # there is nothing beside it
    if weight is not None:
        return run.with_embedding(EmbeddingChoice(weight, "as given"))
    # The prior is then chosen on the same parts of the data.
    rng = np.random.default_rng(deepcopy(run.rng).integers(2**62, size=2))
    choice = choose_embedding_weight(
        run.parameters, run.choice_data(rng), run.validation, rng, progress
    )
    progress.say(choice.reason)
    return run.with_embedding(choice)


def keep_outcome(model: Any, run: CheckedInput, outcome: FitOutcome) -> None:
    """Replace the fitted attributes of a model, all at once, also at an interrupt."""
    run.learned.forbidden_pairs_ = _forbidden(model, run)
    try:
        store(run.learned, outcome)
    except KeyboardInterrupt:
        result = replace(outcome.result, status="interrupted")
        store(run.learned, outcome._replace(result=result))
    replace_fitted(model, run.learned)


def _forbidden(model: Any, run: CheckedInput) -> np.ndarray | None:
    """Return the pairs that a run may not learn: those taken from the path that goes on."""
    if run.earlier is None:
        return None
    return forbidden_pairs(model)


def choose_open_settings(
    run: CheckedInput, workers: Workers, progress: Progress
) -> Choice | None:
    """Choose what is left open, if anything is."""
    rng = np.random.default_rng(run.rng.integers(2**62, size=2))
    parameters = run.parameters
    is_open = parameters.prior == "auto" or (
        parameters.max_iter == "auto" and run.validation is not None
    )
    is_open = is_open or (run.has_embedding_alone and is_scale_open(parameters))
    if run.earlier is not None or run.is_resumed or not is_open:
        return None

    def start(part: ComparedRows) -> PartFitter:
        return PartFitter(parameters, part, rng, workers, _weight_of(run.embedding))

    data = run.choice_data(rng)
    choice = choose(parameters, data, run.validation, rng, start, progress)
    progress.say(choice.reason)
    return choice


def _listener(run: CheckedInput, settings: Settings) -> Callback | None:
    """Return what scikit-learn's callbacks hear of a run; None where there are none."""
    if run.tasks is None:
        return None

    def attributes_at(state: State) -> dict[str, Any]:
        fitted = {
            name: value for name, value in vars(run.learned).items() if name[-1] == "_"
        }
        parts = LearnedParts.of(
            state.atoms, state.weights, state.directions, settings.embedding_scale
        )
        fitted |= {
            "atoms_": parts.atoms,
            "weights_": parts.weights,
            "directions_": parts.directions,
            "scale_": settings.scale,
            "prior_": settings.prior,
            "embedding_weight_": None,
            "n_iter_": state.n_iter,
        }
        if run.embedding is not None:
            fitted["embedding_weight_"] = run.embedding.weight
        return fitted

    return run.tasks.follow(attributes_at)


def solve(
    model: Any,
    run: CheckedInput,
    choice: Choice | None,
    laid_out: LaidOut,
    progress: Progress,
) -> FitOutcome:
    """Solve the problem of a model."""
    settings, table = settings_of_run(model, run, choice, laid_out)
    loss = losses.checked(losses.get(run.parameters.loss))
    weight = _weight_of(run.embedding)
    inside = settings.embedding_scale
    if not laid_out.layout.n_features:
        inside = inside or 1.0  # a domain has atoms, also where no step is taken
    problem = laid_out.layout.problem(
        loss,
        settings.scale,
        (settings.prior,),
        **inside_embedding(inside, weight),
    )
    saved = {}
    if run.checkpoint is not None:
        saved = {"size": settings.as_array(laid_out.data)}
        saved |= nested(choice=table or {})
        if run.embedding is not None:
            saved |= {"embedding_weight": np.array([run.embedding.weight])}
    n_before = 0 if run.earlier is None else run.earlier.n_iter
    follow = progress.follow("learning", n_before, settings.max_iter)
    are_mined = not isinstance(run.data, ComparedRows)
    options = solver_options(run.parameters, settings.max_iter, are_mined)
    limits = replace(options.limits, forbidden=_forbidden(model, run))
    try:
        result = frank_wolfe(
            problem,
            options.oracle,
            options.rule,
            limits,
            rng=run.rng,
            earlier=run.earlier,
            restarts=checkpoint_hooks(run.checkpoint, saved),
            callback=all_of(follow, run.parameters.callback, _listener(run, settings)),
        )
    except RestartError as error:
        with run.checkpoint.explain_damage():
            raise ValueError(str(error)) from None
    warn_of_rounding(result)
    return FitOutcome(
        result=result,
        scale=settings.scale,
        prior=settings.prior,
        n_comparisons=problem.n_comparisons,
        choice=table,
        embedding_weight=weight,
        embedding_scale=None if weight is None else settings.embedding_scale,
        ranking=settings.ranking,
        data=laid_out.data,
    )


def _weight_of(embedding: EmbeddingChoice | None) -> float | None:
    """Return the weight of an embedding; None without one."""
    if embedding is None:
        return None
    return embedding.weight
