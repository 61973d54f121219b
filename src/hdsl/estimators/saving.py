"""A fitted model to a file and back."""

from __future__ import annotations

import platform
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..files.model import read_model, write_model
from .parameters import NOT_SAVED

if TYPE_CHECKING:
    from .hdsl import HDSL


def save(model: HDSL, path: Any, extra: dict[str, Any] | None = None) -> None:
    """Write a fitted model to a file, with more arrays and plain values where given."""
    write_model(path, _state(model) if extra is None else {**_state(model), "extra": extra})


def _state(model: HDSL) -> dict[str, Any]:
    """Return all that a model file holds of a fitted model."""
    check_is_fitted(model, "atoms_")
    state = {
        name: getattr(model, name + "_")
        for name in (
            "atoms", "weights", "scale", "prior", "objective", "gap", "gap_is_exact", "status",
            "n_iter", "n_triplets", "n_features_in", "trace", "norm", "columns",
        )
    }  # fmt: skip
    params = model.get_params(deep=False)
    state["params"] = {k: v for k, v in params.items() if k not in NOT_SAVED}
    state["trace"] = model.trace_.copy()
    state["trace"]["seconds"] = np.nan
    state["feature_names_in"] = getattr(model, "feature_names_in_", None)
    state["versions"] = {
        "hdsl": version("hdsl"),
        "numpy": np.__version__,
        "python": platform.python_version(),
    }
    return state


def load(path: Any) -> HDSL:
    """Return the model that ``HDSL.save`` wrote; no code in the file is ever run.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    HDSL

    Raises
    ------
    ValueError
        The file is damaged, of another program, or of a newer format.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from hdsl import HDSL, load
    >>> model = HDSL(scale=1.0, prior=0.0).fit([[1, 0], [0, 1]], triplets=[[0, 0, 1]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "model.hdsl")
    ...     model.save(path)
    ...     load(path).atoms_.tolist()
    [[0, 1, -1]]
    """
    from .hdsl import HDSL

    state = read_model(path)
    known = HDSL().get_params()
    left_out = state.pop("params_left_out")
    params = state.pop("params").items()
    given = known.keys() - NOT_SAVED - set(left_out)  # a file does not configure the machine
    model = HDSL(**{name: v for name, v in params if name in given})
    for name in ("versions", "extra"):
        state.pop(name)
    for name, value in state.items():
        if value is not None or name in ("norm", "columns"):
            setattr(model, name + "_", value)
    if "validation_score" in (model.trace_.dtype.names or ()):
        score = float(model.trace_["validation_score"][model.n_iter_])
        if not np.isnan(score):
            model.validation_score_ = score
    return model
