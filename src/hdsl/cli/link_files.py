"""The tables that `hdsl link` reads and writes: records, answers and entities."""

from __future__ import annotations

import csv
import io
import os
import re
from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..files.atomic import atomic_write
from ..readers import tables
from .files import check_input, separator
from .output import counted, one_line, say

if TYPE_CHECKING:
    from ..linking import Changes, Linker


#: What a formula begins with; apostrophes before it are of a cell that was text already.
BEGINNING = re.compile(r"'*[=+\-@\t\r]")

#: Columns of a file of links; one of pairs to label has answers before.
LINK_COLUMNS = ("left", "right", "probability", "left_text", "right_text")

Columns = dict[str, list[Any]]
Record = dict[str, Any]

YES = ("1", "1.0", "yes", "y", "true", "x", "same", "match")
NO = ("0", "0.0", "no", "n", "false", "different")
UNKNOWN = ("", "nan", "none")

HEADER = ("table", "record", "entity", "probability")

#: Merges and splits that are named.
N_NAMED = 3


class Format(NamedTuple):
    """How the text of a table is encoded, and what separates its fields."""

    encoding: str = "utf-8"
    sep: str | None = None

    @classmethod
    def of_options(cls, encoding: str, sep: str | None) -> Format:
        """Return the format that --encoding and --sep name."""
        return cls(encoding, separator(sep))


def read_columns(path: Path, form: Format) -> Columns:
    """Return all columns of a table."""
    check_input(path, form.encoding)
    columns = tables.read_columns(path, encoding=form.encoding, sep=form.sep)
    return {name: list(values) for name, values in columns.items()}


def read_written(path: Path) -> Columns:
    """Return all columns of a table that `write_table` has written."""
    columns = read_columns(path, Format())
    return {
        as_meant(name): [as_meant(value) for value in values]
        for name, values in columns.items()
    }


