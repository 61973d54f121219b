"""Boxes of a network, laid out so that none covers another."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse import csgraph
from sklearn.manifold import smacof

#: Width of the shelves over that of a square of the same area.
SHELF_WIDTH = 1.3

#: Boxes that overlap by less do not count as overlapping.
TOLERANCE = 1e-6

#: All distances grow by this factor with each push: pushes alone may never end.
GROWTH = 1.01


def network_layout(pairs: np.ndarray, sizes: np.ndarray, spacing: float) -> np.ndarray:
    """Return the centers of boxes that do not overlap, shape (n, 2); the same at every call.

    Each connected component is laid out so that distances are about those in the
    network. The components are put on shelves, the highest first.

    Parameters
    ----------
    pairs : ndarray of shape (n_pairs, 2)
        Numbers of the boxes that are linked.
    sizes : ndarray of shape (n, 2)
        Width and height of each box.
    spacing : float
        Distance of two boxes that are linked.
    """
    n = len(sizes)
    links = (np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1]))
    graph = sp.coo_array(links, shape=(n, n)).tocsr()
    n_components, component = csgraph.connected_components(graph, directed=False)
    blocks = []
    for k in range(n_components):
        boxes = np.flatnonzero(component == k)
        subgraph = graph[boxes][:, boxes]
        blocks.append(_block(boxes, subgraph, sizes[boxes], spacing))
    # The highest first, so that shelves are full.
    blocks.sort(key=lambda block: (-block.height, -block.width))
    area = sum(block.width * block.height for block in blocks)
    widths = [block.width for block in blocks]
    shelves = _Shelves(max([SHELF_WIDTH * np.sqrt(area), *widths]))
    centers = np.zeros((n, 2))
    for block in blocks:
        corner = shelves.put(block.width, block.height)
        centers[block.boxes] = block.centers + corner
    return centers


class _Block(NamedTuple):
    """The boxes of one component, as a rectangle whose lower left corner is the origin.

    Attributes
    ----------
    boxes : ndarray of int of shape (n_boxes,)
    centers : ndarray of shape (n_boxes, 2)
    width, height : float
        With some space to the right and above.
    """

    boxes: np.ndarray
    centers: np.ndarray
    width: float
    height: float


def _block(boxes: np.ndarray, graph: Any, sizes: np.ndarray, spacing: float) -> _Block:
    """Return the boxes of a connected graph, laid out."""
    centers = _push_apart(_stress_layout(graph, spacing), sizes)
    low = (centers - sizes / 2).min(axis=0)
    high = (centers + sizes / 2).max(axis=0)
    width, height = high - low + spacing / 4
    return _Block(boxes, centers - low, width, height)


class _Shelves:
    """Shelves of one width, each below the one before, that are filled from the left."""

    def __init__(self, width: float) -> None:
        self._width = width
        self._left = 0.0
        self._top = 0.0
        self._height = 0.0

    def put(self, width: float, height: float) -> np.ndarray:
        """Return the lower left corner of a rectangle that is put beside the last."""
        if self._left > 0 and self._left + width > self._width:
            self._begin_shelf()
        corner = np.array([self._left, self._top - height])
        self._left += width
        self._height = max(self._height, height)
        return corner

    def _begin_shelf(self) -> None:
        """Begin a shelf below the last one."""
        self._left = 0.0
        self._top -= self._height
        self._height = 0.0


def _stress_layout(graph: Any, spacing: float) -> np.ndarray:
    """Return points whose distances are about those in a connected graph."""
    n = graph.shape[0]
    if n == 1:
        return np.zeros((1, 2))
    distances = spacing * csgraph.shortest_path(graph, directed=False, unweighted=True)
    # In this order the edges of a tree do not cross on a circle.
    order = csgraph.depth_first_order(
        graph, 0, directed=False, return_predecessors=False
    )
    angles = 2 * np.pi * np.argsort(order) / n
    circle = np.column_stack([np.cos(angles), np.sin(angles)]) * distances.max() / 2
    points, _ = smacof(
        distances, n_components=2, init=circle, n_init=1, max_iter=150, eps=1e-6
    )
    return points


def _push_apart(centers: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return the centers of boxes after pushes, until none overlaps another."""
    n = len(centers)
    is_pair = np.triu(np.ones((n, n), dtype=bool), 1)
    needed = (sizes[:, None] + sizes[None]) / 2
    while True:
        distances = centers[:, None] - centers[None]
        overlaps = needed - np.abs(distances)
        i, j = np.nonzero(is_pair & (overlaps > TOLERANCE).all(axis=2))
        if not len(i):
            return centers
        axis = overlaps[i, j].argmin(axis=1)  # the shorter way out
        direction = np.where(distances[i, j, axis] >= 0, 0.5, -0.5)
        push = direction * overlaps[i, j, axis]
        centers = GROWTH * centers
        np.add.at(centers, (i, axis), push)
        np.add.at(centers, (j, axis), -push)
