"""Rows that are worked on together, so that intermediate arrays stay small."""

from collections.abc import Iterator

#: Pairs of records that are compared together.
BLOCK_SIZE = 2**16


def row_blocks(n: int, size: int = BLOCK_SIZE) -> Iterator[slice]:
    """Yield slices that cut n rows into blocks.

    Examples
    --------
    >>> [(block.start, block.stop) for block in row_blocks(5, size=2)]
    [(0, 2), (2, 4), (4, 6)]
    """
    for first in range(0, n, size):
        yield slice(first, first + size)
