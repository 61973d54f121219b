"""The files that commands read and write, checked before the work begins."""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from .. import memory, readers, user_input
from .. import triplets as triplets_module
from ..files import container
from ..files.atomic import check_can_write
from ..readers import tables
from ..triplets import Judgements

TABLES = (".csv", ".tsv", ".jsonl", ".parquet")

#: Files that are not text.
BINARY = (".npz", ".npy", ".mat", ".parquet", ".gz", ".bz2", ".hdsl")

#: Bytes of memory per byte of a file while it is read, roughly.
GROWTH = 5


@dataclass(frozen=True)
class Source:
    """How to read a data file: the options that commands share."""

    text: str | None = None
    label: str | None = None
    labels: Path | None = None
    triplets: Path | None = None
    quadruplets: Path | None = None
    ids: str | None = None
    zero_based: bool = False
    matlab_names: str = "fea,gnd"


@dataclass(frozen=True)
class Data:
    """Rows or texts, with labels or judgements.

    `comparisons` holds triplets (n, 3) or quadruplets (n, 4), and `weights` their weights.
    """

    path: Path
    X: Any = None
    texts: np.ndarray | None = None
    labels: np.ndarray | None = None
    comparisons: np.ndarray | None = None
    weights: np.ndarray | None = None
    columns: dict[str, str] = field(default_factory=dict)

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return self.X.shape[0] if self.texts is None else len(self.texts)


def read_data(path: Path, source: Source) -> Data:
    """Return the rows or texts in a file, with the labels or judgements that `source` names."""
    if source.triplets is not None and source.quadruplets is not None:
        raise ValueError(
            "Give --triplets or --quadruplets, not both. A triplet (a, p, q) is the quadruplet "
            "(a, p, a, q)."
        )
    judgements = source.triplets or source.quadruplets
    for given in (path, source.labels, judgements):
        if given is not None:
            check_input(given)
    if is_table(path):
        data, ids = _read_table(path, source)
    else:
        data, ids = _read_matrix(path, source), None
    if source.labels is not None:
        data = replace(data, labels=readers.read_labels(source.labels))
    if data.labels is not None and len(data.labels) != data.n_rows:
        raise ValueError(
            f"{source.labels} has {len(data.labels)} labels, but {path} has {data.n_rows} rows: "
            "expected one label per row."
        )
    if judgements is not None:
        n_columns = 3 if source.quadruplets is None else 4
        comparisons, weights = read_comparisons(judgements, data.n_rows, ids, n_columns)
        data = replace(data, comparisons=comparisons, weights=weights)
    return data


def is_table(path: Path) -> bool:
    """Return whether a file is a table, by its name."""
    return path.suffix.lower() in TABLES


def check_input(path: Path) -> None:
    """Raise unless `path` is a file that fits into memory."""
    if path.is_dir():
        raise ValueError(f"{path} is a folder: name a file in it.")
    if not path.exists():
        raise ValueError(f"There is no file {path}.")
    if not path.is_file():
        raise ValueError(f"{path} is not a regular file: save its content to a file first.")
    size, free = path.stat().st_size, memory.available()
    if free is not None and GROWTH * size > free:
        has, takes, there = map(memory.format_bytes, (size, GROWTH * size, free))
        raise ValueError(
            f"{path} has {has}: reading it takes about {takes} of memory, but {there} are free. Is "
            "it the right file? If so, learn from a sample of its rows."
        )
    if size == 0:
        raise ValueError(f"{path} is empty.")
    with path.open("rb") as file:
        if path.suffix.lower() not in BINARY and b"\0" in file.read(4096):
            raise ValueError(f"{path} is not UTF-8 text: its first bytes contain zeros.")


def check_output(path: Path, suffixes: tuple[str, ...]) -> None:
    """Raise unless a file with one of these suffixes can be written."""
    if path.suffix.lower() not in suffixes:
        raise ValueError(f"{path} must end in {' or '.join(suffixes)}: give another name with -o.")
    if path.is_dir():
        raise ValueError(f"{path} is a folder: name a file in it with -o.")
    folder = path.parent
    if not folder.is_dir():
        raise ValueError(f"There is no folder {folder} for {path.name}: make it first.")
    try:
        check_can_write(path, str(path))
    except OSError as error:
        raise ValueError(f"{error.strerror}. Name another file with -o.") from None


