"""What a fit goes by: its parameters, checked, and the numbers that they come to."""

from __future__ import annotations

import math
import numbers
import os
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from ..cuda import runtime
from ..evaluate.choose import FIXED_STEPS, Choice
from ..files.checkpoint import digest
from ..input.embeddings import check_embedding
from ..input.errors import ParameterError
from ..input.parameters import check_device, check_number, check_word
from ..settings import flat_parameters
from ..similarity.cosine import COSINE, RANKINGS
from ..solver import losses, oracle, steps
from ..solver.statistics import Statistics
from ..solver.trace import Arrays
from ..supervision.compared_rows import METHODS, ComparedRows

GOALS = ("auto", "neighbors", "comparisons", "search")


INITS = ("zero", "oracle", "random")


#: Most threads; more are a mistake in the number.
MOST_JOBS = 10_000


#: A larger weight of an embedding leaves nothing of the features.
LARGEST_WEIGHT = 1e15


#: Margins at which a loss of the user's own is looked at.
PROBE_MARGINS = np.linspace(-3.0, 3.0, 25)


#: scale="auto" makes the learned part this many times as large as the typical margin,
#: for one anchor. It grows with the root of the number of anchors, as the excess risk
#: grows with scale / sqrt(rows), and with the number of values that a row rests on
#: where these are many, as they share the margin of the dot product.
SCALE_MARGIN = 9.0


SCALE_VALUES = 80.0


#: Digits of the mean ‖x‖² that are not rounding: an embedding has 32 bits.
UNIT_DIGITS = 7


#: min_rows="auto" is this power of the number of rows.
MIN_ROWS_POWER = 0.125


class FitParameters(SimpleNamespace):
    """What a fit goes by: the parameters of a model side by side, and those of the call.

    The names are those of `HDSL`, `Solver`, `Mining` and ``fit``; ``Mining.how`` has the
    name "mining". ``owner`` is the name of the model's class for messages.
    """

    @classmethod
    def of(
        cls,
        model: Any,
        *,
        checkpoint: Any = None,
        callback: Any = None,
        memory_limit: float | str | None = "auto",
    ) -> FitParameters:
        """Return the parameters of a model and of a call of ``fit``, checked."""
        parameters = cls(
            owner=type(model).__name__,
            **flat_parameters(model),
            checkpoint=checkpoint,
            callback=callback,
            memory_limit=memory_limit,
        )
        check_parameters(parameters)
        return parameters

    @property
    def is_scale_open(self) -> bool:
        """Whether the bound of what is learned inside an embedding is to be chosen."""
        return bool(self.embedding_scale == "auto")

    @property
    def n_iterations(self) -> int:
        """The number of iterations if nothing is chosen."""
        if self.max_iter == "auto":
            return FIXED_STEPS
        return int(self.max_iter)

    def least_rows(self, n_rows: int) -> int:
        """Return the number of rows that a feature must have to be paired."""
        if self.min_rows != "auto":
            return int(self.min_rows)
        return max(1, round(n_rows**MIN_ROWS_POWER))

    def scale_for(self, statistics: Statistics) -> float:
        """Return the scale: as given, or as it suits the data."""
        if self.scale == "auto":
            return automatic_scale(statistics)
        return float(self.scale)


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
    """Return the mean ‖x‖² of the anchors, which automatic priors are divided by.

    Its last digits are rounding, of which a prior of 255.99999935 would come.
    """
    if statistics.own_similarity > 0:
        return float(f"{statistics.own_similarity:.{UNIT_DIGITS}g}")
    return 1.0


# --- checked -------------------------------------------------------------------------


