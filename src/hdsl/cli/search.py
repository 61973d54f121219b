"""``hdsl search``: the documents most similar to a query, and why."""

from argparse import Namespace
from typing import Any

from . import shared_options
from .hits import show_answer
from .messages import say
from .options import OptionGroup, add_command
from .output import show, show_json
from .wording import one_line


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = add_command(commands, search)
    shared_options.add_model(parser)
    parser.add_argument("query", metavar="WORDS", nargs="*", help="words to search for")
    options = OptionGroup(parser, "search")
    about_row = (
        "A document in the model, by its id, or its number from 0; or a query of the "
        "fit, by its id, as query:ID where a document has it too."
    )
    options.add_text("--row", about_row, metavar="ROW")
    shared_options.add_encoder(options, shared_options.ENCODER_NOW)
    options.add_path("--queries", "File of queries, one text per line.", metavar="FILE")
    options.add_integer("-k", "Neighbours to show.", 5, dest="n_neighbors")
    about_plain = (
        "Order by the plain cosine: to find one particular document, which the learned "
        "cosine may put behind others of its kind."
    )
    options.add_flag("--plain", about_plain)
    options.add_flag("--no-memory", shared_options.NO_MEMORY)
    about_expand = (
        "Show the terms that the query is searched by, with their weights, for an engine "
        "that has the documents. `hdsl export --query` writes them as its query."
    )
    options.add_flag("--expand", about_expand)
    options.add_integer("--why", "Reasons to show per neighbour.", 4)
    shared_options.add_json(options)


def search(arguments: Namespace) -> None:
    """Find the documents most similar to a query, and why.

    Each has its learned cosine, its rank by plain cosine, and the parts that the
    learned cosine is the sum of. "a ~ b" is a pair: a is in one text and b in the
    other. A single word is in both. Words that the model does not know are named: the
    score rests on the others. All documents are compared.

    For example:

      hdsl search model.hdsl "open a connection"

      hdsl search model.hdsl --row 17 -k 10

      hdsl search model.hdsl "the exact words of one document" --plain

      hdsl search model.hdsl --queries queries.txt --json

      hdsl search model.hdsl "open a connection" --expand
    """
    _check_options(arguments)
    from . import models

    texts = _read_queries(arguments)
    collection = models.load_collection(arguments.model, arguments.encoder)
    collection.uses_memory = not arguments.no_memory
    if arguments.expand:
        _show_expansions(collection, texts, arguments)
        return
    if not arguments.plain and collection.documents.facts.get("verdict") == "worse":
        say(
            "warning: on rows held out, this model makes more errors than the cosine: "
            "--plain orders by the cosine."
        )
    if arguments.row is not None:
        answers = [_answer_of_row(collection, arguments)]
    else:
        answers = _answers_of_texts(collection, texts, arguments)
    has_queries = arguments.queries is not None
    if arguments.as_json:
        show_json(answers if has_queries else answers[0])
    elif has_queries:
        for answer in answers:
            show(one_line(answer["query"]))
            show_answer(answer)
            show("")
    else:
        show_answer(answers[0])


def _show_expansions(collection: Any, texts: list[str], arguments: Namespace) -> None:
    """Print the terms that each query is searched by."""
    from .expansion import expanded, show_expansion

    expansions = [expanded(collection, text) for text in texts]
    has_queries = arguments.queries is not None
    if arguments.as_json:
        show_json(expansions if has_queries else expansions[0])
        return
    for expansion in expansions:
        if has_queries:
            show(one_line(expansion["query"]))
        show_expansion(expansion)


def _check_options(arguments: Namespace) -> None:
    """Raise ValueError unless there is one kind of query, and the numbers are in range."""
    kinds = [
        arguments.row is not None,
        arguments.queries is not None,
        bool(arguments.query),
    ]
    if sum(kinds) != 1:
        raise ValueError(
            "Give words to search for, a document with --row, or a file with "
            "--queries, and one of them only."
        )
    if arguments.expand and (arguments.row is not None or arguments.plain):
        raise ValueError(
            "--expand shows the learned terms of a typed query: leave out --row and "
            "--plain."
        )
    if arguments.n_neighbors < 1 or arguments.why < 0:
        raise ValueError(
            "-k must be 1 or more and --why 0 or more. Got "
            f"{arguments.n_neighbors} and {arguments.why}."
        )


def _read_queries(arguments: Namespace) -> list[str]:
    """Return the texts to search for."""
    if arguments.queries is None:
        return [" ".join(arguments.query)]
    from .files import read_lines

    return read_lines(arguments.queries)


def _answer_of_row(collection: Any, arguments: Namespace) -> dict[str, Any]:
    """Return the neighbours of a document in the model."""
    hits = collection.search(
        None,
        arguments.n_neighbors,
        why=arguments.why,
        row=arguments.row,
        plain=arguments.plain,
    )
    order = _order(arguments)
    return {"query": arguments.row, "order": order, "neighbours": hits}


def _order(arguments: Namespace) -> str:
    """Return what documents are ordered by."""
    return "cosine" if arguments.plain else "learned"


def _answers_of_texts(
    collection: Any, texts: list[str], arguments: Namespace
) -> list[dict[str, Any]]:
    """Return the neighbours of each text, and what the model knows of its words."""
    if arguments.queries is None:
        collection.row_of_text(texts[0])  # an error where no word is known
    k = arguments.n_neighbors
    neighbors = collection.search_rows(
        collection.rows_of(texts),
        k,
        why=arguments.why,
        first_by_cosine=True,
        plain=arguments.plain,
    )
    answers = []
    for text, hits in zip(texts, neighbors, strict=True):
        first = next((hit for hit in hits if hit["rank by cosine"] == 1), None)
        answers.append(
            {
                "query": text,
                "order": _order(arguments),
                "unknown words": collection.unknown_words(text),
                "known share": collection.known_share(text),
                "neighbours": hits[:k],
                "first by cosine": first,
            }
        )
    return answers
