"""Files that commands read and write, checked before the work."""

from __future__ import annotations

import csv
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .. import memory, readers, user_input
from ..files import container
from ..files.atomic import check_can_write
from ..readers import tables
from ..triplets import Judgements, judgement_triplets

TABLES = (".csv", ".tsv", ".jsonl", ".parquet")

#: Files that start with other bytes than text does.
BINARY = (".npz", ".npy", ".mat", ".parquet", ".gz", ".bz2", ".hdsl")

#: Bytes of memory that a byte of a file takes while it is read, about.
GROWTH = 5


@dataclass(frozen=True)
class Source:
    """How a data file is to be read: the options that commands share."""

    text: str | None = None
    label: str | None = None
    labels: Path | None = None
    triplets: Path | None = None
    ids: str | None = None
    zero_based: bool = False
    matlab_names: str = "fea,gnd"


@dataclass(frozen=True)
class Data:
    """What was read: rows or texts, and labels or judgements of them."""

    path: Path
    X: Any = None
    texts: np.ndarray | None = None
    labels: np.ndarray | None = None
    judgements: Judgements | None = None
    columns: dict[str, str] = field(default_factory=dict)

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return self.X.shape[0] if self.texts is None else len(self.texts)


def read_data(path: Path, source: Source) -> Data:
    """Return the rows or texts of a file, with labels or judgements where it is said where."""
    for given in (path, source.labels, source.triplets):
        if given is not None:
            check_input(given)
    if is_table(path):
        data, ids = _read_table(path, source)
    else:
        data, ids = _read_matrix(path, source), None
    if source.labels is not None:
        data = _with(data, labels=readers.read_labels(source.labels))
    if data.labels is not None and len(data.labels) != data.n_rows:
        raise ValueError(
            f"{source.labels} has {len(data.labels)} labels, but {path} has {data.n_rows} rows: "
            "one label a row is expected."
        )
    if source.triplets is not None:
        data = _with(data, judgements=_read_triplets(source.triplets, data.n_rows, ids))
    return data


def is_table(path: Path) -> bool:
    """Whether a file is a table, by its name."""
    return path.suffix.lower() in TABLES


def check_input(path: Path) -> None:
    """Raise unless a file is there, is one, and can be read into the memory there is."""
    if path.is_dir():
        raise ValueError(f"{path} is a folder: name a file in it.")
    if not path.exists():
        raise ValueError(f"There is no file {path}.")
    if not path.is_file():
        raise ValueError(f"{path} is not a regular file: save what it gives to a file first.")
    size, free = path.stat().st_size, memory.available()
    if free is not None and GROWTH * size > free:
        has, takes, there = map(memory.format_bytes, (size, GROWTH * size, free))
        raise ValueError(
            f"{path} has {has}: to read it takes about {takes} of memory, but {there} are free. Is "
            "it the right file? If so, learn from a sample of its rows."
        )
    if size == 0:
        raise ValueError(f"{path} is empty.")
    with path.open("rb") as file:
        if path.suffix.lower() not in BINARY and b"\0" in file.read(4096):
            raise ValueError(f"{path} is not UTF-8 text: its first bytes hold zeros.")


def check_output(path: Path, suffixes: tuple[str, ...]) -> None:
    """Raise unless a file can be written, and takes the place of nothing but its own kind."""
    if path.suffix.lower() not in suffixes:
        raise ValueError(f"{path} must end in {' or '.join(suffixes)}: give another name with -o.")
    if path.is_dir():
        raise ValueError(f"{path} is a folder: name a file in it with -o.")
    folder = path.parent
    if not folder.is_dir():
        raise ValueError(f"There is no folder {folder} to write {path.name} to: make it first.")
    try:
        check_can_write(path, str(path))
    except OSError as error:
        raise ValueError(f"{error.strerror}. Name another place with -o.") from None


def check_model_output(path: Path) -> None:
    """Raise unless a model can be written, here and now and over nothing else than a model."""
    check_output(path, (".hdsl",))
    if path.exists():
        try:
            container.read(path)
        except ValueError:
            raise ValueError(
                f"{path} is there and is not a model: delete it or give another name with -o."
            ) from None


# --- what is in them -----------------------------------------------------------------------------


def _with(data: Data, **changes: Any) -> Data:
    return Data(**{**data.__dict__, **changes})


def _read_table(path: Path, source: Source) -> tuple[Data, np.ndarray | None]:
    if source.text is None:
        raise ValueError(
            f"{path} is a table: name its column of texts with --text"
            f"{_columns_hint(path)}. Rows of numbers are read from .npz, .mtx or svmlight files."
        )
    wanted = {"--text": source.text, "--label": source.label, "--id": source.ids}
    named = {option: column for option, column in wanted.items() if column is not None}
    csv.field_size_limit(sys.maxsize)  # a field may be a whole book
    try:
        table = tables.read_table(path, named)
    except (ValueError, OSError, ImportError):
        raise
    except Exception as error:  # of whichever library reads Parquet
        raise ValueError(f"{path} cannot be read: {error}") from error
    texts = table.columns[source.text]
    if not all(isinstance(value, str) for value in texts.tolist()):
        raise ValueError(
            f"Column {source.text!r} of {path} holds {texts.dtype}, not text: name another with "
            "--text."
        )
    columns = {"text": source.text} | ({"label": source.label} if source.label else {})
    labels, ids = (table.columns[name] if name else None for name in (source.label, source.ids))
    if labels is not None and labels.dtype.kind == "O":  # JSON may have numbers among words
        labels = np.array([str(label) for label in labels.tolist()], dtype=object)
    return Data(path, texts=texts.astype(object), labels=labels, columns=columns), ids


def _columns_hint(path: Path) -> str:
    """Return the columns that a text table has, to be chosen from."""
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
        told = str(error).replace("pass zero_based=True", "pass --zero-based")
        told = told.replace("X_name= and y_name=", "--matlab-names X,y")
        raise ValueError(told) from None
    return Data(path, X, labels=y)


def _read_triplets(path: Path, n_rows: int, ids: Any) -> Judgements:
    if path.suffix == ".npy":
        judged = Judgements(readers.read_array(path), None)
    else:
        try:
            judged = judgement_triplets(path, ids=ids)
        except ValueError as error:  # told for Python: here the names of columns are fixed
            told = re.sub(": say which is meant with .*", ": rename the ones meant.", str(error))
            told = told.replace("pass ids=, the id of each row of X", "name their ids with --id")
            raise ValueError(told) from None
    try:
        return Judgements(user_input.check_triplets(judged.triplets, n_rows), judged.weights)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
