"""Read the data of a command: a table or a matrix, and labels or judgements beside it."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from .. import readers, triplets
from ..input.errors import WayOutError
from ..input.labels import check_comparisons
from ..labels import split_labels
from ..readers import tables
from ..relevance import Relevance, read_relevance
from ..rows import sparse_block
from ..text import Documents, Words
from ..text.counts import weigh_counts
from ..triplets import Judgements
from .files import TABLES, check_input, is_table, separator
from .output import counted, one_line, say
from .shared_options import OF_QUERIES, input_options, judgement_files

#: Labels that stand for none, in lower case.
NO_LABEL = ("", "na", "n/a", "nan", "null")

#: Most labels that are named as written in several ways.
N_NAMED = 3

#: Random rows that count as unlike a row, per link, where no links say which are.
N_RANDOM = 10

#: Rows per judgement.
WIDTHS = {"triplets": 3, "quadruplets": 4}

#: Columns of a file of TREC's qrels, which has no header.
QRELS = ("query", "iteration", "document", "grade")

#: Options that only a table has, by their names in the arguments.
TABLE_OPTIONS = {
    "text": "--text",
    "label": "--label",
    "ids": "--id",
    "group": "--group",
    "sep": "--sep",
    "skip_missing": "--skip-missing",
}


@dataclass(frozen=True)
class Data:
    """Rows or texts, with labels or judgements.

    `judgements` are comparisons or clicks. `n_skipped` rows of the file had no text,
    label or id and are left out. `queries` are not rows of the data, `relevance` has the
    grades of rows for them, and `judgements` number them after the rows.
    `feature_names` are of the columns of `X`. Rows of one of the `groups` are held out
    together.
    """

    path: Path
    X: Any = None
    texts: np.ndarray | None = None
    labels: np.ndarray | None = None
    judgements: Judgements | None = None
    columns: dict[str, str] = field(default_factory=dict)
    ids: np.ndarray | None = None
    n_skipped: int = 0
    label_sep: str | None = None
    queries: Data | None = None
    relevance: Relevance | None = None
    feature_names: np.ndarray | None = None
    groups: np.ndarray | None = None

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        if self.texts is None:
            return self.X.shape[0]
        return len(self.texts)

    @property
    def has_judgements(self) -> bool:
        """Whether there are judgements, of rows or of queries."""
        return self.judgements is not None or self.relevance is not None

    @property
    def y(self) -> Any:
        """The labels, split where a row has several."""
        return split_labels(self.labels, self.label_sep)


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


def _check_supervision(source: Namespace, judgements: dict[str, Path]) -> None:
    """Raise ValueError where labels or judgements come from two sources."""
    if len(judgements) > 1:
        options = " and ".join(f"--{kind}" for kind in judgements)
        raise ValueError(f"Give one file of judgements, not {options}.")
    if source.queries is not None and not set(judgements) & set(OF_QUERIES):
        raise ValueError(
            "--queries needs judgements about them: pass --judgements or --clicks too."
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


# --- tables of texts ------------------------------------------------------------------


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


def _read_columns(path: Path, options: Namespace) -> tables.CheckedTable:
    """Return the columns that the options name; raise ValueError with the way to name them."""
    sep = separator(options.sep)
    if options.text is None:
        names = tables.column_names(path, sep=sep, encoding=options.encoding)
        raise ValueError(
            f"{path} is a table: name its column of texts with --text (it has "
            f"{one_line(', '.join(map(repr, names)))}). Rows of numbers are read from "
            ".npz or svmlight files."
        )
    kind = "query-" if "of_queries" in options else ""
    columns = {
        f"--{kind}text": options.text,
        "--label": options.label,
        f"--{kind}id": options.ids,
    }
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


def _texts(table: tables.CheckedTable, path: Path, name: str) -> np.ndarray:
    """Return a column of texts; raise ValueError where it holds other values."""
    texts = table.columns[name]
    if not all(isinstance(value, str) for value in texts.tolist()):
        raise ValueError(
            f"Column {name!r} of {path} holds {texts.dtype}, not text: name another "
            "with --text."
        )
    return texts


def _clean_labels(
    table: tables.CheckedTable, name: str, skip: bool
) -> tables.CheckedTable:
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


def _ids(table: tables.CheckedTable, name: str | None) -> np.ndarray | None:
    """Return the ids of the rows; without any, their numbers where some rows are left out."""
    if name is None:
        return table.rows if table.n_skipped else None
    ids = table.columns[name]
    if ids.dtype.kind == "f" and (ids == np.floor(ids)).all():
        ids = ids.astype(np.int64)  # a missing value elsewhere made 1.0 of 1
    _check_differ(table, [str(value) for value in ids.tolist()])
    return ids


def _check_differ(table: tables.CheckedTable, ids: list[Any]) -> None:
    """Raise ValueError with the line of the first id that occurs a second time."""
    seen: set[Any] = set()
    for row, name in enumerate(ids):
        if name in seen:
            raise ValueError(
                f"{table.place(row)} has the id {one_line(name, 60)!r} for the second "
                "time: ids must differ."
            )
        seen.add(name)


# --- judgements -----------------------------------------------------------------------


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


def _with_judgements_of(kind: str, path: Path, data: Data, source: Namespace) -> Data:
    """Return the data with the judgements in a file."""
    if names_queries(kind, path, source):
        queries = None
        if source.queries is not None:
            queries = _read_rows(source.queries, _options_of_queries(source))
        return with_queries(data, queries, kind, path, source.max_unknown)
    judgements = read_judgements_of(kind, path, data, source)
    return replace(data, judgements=judgements)


def read_judgements_of(
    kind: str, path: Path, data: Data, source: Namespace
) -> triplets.Judgements:
    """Return the triplets or quadruplets of a file of judgements of a kind."""
    if path.suffix == ".npy" and kind in WIDTHS:
        judgements = triplets.Judgements(readers.read_array(path))
    else:
        judgements = _read_judgements(kind, path, data, source)
    name = "quadruplets" if kind == "quadruplets" else "triplets"
    try:
        checked = check_comparisons(
            judgements.triplets, data.n_rows, name, WIDTHS[name]
        )
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    return replace(judgements, triplets=checked)


def _read_judgements(
    kind: str, path: Path, data: Data, source: Namespace
) -> triplets.Judgements:
    """Return the triplets or quadruplets that a table of judgements says, by its kind."""
    if kind == "triplets":
        return triplets.judgement_triplets(path, ids=data.ids, group=source.group)
    if kind == "quadruplets":
        return triplets.judgement_quadruplets(path, ids=data.ids, group=source.group)
    if kind == "grades":
        return triplets.graded_triplets(path, ids=data.ids, random_state=0)
    if kind == "clicks":
        return read_clicks(path, ids=data.ids, max_unknown=source.max_unknown)
    links, signs = _read_links(path, data)
    return triplets.Judgements(triplets.link_triplets(links, signs, random_state=0))


def read_clicks(path: Path, **options: Any) -> triplets.Judgements:
    """Return judgements by clicks, with weights where the table has positions.

    Without a column of events, a query is an event.
    """
    names = tables.column_names(path)
    if "event" not in names:
        options["event"] = "anchor" if "anchor" in names else "query"
    if "position" in names:
        options["position"] = "position"
    return triplets.choice_triplets(path, **options)


def _read_links(path: Path, data: Data) -> tuple[np.ndarray, np.ndarray]:
    """Return pairs of rows and their signs; random pairs are unlike where no pair is said to be."""
    names = ["left", "right"]
    has_signs = "same" in tables.column_names(path)
    if has_signs:
        names.append("same")
    table = tables.read_table(path, dict(zip(names, names, strict=True)))
    index = table.row_index(data.ids)
    left = table.row_numbers("left", index)
    right = table.row_numbers("right", index)
    links = np.column_stack([left, right])
    if has_signs:
        return links, 2 * table.flags("same") - 1
    say(
        f"{path} has no column 'same': its pairs are taken as similar, and dissimilar "
        f"to {N_RANDOM} random rows each."
    )
    return _with_random_pairs(links, data.n_rows)


def _with_random_pairs(links: np.ndarray, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return links and random pairs of their left rows, and the signs of both."""
    known = {*map(tuple, links.tolist()), *map(tuple, links[:, ::-1].tolist())}
    others = np.random.default_rng(0).integers(n_rows, size=(len(links), N_RANDOM))
    drawn = np.column_stack([np.repeat(links[:, 0], N_RANDOM), others.ravel()])
    unlike = [(a, b) for a, b in drawn.tolist() if a != b and (a, b) not in known]
    pairs = np.array([*links.tolist(), *unlike])
    return pairs, np.repeat([1, -1], [len(links), len(unlike)])


