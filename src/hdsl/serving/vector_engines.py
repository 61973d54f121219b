"""Files, rows and queries for engines that search sparse vectors, with embeddings beside them."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..input.errors import warn
from ..input.matrices import as_checked_rows, as_rows, canonical, check_embedding_size
from ..input.parameters import check_number, check_word
from ..rows import has_embedding

#: Most non-zeros of a sparsevec of pgvector.
SPARSEVEC_LIMIT = 16_000

#: Most non-zeros of a sparsevec in an HNSW index of pgvector.
HNSW_LIMIT = 1_000

FORMATS = ("pgvector", "qdrant", "jsonl")

#: Documents per line of a file for Qdrant.
POINTS = 100

#: Documents that are formatted at a time.
BLOCK = 1000

#: What exports call the embedding of a document, which a sparse vector stands beside.
MEANING = "meaning"

#: What each document of an export has; fields of Qdrant are kept apart.
RESERVED = {
    "pgvector": ("id", "terms"),
    "jsonl": ("id", "terms", "indices", "values"),
    "qdrant": (),
}

#: The table of a file for PostgreSQL.
TABLE = "hdsl_documents"

#: Documents that each of two vectors brings up, of which the best sums are taken.
CANDIDATES = 1000


def export_rows(
    to: str,
    X: Any,
    *,
    names: Any = None,
    fields: Mapping[str, Sequence[Any]] | None = None,
) -> Iterator[str]:
    """Yield the text of a file for an engine, in pieces.

    Parameters
    ----------
    to : {"pgvector", "qdrant", "jsonl"}
        SQL for ``psql``, with a table ``hdsl_documents``; bodies of Qdrant's "upsert
        points", one per line; or one JSON object per document and line.
    X : array-like, sparse matrix or Rows of shape (n_documents, n_features)
        Rows of the index. The embedding of `hdsl.Rows` is a second vector of each
        document, ``meaning``, with values as float32.
    names : array-like of str of shape (n_features,), default=None
        Terms, for "jsonl": its objects have ``terms``, a dict of weights. Without names
        they have ``indices`` and ``values``.
    fields : mapping of str to sequences of length n_documents, default=None
        Stored with each document: numbers or strings.

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
    vectors = _Vectors.of(X, "X")
    reserved = RESERVED[to]
    if vectors.embedding is not None and reserved:
        reserved = (*reserved, MEANING)
    columns = _checked_fields(fields or {}, vectors.n_rows, reserved)
    documents = _Documents(vectors, columns)
    if to == "pgvector":
        yield from _sql(documents)
    elif to == "qdrant":
        yield from _points(documents)
    else:
        yield from _json_lines(documents, names)


def _checked_fields(
    fields: Mapping[str, Sequence[Any]], n_rows: int, reserved: tuple[str, ...]
) -> dict[str, list[Any]]:
    """Return fields as lists of plain values; raise ValueError if one does not fit."""
    columns = {}
    for name, values in fields.items():
        columns[name] = [_plain(value) for value in values]
        if name in reserved:
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
class _Vectors:
    """Rows as engines store them: a sparse vector each, and an embedding or none.

    Attributes
    ----------
    sparse : csr_array of shape (n_rows, n_features)
    embedding : ndarray of shape (n_rows, width) or None
    """

    sparse: sp.csr_array
    embedding: np.ndarray | None = None

    @classmethod
    def of(cls, X: Any, name: str) -> _Vectors:
        """Return rows or pairs of rows, checked."""
        if not has_embedding(X):
            return cls(as_sparse(X, name))
        rows = as_checked_rows(X, name)
        check_embedding_size(rows.dense)
        return cls(rows.sparse, rows.dense)

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return int(self.sparse.shape[0])

    def take(self, rows: slice) -> _Vectors:
        """Return some of the rows."""
        if self.embedding is None:
            return _Vectors(self.sparse[rows])
        return _Vectors(self.sparse[rows], self.embedding[rows])

    def embeddings(self) -> list[dict[str, list[float]]]:
        """Return for each row its embedding by name; nothing without one."""
        if self.embedding is None:
            return [{} for _ in range(self.n_rows)]
        return [{MEANING: row} for row in dense_rows(self.embedding)]


