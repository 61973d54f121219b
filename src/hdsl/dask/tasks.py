"""What runs on the workers to build shards: functions from blocks to smaller parts of them.

Blocks of rows stay where Dask has them. A shard takes the rows that it needs out of each block, so
no machine ever has all of X.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from ..cpu import corrective
from ..cuda import runtime
from .member import MEMBERS
from .on_disk import on_disk
from .shard import Sampled, Shard

Compared = tuple[np.ndarray, np.ndarray | None]


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
