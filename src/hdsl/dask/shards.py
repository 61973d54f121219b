"""The shards of a layout, which are futures of a cluster, and the sums of their answers.

A question is one task per shard. Small answers are added on the client in the order of
the shards; long ones, a number per feature, in a tree of tasks. The order is fixed by
the shards alone, so that the bits do not depend on where they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from .cluster import gather
from .partition import Partition
from .per_shard import PerShard
from .shard import add, ask

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
