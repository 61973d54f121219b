"""The files that commands read and write, checked before the work begins."""

import codecs
from argparse import Namespace
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from .. import memory, readers
from ..files import container
from ..files.atomic import check_can_write
from ..input.comparisons import check_comparisons
from ..input.errors import WayOutError
from ..labels import split_labels
from ..readers import tables
from .shell import JUDGEMENTS, counted, one_line, say

TABLES = (".csv", ".tsv", ".jsonl", ".parquet")
PACKED = (".gz", ".bz2", ".xz", ".zip", ".zst")

#: Files that are not text.
BINARY = (".npz", ".npy", ".parquet", ".gz", ".bz2")

#: Bytes of memory per byte of a file while it is read, roughly.
GROWTH = 5

#: Random rows that count as unlike a row, per link, where no links say which are.
N_RANDOM = 10

#: Labels that stand for none, in lower case.
NO_LABEL = ("", "na", "n/a", "nan", "null")


#: How to read a data file: the options that commands share, and their defaults.
OPTIONS: dict[str, Any] = {
    **dict.fromkeys(
        ("text", "label", "label_sep", "labels", "ids", "sep", *JUDGEMENTS)
    ),
    "encoding": "utf-8",
    "skip_missing": False,
    "zero_based": False,
}


@dataclass(frozen=True)
class Data:
    """Rows or texts, with labels or judgements.

    `comparisons` holds triplets (n, 3) or quadruplets (n, 4), and `weights` their
    weights. `n_skipped` rows of the file had no text, label or id and are left out.
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
    label_sep: str | None = None

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return self.X.shape[0] if self.texts is None else len(self.texts)

    @property
    def y(self) -> Any:
        """The labels, split where a row has several."""
        return split_labels(self.labels, self.label_sep)


def read_data(path: Path, **options: Any) -> Data:
    """Return the rows or texts in a file, with its labels or judgements; others are ignored."""
    source = Namespace(**OPTIONS | options)
    given = {
        kind: getattr(source, kind) for kind in JUDGEMENTS if getattr(source, kind)
    }
    if len(given) > 1:
        raise ValueError(
            f"Give one file of judgements, not {' and '.join(f'--{k}' for k in given)}."
        )
    if source.label is not None and source.labels is not None:
        raise ValueError(
            "Give --label, a column, or --labels, a file: labels are of one of them."
        )
    check_input(path, source.encoding)
    for file in (source.labels, *given.values()):
        if file is not None:
            check_input(file)
    data = _read_table(path, source) if is_table(path) else _read_matrix(path, source)
    beside = [
        source.labels,
        *(file for file in given.values() if file.suffix == ".npy"),
    ]
    if data.n_skipped and any(beside):
        raise ValueError(
            f"--skip-missing leaves {counted(data.n_skipped, 'row')} of {path} out, so "
            f"the rows of {next(filter(None, beside))} have other numbers: take "
            "--label, or judgements in a table."
        )
    if source.labels is not None:
        data = replace(data, labels=readers.read_labels(source.labels))
    if data.labels is not None and len(data.labels) != data.n_rows:
        labels = counted(len(data.labels), "label")
        rows = counted(data.n_rows, "row")
        raise ValueError(
            f"{source.labels} has {labels}, but {path} has {rows}: one label per row "
            "is expected."
        )
    data = replace(
        data, label_sep=source.label_sep and source.label_sep.replace("\\t", "\t")
    )
    for kind, file in given.items():
        comparisons, weights = read_comparisons(kind, file, data)
        data = replace(data, comparisons=comparisons, weights=weights)
    return data


def is_table(path: Path) -> bool:
    """Return whether a file is a table, by its name; raise for a compressed one."""
    if path.suffix.lower() in PACKED and Path(path.stem).suffix.lower() in TABLES:
        raise ValueError(f"{path} is compressed: unpack it first.")
    return path.suffix.lower() in TABLES


def check_size(path: Path) -> None:
    """Raise unless `path` is a file that fits into memory."""
    size = readers.files.check_file(path).stat().st_size
    free = memory.available()
    if free is not None and GROWTH * size > free:
        has, takes, there = map(memory.format_bytes, (size, GROWTH * size, free))
        raise ValueError(
            f"{path} has {has}: reading it takes about {takes} of memory, but {there} "
            "are free. Is it the right file? If so, learn from a sample of its rows."
        )


def check_input(path: Path, encoding: str = "utf-8") -> None:
    """Raise unless `path` is a file that fits into memory, and text where its name says so."""
    check_size(path)
    if encoding != "utf-8" or path.suffix.lower() in BINARY:
        return
    with path.open("rb") as file:
        if b"\0" in (start := file.read(4096)):
            utf16 = start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
            hint = ": pass --encoding utf-16" if utf16 and is_table(path) else ""
            raise ValueError(
                f"{path} is not UTF-8 text, as its first bytes contain zeros{hint}."
            )


def read_lines(path: Path) -> list[str]:
    """Return the lines of a text file that are not blank."""
    check_input(path)
    _, text = readers.files.read_text(path)
    return [line.strip() for line in text.decode().split("\n") if line.strip()]


def check_output(
    path: Path,
    what: str = "the output",
    *,
    taken: Iterable[Path] = (),
    is_model: bool = True,
) -> None:
    """Raise unless a file can be written, and is none of those that the command uses otherwise."""
    check_can_write(path, what)
    if path.resolve() in [other.resolve() for other in taken]:
        raise ValueError(
            f"{path} is {what} and also another file of this command: name two files."
        )
    if not is_model and path.suffix == ".hdsl":
        raise ValueError(
            f"{path} is named as a model, which {what} is not: give another name."
        )


def check_model_output(path: Path) -> None:
    """Raise unless a model can be written, in place of nothing or of another model."""
    check_can_write(path, "the model")
    if path.exists():
        try:
            is_model = "checkpoint" not in container.read(path)[1]
        except ValueError:
            is_model = False
        if not is_model:
            raise ValueError(
                f"{path} exists and is not a model: delete it or give another name."
            )


def load_collection(path: Path) -> Any:
    """Return the documents and the model in a file of ``hdsl fit``, or a model without any."""
    from ..saving import load
    from ..text import Collection

    check_size(path)
    saved = load(path)
    if isinstance(saved, Collection):
        return saved
    if not hasattr(saved, "similarity_") and not hasattr(saved, "steps"):
        raise ValueError(
            f"{path} holds a {type(saved).__name__}: this command needs a model of "
            "`hdsl fit`. Use hdsl.load(path) in Python."
        )
    return Collection(saved)


# --- tables ---------------------------------------------------------------------------


def separator(given: str | None) -> str | None:
    """Return what --sep names; raise ValueError unless it is one character."""
    if given is not None and len(given.replace("\\t", "\t")) != 1:
        raise ValueError(
            f"--sep must be one character, such as ';' or '\\t'. Got {given!r}."
        )
    return given and given.replace("\\t", "\t")


def _read_table(path: Path, source: Namespace) -> Data:
    sep = separator(source.sep)
    wanted = {"--text": source.text, "--label": source.label, "--id": source.ids}
    named = {option: column for option, column in wanted.items() if column is not None}
    try:
        table = tables.read_table(
            path,
            named,
            sep=sep,
            encoding=source.encoding,
            skip_missing=source.skip_missing,
        )
    except tables.MissingColumnError as error:
        raise ValueError(_about_columns(path, source, error, named)) from None
    if source.text is None:
        raise ValueError(_no_text(path, ""))
    texts = table.columns[source.text]
    if not all(isinstance(value, str) for value in texts.tolist()):
        raise ValueError(
            f"Column {source.text!r} of {path} holds {texts.dtype}, not text: name "
            "another with --text."
        )
    if source.label is not None:
        table = _clean_labels(table, source.label, source.skip_missing)
    labels, ids = (
        table.columns[name] if name else None for name in (source.label, source.ids)
    )
    if ids is not None:
        if ids.dtype.kind == "f" and (ids == np.floor(ids)).all():
            ids = ids.astype(np.int64)  # a missing value elsewhere made 1.0 of 1
        _check_ids(table, [str(name) for name in ids.tolist()])
    elif table.n_skipped:
        ids = table.rows  # rows keep the numbers that they have in the file
    columns = {"text": source.text} | ({"label": source.label} if source.label else {})
    texts = table.columns[source.text].astype(object)
    return Data(
        path, None, texts, labels, columns=columns, ids=ids, n_skipped=table.n_skipped
    )


def _clean_labels(table: tables.Table, name: str, skip: bool) -> tables.Table:
    """Return the table with labels without spaces around them, and without rows that have none."""
    if table.columns[name].dtype.kind not in "OU":
        return table
    given = [str(label) for label in table.columns[name].tolist()]  # JSON may mix kinds
    labels = np.array([label.strip() for label in given], dtype=object)
    empty = np.array([label.lower() in NO_LABEL for label in labels.tolist()])
    if empty.any() and not skip:
        row = int(np.argmax(empty))
        such = f"{table.place(row)} has {given[row]!r} in column {name!r}, no label"
        such += f" ({counted(int(empty.sum()), 'such row')})"
        raise WayOutError(such, "drop them or fill them", "missing")
    if empty.all():
        raise ValueError(f"{table.name} has no label in column {name!r}.")
    n_changed = sum(a != b for a, b in zip(given, labels.tolist(), strict=True))
    if n_changed:
        say(f"spaces around {counted(n_changed, 'label')} are left out.")
    alike: dict[str, set[str]] = {}
    for label in labels[~empty].tolist():
        alike.setdefault(label.lower(), set()).add(label)
    several = [
        " and ".join(map(repr, sorted(ways)))
        for ways in alike.values()
        if len(ways) > 1
    ]
    if several:
        more = " and others" if len(several) > 3 else ""
        say(f"warning: {', '.join(several[:3])}{more} count as different labels.")
    table.columns[name] = labels
    return table.only(~empty)


def _check_ids(table: tables.Table, ids: list[Any]) -> None:
    """Raise ValueError with the line of the first id that occurs a second time."""
    seen: set[Any] = set()
    for row, name in enumerate(ids):
        if name in seen:
            raise ValueError(
                f"{table.place(row)} has the id {one_line(name, 60)!r} for the second "
                "time: ids must differ."
            )
        seen.add(name)


def _about_columns(
    path: Path,
    source: Namespace,
    error: tables.MissingColumnError,
    named: dict[str, str],
) -> str:
    """Return what to do about a table without a column: another separator, or another name."""
    there = error.columns
    other = tables.other_separator(path, there)
    if other is not None and source.sep is None:
        shown = "\\t" if other == "\t" else other
        return f"{error.facts}: if {shown!r} separates them, pass --sep '{shown}'."
    if source.text is None:
        return _no_text(path, f" (it has {one_line(', '.join(map(repr, there)))})")
    missing = [option for option, column in named.items() if column not in there]
    return error.message(f"say which is meant with {' and '.join(missing)}")


def _no_text(path: Path, columns: str) -> str:
    return (
        f"{path} is a table: name its column of texts with --text{columns}. Rows of "
        "numbers are read from .npz or svmlight files."
    )


def _read_matrix(path: Path, source: Namespace) -> Data:
    for option in ("text", "label", "ids", "sep", "skip_missing"):
        if getattr(source, option):
            name = {"ids": "--id", "skip_missing": "--skip-missing"}.get(
                option, f"--{option}"
            )
            raise ValueError(
                f"{name} is about a table ({', '.join(TABLES)}), but {path} is read as "
                "a matrix: leave it out, or rename the file."
            )
    X, y = readers.read_matrix(path, zero_based=source.zero_based)
    return Data(path, X, labels=y)


# --- judgements -----------------------------------------------------------------------


def read_comparisons(
    kind: str, path: Path, data: Data
) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the triplets or quadruplets of a file of judgements, and their weights."""
    name, width = ("quadruplets", 4) if kind == "quadruplets" else ("triplets", 3)
    if path.suffix == ".npy" and kind in ("triplets", "quadruplets"):
        comparisons = readers.read_array(path)
        weights = None
    else:
        comparisons, weights = _judged(kind, path, data)
    try:
        return check_comparisons(comparisons, data.n_rows, name, width), weights
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _judged(kind: str, path: Path, data: Data) -> tuple[np.ndarray, np.ndarray | None]:
    from .. import triplets as t

    ids = data.ids
    if kind in ("triplets", "quadruplets"):
        read = t.judgement_triplets if kind == "triplets" else t.judgement_quadruplets
        return read(path, ids=ids)
    if kind == "grades":
        return t.graded_triplets(path, ids=ids, random_state=0)
    if kind == "clicks":
        try:
            return t.choice_triplets(path, ids=ids), None
        except tables.MissingColumnError as error:
            if "event" in error.columns:
                raise
        return t.choice_triplets(path, event="anchor", ids=ids), None
    links, signs = _links(path, data)
    return t.link_triplets(links, signs, random_state=0), None


def _links(path: Path, data: Data) -> tuple[np.ndarray, np.ndarray]:
    """Return pairs of rows and their signs; random pairs are unlike where no pair is said to be."""
    has_signs = "same" in tables.column_names(path)
    names = ("left", "right", "same")[: 2 + has_signs]
    table = tables.read_table(path, dict(zip(names, names, strict=True)))
    index = tables.row_index(data.ids, table.is_text)
    links = np.column_stack(
        [tables.row_numbers(table, name, index) for name in ("left", "right")]
    )
    if has_signs:
        return links, 2 * tables.flags(table, "same") - 1
    say(
        f"{path} has no column 'same': its rows are alike, and unlike {N_RANDOM} "
        "random rows each."
    )
    known = {*map(tuple, links.tolist()), *map(tuple, links[:, ::-1].tolist())}
    others = np.random.default_rng(0).integers(data.n_rows, size=(len(links), N_RANDOM))
    drawn = np.column_stack([np.repeat(links[:, 0], N_RANDOM), others.ravel()])
    unlike = [(a, b) for a, b in drawn.tolist() if a != b and (a, b) not in known]
    pairs = np.array([*links.tolist(), *unlike])
    return pairs, np.repeat([1, -1], [len(links), len(unlike)])
