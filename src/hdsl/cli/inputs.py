"""Read the data of a command: a table or a matrix, and labels or judgements beside it."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from .. import readers
from ..readers import tables
from .data import Data
from .files import TABLES, check_input, is_table
from .shared_options import OF_QUERIES, input_options, judgement_files
from .text_tables import read_text_table
from .wording import counted

#: Options that only a table has, by their names in the arguments.
TABLE_OPTIONS = {
    "text": "--text",
    "label": "--label",
    "ids": "--id",
    "group": "--group",
    "sep": "--sep",
    "skip_missing": "--skip-missing",
}


def read_data(path: Path, *, label_sep: str | None = None, **options: Any) -> Data:
    """Return the rows or texts in a file, with its labels or judgements.

    `options` are those of ``add_input`` by their names in the arguments; others are
    ignored.
    """
    source = input_options(**options)
    judgements = judgement_files(source)
    _check_supervision(source, judgements)
    check_input(path, source.encoding)
    _check_files(source, judgements)
    data = _read_rows(path, source)
    _check_row_numbers(data, source.labels, judgements)
    if source.labels is not None:
        data = replace(data, labels=_read_labels(source.labels, data))
    if label_sep is not None:
        data = replace(data, label_sep=label_sep.replace("\\t", "\t"))
    return _with_judgements(data, judgements, source)


def _read_rows(path: Path, source: Namespace) -> Data:
    """Return the texts of a table, or the rows of a matrix."""
    if is_table(path):
        return read_text_table(path, source)
    return _read_matrix(path, source)


def read_judgements(data: Data, source: Namespace) -> Data:
    """Return data with the judgements in the file that the options name."""
    judgements = judgement_files(source)
    _check_supervision(source, judgements)
    _check_files(source, judgements)
    return _with_judgements(data, judgements, source)


def _with_judgements(
    data: Data, judgements: dict[str, Path], source: Namespace
) -> Data:
    """Return the data with the judgements in the file of their kind."""
    for kind, file in judgements.items():
        data = _with_judgements_of(kind, file, data, source)
    return data


def _check_supervision(source: Namespace, judgements: dict[str, Path]) -> None:
    """Raise ValueError where labels or judgements come from two sources."""
    if len(judgements) > 1:
        options = " and ".join(f"--{kind}" for kind in judgements)
        raise ValueError(f"Give one file of judgements, not {options}.")
    if source.queries is not None and not set(judgements) & set(OF_QUERIES):
        raise ValueError(
            "--queries are named by --judgements or --clicks: give one of them too."
        )
    if not 0 <= source.max_unknown < 1:
        raise ValueError(
            "--max-unknown must be a share, from 0 to below 1. Got "
            f"{source.max_unknown:g}."
        )
    if source.label is not None and source.labels is not None:
        raise ValueError(
            "Give --label, a column, or --labels, a file: labels are of one of them."
        )


def _check_files(source: Namespace, judgements: dict[str, Path]) -> None:
    """Raise unless the files beside the data can be read."""
    names = _names_file(source)
    for file in (source.labels, source.queries, names, *judgements.values()):
        if file is not None:
            check_input(file)


def _check_row_numbers(
    data: Data, labels: Path | None, judgements: dict[str, Path]
) -> None:
    """Raise ValueError where a file counts rows by number, and some rows are left out."""
    files = [file for file in judgements.values() if file.suffix == ".npy"]
    if labels is not None:
        files.insert(0, labels)
    if data.n_skipped and files:
        raise ValueError(
            f"--skip-missing leaves {counted(data.n_skipped, 'row')} of {data.path} "
            f"out, so the rows of {files[0]} have other numbers: take --label, or "
            "judgements in a table."
        )


def _read_labels(path: Path, data: Data) -> np.ndarray:
    """Return the labels in a file of their own, one per row of the data."""
    labels = readers.read_labels(path)
    if len(labels) != data.n_rows:
        raise ValueError(
            f"{path} has {counted(len(labels), 'label')}, but {data.path} has "
            f"{counted(data.n_rows, 'row')}: one label per row is expected."
        )
    return labels


def _with_judgements_of(kind: str, path: Path, data: Data, source: Namespace) -> Data:
    """Return the data with the judgements in a file."""
    from .judgements import read_judgements_of  # loads the search of neighbours
    from .queries import names_queries, with_queries

    if names_queries(kind, path, source):
        queries = None
        if source.queries is not None:
            queries = _read_rows(source.queries, _options_of_queries(source))
        return with_queries(data, queries, kind, path, source.max_unknown)
    judgements = read_judgements_of(kind, path, data, source)
    return replace(data, judgements=judgements)


def read_pairs(path: Path) -> list[str]:
    """Return the pairs of features in a table: a column `pair`, or its first two columns."""
    check_input(path)
    columns = tables.read_columns(path)
    if "pair" in columns:
        return [str(pair) for pair in columns["pair"]]
    if len(columns) < 2:
        raise ValueError(
            f"{path} must have a column 'pair', such as 'cat ~ dog', or two columns of "
            "words."
        )
    first, second = [*columns.values()][:2]
    return [f"{a} ~ {b}" for a, b in zip(first, second, strict=True)]


def _options_of_queries(source: Namespace) -> Namespace:
    """Return the options by which a file of queries is read."""
    options = vars(source) | {"label": None, "labels": None, "feature_names": None}
    options["group"] = None
    options["text"] = source.query_text or source.text
    options["ids"] = source.query_id or source.ids
    return Namespace(**options)


def _read_matrix(path: Path, source: Namespace) -> Data:
    for name, option in TABLE_OPTIONS.items():
        if name == "group" and judgement_files(source):
            continue
        if getattr(source, name):
            raise ValueError(
                f"{option} is about a table ({', '.join(TABLES)}), but {path} is read "
                "as a matrix: leave it out, or rename the file."
            )
    X, y = readers.read_matrix(path, zero_based=source.zero_based)
    names_file = _names_file(source)
    if names_file is None:
        return Data(path, X, labels=y)
    names = readers.read_feature_names(names_file)
    n_columns = X.shape[1]
    if path.suffix.lower() != ".npz" and n_columns < len(names):
        X.resize(X.shape[0], len(names))  # svmlight says nothing of empty columns
    elif n_columns != len(names):
        raise ValueError(
            f"{names_file} has {counted(len(names), 'name')}, but {path} has "
            f"{counted(n_columns, 'column')}: one name per column is expected."
        )
    return Data(path, X, labels=y, feature_names=names)


def _names_file(source: Namespace) -> Path | None:
    """Return the file of the names of columns, an option of `fit` alone."""
    return getattr(source, "feature_names", None)
