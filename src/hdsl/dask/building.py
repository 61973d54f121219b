"""Shards from blocks: comparisons are dealt out by anchors, and each shard gets its rows.

This is the client's part; ``tasks`` has what runs on the workers.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..cpu import corrective
from .problem import DaskLayout, Places
from .shard import Sampled
from .sources import Source, held
from .stages import stage
from .tasks import (
    IN_MEMORY,
    Columns,
    Frame,
    Storage,
    adopt,
    deal,
    gather,
    pick,
    rows_of,
    summarise,
    take_rows,
    weights_of,
    winners_of,
)
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
