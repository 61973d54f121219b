"""The client's side of a fit: which worker has which shards, and rounds of questions to all."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np

from .folding import total
from .member import Member, Message, PerShard
from .shard import AGREED, LONG, TOLD

#: Seconds that an actor may take to start.
START = 60.0

#: Seconds between two looks at tasks.
POLL = 1.0

#: Seconds that a worker may take to say that it is there.
PING = 10.0


class WorkerLost(RuntimeError):  # noqa: N818 - it says what happened
    """A worker has died, or does not answer."""


class Question(NamedTuple):
    """A question to all shards."""

    name: str
    args: tuple = ()


class Order(NamedTuple):
    """An order to all shards: make the value of this number."""

    verb: str
    out: int
    args: tuple = ()


@dataclass
class Traffic:
    """What went over the wire: the payload of the messages, without their headers.

    Parameters
    ----------
    rounds : int
        Questions and answers between client and workers.
    down, up : int
        Bytes from the client to all workers, and back.
    between : int
        Bytes from worker to worker.
    """

    rounds: int = 0
    down: int = 0
    up: int = 0
    between: int = 0

    def since(self, other: Traffic) -> Traffic:
        """Return what was added since another count."""
        return Traffic(
            self.rounds - other.rounds, self.down - other.down, self.up - other.up,
            self.between - other.between,
        )  # fmt: skip

    def plus(self, other: Traffic) -> Traffic:
        """Return the sum of two counts."""
        return Traffic(
            self.rounds + other.rounds, self.down + other.down, self.up + other.up,
            self.between + other.between,
        )  # fmt: skip

    def copy(self) -> Traffic:
        """Return the count as it is now."""
        return Traffic(self.rounds, self.down, self.up, self.between)


@dataclass
class Seat:
    """A member, as the client knows it."""

    address: str
    future: Any  # of the actor; its release ends the member
    shards: list[int] = field(default_factory=list)
    built: set[int] = field(default_factory=set)

    @property
    def key(self) -> str:
        """The actor's key."""
        return self.future.key


