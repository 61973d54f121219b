"""Comparisons in blocks on a cluster: checked, cut, joined and summarized."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ..input.comparisons import check_comparisons, check_weights
from .blocks import as_futures, groups_of_small
from .cluster import gather
from .rows import ClusterRows

#: Pairs of compared rows, per anchor, that the shards are chosen by.
PAIRS_PER_ANCHOR = 8

#: Columns of each kind of comparison.
WIDTHS = {"triplet": 3, "quadruplet": 4}


class ComparisonBlock(NamedTuple):
    """Triplets or quadruplets, and a weight for each; None where all weigh the same."""

    compared: np.ndarray
    weights: np.ndarray | None = None

    def take(self, chosen: np.ndarray | slice) -> ComparisonBlock:
        """Return the comparisons of these numbers, or of this mask."""
        if self.weights is None:
            return ComparisonBlock(self.compared[chosen])
        return ComparisonBlock(self.compared[chosen], self.weights[chosen])

    def split(self, cuts: np.ndarray) -> list[ComparisonBlock]:
        """Return the comparisons between cuts, one block more than cuts."""
        bounds = [0, *cuts.tolist(), len(self.compared)]
        return [self.take(slice(first, stop)) for first, stop in pairwise(bounds)]

    @classmethod
    def join(cls, blocks: Sequence[ComparisonBlock]) -> ComparisonBlock:
        """Return the comparisons of all blocks as one; all or none have weights."""
        compared = np.concatenate([block.compared for block in blocks])
        weights = [block.weights for block in blocks if block.weights is not None]
        if not weights:
            return cls(compared)
        return cls(compared, np.concatenate(weights))


class ComparisonSummary(NamedTuple):
    """What the client knows of comparisons."""

    anchors: np.ndarray  # rows that comparisons start from, rising
    counts: np.ndarray  # how many start from each
    total_weight: float
    pairs: np.ndarray  # a sample of pairs of an anchor and a row compared with it
    rows: np.ndarray  # rows that comparisons of positive weight name, rising

    @classmethod
    def merge(cls, summaries: Sequence[ComparisonSummary]) -> ComparisonSummary:
        """Return the summary of all blocks."""
        anchors, position = np.unique(
            np.concatenate([summary.anchors for summary in summaries]),
            return_inverse=True,
        )
        counts = np.concatenate([summary.counts for summary in summaries])
        return cls(
            anchors=anchors,
            counts=np.bincount(position, counts).astype(np.int64),
            total_weight=float(sum(summary.total_weight for summary in summaries)),
            pairs=np.concatenate([summary.pairs for summary in summaries]),
            rows=np.unique(np.concatenate([summary.rows for summary in summaries])),
        )


# --- tasks ----------------------------------------------------------------------------


def check_compared(
    compared: Any, weights: np.ndarray | None, n_rows: int, kind: str
) -> ComparisonBlock:
    """Return a block of comparisons, checked as those of one machine are; weights are."""
    array = np.asarray(compared)
    checked = check_comparisons(array, n_rows, f"{kind}s", WIDTHS[kind])
    return ComparisonBlock(checked, weights)


def join_compared(*blocks: ComparisonBlock) -> ComparisonBlock:
    """Return several blocks of comparisons as one."""
    return ComparisonBlock.join(blocks)


def summarize_compared(block: ComparisonBlock) -> ComparisonSummary:
    """Return what the client needs to know of a block of comparisons."""
    compared = block.compared
    anchors, counts = np.unique(compared[:, 0], return_counts=True)
    starts = np.repeat(compared[:, 0], compared.shape[1] - 1)
    pairs = np.column_stack([starts, compared[:, 1:].ravel()])
    n_wanted = PAIRS_PER_ANCHOR * max(len(anchors), 1)
    total_weight = float(len(compared))
    rows = compared
    if block.weights is not None:
        total_weight = float(block.weights.sum())
        rows = compared[block.weights > 0.0]
    return ComparisonSummary(
        anchors=anchors,
        counts=counts,
        total_weight=total_weight,
        pairs=pairs[:: max(1, len(pairs) // n_wanted)],
        rows=np.unique(rows),
    )


def with_anchors(block: ComparisonBlock, anchors: np.ndarray) -> ComparisonBlock:
    """Return the comparisons that start from these rows."""
    return block.take(np.isin(block.compared[:, 0], anchors))


# --- on the client --------------------------------------------------------------------


def load_compared(
    rows: ClusterRows, data: Any, sample_weight: Any, kind: str
) -> list[Any]:
    """Return comparisons as a user gives them, as futures of blocks.

    Parameters
    ----------
    rows : ClusterRows
        What the comparisons number.
    data : Dask collection or list of blocks
    sample_weight : array-like or None
    kind : {"triplet", "quadruplet"}
    """
    client = rows.client
    blocks = as_futures(client, data)
    counts = gather(client, client.map(len, blocks, pure=False))
    ends = np.cumsum(counts)
    weights = check_weights(sample_weight, int(ends[-1]), kind)
    blocks_with_any = []
    their_weights: list[np.ndarray | None] = []
    for block, count, end in zip(blocks, counts, ends, strict=True):
        if not count:
            continue
        blocks_with_any.append(block)
        if weights is None:
            their_weights.append(None)
        else:
            their_weights.append(weights[end - count : end])
    if not blocks_with_any:
        raise ValueError(f"{kind}s is empty: at least one {kind} is needed.")
    checked = client.map(
        check_compared,
        blocks_with_any,
        their_weights,
        n_rows=rows.shape[0],
        kind=kind,
        pure=False,
    )
    sizes = [WIDTHS[kind] * count for count in counts if count]
    return [
        client.submit(join_compared, *checked[first:last], pure=False)
        for first, last in groups_of_small(sizes)
    ]


def summarize(client: Any, blocks: list[Any]) -> ComparisonSummary:
    """Return what the client needs to know of all blocks of comparisons."""
    summaries = client.map(summarize_compared, blocks, pure=False)
    return ComparisonSummary.merge(gather(client, summaries))
