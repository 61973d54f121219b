"""What runs on a worker: the shards that it has, and a block of features that it adds up.

A member is an actor of Dask: one object per worker and fit, for as long as the fit lasts. In a
round the client sends the same orders and questions to all members. Numbers that are as long as
the features are not sent to the client: each member sends each other one the part for its block of
features, adds up what it gets, and answers for its block.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import numpy as np

from ..cpu.kernels.gradient import list_reaching
from ..cpu.workers import Workers
from ..solver.line_search import search_in_rounds
from .folding import Nodes, fold, total
from .shard import AGREED, LONG, TOLD, Shard

#: The members of this process, by the name of the team and the address of the worker.
MEMBERS: WeakValueDictionary[tuple[str, str], Member] = WeakValueDictionary()


#: Features that all members learn the entries of, at most; most rows have them.
N_FIRST = 1024

#: Value, partner, entry and C_jj of the best partner j of each feature.
Best = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


class Message:
    """The content of a message, which goes over the wire in one piece."""

    def __init__(self, content: tuple) -> None:
        self.content = content


class Peer(NamedTuple):
    """Another member: the address of its worker, its key, and its block of features."""

    address: str
    key: str
    first: int
    last: int


class Inbox:
    """The parts of a long sum that other members have sent."""

    def __init__(self) -> None:
        self.parts: dict[int, Any] = {}
        self.changed = asyncio.Event()
        self.failed = False

    def fail(self) -> None:
        """Let those who wait go."""
        self.failed = True
        self.changed.set()

    def put(self, sender: int, part: Any) -> None:
        """Add the part of a member."""
        self.parts[sender] = part
        self.changed.set()

    async def wait(self, n: int) -> dict[int, Any]:
        """Return the parts once there are n."""
        while len(self.parts) < n:
            if self.failed:
                raise OSError("Another member is lost.")
            self.changed.clear()
            await self.changed.wait()
        return self.parts


class Member:
    """The shards of a fit that one worker has.

    Parameters
    ----------
    team : str
        Name of the team.
    n_shards : int
        Of the whole team.
    timeout : float
        Seconds to wait for another member.
    """

    def __init__(self, team: str, n_shards: int, timeout: float) -> None:
        from distributed import get_worker

        self._worker = get_worker()
        self.n_shards, self.timeout = n_shards, timeout
        self.shards: dict[int, Shard] = {}
        self.workers = Workers(max(1, int(self._worker.state.nthreads)))
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="hdsl")
        self._peers: list[Peer] = []
        self._own = 0
        self._sent: list[np.ndarray] = []  # for each peer: which features of its block are sent
        self._received: list[np.ndarray] = []  # for each peer: which features it sends
        self._diagonals: dict[int, np.ndarray] = {}  # of this block of features
        self._whole_diagonals: dict[int, np.ndarray] = {}
        self._sizes: np.ndarray  # Σ|x| of each feature over all shards
        self._empty: np.ndarray  # features that no shard has a value of
        self._inboxes: dict[tuple[str, int, int], Inbox] = {}
        self._round, self._stage = 0, ""
        self._turn: asyncio.Condition | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        MEMBERS[team, self._worker.address] = self

    # --- what the client calls -------------------------------------------------------------------

    async def connect(self, message: Message) -> int:
        """Know the other members, and agree on the features that each sends; return their number.

        The stage names this composition of the team: messages of an earlier one are dropped.
        """
        stage, peers, own = message.content
        self._stage, self._round, self._turn = stage, 0, asyncio.Condition()
        self._inboxes = {key: box for key, box in self._inboxes.items() if key[0] == stage}
        self._peers, self._own = [Peer(*peer) for peer in peers], own
        self._diagonals.clear()
        self._whole_diagonals.clear()
        for shard in self.shards.values():
            for number in [*shard.values]:
                shard.order("drop", number)
        present = np.logical_or.reduce([shard.present for shard in self.shards.values()])
        blocks = [present[peer.first : peer.last] for peer in self._peers]
        self._sent = [np.flatnonzero(block).astype(np.int32) for block in blocks]
        found = await self._exchange((stage, 0, 0), self._sent)
        self._received = [found[k] for k in range(len(self._peers))]
        sizes = np.sum([shard.sizes for shard in self.shards.values()], axis=0)
        blocks = [sizes[peer.first : peer.last] for peer in self._peers]
        found = await self._exchange((stage, 0, 1), blocks)
        found = await self._exchange((stage, 0, 2), [sum(found.values())] * len(self._peers))
        self._sizes = np.concatenate([found[k] for k in range(len(self._peers))])
        self._empty = np.flatnonzero(self._sizes == 0.0)
        return int(present.sum())

    async def round(self, message: Message) -> Message:
        """Carry out orders and answer questions; rounds are taken in the order of their numbers."""
        stage, number, orders, questions = message.content
        self._loop = asyncio.get_running_loop()
        if stage != self._stage:
            raise OSError(f"The team has moved on from {stage} to {self._stage}.")
        turn = self._turn
        assert turn is not None
        async with turn:
            due = turn.wait_for(lambda: self._round == number or stage != self._stage)
            await asyncio.wait_for(due, self.timeout)
        if stage != self._stage:
            raise OSError("Another member is lost.")
        try:
            if orders:
                await self._in_thread(self._carry_out, orders)
            answers, sent = [], 0
            for k, (question, args) in enumerate(questions):
                answer, n = await self._answer((stage, number + 1, k), question, args)
                answers.append(answer)
                sent += n
            return Message((answers, sent))
        finally:
            async with turn:
                if stage == self._stage:
                    self._round = number + 1
                turn.notify_all()

    async def wake(self, _: Message) -> None:
        """Answer, and give up the round that goes on: another member is lost."""
        self._stage = ""
        if self._turn is not None:
            async with self._turn:
                self._turn.notify_all()
        for inbox in self._inboxes.values():
            inbox.fail()

    async def receive(self, message: Message) -> None:
        """Take the part of another member in a long sum."""
        key, sender, part = message.content
        self._inboxes.setdefault(key, Inbox()).put(sender, part)

    # --- orders and short sums -------------------------------------------------------------------

    async def _in_thread(self, work: Callable[..., Any], *args: Any) -> Any:
        """Compute outside the event loop, one thing after the other."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *args)

    def _carry_out(self, orders: list) -> None:
        for verb, out, args in orders:
            for number, shard in self.shards.items():
                shard.order(verb, out, *(own(arg, number) for arg in args))
            if verb == "drop":
                self._diagonals.pop(out, None)
                self._whole_diagonals.pop(out, None)

    async def _answer(self, key: tuple, question: str, args: tuple) -> tuple[Any, int]:
        """Return the answer to a question, and the bytes sent to other members for it."""
        if question in TOLD:
            return await self._in_thread(self._tell, question, args), 0
        if question not in LONG | AGREED:
            return await self._in_thread(self._sums, question, args), 0
        if question == "partners":
            return await self._find_partners(key, *args)
        if question == "line_search":
            return await self._in_thread(self._search_line, key, *args)
        parts = await self._in_thread(self._split, question, args)
        sent = sum(_size(part) for k, part in enumerate(parts) if k != self._own)
        found = await self._exchange(key, parts)
        return await self._in_thread(self._answer_block, question, args, found), sent

    def _tell(self, question: str, args: tuple) -> dict[int, Any]:
        return {k: shard.ask(question, *args) for k, shard in self.shards.items()}

    def _sums(self, question: str, args: tuple) -> Nodes:
        parts = {
            (0, k): shard.ask(question, *(own(arg, k) for arg in args))
            for k, shard in self.shards.items()
        }
        return fold(parts, self.n_shards)

    # --- line search -----------------------------------------------------------------------------

    def _search_line(
        self, key: tuple, of: int, margins: int, direction: int, max_step_size: float
    ) -> tuple[float, int]:
        """Return the best step size, which all members find together, and the bytes sent.

        All add up the same slopes in the same order, so all go the same way without the client.
        """
        n_asked = sent = 0

        def sums(question: str, sizes: np.ndarray) -> np.ndarray:
            nonlocal n_asked, sent
            nodes = [*self._sums(question, (of, margins, direction, sizes)).items()]
            n_asked += 1
            sent += (len(self._peers) - 1) * _size(nodes)
            found = self._exchange_from_thread((*key, n_asked), [nodes] * len(self._peers))
            return total({node: a for part in found.values() for node, a in part}, self.n_shards)

        def begin(sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            slopes = sums("first_slopes", sizes)
            return slopes[0], slopes[1:]

        def slopes(size: float) -> tuple[float, float]:
            first, second = sums("slopes", np.array([size]))[0].tolist()
            return first, second

        return search_in_rounds(begin, slopes, max_step_size), sent

    def _exchange_from_thread(self, key: tuple, parts: list) -> Mapping[int, Any]:
        """Exchange parts from the thread that computes, which waits for them."""
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(self._exchange(key, parts), self._loop).result()

    # --- long sums -------------------------------------------------------------------------------

    def _split(self, question: str, args: tuple) -> list[list]:
        """Return what each member gets: of each node the features of its block that are here."""
        nodes, whole = self._sums(question, args), []
        for peer, sent in zip(self._peers, self._sent, strict=True):
            blocks = {node: a[peer.first : peer.last] for node, a in nodes.items()}
            if len(sent) < peer.last - peer.first:
                blocks = {node: block[sent] for node, block in blocks.items()}
            whole.append([(node, np.ascontiguousarray(a)) for node, a in blocks.items()])
        return whole

    async def _exchange(self, key: tuple, parts: list) -> Mapping[int, Any]:
        """Send each member its part, and return the parts that they send, by their numbers."""
        from distributed.protocol import to_serialize

        async def send(k: int, peer: Peer) -> None:
            if k == self._own:
                await self.receive(Message((key, k, parts[k])))
                return
            # No reply: where a peer is lost the client hears of it, and wakes those who wait.
            await self._worker.rpc(peer.address).actor_execute(
                actor=peer.key,
                function="receive",
                args=[to_serialize(Message((key, self._own, parts[k])))],
                kwargs={},
                reply=False,
            )

        if key[0] != self._stage:
            raise OSError("Another member is lost.")
        inbox = self._inboxes.setdefault(key, Inbox())
        jobs = [send(k, peer) for k, peer in enumerate(self._peers)]
        try:
            await asyncio.wait_for(asyncio.gather(*jobs), self.timeout)
            return await asyncio.wait_for(inbox.wait(len(self._peers)), self.timeout)
        finally:
            self._inboxes.pop(key, None)

    def _answer_block(self, question: str, args: tuple, received: Mapping[int, Any]) -> Any:
        """Add up the parts of this member's block of features, and answer for it."""
        first, last = self._peers[self._own][2:]
        nodes: Nodes = {}
        for k, part in received.items():
            present = self._received[k]
            for node, values in part:
                if len(present) < last - first:
                    block = np.zeros((last - first, values.shape[1]))
                    block[present] = values
                    nodes[node] = block
                else:
                    nodes[node] = values
        sums = total(nodes, self.n_shards)
        if question == "diagonal":
            gradient, count, at = args
            diagonal = self._diagonals[gradient] = np.ascontiguousarray(sums[:, 0])
            return _about_diagonal(diagonal, first, last, count, at)
        return sums

    # --- partners --------------------------------------------------------------------------------

    async def _find_partners(
        self, key: tuple, gradient: int, features: np.ndarray, after: bool
    ) -> tuple[Any, int]:
        """Return the best partners of features in this member's block, and the bytes sent.

        All members learn the entries of the first features, which most rows have. What is best
        among them no other one may fall short of: few can reach it, and only those are sent.
        """
        part = await self._in_thread(self._begin_partners, gradient, features)
        sent = (len(self._peers) - 1) * (
            _size(part[2]) + (0 if part[0] is None else part[0].nbytes)
        )
        found = await self._exchange((*key, "first"), [part] * len(self._peers))
        best, columns = await self._in_thread(self._reaching, gradient, features, after, found)
        blocks: Mapping[int, Any] = {}
        if len(columns):
            parts = await self._in_thread(self._split_columns, gradient, len(features), columns)
            sent += sum(_size(part) for k, part in enumerate(parts) if k != self._own)
            blocks = await self._exchange((*key, "rest"), parts)
        answer = (gradient, features, after, best, columns, blocks)
        return await self._in_thread(self._best_partners, *answer), sent

    def _begin_partners(self, gradient: int, features: np.ndarray) -> tuple:
        """Return this member's block of the diagonal, bounds of R, and the first entries."""
        few = np.arange(min(N_FIRST, 1 + self._peers[-1].last // 8))
        bounds = [shard.spread(gradient, features) for shard in self.shards.values()]
        nodes = self._rows_at(gradient, len(features), few)
        block = None if gradient in self._whole_diagonals else self._diagonals[gradient]
        return block, np.max(bounds, axis=0), [*nodes.items()]

    def _rows_at(self, gradient: int, n: int, columns: np.ndarray) -> Nodes:
        parts = {(0, k): s.rows_at(gradient, n, columns) for k, s in self.shards.items()}
        return fold(parts, self.n_shards)

    def _reaching(
        self, gradient: int, features: np.ndarray, after: bool, found: Mapping[int, Any]
    ) -> tuple[Best, np.ndarray]:
        """Return the best partners among the first features, and which others may be better."""
        if gradient not in self._whole_diagonals:
            blocks = [found[k][0] for k in range(len(self._peers))]
            self._whole_diagonals[gradient] = np.concatenate(blocks)
        diagonal = self._whole_diagonals[gradient]
        sums = total({node: a for part in found.values() for node, a in part[2]}, self.n_shards)
        n = len(sums)
        best = _partners(sums, diagonal[:n], np.arange(n), features, after)
        best = best_of([best, _first_empty(self._empty, features, after)])
        peak = np.max([part[1] for part in found.values()], axis=0)
        columns = np.empty(len(diagonal) - n, dtype=np.int64)
        n_columns = list_reaching(n, diagonal, self._sizes, peak, best[0], columns)
        columns = columns[:n_columns]
        return best, columns[self._sizes[columns] > 0.0]

    def _split_columns(self, gradient: int, n: int, columns: np.ndarray) -> list[list]:
        """Return what each member gets: of each node the listed features of its block."""
        nodes = self._rows_at(gradient, n, columns)
        cuts = np.searchsorted(columns, [0, *(peer.last for peer in self._peers)])
        return [
            [(node, np.ascontiguousarray(a[begin:end])) for node, a in nodes.items()]
            for begin, end in pairwise(cuts)
        ]

    def _best_partners(
        self,
        gradient: int,
        features: np.ndarray,
        after: bool,
        best: Best,
        columns: np.ndarray,
        blocks: Mapping[int, Any],
    ) -> tuple:
        """Return the best partners in this block, and the diagonal of the features in it.

        The first member answers for the first features besides.
        """
        _, _, first, last = self._peers[self._own]
        answers = [best] if self._own == 0 else []
        if blocks:
            mine = columns[(columns >= first) & (columns < last)]
            nodes = {node: a for part in blocks.values() for node, a in part}
            diagonal = self._whole_diagonals[gradient][mine]
            sums = total(nodes, self.n_shards)
            answers.append(_partners(sums, diagonal, mine, features, after))
        inside = np.flatnonzero((features >= first) & (features < last))
        known = inside, self._diagonals[gradient][features[inside] - first]
        m = len(features)
        nothing = np.full(m, -np.inf), np.full(m, -1), np.zeros(m), np.zeros(m)
        return *(best_of(answers) if answers else nothing), *known


class PerShard(dict):
    """An argument that is another one for each shard."""


def own(argument: Any, shard: int) -> Any:
    """Return the argument as a shard gets it."""
    return argument[shard] if isinstance(argument, PerShard) else argument


def _size(part: list) -> int:
    return sum(values.nbytes for _, values in part)


def _about_diagonal(
    diagonal: np.ndarray, first: int, last: int, count: int, at: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the largest entries of a block and their features; positions in `at`, and entries."""
    if count < len(diagonal):
        # All that may be among the largest, then the smallest feature of equals first.
        limit = np.partition(diagonal, len(diagonal) - count)[len(diagonal) - count]
        few = np.flatnonzero(diagonal >= limit)
    else:
        few = np.arange(len(diagonal))
    few = few[np.argsort(-diagonal[few], kind="stable")[:count]]
    inside = np.flatnonzero((at >= first) & (at < last))
    return few + first, diagonal[few], inside, diagonal[at[inside] - first]


def _partners(
    entries: np.ndarray,
    diagonal: np.ndarray,
    columns: np.ndarray,
    features: np.ndarray,
    after: bool,
) -> Best:
    """Return the best partner of each feature among some columns, which rise."""
    width, m = entries.shape
    if not width:
        return np.full(m, -np.inf), np.full(m, -1), np.zeros(m), np.zeros(m)
    values = np.abs(entries)
    values += diagonal[:, None]
    for k, at in enumerate(np.searchsorted(columns, features).tolist()):
        if after:
            values[: np.searchsorted(columns, features[k], side="right"), k] = -np.inf
        elif at < width and columns[at] == features[k]:
            values[at, k] = -np.inf
    partner = values.argmax(axis=0)
    best = values[partner, np.arange(m)]
    none = best == -np.inf
    found = columns[partner], entries[partner, np.arange(m)], diagonal[partner]
    rest = [np.where(none, nothing, a) for nothing, a in zip((-1, 0.0, 0.0), found, strict=True)]
    return best, *rest


def _first_empty(empty: np.ndarray, features: np.ndarray, after: bool) -> Best:
    """Return for each feature the first one without values, whose entries are all zero."""
    m = len(features)
    at = np.searchsorted(empty, features, side="right") if after else np.zeros(m, dtype=np.int64)
    listed = np.append(empty, [-1, -1])
    if not after:
        at += listed[at] == features
    partner = listed[at]
    return np.where(partner < 0, -np.inf, 0.0), partner, np.zeros(m), np.zeros(m)


def best_of(answers: Sequence[Best]) -> Best:
    """Return the best partners of all answers, the smallest of equals."""
    columns = [np.array([answer[k] for answer in answers]) for k in range(4)]
    values, partners = columns[:2]
    ranks = np.where(values == values.max(axis=0), partners, np.iinfo(np.int64).max)
    at = ranks.argmin(axis=0), np.arange(values.shape[1])
    value, partner, entry, diagonal = (column[at] for column in columns)
    return value, partner, entry, diagonal
