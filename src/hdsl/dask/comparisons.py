"""Comparisons in blocks on a cluster: as given, or made from labels.

Those of labels are found block against block, and the best of each are merged.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from .. import search
from ..input.labels import check_comparisons, check_weights
from ..neighbor_lists import Neighbors
from ..supervision.compared_rows import Miner
from ..supervision.labeled_rows import LabeledRows, sample_rows
from ..triplets import random_triplets
from ..triplets.mining import (
    check_not_empty,
    distinct_rows,
    row_keys,
    warn_of_single_rows,
)
from .cluster import gather, send
from .rows import ClusterRows, as_futures, groups_of_small

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


#: Rows of a block and their class numbers. A plain tuple: Dask looks for futures in it.
LabelledRows = tuple[Any, np.ndarray]

# --- tasks ----------------------------------------------------------------------------


class RankedRows(NamedTuple):
    """The best rows of each query: their scores, and their numbers among all rows or -1."""

    scores: np.ndarray
    rows: np.ndarray

    @classmethod
    def in_all_rows(cls, neighbors: Neighbors, first: int) -> RankedRows:
        """Return neighbors in a block whose first row has a number among all rows."""
        numbers = np.where(neighbors.rows < 0, -1, neighbors.rows + first)
        return cls(neighbors.scores, numbers)


class Candidates(NamedTuple):
    """The best rows of a block for each query: of its label, and of others."""

    targets: RankedRows
    impostors: RankedRows


def find_candidates(
    queries: LabelledRows,
    index: LabelledRows,
    first: int,
    miner: Miner,
    *,
    exclude_self: bool,
) -> Candidates:
    """Return the best rows of one block for the rows of another.

    `first` is the number of the first row of the index among all rows.
    """
    same, other = search.neighbors_between(
        queries,
        index,
        miner.n_targets,
        miner.n_impostors,
        exclude_self=exclude_self,
        n_jobs=1,
    )
    return Candidates(
        targets=RankedRows.in_all_rows(same, first),
        impostors=RankedRows.in_all_rows(other, first),
    )


def make_triplets(
    first: int,
    weights: np.ndarray | None,
    numbers: np.ndarray,
    *candidates: Candidates,
) -> ComparisonBlock:
    """Return all pairs of a target and an impostor of each row of a block.

    Parameters
    ----------
    first : int
        The number of the first row, among those that are compared.
    weights : ndarray or None
        Of the rows.
    numbers : ndarray
        The numbers in X of the rows that are compared.
    *candidates : Candidates
        In each of the blocks.
    """
    targets = best_rows([of_block.targets for of_block in candidates])
    impostors = best_rows([of_block.impostors for of_block in candidates])
    is_pair = (targets >= 0)[:, :, None] & (impostors >= 0)[:, None, :]
    row, target, impostor = np.nonzero(is_pair)
    triplets = np.column_stack(
        [row + first, targets[row, target], impostors[row, impostor]]
    )
    if weights is None:
        return ComparisonBlock(numbers[triplets])
    return ComparisonBlock(numbers[triplets], weights[row])


def best_rows(lists: Sequence[RankedRows]) -> np.ndarray:
    """Return the best rows of several blocks; of equals the one with the smaller number."""
    scores = np.concatenate([ranked.scores for ranked in lists], axis=1)
    rows = np.concatenate([ranked.rows for ranked in lists], axis=1)
    none_last = np.where(rows < 0, np.iinfo(np.int64).max, rows)
    order = np.lexsort((none_last, -scores), axis=1)
    n_best = lists[0].rows.shape[1]
    return np.take_along_axis(rows, order[:, :n_best], axis=1)


# --- on the client --------------------------------------------------------------------


def compare(
    miner: Miner, data: LabeledRows, rows: ClusterRows, rng: np.random.Generator
) -> tuple[ClusterRows, list[Any]]:
    """Return rows and blocks of their comparisons, as `LabeledRows.compare` makes them."""
    y = data.y
    weights = data.weights
    sample = sample_rows(data.codes, weights, miner.max_anchors, miner.n_targets, rng)
    if sample is not None:
        rows = rows.keep(sample)
        y = y[sample]
        if weights is not None:
            weights = weights[sample]
    if miner.mining == "neighbors":
        return rows, neighbor_blocks(miner, rows, y, weights)
    triplets = draw_triplets(miner, y, weights, rng)
    return rows, [send(rows.client, triplets)]


def draw_triplets(
    miner: Miner, y: np.ndarray, weights: np.ndarray | None, rng: np.random.Generator
) -> ComparisonBlock:
    """Return random triplets of the rows of positive weight."""
    present = np.arange(len(y))
    if weights is not None:
        present = np.flatnonzero(weights)
    seed = int(rng.integers(2**31 - 1))
    n_per_row = miner.n_targets * miner.n_impostors
    drawn = random_triplets(y[present], n_per_row, random_state=seed)
    triplets = present[drawn]
    if weights is None:
        return ComparisonBlock(triplets)
    return ComparisonBlock(triplets, weights[triplets[:, 0]])


def neighbor_blocks(
    miner: Miner, rows: ClusterRows, y: np.ndarray, weights: np.ndarray | None
) -> list[Any]:
    """Return the triplets that ``triplets.neighbor_triplets`` makes of distinct rows, in blocks.

    Equal rows of a label are one point that counts several times.
    """
    client = rows.client
    keys = np.concatenate(gather(client, client.map(row_keys, rows.blocks, pure=False)))
    codes = np.unique(y, return_inverse=True)[1]
    distinct, weight = distinct_rows(keys, codes, weights)
    rows = rows.keep(distinct)
    y = y[distinct]
    codes = np.unique(y, return_inverse=True)[1]
    warn_of_single_rows(y, codes)
    is_anchor = np.bincount(codes)[codes] > 1
    check_not_empty(distinct[is_anchor][:, None])
    weights_differ = bool((weight[is_anchor] != weight[is_anchor][0]).any())
    numbers = send(client, distinct)
    starts = rows.starts.tolist()
    spans = [slice(first, stop) for first, stop in pairwise(starts)]
    labelled = [
        (block, codes[span]) for block, span in zip(rows.blocks, spans, strict=True)
    ]
    blocks = []
    for k, span in enumerate(spans):
        candidates = [
            client.submit(
                find_candidates,
                labelled[k],
                index,
                starts[j],
                miner,
                exclude_self=j == k,
                pure=False,
            )
            for j, index in enumerate(labelled)
        ]
        weights_of_block = None
        if weights_differ:
            weights_of_block = weight[span]
        blocks.append(
            client.submit(
                make_triplets,
                span.start,
                weights_of_block,
                numbers,
                *candidates,
                pure=False,
            )
        )
    return blocks
