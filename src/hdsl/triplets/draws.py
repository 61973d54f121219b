"""Draws without replacement, of candidates that are numbered and not listed."""

from __future__ import annotations

import numpy as np

from ..input.matrices import INDEX_LIMIT


def draw(
    count: np.ndarray,
    group: np.ndarray,
    n: int | None,
    rng: np.random.Generator | None,
    parameter: str,
) -> tuple[np.ndarray, np.ndarray]:
    """Return candidates as lines and offsets; line r has candidates 0, 1, …, ``count[r] - 1``.

    Without n, all candidates. Otherwise at most n per group, drawn uniformly without
    replacement. Lines of a group are consecutive. `parameter` is the name of n in
    messages.
    """
    stop = np.cumsum(count)
    if n is None:
        total = int(count.sum())
        if total > INDEX_LIMIT:
            raise ValueError(
                f"{total} triplets would be made, more than can be handled: set "
                f"{parameter}."
            )
        chosen = np.arange(total)
    else:
        assert rng is not None
        last_lines = np.flatnonzero(np.diff(group, append=-1))
        group_sizes = np.diff(stop[last_lines], prepend=0)
        chosen = sample_ranges(group_sizes, n, rng)
    line = np.searchsorted(stop, chosen, side="right")
    return line, chosen - (stop - count)[line]


def sample_ranges(sizes: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Return at most n distinct numbers of each range, sorted; the ranges are consecutive from 0.

    All subsets of a range are equally likely.
    """
    drawn = [
        rng.choice(size, min(size, n), replace=False, shuffle=False)
        for size in sizes.tolist()
    ]
    first = np.repeat(np.cumsum(sizes) - sizes, np.minimum(sizes, n))
    return np.sort(first + np.concatenate([*drawn, np.empty(0, dtype=np.int64)]))
