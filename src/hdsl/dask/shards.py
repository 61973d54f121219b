"""The shards of a layout, which are futures of a cluster, and the sums of their answers.

A question is one task per shard. Small answers are added on the client in the order of
the shards; long ones, a number per feature, in a tree of tasks. The order is fixed by
the shards alone, so that the bits do not depend on where they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import reverse_cuthill_mckee

from .cluster import gather
from .comparisons import ComparisonBlock, ComparisonSummary
from .shard import add, ask


class PerShard(list):
    """One value per shard, in their order: what they answered, as futures, or are asked.

    Margins on a cluster are of this kind.
    """


#: Comparisons per shard, and the fewest and the most shards. Their number is a power of
#: two, so that 2, 4 or 8 workers have equally many.
SHARD_SIZE = 1 << 21
FEWEST_SHARDS = 2
MOST_SHARDS = 256


class Partition:
    """Which shard has which comparisons: numbered by rising anchors, dealt out by anchors.

    Parameters
    ----------
    counts, shards : ndarray of shape (n_anchors,)
        How many comparisons start from each row that any start from, by rising rows,
        and its shard.
    """

    def __init__(self, counts: np.ndarray, shards: np.ndarray) -> None:
        self.counts = counts
        self.shards = shards
        self.n_shards = int(shards.max()) + 1
        self.n_comparisons = int(counts.sum())
        self._ends = np.cumsum(counts)
        # Comparisons of other shards that come before those of each anchor.
        self._n_others_before = np.empty(len(counts), dtype=np.int64)
        for k in range(self.n_shards):
            is_of_shard = shards == k
            of_others = np.cumsum(np.where(is_of_shard, 0, counts))
            self._n_others_before[is_of_shard] = of_others[is_of_shard]

    def by_shard(self, numbers: np.ndarray) -> PerShard:
        """Return comparisons by shards, in the shards' own numbers."""
        anchor = np.searchsorted(self._ends, numbers, side="right")
        shard = self.shards[anchor]
        number_in_shard = numbers - self._n_others_before[anchor]
        return PerShard(number_in_shard[shard == k] for k in range(self.n_shards))


def choose_partition(summary: ComparisonSummary, n_rows: int) -> Partition:
    """Return a partition in shards of like size that have few rows in common.

    Shards are parts of an order of the rows in which compared ones are near each other.

    Parameters
    ----------
    summary : ComparisonSummary
    n_rows : int
    """
    counts = summary.counts
    n_comparisons = counts.sum()
    n_shards = count_shards(int(n_comparisons), len(summary.anchors))
    position = order_of_rows(summary.pairs, n_rows)
    order = np.argsort(position[summary.anchors])
    n_before = np.cumsum(counts[order]) - counts[order]
    shards = np.empty(len(counts), dtype=np.int64)
    shards[order] = n_before * n_shards // n_comparisons
    # An anchor may be larger than a shard, so that a number has none: they are renumbered.
    return Partition(counts, np.unique(shards, return_inverse=True)[1])