class Team:
    """Members on the workers of a cluster, and the shards that each has.

    Parameters
    ----------
    client : distributed.Client
    n_shards : int
    timeout : float, default=300.0
        Seconds without an answer after which a worker counts as lost.

    Attributes
    ----------
    name : str
    seats : list of Seat
    traffic : Traffic
    n_lost : int
        Workers lost so far.
    """

    def __init__(self, client: Any, n_shards: int, *, timeout: float = 300.0) -> None:
        self.client, self.n_shards, self.timeout = client, n_shards, float(timeout)
        self.name = f"hdsl-{uuid4().hex[:12]}"
        self.seats: list[Seat] = []
        self.traffic, self.n_lost = Traffic(), 0
        self.excluded: set[str] = set()  # workers that are alive but do not answer
        self._pending: list[Order] = []
        self._numbers = itertools.count(1)
        self._stage, self._n_stages, self._round = "", 0, 0
        self._direct: bool | None = None

    # --- composition -----------------------------------------------------------------------------

    def workers(self) -> list[str]:
        """Return the addresses of the workers that can be used, in a fixed order."""
        return sorted(at for at in self.client.nthreads() if at not in self.excluded)

    def hire(self, addresses: Sequence[str]) -> None:
        """Start a member on each of these workers that has none."""
        taken = {seat.address for seat in self.seats}
        new = [address for address in addresses if address not in taken]
        make = (Member, self.name, self.n_shards, self.timeout)
        how = {"actor": True, "pure": False}
        futures = [
            self.client.submit(*make, **how, workers=[at], key=f"{self.name}-{uuid4().hex[:8]}")
            for at in new
        ]
        for address, future in zip(new, futures, strict=True):
            wait_for([future], START, what="A worker did not start")
            self.seats.append(Seat(address, future))

    def dismiss_lost(self) -> None:
        """Forget the members whose workers are gone or do not answer."""
        alive = set(self.workers())
        seats = [seat for seat in self.seats if seat.address in alive]  # of others all is known
        deaf = set(self.client.sync(self._deaf, seats)) if seats else set()
        self.excluded |= deaf & set(self.workers())
        lost = [s for s in self.seats if s.address not in alive or s.address in deaf]
        self.seats = [seat for seat in self.seats if seat not in lost]
        self.n_lost += len(lost)
        for seat in lost:
            seat.future.release()

    async def _deaf(self, seats: list[Seat]) -> list[str]:
        """Return the workers that do not say in time that they have their member."""

        async def answers(seat: Seat) -> bool:
            try:
                await asyncio.wait_for(self._call(seat, "wake", self.name), PING)
            except (OSError, TimeoutError, KeyError):
                return False
            return True

        found = await asyncio.gather(*map(answers, seats))
        return [seat.address for seat, ok in zip(seats, found, strict=True) if not ok]

    def connect(self, bounds: np.ndarray) -> None:
        """Let all members know each other; `bounds` are those of their blocks of features."""
        self._n_stages += 1
        self._stage, self._round = f"{self.name}-{self._n_stages}", 0
        self._pending.clear()
        peers = [
            (seat.address, seat.key, int(first), int(last))
            for seat, first, last in zip(self.seats, bounds[:-1], bounds[1:], strict=True)
        ]
        stage = self._stage

        async def call() -> None:
            jobs = [
                self._call(seat, "connect", stage, peers, k) for k, seat in enumerate(self.seats)
            ]
            await asyncio.gather(*jobs)

        self._sync(call)

    def close(self) -> None:
        """Let the members go."""
        seats, self.seats = self.seats, []
        for seat in seats:
            seat.future.release()

    # --- rounds ----------------------------------------------------------------------------------

    def new_number(self) -> int:
        """Return a number for a value."""
        return next(self._numbers)

    def order(self, order: Order) -> None:
        """Send an order with the next question."""
        self._pending.append(order)

    def ask(self, *questions: Question) -> list[Any]:
        """Return the answers of all shards together, after all orders so far.

        A sum is an array. What shards tell is a list in their order. Of a long sum there is a list
        of answers, one per block of features.
        """

        async def call() -> list[Message]:
            # Inside the event loop, which an interrupt of the caller does not reach.
            pending, self._pending = self._pending, []
            orders = tuple(pending)
            number, self._round = self._round, self._round + 1
            jobs = []
            for seat in self.seats:
                mine = [(o.verb, o.out, _for(seat, o.args)) for o in orders]
                asked = [(q.name, _for(seat, q.args)) for q in questions]
                self.traffic.down += payload(mine) + payload(asked)
                jobs.append(self._call(seat, "round", self._stage, number, mine, asked))
            self.traffic.rounds += 1
            return await asyncio.gather(*jobs)

        replies = [reply.content for reply in self._sync(call)]
        self.traffic.between += sum(sent for _, sent in replies)
        self.traffic.up += payload([answers for answers, _ in replies])
        return [
            self._joined(question.name, [answers[k] for answers, _ in replies])
            for k, question in enumerate(questions)
        ]

    def _joined(self, question: str, answers: list[Any]) -> Any:
        if question in TOLD:
            told = {k: answer for part in answers for k, answer in part.items()}
            return [told[k] for k in range(self.n_shards)]
        if question in LONG:
            return answers
        if question in AGREED:
            return answers[0]
        return total({node: a for part in answers for node, a in part.items()}, self.n_shards)

    async def _call(self, seat: Seat, function: str, *args: Any) -> Any:
        from distributed.protocol import to_serialize

        reply = await self._rpc(seat.address).actor_execute(
            actor=seat.key, function=function, args=[to_serialize(Message(args))], kwargs={}
        )
        if reply["status"] != "OK":
            raise reply["exception"]
        return reply["result"]

    def _rpc(self, address: str) -> Any:
        """Return the way to a worker: straight, or through the scheduler."""
        from distributed.actor import ProxyRPC

        if self._direct:
            return self.client.rpc(address)
        return ProxyRPC(self.client.scheduler, address)

    def _sync(self, call: Any) -> Any:
        try:
            if self._direct is None:
                self._direct = self.client.sync(self._can_reach)
            return self.client.sync(_whole, call, self.timeout)
        except (OSError, TimeoutError, KeyError) as error:
            # KeyError: a worker of that address that does not know the actor.
            if isinstance(error, KeyError) and not self._is_gone(error):
                raise
            raise WorkerLost(f"{type(error).__name__}: {error}") from error

    def _is_gone(self, error: KeyError) -> bool:
        return any(str(arg).startswith(self.name) for arg in error.args)

    async def _can_reach(self) -> bool:
        """Whether the client can connect to the workers without the scheduler."""
        try:
            for seat in self.seats:
                await asyncio.wait_for(self.client.rpc(seat.address).identity(), 3.0)
        except (OSError, TimeoutError):
            return False
        return True


