"""Tables of texts, with columns of labels and of ids."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np

from ..input.errors import WayOutError
from ..readers import tables
from .data import Data
from .files import separator
from .messages import say
from .shared_options import judgement_files
from .wording import counted, one_line

#: Labels that stand for none, in lower case.
NO_LABEL = ("", "na", "n/a", "nan", "null")

#: Most labels that are named as written in several ways.
N_NAMED = 3


def read_text_table(path: Path, options: Namespace) -> Data:
    """Return the texts of a table, with the labels and ids in the columns that options name."""
    table = _read_columns(path, options)
    texts = _texts(table, path, options.text)
    columns = {"text": options.text}
    if options.ids is not None:
        columns["id"] = options.ids
    labels = None
    if options.label is not None:
        table = _clean_labels(table, options.label, options.skip_missing)
        texts = table.columns[options.text]
        labels = table.columns[options.label]
        columns["label"] = options.label
    groups = None
    if _has_groups(options):
        groups = table.columns[options.group]
    return Data(
        path,
        texts=texts.astype(object),
        labels=labels,
        columns=columns,
        ids=_ids(table, options.ids),
        n_skipped=table.n_skipped,
        groups=groups,
    )


def _has_groups(options: Namespace) -> bool:
    """Return whether a column of groups is one of the table of rows."""
    return options.group is not None and not judgement_files(options)


# --- columns --------------------------------------------------------------------------


def _read_columns(path: Path, options: Namespace) -> tables.Table:
    """Return the columns that the options name; raise ValueError with the way to name them."""
    sep = separator(options.sep)
    if options.text is None:
        names = tables.column_names(path, sep=sep, encoding=options.encoding)
        raise ValueError(
            f"{path} is a table: name its column of texts with --text (it has "
            f"{one_line(', '.join(map(repr, names)))}). Rows of numbers are read from "
            ".npz or svmlight files."
        )
    columns = {"--text": options.text, "--label": options.label, "--id": options.ids}
    if _has_groups(options):
        columns["--group"] = options.group
    wanted = {option: name for option, name in columns.items() if name is not None}
    try:
        return tables.read_table(
            path,
            wanted,
            sep=sep,
            encoding=options.encoding,
            skip_missing=options.skip_missing,
        )
    except tables.MissingColumnError as error:
        raise ValueError(_about_columns(path, sep, error, wanted)) from None


def _about_columns(
    path: Path,
    sep: str | None,
    error: tables.MissingColumnError,
    wanted: dict[str, str],
) -> str:
    """Return what to do about a table without a column: another separator, or another name."""
    other = tables.other_separator(path, error.columns)
    if other is not None and sep is None:
        shown = other.replace("\t", "\\t")
        return f"{error.facts}: if {shown!r} separates them, pass --sep '{shown}'."
    missing = [option for option, name in wanted.items() if name not in error.columns]
    return error.message(f"say which is meant with {' and '.join(missing)}")


def _texts(table: tables.Table, path: Path, name: str) -> np.ndarray:
    """Return a column of texts; raise ValueError where it holds other values."""
    texts = table.columns[name]
    if not all(isinstance(value, str) for value in texts.tolist()):
        raise ValueError(
            f"Column {name!r} of {path} holds {texts.dtype}, not text: name another "
            "with --text."
        )
    return texts


# --- labels ---------------------------------------------------------------------------


def _clean_labels(table: tables.Table, name: str, skip: bool) -> tables.Table:
    """Return the table with labels without spaces around them, and without rows that have none."""
    if table.columns[name].dtype.kind not in "OU":
        return table
    raw = [str(label) for label in table.columns[name].tolist()]  # JSON may mix kinds
    labels = np.array([label.strip() for label in raw], dtype=object)
    is_empty = np.array([label.lower() in NO_LABEL for label in labels.tolist()])
    if is_empty.any() and not skip:
        row = int(np.argmax(is_empty))
        rows = counted(int(is_empty.sum()), "such row")
        facts = f"{table.place(row)} has {raw[row]!r} in column {name!r}, no label"
        raise WayOutError(f"{facts} ({rows})", "drop them or fill them", "missing")
    if is_empty.all():
        raise ValueError(f"{table.name} has no label in column {name!r}.")
    n_changed = sum(a != b for a, b in zip(raw, labels.tolist(), strict=True))
    if n_changed:
        say(f"spaces around {counted(n_changed, 'label')} are left out.")
    _warn_of_case(labels[~is_empty].tolist())
    table.columns[name] = labels
    return table.only(~is_empty)


def _warn_of_case(labels: list[str]) -> None:
    """Say which labels differ only in their case."""
    spellings: dict[str, set[str]] = {}
    for label in labels:
        spellings.setdefault(label.lower(), set()).add(label)
    several = [
        " and ".join(map(repr, sorted(words)))
        for words in spellings.values()
        if len(words) > 1
    ]
    if not several:
        return
    shown = ", ".join(several[:N_NAMED])
    if len(several) > N_NAMED:
        shown += " and others"
    say(f"warning: {shown} count as different labels.")


# --- ids ------------------------------------------------------------------------------


def _ids(table: tables.Table, name: str | None) -> np.ndarray | None:
    """Return the ids of the rows; without any, their numbers where some rows are left out."""
    if name is None:
        return table.rows if table.n_skipped else None
    ids = table.columns[name]
    if ids.dtype.kind == "f" and (ids == np.floor(ids)).all():
        ids = ids.astype(np.int64)  # a missing value elsewhere made 1.0 of 1
    _check_differ(table, [str(value) for value in ids.tolist()])
    return ids


def _check_differ(table: tables.Table, ids: list[Any]) -> None:
    """Raise ValueError with the line of the first id that occurs a second time."""
    seen: set[Any] = set()
    for row, name in enumerate(ids):
        if name in seen:
            raise ValueError(
                f"{table.place(row)} has the id {one_line(name, 60)!r} for the second "
                "time: ids must differ."
            )
        seen.add(name)
