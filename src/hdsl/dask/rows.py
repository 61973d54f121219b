"""Rows in blocks, as users give them and on a cluster.

The client knows a summary of each block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import getitem
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..input.embeddings import are_embedding, count_signs, embedding_width
from ..input.matrices import (
    as_checked_rows,
    as_rows,
    canonical,
    check_embedding_size,
    check_largest,
    check_live_features,
    largest_value,
)
from ..layout import column_keys
from ..rows import Rows, sparse_block, split_columns, stack_all
from .cluster import gather, send

#: Blocks of together no more values than this are joined: it is a megabyte.
SMALL_BLOCK = 1 << 17

#: Rows of the client are cut into blocks of so many.
LOCAL_ROWS = 1 << 14


def is_in_blocks(data: Any) -> bool:
    """Whether data are a Dask collection, a future, or a list of blocks."""
    if isinstance(data, list | tuple):
        return len(data) > 0 and all(map(is_block, data))
    return is_collection(data) or is_future(data)


def is_block(data: Any) -> bool:
    """Whether an item of a list is a block of rows, and not a row."""
    return is_in_blocks(data) or getattr(data, "ndim", 0) == 2


def is_pair(data: Any) -> bool:
    """Whether data are a tuple (features, embedding), whole or in blocks; a list is blocks."""
    return isinstance(data, tuple) and len(data) == 2 and all(map(is_block, data))


def is_collection(data: Any) -> bool:
    """Whether data are a Dask array or a delayed object."""
    return hasattr(data, "__dask_graph__")


def is_future(data: Any) -> bool:
    """Whether data are on the cluster already."""
    return hasattr(data, "key") and hasattr(data, "status")


def as_futures(client: Any, data: Any) -> list[Any]:
    """Return blocks of rows as futures."""
    return [as_future(client, block) for block in blocks_of(data)]


def as_pair_of_futures(
    client: Any, data: Any, other: Any
) -> tuple[list[Any], list[Any]]:
    """Return two matrices of the same rows as futures; a whole one is cut as the other is."""
    if not is_in_blocks(data):
        futures = as_futures(client, other)
        return cut_alike(client, data, futures), futures
    futures = as_futures(client, data)
    if not is_in_blocks(other):
        return futures, cut_alike(client, other, futures)
    return futures, as_futures(client, other)


def cut_alike(client: Any, data: Any, blocks: list[Any]) -> list[Any]:
    """Return the rows of a whole matrix as futures of blocks as long as others."""
    counts = gather(client, client.map(count_rows, blocks, pure=False))
    if sum(counts) != data.shape[0]:
        raise ValueError(
            f"Features and embedding must have the same rows. Got {data.shape[0]} rows "
            f"as one matrix and {sum(counts)} in blocks."
        )
    ends = np.cumsum(counts).tolist()
    return [
        send(client, data[end - count : end])
        for count, end in zip(counts, ends, strict=True)
    ]


def count_rows(block: Any) -> int:
    """Return the number of rows of a block."""
    return int(block.shape[0])


def blocks_of(data: Any) -> list[Any]:
    """Return the blocks of data; whole arrays are cut into some."""
    if not is_in_blocks(data):
        starts = range(0, data.shape[0], LOCAL_ROWS)
        return [data[first : first + LOCAL_ROWS] for first in starts]
    if hasattr(data, "to_delayed"):
        return delayed_blocks(data)
    if isinstance(data, list | tuple):
        return list(data)
    return [data]


def delayed_blocks(data: Any) -> list[Any]:
    """Return the blocks of rows of a Dask collection; raise ValueError where columns are cut."""
    blocks = np.asarray(data.to_delayed(), dtype=object)
    if blocks.ndim == 2 and blocks.shape[1] > 1:
        raise ValueError(
            f"The array has {blocks.shape[1]} blocks of columns, but blocks must be "
            "of whole rows: use rechunk({1: -1}), or build it from blocks of "
            "rows."
        )
    return blocks.ravel().tolist()


def as_future(client: Any, block: Any) -> Any:
    """Return a block as a future."""
    if is_collection(block):
        return client.compute(block)
    if is_future(block):
        return block
    return send(client, block)


def groups_of_small(sizes: Sequence[int]) -> list[tuple[int, int]]:
    """Return where groups of blocks begin and end: small ones that follow each other are one.

    A block takes part in tasks with each other one, which cost more than the work where
    blocks are small.

    Examples
    --------
    >>> groups_of_small([1, 2, SMALL_BLOCK, 3, 4])
    [(0, 2), (2, 3), (3, 5)]
    """
    starts = [0]
    total = 0
    for number, size in enumerate(sizes):
        total += size
        if number and total > SMALL_BLOCK:
            starts.append(number)
            total = size
    return [*pairwise([*starts, len(sizes)])]


# --- tasks ----------------------------------------------------------------------------


class BlockSummary(NamedTuple):
    """What the client knows of a block of rows; values are those of features."""

    n_rows: int
    n_features: int
    columns: np.ndarray  # those with a value, rising
    counts: np.ndarray  # values of each of these columns
    largest_value: float
    longest_row: int
    squared_norms: np.ndarray  # ‖x‖² of each row
    embedding: EmbeddingSummary


class EmbeddingSummary(NamedTuple):
    """What the client knows of the embedding in a block of rows; zeros without one."""

    width: int = 0
    largest_value: float = 0.0
    sum_of_squares: float = 0.0


def check_block(block: Any, number: int, embedding: Any = None) -> Any:
    """Return a block of rows, checked as rows of one machine are.

    Parameters
    ----------
    block : array-like, sparse matrix, frame or Rows
    number : int
        What messages call it.
    embedding : int, slice, list of str or None, default=None
        Which of the last columns are an embedding.
    """
    X = as_rows(block, f"Block {number} of X")
    width = embedding_width(embedding, X.shape[1], column_names(block))
    if width == X.shape[1] and sp.issparse(X):
        raise ValueError(
            f"All {width} columns of X are to be an embedding, but block {number} is "
            "sparse: features must stand before an embedding, or pass dense blocks."
        )
    if width:
        X = split_columns(X, X.shape[1] - width)
    return as_checked(X)


def check_pair(features: Any, embedding: Any, number: int) -> Rows:
    """Return a block of features and one of their embedding as mixed rows, checked."""
    return as_checked(as_checked_rows((features, embedding), f"Block {number} of X"))


def as_checked(X: Any) -> Any:
    """Return checked rows as shards take them: features in float64, an embedding in float32."""
    if isinstance(X, Rows):
        check_embedding_size(X.dense)
        return Rows(as_checked(X.sparse), X.dense.astype(np.float32, copy=False))
    return canonical(sp.csr_array(X)).astype(np.float64, copy=False)


def column_names(block: Any) -> np.ndarray | None:
    """Return the names of the columns of a block that is a frame; else None."""
    names = getattr(block, "columns", None)
    if names is None:
        return None
    return np.asarray(names, dtype=object)


def summarize_block(block: sp.csr_array | Rows) -> BlockSummary:
    """Return what the client needs to know of a block."""
    features = sparse_block(block)
    embedding = EmbeddingSummary()
    if isinstance(block, Rows):
        embedding = summarize_embedding(block.dense)
    columns, counts = np.unique(features.indices, return_counts=True)
    return BlockSummary(
        n_rows=features.shape[0],
        n_features=features.shape[1],
        columns=columns,
        counts=counts,
        largest_value=largest_value(features.data),
        longest_row=int(np.diff(features.indptr).max(initial=0)),
        squared_norms=np.asarray(features.multiply(features).sum(axis=1)).ravel(),
        embedding=embedding,
    )


def column_keys_of_block(
    block: sp.csr_array | Rows, is_compared: np.ndarray, largest: float
) -> np.ndarray:
    """Return the keys of the columns of a block that have a value, rising."""
    features = sparse_block(block)
    columns, indices = np.unique(features.indices, return_inverse=True)
    shape = (features.shape[0], len(columns))
    used = sp.csr_array((features.data, indices, features.indptr), shape=shape)
    return column_keys(used, is_compared, largest)


def summarize_embedding(dense: np.ndarray) -> EmbeddingSummary:
    """Return what the client needs to know of the embedding in a block."""
    return EmbeddingSummary(
        width=dense.shape[1],
        largest_value=largest_value(dense),
        sum_of_squares=float(np.square(dense, dtype=np.float64).sum()),
    )


def stack_blocks(*blocks: Any) -> Any:
    """Return several blocks of rows as one."""
    return stack_all(blocks)


# --- on the client --------------------------------------------------------------------


def width_of_whole(client: Any, blocks: list[Any]) -> int | None:
    """Return the width of blocks that are an embedding as a whole; None where they are not."""
    signs = gather(client, client.map(count_signs, blocks, pure=False))
    if signs and are_embedding(signs):
        return int(signs[0].shape[1])
    return None


def _block_size(summary: BlockSummary) -> int:
    """Return how many values a block has, features and embedding together."""
    width = summary.embedding.width
    return int(summary.counts.sum()) + summary.n_rows * (1 + width)


@dataclass(frozen=True)
class ClusterRows:
    """Rows in blocks on a cluster, checked.

    Parameters
    ----------
    client : distributed.Client
    blocks : list of Future
    summaries : list of BlockSummary
    """

    client: Any
    blocks: list[Any]
    summaries: list[BlockSummary]

    @classmethod
    def from_futures(cls, client: Any, blocks: list[Any]) -> ClusterRows:
        """Return the rows of checked blocks."""
        summaries = client.map(summarize_block, blocks, pure=False)
        return cls(client, blocks, gather(client, summaries))

    @classmethod
    def load(cls, client: Any, X: Any, embedding: Any = None) -> ClusterRows:
        """Return rows as a user gives them; raise ValueError for what cannot be used.

        `embedding` says which of the last columns are one, as in `check_block`.
        """
        blocks = as_futures(client, X)
        if isinstance(embedding, str):
            embedding = width_of_whole(client, blocks)
        checked = client.map(
            check_block, blocks, range(len(blocks)), embedding=embedding, pure=False
        )
        return cls._of_checked(client, checked)

    @classmethod
    def load_pair(cls, client: Any, features: Any, embedding: Any) -> ClusterRows:
        """Return rows of which features and embedding come in blocks of the same rows."""
        blocks, embedding_blocks = as_pair_of_futures(client, features, embedding)
        if len(blocks) != len(embedding_blocks):
            raise ValueError(
                f"The features come in {len(blocks)} blocks of rows and the embedding "
                f"in {len(embedding_blocks)}: both must come in blocks of the same "
                "rows. Use rechunk, or cut both at the same rows."
            )
        checked = client.map(
            check_pair, blocks, embedding_blocks, range(len(blocks)), pure=False
        )
        return cls._of_checked(client, checked)

    @classmethod
    def _of_checked(cls, client: Any, blocks: list[Any]) -> ClusterRows:
        """Return the rows of checked blocks; raise ValueError where these do not fit together."""
        if not blocks:
            raise ValueError("X has no blocks: at least one block of rows is needed.")
        rows = cls.from_futures(client, blocks)
        widths = {
            (summary.n_features, summary.embedding.width) for summary in rows.summaries
        }
        if len(widths) > 1:
            n_columns = sorted(sum(width) for width in widths)
            raise ValueError(
                f"Blocks of X have different numbers of features: {n_columns}. "
                "Features and their embedding are a tuple (X, Z), blocks a list."
            )
        if rows.n_features or not rows.embedding_width:
            columns, _ = rows.count_columns()
            check_live_features(len(columns), rows.n_features)
            check_largest(rows.largest_value)
        return rows._without_small_blocks()

    def _without_small_blocks(self) -> ClusterRows:
        """Return the same rows, with small blocks that follow each other joined."""
        sizes = [_block_size(summary) for summary in self.summaries]
        groups = groups_of_small(sizes)
        if len(groups) == len(sizes):
            return self
        blocks = []
        for first, last in groups:
            block = self.blocks[first]
            if last - first > 1:
                parts = self.blocks[first:last]
                block = self.client.submit(stack_blocks, *parts, pure=False)
            blocks.append(block)
        return ClusterRows.from_futures(self.client, blocks)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows, and columns of features and embedding together."""
        return int(self.starts[-1]), self.n_features + self.embedding_width

    @property
    def n_features(self) -> int:
        """The columns before those of the embedding."""
        return self.summaries[0].n_features

    @property
    def embedding_width(self) -> int:
        """The columns of the embedding, 0 without one."""
        return self.summaries[0].embedding.width

    @property
    def starts(self) -> np.ndarray:
        """Number of the first row of each block, and of all rows at the end."""
        return np.cumsum([0, *(summary.n_rows for summary in self.summaries)])

    @property
    def largest_value(self) -> float:
        """The largest absolute value of the features."""
        return max(summary.largest_value for summary in self.summaries)

    @property
    def largest_of_embedding(self) -> float:
        """The largest absolute value of the embedding, 0 without one."""
        return max(summary.embedding.largest_value for summary in self.summaries)

    @property
    def longest_row(self) -> int:
        """The most features of a row with a value."""
        return max(summary.longest_row for summary in self.summaries)

    @property
    def mean_squared_norm(self) -> float:
        """‖x‖² of the rows, in the mean, their embedding included."""
        total = 0.0
        for summary in self.summaries:
            total += float(summary.squared_norms.sum())
            total += summary.embedding.sum_of_squares
        return total / self.shape[0]

    def outline(self, norm: str | None) -> sp.csr_array:
        """Return features with the same lengths of rows, or with the same columns."""
        if norm is None:
            squares = [summary.squared_norms for summary in self.summaries]
            return sp.csr_array(np.sqrt(np.concatenate(squares))[:, None])
        columns, counts = self.count_columns()
        return sp.csr_array((counts, columns, [0, len(columns)]), (1, self.n_features))

    def count_columns(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the columns with values, rising, and how many values each has."""
        columns, position = self._position_of_columns()
        counts = np.concatenate([summary.counts for summary in self.summaries])
        return columns.astype(np.int64), np.bincount(position, counts)

    def column_keys(self, is_compared: np.ndarray) -> np.ndarray:
        """Return the keys of the columns with values, rising, by which they are numbered."""
        starts = self.starts
        masks = np.split(is_compared, starts[1:-1])
        answers = self.client.map(
            column_keys_of_block,
            self.blocks,
            masks,
            largest=self.largest_value,
            pure=False,
        )
        position = self._position_of_columns()[1]
        keys = np.concatenate(gather(self.client, answers), axis=1)
        return np.array([np.bincount(position, key) for key in keys])

    def _position_of_columns(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the columns with values, and which of them each column of a block is."""
        columns = np.concatenate([summary.columns for summary in self.summaries])
        return np.unique(columns, return_inverse=True)

    def one_like_the_longest(self) -> sp.csr_array | Rows:
        """Return a row whose product with itself is as large as one of any two rows can be."""
        features = sp.csr_array(np.full((1, self.longest_row), self.largest_value))
        if not self.embedding_width:
            return features
        shape = (1, self.embedding_width)
        return Rows(features, np.full(shape, self.largest_of_embedding))

    def map(self, function: Callable[..., Any], **options: Any) -> ClusterRows:
        """Return the rows that a function makes of each block."""
        blocks = self.client.map(function, self.blocks, pure=False, **options)
        return ClusterRows.from_futures(self.client, blocks)

    def keep(self, rows: np.ndarray) -> ClusterRows:
        """Return the rows of these numbers, which rise."""
        if len(rows) == self.shape[0]:
            return self
        starts = self.starts
        cuts = np.searchsorted(rows, starts)
        blocks = []
        numbers = []
        for k, block in enumerate(self.blocks):
            rows_of_block = rows[cuts[k] : cuts[k + 1]]
            if len(rows_of_block):
                blocks.append(block)
                numbers.append(rows_of_block - starts[k])
        kept = self.client.map(getitem, blocks, numbers, pure=False)
        return ClusterRows.from_futures(self.client, kept)

    def fetch(self, rows: np.ndarray) -> Any:
        """Return the rows of these numbers, which rise, on the client."""
        return stack_all(gather(self.client, self.keep(rows).blocks))
