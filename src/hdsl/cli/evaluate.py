"""``hdsl evaluate``: the errors of a model beside those of the cosine."""

from argparse import Namespace
from pathlib import Path
from typing import Any

from . import shared_options
from .output import show_json
from .shared_options import (
    JUDGEMENTS,
    OF_QUERIES,
    OptionGroup,
    add_command,
    judgement_files,
)


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = add_command(commands, evaluate)
    shared_options.add_model(parser)
    about_data = "new data; default: the rows that `fit` held out, from the model"
    parser.add_argument("data", metavar="DATA", type=Path, nargs="?", help=about_data)
    shared_options.add_input(parser)
    options = OptionGroup(parser, "output")
    shared_options.add_encoder(options, shared_options.ENCODER_NOW)
    options.add_integer("-k", "Neighbours that vote.", 3, dest="n_neighbors")
    options.add_flag("--no-memory", shared_options.NO_MEMORY)
    shared_options.add_json(options)


def evaluate(arguments: Namespace) -> None:
    """Measure a model against the cosine, with intervals.

    The neighbours of new rows are the documents in the model, or the other new rows
    where it has none. Columns default to those of the fit. Known-item search ranks rows
    by half of their features. New queries search the documents in the model.

    For example:

      hdsl evaluate model.hdsl

      hdsl evaluate model.hdsl new_reviews.csv

      hdsl evaluate model.hdsl --judgements new_qrels.csv --queries new_queries.csv
    """
    from . import files

    collection = files.load_collection(arguments.model, arguments.encoder)
    collection.uses_memory = not arguments.no_memory
    _check_options(arguments)
    from . import measure  # loads scikit-learn, so after the mistakes

    evaluation = _evaluate(collection, arguments)
    measured = evaluation.measured
    if arguments.as_json:
        facts = {
            "measure": measured.errors.supervision,
            "n": measured.n,
            "neighbours": measured.n_neighbors,
            "held out": evaluation.held_out,
        }
        show_json(facts | measure.facts_of(measured))
    else:
        measure.show_measured(f"{measured.title}{evaluation.rows}", measured)


def _check_options(arguments: Namespace) -> None:
    """Raise ValueError for options about data that is not given, and numbers out of range."""
    about_data = {"ids": "--id", "text": "--text", "label": "--label"}
    of_rows = [kind for kind in JUDGEMENTS if kind not in OF_QUERIES]
    about_data |= {name: f"--{name}" for name in ("labels", *of_rows)}
    options = [option for name, option in about_data.items() if vars(arguments)[name]]
    if set(judgement_files(arguments)) & set(OF_QUERIES):
        options = []
    if arguments.data is None and options:
        raise ValueError(
            f"{options[0]} describes DATA, but there is no DATA: name its file."
        )
    if arguments.n_neighbors < 1:
        raise ValueError(f"-k must be 1 or more. Got {arguments.n_neighbors}.")


def _evaluate(collection: Any, arguments: Namespace) -> Any:
    """Return what the rows held out show, or new data where it is given."""
    from . import inputs, measure

    options = vars(arguments) | _query_columns(collection, arguments)
    if arguments.data is not None:
        options |= _columns(collection, arguments)
        data = inputs.read_data(arguments.data, **options)
    elif judgement_files(arguments):
        documents = measure.documents_as_data(arguments.model, collection)
        data = inputs.read_judgements(documents, Namespace(**options))
    else:
        return measure.measure_held_out(collection, arguments.n_neighbors)
    return measure.measure_new(data, collection, arguments.n_neighbors)


def _columns(collection: Any, arguments: Namespace) -> dict[str, str | None]:
    """Return the columns of a table: those that are named, else those of the fit."""
    from .files import is_table

    if not is_table(arguments.data):
        return {}
    fitted = collection.documents.facts.get("columns") or {}
    columns = {"text": arguments.text or fitted.get("text")}
    kinds = set(judgement_files(arguments))
    if arguments.labels is None and not kinds:
        columns["label"] = arguments.label or fitted.get("label")
    if kinds & set(OF_QUERIES):
        columns["ids"] = arguments.ids or fitted.get("id")
    return columns


def _query_columns(collection: Any, arguments: Namespace) -> dict[str, str | None]:
    """Return the columns of a table of queries: those that are named, else those of the fit."""
    from .files import is_table

    if arguments.queries is None or not is_table(arguments.queries):
        return {}
    fitted = collection.documents.facts.get("query_columns") or {}
    text = arguments.query_text or arguments.text
    name = arguments.query_id or arguments.ids
    return {
        "query_text": text or fitted.get("text"),
        "query_id": name or fitted.get("id"),
    }
