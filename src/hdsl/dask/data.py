"""Blocks of rows and of comparisons in, shards out.

Blocks stay where Dask has them. Comparisons are dealt out by anchors to shards that
have few rows in common, and a shard takes the rows that it needs out of each block, so
that no machine has all of X. All of it is a graph of tasks: what a worker loses Dask
makes again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import getitem
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import reverse_cuthill_mckee

from ..input.comparisons import check_comparisons, check_weights
from ..input.matrices import (
    as_rows,
    canonical,
    check_largest,
    check_live_features,
    largest_value,
)
from .problem import ClusterError, DaskLayout, Places, gather
from .shard import Data, Shard

#: Rows of the client are cut into blocks of so many.
LOCAL_ROWS = 1 << 14

#: Comparisons per shard, and the fewest and the most shards. Their number is a power of
#: two, so that 2, 4 or 8 workers have equally many.
SHARD_SIZE = 1 << 21
FEWEST_SHARDS = 2
MOST_SHARDS = 256

#: Pairs of compared rows, per anchor, that the shards are chosen by.
PER_ANCHOR = 8

#: Comparisons, and their weights or None.
Compared = tuple[np.ndarray, np.ndarray | None]


# --- the cluster ----------------------------------------------------------------------


def find_client(client: Any) -> Any:
    """Return the client of a fit, given or the current one; it must be usable."""
    try:
        from distributed import get_client
    except ImportError:
        raise ImportError("hdsl.dask needs Dask: install hdsl[dask].") from None
    if client is None:
        try:
            client = get_client()
        except ValueError:
            raise ValueError(
                "There is no Dask client. Make one first, client = "
                "distributed.Client(...), or pass it: hdsl.dask.HDSL(client=client)."
            ) from None
    n_workers = len(client.nthreads()) if client.status == "running" else 0
    if not n_workers:
        raise ClusterError(
            f"The Dask client is {client.status} and has {n_workers} workers: make a "
            "new one, or wait for workers with client.wait_for_workers(1)."
        )
    client.get_versions(
        check=True, packages=["numba", "hdsl"]
    )  # results depend on them
    return client


def held(client: Any, value: Any) -> Any:
    """Return an object of the client as a future that Dask can make again on any worker."""
    import dask

    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TB"}):
        return client.submit(itself, value, pure=False)


def itself(value: Any) -> Any:
    """Return the value."""
    return value


# --- blocks ---------------------------------------------------------------------------


def is_in_blocks(data: Any) -> bool:
    """Whether data are a Dask collection, a future, or a list of blocks."""
    if isinstance(data, list | tuple):
        are_blocks = (
            is_in_blocks(part) or getattr(part, "ndim", 0) == 2 for part in data
        )
        return len(data) > 0 and all(are_blocks)
    return hasattr(data, "__dask_graph__") or (
        hasattr(data, "key") and hasattr(data, "status")
    )


def as_futures(client: Any, data: Any) -> list[Any]:
    """Return blocks of rows as futures."""
    if not is_in_blocks(data):
        data = [data[k : k + LOCAL_ROWS] for k in range(0, data.shape[0], LOCAL_ROWS)]
    elif hasattr(data, "to_delayed"):
        parts = np.asarray(data.to_delayed(), dtype=object)
        if parts.ndim == 2 and parts.shape[1] > 1:
            raise ValueError(
                f"The array has {parts.shape[1]} blocks of columns, but blocks must be "
                "of whole rows: use rechunk({1: -1}), or build it from blocks of "
                "rows."
            )
        data = parts.ravel().tolist()
    elif not isinstance(data, list | tuple):
        data = [data]
    return [
        client.compute(block)
        if hasattr(block, "__dask_graph__")
        else block
        if hasattr(block, "key")
        else held(client, block)
        for block in data
    ]


class Facts(NamedTuple):
    """What the client knows of a block of rows."""

    shape: tuple[int, int]
    columns: np.ndarray
    counts: np.ndarray  # values of each of these columns
    largest: float
    longest: int
    squares: np.ndarray  # ‖x‖² of each row


def check_block(block: Any, number: int) -> sp.csr_array:
    """Return a block as a canonical CSR array of float64, checked as rows of one machine are."""
    X = as_rows(block, f"Block {number} of X")
    return canonical(sp.csr_array(X)).astype(np.float64, copy=False)


def describe(block: sp.csr_array) -> Facts:
    """Return what the client needs to know of a block."""
    columns, counts = np.unique(block.indices, return_counts=True)
    squares = np.asarray(block.multiply(block).sum(axis=1)).ravel()
    largest = largest_value(block.data)
    longest = np.diff(block.indptr).max(initial=0)
    return Facts(block.shape, columns, counts, largest, int(longest), squares)


@dataclass(frozen=True)
class Rows:
    """Rows in blocks on a cluster, checked.

    Parameters
    ----------
    client : distributed.Client
    blocks : list of Future
    facts : list of Facts
    """

    client: Any
    blocks: list[Any]
    facts: list[Facts]

    @classmethod
    def of(cls, client: Any, blocks: list[Any]) -> Rows:
        """Return checked blocks."""
        return cls(
            client, blocks, gather(client, client.map(describe, blocks, pure=False))
        )

    @classmethod
    def load(cls, client: Any, X: Any) -> Rows:
        """Return rows as a user gives them; raise ValueError for what cannot be used."""
        given = as_futures(client, X)
        if not given:
            raise ValueError("X has no blocks: at least one block of rows is needed.")
        rows = cls.of(
            client, client.map(check_block, given, range(len(given)), pure=False)
        )
        widths = {facts.shape[1] for facts in rows.facts}
        if len(widths) > 1:
            raise ValueError(
                f"Blocks of X have different numbers of features: {sorted(widths)}."
            )
        check_live_features(len(rows.columns()[0]), rows.shape[1])
        check_largest(rows.largest)
        return rows

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return int(self.starts[-1]), self.facts[0].shape[1]

    @property
    def starts(self) -> np.ndarray:
        """Number of the first row of each block, and of all rows at the end."""
        return np.cumsum([0, *(facts.shape[0] for facts in self.facts)])

    @property
    def largest(self) -> float:
        """The largest absolute value."""
        return max(facts.largest for facts in self.facts)

    def outline(self, norm: str | None) -> sp.csr_array:
        """Return a matrix with the same lengths of rows, or with the same columns."""
        if norm is None:
            squares = np.concatenate([facts.squares for facts in self.facts])
            return sp.csr_array(np.sqrt(squares)[:, None])
        columns, values = self.columns()
        return sp.csr_array((values, columns, [0, len(columns)]), (1, self.shape[1]))

    def columns(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the columns with values, rising, and how many values each has."""
        together = np.concatenate([facts.columns for facts in self.facts])
        columns, place = np.unique(together, return_inverse=True)
        counts = np.bincount(
            place, np.concatenate([facts.counts for facts in self.facts])
        )
        return columns.astype(np.int64), counts

    def keep(self, rows: np.ndarray) -> Rows:
        """Return some rows, by rising numbers."""
        if len(rows) == self.shape[0]:
            return self
        cuts = np.searchsorted(rows, self.starts)
        starts = self.starts
        numbers = [
            rows[a:b] - first
            for first, a, b in zip(starts, cuts, cuts[1:], strict=False)
        ]
        pairs = [
            pair for pair in zip(self.blocks, numbers, strict=True) if len(pair[1])
        ]
        return Rows.of(
            self.client, self.client.map(getitem, *zip(*pairs, strict=True), pure=False)
        )

    def fetch(self, rows: np.ndarray) -> sp.csr_array:
        """Return some rows, by rising numbers, on the client."""
        return sp.csr_array(
            sp.vstack(gather(self.client, self.keep(rows).blocks), format="csr")
        )


