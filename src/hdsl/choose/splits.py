"""Parts of the data to learn from and to choose by."""

from __future__ import annotations

import warnings
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from ..input.errors import NoTripletError
from ..supervision.mining import Mining, compare, sample_rows
from ..supervision.splits import count_splittable, split_anchors, split_rows
from ..supervision.supervision import Supervision
from .judges import Judge, judge_comparisons, judge_labels

#: Most neighbours of one kind per row to learn from: they tell priors apart at half the
#: time.
MOST_MINED = 5

#: Most rows (or anchors) to learn from and to choose by: a part is enough to tell
#: priors apart.
MOST_TRAIN = 3000

MOST_HELD = 1500

#: Comparisons for each of them, in the mean, that are enough.
MOST_EACH = 100

#: A choice by fewer held-out rows, anchors or comparisons is not made.
FEW_ROWS = 50

FEW_ANCHORS = 20

FEW_COMPARISONS = 200


@dataclass(frozen=True)
class Part:
    """A part of the data to learn from, with comparisons, and what judges what is learned."""

    train: Supervision
    judge: Judge


def make_parts(
    model: Any, data: Supervision, held: Supervision | None, rng: np.random.Generator
) -> list[Part]:
    """Return parts to learn from and to choose by; none where the data are too few.

    They are folds where rows are few, else one split. Given validation data replace the
    split.
    """
    if held is not None:
        return [_part(model, data, held, rng)]
    n_folds = max(2, round(1.0 / model.validation_fraction))
    if data.is_judged or callable(model.mining):
        data = compare(Mining.of(model), data, rng)
        data = _at_most(
            replace(data, y=None, weights=None), MOST_TRAIN + MOST_HELD, rng
        )
        n_units = len(data.anchors)
        if n_units < FEW_ANCHORS or len(data.compared) < FEW_COMPARISONS:
            return []
        splits = split_anchors(data, n_folds, rng)
    else:
        splits = split_rows(data, n_folds, rng)
        n_units = count_splittable(data)
        if n_units < FEW_ROWS:
            return []
    usable = (
        (train, out)
        for train, out in splits
        if train.counts()
        and out.counts()
        and (train.is_judged or train.codes.max() > 0)
    )
    parts = []
    for train, out in islice(usable, 1 if n_units > MOST_HELD else None):
        # What is said of a part is not of all rows. No rows of it may be left to
        # compare.
        with suppress(NoTripletError), warnings.catch_warnings(action="ignore"):
            parts.append(_part(model, train, out, rng))
    return parts


def _at_most(data: Supervision, n: int, rng: np.random.Generator) -> Supervision:
    """Return at most so many rows, of each class its share, or comparisons of so many anchors."""
    if not data.is_judged:
        rows = sample_rows(Mining(max_anchors=n), data, rng)
        return data if rows is None else data.take(rows)
    anchors = data.anchors
    weights = data.compared_weights
    used = np.arange(len(data.compared)) if weights is None else np.flatnonzero(weights)
    if len(used) > MOST_EACH * n:
        data = data.with_compared(
            np.sort(rng.choice(used, MOST_EACH * n, replace=False))
        )
    if len(anchors) <= n:
        return data
    is_chosen = np.zeros(data.X.shape[0], dtype=bool)
    is_chosen[rng.choice(anchors, n, replace=False)] = True
    data = data.with_compared(is_chosen[data.compared[:, 0]])
    return data.take(np.unique(data.compared))


def _part(
    model: Any, train: Supervision, held: Supervision, rng: np.random.Generator
) -> Part:
    train = _at_most(train, MOST_TRAIN, rng)
    held = _at_most(held, MOST_HELD, rng)
    judge = (
        judge_comparisons(held) if held.is_judged else judge_labels(train, held, rng)
    )
    mining = Mining.of(model)
    few = {
        name: min(getattr(mining, name), MOST_MINED)
        for name in ("n_targets", "n_impostors")
    }
    return Part(compare(mining._replace(**few), train, rng), judge)
