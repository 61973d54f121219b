"""Files and queries for engines that search sparse vectors."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..input.parameters import check_word
from .rows import as_sparse, sparse_rows, to_sparsevec
from .sql import quoted_name

FORMATS = ("pgvector", "qdrant", "jsonl")

#: Documents per line of a file for Qdrant.
POINTS = 100

#: Documents that are formatted at a time.
BLOCK = 1000

#: What each document of an export has; fields of Qdrant are kept apart.
RESERVED = {
    "pgvector": ("id", "terms"),
    "jsonl": ("id", "terms", "indices", "values"),
    "qdrant": (),
}

#: The table of a file for PostgreSQL.
TABLE = "hdsl_documents"


def export_rows(
    to: str,
    X: Any,
    *,
    names: Any = None,
    fields: Mapping[str, Sequence[Any]] | None = None,
) -> Iterator[str]:
    """Yield the text of a file that an engine loads, in pieces.

    Parameters
    ----------
    to : {"pgvector", "qdrant", "jsonl"}
        SQL for ``psql``, with a table ``hdsl_documents``; bodies of Qdrant's "upsert
        points", one per line; or one JSON object per document and line.
    X : array-like or sparse matrix of shape (n_documents, n_features)
        Rows of the index.
    names : array-like of str of shape (n_features,), default=None
        Terms, for "jsonl": its objects have ``terms``, a dict of weights. Without names
        they have ``indices`` and ``values``.
    fields : mapping of str to sequences of length n_documents, default=None
        What is stored beside each document: numbers or strings.

    Yields
    ------
    str

    Examples
    --------
    >>> fields = {"label": ["pet", "car"]}
    >>> print("".join(export_rows("jsonl", [[0.0, 2.0], [1.0, 0.0]], names=["red", "dog"],
    ...                           fields=fields)), end="")
    {"id": 0, "label": "pet", "terms": {"dog": 2.0}}
    {"id": 1, "label": "car", "terms": {"red": 1.0}}
    """
    check_word("export_rows", "to", to, FORMATS)
    X = as_sparse(X, "X")
    documents = _Documents(X, _checked_fields(to, fields or {}, X.shape[0]))
    if to == "pgvector":
        yield from _sql(documents)
    elif to == "qdrant":
        yield from _points(documents)
    else:
        yield from _json_lines(documents, names)


def _checked_fields(
    to: str, fields: Mapping[str, Sequence[Any]], n_rows: int
) -> dict[str, list[Any]]:
    """Return fields as lists of plain values; raise ValueError if one does not fit."""
    columns = {}
    for name, values in fields.items():
        columns[name] = [_plain(value) for value in values]
        if name in RESERVED[to]:
            raise ValueError(
                f"{name!r} is in each document: give the field another name."
            )
        if len(values) != n_rows:
            raise ValueError(
                f"There are {len(values)} values of {name!r} and {n_rows} rows: "
                "one value per row is expected."
            )
    return columns


def _plain(value: Any) -> Any:
    """Return a number of NumPy as a number of Python; other values unchanged."""
    if isinstance(value, np.number | np.bool_):
        return value.item()
    return value


@dataclass(frozen=True)
class _Documents:
    """Rows of an index, and what is stored beside each.

    Attributes
    ----------
    X : csr_array of shape (n_documents, n_features)
    fields : dict of str to list of length n_documents
    """

    X: sp.csr_array
    fields: dict[str, list[Any]]

    def blocks(self, size: int) -> Iterator[tuple[range, sp.csr_array]]:
        """Yield the numbers and the rows of a few documents at a time."""
        n = self.X.shape[0]
        for first in range(0, n, size):
            numbers = range(first, min(first + size, n))
            yield numbers, self.X[first : numbers.stop]

    def fields_of(self, number: int) -> dict[str, Any]:
        """Return what is stored beside one document."""
        return {name: values[number] for name, values in self.fields.items()}


def export_query(to: str, query: Any, *, names: Any = None) -> str:
    """Return one rewritten query as an engine takes it.

    Parameters
    ----------
    to : {"pgvector", "qdrant", "jsonl"}
    query : array-like or sparse matrix of shape (1, n_features)
    names : array-like of str of shape (n_features,), default=None
        As in `export_rows`.

    Returns
    -------
    str
        A ``sparsevec``, or JSON.

    Examples
    --------
    >>> export_query("qdrant", [[0.0, 2.0, -1.0]])
    '{"indices": [1, 2], "values": [2.0, -1.0]}'
    """
    check_word("export_query", "to", to, FORMATS)
    query = as_sparse(query, "query")
    if query.shape[0] != 1:
        raise ValueError(f"query must have one row. Got {query.shape[0]}.")
    if to == "pgvector":
        return to_sparsevec(query)[0]
    if to == "jsonl" and names is not None:
        return as_json(sparse_rows(query, names)[0])
    return as_json(_vector(sparse_rows(query)[0]))


def as_json(value: Any) -> str:
    """Return a value as JSON in one line; characters stay as they are."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _vector(row: tuple[list[int], list[float]]) -> dict[str, Any]:
    """Return a row as an object of indices and values."""
    indices, values = row
    return {"indices": indices, "values": values}


