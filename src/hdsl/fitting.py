"""One fit: rows checked, comparisons made, the prior chosen, laid out, solved, and stored."""

from __future__ import annotations

import math
import numbers
import os
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, NamedTuple

import joblib
import numpy as np
import scipy.sparse as sp

from . import choosing, memory, supervision
from .arrays import choice_from
from .cuda import runtime
from .files.checkpoint import Checkpoint, digest
from .files.tables import nested, part_of
from .input.errors import ParameterError
from .input.estimators import replace_fitted
from .input.matrices import as_problem_matrix, check_margins, check_matrix, used_columns
from .input.parameters import check_device, check_number, check_word, generator
from .labels import LabelSets
from .progress import Progress, duration
from .similarity import Similarity
from .similarity.rows import unit_rows
from .solver import losses, oracle, steps
from .solver.loop import (
    Arrays,
    Callback,
    Options,
    RestError,
    Rests,
    Result,
    State,
    frank_wolfe,
)
from .solver.protocols import Layout, Statistics
from .solver.trace import replay
from .supervision import Mining, Supervision

if TYPE_CHECKING:
    from .cpu.workers import Workers

#: Parts of a result that are fitted attributes.
FITTED = (
    "atoms",
    "weights",
    "objective",
    "gap",
    "gap_is_exact",
    "n_iter",
    "status",
    "trace",
    "corrections",
)

INITS = ("zero", "oracle", "random")

#: Parameters that the model at the end of a run does not depend on.
WITHOUT_EFFECT = {
    "callback",
    "checkpoint",
    "client",
    "device",
    "memory_limit",
    "n_jobs",
    "timeout",
    "verbose",
    "warm_start",
}

#: Most threads; more are a mistake in the number.
MOST_JOBS = 10_000

#: scale="auto" makes the learned part this many times as large as the typical margin,
#: for one anchor. It grows with the root of the number of anchors, as the excess risk
#: grows with scale / sqrt(rows), and with the number of values that a row rests on
#: where these are many, as they share the margin of the dot product.
SCALE_MARGIN = 9.0
SCALE_VALUES = 80.0

#: min_rows="auto" is this power of the number of rows.
MIN_ROWS_POWER = 0.125

#: Margins at which a loss of the user's own is looked at.
LOOKED_AT = np.linspace(-3.0, 3.0, 25)


class Learned(NamedTuple):
    """What a fit found."""

    result: Result
    scale: float
    prior: float
    n_comparisons: int
    choice: dict[str, np.ndarray] | None = None
    data: Any = None  # rows and comparisons, where this machine has them


# --- the road of a fit ----------------------------------------------------------------


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
    from .cpu.workers import Workers  # compiled code is loaded by the first fit

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
class Prepared:
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
) -> Prepared:
    """Check what a fit is given; parameters are those of `learn`."""
    earlier, rng, checkpoint, learned = begin(model, continues)
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
    return Prepared(data, held, rng, earlier, checkpoint, learned)


def begin(model: Any, continues: bool) -> tuple[Any, ...]:
    """Return the path to continue, a generator, a checkpoint, and a copy that learns."""
    check_parameters(model)
    earlier = None
    if continues and hasattr(model, "atoms_"):
        check_same_path(model)
        earlier = path_so_far(model)
    checkpoint = None if model.checkpoint is None else Checkpoint(model.checkpoint)
    return earlier, generator(model.random_state), checkpoint, copy(model)


class LaidOut(NamedTuple):
    """What a run solves; rows are all or, on a cluster, like the longest."""

    layout: Layout
    choice: choosing.Choice | None
    data: Supervision
    X: sp.csr_array


def choose(
    model: Any,
    run: Any,
    make_data: Callable[..., Any],
    workers: Workers,
    progress: Progress,
) -> choosing.Choice | None:
    """Choose what is left open, if anything is, on data that are made for it."""
    rng = np.random.default_rng(run.rng.integers(2**62, size=2))
    found = None if run.checkpoint is None else run.checkpoint.arrays
    is_open = model.prior == "auto" or (
        model.max_iter == "auto" and run.held is not None
    )
    if run.earlier is not None or found is not None or not is_open:
        return None
    start = lambda part: Fits(model, part, rng, workers)  # noqa: E731
    choice = choosing.choose(model, make_data(rng), run.held, rng, start, progress)
    progress.say(choice.reason)
    return choice


