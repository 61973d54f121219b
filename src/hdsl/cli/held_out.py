"""Which rows and judgements a model is learned from, and which measure it."""

from typing import NamedTuple

import numpy as np

from ..labels import ranks
from ..text import TEST, TRAIN
from .messages import say


def split_rows(
    labels: np.ndarray | None,
    n_rows: int,
    share: float,
    seed: int,
    groups: np.ndarray | None = None,
) -> np.ndarray:
    """Return for each row TRAIN or TEST: a random share of each label, or of the groups.

    Examples
    --------
    >>> parts = split_rows(np.array(list("aaaaabbbbb")), 10, share=0.2, seed=0)
    >>> np.bincount(parts[:5]).tolist(), np.bincount(parts[5:]).tolist()
    ([4, 1], [4, 1])
    """
    if not 0 <= share < 1:
        raise ValueError(
            f"--test must be a share of the rows, from 0 to below 1. Got {share:g}."
        )
    codes = np.zeros(n_rows, dtype=np.int64)
    if groups is not None:
        _, numbers = np.unique(groups.astype(str), return_inverse=True)
        n_groups = int(numbers.max()) + 1
        return split_rows(None, n_groups, share, seed)[numbers]
    if labels is not None:
        _, codes = np.unique(labels, return_inverse=True)
    rank = ranks(codes, np.random.default_rng(seed).permutation(n_rows))
    quantile = (rank + 0.5) / np.bincount(codes)[codes]
    if n_rows and quantile.max() < share:
        raise ValueError(
            f"--test {share:g} holds out all {n_rows} rows: none is left to learn from."
        )
    return np.where(quantile < share, TEST, TRAIN).astype(np.int8)


class JudgementSplit(NamedTuple):
    """The judgements to learn from and those to measure by, as masks; others are neither."""

    learned: np.ndarray
    measured: np.ndarray


def split_judgements(
    comparisons: np.ndarray, is_new: np.ndarray, groups: np.ndarray | None = None
) -> JudgementSplit:
    """Return which judgements are learned from and which measure, by the new rows they name.

    Those to learn from name no new row. A triplet measures by a new anchor, a quadruplet
    by a new row in each of its pairs. Those of a group go the way of its first anchor.
    """
    if groups is not None:
        _, first, number = np.unique(groups, return_index=True, return_inverse=True)
        measured = is_new[comparisons[first, 0]][number]
        if not (~measured).any():
            raise _none_left(len(comparisons), "learn from")
        return JudgementSplit(~measured, measured)
    names_new = is_new[comparisons]
    learned = ~names_new.any(axis=1)
    if comparisons.shape[1] == 3:
        measured = names_new[:, 0]
    else:
        measured = names_new.reshape(-1, 2, 2).any(axis=2).all(axis=1)
    if not learned.any():
        raise _none_left(len(comparisons), "learn from")
    if is_new.any() and not measured.any():
        raise _none_left(len(comparisons), "measure by")
    n_unused = int((~learned & ~measured).sum())
    if n_unused:
        say(
            f"{learned.sum():,} judgements are learned from and {measured.sum():,} "
            f"measure; {n_unused:,} name rows of both and are left out: --test 0 "
            "learns from all."
        )
    return JudgementSplit(learned, measured)


def _none_left(n_judgements: int, purpose: str) -> ValueError:
    return ValueError(
        f"Of {n_judgements} judgements none is left to {purpose}, as each row is "
        "learned from or held out: change --test, or set it to 0."
    )
