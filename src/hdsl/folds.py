"""Folds of the rows for a search of parameters."""

from __future__ import annotations

import numbers
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.model_selection import check_cv

from .supervision import Supervision
from .triplets import PointKFold


def row_folds(
    whole: Supervision, cv: Any, *, way_out: str = "Use fewer folds."
) -> Iterator[tuple[Supervision, Supervision]]:
    """Yield what trains and what validates in each fold; no row is on both sides.

    Parameters
    ----------
    whole : Supervision
    cv : int, splitter or iterable
        As in scikit-learn. An int shuffles the rows, since they may come sorted.
    way_out : str
        What to do about a fold without anything on one side, for the message.
    """
    counted = isinstance(cv, numbers.Integral)
    if whole.is_judged and counted:
        splits = PointKFold(int(cv), shuffle=True, random_state=0).split(whole.X)
    else:
        splitter = check_cv(cv, whole.y, classifier=not whole.is_judged)
        if counted:
            splitter.shuffle, splitter.random_state = True, 0
        splits = splitter.split(whole.X, whole.y)
    for k, sides in enumerate(splits):
        train, held = (whole.take(np.asarray(rows, dtype=np.int64)) for rows in sides)
        if not (train.counts() and held.counts()):
            what = "triplet" if whole.is_judged else "row"
            n = [len(side.compared if whole.is_judged else side.y) for side in (train, held)]
            across = " (judgements across the sides are left out)" if whole.is_judged else ""
            raise ValueError(
                f"Fold {k} of cv has no {what} of positive weight on one side: {n[0]} to train "
                f"on, {n[1]} to validate on{across}. {way_out}"
            )
        yield train, held


def refuse_checkpoint(name: str, estimator: Any) -> None:
    """Raise ValueError where the estimator of a search has a checkpoint."""
    if estimator.checkpoint is not None:
        raise ValueError(
            f"{name} makes many runs, and a checkpoint is of one: leave checkpoint=None here, and "
            f"set it in the fit of the {type(estimator).__name__} with the chosen parameters."
        )
