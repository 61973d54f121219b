"""``hdsl export``: the documents of a model, or a query, for a search engine."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

from . import shared_options
from .output import say, show
from .shared_options import OptionGroup, add_command

#: Endings of the files that each engine loads.
SUFFIXES = {"pgvector": ".sql", "qdrant": ".qdrant.jsonl", "jsonl": ".terms.jsonl"}

#: Engines that hold the documents already and take a full-text query: those of
#: `hdsl.serving`, written out since help loads no NumPy.
FULL_TEXT = ("postgresql", "sqlite", "elasticsearch")


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = add_command(commands, export)
    shared_options.add_model(parser)
    options = OptionGroup(parser, "export")
    about_engines = (
        "pgvector: SQL for psql; qdrant: bodies of upserts; jsonl: words and weights. "
        "With --query also postgresql, sqlite (FTS5) and elasticsearch: a full-text "
        "query with learned terms."
    )
    options.add_choice("--to", about_engines, (*SUFFIXES, *FULL_TEXT), required=True)
    about_output = "File. Default: the model's name with another ending."
    options.add_path("-o --output", about_output)
    about_query = "Print this text as a query for the engine instead."
    options.add_text("--query", about_query, metavar="TEXT")
    about_best = (
        "The score of the first document in this engine for such a query: with it, "
        "--query of postgresql, sqlite and elasticsearch adds the memory of judged "
        "queries, in this scale."
    )
    options.add_number("--best-score", about_best)
    options.add_flag("--no-memory", shared_options.NO_MEMORY)
    about_cosine = (
        "Divide each document by its learned length, so that dot products are the "
        "learned cosine. Otherwise they are the similarity, and a new model needs no "
        "new index. Default: as `hdsl search` ranks, which `fit` has measured."
    )
    options.add_switch("--cosine", about_cosine)
    shared_options.add_encoder(options, shared_options.ENCODER_NOW)


def export(arguments: Namespace) -> None:
    """Write the documents of a model as a file that a search engine loads, or one query.

    The dot product of a query with a document is what `hdsl search` ranks by. As a rule
    this is the learned cosine: documents are divided by their learned lengths, and
    nothing is left to divide by. With --no-cosine it is the similarity, and the length
    stands beside each document. Each has its place
    as id, its own id as name where the model has ids, label and text.

    A model with an embedding has two vectors per document, terms and meaning, and a
    query adds two products. For Qdrant it does so for the 1,000 best of each.

    For example:

      hdsl export model.hdsl --to pgvector -o index.sql

      hdsl export model.hdsl --to pgvector --query "open a socket"

      hdsl export model.hdsl --to postgresql --query "open a socket"
    """
    from . import files

    engine = arguments.to
    query = arguments.query
    if query is not None:
        if arguments.output is not None:
            raise ValueError(
                "--query prints the query: leave out -o, or end with > FILE."
            )
        collection = files.load_collection(arguments.model, arguments.encoder)
        collection.uses_memory = not arguments.no_memory
        files.name_unknown_words(collection, query)
        _name_what_is_left_out(collection, engine)
        is_cosine = _is_cosine(collection, arguments)
        show(_query(collection, engine, query, is_cosine, arguments.best_score))
        return
    if engine in FULL_TEXT:
        raise ValueError(
            f"{engine} has the documents already: give a text with --query."
        )
    output = arguments.output or arguments.model.with_suffix(SUFFIXES[engine])
    files.check_output_of_model(output, arguments.model)
    collection = files.load_collection(arguments.model, arguments.encoder)
    _write_documents(collection, engine, output, _is_cosine(collection, arguments))


def _is_cosine(collection: Any, arguments: Namespace) -> bool:
    """Return whether dot products are the learned cosine: as asked for, or as measured."""
    if arguments.cosine is not None:
        return bool(arguments.cosine)
    return bool(collection.scored.ranking == "cosine")


def _name_what_is_left_out(collection: Any, engine: str) -> None:
    """Say what a text index does not see: class scores, and an embedding.

    Raise ValueError where it sees nothing: it has words, and no n-grams of characters.
    """
    if engine not in FULL_TEXT:
        return
    if collection.words is not None and collection.words.unit == "characters":
        raise ValueError(
            f"{engine} searches by words, but the model reads texts as n-grams of "
            "characters: fit with --tokens words, or export with --to pgvector."
        )
    left_out = []
    if collection.scored.n_scores:
        left_out.append("the learned part of the class scores")
    if _compares_embeddings(collection):
        left_out.append("the embedding")
    if left_out:
        say(
            f"{engine} searches by words and leaves out {' and '.join(left_out)}: "
            "documents come in another order than `hdsl search` has. `--to pgvector` "
            "keeps all."
        )


def _compares_embeddings(collection: Any) -> bool:
    """Return whether the similarity has an embedding, weighted or learned inside."""
    similarity = collection.scored.similarity
    return bool(similarity.embedding_weight or similarity.has_directions)


def _exported(collection: Any, rows: Any) -> Any:
    """Return rewritten rows or documents; an embedding of weight 0 is left out."""
    from ..rows import sparse_block

    if _compares_embeddings(collection):
        return rows
    return sparse_block(rows)


def _query(
    collection: Any,
    engine: str,
    text: str,
    is_cosine: bool,
    best_score: float | None = None,
) -> str:
    """Return a text as a query of an engine, with what is remembered of judged queries."""
    from ..serving import expand_query, export_query, full_text_query

    boosts = collection.boosts(text)
    if engine in FULL_TEXT:
        terms = expand_query(collection, text)
        scaled = {}
        if boosts and best_score is None:
            say(
                "the memory of judged queries is left out: --best-score gives the "
                "scale to add it in."
            )
        elif boosts:
            scaled = _by_id(collection, collection.boosts(text, best_score=best_score))
        return full_text_query(engine, terms, boosts=scaled)
    row = _rewriter(collection, is_cosine).rewrite(collection.row_of_text(text))
    names = collection.scored.names(collection.feature_names)
    exported = _exported(collection, row)
    return export_query(engine, exported, names=names, boosts=boosts)


def _by_id(collection: Any, boosts: dict[int, float]) -> dict[Any, float]:
    """Return boosts by the ids of documents, by their numbers where they have no ids."""
    ids = collection.documents.ids
    if ids is None:
        return boosts
    return {ids[row]: boost for row, boost in boosts.items()}


def _rewriter(collection: Any, is_cosine: bool) -> Any:
    """Return what rewrites queries and documents: by cosine, or the similarity itself."""
    if not is_cosine:
        return collection.scored
    from ..similarity.cosine import LearnedCosine

    return LearnedCosine(collection.scored)


def _write_documents(
    collection: Any, engine: str, output: Path, is_cosine: bool
) -> None:
    """Write the documents of a model as a file that an engine loads."""
    from ..files.atomic import atomic_write
    from ..memory import format_bytes
    from ..serving import export_rows

    documents = collection.documents
    if documents.X is None:
        raise ValueError(
            "The model has no documents: fit it again without --no-documents."
        )
    rows = _rewriter(collection, is_cosine).index_rows(documents.X)
    chunks = export_rows(
        engine,
        _exported(collection, rows),
        names=collection.scored.names(collection.feature_names),
        fields=_fields(collection, is_cosine),
    )
    with atomic_write(output, "the export") as file:
        for chunk in chunks:
            file.write(chunk.encode("utf-8", "replace"))
    size = format_bytes(output.stat().st_size)
    show(f"{output}: {documents.n_rows:,} documents, {size}.")


def _fields(collection: Any, is_cosine: bool) -> dict[str, list[Any]]:
    """Return what is written beside the rows: names, labels and texts if known.

    Lengths are for rows that are not divided by them.
    """
    documents = collection.documents
    fields = {
        "name": documents.ids,
        "label": documents.labels,
        "text": documents.texts,
    }
    if not is_cosine:
        from ..similarity.cosine import LearnedCosine

        lengths = LearnedCosine(collection.scored).lengths(documents.X)
        fields = {"length": lengths, **fields}
    return {
        name: values.tolist() for name, values in fields.items() if values is not None
    }