# --- comparisons ----------------------------------------------------------------------


def check_compared(block: Any, weights: Any, n_rows: int, width: int) -> Compared:
    """Return a block of comparisons and its weights, checked as those of one machine are."""
    name = "triplets" if width == 3 else "quadruplets"
    return check_comparisons(np.asarray(block), n_rows, name, width), weights


def compared_blocks(
    rows: Rows, given: Any, sample_weight: Any, width: int
) -> list[Any]:
    """Return futures of triplets or quadruplets in blocks, and their weights."""
    client = rows.client
    kind = "triplet" if width == 3 else "quadruplet"
    blocks = as_futures(client, given)
    counts = gather(client, client.map(len, blocks, pure=False))
    ends = np.cumsum(counts)
    weights = check_weights(sample_weight, int(ends[-1]), kind)
    parts = [None] * len(blocks) if weights is None else np.split(weights, ends[:-1])
    chosen = [k for k, n in enumerate(counts) if n]
    if not chosen:
        raise ValueError(f"{kind}s is empty: at least one {kind} is needed.")
    return client.map(
        check_compared,
        [blocks[k] for k in chosen],
        [parts[k] for k in chosen],
        n_rows=rows.shape[0],
        width=width,
        pure=False,
    )


class Summary(NamedTuple):
    """What the client knows of a block of comparisons."""

    anchors: np.ndarray
    counts: np.ndarray
    weight: float
    pairs: np.ndarray  # some pairs of an anchor and a row that it is compared with


