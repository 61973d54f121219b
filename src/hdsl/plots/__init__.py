"""Pictures of models and of how they came about; each is a display, as in scikit-learn.

A display holds the numbers of a picture. Its ``from_…`` methods compute them and draw; ``plot``
draws them again, on axes of your own if you like, and sets ``ax_`` and ``figure_``. Names and texts
are shown as they are: nothing in them is taken for a formula.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse import csgraph
from sklearn.metrics import roc_auc_score
from sklearn.utils.validation import check_is_fitted

from .. import explain, search, user_input
from ..explain import NEGATIVE, POSITIVE
from ..similarity import Similarity

#: Okabe and Ito's colours without the yellow, which is too light for lines; and a shape for each.
COLORS = (POSITIVE, NEGATIVE, "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")

#: For names and texts: neither mathtext nor TeX reads them.
PLAIN = {"parse_math": False, "usetex": False}

#: Where a legend hides nothing.
ABOVE = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0)}

#: Width of a character of a label, and height of its line, in sizes of its font.
CHARACTER, LINE = 0.62, 1.5


class _Display:
    """What displays share: `ax_` and `figure_` after `plot`."""

    ax_: Any
    figure_: Any

    def _start(self, ax: Any, n_axes: int = 1, **options: Any) -> Any:
        """Return the axes to draw on, made where none are given."""
        plt = _pyplot()
        if ax is None:
            _, ax = plt.subplots(1, n_axes, layout="constrained", **options)
        elif n_axes > 1 and np.shape(ax) != (n_axes,):
            raise ValueError(
                f"{type(self).__name__} draws on {n_axes} axes. Pass ax as a list of {n_axes}, or "
                "None for a new figure."
            )
        self.ax_ = ax
        self.figure_ = (ax if n_axes == 1 else ax[0]).figure
        return ax


def _pyplot() -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("hdsl.plots needs matplotlib: `pip install hdsl[plots]`.") from error
    return plt


def _legend(ax: Any, handles: Sequence[Any], labels: Sequence[str], **options: Any) -> None:
    # Set afterwards: matplotlib leaves out labels that start with an underscore.
    places = [str(k) for k in range(len(labels))]
    legend = ax.legend(handles, places, frameon=False, fontsize="small", **options)
    for text, label in zip(legend.get_texts(), labels, strict=True):
        text.set(text=explain.shown(label), **PLAIN)


def _matrix(X: Any) -> Any:
    return user_input.canonical(X) if sp.issparse(X) else np.asarray(X, dtype=np.float64)


def _similarity(estimator: Any) -> Similarity:
    return estimator if isinstance(estimator, Similarity) else estimator.similarity_


def _names(estimator: Any, feature_names: Any) -> Any:
    return getattr(estimator, "feature_names_in_", None) if feature_names is None else feature_names


# --- the run -------------------------------------------------------------------------------------


@dataclass
class TraceDisplay(_Display):
    """Objective, gap and validation score along a run.

    Parameters
    ----------
    trace : structured ndarray
        ``model.trace_``: objective, gap and validation_score by iteration.
    n_iter : int, default=None
        Iteration to mark, that of the model which was kept.
    """

    trace: np.ndarray
    n_iter: int | None = None

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> TraceDisplay:
        """Draw the run of a fitted HDSL or HDSLCV."""
        check_is_fitted(estimator)
        estimator = getattr(estimator, "best_estimator_", estimator)
        return cls(estimator.trace_, estimator.n_iter_).plot(ax)

    def plot(self, ax: Any = None) -> TraceDisplay:
        """Draw objective and gap by a logarithmic axis, and scores, if any, by one on the right."""
        ax = self._start(ax)
        iterations = np.arange(len(self.trace))
        handles, labels = [], []
        for name, color in (("objective", COLORS[0]), ("gap", COLORS[1])):
            values = self.trace[name]
            known = values > 0  # a lazy step has no gap, and zero has no logarithm
            handles += ax.plot(iterations[known], values[known], color=color, lw=1.2)
            labels.append(name)
        ax.set(xlabel="iteration", ylabel="objective and gap", yscale="log")
        scores = self.trace["validation_score"]
        known = ~np.isnan(scores)
        if known.any():
            right = ax.twinx()
            right.set_ylabel("validation score")
            handles += right.plot(
                iterations[known], scores[known], color=COLORS[2], marker=".", lw=1.2
            )
            labels.append("validation score (right)")
        if self.n_iter is not None and self.n_iter != len(self.trace) - 1:
            handles.append(ax.axvline(self.n_iter, color="0.5", ls=":", lw=1.2))
            labels.append(f"the model kept, {self.n_iter} iterations")
        _legend(ax, handles, labels, ncols=2, **ABOVE)
        return self


@dataclass
class PathDisplay(_Display):
    """Number of atoms, and of features that they use, along a run.

    Parameters
    ----------
    n_atoms, n_features : ndarray of shape (n_iterations,)
    """

    n_atoms: np.ndarray
    n_features: np.ndarray

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> PathDisplay:
        """Draw the path of a fitted HDSL or HDSLCV."""
        check_is_fitted(estimator)
        trace = getattr(estimator, "best_estimator_", estimator).trace_
        return cls(trace["n_atoms"], trace["n_features"]).plot(ax)

    def plot(self, ax: Any = None) -> PathDisplay:
        """Draw both counts by iteration."""
        ax = self._start(ax)
        handles = ax.plot(self.n_features, color=COLORS[0], lw=1.5)
        handles += ax.plot(self.n_atoms, color=COLORS[1], lw=1.5, ls="--")
        ax.set(xlabel="iteration", ylabel="number in the model")
        ax.set_ylim(bottom=0)
        _legend(ax, handles, ["features", "atoms"])
        return self


# --- what was learned ----------------------------------------------------------------------------


@dataclass
class MatrixDisplay(_Display):
    """Entries of M: blue where positive, red where negative.

    Parameters
    ----------
    M : sparse array of shape (n_features, n_features)
    names : sequence of str, default=None
        Names of the features. With them the area of a square is the size of its entry; without,
        all squares are the same, a picture of where M is not 0.
    """

    M: sp.csr_array
    names: Sequence[str] | None = None

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, top: int | None = None, feature_names: Any = None, ax: Any = None
    ) -> MatrixDisplay:
        """Draw M of a fitted model or of a Similarity.

        Parameters
        ----------
        estimator : HDSL, HDSLCV or Similarity
        top : int, default=None
            Only so many features of largest weight, by name; None is all, by number.
        feature_names : array-like of str of shape (n_features,), default=None
        ax : matplotlib axes, default=None

        Returns
        -------
        MatrixDisplay
        """
        similarity = _similarity(estimator)
        M, names = similarity.matrix(), None
        if top is not None:
            features = explain.importance(
                similarity, feature_names=_names(estimator, feature_names)
            ).features[:top]
            M = M[features["i"]][:, features["i"]]
            names = features["name"].tolist()
        return cls(M, names).plot(ax)

    def plot(self, ax: Any = None) -> MatrixDisplay:
        """Draw one square an entry."""
        n = self.M.shape[0]
        side = 5.5 if self.names is None else max(4.0, 1.5 + 0.2 * n)
        ax = self._start(ax, figsize=(side, side))
        entries = self.M.tocoo()
        cell = min(ax.get_position().size * self.figure_.get_size_inches()) * 72 / n
        area = np.full(entries.nnz, max(0.8 * cell, 2.0) ** 2)
        if self.names is not None and entries.nnz:
            area = (0.85 * cell) ** 2 * np.abs(entries.data) / np.abs(entries.data).max()
        for mine, color in ((entries.data > 0, POSITIVE), (entries.data < 0, NEGATIVE)):
            ax.scatter(
                entries.col[mine], entries.row[mine], area[mine], color, marker="s", linewidths=0
            )
        key = [ax.plot([], [], "s", color=color, ms=5)[0] for color in (POSITIVE, NEGATIVE)]
        _legend(ax, key, ["positive", "negative"], ncols=2, **ABOVE)
        ax.set(xlim=(-0.5, n - 0.5), ylim=(n - 0.5, -0.5), aspect="equal")
        if self.names is None:
            ax.set(xlabel="feature", ylabel="feature")
        else:
            labels = [explain.shown(name, 24) for name in self.names]
            ax.set_xticks(range(n), labels, rotation=90, fontsize=8, **PLAIN)
            ax.set_yticks(range(n), labels, fontsize=8, **PLAIN)
            ax.grid(lw=0.3)
            ax.set_axisbelow(True)
        return self


@dataclass
class NetworkDisplay(_Display):
    """Pairs of features as a network: solid blue where they go together, dashed red where not.

    Parameters
    ----------
    pairs : ndarray of shape (n_pairs, 2)
        Numbers of the features in `names`.
    weights : ndarray of shape (n_pairs,)
        Entries M_ij; the thicker a line, the larger.
    names : sequence of str
    """

    pairs: np.ndarray
    weights: np.ndarray
    names: Sequence[str]

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, top: int = 40, feature_names: Any = None, ax: Any = None
    ) -> NetworkDisplay:
        """Draw the heaviest pairs of a fitted model or of a Similarity.

        Parameters
        ----------
        estimator : HDSL, HDSLCV or Similarity
        top : int, default=40
            Number of pairs.
        feature_names : array-like of str of shape (n_features,), default=None
        ax : matplotlib axes, default=None

        Returns
        -------
        NetworkDisplay
        """
        found = explain.importance(
            _similarity(estimator), feature_names=_names(estimator, feature_names)
        )
        pairs = found.pairs[:top]
        used, ends = np.unique(np.stack([pairs["i"], pairs["j"]], axis=1), return_inverse=True)
        name = dict(zip(found.features["i"].tolist(), found.features["name"], strict=True))
        names = [name[i] for i in used.tolist()]
        return cls(ends.reshape(-1, 2), pairs["weight"], names).plot(ax)

    def plot(self, ax: Any = None) -> NetworkDisplay:
        """Draw the network; a figure of its own is as large as the labels need."""
        labels = [explain.shown(name, 24) for name in self.names]
        font = 9.0
        sizes = np.array([[CHARACTER * len(label) + 2.5, LINE + 0.7] for label in labels]) * font
        places = _network_layout(self.pairs, sizes.reshape(-1, 2), spacing=6 * font)
        extent = np.ptp(places, axis=0) + sizes.max(axis=0) if len(labels) else np.ones(2)
        wanted = np.clip((extent + 2 * font) / 72 + [0, 0.4], 3.0, 20.0)
        ax = self._start(ax, figsize=tuple(wanted))
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
            ax.text(*place, label, ha="center", va="center", size=font * shrink, bbox=box, **PLAIN)
        low, high = places.min(axis=0, initial=0), places.max(axis=0, initial=0)
        margin = (extent - (high - low)) / 2 + font
        ax.set(xlim=(low[0] - margin[0], high[0] + margin[0]), aspect="equal")
        ax.set(ylim=(low[1] - margin[1], high[1] + margin[1]))
        ax.set_axis_off()
        words = {True: "go together", False: "tell rows apart"}
        _legend(ax, list(handles.values()), [words[k] for k in handles], ncols=2, **ABOVE)
        return self


def _network_layout(pairs: np.ndarray, sizes: np.ndarray, spacing: float) -> np.ndarray:
    """Return the centres of boxes, none over another, shape (n, 2); the same at every call.

    Each connected part is laid out so that distances are those in the network, and the parts are
    put on shelves, the widest first.
    """
    n = len(sizes)
    links = (np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1]))
    graph = sp.coo_array(links, shape=(n, n)).tocsr()
    n_parts, part = csgraph.connected_components(graph, directed=False)
    places = np.zeros((n, 2))
    boxes = []
    for k in range(n_parts):
        inside = np.flatnonzero(part == k)
        own = _spread(_stress_layout(graph[inside][:, inside], spacing), sizes[inside])
        low = (own - sizes[inside] / 2).min(axis=0)
        high = (own + sizes[inside] / 2).max(axis=0)
        places[inside] = own - low
        boxes.append((*(high - low + spacing / 4), k))
    boxes.sort(key=lambda box: (-box[1], -box[0], box[2]))  # the highest first: shelves are full
    width = max([1.3 * np.sqrt(sum(w * h for w, h, _ in boxes)), *(w for w, _, _ in boxes)])
    x = y = shelf = 0.0
    for w, h, k in boxes:
        if x > 0 and x + w > width:
            x, y, shelf = 0.0, y - shelf, 0.0
        shelf = max(shelf, h)
        places[part == k] += [x, y - h]
        x += w
    return places


def _stress_layout(graph: Any, spacing: float, n_iter: int = 150) -> np.ndarray:
    """Return points whose distances are about those in a connected graph, by majorisation."""
    n = graph.shape[0]
    if n == 1:
        return np.zeros((1, 2))
    distances = spacing * csgraph.shortest_path(graph, directed=False, unweighted=True)
    # In this order the edges of a tree do not cross on a circle.
    order = csgraph.depth_first_order(graph, 0, directed=False, return_predecessors=False)
    angles = np.empty(n)
    angles[order] = 2 * np.pi * np.arange(n) / n
    places = np.column_stack([np.cos(angles), np.sin(angles)]) * distances.max() / 2
    off = ~np.eye(n, dtype=bool)
    weights = np.zeros((n, n))
    weights[off] = distances[off] ** -2.0  # near ones count most
    laplacian = np.diag(weights.sum(axis=1)) - weights
    inverse = np.linalg.pinv(laplacian)
    for _ in range(n_iter):
        now = np.linalg.norm(places[:, None] - places[None], axis=2)
        pull = np.zeros((n, n))
        pull[off] = -weights[off] * distances[off] / np.maximum(now[off], 1e-9)
        np.fill_diagonal(pull, -pull.sum(axis=1))
        places = inverse @ (pull @ places)
    return places


def _spread(places: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Push boxes apart until none is over another."""
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
        places = 1.01 * places  # pushes alone might go on for ever
        np.add.at(places, (i, axis), push)
        np.add.at(places, (j, axis), -push)