# --- queries that are no rows ---------------------------------------------------------


def names_queries(kind: str, path: Path, source: Namespace) -> bool:
    """Return whether the anchors of a file of judgements are queries, and no rows."""
    if kind == "judgements":
        return True
    if kind != "clicks":
        return False
    return source.queries is not None or "query" in tables.column_names(path)


def with_queries(
    data: Data, queries: Data | None, kind: str, path: Path, max_unknown: float
) -> Data:
    """Return the data with queries and what a file says of them.

    Without `queries` the file has their texts.
    """
    if kind == "judgements":
        return _with_relevance(data, queries, path, max_unknown)
    return _with_clicks(data, queries, path, max_unknown)


def _options_of_queries(source: Namespace) -> Namespace:
    """Return the options by which a file of queries is read."""
    options = vars(source) | {"label": None, "labels": None, "feature_names": None}
    options["group"] = None
    options["text"] = source.query_text or source.text
    options["ids"] = source.query_id or source.ids
    options["of_queries"] = True  # messages name the options of queries
    return Namespace(**options)


def _with_relevance(
    data: Data, queries: Data | None, path: Path, max_unknown: float
) -> Data:
    """Return the data with queries and the grades of rows for them."""
    table: Any = path
    if not is_table(path):
        table = _read_qrels(path)
    if queries is None:
        queries = _typed_queries(table, path, data)
    grade = None
    if "grade" in tables.column_names(table):
        grade = "grade"
    relevance = read_relevance(
        table,
        grade=grade,
        query_ids=_names(queries, table),
        document_ids=_names(data, table),
        max_unknown=_largest_unknown(data, max_unknown),
    )
    return _of_judged_queries(replace(data, queries=queries, relevance=relevance))


