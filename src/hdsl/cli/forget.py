"""``hdsl forget``: delete a judgement from what a model remembers."""

from argparse import Namespace
from typing import Any

from . import shared_options
from .options import OptionGroup, add_command
from .output import show


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = add_command(commands, forget)
    shared_options.add_model(parser)
    options = OptionGroup(parser, "judgement")
    about_query = (
        "The known query, by its name: its text, or its id, as `hdsl search` says it."
    )
    options.add_text("--query", about_query, required=True)
    about_document = "The document, by id or number. Default: all of the query."
    options.add_text("--document", about_document)
    about_output = "File of the model that is written. Default: the model itself."
    options.add_path("-o --output", about_output)


def forget(arguments: Namespace) -> None:
    """Forget that a document was judged relevant for a known query.

    The similarity that was learned stays as it is: `hdsl fit` without the judgement
    learns it anew.

    For example:

      hdsl forget model.hdsl --query "open a socket" --document 17

      hdsl forget model.hdsl --query "open a socket" -o smaller.hdsl
    """
    from ..saving import save
    from . import models

    output = arguments.output or arguments.model
    models.check_model_output(output)
    collection = models.load_collection(arguments.model)
    collection.forget(arguments.query, arguments.document)
    has_documents = collection.documents.X is not None or collection.words is not None
    save(collection if has_documents else collection.model, output)
    memory = collection.learned.memory_
    show(
        f"{output}: {len(memory.relevance.queries):,} judgements of "
        f"{memory.n_queries:,} known queries are left."
    )
