"""Queries for full-text engines: terms with weights, and what says them to an engine."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..input.parameters import check_number, check_word
from ..rows import Rows, sparse_block
from ..similarity.limits import limit_weights
from ..text import Collection
from .vector_engines import (
    as_json,
    as_sparse,
    checked_boosts,
    quoted_name,
    quoted_text,
    sparse_rows,
    sql_values,
)

TEXT_FORMATS = ("postgresql", "sqlite", "elasticsearch")


def expand_query(
    model: Any, text: Any, vectorizer: Any = None, *, n_terms: int | None = 20
) -> list[tuple[str, float]]:
    """Return a text as the terms and weights that a similarity has learned to search for.

    These are the largest entries of the rewritten row q of the text: of weight·q for each
    fixed part, such as the prior, plus Mq.

    Parameters
    ----------
    model : HDSL, or Collection
        A collection, as ``hdsl.load`` returns it for a file of ``hdsl fit``, has its
        own words. Class scores and an embedding are not terms of a text index and are
        left out.
    text : str, or what the vectorizer takes
    vectorizer : object with ``transform`` and ``get_feature_names_out``, default=None
        The fitted vectorizer of the training rows of an HDSL.
    n_terms : int or None, default=20
        Maximum number of terms, the largest in absolute value. None is all.

    Returns
    -------
    list of (str, float)
        Largest weight first, negative ones last: their terms count against a document.
        The largest absolute weight is 1, which changes no rank.

    Examples
    --------
    >>> from sklearn.feature_extraction.text import CountVectorizer
    >>> from hdsl import HDSL, Solver
    >>> vectorizer = CountVectorizer().fit(["car automobile boat"])
    >>> X = vectorizer.transform(["car", "automobile", "boat"])
    >>> model = HDSL(prior=1.0, solver=Solver(max_iter=1)).fit(X, triplets=[[0, 1, 2]])
    >>> [term for term, weight in expand_query(model, "car", vectorizer)]
    ['car', 'automobile']
    """
    if isinstance(model, Collection):
        query = _rewritten_text(model, text)
        names = model.feature_names
    elif vectorizer is None:
        raise ValueError(
            f"{type(model).__name__} takes rows: give the vectorizer that made them "
            "too, or a model that hdsl.load has read from a file of `hdsl fit`."
        )
    else:
        row = vectorizer.transform([text])
        query = as_sparse(_rewritten_words(model, row), "query")
        names = vectorizer.get_feature_names_out()
    (weights,) = sparse_rows(limit_weights(query, max_terms=n_terms), names)
    largest = max(map(abs, weights.values()), default=1.0)
    terms = [(term, weight / largest) for term, weight in weights.items()]
    return sorted(terms, key=lambda term: -term[1])


def _rewritten_text(collection: Collection, text: str) -> sp.csr_array:
    """Return a text as a rewritten row, without class scores."""
    row = collection.row_of_text(text)
    query = as_sparse(sparse_block(collection.scored.rewrite(row)), "query")
    return query[:, : sparse_block(row).shape[1]]


def _rewritten_words(model: Any, row: Any) -> Any:
    """Return a row of words as a model rewrites it, without an embedding."""
    width = getattr(model, "embedding_width_", 0)
    if not width:
        return model.rewrite(row)
    return model.rewrite(Rows(row, np.zeros((1, width)))).sparse


def full_text_query(
    to: str,
    terms: Sequence[tuple[str, float]],
    *,
    table: str = "documents",
    column: str = "body",
    key: str | None = None,
    k: int = 10,
    boosts: Mapping[Any, float] | None = None,
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
    boosts : mapping of ids to float, default=None
        Added to the scores of documents by their keys, in the scale of the engine's
        scores, such as the boosts of a `hdsl.evaluate.QueryMemory`. For Elasticsearch
        the ids are those of the index, ``_id``.

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
    queried = _terms_to_search(terms, takes_negative=to != "elasticsearch")
    if to == "elasticsearch":
        should = [_clause(column, term) for term in queried]
        should += [_boost(ids, value) for value, ids in _by_value(boosts).items()]
        return as_json({"size": int(k), "query": {"bool": {"should": should}}})
    if to == "postgresql":
        return _postgresql_query(queried, table, column, key or "id", k, boosts)
    return _sqlite_query(queried, table, column, key or "rowid", k, boosts)


class _Term(NamedTuple):
    """The words of a term, a phrase if they are several, and its weight."""

    words: list[str]
    weight: float


def _terms_to_search(
    terms: Sequence[tuple[str, float]], *, takes_negative: bool
) -> list[_Term]:
    """Return the terms that an engine can search for; ValueError if there is none."""
    queried = [
        _Term(text.replace("\0", "").split(), float(weight)) for text, weight in terms
    ]
    if not np.isfinite([term.weight for term in queried]).all():
        raise ValueError("Weights of terms must be finite numbers.")
    queried = [term for term in queried if term.words]
    if not takes_negative:
        queried = [term for term in queried if term.weight > 0]
    if not queried:
        raise ValueError(
            f"There is no term to search for: none of the {len(terms)} can be used."
        )
    return queried


# --- PostgreSQL and SQLite ------------------------------------------------------------


def _postgresql_query(
    terms: list[_Term],
    table: str,
    column: str,
    key: str,
    k: int,
    boosts: Mapping[Any, float] | None,
) -> str:
    """Return a SELECT over a tsvector."""
    values = [f"({_tsquery(term.words)}, {term.weight:.6g})" for term in terms]
    table = quoted_name(table)
    vector = f"{table}.{quoted_name(column)}"
    return _select(
        values,
        key=f"{table}.{quoted_name(key)}",
        score=f"ts_rank({vector}, term, 1)",
        source=f"JOIN {table} ON {vector} @@ term",
        k=k,
        boosts=boosts,
    )


def _sqlite_query(
    terms: list[_Term],
    table: str,
    column: str,
    key: str,
    k: int,
    boosts: Mapping[Any, float] | None,
) -> str:
    """Return a SELECT over an FTS5 table."""
    values = [f"({_fts5(term.words)}, {term.weight:.6g})" for term in terms]
    table = quoted_name(table)
    return _select(
        values,
        key=f"{table}.{quoted_name(key)}",
        score=f"-{table}.rank",
        source=f"CROSS JOIN {table} WHERE {table}.{quoted_name(column)} MATCH term",
        k=k,
        boosts=boosts,
    )


def _select(
    values: list[str],
    *,
    key: str,
    score: str,
    source: str,
    k: int,
    boosts: Mapping[Any, float] | None,
) -> str:
    """Return a SELECT of the keys with the largest sums of score times weight."""
    if boosts:
        boosted = sql_values(boosts)
        return (
            f"WITH query(term, weight) AS (VALUES {', '.join(values)}),\n"
            f"boost(document, score) AS (VALUES {boosted})\n"
            f"SELECT document, SUM(score) AS score FROM (\n"
            f"SELECT {key} AS document, {score} * weight AS score FROM query {source}\n"
            f"UNION ALL SELECT document, score FROM boost) AS scored\n"
            f"GROUP BY document ORDER BY score DESC LIMIT {k}"
        )
    return (
        f"WITH query(term, weight) AS (VALUES {', '.join(values)})\n"
        f"SELECT {key}, SUM({score} * weight) AS score\nFROM query {source}\n"
        f"GROUP BY {key} ORDER BY score DESC LIMIT {k}"
    )


def _fts5(words: list[str]) -> str:
    """Return words as a phrase of FTS5."""
    return quoted_text(quoted_name(" ".join(words)))


def _tsquery(words: list[str]) -> str:
    """Return words, or a phrase, as lexemes that no dictionary changes."""
    lexemes = " <-> ".join(quoted_text(word.replace("\\", "\\\\")) for word in words)
    return f"{quoted_text(lexemes)}::tsquery"


# --- Elasticsearch --------------------------------------------------------------------


def _boost(ids: list[Any], boost: float) -> dict[str, Any]:
    """Return a clause that adds the same number to the score of some documents."""
    names = [str(document) for document in ids]
    return {"constant_score": {"filter": {"terms": {"_id": names}}, "boost": boost}}


def _by_value(boosts: Mapping[Any, float] | None) -> dict[float, list[Any]]:
    """Return the documents of each boost, the largest first."""
    groups: dict[float, list[Any]] = {}
    for document, boost in checked_boosts(boosts).items():
        groups.setdefault(boost, []).append(document)
    return dict(sorted(groups.items(), reverse=True))


def _clause(field: str, term: _Term) -> dict[str, Any]:
    """Return a search for one term, boosted by its weight."""
    if len(term.words) == 1:
        query = {"value": term.words[0], "boost": term.weight}
        return {"term": {field: query}}
    query = {"query": " ".join(term.words), "boost": term.weight}
    return {"match_phrase": {field: query}}
