"""Half steps of the ascent: two passes over X without a wait between them."""

from __future__ import annotations

from typing import Any

import numpy as np

from .data import CardData
from .pulls import ANSWER_SIZE, QUERY_SIZE, Answers, Pulls, read_answers
from .runtime import Array
from .segments import WIDTH


class PassBuffer:
    """The query of a pass and its answer, as numbers of 64 bits side by side."""

    #: Numbers of a pass.
    SIZE = QUERY_SIZE + ANSWER_SIZE

    def __init__(self, numbers: Any) -> None:
        self.query = numbers[:QUERY_SIZE]
        self.answers = numbers[QUERY_SIZE:].view(np.float64)

    def read(self) -> tuple[np.ndarray, Answers]:
        """Return the features of the query and their answers, on the host."""
        n_features = int(self.query[0])
        answers = read_answers(self.answers)
        features = self.query[1 : 1 + n_features]
        return features, answers.first(n_features)


class HalfSteps:
    """Finds the best partners of some features, and then those of these partners.

    The partners that the first pass finds are the query of the second one, on the card.

    Parameters
    ----------
    card : CardData
    """

    def __init__(self, card: CardData) -> None:
        self.device = card.device
        self._starts = self.device.zeros(1 + WIDTH, np.int64)
        self._host_starts = self.device.host(1 + WIDTH, np.int64)
        self._passes = self.device.zeros(2 * PassBuffer.SIZE, np.int64)
        self._host_passes = self.device.host(2 * PassBuffer.SIZE, np.int64)
        self._graphs: dict[Any, Any] = {}

    def __call__(
        self, pulls: Pulls, starts: list[int], n_largest: int
    ) -> tuple[np.ndarray, Answers]:
        """Return features and their answers; the links must be owned.

        Parameters
        ----------
        pulls : Pulls
        starts : list of int
            Features to start from.
        n_largest : int
            Features of the largest diagonal entries to start from. Together at most
            WIDTH.
        """
        self._host_starts[0] = len(starts)
        self._host_starts[1 : 1 + len(starts)] = starts
        key = (self.device.address(pulls.w), n_largest)
        self.device.replay(self._graphs, key, lambda: self._queue(pulls, n_largest))
        self.device.wait()
        first, second = self._split(self._host_passes)
        features, answers = first.read()
        more_features, more_answers = second.read()
        all_features = np.concatenate([features, more_features])
        return all_features, answers.followed_by(more_answers)

    def _queue(self, pulls: Pulls, n_largest: int) -> None:
        """Queue both passes, and copies of their numbers."""
        device = self.device
        first, second = self._split(self._passes)
        device.copy(self._starts, self._host_starts)
        device.launch(
            "first_query",
            1,
            starts=self._starts,
            n_largest=n_largest,
            largest=pulls.largest,
            query=first.query,
        )
        pulls.queue_pass(first.query, False, first.answers)
        device.launch(
            "next_query",
            1,
            query=first.query,
            answers=first.answers,
            next=second.query,
        )
        pulls.queue_pass(second.query, False, second.answers)
        device.copy(self._host_passes, self._passes)

    def _split(self, numbers: Array) -> tuple[PassBuffer, PassBuffer]:
        """Return the buffers of the first and the second pass."""
        first = PassBuffer(numbers[: PassBuffer.SIZE])
        second = PassBuffer(numbers[PassBuffer.SIZE :])
        return first, second