def lay_out(model: Any, run: Prepared, workers: Workers, progress: Progress) -> LaidOut:
    """Choose what is left open, make comparisons, and lay them out."""
    if run.data.compared is not None and model.device == "cpu":
        check_memory(model, run.data.X, run.data.compared)
    choice = choose(model, run, lambda rng: run.data, workers, progress)
    progress.stage("making comparisons")
    data = supervision.compare(Mining.of(model), run.data, run.rng)
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
    return LaidOut(layout, choice, data, data.X)


def solve(model: Any, run: Any, laid_out: LaidOut, progress: Progress) -> Learned:
    """Solve the problem of a model."""
    size, table = size_of_run(model, run, laid_out)
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
            rests=rests(run.checkpoint, saved),
            callback=all_of(
                progress.follow("learning", first, size.max_iter), model.callback
            ),
        )
    except RestError as error:
        with run.checkpoint.explain_damage():
            raise ValueError(str(error)) from None
    return Learned(
        result, size.scale, size.prior, problem.n_comparisons, table, laid_out.data
    )


def solver(
    model: Any, max_iter: int, are_mined: bool
) -> tuple[oracle.Oracle, steps.StepRule, Options]:
    """Return what runs the solver as the parameters of a model say, up to iteration `max_iter`."""
    options = Options(model.init, model.batch_size, max_iter, model.tol, are_mined)
    return oracle.ORACLES[model.oracle](), steps.RULES[model.step], options


class Fits:
    """Fits to one part of the data, which share a layout; what `choosing` asks for."""

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

    def with_data(self, data: Supervision) -> Fits:
        """Return the fits to other data."""
        return Fits(self.model, data, self.rng, self.workers)

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
        return result

    def similarity(
        self, atoms: np.ndarray, weights: np.ndarray, prior: float
    ) -> Similarity:
        """Return what a run of this prior has learned."""
        return Similarity(atoms, weights, self.scale, prior, self.data.X.shape[1])


# --- rows, layouts, sizes -------------------------------------------------------------


def row_norm(
    model: Any, X: sp.csr_array, continues: bool
) -> tuple[str | None, np.ndarray | None]:
    """Return the norm of a model that learns from X, and the columns that count in it."""
    if model.norm is None:
        supervision.warn_of_lengths(X)
        return None, None
    columns = used_columns(X)
    if continues:
        if model.columns_ is None:
            return model.norm, None
        columns = np.union1d(columns, model.columns_)
    return model.norm, None if len(columns) == X.shape[1] else columns


def make_layout(
    model: Any,
    X: sp.csr_array,
    compared: np.ndarray,
    weights: np.ndarray | None,
    workers: Workers,
    columns: np.ndarray | None = None,
) -> Layout:
    """Return rows and their comparisons laid out for the fits of a model.

    `columns` are features although they may be rare or empty. NotEnoughMemory is raised
    before the work.
    """
    options: dict[str, Any] = {"workers": workers, "columns": columns}
    least = least_rows(model, X.shape[0])
    if least > 1:
        options["min_rows"] = least
    layout: Layout
    if model.device == "cpu":
        from .cpu.layout import CPULayout  # compiled code is loaded by the first fit

        check_memory(model, X, compared)
        layout = CPULayout(X, compared, weights, **options)
    else:
        from .cuda.layout import CUDALayout

        device = runtime.get_device(model.device)
        check_card(model, device, X, compared)
        layout = CUDALayout(X, compared, weights, device=device, **options)
    if layout.n_features < 2:
        raise ValueError(
            "At least 2 features with a non-zero value are needed, as an atom pairs "
            f"two. The {X.shape[0]} rows to learn from have {layout.n_features}: give "
            "more rows."
        )
    return layout


