"""The most important feature pairs of M as a network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse import csgraph
from sklearn.manifold import smacof

from .. import explain
from ..explain import NEGATIVE, POSITIVE
from ..explain.tables import shown
from ..input.matrices import as_rows
from .display import ABOVE, PLAIN, Display, legend, similarity_of

#: Width of a character of a label, and height of its line, in units of the font size.
CHARACTER = 0.62
LINE = 1.5


@dataclass
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
        found = explain.importance(
            getattr(similarity, "shared", similarity),
            None if X is None else as_rows(X),
            feature_names=feature_names,
        )
        pairs = found.pairs[:top]
        used, ends = np.unique(
            np.stack([pairs["i"], pairs["j"]], axis=1), return_inverse=True
        )
        name = dict(
            zip(found.features["i"].tolist(), found.features["name"], strict=True)
        )
        names = [name[i] for i in used.tolist()]
        return cls(ends.reshape(-1, 2), pairs[found.ranked_by], names).plot(ax)

    def plot(self, ax: Any = None) -> NetworkDisplay:
        """Draw the network; a new figure is as large as the labels need."""
        labels = [shown(name, 24) for name in self.names]
        font = 9.0
        sizes = (
            np.array([[CHARACTER * len(label) + 2.5, LINE + 0.7] for label in labels])
            * font
        )
        places = network_layout(self.pairs, sizes.reshape(-1, 2), spacing=6 * font)
        extent = (
            np.ptp(places, axis=0) + sizes.max(axis=0) if len(labels) else np.ones(2)
        )
        wanted = np.clip((extent + 2 * font) / 72 + [0, 0.4], 3.0, 20.0)
        ax = self.start(ax, figsize=tuple(wanted))
        room = ax.get_position().size * self.figure_.get_size_inches() * 72
        shrink = min(1.0, *(room / extent)) if len(labels) else 1.0
        largest = np.abs(self.weights).max(initial=0.0) or 1.0
        handles: dict[bool, Any] = {}
        for (i, j), weight in zip(self.pairs, self.weights, strict=True):
            together = bool(weight > 0)
            (handles[together],) = ax.plot(
                *places[[i, j]].T,
                color=POSITIVE if together else NEGATIVE,
                ls="-" if together else (0, (3, 1.5)),
                lw=shrink * (0.8 + 3.2 * abs(weight) / largest),
                zorder=1,
            )
        box = {"boxstyle": "round,pad=0.25", "fc": "white", "ec": "0.7", "lw": 0.6}
        for place, label in zip(places, labels, strict=True):
            ax.text(
                *place,
                label,
                ha="center",
                va="center",
                size=font * shrink,
                bbox=box,
                **PLAIN,
            )
        low = places.min(axis=0, initial=0)
        high = places.max(axis=0, initial=0)
        margin = (extent - (high - low)) / 2 + font
        ax.set(xlim=(low[0] - margin[0], high[0] + margin[0]), aspect="equal")
        ax.set(ylim=(low[1] - margin[1], high[1] + margin[1]))
        ax.set_axis_off()
        words = {True: "go together", False: "tell rows apart"}
        legend(
            ax, list(handles.values()), [words[k] for k in handles], ncols=2, **ABOVE
        )
        return self


def network_layout(pairs: np.ndarray, sizes: np.ndarray, spacing: float) -> np.ndarray:
    """Return the centers of boxes that do not overlap, shape (n, 2); the same at every call.

    Each connected part is laid out so that distances are about those in the network.
    The parts are put on shelves, the highest first.
    """
    n = len(sizes)
    links = (np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1]))
    graph = sp.coo_array(links, shape=(n, n)).tocsr()
    n_parts, part = csgraph.connected_components(graph, directed=False)
    places = np.zeros((n, 2))
    boxes = []
    for k in range(n_parts):
        inside = np.flatnonzero(part == k)
        placed = _spread(
            _stress_layout(graph[inside][:, inside], spacing), sizes[inside]
        )
        low = (placed - sizes[inside] / 2).min(axis=0)
        high = (placed + sizes[inside] / 2).max(axis=0)
        places[inside] = placed - low
        boxes.append((*(high - low + spacing / 4), k))
    boxes.sort(
        key=lambda box: (-box[1], -box[0], box[2])
    )  # the highest first: shelves are full
    width = max(
        [1.3 * np.sqrt(sum(w * h for w, h, _ in boxes)), *(w for w, _, _ in boxes)]
    )
    x = y = shelf = 0.0
    for w, h, k in boxes:
        if x > 0 and x + w > width:
            x = 0.0
            y = y - shelf
            shelf = 0.0
        shelf = max(shelf, h)
        places[part == k] += [x, y - h]
        x += w
    return places


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
    return smacof(
        distances, n_components=2, init=circle, n_init=1, max_iter=150, eps=1e-6
    )[0]


def _spread(places: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Push boxes apart until none overlaps another."""
    upper = np.triu(np.ones((len(places),) * 2, dtype=bool), 1)
    reach = (sizes[:, None] + sizes[None]) / 2
    while True:
        apart = places[:, None] - places[None]
        over = reach - np.abs(apart)
        i, j = np.nonzero(upper & (over > 1e-6).all(axis=2))
        if not len(i):
            return places
        axis = over[i, j].argmin(axis=1)  # the shorter way out
        push = np.where(apart[i, j, axis] >= 0, 0.5, -0.5) * over[i, j, axis]
        places = 1.01 * places  # pushes alone may never end
        np.add.at(places, (i, axis), push)
        np.add.at(places, (j, axis), -push)