def check_parameters(model: FitParameters) -> None:
    """Raise ValueError for a parameter that no fit can use."""
    name = model.owner
    check_number(name, "scale", model.scale, low=0, strict=True, words=("auto",))
    check_number(name, "prior", model.prior, low=0, words=("auto",))
    check_word(name, "goal", model.goal, GOALS)
    check_embedding(name, model.embedding)
    check_number(
        name,
        "embedding_weight",
        model.embedding_weight,
        low=0,
        high=LARGEST_WEIGHT,
        words=("auto",),
    )
    check_number(
        name,
        "embedding_scale",
        model.embedding_scale,
        low=0,
        high=LARGEST_WEIGHT,
        words=("auto",),
    )
    if model.norm is not None:
        check_word(name, "norm", model.norm, ("l2",), also=" or None")
    _check_loss(name, model.loss)
    check_word("Solver", "oracle", model.oracle, oracle.ORACLES)
    check_word("Solver", "step", model.step, steps.RULES)
    check_word("Solver", "init", model.init, INITS)
    if not callable(model.mining):
        also = " or a callable (X, y, rng)"
        check_word("Mining", "how", model.mining, METHODS, also=also)
    for parameter in ("n_targets", "n_impostors"):
        value = getattr(model, parameter)
        check_number("Mining", parameter, value, low=1, integer=True)
    for owner, parameter in ((name, "min_rows"), ("Solver", "max_iter")):
        check_number(
            owner,
            parameter,
            getattr(model, parameter),
            low=1,
            integer=True,
            words=("auto",),
        )
    check_number(
        "Solver", "batch_size", model.batch_size, low=1, integer=True, words=(None,)
    )
    check_number(
        "Mining", "max_anchors", model.max_anchors, low=2, integer=True, words=(None,)
    )
    check_number("Solver", "tol", model.tol, low=0)
    check_number(
        name,
        "validation_fraction",
        model.validation_fraction,
        low=0,
        strict=True,
        high=1,
    )
    check_number("fit", "memory_limit", model.memory_limit, low=0, words=("auto", None))
    if not isinstance(model.verbose, bool):
        check_number(name, "verbose", model.verbose, low=0)
    _check_objects(name, model)
    check_device(name, model.device)
    if model.device != "cpu":
        if not isinstance(model.loss, str) or not losses.has_kernel(model.loss):
            names = ", ".join(losses.names_with_kernel())
            raise ValueError(
                f"The 'loss' parameter of {name} must be one of {names} with "
                f"device={model.device!r}. Got {model.loss!r}: a loss without a "
                "kernel for the card needs device='cpu'."
            )
        runtime.get_device(model.device)  # raises where there is none, before any work


def _check_loss(owner: str, loss: Any) -> None:
    """Raise ValueError unless `loss` is a known name or an object that works."""
    # A class is not a loss yet.
    if isinstance(loss, str | type) or not losses.is_loss(loss):
        also = " or an object with value(), derivative() and curvature()"
        check_word(owner, "loss", loss, losses.LOSSES, also=also)
        return
    checked = losses.CheckedLoss(loss)
    try:
        value = checked.value(PROBE_MARGINS)
        slope = checked.derivative(PROBE_MARGINS)
        bend = checked.curvature(PROBE_MARGINS)
    except ValueError as error:
        raise ValueError(f"The 'loss' parameter of {owner}: {error}") from None
    # The slope of a convex function is between those of its chords.
    chords = np.diff(value) / np.diff(PROBE_MARGINS)
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
    for fault, is_present in faults.items():
        if is_present:
            raise ValueError(f"The 'loss' parameter of {owner}: {fault}.")


def _check_objects(owner: str, model: Any) -> None:
    """Raise ValueError for what is not a function, a number of threads or a path."""
    if model.callback is not None and not callable(model.callback):
        raise ParameterError(
            "fit", "callback", "a callable", repr(model.callback), " or None"
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
            "fit", "checkpoint", wanted, repr(model.checkpoint), ", or None"
        )


# --- settled -------------------------------------------------------------------------


#: The numbers of a run in its checkpoint.
IN_CHECKPOINT = (
    "scale",
    "prior",
    "max_iter",
    "ranking",
    "embedding_scale",
    "fingerprint",
)