def _with_clicks(
    data: Data, queries: Data | None, path: Path, max_unknown: float
) -> Data:
    """Return the data with queries, the triplets of clicks, and rows that were clicked."""
    if queries is None:
        queries = _typed_queries(path, path, data)
    clicks = read_clicks(
        path,
        ids=_names(data, path),
        queries=_names(queries, path),
        max_unknown=_largest_unknown(data, max_unknown),
    )
    clicked = np.unique(clicks.triplets[:, :2], axis=0)
    relevance = Relevance(
        queries=clicked[:, 0] - data.n_rows,
        documents=clicked[:, 1],
        grades=np.ones(len(clicked)),
    )
    with_clicks = replace(
        data,
        queries=queries,
        relevance=relevance,
        judgements=clicks,
    )
    return _of_judged_queries(with_clicks)


def _largest_unknown(data: Data, max_unknown: float) -> float:
    """Return the share of lines that may name unknown rows: none where rows have no ids."""
    if data.ids is None:
        return 0.0
    return max_unknown


def _names(data: Data, table: Any) -> Any:
    """Return the ids of rows or queries, their numbers without ids, as the table has them."""
    ids = data.ids
    if ids is None:
        ids = np.arange(data.n_rows)
    if isinstance(table, dict):  # its values are text
        return [str(value) for value in ids.tolist()]
    return ids


def _typed_queries(table: Any, path: Path, data: Data) -> Data:
    """Return the texts in the column of queries, which are named by their texts."""
    if data.texts is None:
        raise ValueError(
            f"The queries of {path} are texts, but {data.path} has rows of numbers: "
            "name their rows with --queries."
        )
    values = tables.read_table(table, {"query": "query"}).columns["query"]
    names = np.array(list(dict.fromkeys(values.tolist())), dtype=object)
    texts = np.array([str(name) for name in names], dtype=object)
    return Data(path, texts=texts, ids=names)


