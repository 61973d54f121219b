"""Models of atoms as plain arrays for a file, and back, checked."""

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from .files import container
from .files.container import Arrays, dumps, get_value
from .input.errors import short
from .printable import Columns
from .similarity.arrays import (
    ranking_from,
    similarity_from_arrays,
    similarity_to_arrays,
)
from .similarity.query_memory import QueryMemory
from .similarity.similarity import Similarity
from .solver.directions import check_directions
from .solver.trace import NO_CORRECTIONS, check_corrections, check_trace

#: Parameters that say how a machine works, not what is learned: they are not saved.
NOT_SAVED = {
    "client",
    "device",
    "n_jobs",
    "timeout",
    "verbose",
}

#: Fitted numbers that are saved, and the least value of each count.
FLOATS = ("objective", "gap")
COUNTS = {"n_iter": 0, "n_triplets": 1}

#: Columns of what was tried that every table has, and all in their order, as
#: `evaluate.choose` has them.
CHOICE = {"prior", "n_iter", "score", "error", "chosen"}

ORDER_OF_CHOICE = (
    "prior",
    "n_iter",
    "score",
    "error",
    "gain",
    "gain_low",
    "gain_high",
    "n_units",
    *(
        f"{effect}{end}"
        for effect in ("neighbors", "comparisons", "search", "known_rows")
        for end in ("", "_low", "_high")
    ),
    "embedding_weight",
    "embedding_scale",
    "chosen",
)

#: Columns of earlier versions, which measured otherwise.
OLD_COLUMNS = {"mrr", "n_better", "n_worse", "n_queries", "by_clicks"}


def model_to_arrays(model: Any) -> tuple[Arrays, dict[str, Any]]:
    """Return a fitted model with atoms as plain arrays, and what of it is no array."""
    from .settings import flat_parameters  # a search needs no scikit-learn

    arrays, header = similarity_to_arrays(model.similarity_)
    trace = model.trace_.copy()
    trace["seconds"] = np.nan  # the same model makes the same bytes
    for name, table in {"trace": trace, "corrections": model.corrections_}.items():
        columns, header[name] = container.pack_table(table, name)
        arrays |= columns
    if model.path_directions_ is not None:
        arrays["path_directions"] = model.path_directions_
    forbidden = getattr(model, "forbidden_pairs_", None)
    if forbidden is not None:
        arrays["forbidden_pairs"] = np.asarray(forbidden, dtype=np.int64)
    arrays |= names_to_arrays(model)
    arrays |= container.nested(choice=getattr(model, "choice_", None) or {})
    memory = getattr(model, "memory_", None)
    if memory is not None:
        memory_arrays, header["memory"] = memory.to_arrays()
        arrays |= container.nested(memory=memory_arrays)
    header |= {name: int(getattr(model, name + "_")) for name in COUNTS}
    header |= {name: float(getattr(model, name + "_")) for name in FLOATS}
    header["status"] = model.status_
    header["gap_is_exact"] = bool(model.gap_is_exact_)
    header["loss"] = model.loss_
    if model.embedding_weight_ is not None:
        header["embedding_weight"] = float(model.embedding_weight_)
        header["embedding_scale"] = float(model.embedding_scale_)
    header["ranking"] = model.ranking_
    header["params"] = plain_params(flat_parameters(model))
    return arrays, header


def model_from_arrays(kind: Any, arrays: Arrays, header: dict[str, Any]) -> Any:
    """Return the model, of a class, that `model_to_arrays` was given; ValueError if damaged."""
    similarity = similarity_from_arrays(arrays, header)
    from .settings import flat_parameters, nested_parameters

    params = get_value(header, "params", dict)
    known = flat_parameters(kind())
    changed = {
        name: value
        for name, value in params.items()
        if name in known and name not in NOT_SAVED and value != known[name]
    }
    model = kind(**nested_parameters(**changed))
    _set_similarity(model, similarity, header)
    _set_numbers(model, header)
    _set_path(model, arrays, header)
    model.forbidden_pairs_ = _forbidden_from(arrays, model.n_features_in_)
    model.choice_ = choice_from(arrays)
    model.ranking_ = ranking_from(header)
    model.memory_ = memory_from(arrays, header)
    names_from_arrays(model, arrays)
    return model


