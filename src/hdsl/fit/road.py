"""The road of a fit: checked, chosen, laid out, solved, and stored."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..choose.candidates import Choice
from ..choose.choice import choose
from ..files.checkpoint import Checkpoint
from ..files.tables import nested
from ..input.estimators import replace_fitted
from ..input.matrices import (
    as_problem_matrix,
    check_matrix,
)
from ..input.parameters import generator
from ..progress import Progress
from ..similarity.rows import unit_rows
from ..solver import losses
from ..solver.loop import (
    RestError,
    Result,
    frank_wolfe,
)
from ..solver.protocols import Layout
from ..supervision.mining import Mining, compare
from ..supervision.supervision import Supervision
from .callbacks import all_of
from .layouts import make_layout, row_norm
from .memory import check_memory
from .parameters import check_parameters
from .part_fitter import PartFitter, solver
from .path import FitOutcome, check_same_path, path_so_far, store, summary
from .resume import checkpoint_hooks, identity_of_run, keep_checkpoint
from .rounding import warn_of_rounding
from .sizes import settings_of_run

if TYPE_CHECKING:
    from ..cpu.workers import Workers


def learn(
    model: Any,
    X: Any,
    given: dict[str, Any],
    validation: tuple[Any, ...],
    continues: bool,
) -> Any:
    """Fit a model to rows and what is given of them; return the model.

    An interrupt or an error leaves all of the old fitted attributes or all of the new
    ones.

    Parameters
    ----------
    model : HDSL
    X : array-like or sparse matrix of shape (n_rows, n_features)
    given : dict
        y, triplets, quadruplets and sample_weight, as in ``fit``.
    validation : tuple
        X_val, y_val and triplets_val.
    continues : bool
        Whether the path of the model so far, if there is one, goes on.
    """
    from ..cpu.workers import Workers  # compiled code is loaded by the first fit

    run = prepare(model, X, given, validation, continues)
    with Workers(model.n_jobs) as workers, Progress(model.verbose) as progress:
        found = solve(model, run, lay_out(model, run, workers, progress), progress)
        try:
            store(run.learned, found)
        except KeyboardInterrupt:
            result = replace(found.result, status="interrupted")
            store(run.learned, found._replace(result=result))
        replace_fitted(model, run.learned)
        progress.say(summary(model))
    keep_checkpoint(model, run.checkpoint)
    return model


@dataclass(frozen=True)
class CheckedInput:
    """What a fit begins with, checked."""

    data: Supervision
    held: Supervision | None  # validation data
    rng: np.random.Generator
    earlier: Result | None  # the path to continue
    checkpoint: Checkpoint | None
    learned: Any  # a copy of the model that knows the features of X, and takes what is learned


def prepare(
    model: Any,
    X: Any,
    given: dict[str, Any],
    validation: tuple[Any, ...],
    continues: bool,
) -> CheckedInput:
    """Check what a fit is given; parameters are those of `learn`."""
    earlier, rng, checkpoint, learned = start_run(model, continues)
    X = as_problem_matrix(check_matrix(learned, X, reset=earlier is None))
    data = Supervision.check(type(model).__name__, X, **given)
    present = X
    if (
        data.weights is not None
        and not data.weights.all()
        and not callable(model.mining)
    ):
        present = X[data.weights > 0]
    learned.norm_, learned.columns_ = row_norm(model, present, earlier is not None)
    data = data if model.norm is None else replace(data, X=unit_rows(X))
    held = data.check_validation(learned, *validation)
    if held is not None and model.norm is not None:
        held = replace(held, X=unit_rows(held.X, learned.columns_))
    if checkpoint is not None:
        checkpoint.begin(rng, identity_of_run(model, data, held, earlier))
    return CheckedInput(data, held, rng, earlier, checkpoint, learned)


def start_run(model: Any, continues: bool) -> tuple[Any, ...]:
    """Return the path to continue, a generator, a checkpoint, and a copy that learns."""
    check_parameters(model)
    earlier = None
    if continues and hasattr(model, "atoms_"):
        check_same_path(model)
        earlier = path_so_far(model)
    checkpoint = None if model.checkpoint is None else Checkpoint(model.checkpoint)
    return earlier, generator(model.random_state), checkpoint, copy(model)


class LaidOutRun(NamedTuple):
    """What a run solves; rows are all or, on a cluster, like the longest."""

    layout: Layout
    choice: Choice | None
    data: Supervision
    X: sp.csr_array


def choose_open_settings(
    model: Any,
    run: Any,
    make_data: Callable[..., Any],
    workers: Workers,
    progress: Progress,
) -> Choice | None:
    """Choose what is left open, if anything is, on data that are made for it."""
    rng = np.random.default_rng(run.rng.integers(2**62, size=2))
    found = None if run.checkpoint is None else run.checkpoint.arrays
    is_open = model.prior == "auto" or (
        model.max_iter == "auto" and run.held is not None
    )
    if run.earlier is not None or found is not None or not is_open:
        return None
    start = lambda part: PartFitter(model, part, rng, workers)  # noqa: E731
    choice = choose(model, make_data(rng), run.held, rng, start, progress)
    progress.say(choice.reason)
    return choice


def lay_out(
    model: Any, run: CheckedInput, workers: Workers, progress: Progress
) -> LaidOutRun:
    """Choose what is left open, make comparisons, and lay them out."""
    if run.data.compared is not None and model.device == "cpu":
        check_memory(model, run.data.X, run.data.compared)
    choice = choose_open_settings(model, run, lambda rng: run.data, workers, progress)
    progress.stage("making comparisons")
    data = compare(Mining.of(model), run.data, run.rng)
    earlier = run.earlier
    if data.X.shape[0] < run.data.X.shape[0]:
        n = data.X.shape[0]
        n_all = run.data.X.shape[0]
        weights = run.data.weights
        is_sample = n < (n_all if weights is None else np.count_nonzero(weights))
        why = "max_anchors" if is_sample else "sample_weight"
        progress.say(f"{n} of {n_all} rows are compared: {why}")
    progress.stage("laying out rows and comparisons")
    columns = None if earlier is None else np.unique(earlier.atoms[:, :2])
    layout = make_layout(
        model, data.X, data.compared, data.compared_weights, workers, columns
    )
    return LaidOutRun(layout, choice, data, data.X)


def solve(model: Any, run: Any, laid_out: LaidOutRun, progress: Progress) -> FitOutcome:
    """Solve the problem of a model."""
    size, table = settings_of_run(model, run, laid_out)
    loss = losses.checked(losses.get(model.loss))
    problem = laid_out.layout.problem(loss, size.scale, (size.prior,))
    saved = {}
    if run.checkpoint is not None:
        saved = {"size": size.as_array(laid_out.data), **nested(choice=table or {})}
    first = 0 if run.earlier is None else run.earlier.n_iter
    try:
        result = frank_wolfe(
            problem,
            *solver(model, size.max_iter, not run.data.is_judged),
            rng=run.rng,
            earlier=run.earlier,
            rests=checkpoint_hooks(run.checkpoint, saved),
            callback=all_of(
                progress.follow("learning", first, size.max_iter), model.callback
            ),
        )
    except RestError as error:
        with run.checkpoint.explain_damage():
            raise ValueError(str(error)) from None
    warn_of_rounding(result)
    return FitOutcome(
        result, size.scale, size.prior, problem.n_comparisons, table, laid_out.data
    )