def _of_judged_queries(data: Data) -> Data:
    """Return the data without the queries that have no relevant row."""
    queries = data.queries
    relevance = data.relevance
    assert queries is not None
    assert relevance is not None
    is_judged = np.zeros(queries.n_rows, dtype=bool)
    is_judged[relevance.queries[relevance.grades > 0]] = True
    n_judged = int(is_judged.sum())
    if n_judged < 2:
        raise ValueError(
            f"{counted(n_judged, 'query', 'queries')} of {queries.path} "
            "has a relevant row: at least 2 are needed."
        )
    if n_judged == queries.n_rows:
        return data
    n_others = queries.n_rows - n_judged
    say(
        f"{counted(n_others, 'query', 'queries')} of {queries.n_rows:,} without a "
        "relevant row left out."
    )
    number = np.cumsum(is_judged) - 1
    judgements = data.judgements
    if judgements is not None:
        is_row = np.concatenate([np.ones(data.n_rows, dtype=bool), is_judged])
        judgements = judgements.of_rows(is_row)
    kept = relevance.of_queries(is_judged)
    return replace(
        data,
        queries=_only(queries, is_judged),
        relevance=kept._replace(queries=number[kept.queries]),
        judgements=judgements,
    )


def _only(queries: Data, is_kept: np.ndarray) -> Data:
    """Return some of the queries; those without ids keep their numbers as ids."""
    ids = queries.ids
    if ids is None:
        ids = np.arange(queries.n_rows)
    if queries.texts is None:
        return replace(queries, X=queries.X[is_kept], ids=ids[is_kept])
    return replace(queries, texts=queries.texts[is_kept], ids=ids[is_kept])


def _read_qrels(path: Path) -> dict[str, list[Any]]:
    """Return the columns of a file as TREC has it: query, iteration, document, grade."""
    _, text = readers.files.read_text(path)
    columns: dict[str, list[Any]] = {name: [] for name in QRELS}
    for number, line in enumerate(text.decode().splitlines(), 1):
        fields = line.split()
        if not fields:
            continue
        if len(fields) != len(QRELS) or not _is_number(fields[-1]):
            raise ValueError(
                f"{path}, line {number} is not a line of TREC's qrels, which have 4 "
                f"fields, {', '.join(QRELS)}. Tables end in .csv, .tsv, .jsonl or "
                ".parquet."
            )
        for name, value in zip(QRELS, fields, strict=True):
            columns[name].append(value)
    columns["grade"] = [float(grade) for grade in columns["grade"]]
    return columns


def _is_number(text: str) -> bool:
    """Return whether a text is a finite number."""
    if "_" in text:  # Python reads 1_0 as 10
        return False
    try:
        return np.isfinite(float(text))
    except ValueError:
        return False


def query_rows(
    queries: Data, documents: Documents, words: Words | None
) -> sp.csr_array:
    """Return queries as rows with the features of the documents; say how many have none."""
    rows = _rows_of(queries, documents, words)
    n_empty = int((np.diff(rows.indptr) == 0).sum())
    if n_empty:
        feature = "known word"
        if words is None:
            feature = "feature of the documents"
        say(
            f"{n_empty:,} of {counted(queries.n_rows, 'query', 'queries')} of "
            f"{queries.path} without a {feature}: words find nothing for these."
        )
    return rows


def _rows_of(queries: Data, documents: Documents, words: Words | None) -> sp.csr_array:
    """Return queries as rows with the features of the documents."""
    if words is not None:
        if queries.texts is None:
            raise ValueError(
                f"{queries.path} has rows of numbers, but the documents are texts: "
                "give a table of texts."
            )
        return words.transform(queries.texts, are_queries=True)
    n_features = sparse_block(documents.X).shape[1]
    X = queries.X
    if X is None or X.shape[1] > n_features:
        raise ValueError(
            f"{queries.path} must have rows with the {n_features} features of the "
            "documents."
        )
    X = sp.csr_array(X)
    X.resize(X.shape[0], n_features)
    if documents.idf is None:
        return X
    return weigh_counts(X, documents.idf)
