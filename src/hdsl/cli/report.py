"""``hdsl report``: what was learned, as one HTML page."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import shared_options
from .output import announce, show
from .shared_options import OptionGroup, add_command

if TYPE_CHECKING:
    from ..evaluate.measured import Measured


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = add_command(commands, report)
    shared_options.add_model(parser)
    options = OptionGroup(parser, "page")
    options.add_path("-o --output", "HTML file.", Path("report.html"))
    about_title = "Title of the page. Default: the name of the data."
    options.add_text("--title", about_title)
    about_search = (
        "Write a page that searches the documents in the browser instead, as learned and "
        "by plain cosine side by side, with reasons: up to 20,000, below 20 MiB."
    )
    options.add_flag("--search", about_search)
    shared_options.add_quiet(options)


def report(arguments: Namespace) -> None:
    """Write what was learned as one self-contained HTML page.

    For example:

      hdsl report model.hdsl -o report.html

      hdsl report model.hdsl --search -o search.html
    """
    from ..memory import format_bytes
    from . import files

    output = arguments.output
    files.check_output_of_model(output, arguments.model)
    announce(f"reading {arguments.model}", quiet=arguments.quiet)
    collection = files.load_collection(arguments.model)
    data = collection.documents.facts.get("data")
    title = arguments.title or data or arguments.model.stem
    if arguments.search:
        from ..report import search_page, write

        announce("writing the page", quiet=arguments.quiet)
        write(output, search_page(collection, title=str(title)))
        show(f"{output}: {format_bytes(output.stat().st_size)}.")
        return
    announce("measuring, and writing the page", quiet=arguments.quiet)
    write_report(collection, output, str(title))
    show(f"{output}: {format_bytes(output.stat().st_size)}.")


def write_report(
    collection: Any, path: Path, title: str, measured: Measured | None = None
) -> None:
    """Write the page of a model, with its documents where it has them.

    `measured` is what the rows held out show; it is measured where it is None.
    """
    from .. import report
    from .measure import held_out

    documents = collection.documents
    scored = collection.scored
    names = scored.names(collection.feature_names)
    if documents.X is None:
        collection.learned.report(path, feature_names=names, title=title)
        return
    known = ~documents.is_new
    more = report.More(
        known.nonzero()[0],
        collection.scores,
        _inverse_frequencies(collection),
        _take(documents.ids, known),
        _reader(collection),
    )
    page = report.page(
        collection.learned,
        scored.rows(documents.X[known]),
        _take(documents.labels, known),
        texts=_take(documents.texts, known),
        feature_names=names,
        title=title,
        measured=measured or held_out(collection),
        more=more,
    )
    report.write(path, page)


def _inverse_frequencies(collection: Any) -> Any:
    """Return the weights of the features by TF-IDF, None where values are not weighed."""
    if collection.words is None:
        return collection.documents.idf
    return collection.words.idf


def _reader(collection: Any) -> dict[str, Any] | None:
    """Return how texts are read; None where rows are no texts."""
    if collection.words is None:
        return None
    reader: dict[str, Any] = collection.words.reader
    return reader


def _take(values: Any, rows: Any) -> Any:
    """Return the values of some rows, None where the documents have none."""
    if values is None:
        return None
    return values[rows]