# --- Qdrant and lines of JSON ---------------------------------------------------------


def _points(documents: _Documents) -> Iterator[str]:
    """Yield bodies of Qdrant's "upsert points"."""
    for numbers, block in documents.blocks(POINTS):
        points = [
            {
                "id": number,
                "vector": {"terms": _vector(row)},
                "payload": documents.fields_of(number),
            }
            for number, row in zip(numbers, sparse_rows(block), strict=True)
        ]
        yield as_json({"points": points}) + "\n"


def _json_lines(documents: _Documents, names: Any) -> Iterator[str]:
    """Yield one JSON object per document."""
    for numbers, block in documents.blocks(BLOCK):
        for number, row in zip(numbers, sparse_rows(block, names), strict=True):
            if names is None:
                terms = _vector(row)
            else:
                terms = {"terms": row}
            document = {"id": number, **documents.fields_of(number), **terms}
            yield as_json(document) + "\n"


# --- PostgreSQL -----------------------------------------------------------------------


def _sql(documents: _Documents) -> Iterator[str]:
    """Yield statements that make the table and fill it."""
    columns = "".join(
        f"    {quoted_name(name)} {_sql_type(values)},\n"
        for name, values in documents.fields.items()
    )
    yield (
        "CREATE EXTENSION IF NOT EXISTS vector;\n"
        f"CREATE TABLE {TABLE} (\n    id bigint PRIMARY KEY,\n{columns}"
        f"    terms sparsevec({documents.X.shape[1]}) NOT NULL\n);\n"
        f"COPY {TABLE} FROM STDIN;\n"
    )
    for numbers, block in documents.blocks(BLOCK):
        for number, row in zip(numbers, to_sparsevec(block), strict=True):
            cells = map(_cell, documents.fields_of(number).values())
            yield "\t".join([str(number), *cells, row]) + "\n"
    yield "\\.\n"


def _sql_type(values: list[Any]) -> str:
    """Return the type of a column that takes all values; None is a null of any type."""
    known = [value for value in values if value is not None]
    if not known:
        return "text"
    if all(isinstance(value, bool) for value in known):
        return "boolean"
    if any(isinstance(value, bool) for value in known):
        return "text"  # a boolean among others is no number
    if all(isinstance(value, int) and abs(value) < 1 << 63 for value in known):
        return "bigint"
    if all(isinstance(value, int | float) for value in known):
        return "double precision"
    return "text"


def _cell(value: Any) -> str:
    """Return a value in the text format of COPY; PostgreSQL stores no zero byte."""
    if value is None:
        return "\\N"
    if not isinstance(value, str):
        return str(value)
    text = value.replace("\0", "").replace("\\", "\\\\")
    return text.replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")
