"""Parts of the data to learn from and to choose by."""

from __future__ import annotations

import warnings
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from ..input.errors import NoTripletError
from ..supervision.compared_rows import ComparedRows
from ..supervision.gains import SearchJudge
from ..supervision.judges import Judge
from ..supervision.mining import Mining
from ..supervision.supervision import Supervision

#: Most neighbours of one kind per row to learn from: they tell priors apart at half the
#: time.
MOST_MINED = 5

#: Most rows (or anchors) to learn from and to choose by: a part is enough to tell
#: priors apart.
MOST_TRAIN = 3000

MOST_HELD_OUT = 1500


@dataclass(frozen=True)
class Part:
    """A part of the data to learn from, with comparisons, and what judges what is learned.

    Parameters
    ----------
    train : ComparedRows
    judge : Judge
    search : SearchJudge or None
        What searches for the held-out data among all rows; None where nothing is
        learned of a search.
    """

    train: ComparedRows
    judge: Judge
    search: SearchJudge | None


def make_parts(
    model: Any,
    data: Supervision,
    validation: Supervision | None,
    rng: np.random.Generator,
) -> list[Part]:
    """Return parts to learn from and to choose by; none where the data are too few.

    They are several turns of a split where rows are few, else one split. Given
    validation data replace the split.
    """
    if validation is not None:
        return [_part(model, data, validation, validation, rng)]
    everything: Supervision | None = data
    if callable(model.mining):
        # What a function makes of a part of the rows may differ from what it makes of
        # all: its comparisons are split as if a person had judged.
        data = replace(data.compare(Mining.of(model), rng), is_mined=False)
        everything = None
    parts = []
    for train, held_out in split(model, data, validation, rng):
        # A part may have rows of too few classes left to compare. What is warned of a
        # part does not hold for all rows.
        with suppress(NoTripletError), warnings.catch_warnings(action="ignore"):
            parts.append(_part(model, train, held_out, everything, rng))
    return parts


def split(
    model: Any,
    data: Supervision,
    validation: Supervision | None,
    rng: np.random.Generator,
) -> list[tuple[Supervision, Supervision]]:
    """Return what to learn from and what to choose by, for each turn of a split.

    None where the data are too few.
    """
    if validation is not None:
        return [(data, validation)]
    if isinstance(data, ComparedRows):
        data = replace(data, rows=np.arange(data.X.shape[0]))
        data = data.sample(MOST_TRAIN + MOST_HELD_OUT, rng)
    if not data.can_be_split():
        return []
    splits = (
        (train, held_out)
        for train, held_out in data.splits(model.validation_fraction, rng)
        if train.can_teach() and held_out.can_judge()
    )
    n_splits = 1 if data.n_splittable > MOST_HELD_OUT else None
    return list(islice(splits, n_splits))


def _part(
    model: Any,
    train: Supervision,
    held_out: Supervision,
    everything: Supervision | None,
    rng: np.random.Generator,
) -> Part:
    """Return one part, of rows that are few enough to try all candidates on."""
    train = train.sample(MOST_TRAIN, rng)
    held_out = held_out.sample(MOST_HELD_OUT, rng)
    judge = held_out.judge(train, rng)
    search = None
    if everything is not None:
        (search_rng,) = rng.spawn(1)
        search = held_out.search(everything, search_rng)
    mining = Mining.of(model).with_at_most(MOST_MINED)
    return Part(train.compare(mining, rng), judge, search)