def least_rows(model: Any, n_rows: int) -> int:
    """Return the number of rows that a feature must have to be paired."""
    if model.min_rows != "auto":
        return int(model.min_rows)
    return max(1, round(n_rows**MIN_ROWS_POWER))


def automatic_scale(statistics: Statistics) -> float:
    """Return the scale that suits the data."""
    share = max(1.0, statistics.values_per_anchor / SCALE_VALUES)
    return (
        SCALE_MARGIN
        * math.sqrt(statistics.n_anchors)
        * share
        / statistics.typical_margin
    )


def own_similarity(statistics: Statistics) -> float:
    """Return the mean ‖x‖² of the anchors, which automatic priors are divided by."""
    return statistics.own_similarity if statistics.own_similarity > 0 else 1.0


def n_steps(model: Any) -> int:
    """Return the number of iterations where nothing is chosen."""
    return choosing.FIXED_STEPS if model.max_iter == "auto" else int(model.max_iter)


class Size(NamedTuple):
    """The numbers that a run goes by."""

    scale: float
    prior: float
    max_iter: int

    @classmethod
    def chosen(
        cls, model: Any, statistics: Statistics, choice: choosing.Choice | None
    ) -> tuple[Size, Arrays | None]:
        """Return the numbers as given, automatic or chosen, and what was tried."""
        scale = (
            automatic_scale(statistics) if model.scale == "auto" else float(model.scale)
        )
        if choice is None:
            return cls(scale, float(model.prior), n_steps(model)), None
        unit = own_similarity(statistics) if model.prior == "auto" else 1.0
        table = choice.table
        if table is not None:
            table = {**table, "prior": table["prior"] / unit}
        return cls(scale, choice.prior / unit, choice.n_iter), table

    def as_array(self, data: Supervision) -> np.ndarray:
        """Return the numbers, and a fingerprint of the comparisons that they go with."""
        sha = digest(data.compared, data.compared_weights)["sha256"]
        return np.array([*self, int(sha[:12], 16)], dtype=np.float64)

    @classmethod
    def restored(cls, arrays: Arrays, data: Supervision) -> Size:
        """Return the numbers of a checkpoint; raise ValueError where no run has them."""
        size = arrays["size"]
        if (
            size.shape != (4,)
            or not (np.isfinite(size) & (size >= 0)).all()
            or size[0] == 0
        ):
            raise ValueError("scale and prior are not numbers that a run can have.")
        scale, prior, max_iter, _ = size.tolist()
        found = cls(scale, prior, int(max_iter))
        if found.as_array(data)[3] != size[3]:
            raise ValueError("`mining` gave other triplets than when the run began.")
        return found


def size_of_run(model: Any, run: Any, laid_out: LaidOut) -> tuple[Size, Arrays | None]:
    """Return the numbers that a run goes by, checked with its rows, and what was tried.

    They are those of the path that it continues, those of its checkpoint, or new ones.
    """
    earlier = run.earlier
    checkpoint = run.checkpoint
    (layout, choice, data, X) = laid_out
    table: Arrays | None
    if earlier is None and checkpoint is not None and checkpoint.arrays is not None:
        with checkpoint.explain_damage():
            size = Size.restored(checkpoint.arrays, data)
            check_margins(X, size.scale, size.prior)
            return size, choice_from(checkpoint.arrays)
    if earlier is not None:
        size = Size(model.scale_, model.prior_, earlier.n_iter + n_steps(model))
        table = getattr(model, "choice_", None)
    else:
        size, table = Size.chosen(model, layout.statistics(), choice)
    check_margins(X, size.scale, size.prior)
    return size, table


# --- memory ---------------------------------------------------------------------------


def estimate_fit(model: Any, X: sp.csr_array, compared: np.ndarray) -> Any:
    """Return the memory that a fit of a model to these comparisons takes."""
    from .cpu.memory import estimate

    return estimate(
        X,
        compared,
        batch_size=model.batch_size,
        min_rows=least_rows(model, X.shape[0]),
        n_threads=int(joblib.effective_n_jobs(model.n_jobs)),
    )


