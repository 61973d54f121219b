"""Sums over shards in an order that does not depend on where the shards are.

Shards are the leaves of a binary tree, and a node is the sum of its two children. A worker adds up
the nodes whose shards it all has, and sends what is left. So the sum has the same bits for every
placement of the shards, and few numbers are sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: Sums by node: level, and position in the level.
Nodes = dict[tuple[int, int], Any]


def fold(parts: Mapping[tuple[int, int], Any], n_shards: int) -> Nodes:
    """Return the parts with both children of a node replaced by their sum, as far as it goes.

    Parameters
    ----------
    parts : dict of (level, position) to array
        Level 0 has the shards.
    n_shards : int

    Returns
    -------
    dict of (level, position) to array
        One entry, the sum, where every shard is in some part.

    Examples
    --------
    >>> fold({(0, 0): 1.0, (0, 1): 2.0, (0, 4): 5.0}, n_shards=5)
    {(1, 0): 3.0, (2, 1): 5.0}
    >>> fold({(1, 0): 3.0, (1, 1): 7.0, (2, 1): 5.0}, n_shards=5)
    {(3, 0): 15.0}
    """
    nodes, level, width = dict(parts), 0, n_shards
    while width > 1:
        for k in range(0, width, 2):
            left, right = (level, k), (level, k + 1)
            above = (level + 1, k // 2)
            if k + 1 == width and left in nodes:
                nodes[above] = nodes.pop(left)
            elif left in nodes and right in nodes:
                nodes[above] = nodes.pop(left) + nodes.pop(right)
        level, width = level + 1, (width + 1) // 2
    return nodes


def total(parts: Mapping[tuple[int, int], Any], n_shards: int) -> Any:
    """Return the sum of all shards; raise ValueError where one is missing."""
    nodes = fold(parts, n_shards)
    if len(nodes) != 1:
        raise ValueError(f"The sum of {n_shards} shards has {len(nodes)} parts.")
    return next(iter(nodes.values()))
