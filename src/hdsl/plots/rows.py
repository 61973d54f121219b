"""The neighbors of a query, before and after."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from .. import search
from ..explain import NEGATIVE, POSITIVE
from ..explain.parts import one_row
from ..explain.tables import shown
from ..input.matrices import as_rows
from ..input.parameters import check_number
from .display import PLAIN, Display, legend, similarity_of


@dataclass
class NeighborsDisplay(Display):
    """The nearest rows of a query by cosine and by the learned similarity, side by side.

    Where the model compares rows as they are (``norm=None``), by dot product and as
    learned.

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
    plain : str, default="cosine"
        What the neighbors in `before` are nearest by.
    """

    before: np.ndarray
    after: np.ndarray
    texts: Mapping[int, str]
    query: str = "query"
    right: np.ndarray | None = None
    plain: str = "cosine"

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
        X = as_rows(X)
        number = None
        labels, texts = (
            p if p is None else np.asarray(p, dtype=object) for p in (labels, texts)
        )
        if np.ndim(query) == 0 and not sp.issparse(query):
            n = X.shape[0]
            check_number(
                "NeighborsDisplay", "query", query, low=-n, high=n, integer=True
            )
            number = range(n)[query]
            query = X[[number]]
            query_label = labels[number] if labels is not None else query_label
            query_text = texts[number] if texts is not None else query_text
        query = as_rows(one_row(query))
        k = n_neighbors + (number is not None)

        similarity = similarity_of(estimator)
        compared = similarity.index_rows(
            X
        )  # X itself where rows are compared as they are
        plain = "dot product" if compared is X else "cosine"

        def nearest(asked: Any) -> np.ndarray:
            found = search.top_k(asked, compared, k)
            rows = found.rows[0, : found.size[0]]
            return rows[rows != number][:n_neighbors]

        before = nearest(similarity.index_rows(query))
        after = nearest(similarity.rewrite(query))
        captions = {}
        for row in {*before.tolist(), *after.tolist()}:
            parts = [str(part[row]) for part in (labels, texts) if part is not None]
            captions[row] = ": ".join(parts) or f"row {row}"
        asked = ": ".join(
            str(part) for part in (query_label, query_text) if part is not None
        )
        right = None
        if labels is not None and query_label is not None:
            right = np.asarray(labels) == query_label
        return cls(before, after, captions, asked or "query", right, plain).plot(ax)

    def plot(self, ax: Any = None) -> NeighborsDisplay:
        """Draw two lists; lines join the rows that are in both."""
        n = max(len(self.before), len(self.after))
        ax = self.start(ax, figsize=(11, 1.2 + 0.3 * n))
        after = self.after.tolist()
        for place, row in enumerate(self.before.tolist()):
            if row in after:
                ax.plot(
                    [0, 1], [place, after.index(row)], color="0.6", lw=1.2, zorder=1
                )
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
        ax.text(-0.1, -1.0, f"by {self.plain}", ha="right", weight="bold", size=9)
        ax.text(
            1.1, -1.0, "by the learned similarity", ha="left", weight="bold", size=9
        )
        ax.set_title(_beginning(self.query, 110), fontsize="medium", **PLAIN)
        ax.set(xlim=(-3.5, 4.5), ylim=(n - 0.3, -1.6))
        ax.set_axis_off()
        if self.right is not None:
            known = [k for k in (True, False) if k in handles]
            words = {True: "of the query's class", False: "of another class"}
            legend(
                ax,
                [handles[k] for k in known],
                [words[k] for k in known],
                ncols=2,
                loc="upper center",
                bbox_to_anchor=(0.5, 0.0),
            )
        return self


def _beginning(text: str, width: int) -> str:
    """Return the first words of a text as one line."""
    words = " ".join(text[: 4 * width].split())
    return textwrap.shorten(shown(words, 8 * width), width, placeholder=" …")