@dataclass(frozen=True)
class _Documents:
    """Rows of an index, and what is stored beside each.

    Attributes
    ----------
    vectors : _Vectors
    fields : dict of str to list of length n_documents
    """

    vectors: _Vectors
    fields: dict[str, list[Any]]

    def blocks(self, size: int) -> Iterator[tuple[range, _Vectors]]:
        """Yield the numbers and the vectors of a few documents at a time."""
        n = self.vectors.n_rows
        for first in range(0, n, size):
            numbers = range(first, min(first + size, n))
            yield numbers, self.vectors.take(slice(first, numbers.stop))

    def fields_of(self, number: int) -> dict[str, Any]:
        """Return what is stored beside one document."""
        return {name: values[number] for name, values in self.fields.items()}


def export_query(
    to: str,
    query: Any,
    *,
    names: Any = None,
    k: int = 10,
    n_candidates: int = CANDIDATES,
    boosts: Mapping[int, float] | None = None,
) -> str:
    """Return one rewritten query as an engine takes it.

    Parameters
    ----------
    to : {"pgvector", "qdrant", "jsonl"}
    query : array-like, sparse matrix or Rows of shape (1, n_features)
        `hdsl.Rows` for an export of such: the score of a document is the sum of two
        products.
    names : array-like of str of shape (n_features,), default=None
        As in `export_rows`.
    k : int, default=10
        Number of documents that a query of `hdsl.Rows` asks for.
    n_candidates : int, default=1000
        Number of candidates of each of two vectors in Qdrant. The answer is exact if
        the candidates of the embedding are all documents, else approximate.
    boosts : mapping of int to float, default=None
        Added to the scores of documents by their ids, such as the boosts of a
        `hdsl.evaluate.QueryMemory` for the query.

    Returns
    -------
    str
        A ``sparsevec``, or JSON. Of `hdsl.Rows`, or with boosts, it is a SELECT for
        pgvector, which scores all documents, the body of Qdrant's "query points", or
        JSON with ``meaning`` and ``boosts``.

    Examples
    --------
    >>> from hdsl import Rows
    >>> export_query("qdrant", [[0.0, 2.0, -1.0]])
    '{"indices": [1, 2], "values": [2.0, -1.0]}'
    >>> print(export_query("pgvector", Rows([[0.0, 2.0]], [[0.5]])))
    SELECT id, -((terms <#> '{2:2.0}/2'::sparsevec) + (meaning <#> '[0.5]'::vector)) AS score
    FROM hdsl_documents ORDER BY score DESC LIMIT 10
    """
    check_word("export_query", "to", to, FORMATS)
    check_number("export_query", "k", k, low=1, integer=True)
    check_number("export_query", "n_candidates", n_candidates, low=1, integer=True)
    vectors = _Vectors.of(query, "query")
    if vectors.n_rows != 1:
        raise ValueError(f"query must have one row. Got {vectors.n_rows}.")
    boosted = checked_boosts(boosts)
    if vectors.embedding is None and not boosted:
        return _sparse_query(to, vectors.sparse, names)
    if to == "jsonl":
        named = _named(vectors, names)[0]
        if boosted:
            named["boosts"] = {str(row): boost for row, boost in boosted.items()}
        return as_json(named)
    if to == "pgvector":
        return _sum_in_sql(vectors, k, boosted)
    return as_json(_sum_in_qdrant(vectors, k, n_candidates, boosted))


def _sparse_query(to: str, query: sp.csr_array, names: Any) -> str:
    """Return a sparse query as an engine takes it."""
    if to == "pgvector":
        return to_sparsevec(query)[0]
    if to == "jsonl" and names is not None:
        return as_json(sparse_rows(query, names)[0])
    return as_json(_vector(sparse_rows(query)[0]))


def _sum_in_sql(vectors: _Vectors, k: int, boosts: dict[Any, float]) -> str:
    """Return a SELECT of the k documents with the largest sums of products and boosts."""
    products = [f"(terms <#> '{to_sparsevec(vectors.sparse)[0]}'::sparsevec)"]
    if vectors.embedding is not None:
        meaning = to_vector(vectors.embedding)[0]
        products.append(f"({MEANING} <#> '{meaning}'::vector)")
    score = f"-({' + '.join(products)})"
    table = TABLE
    if boosts:
        score += " + COALESCE(boost, 0)"
        table += (
            f"\nLEFT JOIN (VALUES {sql_values(boosts)}) AS remembered(id, boost)"
            " USING (id)\n"
        )
    return f"SELECT id, {score} AS score\nFROM {table} ORDER BY score DESC LIMIT {k}"