def check_memory(model: Any, X: sp.csr_array, compared: np.ndarray) -> None:
    """Refuse what cannot fit, before the work."""
    if model.memory_limit is None:
        return
    memory.check_fits(
        f"To fit {len(compared)} triplets of {X.shape[0]} rows with {X.nnz} values, "
        f"{type(model).__name__}",
        estimate_fit(model, X, compared).total,
        model.memory_limit,
        ("fit fewer triplets", "pass memory_limit=None to go on anyway"),
    )


def check_card(
    model: Any, device: runtime.Device, X: sp.csr_array, compared: np.ndarray
) -> None:
    """Refuse what a card has no room for, before the work."""
    from .cuda.memory import estimate

    if model.memory_limit is None:
        return
    memory.check_fits(
        "The fit on the GPU",
        estimate(X, compared, corrects=model.step == "corrective"),
        model.memory_limit,
        ("give fewer comparisons or rows", "take device='cpu'"),
        device.free(),
    )


# --- fitted attributes ----------------------------------------------------------------


def store(model: Any, learned: Learned) -> None:
    """Give a model the fitted attributes of a run."""
    for name in FITTED:
        setattr(model, name + "_", getattr(learned.result, name))
    model.scale_ = learned.scale
    model.prior_ = learned.prior
    model.choice_ = learned.choice
    model.n_triplets_ = learned.n_comparisons
    model.loss_ = recorded_loss(model.loss)


def summary(model: Any) -> str:
    """Return what a fit has learned, in one line."""
    n = len(model.weights_)
    seconds = float(model.trace_["seconds"][-1])
    return (
        f"{model.n_iter_} iterations in {duration(seconds)} ({model.status_}), "
        f"objective {model.objective_:.4g}, {n} feature pair{'' if n == 1 else 's'}"
    )


def at(model: Any, n_iter: int) -> Any:
    """Return a copy of a fitted model as it was after `n_iter` iterations."""
    copied = copy(model)
    active = replay(model.trace_, n_iter, model.corrections_)
    then = model.trace_[n_iter]
    if n_iter != model.n_iter_:
        copied.atoms_ = active.atoms
        copied.weights_ = active.weights
    copied.objective_ = float(then["objective"])
    copied.gap_ = float(then["gap"])
    copied.gap_is_exact_ = bool(then["gap_is_exact"])
    copied.n_iter_ = n_iter
    copied.trace_ = model.trace_[: n_iter + 1]
    copied.corrections_ = _corrections_until(model, n_iter)
    copied.status_ = "at"
    copied.__dict__.pop(
        "checkpoint_file_", None
    )  # the whole path is not saved with this model
    return copied


def path_so_far(model: Any) -> Result:
    """Return the path of a fitted model, for a run to continue."""
    known = {name: getattr(model, name + "_") for name in FITTED}
    known |= {"trace": model.trace_[: model.n_iter_ + 1]}
    return Result(**known | {"corrections": _corrections_until(model, model.n_iter_)})


def _corrections_until(model: Any, n_iter: int) -> np.ndarray:
    return model.corrections_[
        : np.searchsorted(model.corrections_["n_iter"], n_iter + 1)
    ]


def check_same_path(model: Any) -> None:
    """Raise ValueError where a path would go on with another scale, prior, norm or domain."""
    if model.norm != model.norm_:
        raise ValueError(
            f"The path so far has norm {model.norm_!r}, but the 'norm' parameter is "
            f"{model.norm!r}: set norm={model.norm_!r}, or fit with warm_start=False."
        )
    if model.init != "zero" and abs(float(model.weights_.sum()) - 1.0) > 1e-9:
        raise ValueError(
            "The path so far has init='zero', but the 'init' parameter is "
            f"{model.init!r}: set init='zero', or fit with warm_start=False."
        )
    loss = recorded_loss(model.loss)
    if loss != model.loss_:
        raise ValueError(
            f"The path so far has the loss {model.loss_!r}, but the 'loss' parameter "
            f"is {loss!r}: set that of the path, or fit with warm_start=False."
        )
    for name in ("scale", "prior"):
        value = getattr(model, name)
        used = getattr(model, name + "_")
        if value != "auto" and value != used:
            raise ValueError(
                f"The path so far has {name} {used:g}, but the {name!r} parameter is "
                f"{value!r}. Set {name}={used!r} to go on with it, or start anew: fit "
                "with warm_start=False."
            )


