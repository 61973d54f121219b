"""The files that commands read and write, checked before the work begins."""

from __future__ import annotations

import codecs
import csv
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from .. import checks, memory, readers
from .. import triplets as triplets_module
from ..files import container
from ..files.atomic import check_can_write
from ..readers import tables
from ..triplets import Judgements
from .shell import counted, one_line

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
    sep: str | None = None
    encoding: str = "utf-8"
    skip_missing: bool = False
    zero_based: bool = False
    matlab_names: str = "fea,gnd"


@dataclass(frozen=True)
class Data:
    """Rows or texts, with labels or judgements.

    `comparisons` holds triplets (n, 3) or quadruplets (n, 4), and `weights` their weights.
    `n_skipped` rows of the file had no text, label or id and are left out.
    """

    path: Path
    X: Any = None
    texts: np.ndarray | None = None
    labels: np.ndarray | None = None
    comparisons: np.ndarray | None = None
    weights: np.ndarray | None = None
    columns: dict[str, str] = field(default_factory=dict)
    ids: np.ndarray | None = None
    n_skipped: int = 0

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
    check_input(path, source.encoding)
    for given in (source.labels, judgements):
        if given is not None:
            check_input(given)
    data = _read_table(path, source) if is_table(path) else _read_matrix(path, source)
    if data.n_skipped and (source.labels or (judgements and data.ids is None)):
        raise ValueError(
            f"--skip-missing leaves {counted(data.n_skipped, 'row')} of {path} out, so the rows of "
            f"{source.labels or judgements} have other numbers: name rows by --id, and labels by "
            "--label."
        )
    if source.labels is not None:
        data = replace(data, labels=readers.read_labels(source.labels))
    if data.labels is not None and len(data.labels) != data.n_rows:
        labels, rows = counted(len(data.labels), "label"), counted(data.n_rows, "row")
        raise ValueError(
            f"{source.labels} has {labels}, but {path} has {rows}: one label per row is expected."
        )
    if judgements is not None:
        n_columns = 3 if source.quadruplets is None else 4
        comparisons, weights = read_comparisons(judgements, data, n_columns)
        data = replace(data, comparisons=comparisons, weights=weights)
    return data


def is_table(path: Path) -> bool:
    """Return whether a file is a table, by its name."""
    return path.suffix.lower() in TABLES


def check_input(path: Path, encoding: str = "utf-8") -> None:
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
    if encoding != "utf-8" or path.suffix.lower() in BINARY:
        return
    with path.open("rb") as file:
        if b"\0" in (start := file.read(4096)):
            utf16 = start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
            hint = ": pass --encoding utf-16" if utf16 and is_table(path) else ""
            raise ValueError(f"{path} is not UTF-8 text, as its first bytes contain zeros{hint}.")


def read_lines(path: Path) -> list[str]:
    """Return the lines of a text file that are not blank."""
    check_input(path)
    _, text = readers.files.read_text(path)
    return [line.strip() for line in text.decode().splitlines() if line.strip()]


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


def _read_table(path: Path, source: Source) -> Data:
    if source.sep is not None and len(source.sep.replace("\\t", "\t")) != 1:
        raise ValueError(f"--sep must be one character, such as ';' or '\\t'. Got {source.sep!r}.")
    how: dict[str, Any] = {
        "sep": source.sep and source.sep.replace("\\t", "\t"),
        "encoding": source.encoding,
        "skip_missing": source.skip_missing,
    }
    wanted = {"--text": source.text, "--label": source.label, "--id": source.ids}
    named = {option: column for option, column in wanted.items() if column is not None}
    csv.field_size_limit(sys.maxsize)  # a field may hold a whole book
    try:
        table = tables.read_table(path, named or {"--text": "\0"}, **how)
    except tables.MissingColumnError as error:
        raise ValueError(_about_columns(path, source, error, named)) from None
    except (ValueError, OSError, ImportError):
        raise
    except Exception as error:  # any error of the library that reads Parquet
        raise ValueError(f"{path} cannot be read: {error}") from error
    if source.text is None:
        raise ValueError(_no_text(path, ""))
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
    texts = texts.astype(object)
    return Data(path, None, texts, labels, columns=columns, ids=ids, n_skipped=table.n_skipped)


def _about_columns(
    path: Path, source: Source, error: tables.MissingColumnError, named: dict[str, str]
) -> str:
    """Return what to do about a table without a column: another separator, or another name."""
    there = error.columns
    other = next((c for c in ";\t|," if len(there) == 1 and c in there[0]), None)
    if other is not None and source.sep is None:
        shown = "\\t" if other == "\t" else other
        return f"{error.facts}: if {shown!r} separates them, pass --sep '{shown}'."
    if source.text is None:
        return _no_text(path, f" (it has {one_line(', '.join(map(repr, there)))})")
    missing = [option for option, column in named.items() if column not in there]
    return error.message(f"say which is meant with {' and '.join(missing)}")


def _no_text(path: Path, columns: str) -> str:
    return (
        f"{path} is a table: name its column of texts with --text{columns}. Rows of numbers are "
        "read from .npz, .mtx or svmlight files."
    )


def _read_matrix(path: Path, source: Source) -> Data:
    for option in ("text", "label", "ids", "sep", "skip_missing"):
        if getattr(source, option):
            name = {"ids": "--id", "skip_missing": "--skip-missing"}.get(option, f"--{option}")
            raise ValueError(
                f"{name} is about a table ({', '.join(TABLES)}), but {path} is read as a matrix: "
                "leave it out, or rename the file."
            )
    options: dict[str, Any] = {}
    if path.suffix == ".mat":
        X_name, _, y_name = source.matlab_names.partition(",")
        options = {"X_name": X_name, "y_name": y_name or None}
    elif source.zero_based:
        options = {"format": "svmlight", "zero_based": True}
    X, y = readers.read_matrix(path, **options)
    return Data(path, X, labels=y)


def read_comparisons(
    path: Path, data: Data, n_columns: int = 3
) -> tuple[np.ndarray, np.ndarray | None]:
    """Return triplets (3 columns) or quadruplets (4 columns), and their weights."""
    read: Callable[..., Judgements] = triplets_module.judgement_triplets
    check: Callable[[Any, int], np.ndarray] = checks.check_triplets
    if n_columns == 4:
        read, check = triplets_module.judgement_quadruplets, checks.check_quadruplets
    if path.suffix == ".npy":
        comparisons, weights = readers.read_array(path), None
    else:
        comparisons, weights = read(path, ids=data.ids)
    if comparisons.dtype.kind in "iu" and comparisons.ndim == 2:
        outside = np.argwhere((comparisons < 0) | (comparisons >= data.n_rows))
        for judgement, column in outside[:1].tolist():
            raise ValueError(
                f"{path}: judgement {judgement} names row {comparisons[judgement, column]}, but "
                f"{data.path} has {counted(data.n_rows, 'row')}. Both are numbered from 0."
            )
    try:
        return check(comparisons, data.n_rows), weights
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
