"""Comparisons from labels on a cluster: blocks against blocks, the best of each merged."""

from itertools import pairwise
from typing import Any

import numpy as np

from .. import search
from ..supervision.mining import Mining, sample_rows
from ..supervision.supervision import Supervision
from ..triplets import random_triplets
from ..triplets.equal_rows import distinct_rows, row_keys
from ..triplets.mining import check_not_empty, warn_of_single_rows
from .data import Compared, Rows, held
from .problem import gather

#: Scores and numbers of the best rows so far: of the same label, and of others.
Lists = list[tuple[np.ndarray, np.ndarray]]


# --- tasks ----------------------------------------------------------------------------


def nearest(queries: Any, index: Any, first: int, wanted: Any, is_same: bool) -> Lists:
    """Return the best rows of one block for the rows of another, in the numbers of all rows.

    `queries` and `index` are rows and their class numbers, `first` is the number of the
    first row of the index.
    """
    found = search.neighbors_between(
        queries, index, *wanted, exclude_self=is_same, n_jobs=1
    )
    return [
        (kind.scores, np.where(kind.rows < 0, -1, kind.rows + first)) for kind in found
    ]


def triplets_of(
    first: int, weights: np.ndarray | None, numbers: np.ndarray, *parts: Lists
) -> Compared:
    """Return all pairs of a target and an impostor of each row, from the lists of all blocks.

    `first` is the number of the first row among those that are compared, and `numbers`
    are the numbers of these in X.
    """
    targets, impostors = (_best([part[k] for part in parts]) for k in (0, 1))
    valid = (targets >= 0)[:, :, None] & (impostors >= 0)[:, None, :]
    row, target, impostor = np.nonzero(valid)
    made = np.column_stack(
        [row + first, targets[row, target], impostors[row, impostor]]
    )
    return numbers[made], None if weights is None else weights[row]


def _best(lists: Lists) -> np.ndarray:
    """Return the best rows of several blocks; of equals the one with the smaller number."""
    scores, rows = (
        np.concatenate(column, axis=1) for column in zip(*lists, strict=True)
    )
    order = np.lexsort(
        (np.where(rows < 0, np.iinfo(np.int64).max, rows), -scores), axis=1
    )
    return np.take_along_axis(rows, order[:, : lists[0][0].shape[1]], axis=1)


# --- on the client --------------------------------------------------------------------


def compare(
    how: Mining, data: Supervision, rows: Rows, rng: np.random.Generator
) -> tuple[Rows, list[Any]]:
    """Return rows and blocks of their comparisons, as ``supervision.compare`` makes them."""
    y = data.y
    weights = data.weights
    chosen = sample_rows(how, data, rng)
    if chosen is not None:
        rows = rows.keep(chosen)
        y = y[chosen]
        weights = None if weights is None else weights[chosen]
    if how.mining == "neighbors":
        return rows, neighbor_blocks(rows, y, weights, (how.n_targets, how.n_impostors))
    present = np.arange(len(y)) if weights is None else np.flatnonzero(weights)
    seed = int(rng.integers(2**31 - 1))
    n_per_row = how.n_targets * how.n_impostors
    made = present[random_triplets(y[present], n_per_row, random_state=seed)]
    return rows, [
        held(rows.client, (made, None if weights is None else weights[made[:, 0]]))
    ]


def neighbor_blocks(
    rows: Rows, y: np.ndarray, weights: np.ndarray | None, wanted: tuple[int, int]
) -> list[Any]:
    """Return the triplets that ``triplets.neighbor_triplets`` makes of distinct rows, in blocks.

    Equal rows of a label are one point that counts several times.
    """
    client = rows.client
    keys = np.concatenate(gather(client, client.map(row_keys, rows.blocks, pure=False)))
    chosen, weight = distinct_rows(keys, np.unique(y, return_inverse=True)[1], weights)
    rows = rows.keep(chosen)
    y = y[chosen]
    codes = np.unique(y, return_inverse=True)[1]
    warn_of_single_rows(y, codes)
    is_anchor = np.bincount(codes)[codes] > 1
    check_not_empty(chosen[is_anchor][:, None])
    is_equal = bool((weight[is_anchor] == weight[is_anchor][0]).all())
    numbers = held(client, chosen)
    starts = rows.starts.tolist()
    cuts = [slice(*pair) for pair in pairwise(starts)]
    made = []
    sides = [
        (block, codes[there]) for block, there in zip(rows.blocks, cuts, strict=True)
    ]
    for q, here in enumerate(cuts):
        parts = [
            client.submit(
                nearest, sides[q], side, starts[k], wanted, q == k, pure=False
            )
            for k, side in enumerate(sides)
        ]
        given = here.start, None if is_equal else weight[here], numbers
        made.append(client.submit(triplets_of, *given, *parts, pure=False))
    return made