class Settings(NamedTuple):
    """The numbers that a run goes by, and how rows are ranked by what it learns."""

    scale: float
    prior: float
    max_iter: int
    ranking: str = COSINE
    embedding_scale: float = 0.0

    @classmethod
    def continued(cls, model: Any, parameters: FitParameters) -> Settings:
        """Return the numbers of the path of a model that goes on."""
        return cls(
            model.scale_,
            model.prior_,
            model.n_iter_ + parameters.n_iterations,
            model.ranking_,
            model.embedding_scale_ or 0.0,
        )

    @classmethod
    def new(
        cls,
        parameters: FitParameters,
        statistics: Statistics,
        choice: Choice | None,
        weight: float,
    ) -> Settings:
        """Return the numbers as given, automatic or chosen; `weight` is that of an embedding."""
        scale = parameters.scale_for(statistics)
        embedding_scale = 0.0
        if parameters.embedding_scale != "auto":
            embedding_scale = float(parameters.embedding_scale)
        if choice is None:
            prior = float(parameters.prior)
            n_iter = parameters.n_iterations
            return cls(scale, prior, n_iter, embedding_scale=embedding_scale)
        prior = choice.prior / _prior_unit(parameters, statistics)
        if parameters.embedding_scale == "auto":
            embedding_scale = choice.embedding_scale * prior * weight
        return cls(scale, prior, choice.n_iter, choice.ranking, embedding_scale)

    @classmethod
    def in_checkpoint(cls, arrays: Arrays, compared: ComparedRows | None) -> Settings:
        """Return the numbers of a checkpoint; raise ValueError if no run can have them."""
        numbers = dict(zip(IN_CHECKPOINT, arrays["size"].tolist(), strict=False))
        is_valid = (
            arrays["size"].shape == (len(IN_CHECKPOINT),)
            and all(0 <= number < math.inf for number in numbers.values())
            and numbers["scale"] > 0
            and numbers["ranking"] < len(RANKINGS)
        )
        if not is_valid:
            raise ValueError("scale and prior are not numbers that a run can have.")
        if numbers.pop("fingerprint") != _fingerprint(compared):
            raise ValueError("`mining` gave other triplets than when the run began.")
        return cls(
            scale=numbers["scale"],
            prior=numbers["prior"],
            max_iter=int(numbers["max_iter"]),
            ranking=RANKINGS[int(numbers["ranking"])],
            embedding_scale=numbers["embedding_scale"],
        )

    def as_array(self, compared: ComparedRows | None) -> np.ndarray:
        """Return the numbers as a checkpoint has them, with a fingerprint of the comparisons."""
        numbers: dict[str, float] = {
            **self._asdict(),
            "ranking": RANKINGS.index(self.ranking),
            "fingerprint": _fingerprint(compared),
        }
        return np.array([numbers[name] for name in IN_CHECKPOINT], dtype=np.float64)


def weight_in_checkpoint(arrays: Arrays) -> float:
    """Return the weight of the embedding in a checkpoint; raise ValueError if damaged."""
    weight = arrays.get("embedding_weight", np.empty(0))
    if weight.shape != (1,) or not np.isfinite(weight[0]) or weight[0] < 0:
        raise ValueError("the embedding weight is not a number that a run can have.")
    return float(weight[0])


def table_as_used(
    parameters: FitParameters,
    statistics: Statistics,
    choice: Choice | None,
    weight: float,
) -> Arrays | None:
    """Return what was tried, with numbers as a model has them; None if nothing was."""
    if choice is None or choice.table is None:
        return None
    priors = choice.table["prior"] / _prior_unit(parameters, statistics)
    table = {**choice.table, "prior": priors}
    if "embedding_scale" in table:
        inside = table["embedding_scale"]
        units = np.where(inside > 0.0, priors, 0.0) * weight
        table["embedding_scale"] = inside * units
    return table


def _prior_unit(parameters: FitParameters, statistics: Statistics) -> float:
    """Return what candidates for the prior are divided by."""
    if parameters.prior == "auto":
        return own_similarity(statistics)
    return 1.0


def _fingerprint(data: ComparedRows | None) -> float:
    """Return a number of the comparisons, equal for equal ones."""
    compared = None if data is None else data.compared
    weights = None if data is None else data.weights
    return float(int(digest(compared, weights)["sha256"][:12], 16))