def summarise(block: Compared) -> Summary:
    """Return what the client needs to know of a block of comparisons."""
    compared, weights = block
    anchors, counts = np.unique(compared[:, 0], return_counts=True)
    starts = np.repeat(compared[:, 0], compared.shape[1] - 1)
    pairs = np.column_stack([starts, compared[:, 1:].ravel()])
    pairs = pairs[:: max(1, len(pairs) // (PER_ANCHOR * max(len(anchors), 1)))]
    given = np.ones(len(compared)) if weights is None else weights
    return Summary(anchors, counts, float(given.sum()), pairs)


def choose_shards(
    anchors: np.ndarray, counts: np.ndarray, pairs: np.ndarray, n_rows: int
) -> np.ndarray:
    """Return the shard of each anchor: shards of like size with few rows in common.

    They are parts of an order of the rows in which compared ones are near each other.

    Parameters
    ----------
    anchors, counts : ndarray of shape (n_anchors,)
        Rising rows that comparisons start from, and how many start from each.
    pairs : ndarray of shape (n_pairs, 2)
        Compared rows.
    n_rows : int
    """
    wanted = 1 << (-(-int(counts.sum()) // SHARD_SIZE) - 1).bit_length()
    wanted = min(max(wanted, FEWEST_SHARDS), MOST_SHARDS, len(anchors))
    a, b = pairs.T.astype(np.int32)
    links = np.ones(2 * len(a), dtype=np.int8), (np.append(a, b), np.append(b, a))
    graph = sp.coo_array(links, shape=(n_rows, n_rows)).tocsr()
    place = np.empty(n_rows, dtype=np.int64)
    place[reverse_cuthill_mckee(graph, symmetric_mode=True)] = np.arange(n_rows)
    order = np.argsort(place[anchors])
    before = np.cumsum(counts[order]) - counts[order]
    shards = np.empty(len(anchors), dtype=np.int64)
    shards[order] = before * wanted // counts.sum()
    return np.unique(shards, return_inverse=True)[
        1
    ]  # an anchor may be larger than a shard


def deal(block: Compared, shard_of: np.ndarray, n_shards: int) -> list[Compared]:
    """Return the comparisons of a block by shards."""
    compared, weights = block
    shard = shard_of[compared[:, 0]]
    order = np.argsort(shard, kind="stable")
    cuts = np.searchsorted(shard[order], np.arange(1, n_shards))
    parts = np.split(compared[order].astype(np.int32), cuts)
    dealt = [None] * n_shards if weights is None else np.split(weights[order], cuts)
    return [*zip(parts, dealt, strict=True)]


def join(*parts: Compared) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
    """Return the comparisons of a shard by rising anchors, their weights, and their rows in X.

    Comparisons have the shard's own numbers of its rows.
    """
    compared = np.concatenate([part for part, _ in parts])
    order = np.argsort(compared[:, 0], kind="stable")
    weights = (
        None
        if parts[0][1] is None
        else np.concatenate([given for _, given in parts])[order]
    )
    rows, numbers = np.unique(compared[order], return_inverse=True)
    return numbers.reshape(compared.shape), weights, rows


def take_rows(block: sp.csr_array, rows: np.ndarray, first: int) -> sp.csr_array:
    """Return those rows that are in a block; `first` is the number of its first row."""
    begin, end = np.searchsorted(rows, [first, first + block.shape[0]])
    return sp.csr_array(block)[rows[begin:end] - first]


def make_shard(
    joined: tuple[Any, ...],
    columns: tuple[Any, Any],
    total_weight: float,
    *parts: sp.csr_array,
) -> Shard:
    """Return a shard, its rows in the numbers of the features."""
    X = sp.csr_array(sp.vstack(parts, format="csr"))
    n_features = len(columns[0])
    together = np.concatenate(columns)
    order = np.argsort(together)
    numbers = order[np.searchsorted(together, X.indices, sorter=order)]
    X = sp.csr_array((X.data, numbers, X.indptr), shape=(X.shape[0], len(together)))
    X.sort_indices()
    return Shard(Data(X, *joined[:2], total_weight, n_features))  # type: ignore[call-arg]


def number_columns(
    rows: Rows, also: np.ndarray | None, min_rows: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the columns that are features, the fullest first, and those that only count in ⟨x, y⟩.

    Features have values in `min_rows` rows at least, or as many as the second fullest,
    or are listed in `also`.
    """
    columns, counts = rows.columns()
    columns = columns[np.argsort(-counts, kind="stable")]
    n_full = int((counts >= np.sort(counts)[-2:].min(initial=min_rows)).sum())
    features = columns[:n_full]
    rare = columns[n_full:]
    if also is not None:
        features = np.concatenate([features, np.setdiff1d(also, features)])
        rare = np.setdiff1d(rare, also)
    check_live_features(len(features), rows.shape[1])
    return features, rare


def build(
    rows: Rows,
    compared: Sequence[Any],
    also: np.ndarray | None = None,
    min_rows: int = 1,
) -> DaskLayout:
    """Return the layout of rows and comparisons.

    Parameters
    ----------
    rows : Rows
    compared : list of Future
        Blocks of comparisons and their weights.
    also : ndarray, default=None
        Columns that are features although they may be rare or empty.
    min_rows : int, default=1
        Rows that a feature must have a value in.
    """
    client = rows.client
    n_rows = rows.shape[0]
    features, rare = number_columns(rows, also, min_rows)
    told = gather(client, client.map(summarise, compared, pure=False))
    anchors, place = np.unique(
        np.concatenate([part.anchors for part in told]), return_inverse=True
    )
    counts = np.bincount(place, np.concatenate([part.counts for part in told])).astype(
        np.int64
    )
    pairs = np.concatenate([part.pairs for part in told])
    places = Places(counts, choose_shards(anchors, counts, pairs, n_rows))
    shard_of = np.full(n_rows, -1, dtype=np.int32)
    shard_of[anchors] = places.shards
    n = places.n_shards
    total_weight = float(sum(part.weight for part in told))
    dealt = client.map(
        deal, compared, shard_of=held(client, shard_of), n_shards=n, pure=False
    )
    frame = held(client, (features, rare))
    threads = client.nthreads()
    homes = [address for address in sorted(threads) for _ in range(threads[address])]
    shards = []
    for k in range(n):
        parts = client.map(getitem, dealt, [k] * len(dealt), pure=False)
        joined = client.submit(join, *parts, pure=False)
        needed = client.submit(getitem, joined, 2, pure=False)
        starts = rows.starts[:-1].tolist()
        taken = client.map(
            take_rows, rows.blocks, [needed] * len(starts), starts, pure=False
        )
        given = joined, frame, total_weight, *taken
        home = {"workers": [homes[k * len(homes) // n]], "allow_other_workers": True}
        shards.append(client.submit(make_shard, *given, **home, pure=False))
    squares = sum(float(facts.squares.sum()) for facts in rows.facts)
    return DaskLayout(client, shards, features, places, squares / n_rows)
