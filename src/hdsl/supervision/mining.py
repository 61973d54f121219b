"""Comparisons made from labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from .. import triplets as triplets_module
from ..input.comparisons import check_comparisons
from ..input.errors import NoTripletError
from ..labels import LabelSets, ranks
from .supervision import Supervision

METHODS = ("neighbors", "random")

#: Rows (anchor, positive, negative) or (a, b, c, d), and one weight for each or None.
Compared = tuple[np.ndarray, np.ndarray | None]


class Mining(NamedTuple):
    """How comparisons are made from labels; the parameters of ``HDSL`` by these names."""

    mining: str | Callable[..., np.ndarray] = "neighbors"
    n_targets: int = 10
    n_impostors: int = 10
    max_anchors: int | None = None
    n_jobs: int | None = None
    device: str = "cpu"
    memory_limit: float | str | None = "auto"

    @classmethod
    def of(cls, model: Any) -> Mining:
        """Return how a model makes comparisons; what it has no parameter for is the default."""
        given = {
            name: getattr(model, name) for name in cls._fields if hasattr(model, name)
        }
        return cls(**given)


def compare(how: Mining, data: Supervision, rng: np.random.Generator) -> Supervision:
    """Return rows with comparisons: those given, or those made from the labels.

    Beyond `max_anchors` rows the comparisons are of a sample of the rows, and so is the
    result.
    """
    if data.compared is not None:
        return data
    if not callable(how.mining):
        data = (
            data.take(rows)
            if (rows := sample_rows(how, data, rng)) is not None
            else data
        )
    made, weights = _make(how, data, rng)
    return replace(data, compared=made, compared_weights=weights)


def sample_rows(
    how: Mining, data: Supervision, rng: np.random.Generator
) -> np.ndarray | None:
    """Return the rows that are compared, sorted; None where all are.

    Rows of weight 0 are not. Of more than `max_anchors` rows each class has its share.
    A class whose share is too small for its rows to have target neighbours is in the
    sample with rows enough for that, or not at all.
    """
    n_all = data.X.shape[0]
    rows = np.arange(n_all) if data.weights is None else np.flatnonzero(data.weights)
    n = len(rows)
    limit = how.max_anchors or len(rows)
    if n == n_all and n <= limit:
        return None
    codes = np.unique(data.codes[rows], return_inverse=True)[1]
    if n < n_all and not codes.any():
        raise NoTripletError(
            "No triplet can be built: sample_weight is 0 in all classes but one."
        )
    if n <= limit:
        return rows
    size = np.bincount(codes)
    rank = ranks(codes, np.argsort(rng.random(n)))
    share = limit / n * size
    least = np.minimum(size, how.n_targets + 1)
    # Shares are rounded so that they add up: a running sum crosses a whole number or
    # not.
    classes = rng.permutation(len(size))
    units = np.where(share < least, share / least, share)[classes]
    crossed = np.diff(np.floor(np.cumsum(units) + rng.random()), prepend=0.0)
    wanted = np.empty(len(size), dtype=np.int64)
    wanted[classes] = crossed.astype(np.int64)
    wanted = np.where(share < least, wanted * least, np.maximum(wanted, least))
    if np.count_nonzero(wanted) < 2:  # of one class nothing can be compared
        largest = np.argsort(-size, kind="stable")[:2]
        wanted[largest] = least[largest]
    return rows[rank < wanted[codes]]


def _make(how: Mining, data: Supervision, rng: np.random.Generator) -> Compared:
    """Return comparisons of rows by their labels, and their weights."""
    X = data.X
    y = data.y
    weights = data.weights
    several = isinstance(y, LabelSets)
    if callable(how.mining):
        made = how.mining(X, y.as_given() if several else y, rng)
        made = check_comparisons(made, X.shape[0], width=3)
        of_anchors = None if weights is None else weights[made[:, 0]]
        if of_anchors is not None and not of_anchors.any():
            raise NoTripletError(
                "All triplets have an anchor of weight 0: give a positive "
                "sample_weight to some row that has a neighbour of its own class."
            )
        return made, of_anchors
    if how.mining == "random":
        rows = np.arange(X.shape[0]) if weights is None else np.flatnonzero(weights)
        n_per_row = how.n_targets * how.n_impostors
        if several:
            made, degree = triplets_module.random_shared_triplets(
                y[rows], n_per_row, rng
            )
            made = rows[made]
            return made, degree if weights is None else degree * weights[made[:, 0]]
        seed = int(rng.integers(2**31 - 1))
        made = rows[
            triplets_module.random_triplets(y[rows], n_per_row, random_state=seed)
        ]
        return made, None if weights is None else weights[made[:, 0]]
    # Equal rows are one point that counts several times: as neighbours of each other
    # they would crowd out the others and say nothing.
    codes = data.codes
    rows, weight = triplets_module.distinct_rows(
        triplets_module.row_keys(X), codes, weights
    )
    options: Any = {
        "n_jobs": how.n_jobs,
        "device": how.device,
        "memory_limit": how.memory_limit,
    }
    given = X[rows], y[rows], how.n_targets, how.n_impostors
    if several:
        made, degree = triplets_module.shared_label_triplets(*given, **options)
        return rows[made], degree * weight[made[:, 0]]
    n_rows = len(codes) if weights is None else np.count_nonzero(weights)
    if n_rows > len(rows) and np.bincount(codes[rows]).max() == 1:
        raise NoTripletError(
            "No triplet can be built: the rows of each class are equal, at unit "
            "length with norm='l2', so no row has another one of its class to compare "
            "with. Pass triplets= to give judgements directly."
        )
    made = triplets_module.neighbor_triplets(*given, **options)
    weight = weight[made[:, 0]]
    return rows[made], None if (weight == weight[0]).all() else weight