def check_model_output(path: Path) -> None:
    """Raise unless a model can be written, in place of nothing or of another model."""
    check_output(path, (".hdsl",))
    if path.exists():
        try:
            container.read(path)
        except ValueError:
            raise ValueError(
                f"{path} exists and is not a model: delete it or give another name with -o."
            ) from None


def _read_table(path: Path, source: Source) -> tuple[Data, np.ndarray | None]:
    if source.text is None:
        raise ValueError(
            f"{path} is a table: name its column of texts with --text"
            f"{_columns_hint(path)}. Rows of numbers are read from .npz, .mtx or svmlight files."
        )
    wanted = {"--text": source.text, "--label": source.label, "--id": source.ids}
    named = {option: column for option, column in wanted.items() if column is not None}
    csv.field_size_limit(sys.maxsize)  # a field may hold a whole book
    try:
        table = tables.read_table(path, named)
    except (ValueError, OSError, ImportError):
        raise
    except Exception as error:  # any error of the library that reads Parquet
        raise ValueError(f"{path} cannot be read: {error}") from error
    texts = table.columns[source.text]
    if not all(isinstance(value, str) for value in texts.tolist()):
        raise ValueError(
            f"Column {source.text!r} of {path} holds {texts.dtype}, not text: name another with "
            "--text."
        )
    columns = {"text": source.text} | ({"label": source.label} if source.label else {})
    labels, ids = (table.columns[name] if name else None for name in (source.label, source.ids))
    if labels is not None and labels.dtype.kind == "O":  # JSON may mix numbers and words
        labels = np.array([str(label) for label in labels.tolist()], dtype=object)
    return Data(path, texts=texts.astype(object), labels=labels, columns=columns), ids


def _columns_hint(path: Path) -> str:
    """Return the columns of a text table, as a hint."""
    try:
        tables.read_table(path, {"--text": "\0"})
    except ValueError as error:
        there = str(error).partition("Its columns are ")[2].partition(": say which")[0]
        return f" (it has {there})" if there else ""
    except Exception:
        return ""
    return ""


def _read_matrix(path: Path, source: Source) -> Data:
    for option in ("text", "label", "ids"):
        if getattr(source, option) is not None:
            raise ValueError(
                f"--{option.removesuffix('s')} names a column of a table ({', '.join(TABLES)}), "
                f"but {path} is read as a matrix: leave it out, or rename the file."
            )
    options: dict[str, Any] = {}
    if path.suffix == ".mat":
        X_name, _, y_name = source.matlab_names.partition(",")
        options = {"X_name": X_name, "y_name": y_name or None}
    elif source.zero_based:
        options = {"format": "svmlight", "zero_based": True}
    try:
        X, y = readers.read_matrix(path, **options)
    except readers.DataFileError as error:
        message = str(error).replace("pass zero_based=True", "pass --zero-based")
        message = message.replace("X_name= and y_name=", "--matlab-names X,y")
        raise ValueError(message) from None
    return Data(path, X, labels=y)


def read_comparisons(
    path: Path, n_rows: int, ids: np.ndarray | None = None, n_columns: int = 3
) -> tuple[np.ndarray, np.ndarray | None]:
    """Return triplets (3 columns) or quadruplets (4 columns), and their weights."""
    read: Callable[..., Judgements] = triplets_module.judgement_triplets
    check: Callable[[Any, int], np.ndarray] = user_input.check_triplets
    if n_columns == 4:
        read, check = triplets_module.judgement_quadruplets, user_input.check_quadruplets
    try:
        if path.suffix == ".npy":
            comparisons, weights = readers.read_array(path), None
        else:
            comparisons, weights = read(path, ids=ids)
    except ValueError as error:  # the message is for Python, where column names are free
        message = re.sub(": say which is meant with .*", ": rename yours.", str(error))
        message = message.replace(
            "pass ids=, the id of each row of X", "name the column of ids with --id"
        )
        raise ValueError(message) from None
    try:
        return check(comparisons, n_rows), weights
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