def count_shards(n_comparisons: int, n_anchors: int) -> int:
    """Return how many shards suit so many comparisons.

    Examples
    --------
    >>> [count_shards(n, 10**6) for n in (1, 5 * SHARD_SIZE, 10**12)]
    [2, 8, 256]
    """
    n_full = -(-n_comparisons // SHARD_SIZE)
    power_of_two = 1 << (n_full - 1).bit_length()
    return min(max(power_of_two, FEWEST_SHARDS), MOST_SHARDS, n_anchors)


def order_of_rows(pairs: np.ndarray, n_rows: int) -> np.ndarray:
    """Return the position of each row in an order where compared rows are near each other."""
    first, second = pairs.T.astype(np.int32)
    rows = np.append(first, second)
    columns = np.append(second, first)
    ones = np.ones(len(rows), dtype=np.int8)
    graph = sp.coo_array((ones, (rows, columns)), shape=(n_rows, n_rows)).tocsr()
    position = np.empty(n_rows, dtype=np.int64)
    position[reverse_cuthill_mckee(graph, symmetric_mode=True)] = np.arange(n_rows)
    return position


# --- tasks ----------------------------------------------------------------------------


class ShardComparisons(NamedTuple):
    """The comparisons of a shard, in its own numbers of its rows.

    Parameters
    ----------
    block : ComparisonBlock
        By rising anchors.
    rows : ndarray of shape (n_rows,)
        Its rows, by their numbers in X, which rise.
    """

    block: ComparisonBlock
    rows: np.ndarray


def deal(
    block: ComparisonBlock, shard_of_row: np.ndarray, n_shards: int
) -> list[ComparisonBlock]:
    """Return the comparisons of a block by shards."""
    shard = shard_of_row[block.compared[:, 0]]
    order = np.argsort(shard, kind="stable")
    cuts = np.searchsorted(shard[order], np.arange(1, n_shards))
    sorted_block = block.take(order)
    short = sorted_block.compared.astype(np.int32)
    return sorted_block._replace(compared=short).split(cuts)


def join(*blocks: ComparisonBlock) -> ShardComparisons:
    """Return the comparisons that all blocks dealt to a shard."""
    joined = ComparisonBlock.join(blocks)
    joined = joined.take(np.argsort(joined.compared[:, 0], kind="stable"))
    rows, numbers = np.unique(joined.compared, return_inverse=True)
    compared = numbers.reshape(joined.compared.shape)
    return ShardComparisons(joined._replace(compared=compared), rows)


#: Sums that one task adds up.
FAN_IN = 4


class Shards:
    """The shards of a layout.

    Parameters
    ----------
    client : distributed.Client
    futures : list of Future
    partition : Partition
        Which of them has which comparisons.
    """

    def __init__(
        self, client: Any, futures: Sequence[Any], partition: Partition
    ) -> None:
        self.client = client
        self.futures = futures
        self.partition = partition

    def ask(
        self, question: str, *args: Any, among: Iterable[int] | None = None
    ) -> PerShard:
        """Return the answers of the shards, as futures.

        Parameters
        ----------
        question : str
            A method of `Shard`.
        *args
            Its arguments, each one for all shards, or one `PerShard`.
        among : iterable of int, default=None
            Numbers of the shards to ask; None is all.
        """
        if among is None:
            among = range(len(self.futures))
        numbers = list(among)
        shards = [self.futures[k] for k in numbers]
        columns = [arguments_of(numbers, arg) for arg in args]
        questions = [question] * len(numbers)
        return PerShard(self.client.map(ask, shards, questions, *columns, pure=False))

    def ask_sum(self, question: str, *args: Any) -> Any:
        """Return the sum of the answers of all shards, which are small."""
        return self.sum(self.ask(question, *args))

    def sum(self, answers: Sequence[Any]) -> Any:
        """Return the sum of small answers."""
        return add(*gather(self.client, answers))

    def future_sum(self, answers: Sequence[Any]) -> Any:
        """Return the future of the sum of long answers."""
        return self.partial_sums(answers, limit=1)[0]

    def partial_sums(self, answers: Sequence[Any], limit: int = FAN_IN) -> list[Any]:
        """Return the futures of a few sums, of neighbouring answers, with the same total."""
        sums = list(answers)
        while len(sums) > limit:
            groups = [sums[k : k + FAN_IN] for k in range(0, len(sums), FAN_IN)]
            sums = [self.client.submit(add, *group, pure=False) for group in groups]
        return sums

    def fetch(self, future: Any) -> Any:
        """Return the result of a future."""
        return gather(self.client, [future])[0]


def arguments_of(numbers: Sequence[int], argument: Any) -> list[Any]:
    """Return an argument for each shard of some numbers."""
    if isinstance(argument, PerShard):
        return [argument[k] for k in numbers]
    return [argument] * len(numbers)
