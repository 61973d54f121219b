"""The file of entities that `hdsl link` writes: which records are one thing."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..readers import tables
from .link_tables import Columns, csv_of, read_written, records_of
from .wording import counted

if TYPE_CHECKING:
    from ..linking import Changes, Linker

HEADER = ("table", "record", "entity", "probability")

#: Merges and splits that are named.
N_NAMED = 3


def entities_of(linker: Linker, arguments: Namespace) -> tuple[bytes, Changes]:
    """Return what a file of entities holds, and which were merged or split since the last one."""
    from ..linking import entity_changes

    entities = linker.entities(arguments.threshold, one_to_one=arguments.one_to_one)
    columns = _columns_of(entities)
    earlier = _earlier(arguments.entities) or columns
    content = csv_of(arguments.entities, HEADER, records_of(columns))
    return content, entity_changes(earlier, columns)


def _columns_of(entities: Any) -> Columns:
    """Return the columns of `Entities`, or of the frame that a saved linker makes of them."""
    if isinstance(entities, tuple):
        return {name: getattr(entities, name).tolist() for name in HEADER}
    return {
        name: list(values) for name, values in tables.read_columns(entities).items()
    }


def _earlier(path: Path) -> Columns | None:
    """Return the entities of a file that is there; raise ValueError if it holds none."""
    if not path.exists():
        return None
    columns = read_written(path)
    if not {*HEADER[:3]} <= columns.keys():
        raise ValueError(
            f"{path} exists and is no file of entities: name another with --entities."
        )
    return columns


def lines(changes: Changes, path: Path) -> list[str]:
    """Return which entities were merged or split, for a person."""
    text = [f"Entities: {path}"]
    for what, groups in (("merged", changes.merged), ("split", changes.split)):
        if not groups:
            continue
        named = [
            f"{entity} ({', '.join(map(str, others))})"
            for entity, others in [*groups.items()][:N_NAMED]
        ]
        line = f"{counted(len(groups), 'entity', 'entities')} {what}: "
        line += ", ".join(named)
        if len(groups) > N_NAMED:
            line += ", …"
        text.append(line)
    return text