async def _whole(call: Callable[[], Awaitable[Any]], timeout: float) -> Any:
    """Call, and go on to the end even where an interrupt ends the wait: all or none must hear."""
    return await asyncio.shield(asyncio.ensure_future(asyncio.wait_for(call(), timeout)))


def _for(seat: Seat, args: tuple) -> tuple:
    """Return arguments as a member gets them: of those per shard its own."""
    return tuple(
        PerShard({k: arg[k] for k in seat.shards}) if isinstance(arg, PerShard) else arg
        for arg in args
    )


def payload(content: Any) -> int:
    """Return the bytes of the arrays and numbers in a message."""
    if isinstance(content, np.ndarray):
        return content.nbytes
    if isinstance(content, Mapping):
        return sum(payload(part) for part in content.values())
    if isinstance(content, list | tuple):
        return sum(payload(part) for part in content)
    return 8


def wait_for(futures: Sequence[Any], timeout: float, *, what: str) -> None:
    """Wait until futures are finished; raise WorkerLost where nothing happens for too long.

    Dask makes lost results again, so they are waited for.
    """
    patience = Patience(futures, timeout, what)
    while not (is_done(futures, POLL) and all(f.status != "lost" for f in futures)):
        patience.check()
        time.sleep(0.01)
    for future in futures:
        if future.status == "error" and not is_loss(future.exception(timeout=timeout)):
            future.result(timeout=timeout)  # raises what went wrong
        if future.status not in ("finished", "pending", "lost"):
            raise WorkerLost(f"{what}: {future.key} is {future.status}.")


class Patience:
    """The end of a wait for tasks: a time without any progress on the cluster.

    Parameters
    ----------
    futures : sequence of Future
    timeout : float
        Seconds in which the tasks that workers have must change.
    what : str
        What is waited for, with a verb.
    """

    def __init__(self, futures: Sequence[Any], timeout: float, what: str) -> None:
        self._client = futures[0].client if futures else None
        self._timeout, self._what = timeout, what
        self._seen: Any = None
        self._end = time.monotonic() + timeout

    def check(self) -> None:
        """Raise WorkerLost where nothing has changed for too long."""
        assert self._client is not None
        now = {worker: frozenset(keys) for worker, keys in self._client.processing().items()}
        if now != self._seen:
            self._seen, self._end = now, time.monotonic() + self._timeout
        elif time.monotonic() > self._end:
            raise WorkerLost(f"{self._what} within {self._timeout:g} s.")


def is_loss(error: Any) -> bool:
    """Whether a task failed because a worker died, and not by itself."""
    from distributed import KilledWorker
    from distributed.client import FutureCancelledError

    lost = KilledWorker | FutureCancelledError | WorkerLost | OSError  # TimeoutError is an OSError
    return isinstance(error, lost)


def gathered(client: Any, futures: Sequence[Any], timeout: float, *, what: str) -> list[Any]:
    """Return the results of tasks; raise WorkerLost where they are lost or not there in time."""
    wait_for(futures, timeout, what=what)
    try:
        return client.sync(_whole, lambda: client.gather(list(futures), asynchronous=True), timeout)
    except Exception as error:
        if is_loss(error) or type(error).__name__ == "FuturesCancelledError":
            raise WorkerLost(f"{what}: {error}") from error
        raise


def is_done(futures: Sequence[Any], timeout: float) -> bool:
    """Wait for futures, and return whether they are done in time."""
    from distributed import wait

    if not futures:
        return True
    with futures[0].client.as_current():  # there may be several
        try:
            wait(list(futures), timeout=timeout)
        except TimeoutError:
            return False
    return True
