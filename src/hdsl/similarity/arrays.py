"""A similarity as plain arrays for a file, and back, checked."""

import math
from typing import Any

import numpy as np

from ..files import container
from ..files.container import Arrays, get_array, get_value, nested, part_of
from ..input.errors import short
from ..solver.atoms import check_atoms
from .cosine import COSINE, RANKINGS
from .fixed import FixedPart
from .similarity import Similarity

#: What of a fixed part is no array.
PART_VALUES = ("name", "weight", "norm", "start", "stop", "by_feature")


def similarity_to_arrays(similarity: Similarity) -> tuple[Arrays, dict[str, Any]]:
    """Return a similarity as plain arrays, and what of it is no array."""
    arrays = {
        "atoms": similarity.atoms,
        "weights": np.asarray(similarity.weights, np.float64),
    }
    if similarity.has_directions:
        arrays["directions"] = np.asarray(similarity.directions, np.float64)
    fixed = []
    for k, fixed_part in enumerate(similarity.fixed):
        fixed.append({name: getattr(fixed_part, name) for name in PART_VALUES})
        if fixed_part.length_columns is not None:
            columns = {"columns": fixed_part.length_columns}
            arrays |= nested(**{f"fixed.{k}": columns})
    header = {
        "scale": similarity.scale,
        "fixed": fixed,
        "n_features": similarity.n_features,
    }
    return arrays, header


def similarity_from_arrays(arrays: Arrays, header: dict[str, Any]) -> Similarity:
    """Return the similarity of `similarity_to_arrays`; raise ValueError if damaged."""
    n_features = get_value(header, "n_features", int)
    scale = get_value(header, "scale", float)
    if not 0.0 < scale < math.inf:
        raise ValueError(f"scale is {scale}, expected a finite number > 0")
    if "fixed" in header:
        fixed = tuple(
            _fixed_part(part_of(arrays, f"fixed.{k}"), values, n_features)
            for k, values in enumerate(get_value(header, "fixed", list))
        )
    else:
        fixed = (_only_part(arrays, header, n_features),)
    atoms = get_array(arrays, "atoms", "i")
    weights = get_array(arrays, "weights", "f")
    check_atoms(atoms, weights, n_features)
    directions = None
    if "directions" in arrays:
        directions = get_array(arrays, "directions", "f", (None, None))
    return Similarity(atoms, weights, scale, fixed, n_features, directions)


def ranking_from(header: dict[str, Any]) -> str:
    """Return how rows are ranked; older files do not say it, and rank by the cosine."""
    ranking = header.get("ranking", COSINE)
    if ranking not in RANKINGS:
        raise ValueError(f"ranking is {short(ranking)}, expected one of {RANKINGS}")
    return str(ranking)


def _only_part(arrays: Arrays, header: dict[str, Any], n_features: int) -> FixedPart:
    """Return the fixed part of a file of format 5, which has no list of parts."""
    values = {
        "name": "prior",
        "weight": header.get("prior"),
        "norm": header.get("norm"),
        "start": 0,
        "stop": None,
        "by_feature": True,
    }
    return _fixed_part(arrays, values, n_features)


def _fixed_part(arrays: Arrays, values: dict[str, Any], n_features: int) -> FixedPart:
    """Return a fixed part from its own arrays and values; raise ValueError if damaged."""
    name = get_value(values, "name", str)
    weight = get_value(values, "weight", float)
    if not 0.0 <= weight < math.inf:
        raise ValueError(f"the weight of {short(name)} is {weight}, expected >= 0")
    norm = values.get("norm")
    if norm not in (None, "l2"):
        raise ValueError(f"norm is {short(norm)}, expected 'l2' or null")
    start = get_value(values, "start", int)
    stop = values.get("stop")
    end = n_features
    if stop is not None:
        end = get_value(values, "stop", int)
    is_empty = start == end == 0 < n_features  # beside an embedding alone
    if not (0 <= start < end <= n_features or is_empty):
        raise ValueError(f"{short(name)} has the columns from {start} to {end}")
    columns = None
    if "columns" in arrays:
        columns = get_array(arrays, "columns", "i")
        container.check_columns(columns, end - start)
    return FixedPart(
        name=name,
        weight=weight,
        norm=norm,
        length_columns=columns,
        start=start,
        stop=stop,
        by_feature=get_value(values, "by_feature", bool),
    )
