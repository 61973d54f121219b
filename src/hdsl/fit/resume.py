"""What identifies a run, and the checkpoint that it can resume from."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import numpy as np

from ..files.checkpoint import Checkpoint, digest
from ..files.container import nested, part_of
from ..solver.loop import Arrays, Restarts, Result
from ..supervision.compared_rows import Supervision
from .parameters import PROBE_MARGINS

#: Parameters that the model at the end of a run does not depend on.
WITHOUT_EFFECT = {
    "callback",
    "checkpoint",
    "client",
    "device",
    "memory_limit",
    "n_jobs",
    "owner",
    "timeout",
    "verbose",
    "warm_start",
}


def checkpoint_hooks(checkpoint: Checkpoint | None, saved: Arrays) -> Restarts | None:
    """Return where the solver resumes, and what saves a run with what is around it."""
    if checkpoint is None:
        return None

    def save(arrays: Callable[[], Arrays]) -> None:
        checkpoint.write_if_due(lambda: {**saved, **nested(run=arrays())})

    latest = None
    if checkpoint.arrays is not None:
        latest = part_of(checkpoint.arrays, "run")
    return Restarts(latest, save)


def keep_checkpoint(model: Any, checkpoint: Checkpoint | None) -> None:
    """Remember the file of a run that has ended: it is deleted when the model is saved."""
    model.__dict__.pop("checkpoint_file_", None)
    if checkpoint is not None and model.status_ == "interrupted":
        checkpoint.flush()
    elif checkpoint is not None:
        model.checkpoint_file_ = checkpoint.file


def identity_of_run(
    model: Any,
    data: Supervision,
    validation: Supervision | None,
    earlier: Result | None,
) -> dict[str, Any]:
    """Return all that the end of a run depends on, data by their digests."""
    identity = {
        **recorded_parameters(model),
        "X": digest(data.X),
        "labels, triplets or weights": data.fingerprint(),
        "validation rows": digest(None),
        "validation labels or triplets": digest(None),
        "path so far": digest(None),
        "version of hdsl": version("hdsl"),
    }
    if validation is not None:
        identity["validation rows"] = digest(validation.X)
        identity["validation labels or triplets"] = validation.fingerprint()
    if earlier is not None:
        path = digest(earlier.atoms, earlier.weights, earlier.n_iter)
        identity["path so far"] = path
    return identity


def recorded_parameters(model: Any) -> dict[str, Any]:
    """Return the parameters that the end of a run depends on; of functions and objects the name."""
    parameters = sorted(vars(model).items())
    recorded = {
        name: _recorded(value)
        for name, value in parameters
        if name not in WITHOUT_EFFECT
    }
    if "loss" in recorded:
        recorded["loss"] = recorded_loss(model.loss)
    return recorded


def recorded_loss(loss: Any) -> str:
    """Return the name of a loss; one of the user's own has a digest of its values."""
    if isinstance(loss, str):
        return loss
    numbers = digest(loss.value(PROBE_MARGINS), loss.derivative(PROBE_MARGINS))
    return f"{_recorded(loss)} {numbers['sha256'][:8]}"


def _recorded(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str | int | float | None):
        return value
    return getattr(value, "__qualname__", type(value).__qualname__)
