"""The command ``hdsl export``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..files.atomic import atomic_write
from ..memory import format_bytes
from .options import Model, command, option
from .shell import show

#: Endings of the files that each engine loads.
SUFFIXES = {"pgvector": (".sql",), "qdrant": (".jsonl",), "jsonl": (".jsonl",)}


@command()
def export(
    model: Model,
    to: Annotated[
        str, option("pgvector: SQL for psql; qdrant: bodies of upserts; jsonl: words and weights.")
    ],
    output: Annotated[
        Path | None,
        option("File to write. Default: the model's name with another ending.", "-o", "--output"),
    ] = None,
    query: Annotated[
        str | None, option("Print this text as a query for the engine instead.", "--query")
    ] = None,
    cosine: Annotated[
        bool,
        typer.Option(
            help="Divide each document by its learned length, so that dot products are the learned "
            "cosine. Otherwise they are the similarity, and a new model needs no new index."
        ),
    ] = True,
) -> None:
    """Write the documents of a model as a file that a search engine loads, or one query.

    The dot product of a query with a document is the learned cosine. Each document has its row
    number as id, its own id as name where the model has ids, label, text and learned length.

    For example:

      hdsl export model.hdsl --to pgvector -o index.sql

      hdsl export model.hdsl --to pgvector --query "open a socket"
    """
    from ..checks import check_word
    from ..serving import export_query, export_rows
    from ..serving.export import FORMATS
    from . import documents, inputs

    check_word("hdsl export", "to", to, FORMATS)
    learned, collection = documents.load_all(model)
    names = learned.feature_names(collection.feature_names)
    if query is not None:
        x = learned.rows(documents.row_of(collection, query, "the query"))
        show(export_query(to, learned.model.rewrite(x, cosine=cosine), names=names))
        return
    X = documents.rows_of_all(collection)
    output = output or model.with_suffix(SUFFIXES[to][0])
    inputs.check_output(output, SUFFIXES[to])
    rows = learned.rows(X)
    fields: dict[str, Any] = {"length": learned.model.lengths(rows).tolist()}
    named = {"name": collection.ids, "label": collection.labels, "text": collection.texts}
    fields |= {name: values.tolist() for name, values in named.items() if values is not None}
    pieces = export_rows(
        to, learned.model.index_rows(rows, cosine=cosine), names=names, fields=fields
    )
    with atomic_write(output, "the export") as file:
        for piece in pieces:
            file.write(piece.encode("utf-8", "replace"))
    show(f"{output}: {collection.n_rows:,} documents, {format_bytes(output.stat().st_size)}.")
