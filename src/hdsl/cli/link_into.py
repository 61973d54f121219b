"""``hdsl link --into``: later records, linked with those of a saved linker."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, Any

from . import shared_options
from .messages import announce
from .output import show, show_json
from .wording import counted

if TYPE_CHECKING:
    from ..linking import Linker
    from .link_tables import Record

#: Options that are about learning, which --into does not do.
LEARNING = (
    "matches",
    "id_columns",
    "columns",
    "block_on",
    "label",
    "audit",
    "page",
    "one_to_one",
    "max_false",
)


def link_into(arguments: Namespace) -> None:
    """Link the records of one table with those of a linker, and keep them in it."""
    from . import link_entities
    from .link_tables import (
        LINK_COLUMNS,
        Format,
        csv_of,
        read_columns,
        written_together,
    )

    _check_options(arguments)
    linker = _load(arguments)
    form = Format.of_options(arguments.encoding, arguments.sep)
    path = arguments.tables[0]
    columns = read_columns(path, form)
    announce("linking the new records", quiet=shared_options.is_quiet(arguments))
    links = linker.link(columns, arguments.threshold, side=arguments.side)
    linker.add(columns, side=arguments.side)
    records = linker.records(links)
    output = arguments.output
    files = {output: csv_of(output, (*LINK_COLUMNS, "known"), records)}
    changes = None
    if arguments.entities is not None:
        content, changes = link_entities.entities_of(linker, arguments)
        files[arguments.entities] = content
    # The model comes first: where it cannot be written, the other files stay.
    with written_together(files):
        if arguments.model is not None:
            linker.save(arguments.model)
    _show(records, changes, arguments)


def _check_options(arguments: Namespace) -> None:
    """Raise ValueError for several tables, and for options that need a fit."""
    if len(arguments.tables) != 1:
        raise ValueError(
            "--into links one table of new records with those of a linker."
        )
    used = [name for name in LEARNING if getattr(arguments, name)]
    if used:
        names = {
            "id_columns": "id",
            "block_on": "block-on",
            "page": "html",
            "one_to_one": "one-to-one",
            "max_false": "max-false",
        }
        option = names.get(used[0], used[0])
        raise ValueError(
            f"--{option} has no use with --into: nothing is learned from the new "
            "records. Link all tables again, without --into."
        )


def _load(arguments: Namespace) -> Linker:
    """Return the linker of a file."""
    from ..linking import Linker
    from ..saving import load
    from .files import check_size

    check_size(arguments.into)
    linker = load(arguments.into)
    if not isinstance(linker, Linker):
        raise ValueError(
            f"{arguments.into} holds no links: --into takes a file that `hdsl link "
            "--model` has written."
        )
    linker.n_jobs = arguments.jobs
    return linker


def _show(records: list[Record], changes: Any, arguments: Namespace) -> None:
    """Print how many links there are, and where they stand."""
    if arguments.as_json:
        answer: dict[str, Any] = {
            "links": len(records),
            "output": str(arguments.output),
            "model": None,
        }
        if arguments.model is not None:
            answer["model"] = str(arguments.model)
        if changes is not None:
            answer["entities"] = changes._asdict()
        show_json(answer)
        return
    threshold = f"from a probability of {arguments.threshold:g} on"
    show(f"{counted(len(records), 'new link')} {threshold}: {arguments.output}")
    if changes is not None:
        from . import link_entities

        show(*link_entities.lines(changes, arguments.entities))
    if arguments.model is None:
        show("The new records are not kept: --model names the file that keeps them.")
    else:
        show(f"The new records are kept in {arguments.model}.")