def records_of(columns: Columns) -> list[Record]:
    """Return the rows of a table, each as values by the names of its columns."""
    rows = zip(*columns.values(), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def id_columns_of(tables: Iterable[Columns], *, is_needed: bool) -> list[str]:
    """Return the columns that are called id; none where a table has none.

    Where ids are needed, as known pairs name records by them, tables of which only some
    have ids are an error.
    """
    names = [_id_column(columns) for columns in tables]
    if all(name is not None for name in names):
        return [name for name in names if name is not None]
    if is_needed and any(name is not None for name in names):
        way_out = "name both with --id, or make the tables alike"
        raise ValueError(f"One table has a column id, the other has none: {way_out}.")
    return []


def _id_column(columns: Columns) -> str | None:
    """Return the column called id, in any case if its values differ."""
    for name, values in columns.items():
        if name == "id":
            return name
        if name.lower() == "id" and len(set(values)) == len(values):
            return name
    return None


def ids_of(tables: Iterable[Columns], id_columns: Iterable[str]) -> set[str]:
    """Return all ids of some tables as strings."""
    names = list(id_columns)
    ids = set[str]()
    for columns in tables:
        for name in names:
            ids.update(map(str, columns.get(name, ())))
    return ids


# --- written --------------------------------------------------------------------------


def write_table(path: Path, header: Iterable[str], records: Iterable[Record]) -> None:
    """Write some columns of records as `bytes_of` has them."""
    with atomic_write(path, str(path)) as file:
        file.write(bytes_of(path, header, records))


@contextmanager
def written_together(files: Mapping[Path, bytes]) -> Iterator[None]:
    """Replace files once what is done in between has been done, and none after an error.

    All bytes are on the disk before.
    """
    with ExitStack() as stack:
        for path, content in files.items():
            file = stack.enter_context(atomic_write(path, str(path)))
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        yield


def bytes_of(path: Path, header: Iterable[str], records: Iterable[Record]) -> bytes:
    """Return some columns of records for a file, .csv or .parquet, empty where a record has none.

    Cells that a spreadsheet would run as formulas are written as text, and it is said.
    """
    names = [*header]
    if path.suffix.lower() == ".parquet":
        return _parquet_of(path, names, [*records])
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow([as_text(name) for name in names])
    n_formulas = 0
    for record in records:
        cells = []
        for name in names:
            value = record.get(name, "")
            cell = as_text(value)
            n_formulas += cell is not value
            cells.append(cell)
        writer.writerow(cells)
    if n_formulas:
        say(
            f"{counted(n_formulas, 'cell')} of {path} would run as formulas in a "
            "spreadsheet, so they are written with a leading apostrophe."
        )
    return text.getvalue().encode("utf-8", "replace")


def _parquet_of(path: Path, names: list[str], records: list[Record]) -> bytes:
    """Return some columns of records as a file of Parquet; ids are texts, as links name them."""
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        raise ImportError(
            f"{path} needs pyarrow: pip install pyarrow, or name a .csv file."
        ) from None
    columns = {}
    for name in names:
        values = [record.get(name, "") for record in records]
        if not all(isinstance(value, float) for value in values):
            values = [str(value) for value in values]
        columns[name] = values
    file = io.BytesIO()
    parquet.write_table(pa.table(columns), file)
    return file.getvalue()


def as_text(value: Any) -> Any:
    """Return a cell with an apostrophe before what a spreadsheet would run.

    Examples
    --------
    >>> [as_text(cell) for cell in ("=cmd|'/C calc'!A0", "@home", "-1.5", "a=b", 3)]
    ["'=cmd|'/C calc'!A0", "'@home", '-1.5', 'a=b', 3]
    """
    if not isinstance(value, str) or not BEGINNING.match(value) or _is_number(value):
        return value
    return f"'{value}"


def as_meant(value: Any) -> Any:
    """Return a cell of `as_text` as it was.

    Examples
    --------
    >>> [as_meant(cell) for cell in ("'@home", "-1.5", "'quoted'")]
    ['@home', '-1.5', "'quoted'"]
    """
    is_text = isinstance(value, str) and value.startswith("'")
    if is_text and BEGINNING.match(value):
        return value[1:]
    return value


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


# --- answers --------------------------------------------------------------------------


class Answer(NamedTuple):
    """A record of a file of pairs, and whether the pair is a match."""

    record: Record
    is_match: bool


def read_answers(path: Path, ids: set[str], form: Format) -> list[Answer]:
    """Return the pairs of a file that have an answer; without a column match all are matches."""
    return _answers(path, read_columns(path, form), ids)


def read_labelled(path: Path | None, ids: set[str]) -> list[Answer]:
    """Return the answers in the file of pairs to label, as an earlier run wrote it."""
    if path is None or not path.exists():
        return []
    columns = read_written(path)
    if not {"match", "left", "right"} <= columns.keys():
        raise ValueError(
            f"{path} exists and is not a file of labels: name another with "
            "--label-file."
        )
    return _answers(path, columns, ids)


class UnfinishedAudit(NamedTuple):
    """An audit whose links are not all answered yet."""

    path: Path
    n_audited: int
    n_answered: int

    def sentence(self) -> str:
        """Return what is left to do."""
        return (
            f"{self.path} has {self.n_audited:,} random links to audit, "
            f"{self.n_answered:,} of them answered: fill in match for all, run this "
            "again."
        )


def read_audit(path: Path, ids: set[str]) -> list[Answer] | UnfinishedAudit:
    """Return the answers to an audit, once all are there.

    Those that are easy to answer are no random sample.
    """
    answers = read_labelled(path, ids)
    n_audited = len(read_written(path)["match"])
    if len(answers) < n_audited or n_audited == 0:
        return UnfinishedAudit(path, n_audited, len(answers))
    return answers


def _answers(path: Path, columns: Columns, ids: set[str]) -> list[Answer]:
    left, right = _side_columns(path, columns)
    _check_header(path, [left, right], ids)
    if "match" not in columns:
        _check_no_answers(path, columns, [left, right])
    columns = columns | {"left": columns[left], "right": columns[right]}
    answers = []
    for row, record in enumerate(records_of(columns), start=1):
        is_match = _read_answer(record.get("match", "yes"), f"{path}, record {row}")
        if is_match is not None:
            sides = {side: _as_id(record[side], ids) for side in ("left", "right")}
            answers.append(Answer(record | sides, is_match))
    return answers


def _as_id(value: object, ids: set[str]) -> object:
    """Return the id of a record, also where it is written so that it is no formula."""
    meant = as_meant(value)
    if str(value) not in ids and str(meant) in ids:
        return meant
    return value


def _side_columns(path: Path, columns: Columns) -> tuple[str, str]:
    """Return the columns of a pair: left and right, or else the first two."""
    if "left" in columns and "right" in columns:
        return "left", "right"
    sides = [name for name in columns if name != "match"]
    if len(sides) < 2:
        raise ValueError(f"{path} must have two columns of records: left and right.")
    return sides[0], sides[1]


def _check_header(path: Path, sides: list[str], ids: set[str]) -> None:
    """Raise ValueError where the first line is a pair already."""
    if all(side.strip() in ids or side.strip().isdecimal() for side in sides):
        pair = " and ".join(map(one_line, sides))
        raise ValueError(
            f"{path} starts with a pair instead of a header, {pair}: put left,right "
            "above it."
        )


def _check_no_answers(path: Path, columns: Columns, sides: list[str]) -> None:
    """Raise ValueError where a column with another name seems to have the answers."""
    for name, values in columns.items():
        if name in sides:
            continue
        words = [_word(value) for value in values]
        known = [word for word in words if word not in UNKNOWN]
        if sum(word in YES + NO for word in known) > 0.5 * len(known):
            raise ValueError(
                f"{path} has no column match: rename {name!r} if it has the answers."
            )


def _read_answer(value: object, location: str) -> bool | None:
    """Return whether an answer says yes; None where there is none yet."""
    word = _word(value)
    if word in UNKNOWN:
        return None
    if word not in YES + NO:
        raise ValueError(
            f"{location} answers {one_line(word, 40)!r}: say yes, no or nothing."
        )
    return word in YES


def _word(value: object) -> str:
    return str(value).strip().lower()


def check_texts(linker: Linker, labelled: list[Answer], path: Path) -> None:
    """Raise ValueError where answers are about other texts than those of the records now.

    Answers about records that are gone do not count, and are left as they are.
    """
    import numpy as np

    from ..linking import Links
    from ..linking.tables import text_of

    unknown = {*linker.label_report_.unknown}
    labelled = [
        answer
        for answer in labelled
        if (text_of(answer.record["left"]), text_of(answer.record["right"]))
        not in unknown
    ]
    left = np.array([answer.record["left"] for answer in labelled], dtype=object)
    right = np.array([answer.record["right"] for answer in labelled], dtype=object)
    current = linker.records(Links(left, right, np.zeros(len(labelled))))
    for answer, record in zip(labelled, current, strict=True):
        for name in ("left_text", "right_text"):
            earlier = str(answer.record.get(name) or "")
            if _is_other_text(earlier, record[name]):
                raise ValueError(
                    f"{path} is about {one_line(earlier, 60)!r}, which is now "
                    f"{one_line(record[name], 60)!r}: delete it, or name another file "
                    "with --label-file."
                )


def _is_other_text(earlier: str, text: str) -> bool:
    """Return whether two texts have no word in common."""
    words = earlier.split()
    return bool(words) and set(words).isdisjoint(text.split())


# --- entities -------------------------------------------------------------------------


def entities_of(
    linker: Linker, threshold: float, arguments: Namespace
) -> tuple[bytes, Changes]:
    """Return what a file of entities holds, and which were merged or split since the last one."""
    from ..linking import entity_changes

    entities = linker.entities(threshold, one_to_one=arguments.one_to_one)
    columns = _columns_of(entities)
    earlier = _earlier(arguments.entities) or columns
    content = bytes_of(arguments.entities, HEADER, records_of(columns))
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
            f"{path} exists and is not a file of entities: name another with "
            "--entities."
        )
    return columns


def lines_of_changes(changes: Changes, path: Path) -> list[str]:
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
