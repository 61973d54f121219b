"""``hdsl forget``: delete a judgement from what a model remembers, or a pair that was learned."""

from argparse import Namespace
from typing import Any

from . import shared_options
from .output import show
from .shared_options import OptionGroup, add_command


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = add_command(commands, forget)
    shared_options.add_model(parser)
    options = OptionGroup(parser, "a judgement")
    about_query = "The known query: its text or its id, as `hdsl search` shows it."
    options.add_text("--query", about_query)
    about_document = "The document, by id or number. Default: all of the query."
    options.add_text("--document", about_document)
    options = OptionGroup(parser, "or what was learned of pairs of words")
    about_pair = "A pair, as reasons and reports show it: 'cat ~ dog'. May be repeated."
    options.add_texts("--pair", about_pair, metavar="PAIR")
    about_pairs = "Table with a column pair, or with two columns of words."
    options.add_path("--pairs", about_pairs, metavar="FILE")
    options = OptionGroup(parser, "output")
    about_output = "File of the model that is written. Default: the model itself."
    options.add_path("-o --output", about_output)


def forget(arguments: Namespace) -> None:
    """Forget a judgement of a known query, or what was learned of a pair of words.

    A pair counts no more, and the rest of the model stays as it is; `hdsl fit --forbid`
    learns the rest again. A judgement is no more remembered, and the similarity that was
    learned stays; `hdsl fit` without the judgement learns it again.

    For example:

      hdsl forget model.hdsl --query "open a socket" --document 17

      hdsl forget model.hdsl --pair "socket ~ bread" -o edited.hdsl
    """
    from ..saving import save
    from . import files

    pairs = _pairs(arguments)
    output = arguments.output or arguments.model
    files.check_model_output(output)
    collection = files.load_collection(arguments.model)
    if pairs:
        edited = collection.without(pairs)
        lines = _lines_of_pairs(collection, edited)
        collection = edited
    else:
        collection.forget(arguments.query, arguments.document)
        memory = collection.learned.memory_
        lines = [
            f"{len(memory.relevance.queries):,} judgements of {memory.n_queries:,} known "
            "queries are left."
        ]
    has_documents = collection.documents.X is not None or collection.words is not None
    save(collection if has_documents else collection.model, output)
    show(f"{output}: {lines[0]}", *lines[1:])


def _pairs(arguments: Namespace) -> list[str]:
    """Return the pairs to forget; ValueError unless pairs or a query are given, and not both."""
    pairs = [*arguments.pair]
    if arguments.pairs is not None:
        from .inputs import read_pairs

        pairs += read_pairs(arguments.pairs)
    if bool(pairs) == (arguments.query is not None):
        raise ValueError(
            "Name one thing to forget: a known query with --query, or pairs of words "
            "with --pair or --pairs."
        )
    if pairs and arguments.document is not None:
        raise ValueError("--document is of a known query: give it with --query.")
    return pairs


def _lines_of_pairs(before: Any, after: Any) -> list[str]:
    """Return how many pairs count no more, and whose nearest documents are others."""
    from .measure import changes_of
    from .output import counted

    n_gone = len(before.learned.weights_) - len(after.learned.weights_)
    n_named = len(after.learned.forbidden_pairs_)
    lines = [
        f"{counted(n_named, 'pair')} never count; {counted(n_gone, 'learned part')} gone."
    ]
    if n_named == 1:
        lines = [f"1 pair never counts; {counted(n_gone, 'learned part')} gone."]
    changes = changes_of(before, after)
    if changes is not None:
        lines.append(changes.sentence)
    return lines