# --- what it is good for -------------------------------------------------------------------------


@dataclass
class ErrorDisplay(_Display):
    """Error of methods against the number of dimensions they use.

    Parameters
    ----------
    curves : dict of str to tuple
        By name of the method: dimensions, errors, and optionally the spread of the errors, each an
        array-like of shape (n_points,).
    """

    curves: Mapping[str, Sequence[Any]]

    @classmethod
    def from_curves(cls, curves: Mapping[str, Sequence[Any]], *, ax: Any = None) -> ErrorDisplay:
        """Draw curves that were measured."""
        return cls(curves).plot(ax)

    def plot(self, ax: Any = None) -> ErrorDisplay:
        """Draw one line a method; a band is the spread."""
        ax = self._start(ax)
        handles = []
        for k, (dimensions, errors, *spread) in enumerate(self.curves.values()):
            color = COLORS[k % len(COLORS)]
            handles += ax.plot(
                dimensions, errors, color=color, marker=MARKERS[k % len(MARKERS)], ms=4, lw=1.5
            )
            if spread:
                low, high = np.subtract(errors, spread[0]), np.add(errors, spread[0])
                ax.fill_between(dimensions, low, high, color=color, alpha=0.2, lw=0)
        ax.set(xscale="log", xlabel="number of dimensions", ylabel="error")
        ax.yaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %")
        _legend(ax, handles, list(self.curves))
        return self


