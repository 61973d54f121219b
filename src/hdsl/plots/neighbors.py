"""The neighbors of a query, before and after."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from .. import search
from ..explain import NEGATIVE, POSITIVE
from ..explain.parts import one_row
from ..explain.tables import shown
from ..input.matrices import as_rows
from ..input.parameters import check_number
from .display import PLAIN, Display, legend, similarity_of

#: Characters of the text of a neighbor, and of the query.
TEXT_LENGTH = 55
QUERY_LENGTH = 110


@dataclass(repr=False)
class NeighborsDisplay(Display):
    """The nearest rows of a query by cosine and by the learned similarity, side by side.

    If the model compares rows as they are (``norm=None``), by dot product and as
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
        labels = _as_objects(labels)
        texts = _as_objects(texts)
        number = None
        if np.ndim(query) == 0 and not sp.issparse(query):
            number = _row_number(query, X.shape[0])
            query = X[[number]]
            if labels is not None:
                query_label = labels[number]
            if texts is not None:
                query_text = texts[number]
        query = as_rows(one_row(query))
        similarity = similarity_of(estimator)
        index = similarity.index_rows(X)
        plain_query = similarity.index_rows(query)
        before = _nearest(plain_query, index, n_neighbors, leave_out=number)
        learned_query = similarity.rewrite(query)
        after = _nearest(learned_query, index, n_neighbors, leave_out=number)
        captions = {}
        for row in {*before.tolist(), *after.tolist()}:
            known = [
                str(values[row]) for values in (labels, texts) if values is not None
            ]
            captions[row] = _caption(known, default=f"row {row}")
        right = None
        if labels is not None and query_label is not None:
            right = np.asarray(labels) == query_label
        plain = "cosine"
        if similarity.takes_rows_as_they_are:
            plain = "dot product"
        display = cls(
            before=before,
            after=after,
            texts=captions,
            query=_caption([query_label, query_text], default="query"),
            right=right,
            plain=plain,
        )
        return display.plot(ax)

    def plot(self, ax: Any = None) -> NeighborsDisplay:
        """Draw two lists; lines join the rows that are in both."""
        n = max(len(self.before), len(self.after))
        ax = self.start(ax, figsize=(11, 1.2 + 0.3 * n))
        after = self.after.tolist()
        for y, row in enumerate(self.before.tolist()):
            if row in after:
                ax.plot([0, 1], [y, after.index(row)], color="0.6", lw=1.2, zorder=1)
        markers = self._draw_list(ax, self.before, _LEFT)
        markers |= self._draw_list(ax, self.after, _RIGHT)
        heading = {"y": -1.0, "weight": "bold", "size": 9}
        ax.text(_LEFT.text_x, s=f"by {self.plain}", ha=_LEFT.alignment, **heading)
        ax.text(
            _RIGHT.text_x, s="by the learned similarity", ha=_RIGHT.alignment, **heading
        )
        ax.set_title(_beginning(self.query, QUERY_LENGTH), fontsize="medium", **PLAIN)
        ax.set(xlim=(-3.5, 4.5), ylim=(n - 0.3, -1.6))
        ax.set_axis_off()
        looks = [look for look in (_OF_CLASS, _OF_ANOTHER_CLASS) if look in markers]
        if looks:
            legend(
                ax,
                [markers[look] for look in looks],
                [look.meaning for look in looks],
                ncols=2,
                loc="upper center",
                bbox_to_anchor=(0.5, 0.0),
            )
        return self

    def _draw_list(
        self, ax: Any, rows: np.ndarray, column: _Column
    ) -> dict[_Look, Any]:
        """Draw one list; return a marker of each look."""
        markers = {}
        for y, row in enumerate(rows.tolist()):
            look = self._look(row)
            (markers[look],) = ax.plot(
                column.x, y, ms=7, ls="", color=look.color, marker=look.marker
            )
            text = _beginning(self.texts[row], TEXT_LENGTH)
            ax.text(
                column.text_x,
                y,
                text,
                ha=column.alignment,
                va="center",
                size=9,
                **PLAIN,
            )
        return markers

    def _look(self, row: int) -> _Look:
        """Return how a row is drawn."""
        if self.right is None:
            return _OF_UNKNOWN_CLASS
        if self.right[row]:
            return _OF_CLASS
        return _OF_ANOTHER_CLASS


class _Look(NamedTuple):
    """How a neighbor is drawn, and what that means."""

    color: str
    marker: str
    meaning: str = ""


_OF_CLASS = _Look(POSITIVE, "o", "of the query's class")
_OF_ANOTHER_CLASS = _Look(NEGATIVE, "X", "of another class")
_OF_UNKNOWN_CLASS = _Look("0.4", "o")


class _Column(NamedTuple):
    """Where the markers and the texts of a list stand."""

    x: float
    text_x: float
    alignment: str


_LEFT = _Column(x=0, text_x=-0.1, alignment="right")
_RIGHT = _Column(x=1, text_x=1.1, alignment="left")


def _as_objects(values: Any) -> np.ndarray | None:
    """Return values as an array that is indexed by row numbers; None stays None."""
    if values is None:
        return None
    return np.asarray(values, dtype=object)


def _row_number(query: Any, n_rows: int) -> int:
    """Return the number of a row, which may be negative, from 0."""
    check_number(
        "NeighborsDisplay", "query", query, low=-n_rows, high=n_rows, integer=True
    )
    return range(n_rows)[query]


def _nearest(
    query: Any, index: Any, n_neighbors: int, leave_out: int | None
) -> np.ndarray:
    """Return the nearest rows of one query, without the row that it is."""
    k = n_neighbors
    if leave_out is not None:
        k += 1
    neighbors = search.top_k(query, index, k)
    rows = neighbors.rows[0, : neighbors.size[0]]
    return rows[rows != leave_out][:n_neighbors]


def _caption(values: list[Any], default: str) -> str:
    """Return what is known of a row as text."""
    known = [str(value) for value in values if value is not None]
    return ": ".join(known) or default


def _beginning(text: str, width: int) -> str:
    """Return the first words of a text as one line."""
    words = " ".join(text[: 4 * width].split())
    return textwrap.shorten(shown(words, 8 * width), width, placeholder=" …")