# --- checkpoints and callbacks --------------------------------------------------------


def rests(checkpoint: Checkpoint | None, saved: Arrays) -> Rests | None:
    """Return where the solver resumes, and what saves a run with what is around it."""
    if checkpoint is None:
        return None

    def save(arrays: Callable[[], Arrays]) -> None:
        checkpoint.write_if_due(lambda: {**saved, **nested(run=arrays())})

    return Rests(
        None if checkpoint.arrays is None else part_of(checkpoint.arrays, "run"), save
    )


def keep_checkpoint(model: Any, checkpoint: Checkpoint | None) -> None:
    """Remember the file of a run that has ended: it is deleted when the model is saved."""
    model.__dict__.pop("checkpoint_file_", None)
    if checkpoint is not None and model.status_ == "interrupted":
        checkpoint.flush()
    elif checkpoint is not None:
        model.checkpoint_file_ = checkpoint.file


def identity_of_run(
    model: Any, data: Supervision, held: Supervision | None, earlier: Result | None
) -> dict[str, Any]:
    """Return all that the end of a run depends on, data by their digests."""

    def fingerprint(part: Supervision | None) -> dict[str, str]:
        if part is None:
            return digest(None)
        y = part.y.indicator if isinstance(part.y, LabelSets) else part.y
        return digest(y, part.weights, part.compared, part.compared_weights)

    path = (
        (None,) if earlier is None else (earlier.atoms, earlier.weights, earlier.n_iter)
    )
    return {
        **recorded_parameters(model),
        "X": digest(data.X),
        "labels, triplets or weights": fingerprint(data),
        "validation rows": digest(None if held is None else held.X),
        "validation labels or triplets": fingerprint(held),
        "path so far": digest(*path),
        "version of hdsl": version("hdsl"),
    }


def recorded_parameters(model: Any) -> dict[str, Any]:
    """Return the parameters that the end of a run depends on; of functions and objects the name."""
    params = sorted(model.get_params(deep=False).items())
    found = {
        name: _recorded(value) for name, value in params if name not in WITHOUT_EFFECT
    }
    if "loss" in found:
        found["loss"] = recorded_loss(model.loss)
    return found


def recorded_loss(loss: Any) -> str:
    """Return the name of a loss; one of the user's own has a digest of its values."""
    if isinstance(loss, str):
        return loss
    numbers = digest(loss.value(LOOKED_AT), loss.derivative(LOOKED_AT))
    return f"{_recorded(loss)} {numbers['sha256'][:8]}"


def _recorded(value: Any) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, str | int | float | None):
        return value
    return getattr(value, "__qualname__", type(value).__qualname__)


def all_of(*listeners: Callable[[State], bool | None] | None) -> Callback | None:
    """Return one callback for several; all are called, also when one ends the run."""
    parts = [part for part in listeners if part is not None]

    def call(state: State) -> bool:
        ends = [part(state) for part in parts]
        return any(ends)

    return call if parts else None


# --- parameters -----------------------------------------------------------------------


