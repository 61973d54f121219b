"""Queries that are not documents, and what was judged relevant for them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..files.container import Arrays
from ..files.tables import get_array, nested, part_of
from ..relevance import Relevance
from ..triplets import ShownRows
from .documents import Documents


@dataclass(frozen=True, eq=False)
class Queries:
    """Queries as rows beside the documents: a search never returns them.

    Parameters
    ----------
    rows : Documents
        The queries with their texts, ids and part: TRAIN or TEST.
    relevance : Relevance
        Grades of documents for these queries.
    clicks : ShownRows, default=None
        What held-out queries were shown and clicked, in rows of the documents, then of
        the queries.
    """

    rows: Documents
    relevance: Relevance
    clicks: ShownRows | None = None

    @property
    def n_queries(self) -> int:
        """The number of queries."""
        return self.rows.n_rows

    @property
    def held_out(self) -> Relevance:
        """The judgements of the queries that were held out."""
        return self.relevance.of_queries(self.rows.is_new)

    def to_arrays(self) -> Arrays:
        """Return all of it as arrays."""
        rows, _ = self.rows.to_arrays()
        relevance = dict(self.relevance._asdict())
        clicks: Arrays = {}
        if self.clicks is not None:
            clicks = {**self.clicks._asdict()}
        return nested(rows=rows, relevance=relevance, clicks=clicks)

    @classmethod
    def from_arrays(
        cls,
        arrays: Arrays,
        n_documents: int,
        n_features: int,
        embedding_width: int = 0,
    ) -> Queries:
        """Return the queries of `to_arrays`; ValueError where they are damaged."""
        rows = Documents.from_arrays(
            part_of(arrays, "rows"), {}, n_features, embedding_width
        )
        judged = part_of(arrays, "relevance")
        queries = get_array(judged, "queries", "i", (None,))
        documents = get_array(judged, "documents", "i", queries.shape)
        grades = get_array(judged, "grades", "f", queries.shape)
        _check_row_numbers(queries, rows.n_rows, "query")
        _check_row_numbers(documents, n_documents, "document")
        clicks = None
        if "clicks.events" in arrays:
            n_rows = n_documents + rows.n_rows
            clicks = _shown_rows(part_of(arrays, "clicks"), n_rows)
        return cls(rows, Relevance(queries, documents, grades), clicks)


def _shown_rows(arrays: Arrays, n_rows: int) -> ShownRows:
    """Return what was shown; ValueError where it is damaged."""
    events = get_array(arrays, "events", "i", (None,))
    shown = ShownRows(
        events=events,
        queries=get_array(arrays, "queries", "i", events.shape),
        rows=get_array(arrays, "rows", "i", events.shape),
        positions=get_array(arrays, "positions", "f", events.shape),
        are_clicked=get_array(arrays, "are_clicked", "b", events.shape),
    )
    _check_row_numbers(shown.queries, n_rows, "row")
    _check_row_numbers(shown.rows, n_rows, "row")
    if not (np.isfinite(shown.positions) & (shown.positions >= 1)).all():
        raise ValueError("clicks have a position that is not a number from 1")
    return shown


def _check_row_numbers(numbers: np.ndarray, n_rows: int, noun: str) -> None:
    """Raise ValueError unless all are numbers of rows."""
    if len(numbers) and not (numbers.min() >= 0 and numbers.max() < n_rows):
        raise ValueError(f"judgements name a {noun} beyond the {n_rows} that there are")
