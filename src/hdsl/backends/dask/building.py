"""Shards from blocks: comparisons are dealt out by anchors, and each shard gets its rows.

Blocks of rows stay where Dask has them. A shard takes the rows that it needs out of each block, so
no machine ever has all of X. What runs on a worker is a function at the top of this module.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..cpu import corrective
from ..cuda import runtime
from .member import MEMBERS
from .on_disk import on_disk
from .problem import DaskLayout, Places
from .shard import Sampled, Shard
from .stages import stage
from .team import POLL, Patience, Question, Seat, Team, WorkerLost, gathered, is_done, is_loss

#: Comparisons per shard, also for one on a graphics card, and the most shards, for n_shards="auto".
SHARD_SIZE, CARD_SIZE, MOST_SHARDS = 1 << 18, 1 << 24, 128

#: How often anchors move toward the mean place of the rows that they are compared with.
SMOOTHING = 40

#: After so many of these moves places are spread out again.
RANKED = 4

#: How often shards are built again after workers were lost in the meantime.
ATTEMPTS = 20

#: Seconds between two of these attempts.
PAUSE = 0.5

Compared = tuple[np.ndarray, np.ndarray | None]


# --- on the workers ------------------------------------------------------------------------------


def itself(value: Any) -> Any:
    """Return the value."""
    return value


class Summary(NamedTuple):
    """What the client needs to know of a block of comparisons."""

    anchors: np.ndarray
    counts: np.ndarray
    pairs: np.ndarray  # distinct anchor * n_rows + row
    total_weight: float
    largest_weight: float


def summarise(block: Compared, n_rows: int) -> Summary:
    """Return what the client needs to know of a block of comparisons."""
    compared, weights = block
    anchors, counts = np.unique(compared[:, 0], return_counts=True)
    others = compared[:, 1:]
    pairs = np.sort(compared[:, :1] * np.int64(n_rows) + others, axis=None)
    pairs = pairs[np.append(True, pairs[1:] != pairs[:-1])]  # np.unique takes four times as long
    total = float(len(compared)) if weights is None else float(weights.sum())
    largest = 1.0 if weights is None else float(weights.max(initial=0.0))
    return Summary(anchors, counts, pairs, total, largest)


class Dealt(NamedTuple):
    """The comparisons of a block, sorted by shard."""

    compared: np.ndarray
    weights: np.ndarray | None
    bounds: np.ndarray  # where the comparisons of each shard begin, and all of them end


def deal(block: Compared, shard_of: np.ndarray, n_shards: int) -> Dealt:
    """Return the comparisons of a block by shards; those of anchors without one are left out."""
    compared, weights = block
    shard = shard_of[compared[:, 0]]
    order = np.argsort(shard, kind="stable")
    bounds = np.searchsorted(shard[order], np.arange(n_shards + 1))
    whole = np.asarray(compared, dtype=np.int32)[order]
    return Dealt(whole, None if weights is None else weights[order], bounds)


def pick(dealt: Dealt, shard: int) -> Compared:
    """Return the comparisons of a shard."""
    own = slice(*dealt.bounds[shard : shard + 2])
    return dealt.compared[own], None if dealt.weights is None else dealt.weights[own]


class Gathered(NamedTuple):
    """The comparisons of a shard, sorted by anchor, in the shard's own row numbers."""

    compared: np.ndarray
    weights: np.ndarray | None
    rows: np.ndarray  # the numbers of these rows in X, rising


def gather(*parts: Compared) -> Gathered:
    """Return the comparisons of a shard."""
    compared = np.concatenate([part for part, _ in parts])
    order = np.argsort(compared[:, 0], kind="stable")
    weights = None
    if parts[0][1] is not None:
        weights = np.concatenate([part for _, part in parts])[order]
    rows, numbers = np.unique(compared[order], return_inverse=True)
    return Gathered(numbers.reshape(compared.shape).astype(np.int32), weights, rows)