@dataclass
class SimilarityDisplay(_Display):
    """Similarities of pairs of one class against those of other pairs, before and after.

    Parameters
    ----------
    same : ndarray of shape (n_pairs,)
        Whether a pair is of one class.
    before, after : ndarray of shape (n_pairs,)
        Dot products and learned similarities of the pairs.
    """

    same: np.ndarray
    before: np.ndarray
    after: np.ndarray

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        n_pairs: int = 10_000,
        random_state: Any = None,
        ax: Any = None,
    ) -> SimilarityDisplay:
        """Draw random pairs of rows, half of them of one class, and their similarities.

        Parameters
        ----------
        estimator : HDSL, HDSLCV or Similarity
        X : array-like or sparse matrix of shape (n_rows, n_features)
        y : array-like of shape (n_rows,)
        n_pairs : int, default=10_000
        random_state : int, RandomState or None, default=None
        ax : pair of matplotlib axes, default=None

        Returns
        -------
        SimilarityDisplay
        """
        X = _matrix(X)
        rng = user_input.generator(random_state)
        left, right, same = _pairs_of_classes(user_input.check_labels(y, X.shape[0]), n_pairs, rng)
        A, B = X[left], X[right]
        before = A.multiply(B).sum(axis=1) if sp.issparse(A) else np.einsum("ij,ij->i", A, B)
        after = _similarity(estimator).pair_score(A, B)
        return cls(same, np.asarray(before).ravel(), after).plot(ax)

    def plot(self, ax: Any = None) -> SimilarityDisplay:
        """Draw two histograms before and two after; the ends hold what lies beyond them."""
        axes = self._start(ax, 2, figsize=(9, 3.6))
        for one, name, scores in zip(
            axes, ("dot product", "learned similarity"), (self.before, self.after), strict=True
        ):
            low, high = np.quantile(scores, [0.005, 0.995])
            bins = np.linspace(low, high if high > low else low + 1.0, 41)
            handles = []
            for same, color, line in ((False, NEGATIVE, "--"), (True, POSITIVE, "-")):
                group = np.clip(scores[self.same == same], bins[0], bins[-1])
                share = np.full(len(group), 1 / max(len(group), 1))
                one.hist(group, bins, weights=share, color=color, alpha=0.25)
                *_, outline = one.hist(
                    group, bins, weights=share, color=color, histtype="step", ls=line, lw=1.3
                )
                handles += outline
            one.set(xlabel=name, ylabel="share of pairs", yscale="log")
            auc = roc_auc_score(self.same, scores)
            one.set_title(f"{name}, AUC {auc:.3f}", fontsize="medium")
            _legend(one, handles, ["other pairs", "pairs of one class"])
        return self


