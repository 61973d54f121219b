"""Queries that are not documents, and what was judged relevant for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..files.container import Arrays
from ..files.tables import get_array, nested, part_of
from ..input.comparisons import check_comparisons, check_weights
from ..relevance import Relevance
from .documents import Documents


class Clicks(NamedTuple):
    """Triplets of documents and queries as rows, the documents first, and their weights.

    Parameters
    ----------
    triplets : ndarray of shape (n_triplets, 3)
        Query, clicked document, other document that was shown.
    weights : ndarray of shape (n_triplets,), or None if all weigh the same
    """

    triplets: np.ndarray
    weights: np.ndarray | None = None

    def of_rows(self, is_chosen: np.ndarray) -> Clicks:
        """Return the triplets whose query is chosen, by a mask of all rows."""
        chosen = is_chosen[self.triplets[:, 0]]
        weights = self.weights
        if weights is not None:
            weights = weights[chosen]
        return Clicks(self.triplets[chosen], weights)

    def to_arrays(self) -> Arrays:
        """Return all of it as arrays."""
        arrays = {"triplets": self.triplets}
        if self.weights is not None:
            arrays["weights"] = self.weights
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Arrays, n_rows: int) -> Clicks:
        """Return the clicks of `to_arrays`; ValueError where they are damaged."""
        triplets = get_array(arrays, "triplets", "i", (None, 3))
        triplets = check_comparisons(triplets, n_rows)
        weights = check_weights(arrays.get("weights"), len(triplets), "click")
        return cls(triplets, weights)


@dataclass(frozen=True, eq=False)
class Queries:
    """Queries as rows beside the documents: a search never returns them.

    Parameters
    ----------
    rows : Documents
        The queries with their texts, ids and part: TRAIN or TEST.
    relevance : Relevance
        Grades of documents for these queries.
    clicks : Clicks, default=None
        What was learned from and measured, where these are clicks.
    """

    rows: Documents
    relevance: Relevance
    clicks: Clicks | None = None

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
            clicks = self.clicks.to_arrays()
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
        if part_of(arrays, "clicks"):
            n_rows = n_documents + rows.n_rows
            clicks = Clicks.from_arrays(part_of(arrays, "clicks"), n_rows)
        return cls(rows, Relevance(queries, documents, grades), clicks)


def _check_row_numbers(numbers: np.ndarray, n_rows: int, noun: str) -> None:
    """Raise ValueError unless all are numbers of rows."""
    if len(numbers) and not (numbers.min() >= 0 and numbers.max() < n_rows):
        raise ValueError(f"judgements name a {noun} beyond the {n_rows} that there are")