def _sum_in_qdrant(
    vectors: _Vectors, k: int, n_candidates: int, boosts: dict[Any, float]
) -> dict[str, Any]:
    """Return a query of the k documents with the largest sums among the candidates of all.

    A document that one vector does not bring up scores 0 there. Documents with a boost
    are among the candidates.
    """
    terms = _vector(sparse_rows(vectors.sparse)[0])
    prefetch = [{"query": terms, "using": "terms", "limit": n_candidates}]
    if vectors.embedding is not None:
        (meaning,) = dense_rows(vectors.embedding)
        prefetch.append({"query": meaning, "using": MEANING, "limit": n_candidates})
    scores = [f"$score[{number}]" for number in range(len(prefetch))]
    addends: list[Any] = [*scores]
    if boosts:
        ids = [*boosts]
        prefetch.append({"filter": {"must": [{"has_id": ids}]}, "limit": len(ids)})
        addends += [
            {"mult": [boost, {"has_id": [document]}]}
            for document, boost in boosts.items()
        ]
    return {
        "prefetch": prefetch,
        "query": {
            "formula": {"sum": addends},
            "defaults": dict.fromkeys(scores, 0.0),
        },
        "limit": k,
    }


def as_json(value: Any) -> str:
    """Return a value as JSON in one line; characters stay as they are."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _vector(row: tuple[list[int], list[float]]) -> dict[str, Any]:
    """Return a row as an object of indices and values."""
    indices, values = row
    return {"indices": indices, "values": values}


def _points(documents: _Documents) -> Iterator[str]:
    """Yield bodies of Qdrant's "upsert points"."""
    for numbers, block in documents.blocks(POINTS):
        points = [
            {
                "id": number,
                "vector": {"terms": _vector(row), **embedding},
                "payload": documents.fields_of(number),
            }
            for number, row, embedding in zip(
                numbers, sparse_rows(block.sparse), block.embeddings(), strict=True
            )
        ]
        yield as_json({"points": points}) + "\n"


def _json_lines(documents: _Documents, names: Any) -> Iterator[str]:
    """Yield one JSON object per document."""
    for numbers, block in documents.blocks(BLOCK):
        for number, vectors in zip(numbers, _named(block, names), strict=True):
            document = {"id": number, **documents.fields_of(number), **vectors}
            yield as_json(document) + "\n"


def _named(vectors: _Vectors, names: Any) -> list[dict[str, Any]]:
    """Return the vectors of each row by name, terms by their names if there are any."""
    named = []
    rows = sparse_rows(vectors.sparse, names)
    for row, embedding in zip(rows, vectors.embeddings(), strict=True):
        terms = {"terms": row}
        if names is None:
            terms = _vector(row)
        named.append({**terms, **embedding})
    return named


def _sql(documents: _Documents) -> Iterator[str]:
    """Yield statements that make the table and fill it."""
    columns = "".join(
        f"    {quoted_name(name)} {_sql_type(values)},\n"
        for name, values in documents.fields.items()
    )
    embedding = documents.vectors.embedding
    meaning = ""
    if embedding is not None:
        meaning = f",\n    {MEANING} vector({embedding.shape[1]}) NOT NULL"
    n_features = documents.vectors.sparse.shape[1]
    yield (
        "CREATE EXTENSION IF NOT EXISTS vector;\n"
        f"CREATE TABLE {TABLE} (\n    id bigint PRIMARY KEY,\n{columns}"
        f"    terms sparsevec({n_features}) NOT NULL{meaning}\n);\n"
        f"COPY {TABLE} FROM STDIN;\n"
    )
    for numbers, block in documents.blocks(BLOCK):
        vectors = [to_sparsevec(block.sparse)]
        if block.embedding is not None:
            vectors.append(to_vector(block.embedding))
        for number, *texts in zip(numbers, *vectors, strict=True):
            cells = map(_cell, documents.fields_of(number).values())
            yield "\t".join([str(number), *cells, *texts]) + "\n"
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


# --- rows as clients of engines take them ---------------------------------------------


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
    rows = [
        (X.indices[begin:end].tolist(), X.data[begin:end].tolist())
        for begin, end in pairwise(X.indptr)
    ]
    if names is None:
        return rows
    terms = _distinct_terms(names, X.shape[1])
    return [
        {terms[i]: value for i, value in zip(indices, values, strict=True)}
        for indices, values in rows
    ]


