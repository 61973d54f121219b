"""Draws without replacement from many groups of candidates at once."""

from __future__ import annotations

import numpy as np

from .. import checks


def draw(
    count: np.ndarray,
    group: np.ndarray,
    n: int | None,
    rng: np.random.Generator | None,
    parameter: str,
) -> tuple[np.ndarray, np.ndarray]:
    """Return candidates as lines and offsets; line r has candidates 0, 1, …, ``count[r] - 1``.

    Without n, all candidates. Otherwise at most n per group, drawn uniformly without replacement.
    Lines of a group are consecutive. `parameter` is the name of n in messages.
    """
    stop = np.cumsum(count)
    total = int(stop[-1]) if len(stop) else 0
    if n is None:
        if total > checks.INDEX_LIMIT:
            raise ValueError(
                f"{total} triplets would be made, more than can be handled: set {parameter}."
            )
        chosen = np.arange(total)
    else:
        assert rng is not None
        last = np.flatnonzero(np.diff(group, append=-1))
        chosen = sample_ranges(np.diff(stop[last], prepend=0), n, rng)
    line = np.searchsorted(stop, chosen, side="right")
    return line, chosen - (stop - count)[line]


def sample_ranges(size: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Return at most n distinct numbers of each range, sorted; the ranges are consecutive from 0.

    All subsets of a range are equally likely.
    """
    stop = np.cumsum(size)
    start = stop - size
    # Shuffle small ranges as a whole: at most twice the numbers needed.
    small = np.flatnonzero(size <= 2 * n)
    first = np.cumsum(size[small]) - size[small]
    rank = np.arange(size[small].sum()) - np.repeat(first, size[small])
    owner = np.repeat(small, size[small])
    shuffled = np.argsort((owner << 32) + rng.integers(2**32, size=len(owner)), kind="stable")
    drawn = (start[owner] + rank)[shuffled[rank < n]]
    # In large ranges a draw is new with probability 1/2 or more: draw until there are enough.
    large = np.flatnonzero(size > 2 * n)
    found = np.empty(0, dtype=np.int64)
    missing = np.full(len(large), n)
    while missing.any():
        owner = np.repeat(large, missing)
        found = np.sort(np.concatenate([found, start[owner] + rng.integers(size[owner])]))
        found = found[np.diff(found, prepend=-1) > 0]
        owner = np.searchsorted(stop[large], found, side="right")
        missing = n - np.bincount(owner, minlength=len(large))
    return np.sort(np.concatenate([drawn, found]))