def check_parameters(model: Any) -> None:
    """Raise ValueError for a parameter that no fit can use."""
    name = type(model).__name__
    number = check_number
    word = check_word
    number(name, "scale", model.scale, low=0, strict=True, words=("auto",))
    number(name, "prior", model.prior, low=0, words=("auto",))
    if model.norm is not None:
        word(name, "norm", model.norm, ("l2",), also=" or None")
    _check_loss(name, model.loss)
    word(name, "oracle", model.oracle, oracle.ORACLES)
    word(name, "step", model.step, steps.RULES)
    word(name, "init", model.init, INITS)
    if not callable(model.mining):
        also = " or a callable (X, y, rng)"
        word(name, "mining", model.mining, supervision.METHODS, also=also)
    for parameter in ("n_targets", "n_impostors"):
        number(name, parameter, getattr(model, parameter), low=1, integer=True)
    for parameter in ("min_rows", "max_iter"):
        number(
            name,
            parameter,
            getattr(model, parameter),
            low=1,
            integer=True,
            words=("auto",),
        )
    number(name, "batch_size", model.batch_size, low=1, integer=True, words=(None,))
    number(name, "max_anchors", model.max_anchors, low=2, integer=True, words=(None,))
    number(name, "tol", model.tol, low=0)
    number(
        name,
        "validation_fraction",
        model.validation_fraction,
        low=0,
        strict=True,
        high=1,
    )
    number(name, "memory_limit", model.memory_limit, low=0, words=("auto", None))
    if not isinstance(model.verbose, bool):
        number(name, "verbose", model.verbose, low=0)
    _check_objects(name, model)
    check_device(name, model.device)
    if model.device != "cpu":
        if not isinstance(model.loss, str) or not losses.has_kernel(model.loss):
            names = ", ".join(filter(losses.has_kernel, losses.LOSSES))
            raise ValueError(
                f"The 'loss' parameter of {name} must be one of {names} with "
                f"device={model.device!r}. Got {model.loss!r}: a loss without a "
                "kernel for the card needs device='cpu'."
            )
        runtime.get_device(model.device)  # raises where there is none, before any work


def _check_loss(owner: str, loss: Any) -> None:
    """Raise ValueError unless `loss` is a known name or an object that works."""
    if isinstance(loss, str | type) or not losses.is_loss(
        loss
    ):  # a class is not a loss yet
        also = " or an object with value(), derivative() and curvature()"
        check_word(owner, "loss", loss, losses.LOSSES, also=also)
        return
    given = losses.CheckedLoss(loss)
    try:
        value, slope, bend = (
            m(LOOKED_AT) for m in (given.value, given.derivative, given.curvature)
        )
    except ValueError as error:
        raise ValueError(f"The 'loss' parameter of {owner}: {error}") from None
    # The slope of a convex function is between those of its chords.
    chords = np.diff(value) / np.diff(LOOKED_AT)
    slack = 1e-6 * (1.0 + np.abs(slope).max())
    is_between = (chords[:-1] - slack <= slope[1:-1]) & (
        slope[1:-1] <= chords[1:] + slack
    )
    faults = {
        "derivative() is not negative at -3: a loss falls where margins rise": slope[0]
        >= 0.0,
        "derivative() is not that of value(), or value() is not convex": not is_between.all(),
        "curvature() is negative, which no convex function has": (bend < 0.0).any(),
    }
    for fault, is_there in faults.items():
        if is_there:
            raise ValueError(f"The 'loss' parameter of {owner}: {fault}.")


def _check_objects(owner: str, model: Any) -> None:
    """Raise ValueError for what is not a function, a number of threads or a path."""
    if model.callback is not None and not callable(model.callback):
        raise ParameterError(
            owner, "callback", "a callable", repr(model.callback), " or None"
        )
    n_jobs = model.n_jobs
    is_count = isinstance(n_jobs, numbers.Integral) and not isinstance(n_jobs, bool)
    if n_jobs is not None and (not is_count or n_jobs == 0 or abs(n_jobs) > MOST_JOBS):
        wanted = f"an int other than 0, up to {MOST_JOBS}"
        raise ParameterError(owner, "n_jobs", wanted, f"{n_jobs!r:.80}", ", or None")
    if (
        not isinstance(model.checkpoint, str | os.PathLike | None)
        or model.checkpoint == ""
    ):
        wanted = "the path of a file"
        raise ParameterError(
            owner, "checkpoint", wanted, repr(model.checkpoint), ", or None"
        )
