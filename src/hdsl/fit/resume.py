"""What identifies a run, and the checkpoint that it can resume from."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import numpy as np

from ..files.checkpoint import Checkpoint
from ..files.digests import digest
from ..files.tables import nested, part_of
from ..labels import LabelSets
from ..solver.loop import (
    Arrays,
    Rests,
    Result,
)
from ..supervision.supervision import Supervision
from .parameters import PROBE_MARGINS

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


def checkpoint_hooks(checkpoint: Checkpoint | None, saved: Arrays) -> Rests | None:
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
    numbers = digest(loss.value(PROBE_MARGINS), loss.derivative(PROBE_MARGINS))
    return f"{_recorded(loss)} {numbers['sha256'][:8]}"


def _recorded(value: Any) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, str | int | float | None):
        return value
    return getattr(value, "__qualname__", type(value).__qualname__)
