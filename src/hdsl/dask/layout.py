"""Rows and comparisons in the shards of a cluster: blocks in, shards out.

Blocks stay where Dask has them. A shard takes the rows that it needs out of each block,
so that no machine has all of X. All of it is a graph of tasks: what a worker loses Dask
makes again.
"""

from __future__ import annotations

from operator import getitem
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..input.matrices import check_live_features
from ..layout import FeatureNumbers, compared_rows, number_features
from ..rows import Rows, sparse_block, stack_all
from ..solver.protocols import Layout, Loss
from ..solver.statistics import Statistics, Sums, from_sample
from .cluster import send
from .comparisons import ComparisonSummary, summarize
from .problem import DaskProblem
from .rows import ClusterRows
from .shard import ProblemKey, Shard, ShardData
from .shards import Partition, ShardComparisons, Shards, choose_partition, deal, join


class DaskLayout(Layout):
    """Rows and comparisons in shards, which are futures of a cluster.

    Parameters
    ----------
    shards : Shards
    features : ndarray of shape (n_features,)
        The columns of X that are features, the fullest first.
    mean_squared_norm : float
        ‖x‖² of all rows, in the mean.
    embedding_width : int, default=0
        Columns of an embedding.
    """

    def __init__(
        self,
        shards: Shards,
        features: np.ndarray,
        mean_squared_norm: float,
        embedding_width: int = 0,
    ) -> None:
        self.shards = shards
        self.features = features
        self.embedding_width = embedding_width
        self.n_features = len(features)
        self._mean_squared_norm = mean_squared_norm

    def statistics(self) -> Statistics:
        """Return what an automatic scale and prior are chosen by."""
        return from_sample(
            self.shards.partition.n_comparisons,
            self._sums_of,
            n_anchors=int(self.shards.ask_sum("n_anchors")),
            mean_square=lambda: self._mean_squared_norm,
        )

    def _sums_of(self, numbers: np.ndarray) -> Sums:
        """Return the sums over comparisons of these numbers."""
        by_shard = self.shards.partition.by_shard(numbers)
        return Sums(*self.shards.ask_sum("sums", by_shard).tolist())

    def problem(
        self,
        loss: Loss,
        scale: float,
        prior: float = 0.0,
        direction_scale: float = 0.0,
    ) -> DaskProblem:
        """Return the problem of a loss, a scale and a weight of the dot product."""
        key = ProblemKey("", loss, float(scale), float(prior), float(direction_scale))
        return DaskProblem(self.shards, self.features, key, self.embedding_width)


def build_layout(
    rows: ClusterRows,
    blocks: list[Any],
    columns: np.ndarray | None = None,
    min_rows: int = 1,
) -> DaskLayout:
    """Return the layout of rows and comparisons.

    Parameters
    ----------
    rows : ClusterRows
    blocks : list of Future
        Of comparisons.
    columns : ndarray, default=None
        Columns that are features although they may be rare or empty.
    min_rows : int, default=1
        Rows that a feature must have a value in.
    """
    summary = summarize(rows.client, blocks)
    numbered = number_columns(rows, summary, columns, min_rows)
    partition = choose_partition(summary, rows.shape[0])
    by_shard = deal_out(rows, blocks, summary, partition)
    futures = make_shards(rows, by_shard, numbered, summary.total_weight)
    shards = Shards(rows.client, futures, partition)
    return DaskLayout(
        shards, numbered.features, rows.mean_squared_norm, rows.embedding_width
    )


def number_columns(
    rows: ClusterRows,
    summary: ComparisonSummary,
    columns: np.ndarray | None,
    min_rows: int,
) -> FeatureNumbers:
    """Return the columns that are features, those that only count in ⟨x, y⟩, and their numbers."""
    used, counts = rows.count_columns()
    is_compared = compared_rows(summary.rows, None, rows.shape[0])
    keys = rows.column_keys(is_compared)
    numbered = number_features(counts, keys, used, min_rows, columns)
    if not rows.embedding_width:
        check_live_features(len(numbered.features), rows.shape[1])
    return numbered


def deal_out(
    rows: ClusterRows,
    blocks: list[Any],
    summary: ComparisonSummary,
    partition: Partition,
) -> list[Any]:
    """Return the comparisons of each shard, as futures of `ShardComparisons`."""
    client = rows.client
    n_shards = partition.n_shards
    shard_of_row = np.full(rows.shape[0], -1, dtype=np.int32)
    shard_of_row[summary.anchors] = partition.shards
    dealt = client.map(
        deal,
        blocks,
        shard_of_row=send(client, shard_of_row),
        n_shards=n_shards,
        pure=False,
    )
    joined = []
    for k in range(n_shards):
        of_blocks = client.map(getitem, dealt, [k] * len(dealt), pure=False)
        joined.append(client.submit(join, *of_blocks, pure=False))
    return joined


def make_shards(
    rows: ClusterRows,
    by_shard: list[Any],
    numbered: FeatureNumbers,
    total_weight: float,
) -> list[Any]:
    """Return the shards as futures, spread evenly over the threads of the workers."""
    client = rows.client
    columns = send(client, np.append(numbered.features, numbered.others))
    starts = rows.starts[:-1].tolist()
    threads = client.nthreads()
    homes = [address for address in sorted(threads) for _ in range(threads[address])]
    shards = []
    for k, comparisons in enumerate(by_shard):
        needed = client.submit(getattr, comparisons, "rows", pure=False)
        taken = client.map(
            take_rows, rows.blocks, [needed] * len(starts), starts, pure=False
        )
        shards.append(
            client.submit(
                make_shard,
                comparisons,
                columns,
                len(numbered.features),
                total_weight,
                *taken,
                workers=[homes[k * len(homes) // len(by_shard)]],
                allow_other_workers=True,
                pure=False,
            )
        )
    return shards


# --- tasks ----------------------------------------------------------------------------


def take_rows(block: Any, rows: np.ndarray, first: int) -> Any:
    """Return those rows that are in a block; `first` is the number of its first row."""
    begin, end = np.searchsorted(rows, [first, first + block.shape[0]])
    return block[rows[begin:end] - first]


def make_shard(
    comparisons: ShardComparisons,
    columns: np.ndarray,
    n_features: int,
    total_weight: float,
    *blocks: sp.csr_array | Rows,
) -> Shard:
    """Return the shard of comparisons; its rows come in blocks, the first columns are features."""
    rows = stack_all(blocks)
    dense = None
    if isinstance(rows, Rows):
        dense = rows.dense
    return Shard(
        ShardData(
            X=renumber_columns(sparse_block(rows), columns),
            dense=dense,
            compared=comparisons.block.compared,
            weights=comparisons.block.weights,
            total_weight=total_weight,
            n_features=n_features,
        )
    )


def renumber_columns(X: sp.csr_array, columns: np.ndarray) -> sp.csr_array:
    """Return a matrix whose columns are numbered by their positions in `columns`.

    Examples
    --------
    >>> X = sp.csr_array(np.array([[0.0, 2.0, 0.0, 4.0]]))
    >>> renumber_columns(X, np.array([3, 1])).toarray().tolist()
    [[4.0, 2.0]]
    """
    order = np.argsort(columns)
    numbers = order[np.searchsorted(columns, X.indices, sorter=order)]
    shape = (X.shape[0], len(columns))
    renumbered = sp.csr_array((X.data, numbers, X.indptr), shape=shape)
    renumbered.sort_indices()
    return renumbered
