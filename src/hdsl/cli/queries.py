"""Queries that are no rows of the data, and the judgements or clicks that name them."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from .. import readers
from ..readers import tables
from ..relevance import Relevance, read_relevance
from .data import Data
from .files import is_table
from .judgements import read_clicks
from .messages import say
from .wording import counted

#: Columns of a file of TREC's qrels, which has no header.
QRELS = ("query", "iteration", "document", "grade")


def names_queries(kind: str, path: Path, source: Namespace) -> bool:
    """Return whether the anchors of a file of judgements are queries, and no rows."""
    if kind == "judgements":
        return True
    if kind != "clicks":
        return False
    return source.queries is not None or "query" in tables.column_names(path)


def with_queries(
    data: Data, queries: Data | None, kind: str, path: Path, max_unknown: float
) -> Data:
    """Return the data with queries and what a file says of them.

    Without `queries` the file has their texts.
    """
    if kind == "judgements":
        return _with_relevance(data, queries, path, max_unknown)
    return _with_clicks(data, queries, path, max_unknown)


def _with_relevance(
    data: Data, queries: Data | None, path: Path, max_unknown: float
) -> Data:
    """Return the data with queries and the grades of rows for them."""
    table: Any = path
    if not is_table(path):
        table = _read_qrels(path)
    if queries is None:
        queries = _typed_queries(table, path, data)
    grade = None
    if "grade" in tables.column_names(table):
        grade = "grade"
    relevance = read_relevance(
        table,
        grade=grade,
        query_ids=_names(queries, table),
        document_ids=_names(data, table),
        max_unknown=_largest_unknown(data, max_unknown),
    )
    return _of_judged_queries(replace(data, queries=queries, relevance=relevance))


def _with_clicks(
    data: Data, queries: Data | None, path: Path, max_unknown: float
) -> Data:
    """Return the data with queries, the triplets of clicks, and rows that were clicked."""
    if queries is None:
        queries = _typed_queries(path, path, data)
    clicks = read_clicks(
        path,
        ids=_names(data, path),
        queries=_names(queries, path),
        max_unknown=_largest_unknown(data, max_unknown),
    )
    clicked = np.unique(clicks.triplets[:, :2], axis=0)
    relevance = Relevance(
        queries=clicked[:, 0] - data.n_rows,
        documents=clicked[:, 1],
        grades=np.ones(len(clicked)),
    )
    with_clicks = replace(
        data,
        queries=queries,
        relevance=relevance,
        judgements=clicks,
    )
    return _of_judged_queries(with_clicks)


def _largest_unknown(data: Data, max_unknown: float) -> float:
    """Return the share of lines that may name unknown rows: none where rows have no ids."""
    if data.ids is None:
        return 0.0
    return max_unknown


def _names(data: Data, table: Any) -> Any:
    """Return the ids of rows or queries, their numbers without ids, as the table has them."""
    ids = data.ids
    if ids is None:
        ids = np.arange(data.n_rows)
    if isinstance(table, dict):  # its values are text
        return [str(value) for value in ids.tolist()]
    return ids


def _typed_queries(table: Any, path: Path, data: Data) -> Data:
    """Return the texts in the column of queries, which are named by their texts."""
    if data.texts is None:
        raise ValueError(
            f"The queries of {path} are texts, but {data.path} has rows of numbers: "
            "name their rows with --queries."
        )
    values = tables.read_table(table, {"query": "query"}).columns["query"]
    names = np.array(list(dict.fromkeys(values.tolist())), dtype=object)
    texts = np.array([str(name) for name in names], dtype=object)
    return Data(path, texts=texts, ids=names)


def _of_judged_queries(data: Data) -> Data:
    """Return the data without the queries that have no relevant row."""
    queries = data.queries
    relevance = data.relevance
    assert queries is not None
    assert relevance is not None
    is_judged = np.zeros(queries.n_rows, dtype=bool)
    is_judged[relevance.queries[relevance.grades > 0]] = True
    n_judged = int(is_judged.sum())
    if n_judged < 2:
        raise ValueError(
            f"{counted(n_judged, 'query', 'queries')} of {queries.path} "
            "has a relevant row: at least 2 are needed."
        )
    if n_judged == queries.n_rows:
        return data
    n_others = queries.n_rows - n_judged
    say(
        f"{counted(n_others, 'query', 'queries')} of {queries.n_rows:,} without a "
        "relevant row left out."
    )
    number = np.cumsum(is_judged) - 1
    judgements = data.judgements
    if judgements is not None:
        is_row = np.concatenate([np.ones(data.n_rows, dtype=bool), is_judged])
        judgements = judgements.of_rows(is_row)
    kept = relevance.of_queries(is_judged)
    return replace(
        data,
        queries=_only(queries, is_judged),
        relevance=kept._replace(queries=number[kept.queries]),
        judgements=judgements,
    )


def _only(queries: Data, is_kept: np.ndarray) -> Data:
    """Return some of the queries; those without ids keep their numbers as ids."""
    ids = queries.ids
    if ids is None:
        ids = np.arange(queries.n_rows)
    if queries.texts is None:
        return replace(queries, X=queries.X[is_kept], ids=ids[is_kept])
    return replace(queries, texts=queries.texts[is_kept], ids=ids[is_kept])


def _read_qrels(path: Path) -> dict[str, list[Any]]:
    """Return the columns of a file as TREC has it: query, iteration, document, grade."""
    _, text = readers.files.read_text(path)
    columns: dict[str, list[Any]] = {name: [] for name in QRELS}
    for number, line in enumerate(text.decode().splitlines(), 1):
        fields = line.split()
        if not fields:
            continue
        if len(fields) != len(QRELS) or not _is_number(fields[-1]):
            raise ValueError(
                f"{path}, line {number} is no line of TREC's qrels, which have 4 "
                f"fields, {', '.join(QRELS)}. Tables end in .csv, .tsv, .jsonl or "
                ".parquet."
            )
        for name, field in zip(QRELS, fields, strict=True):
            columns[name].append(field)
    columns["grade"] = [float(grade) for grade in columns["grade"]]
    return columns


def _is_number(text: str) -> bool:
    """Return whether a text is a finite number."""
    if "_" in text:  # Python reads 1_0 as 10
        return False
    try:
        return np.isfinite(float(text))
    except ValueError:
        return False
