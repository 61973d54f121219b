"""``hdsl info``: versions and the machine, a model, or the memory that a fit needs."""

from __future__ import annotations

import os
from argparse import Namespace
from pathlib import Path
from typing import Any

from . import shared_options
from .output import show_json, show_table
from .shared_options import OptionGroup, add_command

Facts = dict[str, object]

#: Libraries that the figures of a model may depend on.
LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba")

#: Fitted attributes that say how a model was learned.
FITTED = ("scale_", "prior_", "n_triplets_", "n_iter_", "status_")


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = add_command(commands, info)
    about_file = "a model file, or a matrix of rows: .npz or svmlight"
    parser.add_argument("data", metavar="FILE", type=Path, nargs="?", help=about_file)
    options = OptionGroup(parser, "facts")
    about_triplets = "Triplets per row. Default: as `hdsl fit` makes from labels."
    options.add_integer("--per-row", about_triplets)
    shared_options.add_zero_based(options)
    shared_options.add_json(options)


def info(arguments: Namespace) -> None:
    """Show versions and the machine, a model, or the memory that a fit to a matrix needs.

    For example:

      hdsl info model.hdsl

      hdsl info X.npz
    """
    facts = _machine_facts()
    if arguments.data is not None:
        facts |= _file_facts(arguments)
    if arguments.as_json:
        show_json(facts)
    else:
        show_table([(name, _shown(value)) for name, value in facts.items()])


def _shown(value: Any) -> str:
    """Return a fact as text.

    Examples
    --------
    >>> [_shown(value) for value in (2214, 1880.27, {"hdsl": "0.1.0", "numpy": "2.4"})]
    ['2214', '1880', 'hdsl 0.1.0, numpy 2.4']
    """
    if isinstance(value, dict):
        return ", ".join(f"{name} {version}" for name, version in value.items())
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value)


# --- the machine ----------------------------------------------------------------------


def _machine_facts() -> Facts:
    """Return versions, and what the machine has."""
    import platform
    from importlib.metadata import version

    facts: Facts = {"hdsl": version("hdsl"), "python": platform.python_version()}
    facts |= {name: version(name) for name in LIBRARIES}
    facts["cores"] = _n_cores()
    facts["free memory"] = _free_memory()
    facts["gpu"] = _gpu()
    return facts


def _n_cores() -> int | None:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count()


def _free_memory() -> str:
    from .. import memory

    free = memory.available()
    if free is None:
        return "unknown"
    return memory.format_bytes(free)


def _gpu() -> str:
    """Return the card that ``device="cuda"`` takes, or why there is none."""
    from ..cuda.runtime import DeviceError, get_device
    from ..memory import format_bytes

    try:
        card = get_device()
    except DeviceError as error:
        return f"none ({error})"
    return f"{card.name}, {format_bytes(card.memory()['free'])} free"


# --- a file ---------------------------------------------------------------------------


def _file_facts(arguments: Namespace) -> Facts:
    """Return what a file holds: a model, or rows that a fit may take."""
    from . import files, inputs

    path = arguments.data
    files.check_size(path)
    if files.is_table(path):
        raise ValueError(
            f"{path} is a table: hdsl info takes a model file or a matrix of rows "
            "(.npz, svmlight)."
        )
    if _is_model(path):
        return _model_facts(path)
    data = inputs.read_data(path, zero_based=arguments.zero_based)
    return _fit_facts(data.X, arguments.per_row)


def _is_model(path: Path) -> bool:
    """Return whether a file is a model, by its name, or as it begins like safetensors."""
    if path.suffix == ".hdsl":
        return True
    with path.open("rb") as file:
        return file.read(9)[8:] == b"{"


def _model_facts(path: Path) -> Facts:
    """Return what a model file holds, and how the model was learned."""
    from ..files import container
    from . import files

    collection = files.load_collection(path)
    _, header = container.read(path)
    learned = collection.learned
    facts: Facts = {
        "kind": type(learned).__name__,
        "made by": header.get("versions"),
        "documents": collection.documents.n_rows,
        "queries": _n_queries(collection),
        "labels": _n_labels(collection.documents),
        "features": collection.scored.n_words,
        "class scores": collection.scored.n_scores,
    }
    if collection.words is not None:
        facts["tokens"] = collection.words.unit
    if collection.scored.embedding_width:
        facts["embedding"] = collection.scored.embedding_width
        facts["embedding weight"] = learned.embedding_weight_
        if learned.directions_ is not None:
            facts["embedding directions"] = len(learned.directions_)
    if collection.encoder is not None:
        facts["encoder"] = collection.encoder.name
    for name in FITTED:
        if hasattr(learned, name):
            facts[name.removesuffix("_")] = getattr(learned, name)
    return facts


def _n_queries(collection: Any) -> int:
    """Return the number of queries that are no documents."""
    if collection.queries is None:
        return 0
    return int(collection.queries.n_queries)


def _n_labels(documents: Any) -> int:
    """Return the number of different labels of documents."""
    if documents.labels is None:
        return 0
    from .measure import labels_of, n_different

    return n_different(labels_of(documents))


def _fit_facts(X: Any, n_per_row: int | None) -> Facts:
    """Return the memory that a fit with the default parameters takes, or with other triplets."""
    from .. import memory
    from ..fit.layouts import estimate_fit
    from ..fit.parameters import FitParameters
    from ..hdsl import HDSL

    model = FitParameters.of(HDSL())
    n_rows = min(X.shape[0], model.max_anchors or X.shape[0])  # more rows are sampled
    triplets = _spread_triplets(
        n_rows, n_per_row or model.n_targets * model.n_impostors
    )
    need = estimate_fit(model, X[:n_rows], triplets)
    free = memory.available()
    return {
        "rows": X.shape[0],
        "features": X.shape[1],
        "values": X.nnz,
        "triplets": len(triplets),
        "a fit takes": str(need),
        "fits": free is None or need.total <= free,
    }


def _spread_triplets(n_rows: int, n_per_row: int) -> Any:
    """Return triplets that name about as many pairs of rows as those that a fit makes."""
    import numpy as np

    anchor = np.repeat(np.arange(n_rows), n_per_row)
    shift = np.tile(np.arange(n_per_row), n_rows)
    positive = anchor + 1 + shift // 10
    negative = anchor + 11 + shift % 10
    return np.column_stack([anchor, positive, negative]) % n_rows
