"""Rows, files and queries as engines take them, those for vectors and those for texts."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..input.errors import warn
from ..input.matrices import as_rows, canonical
from ..input.parameters import check_number, check_word
from ..similarity.limits import limit_weights
from ..text import Collection

FORMATS = ("pgvector", "qdrant", "jsonl")
TEXT_FORMATS = ("postgresql", "sqlite", "elasticsearch")

#: Documents per line of a file for Qdrant, and documents that are formatted at a time.
POINTS = 100
BLOCK = 1000

#: What each document of an export has; fields of Qdrant are kept apart.
RESERVED = {
    "pgvector": ("id", "terms"),
    "jsonl": ("id", "terms", "indices", "values"),
    "qdrant": (),
}

#: The table of a file for PostgreSQL.
TABLE = "hdsl_documents"

#: Most non-zeros of a sparsevec of pgvector, and of one in its HNSW index.
SPARSEVEC_LIMIT = 16_000
HNSW_LIMIT = 1_000


# --- rows -----------------------------------------------------------------------------


def sparse_rows(X: Any, names: Any = None) -> list[Any]:
    """Return each row as plain lists of indices and values, or as a dict of terms and weights.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_rows, n_features)
    names : array-like of str of shape (n_features,), default=None
        One term per column, all different.

    Returns
    -------
    list of length n_rows
        Pairs (indices, values) of lists, sorted by index; with `names`, dicts {term:
        weight} in the order of the columns. Zeros are left out. All numbers are plain
        Python numbers, as JSON and the clients of engines take them.

    Examples
    --------
    >>> sparse_rows([[0.0, 2.0, -1.0]])
    [([1, 2], [2.0, -1.0])]
    >>> sparse_rows([[0.0, 2.0, -1.0]], ["cat", "dog", "pet"])
    [{'dog': 2.0, 'pet': -1.0}]
    """
    X = as_sparse(X, "X")
    pairs = [
        (X.indices[a:b].tolist(), X.data[a:b].tolist()) for a, b in pairwise(X.indptr)
    ]
    if names is None:
        return pairs
    terms = [str(name) for name in np.asarray(names, dtype=object).ravel()]
    if len(terms) != X.shape[1]:
        raise ValueError(
            f"There are {len(terms)} names, but X has {X.shape[1]} columns: one name "
            "per column is expected."
        )
    if len(set(terms)) < len(terms):
        twice, _ = Counter(terms).most_common(1)[0]
        raise ValueError(
            f"Two columns are named {twice!r}: weights by name need different names."
        )
    return [
        dict(zip((terms[i] for i in indices), values, strict=True))
        for indices, values in pairs
    ]


def to_sparsevec(X: Any) -> list[str]:
    """Return each row as a text that the type ``sparsevec`` of pgvector reads.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_rows, n_features)

    Returns
    -------
    list of str of length n_rows
        ``{index:value,…}/n_features``, indices from 1, values as float32. Values that
        are 0 in float32 are left out.

    Raises
    ------
    ValueError
        If a row has more than 16,000 non-zeros, or a value is too large for float32:
        pgvector refuses both.

    Warns
    -----
    UserWarning
        If a row has more than 1,000 non-zeros, the most that an HNSW index of pgvector
        holds.

    Examples
    --------
    >>> to_sparsevec([[0.0, 2.0, -0.1]])
    ['{2:2.0,3:-0.1}/3']
    """
    X = as_sparse(X, "X")
    with np.errstate(over="ignore", under="ignore"):
        X = canonical(X.astype(np.float32))
    large = np.flatnonzero(~np.isfinite(X.data))
    if len(large):
        row = int(np.searchsorted(X.indptr, large[0], side="right")) - 1
        raise ValueError(
            f"X[{row}, {X.indices[large[0]]}] is too large for float32, in which "
            "pgvector stores values: scale X to smaller values."
        )
    sizes = np.diff(X.indptr)
    longest = int(sizes.max(initial=0))
    if longest > SPARSEVEC_LIMIT:
        raise ValueError(
            f"Row {int(sizes.argmax())} has {longest:,} non-zeros, but pgvector takes "
            f"at most {SPARSEVEC_LIMIT:,}: keep the largest, as model.rewrite(X, "
            "max_terms=...) does."
        )
    if longest > HNSW_LIMIT:
        warn(
            f"The HNSW index of pgvector refuses rows with more than {HNSW_LIMIT:,} "
            f"non-zeros, which pgvector stores: {int((sizes > HNSW_LIMIT).sum()):,} of "
            f"{X.shape[0]:,}, with up to {longest:,}."
        )
    d = X.shape[1]
    values = X.data.astype(str)  # the shortest text that float32 reads back
    entries = np.char.add(
        np.char.add((X.indices.astype(np.int64) + 1).astype(str), ":"), values
    )
    return [f"{{{','.join(entries[a:b])}}}/{d}" for a, b in pairwise(X.indptr)]


def as_sparse(X: Any, name: str) -> sp.csr_array:
    """Return X as a finite canonical CSR array of floats."""
    return canonical(sp.csr_array(as_rows(X, name)))


# --- files ----------------------------------------------------------------------------


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
    columns = {
        name: [v.item() if isinstance(v, np.number | np.bool_) else v for v in values]
        for name, values in (fields or {}).items()
    }
    for name, values in columns.items():
        if name in RESERVED[to]:
            raise ValueError(
                f"{name!r} is in each document: give the field another name."
            )
        if len(values) != X.shape[0]:
            raise ValueError(
                f"There are {len(values)} values of {name!r} and {X.shape[0]} rows: "
                "one value per row is expected."
            )
    if to == "pgvector":
        yield from _sql(X, columns)
        return
    size = POINTS if to == "qdrant" else BLOCK
    for first in range(0, X.shape[0], size):
        block = X[first : first + size]
        ids = range(first, first + block.shape[0])
        beside = [
            {name: values[one] for name, values in columns.items()} for one in ids
        ]
        if to == "qdrant":
            vectors = [{"terms": _vector(row)} for row in sparse_rows(block)]
            points = [
                {"id": one, "vector": vector, "payload": payload}
                for one, vector, payload in zip(ids, vectors, beside, strict=True)
            ]
            yield _json({"points": points})
        else:
            for one, row, more in zip(
                ids, sparse_rows(block, names), beside, strict=True
            ):
                terms = _vector(row) if names is None else {"terms": row}
                yield _json({"id": one, **more, **terms})


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
    named = to == "jsonl" and names is not None
    row = sparse_rows(query, names if named else None)[0]
    return _json(row if named else _vector(row)).rstrip("\n")


def _vector(row: tuple[list[int], list[float]]) -> dict[str, Any]:
    return {"indices": row[0], "values": row[1]}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False) + "\n"


def _sql(X: Any, fields: dict[str, list[Any]]) -> Iterator[str]:
    kinds = {name: _sql_type(values) for name, values in fields.items()}
    columns = "".join(f"    {_quoted(name)} {kind},\n" for name, kind in kinds.items())
    yield (
        "CREATE EXTENSION IF NOT EXISTS vector;\n"
        f"CREATE TABLE {TABLE} (\n    id bigint PRIMARY KEY,\n{columns}"
        f"    terms sparsevec({X.shape[1]}) NOT NULL\n);\n"
        f"COPY {TABLE} FROM STDIN;\n"
    )
    for first in range(0, X.shape[0], BLOCK):
        for place, row in enumerate(to_sparsevec(X[first : first + BLOCK]), first):
            cells = [
                str(place),
                *(_cell(values[place]) for values in fields.values()),
                row,
            ]
            yield "\t".join(cells) + "\n"
    yield "\\.\n"


def _sql_type(values: list[Any]) -> str:
    """Return the type of a column that holds values of a field; None is no value."""
    values = [value for value in values if value is not None]
    if not values:
        return "text"
    are_flags = [isinstance(value, bool) for value in values]
    if all(are_flags):
        return "boolean"
    if any(are_flags):  # COPY refuses True among numbers
        return "text"
    if all(isinstance(value, int) and abs(value) < 1 << 63 for value in values):
        return "bigint"
    if all(isinstance(value, int | float) for value in values):
        return "double precision"
    return "text"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""').replace("\0", "") + '"'


def _cell(value: Any) -> str:
    """Return a value in the text format of COPY; PostgreSQL stores no zero byte."""
    if value is None:
        return "\\N"
    if not isinstance(value, str):
        return str(value)
    text = value.replace("\0", "").replace("\\", "\\\\")
    return text.replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")


# --- full text ------------------------------------------------------------------------


def expand_query(
    model: Any, text: Any, vectorizer: Any = None, *, n_terms: int | None = 20
) -> list[tuple[str, float]]:
    """Return a text as the terms and weights that a similarity has learned to search for.

    These are the largest entries of prior·q + Mq for the row q of the text.

    Parameters
    ----------
    model : HDSL, or Collection
        A collection, as ``hdsl.load`` returns it for a file of ``hdsl fit``, has its
        own words. Class scores are no terms of a text index and are left out.
    text : str, or what the vectorizer takes
    vectorizer : object with ``transform`` and ``get_feature_names_out``, default=None
        Fitted; it made the rows that an HDSL was learned on.
    n_terms : int or None, default=20
        Most terms, the largest in absolute value. None is all.

    Returns
    -------
    list of (str, float)
        Largest weight first, negative ones last: their terms count against a document.
        The largest absolute weight is 1, which changes no rank.

    Examples
    --------
    >>> from sklearn.feature_extraction.text import CountVectorizer
    >>> from hdsl import HDSL
    >>> vectorizer = CountVectorizer().fit(["car automobile boat"])
    >>> X = vectorizer.transform(["car", "automobile", "boat"])
    >>> model = HDSL(prior=1.0, max_iter=1).fit(X, triplets=[[0, 1, 2]])
    >>> [term for term, weight in expand_query(model, "car", vectorizer)]
    ['car', 'automobile']
    """
    if isinstance(model, Collection):
        row = model.row_of_text(text)
        names = model.feature_names
        query = as_sparse(model.scored.rewrite(row), "query")[:, : row.shape[1]]
    elif vectorizer is None:
        raise ValueError(
            f"{type(model).__name__} takes rows: give the vectorizer that made them "
            "too, or a model that hdsl.load has read from a file of `hdsl fit`."
        )
    else:
        names = vectorizer.get_feature_names_out()
        query = as_sparse(model.rewrite(vectorizer.transform([text])), "query")
    (terms,) = sparse_rows(limit_weights(query, max_terms=n_terms), names)
    largest = max(map(abs, terms.values()), default=1.0)
    pairs = [(term, weight / largest) for term, weight in terms.items()]
    return sorted(pairs, key=lambda pair: -pair[1])


def full_text_query(
    to: str,
    terms: Sequence[tuple[str, float]],
    *,
    table: str = "documents",
    column: str = "body",
    key: str | None = None,
    k: int = 10,
) -> str:
    """Return terms and weights as a query of a full-text engine.

    Parameters
    ----------
    to : {"postgresql", "sqlite", "elasticsearch"}
        A SELECT of keys and scores over a ``tsvector`` or an FTS5 table: the engine's
        score of each term (``ts_rank`` by length, ``bm25``), times its weight, summed.
        Or the JSON body of a search by boosted terms, as OpenSearch takes it too,
        without negative weights.
    terms : sequence of (str, float)
        As `expand_query` returns them. A term of several words is a phrase.
    table : str, default="documents"
        The table of a SELECT.
    column : str, default="body"
        The tsvector, the column of the FTS5 table, or the field.
    key : str, default=None
        The key of the table in a SELECT. None is id, and rowid in SQLite.
    k : int, default=10
        Number of documents.

    Returns
    -------
    str

    Examples
    --------
    >>> print(full_text_query("sqlite", [("python", 1.0), ("o'clock", 0.25)], table="docs"))
    WITH query(term, weight) AS (VALUES ('"python"', 1), ('"o''clock"', 0.25))
    SELECT "docs"."rowid", SUM(-"docs".rank * weight) AS score
    FROM query CROSS JOIN "docs" WHERE "docs"."body" MATCH term
    GROUP BY "docs"."rowid" ORDER BY score DESC LIMIT 10
    """
    check_word("full_text_query", "to", to, TEXT_FORMATS)
    check_number("full_text_query", "k", k, low=1, integer=True)
    is_sql = to != "elasticsearch"
    given = [(term.replace("\0", "").split(), float(weight)) for term, weight in terms]
    if not np.isfinite([weight for _, weight in given]).all():
        raise ValueError("Weights of terms must be finite numbers.")
    given = [
        (words, weight) for words, weight in given if words and (is_sql or weight > 0)
    ]
    if not given:
        raise ValueError(
            f"There is no term to search for: the {len(terms)} given have none."
        )
    if not is_sql:
        should = [_clause(column, words, weight) for words, weight in given]
        return _json({"size": int(k), "query": {"bool": {"should": should}}}).rstrip(
            "\n"
        )
    write = _tsquery if to == "postgresql" else _fts5
    values = ", ".join(f"({write(words)}, {weight:.6g})" for words, weight in given)
    name = _quoted(table)
    at, by = (
        f"{name}.{_quoted(n)}" for n in (column, key or ("id", "rowid")[to == "sqlite"])
    )
    score = f"-{name}.rank"
    where = f"CROSS JOIN {name} WHERE {at} MATCH term"
    if to == "postgresql":
        score = f"ts_rank({at}, term, 1)"
        where = f"JOIN {name} ON {at} @@ term"
    return (
        f"WITH query(term, weight) AS (VALUES {values})\n"
        f"SELECT {by}, SUM({score} * weight) AS score\nFROM query {where}\n"
        f"GROUP BY {by} ORDER BY score DESC LIMIT {k}"
    )


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _fts5(words: list[str]) -> str:
    return _literal(_quoted(" ".join(words)))


def _tsquery(words: list[str]) -> str:
    """Return words, or a phrase, as lexemes that no dictionary changes."""
    lexemes = " <-> ".join(_literal(word.replace("\\", "\\\\")) for word in words)
    return f"{_literal(lexemes)}::tsquery"


def _clause(field: str, words: list[str], boost: float) -> dict[str, Any]:
    if len(words) == 1:
        return {"term": {field: {"value": words[0], "boost": boost}}}
    return {"match_phrase": {field: {"query": " ".join(words), "boost": boost}}}
