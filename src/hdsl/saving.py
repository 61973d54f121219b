"""A fitted model to a file and back."""

import os
import platform
from importlib import import_module
from importlib.metadata import version
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from .files import container
from .files.container import (
    Arrays,
    OtherVersionError,
    damaged,
    get_value,
    nested,
    part_of,
)
from .input.errors import short

#: What a file may hold, and the module of each class, with ``to_arrays`` and
#: ``from_arrays``.
KINDS = {
    "HDSL": "hdsl",
    "ClassScores": "class_scores",
    "Linker": "linking",
    "Collection": "text",
}

#: What older files may hold, and the module outside the package that has it now.
GONE = {"LocalHDSL": "reproduce.local_hdsl"}

PIPELINE = "Pipeline"


def save(model: Any, path: Any) -> None:
    """Write a fitted model to one file, completely or not at all; `load` reads it.

    The file is safetensors with a JSON header, and holds no code. The same model makes
    the same bytes. The checkpoint of the run that made the model is deleted.

    Parameters
    ----------
    model : HDSL, Linker, Collection or Pipeline
        Fitted. A pipeline has such models and `ClassScores` as steps. Of `ClassScores`
        the file holds the weights of its classifier, which must be linear, such as
        ``LinearSVC`` or ``LogisticRegression``.
    path : str or path-like
        By convention ``*.hdsl``.

    Raises
    ------
    ValueError
        The model, or a part of it, has no form without code.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from sklearn.pipeline import make_pipeline
    >>> from hdsl import HDSL, ClassScores, Mining, load, save
    >>> X, y = np.eye(6), [0, 0, 0, 1, 1, 1]
    >>> mining = Mining(n_targets=1, n_impostors=1)
    >>> model = make_pipeline(ClassScores(cv=3), HDSL(mining=mining)).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "model.hdsl")
    ...     save(model, path)
    ...     bool((load(path).transform(X) == model.transform(X)).all())
    True
    """
    arrays, header = to_arrays(model)
    versions = {"hdsl": version("hdsl"), "numpy": np.__version__}
    versions["python"] = platform.python_version()
    container.write(path, arrays, {**header, "versions": versions})
    steps = [model]
    if hasattr(model, "steps"):
        steps = [step for _, step in model.steps]
    for step in steps:
        checkpoint = vars(step).pop("checkpoint_file_", None)
        if checkpoint is not None:
            checkpoint.remove()


def load(path: Any) -> Any:
    """Return the model in a file of `save`; code in the file is never run.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    HDSL, Linker, Collection or Pipeline
        What was saved. A file of ``hdsl fit`` holds a `hdsl.text.Collection`, which
        searches and explains texts; its ``model`` is the model.

    Raises
    ------
    ValueError
        The file is damaged, of another program, or of another format.

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
    arrays, header = container.read(path)
    if "checkpoint" in header:
        raise ValueError(
            f"Cannot load {os.fsdecode(path)!r}: it is the checkpoint of a run that "
            "did not end. To resume the run, fit with the same data and parameters "
            "and this checkpoint."
        )
    try:
        return from_arrays(arrays, header)
    except OtherVersionError as error:
        raise OtherVersionError(
            f"Cannot load {os.fsdecode(path)!r}: {error}."
        ) from None
    except (
        ValueError,
        TypeError,
        AttributeError,
        LookupError,
        OverflowError,
        RecursionError,
    ) as error:
        raise ValueError(
            f"Cannot load {os.fsdecode(path)!r}: {damaged(str(error))}"
        ) from None


def to_arrays(model: Any) -> tuple[Arrays, dict[str, Any]]:
    """Return a fitted model as arrays of numbers, and a header that says its kind."""
    if type(model).__name__ == PIPELINE:
        return _pipeline_to_arrays(model)
    kind = _kind_of(model)
    arrays, header = model.to_arrays()
    return arrays, {**header, "kind": kind}


def _pipeline_to_arrays(pipeline: Any) -> tuple[Arrays, dict[str, Any]]:
    """Return the arrays of each step under its number, and the header of each with its name."""
    arrays = {}
    headers = []
    for number, (name, step) in enumerate(pipeline.steps):
        arrays[str(number)], header = to_arrays(step)
        headers.append([name, header])
    return nested(**arrays), {"kind": PIPELINE, "steps": headers}


def _kind_of(model: Any) -> str:
    """Return the class of the package that a model is of; raise ValueError if there is none."""
    for base in type(model).__mro__:
        is_ours = base.__module__.split(".")[0] == __package__
        if is_ours and base.__name__ in KINDS:
            return base.__name__
    raise ValueError(
        f"A model file holds {', '.join(KINDS)}, or a pipeline of them. Got "
        f"{type(model).__name__}: save it with joblib."
    )


def from_arrays(arrays: Arrays, header: dict[str, Any]) -> Any:
    """Return the model of `to_arrays`; raise ValueError, TypeError or KeyError where it is none."""
    kind = get_value(header, "kind", str)
    if kind == PIPELINE:
        return _pipeline_from_arrays(arrays, get_value(header, "steps", list))
    if kind in GONE:
        raise OtherVersionError(
            f"it holds {kind}, which has left the package: fit again, with {GONE[kind]} "
            "of the repository"
        )
    if kind not in KINDS:
        raise OtherVersionError(
            f"it holds {short(kind)}, which this version does not know: update hdsl"
        )
    module = import_module(f".{KINDS[kind]}", __package__)
    return getattr(module, kind).from_arrays(arrays, header)


def _pipeline_from_arrays(arrays: Arrays, headers: list[Any]) -> Any:
    """Return the pipeline of steps, a name and a header each; raise ValueError where it is none."""
    from sklearn.pipeline import Pipeline

    steps = []
    for number, (name, header) in enumerate(headers):
        is_name = isinstance(name, str) and "__" not in name
        if not is_name or header.get("kind") in (PIPELINE, None):
            raise ValueError(f"step {number} of the pipeline is none")
        steps.append((name, from_arrays(part_of(arrays, str(number)), header)))
    for (_, first), (_, second) in pairwise(steps):
        n_columns = _n_columns_out(first)
        # An embedding passes by the steps before.
        n_expected = second.n_features_in_ - getattr(second, "embedding_width_", 0)
        if n_columns != n_expected:
            raise ValueError(f"a step makes {n_columns} columns for {n_expected}")
    if len(dict(steps)) < len(steps) or not steps:
        raise ValueError("the steps of the pipeline have no names of their own")
    return Pipeline(steps)


def _n_columns_out(step: Any) -> int:
    """Return how many columns a step passes on to the next one."""
    n_columns = step.n_features_in_ + len(getattr(step, "classes_", ()))
    if not hasattr(step, "similarity_"):
        return n_columns
    return step.similarity_.transform(sp.csr_array((1, n_columns))).shape[1]
