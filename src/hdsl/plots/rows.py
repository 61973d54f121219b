"""Displays of rows: neighbors of a query, and similarities of pairs, before and after."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.metrics import roc_auc_score

from .. import checks, search
from ..explain import NEGATIVE, POSITIVE
from ..explain.parts import one_row
from ..explain.tables import shown
from ..similarity import row_products
from ..triplets import random_triplets
from .display import PLAIN, Display, legend, similarity_of


@dataclass
class NeighborsDisplay(Display):
    """The nearest rows of a query by dot product and by the learned similarity, side by side.

    Parameters
    ----------
    before, after : ndarray of shape (n_neighbors,)
        Row numbers, the nearest first.
    texts : sequence of str
        Text of each row, by its number.
    query : str
        Text of the query.
    right : ndarray of bool of shape (n_rows,), default=None
        Which rows are of the query's class, if known.
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
        """Find the neighbors of a query and draw them.

        Parameters
        ----------
        estimator : HDSL or Similarity
        query : int, or array-like or sparse matrix of one row
            The number of a row of X, which is then not its own neighbor, or a row.
        X : array-like or sparse matrix of shape (n_rows, n_features)
        labels, texts : array-like of shape (n_rows,), default=None
            Shown for each row; the row number if neither is given.
        query_label, query_text : default=None
            The same for the query; known if it is a row of X.
        n_neighbors : int, default=8
        ax : matplotlib axes, default=None

        Returns
        -------
        NeighborsDisplay
        """
        X = checks.as_rows(X)
        own = None
        if np.ndim(query) == 0 and not sp.issparse(query):
            own = range(X.shape[0])[query]
            query = X[[own]]
            query_label = labels[own] if labels is not None else query_label
            query_text = texts[own] if texts is not None else query_text
        query = checks.as_rows(one_row(query))
        k = n_neighbors + (own is not None)

        def nearest(asked: Any) -> np.ndarray:
            found = search.top_k(asked, X, k)
            rows = found.rows[0, : found.size[0]]
            return rows[rows != own][:n_neighbors]

        before, after = nearest(query), nearest(similarity_of(estimator).rewrite(query))
        captions = {}
        for row in {*before.tolist(), *after.tolist()}:
            parts = [str(part[row]) for part in (labels, texts) if part is not None]
            captions[row] = ": ".join(parts) or f"row {row}"
        asked = ": ".join(str(part) for part in (query_label, query_text) if part is not None)
        right = None
        if labels is not None and query_label is not None:
            right = np.asarray(labels) == query_label
        return cls(before, after, captions, asked or "query", right).plot(ax)

    def plot(self, ax: Any = None) -> NeighborsDisplay:
        """Draw two lists; lines join the rows that are in both."""
        n = max(len(self.before), len(self.after))
        ax = self.start(ax, figsize=(11, 1.2 + 0.3 * n))
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
            legend(ax, [handles[k] for k in known], [words[k] for k in known], ncols=2,
                    loc="upper center", bbox_to_anchor=(0.5, 0.0))  # fmt: skip
        return self


def _beginning(text: str, width: int) -> str:
    """Return the first words of a text as one line."""
    words = " ".join(text[: 4 * width].split())
    return textwrap.shorten(shown(words, 8 * width), width, placeholder=" …")


@dataclass
class SimilarityDisplay(Display):
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
        estimator : HDSL or Similarity
        X : array-like or sparse matrix of shape (n_rows, n_features)
        y : array-like of shape (n_rows,)
        n_pairs : int, default=10_000
        random_state : int, RandomState or None, default=None
        ax : pair of matplotlib axes, default=None

        Returns
        -------
        SimilarityDisplay
        """
        X = checks.as_rows(X)
        codes = checks.check_labels(y, X.shape[0])
        n_anchors = max(1, int((np.bincount(codes)[codes] > 1).sum()))
        n_per_row = -(-n_pairs // (2 * n_anchors))
        drawn = random_triplets(codes, n_per_row, random_state=random_state)
        drawn = checks.generator(random_state).permutation(drawn)[: n_pairs // 2]
        A, B = X[np.tile(drawn[:, 0], 2)], X[drawn[:, 1:].ravel(order="F")]
        after = similarity_of(estimator).pair_score(A, B)
        same = np.repeat([True, False], len(drawn))
        return cls(same, row_products(A, B), after).plot(ax)

    def plot(self, ax: Any = None) -> SimilarityDisplay:
        """Draw two histograms before and two after; the outer bins hold what lies beyond them."""
        axes = self.start(ax, 2, figsize=(9, 3.6))
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
            legend(one, handles, ["other pairs", "pairs of one class"])
        return self
