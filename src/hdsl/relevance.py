"""Grades of documents for queries, as a table of judgements lists them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .readers import tables


class Relevance(NamedTuple):
    """Grades of documents for queries: each pair once, in the order of the queries.

    Parameters
    ----------
    queries, documents : ndarray of shape (n_judgements,)
        Row numbers, from 0 each.
    grades : ndarray of shape (n_judgements,)
        Larger is more relevant; 0 is not relevant.
    """

    queries: np.ndarray
    documents: np.ndarray
    grades: np.ndarray

    def of_queries(self, is_chosen: np.ndarray) -> Relevance:
        """Return the judgements of some queries, by a mask of all queries."""
        chosen = is_chosen[self.queries]
        return Relevance(
            self.queries[chosen], self.documents[chosen], self.grades[chosen]
        )

    def by_query(self) -> dict[int, dict[int, float]]:
        """Return the documents above grade 0 with their grades, of queries that have any."""
        grades: dict[int, dict[int, float]] = {}
        lines = zip(*(column.tolist() for column in self), strict=True)
        for query, document, grade in lines:
            if grade > 0:
                grades.setdefault(query, {})[document] = grade
        return grades


def read_relevance(
    judgements: Any,
    *,
    query: str = "query",
    document: str = "document",
    grade: str | None = "grade",
    query_ids: Any,
    document_ids: Any,
    max_unknown: float = 0.0,
) -> Relevance:
    """Return a table of relevance judgements by the row numbers of queries and documents.

    A pair that is judged twice has its highest grade. Lines of unknown documents are
    left out with a warning, up to the share `max_unknown` of all lines.
    """
    columns = {"query": query, "document": document}
    if grade is not None:
        columns["grade"] = grade
    table = tables.read_table(judgements, columns)
    query_index = table.row_index(query_ids)
    document_index = table.row_index(document_ids)
    table = table.without_unknown(document, document_index, max_unknown)
    grades = np.ones(len(table.columns[query]))
    if grade is not None:
        grades = table.numbers(grade).clip(min=0.0)
    queries = table.row_numbers(query, query_index)
    documents = table.row_numbers(document, document_index)
    order = np.lexsort((-grades, documents, queries))
    pairs = np.column_stack([queries, documents])[order]
    is_first = np.ones(len(order), dtype=bool)
    is_first[1:] = (np.diff(pairs, axis=0) != 0).any(axis=1)
    kept = order[is_first]
    return Relevance(queries[kept], documents[kept], grades[kept])
