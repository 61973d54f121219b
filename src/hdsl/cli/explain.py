"""``hdsl explain``: what the similarity of two texts or documents is made of."""

from argparse import Namespace
from typing import Any

from . import shared_options
from .output import one_line, say, show, show_json
from .shared_options import OptionGroup, add_command


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = add_command(commands, explain)
    shared_options.add_model(parser)
    options = OptionGroup(parser, "explanation")
    about_side = "A document or query in the model, by id or number, or a text."
    options.add_text("--x", about_side, required=True)
    options.add_text("--y", about_side, required=True)
    about_third = "A third: explain why x is more like y than like this."
    options.add_text("--rather-than", about_third)
    about_by = "Parts per feature pair, or per learned pair."
    options.add_choice("--by", about_by, ("pair", "atom"))
    options.add_integer("--top", "Parts to show.", 10)
    shared_options.add_encoder(options, shared_options.ENCODER_NOW)
    shared_options.add_json(options)


def explain(arguments: Namespace) -> None:
    """Show what the similarity of two texts or documents is made of.

    For example:

      hdsl explain model.hdsl --x "open a socket" --y "listen on a port"

      hdsl explain model.hdsl --x 17 --y 3 --rather-than 44
    """
    from . import files

    collection = files.load_collection(arguments.model, arguments.encoder)
    for side in (arguments.x, arguments.y, arguments.rather_than):
        is_row = collection.is_document(side) or collection.is_query(side)
        if side and not is_row:
            _name_unknown_id(collection, side)
            files.name_unknown_words(collection, side)
    explanation = collection.explain(
        arguments.x,
        arguments.y,
        rather_than=arguments.rather_than,
        by=arguments.by,
        top=arguments.top,
    )
    if arguments.as_json:
        show_json(explanation.to_dict())
    else:
        show(repr(explanation))


def _name_unknown_id(collection: Any, side: str) -> None:
    """Say that what may be meant as an id is read as a text."""
    has_ids = collection.documents.ids is not None
    if has_ids and collection.words is not None and not any(map(str.isspace, side)):
        say(
            f"{one_line(side, 60)!r} is not the id of a document: it is read as a text."
        )
