"""Checks of HDSL's parameters, and what a file or a checkpoint records of them."""

from __future__ import annotations

import numbers
import os
from typing import TYPE_CHECKING, Any

import numpy as np

from . import checks
from .cuda import runtime
from .landmarks import OBJECTIVES, check_landmarks
from .mining import CENTERS, METHODS
from .solver import losses, oracle, steps

if TYPE_CHECKING:
    from .hdsl import HDSL

INITS = ("zero", "oracle", "random")

NORMS = ("l2",)

STORAGES = ("float64", "float32")

#: Parameters that the model at the end of a run does not depend on.
WITHOUT_EFFECT = {
    "callback", "checkpoint", "client", "device", "memory_limit", "n_components", "n_jobs",
    "timeout", "verbose", "warm_start",
}  # fmt: skip

#: Parameters that say how to run on a machine, and nothing of the model.
NOT_SAVED = {
    "checkpoint", "client", "device", "memory_limit", "n_jobs", "n_shards", "timeout", "verbose",
}  # fmt: skip

#: Most threads; more are a mistake in the number.
MOST_JOBS = 10_000


def check_parameters(model: HDSL) -> None:
    """Raise ValueError for a parameter that no fit can use."""
    name = type(model).__name__
    number, word = checks.check_number, checks.check_word
    number(name, "scale", model.scale, low=0, strict=True, words=("auto",))
    number(name, "prior", model.prior, low=0, words=("auto",))
    if model.norm is not None:
        word(name, "norm", model.norm, NORMS, also=" or None")
    _check_loss(name, model.loss)
    word(name, "oracle", model.oracle, oracle.ORACLES)
    word(name, "step", model.step, steps.RULES)
    word(name, "step_size", model.step_size, steps.STEP_SIZES)
    word(name, "init", model.init, INITS)
    word(name, "objective", model.objective, OBJECTIVES)
    word(name, "storage", model.storage, STORAGES)
    check_landmarks(name, model.landmarks)
    if not callable(model.mining):
        word(name, "mining", model.mining, METHODS, also=" or a callable (X, y, rng)")
    for parameter in ("n_targets", "n_impostors", "max_iter"):
        number(name, parameter, getattr(model, parameter), low=1, integer=True)
    if model.class_centers is not None:
        word(name, "class_centers", model.class_centers, CENTERS, also=" or None")
    for parameter in ("batch_size", "mine_every", "n_iter_no_change", "n_components"):
        number(name, parameter, getattr(model, parameter), low=1, integer=True, words=(None,))
    number(name, "tol", model.tol, low=0)
    number(name, "validation_fraction", model.validation_fraction, low=0, strict=True, high=1)
    number(name, "memory_limit", model.memory_limit, low=0, words=("auto", None))
    _check_objects(name, model)
    _check_device(name, model)
    if model.objective == "classification":
        _check_classification(name, model)
    if model.step_size != "line_search" and model.step != "forward":
        raise ValueError(
            f"The 'step_size' parameter of {name} can be {model.step_size!r} with "
            f"step='forward' only. Got step={model.step!r}: use step_size='line_search'."
        )


def _check_classification(owner: str, model: HDSL) -> None:
    """Raise ValueError for parameters of triplets of rows, which this objective does not make."""
    for parameter, default in (
        ("mining", "neighbors"),
        ("class_centers", None),
        ("mine_every", None),
    ):
        value = getattr(model, parameter)
        if value is not default and value != default:
            raise ValueError(
                f"The {parameter!r} parameter of {owner} has no meaning with "
                f"objective='classification', which compares rows with landmarks; got {value!r}. "
                "Leave it at its default, or set objective='triplets'."
            )


def _check_loss(owner: str, loss: Any) -> None:
    """Raise ValueError unless `loss` is a known name or an object that works."""
    methods = "value(), derivative() and curvature()"
    if isinstance(loss, str | type) or not losses.is_loss(loss):  # a class is not a loss yet
        also = f" or an object with {methods}"
        checks.check_word(owner, "loss", loss, losses.LOSSES, also=also)
        return
    of = losses.CheckedLoss(loss)
    try:
        for method in (of.value, of.derivative, of.curvature):
            method(np.array([-1.0, 0.5]))
    except ValueError as error:
        raise ValueError(f"The 'loss' parameter of {owner}: {error}") from None


def _check_device(owner: str, model: HDSL) -> None:
    """Raise ValueError or DeviceError for a device that a fit cannot run on."""
    device = model.device
    checks.check_device(owner, device)
    if device != "cpu":
        if not isinstance(model.loss, str):
            raise ValueError(
                f"The 'loss' parameter of {owner} must be one of {', '.join(losses.LOSSES)} with "
                f"device={device!r}. Got {model.loss!r}: a loss of your own needs device='cpu'."
            )
        runtime.get_device(device)  # raises where there is none, before any work


def _check_objects(owner: str, model: HDSL) -> None:
    """Raise ValueError for a function, a number of threads or a path that is none."""
    for parameter in ("scoring", "callback"):
        value = getattr(model, parameter)
        if value is not None and not callable(value):
            raise ValueError(
                f"The {parameter!r} parameter of {owner} must be a callable or None. Got "
                f"{value!r} instead."
            )
    n_jobs = model.n_jobs
    is_count = isinstance(n_jobs, numbers.Integral) and not isinstance(n_jobs, bool)
    if n_jobs is not None and (not is_count or n_jobs == 0 or abs(n_jobs) > MOST_JOBS):
        wanted = f"an int other than 0, up to {MOST_JOBS}"
        raise checks.ParameterError(owner, "n_jobs", wanted, f"{n_jobs!r:.80}", ", or None")
    if not isinstance(model.checkpoint, str | os.PathLike | None) or model.checkpoint == "":
        raise ValueError(
            f"The 'checkpoint' parameter of {owner} must be the path of a file, or None. Got "
            f"{model.checkpoint!r} instead."
        )


def class_rows(model: HDSL) -> dict[str, Any]:
    """Return which rows stand for classes, as `Supervision.check` takes it."""
    is_classification = model.objective == "classification"
    return {
        "class_centers": model.class_centers,
        "landmarks": model.landmarks if is_classification else None,
    }


def check_same_path(model: HDSL) -> None:
    """Raise ValueError where a path would go on with another scale, prior, norm or domain."""
    if model.norm != model.norm_:
        raise ValueError(
            f"The path so far has norm {model.norm_!r}, but the 'norm' parameter is "
            f"{model.norm!r}: set norm={model.norm_!r}, or fit with warm_start=False."
        )
    if model.init != "zero" and abs(float(model.weights_.sum()) - 1.0) > 1e-9:
        raise ValueError(
            f"The path so far has init='zero', but the 'init' parameter is {model.init!r}: set "
            "init='zero', or fit with warm_start=False."
        )
    for name in ("scale", "prior"):
        value, used = getattr(model, name), getattr(model, name + "_")
        if value != "auto" and value != used:
            raise ValueError(
                f"The path so far has {name} {used:g}, but the {name!r} parameter is "
                f"{value!r}. Set {name}={used!r} to go on with it, or start anew: fit with "
                "warm_start=False."
            )


def recorded_parameters(model: HDSL) -> dict[str, Any]:
    """Return the parameters that the end of a run depends on; of functions and objects the name."""
    params = sorted(model.get_params(deep=False).items())
    return {name: _recorded(value) for name, value in params if name not in WITHOUT_EFFECT}


def _recorded(value: Any) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, str | int | float | None):
        return value
    return getattr(value, "__qualname__", type(value).__qualname__)