def _pairs_of_classes(
    codes: np.ndarray, n_pairs: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return two rows a pair, never the same one, and whether they are of one class: half are."""
    order = np.argsort(codes, kind="stable")  # each class is a run of it
    n, count = len(codes), np.bincount(codes)
    start = np.cumsum(count) - count
    sorted_codes = codes[order]
    several = np.flatnonzero(count[sorted_codes] > 1)
    if not len(several):
        raise ValueError("No class of y has two rows: there is no pair of one class.")
    a = rng.choice(several, n_pairs // 2)
    size, first = count[sorted_codes[a]], start[sorted_codes[a]]
    b = first + (a - first + rng.integers(1, size)) % size
    c = rng.integers(n, size=n_pairs - n_pairs // 2)
    size, first = count[sorted_codes[c]], start[sorted_codes[c]]
    d = (first + size + rng.integers(0, n - size)) % n
    same = np.repeat([True, False], [len(a), len(c)])
    return order[np.concatenate([a, c])], order[np.concatenate([b, d])], same


@dataclass
class NeighborsDisplay(_Display):
    """The nearest rows of a query by dot product and by the learned similarity, side by side.

    Parameters
    ----------
    before, after : ndarray of shape (n_neighbors,)
        Row numbers, the nearest first.
    texts : sequence of str
        What is shown of the rows, by their numbers.
    query : str
        What is shown of the query.
    right : ndarray of bool of shape (n_rows,), default=None
        Which rows are of the query's class, where that is known.
    """

    before: np.ndarray
    after: np.ndarray
    texts: Mapping[int, str]
    query: str = "query"
    right: np.ndarray | None = None

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        query: Any,
        X: Any,
        *,
        labels: Any = None,
        texts: Any = None,
        query_label: Any = None,
        query_text: str | None = None,
        n_neighbors: int = 8,
        ax: Any = None,
    ) -> NeighborsDisplay:
        """Find the neighbours of a query and draw them.

        Parameters
        ----------
        estimator : HDSL, HDSLCV or Similarity
        query : int, or array-like or sparse matrix of one row
            The number of a row of X, which is then no neighbour of its own, or a row.
        X : array-like or sparse matrix of shape (n_rows, n_features)
        labels, texts : array-like of shape (n_rows,), default=None
            What is shown of the rows; their numbers where neither is given.
        query_label, query_text : default=None
            The same of the query; known where it is a row of X.
        n_neighbors : int, default=8
        ax : matplotlib axes, default=None

        Returns
        -------
        NeighborsDisplay
        """
        X = _matrix(X)
        own = None
        if np.ndim(query) == 0 and not sp.issparse(query):
            own = range(X.shape[0])[query]
            query = X[[own]]
            query_label = labels[own] if labels is not None else query_label
            query_text = texts[own] if texts is not None else query_text
        query = _matrix(explain.one_row(query))
        k = n_neighbors + (own is not None)

        def nearest(asked: Any) -> np.ndarray:
            found = search.top_k(asked, X, k)
            rows = found.rows[0, : found.size[0]]
            return rows[rows != own][:n_neighbors]

        before, after = nearest(query), nearest(_similarity(estimator).rewrite(query))
        shown = {}
        for row in {*before.tolist(), *after.tolist()}:
            parts = [str(part[row]) for part in (labels, texts) if part is not None]
            shown[row] = ": ".join(parts) or f"row {row}"
        asked = ": ".join(str(part) for part in (query_label, query_text) if part is not None)
        right = None
        if labels is not None and query_label is not None:
            right = np.asarray(labels) == query_label
        return cls(before, after, shown, asked or "query", right).plot(ax)

    def plot(self, ax: Any = None) -> NeighborsDisplay:
        """Draw two lists; lines join the rows that are in both."""
        n = max(len(self.before), len(self.after))
        ax = self._start(ax, figsize=(11, 1.2 + 0.3 * n))
        after = self.after.tolist()
        for place, row in enumerate(self.before.tolist()):
            if row in after:
                ax.plot([0, 1], [place, after.index(row)], color="0.6", lw=1.2, zorder=1)
        handles = {}
        looks = {
            True: {"color": POSITIVE, "marker": "o"},
            False: {"color": NEGATIVE, "marker": "X"},
            None: {"color": "0.4", "marker": "o"},
        }
        columns = ((0, self.before, "right", -0.1), (1, self.after, "left", 1.1))
        for x, rows, side, text_x in columns:
            for place, row in enumerate(rows.tolist()):
                right = None if self.right is None else bool(self.right[row])
                (handles[right],) = ax.plot(x, place, ms=7, ls="", **looks[right])
                text = _beginning(self.texts[row], 55)
                ax.text(text_x, place, text, ha=side, va="center", size=9, **PLAIN)
        ax.text(-0.1, -1.0, "by dot product", ha="right", weight="bold", size=9)
        ax.text(1.1, -1.0, "by the learned similarity", ha="left", weight="bold", size=9)
        ax.set_title(_beginning(self.query, 110), fontsize="medium", **PLAIN)
        ax.set(xlim=(-3.5, 4.5), ylim=(n - 0.3, -1.6))
        ax.set_axis_off()
        if self.right is not None:
            known = [k for k in (True, False) if k in handles]
            words = {True: "of the query's class", False: "of another class"}
            _legend(ax, [handles[k] for k in known], [words[k] for k in known], ncols=2,
                    loc="upper center", bbox_to_anchor=(0.5, 0.0))  # fmt: skip
        return self


def _beginning(text: str, width: int) -> str:
    """Return the first words of a text as one line."""
    words = " ".join(text[: 4 * width].split())
    return textwrap.shorten(explain.shown(words, 8 * width), width, placeholder=" …")
