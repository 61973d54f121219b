"""X on a cluster: blocks of rows, checked and normalised where they are."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from .. import checks
from ..similarity import unit_rows
from .sources import Joined, Source
from .stages import stage
from .tasks import Columns, count_columns
from .team import gathered

#: Rows of the client are cut into blocks of so many.
LOCAL_ROWS = 1 << 14

#: Bytes of the digest of a row; two rows of equal digests count as equal.
DIGEST = 16


def is_cluster_data(X: Any) -> bool:
    """Whether X is a Dask collection, a future, or a list of blocks."""
    if isinstance(X, list | tuple):
        return bool(X) and all(is_cluster_data(part) or sp.issparse(part) for part in X)
    return hasattr(X, "__dask_graph__") or (hasattr(X, "key") and hasattr(X, "status"))


# --- on the workers ------------------------------------------------------------------------------


class Facts(NamedTuple):
    """What the client needs to know of a block before it is normalised."""

    shape: tuple[int, int]
    columns: Columns
    largest: float
    longest: int
    squares: np.ndarray  # ‖x‖² of each row
    digest: bytes


def canonical_block(block: Any) -> sp.csr_array:
    """Return a block as a canonical CSR array of float64."""
    X = block if sp.issparse(block) else sp.csr_array(np.asarray(block, dtype=np.float64))
    return checks.canonical(X).astype(np.float64, copy=False)


def inspect(block: Any) -> Facts | str:
    """Return the facts of a block, or what is wrong with it."""
    try:
        X = canonical_block(block)
        checks.check_finite(X, "block")
    except (TypeError, ValueError) as error:
        return str(error)
    sha = hashlib.sha256()
    for part in (np.array(X.shape), X.indptr.astype(np.int64), X.indices.astype(np.int64), X.data):
        sha.update(np.ascontiguousarray(part).view(np.uint8).data)
    squares = np.asarray(X.multiply(X).sum(axis=1)).ravel()
    return Facts(
        X.shape, count_columns(X), float(np.abs(X.data).max(initial=0.0)),
        int(np.diff(X.indptr).max(initial=0)), squares, sha.digest(),
    )  # fmt: skip


def prepare(block: Any, norm: str | None, columns: np.ndarray | None) -> sp.csr_array:
    """Return a block as its rows are compared."""
    X = canonical_block(block)
    return X if norm is None else unit_rows(X, columns)


def row_digests(block: sp.csr_array) -> np.ndarray:
    """Return a digest of each row, shape (n_rows,)."""
    out = np.empty(block.shape[0], dtype=f"V{DIGEST}")
    indices, data = block.indices.astype(np.int64), block.data
    for k, (first, last) in enumerate(zip(block.indptr[:-1], block.indptr[1:], strict=True)):
        of = hashlib.blake2b(indices[first:last].tobytes(), digest_size=DIGEST)
        of.update(data[first:last].tobytes())
        out[k] = np.void(of.digest())
    return out


def keep_rows(block: sp.csr_array, rows: np.ndarray) -> sp.csr_array:
    """Return some rows of a block."""
    return sp.csr_array(block)[rows]


# --- on the client -------------------------------------------------------------------------------


class Blocks:
    """Rows on a cluster, as they are compared.

    Parameters
    ----------
    source : Source
        Blocks of rows.
    starts : ndarray of shape (n_blocks + 1,)
        Number of the first row of each block, and of all rows at the end.
    n_columns : int
    timeout : float
    """

    source: Source

    def __init__(self, source: Source, starts: np.ndarray, n_columns: int, timeout: float) -> None:
        self.client, self.source, self.timeout = source.client, source, timeout
        self.starts, self.n_columns = starts, n_columns

    def results(self, futures: Sequence[Any]) -> list[Any]:
        """Return the results of tasks, in time."""
        what = "The blocks of X were not there"
        return gathered(self.client, futures, self.timeout, what=what)

    def of_each(self, ask: Callable[..., Any], each: Sequence[tuple] | None = None) -> list[Any]:
        """Return what a function tells of each block; `each` are more arguments of it."""
        blocks = self.source.futures()
        each = [()] * len(blocks) if each is None else each
        pairs = zip(blocks, each, strict=True)
        return self.results([self.client.submit(ask, b, *args, pure=False) for b, args in pairs])

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return int(self.starts[-1]), self.n_columns

    @cached_property
    def counts(self) -> list[Columns]:
        """The columns of each block."""
        return self.of_each(count_columns)

    @cached_property
    def digests(self) -> np.ndarray:
        """A digest of each row."""
        return np.concatenate(self.of_each(row_digests))

    def mean_square(self) -> float:
        """Return the mean ‖x‖² of the rows."""
        return float(sum(part.squares for part in self.counts)) / self.shape[0]

    def cut(self, rows: np.ndarray) -> list[np.ndarray]:
        """Return rising row numbers by blocks, numbered from the first row of the block."""
        cuts = np.searchsorted(rows, self.starts)
        return [
            rows[a:b] - first
            for first, a, b in zip(self.starts[:-1], cuts[:-1], cuts[1:], strict=True)
        ]

    def __getitem__(self, rows: np.ndarray) -> Blocks:
        """Return some of the rows, by rising numbers."""
        parts = self.cut(rows)
        kept = Source(self.client, self.source, keep_rows, each=[(part,) for part in parts])
        starts = np.cumsum([0, *map(len, parts)])
        return Blocks(kept, starts, self.n_columns, self.timeout)

    def followed_by(self, more: sp.csr_array) -> Blocks:
        """Return these rows and after them some of the client."""
        both = Joined(self.source, Source(self.client, [more]))
        starts = np.append(self.starts, self.starts[-1] + more.shape[0])
        return Blocks(both, starts, self.n_columns, self.timeout)


class RowBlocks(Blocks):
    """Blocks of rows as a user gives them, checked and normalised on the cluster.

    Parameters
    ----------
    client : distributed.Client
    X : dask.array, list of blocks, or a matrix
        Blocks are CSR or dense; they may be delayed, futures, or objects of the client.
    timeout : float
    """

    def __init__(self, client: Any, X: Any, timeout: float) -> None:
        self.client, self.timeout = client, timeout
        self._loaded = Source(client, as_blocks(X))
        self.starts = np.zeros(1, dtype=np.int64)
        self.facts: list[Facts] = []
        self.norm: str | None = None
        self.columns: np.ndarray | None = None

    def inspect(self) -> None:
        """Check all blocks; raise ValueError for one that cannot be used."""
        with stage("check the blocks of X"):
            loaded = self._loaded.futures()
            found = self.results([self.client.submit(inspect, b, pure=False) for b in loaded])
        first, width = 0, None
        for k, facts in enumerate(found):
            if isinstance(facts, str):
                raise ValueError(f"Block {k} of X, which begins at row {first}: {facts}")
            if width not in (None, facts.shape[1]):
                raise ValueError(
                    f"Block {k} of X has {facts.shape[1]} features, the ones before have {width}."
                )
            width = facts.shape[1]
            first += facts.shape[0]
        self.facts, self.n_columns = found, found[0].shape[1]
        self.starts = np.concatenate([[0], np.cumsum([f.shape[0] for f in found])])
        self._check_sizes()

    def _check_sizes(self) -> None:
        n_rows, n_columns = self.shape
        live = len(np.unique(np.concatenate([f.columns.columns for f in self.facts])))
        checks.check_live_features(live, n_columns)
        if n_rows >= checks.INDEX_LIMIT:
            raise ValueError(f"X has {n_rows} rows, at most {checks.INDEX_LIMIT - 1} can be.")
        checks.check_largest(self.largest)

    @property
    def largest(self) -> float:
        """Largest absolute value."""
        return max(f.largest for f in self.facts)

    @property
    def longest(self) -> int:
        """Most values of a row."""
        return max(f.longest for f in self.facts)

    @property
    def squares(self) -> np.ndarray:
        """‖x‖² of each row, as given."""
        return np.concatenate([f.squares for f in self.facts])

    @property
    def digest(self) -> bytes:
        """A fingerprint of X."""
        return hashlib.sha256(b"".join(f.digest for f in self.facts)).digest()

    @cached_property
    def source(self) -> Source:  # type: ignore[override]
        """The blocks as they are compared."""
        return Source(self.client, self._loaded, prepare, (self.norm, self.columns))

    @cached_property
    def counts(self) -> list[Columns]:
        """The columns of each block."""
        if self.norm is None:
            return [facts.columns for facts in self.facts]
        return self.of_each(count_columns)


def as_blocks(X: Any) -> list[Any]:
    """Return blocks of rows: delayed, futures, or objects of the client."""
    from dask import is_dask_collection

    if isinstance(X, list | tuple) and is_cluster_data(X):
        return list(X)
    if is_dask_collection(X):
        if getattr(X, "ndim", 2) == 2 and hasattr(X, "to_delayed"):
            parts = np.asarray(X.to_delayed(), dtype=object)
            if parts.ndim == 2 and parts.shape[1] > 1:
                raise ValueError(
                    f"X has {parts.shape[1]} blocks of columns, but blocks must be of whole rows: "
                    "X.rechunk({1: -1}), or build it from blocks of rows."
                )
            return parts.ravel().tolist()
        return [X]
    if hasattr(X, "key") and hasattr(X, "status"):
        return [X]
    return [X[first : first + LOCAL_ROWS] for first in range(0, X.shape[0], LOCAL_ROWS)]


def as_local(values: Any) -> Any:
    """Return labels or weights as an object of the client."""
    return values.compute() if hasattr(values, "__dask_graph__") else values
