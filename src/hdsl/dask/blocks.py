"""Data in blocks, as users give them: told from whole arrays, and made futures."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

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