def rows_of(gathered: Gathered) -> np.ndarray:
    """Return the rows of X that a shard needs."""
    return gathered.rows


def take_rows(block: sp.csr_array, rows: np.ndarray, first: int) -> sp.csr_array:
    """Return those rows that are in a block; `first` is the number of its first row."""
    begin, end = np.searchsorted(rows, [first, first + block.shape[0]])
    return sp.csr_array(block)[rows[begin:end] - first]


class Columns(NamedTuple):
    """What the client needs to know of a block of rows."""

    n_rows: int
    columns: np.ndarray
    counts: np.ndarray
    squares: float  # sum of all squares


def count_columns(block: sp.csr_array) -> Columns:
    """Return what the client needs to know of a block of rows."""
    columns, counts = np.unique(block.indices, return_counts=True)
    return Columns(block.shape[0], columns, counts, float(np.square(block.data).sum()))


def winners_of(block: Compared, n_rows: int) -> np.ndarray:
    """Return the pairs that are to win in some comparison, as keys of `Sampled`."""
    return np.unique(_winner_keys(block[0], n_rows))


def weights_of(block: Compared, n_rows: int, keys: np.ndarray) -> np.ndarray:
    """Return the weight of the comparisons whose winners are chosen, and of all."""
    compared, weights = block
    weights = np.ones(len(compared)) if weights is None else weights
    is_chosen = np.isin(_winner_keys(compared, n_rows), keys)
    return np.array([weights[is_chosen].sum(), weights.sum()])


def _winner_keys(compared: np.ndarray, n_rows: int) -> np.ndarray:
    low, high = np.sort(compared[:, :2].astype(np.int64), axis=1).T
    return low * n_rows + high


class Storage(NamedTuple):
    """Where shards have their arrays.

    Parameters
    ----------
    products : bool, default=True
        Whether products of rows are stored.
    device : str, default="cpu"
        What shards compute on; "cuda" is the first GPU that a worker sees.
    on_disk : bool, default=False
        Whether the arrays are in files of the workers.
    """

    products: bool = True
    device: str = "cpu"
    on_disk: bool = False


IN_MEMORY = Storage()


class Frame(NamedTuple):
    """What all shards have in common."""

    features: np.ndarray
    total_weight: float
    largest_weight: float
    storage: Storage
    sampled: Sampled | None = None


def adopt(team: str, shard: int, frame: Frame, of: Gathered, *parts: sp.csr_array) -> None:
    """Make a shard of the member of this worker."""
    from distributed import get_worker

    member, device = MEMBERS[team, get_worker().address], frame.storage.device
    omega: np.ndarray | float = 1.0 / frame.total_weight
    weights = of.weights
    if weights is not None:
        omega, weights = weights / frame.total_weight, weights / frame.largest_weight
    made = Shard(
        joined(parts, frame.features), of.compared, omega, weights,
        workers=member.workers, store_products=frame.storage.products,
        device=None if device == "cpu" else runtime.get_device(device),
    )  # fmt: skip
    if frame.sampled is not None:
        made.sample = corrective.share_sample(made.comparisons, of.rows, *frame.sampled)
    if frame.storage.on_disk:
        made = on_disk(made, member.workers, get_worker().local_directory)
    member.shards[shard] = made
    member.shards = dict(sorted(member.shards.items()))


def joined(parts: Sequence[sp.csr_array], features: np.ndarray) -> sp.csr_array:
    """Return blocks of rows as one matrix, in the numbers of the features.

    The number of a feature is its position in `features`. Numbers have 32 bits, and no array is
    longer than need be: this is when a worker holds most.
    """
    number_of = numbering(features)
    counts = [np.diff(part.indptr) for part in parts]
    indptr = np.concatenate([[0], np.cumsum(np.concatenate(counts))])
    n_rows, nnz = len(indptr) - 1, int(indptr[-1])
    kind = np.int32 if nnz < np.iinfo(np.int32).max else np.int64
    indices, data, at = np.empty(nnz, dtype=kind), np.empty(nnz), 0
    for part in parts:
        here = slice(at, at + part.nnz)
        indices[here] = number_of(part.indices)
        data[here] = part.data
        at += part.nnz
    return sp.csr_array((data, indices, indptr.astype(kind)), shape=(n_rows, len(features)))


