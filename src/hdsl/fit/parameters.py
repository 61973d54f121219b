"""Checks of the parameters of a model."""

from __future__ import annotations

import numbers
import os
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..cuda import runtime
from ..input.embeddings import check_embedding
from ..input.errors import ParameterError
from ..input.parameters import check_device, check_number, check_word
from ..settings import flat_parameters
from ..solver import losses, oracle, steps
from ..supervision.compared_rows import METHODS

GOALS = ("auto", "neighbors", "comparisons", "search")

INITS = ("zero", "oracle", "random")

#: Most threads; more are a mistake in the number.
MOST_JOBS = 10_000

#: A larger weight of an embedding leaves nothing of the features.
LARGEST_WEIGHT = 1e15

#: Margins at which a loss of the user's own is looked at.
PROBE_MARGINS = np.linspace(-3.0, 3.0, 25)


def is_scale_open(model: Any) -> bool:
    """Return whether the bound of what is learned inside an embedding is to be chosen."""
    return bool(model.embedding_scale == "auto")


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
