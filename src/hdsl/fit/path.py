"""The path of a fit: what it has learned, cut, continued, and the checkpoint it resumes from."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np

from ..files.checkpoint import Checkpoint, digest
from ..files.container import nested, part_of
from ..progress import duration
from ..similarity import FixedPart
from ..similarity.fixed import EMBEDDING
from ..solver.atoms import ActiveSet, are_directions
from ..solver.directions import principal_directions
from ..solver.loop import Arrays, Restarts, Result
from ..solver.trace import replay
from ..supervision.compared_rows import Supervision
from .parameters import PROBE_MARGINS

#: Parts of a result that are fitted attributes.
FITTED = (
    "objective",
    "gap",
    "gap_is_exact",
    "n_iter",
    "status",
    "trace",
    "corrections",
)


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


class LearnedParts(NamedTuple):
    """What a combination of atoms is: pairs of features, and directions of an embedding.

    Attributes
    ----------
    atoms : ndarray of shape (n_atoms, 3)
    weights : ndarray of shape (n_atoms,)
    directions : ndarray of shape (n_directions, width) or None
        V of W = VᵀV; None where nothing is learned inside an embedding.
    """

    atoms: np.ndarray
    weights: np.ndarray
    directions: np.ndarray | None

    @classmethod
    def of(
        cls,
        atoms: np.ndarray,
        weights: np.ndarray,
        vectors: np.ndarray | None,
        scale: float | None,
    ) -> LearnedParts:
        """Return atoms of both kinds apart; `vectors` are those that directions name.

        `scale` is s, the bound of the trace of W.
        """
        is_direction = are_directions(atoms)
        directions = None
        if vectors is not None and is_direction.any():
            numbers = atoms[is_direction, 1]
            directions = principal_directions(
                vectors[numbers].astype(np.float64), scale * weights[is_direction]
            )
        return cls(atoms[~is_direction], weights[~is_direction], directions)


def set_parts(model: Any, atoms: np.ndarray, weights: np.ndarray) -> None:
    """Give a model what a combination of atoms is."""
    vectors = model.path_directions_
    parts = LearnedParts.of(atoms, weights, vectors, model.embedding_scale_)
    model.atoms_ = parts.atoms
    model.weights_ = parts.weights
    model.directions_ = parts.directions


def fixed_parts(model: Any) -> tuple[FixedPart, ...]:
    """Return the fixed parts of a fitted model, which take rows as a user has them."""
    n_sparse = model.n_features_in_ - model.embedding_width_
    prior = FixedPart("prior", model.prior_, model.norm_, model.columns_)
    if model.embedding_width_ == 0:
        return (prior,)
    features = FixedPart(
        "prior", model.prior_, model.norm_, model.columns_, stop=n_sparse
    )
    weight = float(model.prior_ * model.embedding_weight_)
    embedding = FixedPart(
        EMBEDDING, weight, norm="l2", start=n_sparse, by_feature=False
    )
    return features, embedding


def summary(model: Any) -> str:
    """Return what a fit has learned, in one line."""
    n = len(model.weights_)
    seconds = float(model.trace_["seconds"][-1])
    line = (
        f"{model.n_iter_} iterations in {duration(seconds)} ({model.status_}), "
        f"objective {model.objective_:.4g}, {n} feature pair{'' if n == 1 else 's'}"
    )
    if model.directions_ is not None:
        line += f", {len(model.directions_)} directions of the embedding"
    return line


# --- cut and continued ---------------------------------------------------------------


def model_at(model: Any, n_iter: int) -> Any:
    """Return a copy of a fitted model as it was after `n_iter` iterations."""
    copied = copy(model)
    active = _replayed(model, n_iter)
    then = model.trace_[n_iter]
    if n_iter != model.n_iter_:
        set_parts(copied, active.atoms, active.weights)
    copied.objective_ = float(then["objective"])
    copied.gap_ = float(then["gap"])
    copied.gap_is_exact_ = bool(then["gap_is_exact"])
    copied.n_iter_ = n_iter
    copied.trace_ = model.trace_[: n_iter + 1]
    copied.corrections_ = _corrections_until(model, n_iter)
    copied.status_ = "at"
    # The whole path is not saved with this model.
    copied.__dict__.pop("checkpoint_file_", None)
    return copied


def weights_of_path(model: Any) -> ActiveSet:
    """Return what a model has learned as atoms with weights, directions among them."""
    if model.path_directions_ is not None:
        return _replayed(model, model.n_iter_)
    return ActiveSet(model.atoms_, model.weights_)


def _replayed(model: Any, n_iter: int) -> ActiveSet:
    """Return the combination of atoms after `n_iter` iterations of the path of a model."""
    return replay(model.trace_, n_iter, model.corrections_)


def path_so_far(model: Any) -> Result:
    """Return the path of a fitted model, for a run to continue."""
    known = {name: getattr(model, name + "_") for name in FITTED}
    known |= {"trace": model.trace_[: model.n_iter_ + 1]}
    active = weights_of_path(model)
    known |= {"atoms": active.atoms, "weights": active.weights}
    known |= {"directions": model.path_directions_}
    return Result(**known | {"corrections": _corrections_until(model, model.n_iter_)})


def _corrections_until(model: Any, n_iter: int) -> np.ndarray:
    return model.corrections_[
        : np.searchsorted(model.corrections_["n_iter"], n_iter + 1)
    ]


def check_same_path(model: Any, parameters: Any) -> None:
    """Raise ValueError where a path would go on with another scale, prior, norm or domain."""
    if parameters.norm != model.norm_:
        raise ValueError(
            f"The path so far has norm {model.norm_!r}, but the 'norm' parameter is "
            f"{parameters.norm!r}: set norm={model.norm_!r}, or fit with warm_start=False."
        )
    is_of_zero = abs(float(model.weights_.sum()) - 1.0) > 1e-9
    if model.path_directions_ is not None:
        is_of_zero = _replayed(model, model.n_iter_).zero is not None
    if parameters.init != "zero" and is_of_zero:
        raise ValueError(
            "The path so far has init='zero', but the 'init' parameter is "
            f"{parameters.init!r}: set init='zero', or fit with warm_start=False."
        )
    loss = recorded_loss(parameters.loss)
    if loss != model.loss_:
        raise ValueError(
            f"The path so far has the loss {model.loss_!r}, but the 'loss' parameter "
            f"is {loss!r}: set that of the path, or fit with warm_start=False."
        )
    names = ["scale", "prior"]
    if model.embedding_weight_ is not None:
        names += ["embedding_weight", "embedding_scale"]
    for name in names:
        value = getattr(parameters, name)
        used = getattr(model, name + "_")
        if value != "auto" and value != used:
            raise ValueError(
                f"The path so far has {name} {used:g}, but the {name!r} parameter is "
                f"{value!r}. Set {name}={used!r} to continue it, or start again: fit "
                "with warm_start=False."
            )


# --- the checkpoint of a run ---------------------------------------------------------


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
    forbidden: np.ndarray | None,
) -> dict[str, Any]:
    """Return all that the end of a run depends on, data by their digests.

    `forbidden` are the pairs that the path to continue may not learn.
    """
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
        path = digest(earlier.atoms, earlier.weights, earlier.n_iter, forbidden)
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