def numbering(features: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function from columns to their positions in `features`."""
    n = int(features.max(initial=0)) + 1
    if n <= 8 * len(features) + 1000:
        position = np.zeros(n, dtype=np.int32)
        position[features] = np.arange(len(features), dtype=np.int32)
        return position.__getitem__
    order = np.argsort(features)
    known = features[order]
    return lambda columns: order[np.searchsorted(known, columns)]


# --- on the client -------------------------------------------------------------------------------


def group_anchors(
    anchors: np.ndarray, counts: np.ndarray, pairs: np.ndarray, n_rows: int, n_shards: int
) -> np.ndarray:
    """Return the shard of each anchor: shards of equal size that have few rows in common.

    Rows that are compared move toward each other on a line, again and again; then the line is cut.

    Parameters
    ----------
    anchors, counts : ndarray of shape (n_anchors,)
        Rows that comparisons start from, rising, and how many start from each.
    pairs : ndarray
        Each anchor * n_rows + row, once or more often.
    n_rows, n_shards : int
    """
    rows, a, b = listed_rows(pairs, n_rows)
    n = len(rows)
    ends = np.concatenate([a, b]), np.concatenate([b, a])
    links = sp.csr_array((np.ones(2 * len(a)), ends), shape=(n, n))
    degree = np.diff(links.indptr)
    links.data[:] = 1.0
    place = np.random.default_rng(0).permutation(n).astype(np.float64)
    if n_shards > 1:
        for k in range(SMOOTHING):
            place = 0.5 * place + 0.5 * (links @ place) / np.maximum(degree, 1)
            if k % RANKED == RANKED - 1:
                rank = np.argsort(place, kind="stable")
                place[rank] = np.arange(n)
    order = np.argsort(place[np.searchsorted(rows, anchors)], kind="stable")
    before = np.cumsum(counts[order]) - counts[order]
    shard = np.empty(len(anchors), dtype=np.int64)
    shard[order] = before * n_shards // counts.sum()
    _, shard = np.unique(shard, return_inverse=True)  # an anchor may be larger than a shard
    return shard


def listed_rows(pairs: np.ndarray, n_rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the rows that pairs name, rising, and both rows of each pair by position in it."""
    a, b = np.divmod(pairs, n_rows)
    is_named = np.zeros(n_rows, dtype=bool)
    is_named[a] = is_named[b] = True
    position = np.cumsum(is_named, dtype=np.int32) - np.int32(1)
    return np.flatnonzero(is_named), position[a], position[b]


def chosen_shards(
    n_shards: int | str, n_comparisons: int, n_features: int = 0, device: str = "cpu"
) -> int:
    """Return the number of shards, which depends on the data and the device alone.

    It is a power of two, so that 2, 4 or 8 workers have equally many. Each shard has arrays as long
    as the features, so it has as many comparisons at least.
    """
    if n_shards == "auto":
        size = max(SHARD_SIZE, n_features) if device == "cpu" else CARD_SIZE
        return max(2, min(1 << (-(-n_comparisons // size) - 1).bit_length(), MOST_SHARDS))
    return int(n_shards)


@dataclass
class Source:
    """Blocks that can be had again after a worker was lost.

    Parameters
    ----------
    client : distributed.Client
    raw : list or Source
        Delayed objects, which are loaded when they are needed, futures, whose graph Dask knows, or
        objects of the client.
    prepare : callable, default=None
        From a raw block to the block; None takes it as it is.
    args : tuple
        More arguments of `prepare`.
    each : list of tuple, default=None
        More arguments of `prepare`, others for each block.
    """

    client: Any
    raw: list[Any] | Source
    prepare: Callable[..., Any] | None = None
    args: tuple = ()
    each: list[tuple] | None = None
    _made: list[Any] = field(default_factory=list, init=False)

    def futures(self) -> list[Any]:
        """Return the blocks as futures; those that are lost are made again."""
        self._made = self._made or [None] * self.n_blocks
        if not all(map(is_usable, self._made)):
            raw = self.raw.futures() if isinstance(self.raw, Source) else self.raw
            for k, block in enumerate(raw):
                if not is_usable(self._made[k]):
                    self._made[k] = self._start(block, () if self.each is None else self.each[k])
            if isinstance(self.raw, Source):
                self.raw.release()  # Dask keeps a raw block for as long as it is asked for
        return list(self._made)

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return self.raw.n_blocks if isinstance(self.raw, Source) else len(self.raw)

    def _start(self, block: Any, own: tuple) -> Any:
        """Return a block as a future."""
        from dask import is_dask_collection

        if is_dask_collection(block):
            block = self.client.compute(block)
        elif not hasattr(block, "key"):
            block = held(self.client, block)
        if self.prepare is None:
            return block
        return self.client.submit(self.prepare, block, *self.args, *own, pure=False)

    def release(self) -> None:
        """Let the blocks go; `futures` makes them again."""
        self._made = []
        if isinstance(self.raw, Source):
            self.raw.release()


class Joined(Source):
    """The blocks of several sources, one after the other.

    Parameters
    ----------
    parts : Source
    """

    def __init__(self, *parts: Source) -> None:
        super().__init__(parts[0].client, [])
        self.parts = parts

    def futures(self) -> list[Any]:
        """Return the blocks as futures; those that are lost are made again."""
        return [block for part in self.parts for block in part.futures()]

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return sum(part.n_blocks for part in self.parts)

    def release(self) -> None:
        """Let the blocks go; `futures` makes them again."""
        for part in self.parts:
            part.release()


def held(client: Any, value: Any) -> Any:
    """Return an object of the client as a future that Dask can make again on any worker."""
    import dask

    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TB"}):
        return client.submit(itself, value, pure=False)


def is_usable(future: Any) -> bool:
    """Whether a future is there, or will be."""
    return future is not None and future.status in ("pending", "finished", "lost")


def number_columns(blocks: Sequence[Columns], also: np.ndarray | None = None) -> np.ndarray:
    """Return the columns that are features, the fullest first; `also` are so although empty."""
    columns, place = np.unique(np.concatenate([b.columns for b in blocks]), return_inverse=True)
    counts = np.bincount(place, np.concatenate([b.counts for b in blocks]), len(columns))
    features = columns[np.argsort(-counts, kind="stable")].astype(np.int64)
    if also is not None:
        features = np.concatenate([features, np.setdiff1d(also, features)])
    return features


class Builder:
    """Builds the shards of a fit, and again those that are lost.

    Parameters
    ----------
    rows : Source
        Blocks of X as they are compared.
    starts : ndarray of shape (n_blocks + 1,)
        Number of the first row of each block, and of all rows at the end.
    compared : Source
        Blocks of (comparisons, weights or None).
    features : ndarray of shape (n_features,)
        Columns of X, the fullest first.
    mean_square : float
        Of all rows.
    storage : Storage
    timeout : float, default=300.0
        Seconds without an answer after which a worker counts as lost.
    """

    def __init__(
        self,
        rows: Source,
        starts: np.ndarray,
        compared: Source,
        features: np.ndarray,
        mean_square: float,
        *,
        storage: Storage = IN_MEMORY,
        timeout: float = 300.0,
    ) -> None:
        self.client, self.rows, self.starts, self.compared = rows.client, rows, starts, compared
        self.features, self.mean_square, self.timeout = features, mean_square, timeout
        self.storage = storage
        self.n_held = 0  # rows of all shards

    def plan(self, n_shards: int | str) -> Places:
        """Deal out the comparisons; return where each one is."""
        n_rows = int(self.starts[-1])
        blocks = self.compared.futures()
        with stage("list the pairs of rows"):
            submit = self.client.submit
            found = self.results([submit(summarise, b, n_rows, pure=False) for b in blocks])
        together = np.concatenate([part.anchors for part in found])
        anchors, place = np.unique(together, return_inverse=True)
        weights = np.concatenate([part.counts for part in found])
        counts = np.bincount(place, weights).astype(np.int64)
        pairs = np.concatenate([part.pairs for part in found])
        wanted = chosen_shards(n_shards, int(counts.sum()), len(self.features), self.storage.device)
        wanted = min(wanted, len(anchors))
        with stage("group the anchors"):
            shards = group_anchors(anchors, counts, pairs, n_rows, wanted)
        self.frame = Frame(
            self.features,
            float(sum(part.total_weight for part in found)),
            max(part.largest_weight for part in found),
            self.storage,
        )
        self.places = Places(anchors, counts, shards)
        shard_of = self._shard_of()
        first, second = np.divmod(pairs, n_rows)
        ends = np.repeat(shard_of[first], 2), np.column_stack([first, second]).ravel()
        is_held = sp.csr_array((np.ones(len(ends[0]), dtype=bool), ends), (wanted, n_rows))
        self.rows_of_shards = np.diff(is_held.indptr)
        self.n_compared_rows = len(np.unique(is_held.indices))
        return self.places

    def sample(self) -> None:
        """Choose what second derivatives are estimated from, as one machine chooses it.

        Corrective steps need it, after `plan`; where there are few comparisons it does nothing.
        """
        stride = -(-self.places.n_comparisons // corrective.CURVATURE_SAMPLE)
        if stride == 1:
            return
        n_rows, blocks, submit = int(self.starts[-1]), self.compared.futures(), self.client.submit
        found = self.results([submit(winners_of, b, n_rows, pure=False) for b in blocks])
        keys = np.unique(np.concatenate(found))[::stride]
        sent = held(self.client, keys)
        asked = [submit(weights_of, b, n_rows, sent, pure=False) for b in blocks]
        chosen, total = np.sum(self.results(asked), axis=0).tolist()
        sampled = Sampled(n_rows, keys, chosen / total if total > 0.0 else 1.0)
        self.frame = self.frame._replace(sampled=sampled)

    def _shard_of(self) -> np.ndarray:
        """Return the shard of each row as an anchor, -1 where it is none."""
        shard_of = np.full(int(self.starts[-1]), -1, dtype=np.int32)
        shard_of[self.places.anchors] = self.places.shards
        return shard_of

    def results(self, futures: Sequence[Any]) -> list[Any]:
        """Return the results of tasks; raise WorkerLost where they do not come in time."""
        return gathered(self.client, futures, self.timeout, what="Tasks were not done")

    def layout(self, team: Team) -> DaskLayout:
        """Build all shards on the team's workers, and return the layout."""
        self.settle(team)
        return DaskLayout(team, self.features, self.places, self.mean_square)

    def settle(self, team: Team) -> None:
        """Build the shards that no worker has, again where workers are lost in the meantime."""
        for attempt in range(ATTEMPTS):
            try:
                team.dismiss_lost()
                with stage("start members"):
                    self._place(team)
                with stage("build the shards"):
                    self._build(team)
                with stage("connect the members"):
                    team.connect(self._bounds(len(team.seats)))
                (sizes,) = team.ask(Question("sizes"))
                self.n_held = int(sizes[1])
            except WorkerLost:
                if attempt == ATTEMPTS - 1:
                    raise
                time.sleep(PAUSE)  # until the scheduler knows, and new workers are there
            else:
                break
        self.rows.release()
        self.compared.release()

    def _place(self, team: Team) -> None:
        """Give shards to workers: runs of neighbours, as few to each as possible."""
        there, n_shards = team.workers(), self.places.n_shards
        if not there:
            raise WorkerLost("The cluster has no workers.")
        placed = {shard for seat in team.seats for shard in seat.shards}
        missing = [shard for shard in range(n_shards) if shard not in placed]
        if not missing:
            return
        team.hire(there[:n_shards])
        seats = team.seats
        if not placed:
            for shard in missing:
                seats[shard * len(seats) // n_shards].shards.append(shard)
            return
        for shard in missing:
            min(seats, key=lambda seat: (len(seat.shards), seat.address)).shards.append(shard)

    def _build(self, team: Team) -> None:
        """Build the shards that members do not have yet."""
        team.seats = [seat for seat in team.seats if seat.shards]
        wanted = [
            (seat, shard) for seat in team.seats for shard in seat.shards if shard not in seat.built
        ]
        if not wanted:
            return
        submit = self.client.submit
        shard_of, frame = held(self.client, self._shard_of()), held(self.client, self.frame)
        n_shards = self.places.n_shards
        dealt = [submit(deal, b, shard_of, n_shards, pure=False) for b in self.compared.futures()]
        rows = self.rows.futures()
        waves = [wanted]
        if self.storage.on_disk:  # one shard of each worker at a time: few rows are in memory
            turn = [seat.shards.index(shard) for seat, shard in wanted]
            waves = [
                [item for item, k in zip(wanted, turn, strict=True) if k == n]
                for n in sorted(set(turn))
            ]
        for wave in waves:
            jobs = [self._start(seat, shard, dealt, rows, frame, team) for seat, shard in wave]
            wait_alive(jobs, team, self.timeout)
            for seat, shard in wave:
                seat.built.add(shard)

    def _start(
        self, seat: Seat, shard: int, dealt: list[Any], rows: list[Any], frame: Any, team: Team
    ) -> Any:
        """Begin to build a shard; return the future of its end."""
        submit = self.client.submit
        # One shard after the other, so that a worker has the parts of few.
        how = {"pure": False, "priority": -seat.shards.index(shard)}
        here = {**how, "workers": [seat.address]}
        compared = submit(gather, *(submit(pick, block, shard, **how) for block in dealt), **here)
        needed = submit(rows_of, compared, **here)
        taken = [
            submit(take_rows, block, needed, first, **how)
            for block, first in zip(rows, self.starts[:-1].tolist(), strict=True)
        ]
        return submit(adopt, team.name, shard, frame, compared, *taken, **here)

    def _bounds(self, n: int) -> np.ndarray:
        """Return the bounds of n blocks of features; few rows have the last ones."""
        weight = 1.0 + n / (1.0 + np.arange(len(self.features)) / 64.0)
        running = np.concatenate([[0.0], np.cumsum(weight)])
        bounds = np.searchsorted(running, running[-1] * np.arange(n + 1) / n)
        bounds[-1] = len(self.features)
        return bounds

    @property
    def times_held(self) -> float:
        """How many shards hold a row, in the mean over the rows that are compared."""
        return self.n_held / self.n_compared_rows


def wait_alive(futures: Sequence[Any], team: Team, timeout: float) -> None:
    """Wait for tasks that are bound to the workers of a team; raise WorkerLost where one dies."""
    patience = Patience(futures, timeout, "Shards were not built")
    while not is_done(futures, POLL):
        alive = set(team.workers())
        gone = [seat.address for seat in team.seats if seat.address not in alive]
        if gone:
            raise WorkerLost(f"{', '.join(gone)} is gone.")
        patience.check()
    for future in futures:
        if future.status == "error" and not is_loss(future.exception(timeout=timeout)):
            future.result(timeout=timeout)  # raises what went wrong
        if future.status not in ("finished", "lost"):
            raise WorkerLost(f"{future.key} is {future.status}.")
