"""The compiled loop of decision trees that are learned elsewhere."""

from typing import NamedTuple

import numpy as np

from .compiled import kernel

#: Rows that go through a tree before the next ones: these and its nodes stay in the cache.
N_ROWS = 256


class Nodes(NamedTuple):
    """The nodes of several trees, one tree after the other, each level by level.

    Attributes
    ----------
    roots : ndarray of shape (n_trees,), int64
        The first node of each tree.
    feature : ndarray of shape (n_nodes,), int32
        What a node looks at, 0 where it is a leaf.
    threshold : ndarray of shape (n_nodes,), float64
        A row goes to the left where its feature is at most this.
    misses_left : ndarray of shape (n_nodes,), bool
        Whether a row whose feature is NaN goes to the left.
    child : ndarray of shape (n_nodes,), int32
        The node to the left, which that to the right follows; of a leaf, minus the number
        of its value, minus 1.
    value : ndarray of shape (n_leaves,), float64
        What each leaf says.
    """

    roots: np.ndarray
    feature: np.ndarray
    threshold: np.ndarray
    misses_left: np.ndarray
    child: np.ndarray
    value: np.ndarray


@kernel()
def forest_sums(start, stop, rows, nodes, sums):
    """Add what each tree says of rows [start, stop) to their sums."""
    for first in range(start, stop, N_ROWS):
        end = min(first + N_ROWS, stop)
        for tree in range(len(nodes.roots)):
            root = nodes.roots[tree]
            for row in range(first, end):
                node = root
                child = nodes.child[node]
                while child >= 0:
                    x = rows[row, nodes.feature[node]]
                    is_missing = x != x
                    goes_right = x > nodes.threshold[node]
                    goes_right |= is_missing and not nodes.misses_left[node]
                    node = np.int64(child) + goes_right
                    child = nodes.child[node]
                sums[row] += nodes.value[-1 - child]
