"""Files of pairs of records with answers: whether both are the same thing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from .formulas import as_meant
from .link_tables import (
    Columns,
    Format,
    Record,
    read_columns,
    read_written,
    records_of,
)
from .wording import one_line

if TYPE_CHECKING:
    from ..linking import Linker

YES = ("1", "1.0", "yes", "y", "true", "x", "same", "match")
NO = ("0", "0.0", "no", "n", "false", "different")
UNKNOWN = ("", "nan", "none")


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
            f"{path} exists and is no file of labels: name another with --label-file."
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
            f"{path} has no header, but a pair, {pair}: put left,right above it."
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