def _distinct_terms(names: Any, n_features: int) -> list[str]:
    """Return one term per column; raise ValueError unless all are different."""
    terms = [str(name) for name in np.asarray(names, dtype=object).ravel()]
    if len(terms) != n_features:
        raise ValueError(
            f"There are {len(terms)} names, but X has {n_features} columns: one name "
            "per column is expected."
        )
    if len(set(terms)) < len(terms):
        twice, _ = Counter(terms).most_common(1)[0]
        raise ValueError(
            f"Two columns are named {twice!r}: weights by name need different names."
        )
    return terms


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
    X = _as_float32(as_sparse(X, "X"))
    _check_sizes(np.diff(X.indptr))
    indices = (X.indices.astype(np.int64) + 1).astype(str)
    values = X.data.astype(str)  # the shortest text that float32 reads back
    entries = np.char.add(np.char.add(indices, ":"), values)
    return [
        f"{{{','.join(entries[begin:end])}}}/{X.shape[1]}"
        for begin, end in pairwise(X.indptr)
    ]


def dense_rows(Z: np.ndarray) -> list[list[float]]:
    """Return the rows of an embedding as plain lists of numbers with the digits of float32.

    Examples
    --------
    >>> dense_rows(np.array([[0.1, -2.0]], dtype=np.float32))
    [[0.1, -2.0]]
    """
    return [[float(value) for value in row] for row in _digits(Z)]


def to_vector(Z: np.ndarray) -> list[str]:
    """Return the rows of an embedding as texts that the type ``vector`` of pgvector reads.

    Examples
    --------
    >>> to_vector(np.array([[0.1, -2.0]]))
    ['[0.1,-2.0]']
    """
    return [f"[{','.join(row)}]" for row in _digits(Z)]


def _digits(Z: np.ndarray) -> list[list[str]]:
    """Return the shortest texts that float32 reads back."""
    with np.errstate(under="ignore"):
        short = Z.astype(np.float32)
    return short.astype(str).tolist()


def _as_float32(X: sp.csr_array) -> sp.csr_array:
    """Return X as pgvector stores it; raise ValueError if a value is too large."""
    with np.errstate(over="ignore", under="ignore"):
        X = canonical(X.astype(np.float32))
    too_large = np.flatnonzero(~np.isfinite(X.data))
    if len(too_large):
        entry = too_large[0]
        row = int(np.searchsorted(X.indptr, entry, side="right")) - 1
        raise ValueError(
            f"X[{row}, {X.indices[entry]}] is too large for float32, in which "
            "pgvector stores values: scale X to smaller values."
        )
    return X


def _check_sizes(sizes: np.ndarray) -> None:
    """Raise ValueError or warn where rows have too many non-zeros for pgvector."""
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
            f"{len(sizes):,}, with up to {longest:,}."
        )


def as_sparse(X: Any, name: str) -> sp.csr_array:
    """Return X as a finite canonical CSR array of floats."""
    return canonical(sp.csr_array(as_rows(X, name)))


# --- SQL ------------------------------------------------------------------------------


def quoted_name(name: str) -> str:
    """Return the name of a table or a column, whatever characters it has.

    Examples
    --------
    >>> print(quoted_name('5" disks'))
    "5"" disks"
    """
    return '"' + name.replace('"', '""').replace("\0", "") + '"'


def quoted_text(text: str) -> str:
    """Return a text as a string.

    Examples
    --------
    >>> print(quoted_text("o'clock"))
    'o''clock'
    """
    return "'" + text.replace("'", "''") + "'"


def checked_boosts(boosts: Mapping[Any, float] | None) -> dict[Any, float]:
    """Return boosts of documents as floats; raise ValueError unless all are finite and >= 0.

    Those of 0 are left out.
    """
    checked = {}
    for document, boost in (boosts or {}).items():
        value = float(boost)
        if not (math.isfinite(value) and value >= 0.0):
            raise ValueError(
                f"boosts[{document!r}] is {boost!r}: a finite number >= 0 is expected."
            )
        if value > 0.0:
            checked[document] = value
    return checked


def sql_values(boosts: Mapping[Any, float]) -> str:
    """Return boosts of documents as rows of VALUES.

    Examples
    --------
    >>> sql_values({7: 0.5, "o'clock": 0.25})
    "(7, 0.5), ('o''clock', 0.25)"
    """
    rows = []
    for document, boost in checked_boosts(boosts).items():
        name = quoted_text(str(document).replace("\0", ""))
        if isinstance(document, Integral):
            name = str(int(document))
        rows.append(f"({name}, {boost:.6g})")
    return ", ".join(rows)
