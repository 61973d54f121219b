"""The compiled loop of decision trees that are learned elsewhere."""

from typing import NamedTuple

import numpy as np

from .compiled import kernel


class Nodes(NamedTuple):
    """The nodes of several trees, one tree after the other.

    Attributes
    ----------
    roots : ndarray of shape (n_trees,), int64
        The first node of each tree.
    feature : ndarray of shape (n_nodes,), int64
        What a node looks at, negative where it is a leaf.
    threshold : ndarray of shape (n_nodes,), float64
        A row goes to the left where its feature is at most this.
    left, right : ndarray of shape (n_nodes,), int64
        The nodes that follow.
    value : ndarray of shape (n_nodes,), float64
        What a leaf says.
    """

    roots: np.ndarray
    feature: np.ndarray
    threshold: np.ndarray
    left: np.ndarray
    right: np.ndarray
    value: np.ndarray


@kernel()
def forest_sums(start, stop, rows, nodes, sums):
    """Add what each tree says of rows [start, stop) to their sums.

    All rows go through a tree before the next one: its nodes stay in the cache.
    """
    for tree in range(len(nodes.roots)):
        root = nodes.roots[tree]
        for row in range(start, stop):
            node = root
            while nodes.feature[node] >= 0:
                if rows[row, nodes.feature[node]] <= nodes.threshold[node]:
                    node = nodes.left[node]
                else:
                    node = nodes.right[node]
            sums[row] += nodes.value[node]
