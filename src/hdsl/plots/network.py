"""The most important feature pairs of M as a network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse import csgraph
from sklearn.manifold import smacof

from .. import explain
from ..explain import NEGATIVE, POSITIVE
from ..explain.tables import shown
from ..input.matrices import as_rows
from .display import ABOVE, PLAIN, Display, legend, similarity_of

#: Size of the labels, in points, if they fit.
FONT_SIZE = 9.0

#: Width of a character and of the margins of a label, and its height, in font sizes.
CHARACTER_WIDTH = 0.62
MARGIN_WIDTH = 2.5
LABEL_HEIGHT = 2.2

#: Distance of two features that make a pair, in font sizes.
SPACING = 6

#: Characters of a label.
LABEL_LENGTH = 24

#: Points of an inch.
INCH = 72

#: Inches above the network, for the legend.
LEGEND_HEIGHT = 0.4

#: Shortest and longest side of a figure, in inches.
FIGURE_SIDES = (3.0, 20.0)

#: The frame of a label.
FRAME = {"boxstyle": "round,pad=0.25", "fc": "white", "ec": "0.7", "lw": 0.6}

#: Width of the shelves over that of a square of the same area.
SHELF_WIDTH = 1.3

#: Boxes that overlap by less do not count as overlapping.
TOLERANCE = 1e-6

#: All distances grow by this factor with each push: pushes alone may never end.
GROWTH = 1.01


@dataclass(repr=False)
class NetworkDisplay(Display):
    """Feature pairs as a network: solid blue if they go together, dashed red if not.

    Parameters
    ----------
    pairs : ndarray of shape (n_pairs, 2)
        Numbers of the features in `names`.
    weights : ndarray of shape (n_pairs,)
        Entries M_ij, or effects; larger ones have thicker lines.
    names : sequence of str
    """

    pairs: np.ndarray
    weights: np.ndarray
    names: Sequence[str]

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        X: Any = None,
        top: int = 40,
        feature_names: Any = None,
        ax: Any = None,
    ) -> NetworkDisplay:
        """Draw the most important pairs of a fitted model or of a Similarity.

        Parameters
        ----------
        estimator : HDSL or Similarity
        X : array-like or sparse matrix of shape (n_rows, n_features), default=None
            Rows to choose the pairs by: those of largest effect, see
            ``hdsl.explain.importance``. None chooses the heaviest pairs.
        top : int, default=40
            Number of pairs.
        feature_names : array-like of str of shape (n_features,), default=None
        ax : matplotlib axes, default=None

        Returns
        -------
        NetworkDisplay
        """
        similarity = similarity_of(estimator)
        if feature_names is None:
            feature_names = getattr(estimator, "feature_names_in_", None)
        if X is not None:
            X = as_rows(X)
        importance = explain.importance(similarity, X, feature_names=feature_names)
        name_of = dict(
            zip(
                importance.features["i"].tolist(),
                importance.features["name"],
                strict=True,
            )
        )
        pairs = importance.pairs[:top]
        features, ends = np.unique(
            np.stack([pairs["i"], pairs["j"]], axis=1), return_inverse=True
        )
        display = cls(
            pairs=ends.reshape(-1, 2),
            weights=pairs[importance.ranked_by],
            names=[name_of[feature] for feature in features.tolist()],
        )
        return display.plot(ax)

    def plot(self, ax: Any = None) -> NetworkDisplay:
        """Draw the network; a new figure is as large as the labels need."""
        labels = [shown(name, LABEL_LENGTH) for name in self.names]
        sizes = _label_sizes(labels)
        centers = network_layout(self.pairs, sizes, spacing=SPACING * FONT_SIZE)
        extent = np.ones(2)
        if len(labels):
            extent = np.ptp(centers, axis=0) + sizes.max(axis=0)
        inches = (extent + 2 * FONT_SIZE) / INCH + [0, LEGEND_HEIGHT]
        ax = self.start(ax, figsize=tuple(np.clip(inches, *FIGURE_SIDES)))
        available = ax.get_position().size * self.figure_.get_size_inches() * INCH
        shrinkage = 1.0
        if len(labels):
            shrinkage = min(1.0, *(available / extent))
        lines = self._draw_pairs(ax, centers, shrinkage)
        for center, label in zip(centers, labels, strict=True):
            ax.text(
                *center,
                label,
                ha="center",
                va="center",
                size=FONT_SIZE * shrinkage,
                bbox=FRAME,
                **PLAIN,
            )
        low = centers.min(axis=0, initial=0)
        high = centers.max(axis=0, initial=0)
        margin = (extent - (high - low)) / 2 + FONT_SIZE
        ax.set(xlim=(low[0] - margin[0], high[0] + margin[0]), aspect="equal")
        ax.set(ylim=(low[1] - margin[1], high[1] + margin[1]))
        ax.set_axis_off()
        legend(ax, list(lines.values()), list(lines), ncols=2, **ABOVE)
        return self

    def _draw_pairs(
        self, ax: Any, centers: np.ndarray, shrinkage: float
    ) -> dict[str, Any]:
        """Draw a line per pair; return one of each kind by what it means."""
        largest = np.abs(self.weights).max(initial=0.0)
        if largest == 0.0:
            largest = 1.0
        lines = {}
        for ends, weight in zip(self.pairs, self.weights, strict=True):
            if weight > 0:
                meaning = "go together"
                look: dict[str, Any] = {"color": POSITIVE, "ls": "-"}
            else:
                meaning = "tell rows apart"
                look = {"color": NEGATIVE, "ls": (0, (3, 1.5))}
            width = shrinkage * (0.8 + 3.2 * abs(weight) / largest)
            x, y = centers[ends].T
            (lines[meaning],) = ax.plot(x, y, lw=width, zorder=1, **look)
        return lines


def _label_sizes(labels: Sequence[str]) -> np.ndarray:
    """Return the width and the height of each label with its frame, in points."""
    sizes = [
        [CHARACTER_WIDTH * len(label) + MARGIN_WIDTH, LABEL_HEIGHT] for label in labels
    ]
    return np.reshape(sizes, (-1, 2)) * FONT_SIZE


# --- layout ---------------------------------------------------------------------------


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
