"""Neighbour triplets on a cluster: blocks against blocks, the best of each merged, never n × n."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from .. import checks, search
from ..triplets.mining import check_not_empty, warn_of_single_rows
from .blocks import Blocks, keep_rows
from .sources import Source, held
from .tasks import Compared

if TYPE_CHECKING:
    from ..similarity import Similarity

#: Row numbers and scores of the best rows so far: same label, other labels.
Lists = tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


# --- on the workers ------------------------------------------------------------------------------


def transformed(block: sp.csr_array, similarity: Similarity) -> sp.csr_array:
    """Return rows whose inner products are the similarity, in canonical form."""
    return checks.canonical(sp.csr_array(similarity.transform(block)))


def nearest(
    queries: tuple[sp.csr_array, np.ndarray],
    index: tuple[sp.csr_array, np.ndarray, np.ndarray],
    counts: tuple[int, int],
    is_same: bool,
) -> Lists:
    """Return the best rows of one block for the rows of another, in the numbers of all rows."""
    *rows, numbers = index
    found = search.neighbors_between(queries, tuple(rows), *counts, exclude_self=is_same, n_jobs=1)
    same, other = (
        (of.scores, np.where(of.rows < 0, -1, numbers[of.rows]) if len(numbers) else of.rows)
        for of in found
    )
    return same, other


def merge(*parts: Lists) -> Lists:
    """Return the best rows of several blocks; of equals the one with the smaller number."""
    same, other = (_merged([part[k] for part in parts]) for k in (0, 1))
    return same, other


def _merged(parts: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    scores, rows = (np.concatenate(column, axis=1) for column in zip(*parts, strict=True))
    order = np.lexsort((np.where(rows < 0, np.iinfo(np.int64).max, rows), -scores), axis=1)
    order = order[:, : parts[0][0].shape[1]]
    return np.take_along_axis(scores, order, axis=1), np.take_along_axis(rows, order, axis=1)


def triplets_of(lists: Lists, anchors: np.ndarray, weights: np.ndarray | None) -> Compared:
    """Return all pairs of a target and an impostor of each anchor."""
    targets, impostors = lists[0][1], lists[1][1]
    valid = (targets >= 0)[:, :, None] & (impostors >= 0)[:, None, :]
    row, target, impostor = np.nonzero(valid)
    made = np.column_stack([anchors[row], targets[row, target], impostors[row, impostor]])
    return made.astype(np.int64), None if weights is None else weights[row]


def only_new(block: Compared, *earlier: Compared) -> Compared:
    """Return the comparisons of a block that are in none of the earlier ones."""
    compared, weights = block
    known = np.concatenate([part for part, _ in earlier])
    _, position = np.unique(np.concatenate([known, compared]), axis=0, return_index=True)
    new = np.sort(position[position >= len(known)]) - len(known)
    return compared[new], None if weights is None else weights[new]


def with_weights(block: Compared) -> Compared:
    """Return a block with a weight of 1 for each comparison, where it has none."""
    compared, weights = block
    return compared, np.ones(len(compared)) if weights is None else weights


# --- on the client -------------------------------------------------------------------------------


def neighbor_blocks(
    rows: Blocks,
    y: np.ndarray,
    weights: np.ndarray | None,
    n_targets: int,
    n_impostors: int,
    similarity: Similarity | None = None,
) -> Source:
    """Return the triplets that ``triplets.neighbor_triplets`` makes of distinct rows, in blocks.

    Equal rows of a label are one point that counts several times. Which blocks there are does not
    depend on the similarity.
    """
    client = rows.client
    _, codes = np.unique(y, return_inverse=True)
    kept, weight = distinct(rows.digests, codes, weights)
    warn_of_single_rows(y[kept], np.unique(codes[kept], return_inverse=True)[1])
    is_anchor = np.bincount(codes[kept])[codes[kept]] > 1
    check_not_empty(kept[is_anchor][:, None])
    is_equal = bool((weight[is_anchor] == weight[is_anchor][0]).all())
    learned = None if similarity is None else held(client, similarity)
    sides, done = [], 0
    for block, part in zip(rows.source.futures(), rows.cut(kept), strict=True):
        here = slice(done, done + len(part))
        done = here.stop
        if len(part):
            side = client.submit(keep_rows, block, part, pure=False)
            if learned is not None:
                side = client.submit(transformed, side, learned, pure=False)
            numbers = kept[here]
            sides.append((side, codes[numbers], numbers, None if is_equal else weight[here]))
    return _mined(client, sides, (n_targets, n_impostors))


def _mined(client: Any, sides: list[tuple], counts: tuple[int, int]) -> Source:
    made = []
    for q, (queries, codes, anchors, weights) in enumerate(sides):
        parts = [
            client.submit(
                nearest, (queries, codes), (index, labels, numbers), counts, q == k, pure=False
            )
            for k, (index, labels, numbers, _) in enumerate(sides)
        ]
        lists = client.submit(merge, *parts, pure=False)
        made.append(client.submit(triplets_of, lists, anchors, weights, pure=False))
    return Source(client, made)


def distinct(
    digests: np.ndarray, codes: np.ndarray, weights: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the first of each group of equal rows and labels, and the weight of each group."""
    rows = np.arange(len(codes)) if weights is None else np.flatnonzero(weights)
    weight = np.ones(len(rows)) if weights is None else weights[rows]
    keys = np.empty(len(rows), dtype=[("digest", digests.dtype), ("code", np.int64)])
    keys["digest"], keys["code"] = digests[rows], codes[rows]
    flat = keys.view(f"V{keys.dtype.itemsize}")
    _, first, group = np.unique(flat, return_index=True, return_inverse=True)
    total = np.bincount(group, weight)
    order = np.argsort(first)
    return rows[first[order]], total[order]