def _set_similarity(model: Any, similarity: Similarity, header: dict[str, Any]) -> None:
    """Give a model the attributes that its similarity has too."""
    model.atoms_ = similarity.atoms
    model.weights_ = similarity.weights
    model.scale_ = similarity.scale
    model.directions_ = similarity.directions
    model.n_features_in_ = similarity.n_features
    prior = similarity.fixed[0]
    model.prior_ = prior.weight
    model.norm_ = prior.norm
    model.columns_ = prior.length_columns
    model.embedding_width_ = similarity.n_features - similarity.n_paired
    model.embedding_weight_ = None
    model.embedding_scale_ = None
    if model.embedding_width_:
        weight = get_value(header, "embedding_weight", float)
        if not 0.0 <= weight < math.inf:
            raise ValueError(f"embedding_weight is {weight}, expected >= 0")
        model.embedding_weight_ = weight
        model.embedding_scale_ = 0.0  # as in older files
        if "embedding_scale" in header:
            model.embedding_scale_ = get_value(header, "embedding_scale", float)
        if not 0.0 <= model.embedding_scale_ < math.inf:
            scale = model.embedding_scale_
            raise ValueError(f"embedding_scale is {scale}, expected >= 0")


def _set_numbers(model: Any, header: dict[str, Any]) -> None:
    """Give a model what a header says of its fit."""
    for name, least in COUNTS.items():
        value = get_value(header, name, int)
        if not least <= value < 2**63:
            raise ValueError(f"{name} is {short(value)}, expected an int >= {least}")
        setattr(model, name + "_", value)
    for name in FLOATS:
        setattr(model, name + "_", get_value(header, name, float))
    model.status_ = get_value(header, "status", str)
    model.loss_ = get_value(header, "loss", str)
    model.gap_is_exact_ = get_value(header, "gap_is_exact", bool)


def _set_path(model: Any, arrays: Arrays, header: dict[str, Any]) -> None:
    """Give a model the steps of its path, checked against its numbers."""
    n_features = model.n_features_in_
    n_directions = 0
    model.path_directions_ = None
    if "path_directions" in arrays:
        vectors = arrays["path_directions"]
        check_directions(vectors, model.embedding_width_)
        model.path_directions_ = vectors
        n_directions = len(vectors)
    model.trace_ = container.unpack_table(arrays, "trace", header.get("trace"))
    check_trace(model.trace_, model.n_iter_, n_features, n_directions)
    layout = header.get("corrections")
    model.corrections_ = container.unpack_table(arrays, "corrections", layout)
    if not len(model.corrections_):
        model.corrections_ = NO_CORRECTIONS.copy()
    n_records = len(model.trace_)
    check_corrections(model.corrections_, n_records, n_features, n_directions)


def _forbidden_from(arrays: Arrays, n_features: int) -> np.ndarray | None:
    """Return the pairs of features that may not be learned, None without any."""
    pairs = arrays.get("forbidden_pairs")
    if pairs is None:
        return None
    is_table = pairs.dtype.kind == "i" and pairs.ndim == 2 and pairs.shape[1] == 2
    if not is_table or not ((pairs >= 0) & (pairs < n_features)).all():
        raise ValueError("forbidden_pairs are not pairs of features")
    return pairs


def choice_from(arrays: Arrays) -> Columns | None:
    """Return what was tried, its columns in order; None where nothing was."""
    choice = container.part_of(arrays, "choice")
    if not choice:
        return None
    if OLD_COLUMNS & {*choice}:
        others = OLD_COLUMNS | {"search", "gain", "gain_low", "gain_high"}
        choice = {name: column for name, column in choice.items() if name not in others}
    names = [name for name in ORDER_OF_CHOICE if name in choice]
    shapes = {np.shape(column) for column in choice.values()}
    is_complete = {*choice} == {*names} and {*names} >= CHOICE
    if not is_complete or len(shapes) != 1 or len(shapes.pop()) != 1:
        raise ValueError("choice is not a table")
    return Columns({name: choice[name] for name in names})


def memory_from(arrays: Arrays, header: dict[str, Any]) -> QueryMemory | None:
    """Return the memory of judged queries of a model, None without one."""
    if header.get("memory") is None:
        return None
    similarity = similarity_from_arrays(arrays, header)
    n_features = similarity.n_features
    parts = container.part_of(arrays, "memory")
    if "vectors" not in parts:  # an embedding without weight was left out
        n_features = similarity.n_paired
    facts = get_value(header, "memory", dict)
    return QueryMemory.from_arrays(parts, facts, n_features)


def names_to_arrays(model: Any) -> Arrays:
    """Return the names of the features as arrays; none where the model has no names."""
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        return {}
    return container.pack_strings("feature_names", names.tolist())


def names_from_arrays(model: Any, arrays: Arrays) -> None:
    """Give a model the names of its features, where there are some; ValueError if damaged."""
    if "feature_names.text" not in arrays:
        return
    names = container.get_strings(arrays, "feature_names")
    if len(names) != model.n_features_in_:
        raise ValueError(
            f"there are {len(names)} names for {model.n_features_in_} features"
        )
    model.feature_names_in_ = names


def plain_params(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that are saved: those that JSON has a form for, in that form."""
    plain = {}
    for name, value in params.items():
        try:
            plain[name] = json.loads(dumps(value))
        except ValueError:  # a function or an object: code is not saved
            continue
    return {name: value for name, value in plain.items() if name not in NOT_SAVED}
