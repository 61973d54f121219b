"""What a person changes of a fitted model: pairs of features that never count, or always."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from difflib import get_close_matches
from typing import Any

import numpy as np

from ..input.errors import short
from ..input.parameters import check_number
from ..solver.atoms import ZERO, ActiveSet, are_directions, as_keys
from ..solver.trace import NO_ATOM, TRACE_DTYPE, StepRecord, correction_records
from .path import set_parts, weights_of_path

#: What stands between the two names of a pair, as explanations print it.
BETWEEN = " ~ "

#: Most pairs that a message of a fault names.
N_NAMED = 3


def without(model: Any, pairs: Any, names: np.ndarray | None) -> Any:
    """Return a model in which pairs of features never count; the rest stays as it is."""
    forbidden = numbers_of_pairs(pairs, names, model.n_features_in_)
    unwanted = {*map(tuple, forbidden.tolist())}
    active = weights_of_path(model)
    is_kept = np.array(
        [(i, j) not in unwanted for i, j, _ in as_keys(active.atoms)], dtype=bool
    )
    edited = _edited(model, active.atoms[is_kept], active.weights[is_kept])
    earlier = forbidden_pairs(model)
    if earlier is not None:
        forbidden = np.unique(np.concatenate([earlier, forbidden]), axis=0)
    edited.forbidden_pairs_ = forbidden
    return edited


def with_pairs(
    model: Any, pairs: Any, names: np.ndarray | None, weight: float | None
) -> Any:
    """Return a model with weight·(x_i + x_j)(x'_i + x'_j) added to S for each pair."""
    forced = numbers_of_pairs(pairs, names, model.n_features_in_)
    check_number("with_pairs", "weight", weight, low=0, strict=True, words=(None,))
    if weight is None:
        weight = model.prior_ or 1.0
    active = weights_of_path(model)
    weights = dict(zip(as_keys(active.atoms), active.weights.tolist(), strict=True))
    for i, j in forced.tolist():
        atom = (i, j, 1)
        weights[atom] = weights.get(atom, 0.0) + weight / model.scale_
    atoms = np.array([*weights], dtype=np.int64).reshape(-1, 3)
    edited = _edited(model, atoms, np.array([*weights.values()]))
    earlier = forbidden_pairs(model)
    if earlier is not None:
        wanted = {*map(tuple, forced.tolist())}
        left = [pair for pair in map(tuple, earlier.tolist()) if pair not in wanted]
        edited.forbidden_pairs_ = np.array(left, dtype=np.int64).reshape(-1, 2)
    return edited


def forbidden_pairs(model: Any) -> np.ndarray | None:
    """Return the pairs that a model may not learn, None where there are none."""
    pairs = getattr(model, "forbidden_pairs_", None)
    if pairs is None or not len(pairs):
        return None
    return np.asarray(pairs)


def _edited(model: Any, atoms: np.ndarray, weights: np.ndarray) -> Any:
    """Return a copy of a model with other atoms; its path begins anew, at nothing learned.

    Weights that sum to more than 1 make the scales larger.
    """
    edited = copy(model)
    total = max(1.0, float(weights.sum()))
    weights = weights / total
    edited.scale_ = model.scale_ * total
    if model.embedding_scale_ is not None:
        edited.embedding_scale_ = model.embedding_scale_ * total
    zero = max(0.0, 1.0 - float(weights.sum()))
    after = ActiveSet(atoms, weights, zero)
    trace = np.zeros(2, TRACE_DTYPE)
    for name in ("objective", "gap"):
        trace[name] = np.nan
    start = StepRecord.of("start", 1.0, ZERO, NO_ATOM, drop=False)
    edit = StepRecord.of("edit", 1.0, NO_ATOM, NO_ATOM, drop=False)
    for k, step in enumerate((start, edit)):
        for name, value in step._asdict().items():
            trace[name][k] = value
    is_paired = ~are_directions(atoms)
    trace["n_atoms"][1] = len(atoms)
    trace["n_features"][1] = len(np.unique(atoms[is_paired, :2]))
    edited.trace_ = trace
    edited.corrections_ = correction_records(1, ActiveSet.of(ZERO), after)
    set_parts(edited, atoms, weights)
    edited.n_iter_ = 1
    edited.objective_ = np.nan
    edited.gap_ = np.nan
    edited.gap_is_exact_ = False
    edited.status_ = "edited"
    # The path of the model before is not this one's.
    edited.__dict__.pop("checkpoint_file_", None)
    return edited


def numbers_of_pairs(
    pairs: Any, names: np.ndarray | None, n_features: int
) -> np.ndarray:
    """Return pairs of features as numbers, each once, the smaller one first.

    Examples
    --------
    >>> names = np.array(["cat", "dog", "pet"], dtype=object)
    >>> numbers_of_pairs(["pet ~ cat", ("dog", 2)], names, 3).tolist()
    [[0, 2], [1, 2]]
    """
    if isinstance(pairs, str):
        pairs = [pairs]
    position = {}
    if names is not None:
        position = {str(name): k for k, name in enumerate(names.tolist())}
    numbers = [
        sorted(_number(end, position, n_features) for end in _ends(pair))
        for pair in pairs
    ]
    for i, j in numbers:
        if i == j:
            raise ValueError(f"A pair has two different features. Got {i} twice.")
    if not numbers:
        raise ValueError("There is no pair of features: name one or more.")
    return np.unique(np.array(numbers, dtype=np.int64), axis=0)


def _ends(pair: Any) -> Iterable[Any]:
    """Return the two features of a pair; ValueError where it is none."""
    ends = pair
    if isinstance(pair, str):
        ends = pair.split(BETWEEN)
    if not hasattr(ends, "__len__") or len(ends) != 2:
        raise ValueError(
            "A pair is two names or numbers of features, or a text as 'cat ~ dog'. Got "
            f"{short(pair)}."
        )
    return ends


def _number(feature: Any, position: dict[str, int], n_features: int) -> int:
    """Return the number of a feature; ValueError where there is no such feature."""
    if isinstance(feature, int | np.integer) and not isinstance(feature, bool):
        if 0 <= feature < n_features:
            return int(feature)
        raise ValueError(
            f"There is no feature {feature}: they are numbered from 0 to "
            f"{n_features - 1}."
        )
    if not position:
        raise ValueError(
            f"The model has no names of features, but a pair names {short(feature)}: "
            "pass feature_names=, or numbers."
        )
    name = str(feature).strip()
    if name in position:
        return position[name]
    near = get_close_matches(name, position, N_NAMED)
    hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
    raise ValueError(f"{name!r} is not a feature of the model.{hint}")
