"""Documents: rows with their texts, labels and ids."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..files import container
from ..files.container import Arrays, get_array, nested, part_of
from ..input.labels import check_comparisons, check_weights
from ..input.matrices import canonical
from ..relevance import Relevance
from ..rows import Rows, sparse_block, unit_rows
from ..triplets import ShownRows

#: The part of rows that were learned from.
TRAIN = 0

#: The part of rows that were held out to measure by.
TEST = 1

#: Digits of the longest number of a document.
LONGEST_NUMBER = 18


@dataclass(frozen=True, eq=False)
class Documents:
    """Rows with their texts, labels and ids, each of which may be missing.

    Parameters
    ----------
    X : csr_array or Rows of shape (n_rows, n_features)
        Without class scores. An embedding is at unit length: the model has its weight.
    labels, texts, ids : ndarray of shape (n_rows,)
    part : ndarray of shape (n_rows,)
        TRAIN or TEST.
    idf : ndarray of shape (n_features,)
        The weights by which `weigh_counts` made X, if rows were counts.
    feature_names : ndarray of shape (n_features,)
        Names of the columns, if rows are not texts.
    judgements : ndarray of shape (n, 3) or (n, 4)
        Held-out triplets or quadruplets.
    judgement_weights : ndarray of shape (n,)
    facts : dict
        Measured figures, and the names of the columns of a table.
    """

    X: Any = None
    labels: Any = None
    texts: Any = None
    ids: Any = None
    part: Any = None
    idf: Any = None
    feature_names: Any = None
    judgements: Any = None
    judgement_weights: Any = None
    facts: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("labels", "texts", "ids"):
            object.__setattr__(self, name, _as_array(getattr(self, name)))
        if self.X is None:
            return
        if not isinstance(self.X, Rows):
            object.__setattr__(self, "X", sp.csr_array(self.X))
        by_row = {
            "labels": self.labels,
            "texts": self.texts,
            "ids": self.ids,
            "part": self.part,
        }
        for name, values in by_row.items():
            if values is not None and len(values) != self.n_rows:
                raise ValueError(
                    f"There are {len(values)} {name}, but X has {self.n_rows} rows."
                )

    @property
    def n_rows(self) -> int:
        """The number of documents."""
        if self.X is None:
            return 0
        return self.X.shape[0]

    @property
    def is_new(self) -> np.ndarray:
        """Which rows were held out."""
        if self.part is None:
            return np.zeros(self.n_rows, dtype=bool)
        return self.part == TEST

    # --- names ------------------------------------------------------------------------

    @cached_property
    def _row_of_id(self) -> dict[str, int]:
        """The row of each id; the first row if several have it."""
        if self.ids is None:
            return {}
        rows: dict[str, int] = {}
        for row, value in enumerate(self.ids.tolist()):
            rows.setdefault(str(value), row)
        return rows

    @cached_property
    def _is_numbered(self) -> bool:
        """Whether documents have numbers as names too: not if ids are numbers."""
        are_numbers = all(map(str.isdecimal, self._row_of_id))
        return not (self._row_of_id and are_numbers)

    def find_row(self, name: Any) -> int | None:
        """Return the row of a document by its id, else by its number; None without one.

        If all ids are numbers, a number is an id and nothing else.
        """
        name = str(name)
        if name in self._row_of_id:
            return self._row_of_id[name]
        is_number = name.isdecimal() and len(name) <= LONGEST_NUMBER
        if self._is_numbered and is_number and int(name) < self.n_rows:
            return int(name)
        return None

    def row_number(self, name: Any) -> int:
        """Return what `find_row` does; raise ValueError if it has no row."""
        if self.X is None:
            raise ValueError("The model has no documents: give texts instead of rows.")
        row = self.find_row(name)
        if row is not None:
            return row
        ways = []
        if self._row_of_id:
            ways.append("named by their ids")
        if self._is_numbered:
            ways.append("numbered from 0")
        raise ValueError(
            f"There is no document {str(name)[:60]!r}: the model has "
            f"{self.n_rows:,}, {' or '.join(ways)}."
        )

    def described(self, row: int) -> dict[str, Any]:
        """Return the id, the label and the text of a document, None without one."""
        return {
            "id": _value_of_row(self.ids, row),
            "label": _value_of_row(self.labels, row),
            "text": _value_of_row(self.texts, row),
        }

    # --- files ------------------------------------------------------------------------

    def to_arrays(self) -> tuple[Arrays, dict[str, Any]]:
        """Return all of it as arrays, and a header with everything else."""
        arrays: Arrays = {}
        if self.X is not None:
            arrays |= container.csr_to_arrays(sparse_block(self.X), "X")
        if isinstance(self.X, Rows):
            arrays["unit_embedding"] = self.X.dense
        vectors = {
            "labels": self.labels,
            "texts": self.texts,
            "ids": _saved_ids(self.ids),
            "part": self.part,
            "idf": self.idf,
            "feature_names": self.feature_names,
            "judgement_weights": self.judgement_weights,
        }
        for name, values in vectors.items():
            if values is not None:
                arrays |= container.pack_values(name, values)
        if self.judgements is not None:
            arrays["judgements"] = self.judgements
        return arrays, self.facts

    @classmethod
    def from_arrays(
        cls,
        arrays: Arrays,
        facts: dict[str, Any],
        n_features: int,
        embedding_width: int = 0,
    ) -> Documents:
        """Return the documents of `to_arrays`; ValueError if they are damaged."""
        idf = None
        if "idf" in arrays:
            idf = get_array(arrays, "idf", "f", (n_features,))
        feature_names = _unpacked(arrays, "feature_names", n_features)
        if feature_names is not None and feature_names.dtype.kind != "O":
            raise ValueError("feature_names must be strings")
        if "X" not in arrays:
            return cls(idf=idf, feature_names=feature_names, facts=facts)
        X: Any = canonical(container.csr_from_arrays(arrays, "X", n_features))
        n_rows = X.shape[0]
        if embedding_width:
            X = Rows(X, _embedding_from(arrays, (n_rows, embedding_width)))
        texts = _unpacked(arrays, "texts", n_rows)
        if texts is not None and texts.dtype.kind != "O":
            raise ValueError("texts must be strings")
        judgements = None
        judgement_weights = None
        if "judgements" in arrays:
            judgements = get_array(arrays, "judgements", "i")
            judgements = check_comparisons(judgements, n_rows)
            judgement_weights = check_weights(
                arrays.get("judgement_weights"), len(judgements), "judgement"
            )
        return cls(
            X=X,
            labels=_unpacked(arrays, "labels", n_rows),
            texts=texts,
            ids=_unpacked(arrays, "ids", n_rows),
            part=_unpacked(arrays, "part", n_rows),
            idf=idf,
            feature_names=feature_names,
            judgements=judgements,
            judgement_weights=judgement_weights,
            facts=facts,
        )


def _embedding_from(arrays: Arrays, shape: tuple[int, int]) -> np.ndarray:
    """Return the embedding of a file at unit length; older files multiplied it by a weight."""
    if "unit_embedding" in arrays:
        return get_array(arrays, "unit_embedding", "f", shape)
    return np.asarray(unit_rows(get_array(arrays, "embedding", "f", shape)))


def _as_array(values: Any) -> Any:
    """Return values as an array, of objects if they are a list of strings."""
    if values is None:
        return None
    if not isinstance(values, list | tuple):
        return np.asarray(values)  # a Series has an index of its own
    if all(isinstance(value, str) for value in values):
        return np.array(values, dtype=object)
    return np.array(values)


def _saved_ids(ids: np.ndarray | None) -> np.ndarray | None:
    """Return ids as a file has them: of other kinds than numbers and strings as text."""
    if ids is None or ids.dtype.kind in "biufU":
        return ids
    return np.array([str(value) for value in ids.tolist()], dtype=object)


def _value_of_row(values: Any, row: int) -> Any:
    """Return the value of a row, None without values."""
    if values is None:
        return None
    return values[[row]].tolist()[0]


def _unpacked(arrays: Arrays, name: str, n_rows: int) -> np.ndarray | None:
    """Return one value per row, numbers or strings; None if there are none."""
    if name not in arrays and f"{name}.text" not in arrays:
        return None
    return container.unpack_values(arrays, name, n_rows)


@dataclass(frozen=True, eq=False)
class Queries:
    """Queries as rows beside the documents: a search never returns them.

    Parameters
    ----------
    rows : Documents
        The queries with their texts, ids and part: TRAIN or TEST.
    relevance : Relevance
        Grades of documents for these queries.
    clicks : ShownRows, default=None
        Documents shown and clicked for held-out queries, as row numbers of the
        documents, then of the queries.
    """

    rows: Documents
    relevance: Relevance
    clicks: ShownRows | None = None

    @property
    def n_queries(self) -> int:
        """The number of queries."""
        return self.rows.n_rows

    @property
    def held_out(self) -> Relevance:
        """The judgements of the queries that were held out."""
        return self.relevance.of_queries(self.rows.is_new)

    def to_arrays(self) -> Arrays:
        """Return all of it as arrays."""
        rows, _ = self.rows.to_arrays()
        relevance = dict(self.relevance._asdict())
        clicks: Arrays = {}
        if self.clicks is not None:
            clicks = {**self.clicks._asdict()}
        return nested(rows=rows, relevance=relevance, clicks=clicks)

    @classmethod
    def from_arrays(
        cls,
        arrays: Arrays,
        n_documents: int,
        n_features: int,
        embedding_width: int = 0,
    ) -> Queries:
        """Return the queries of `to_arrays`; ValueError if they are damaged."""
        rows = Documents.from_arrays(
            part_of(arrays, "rows"), {}, n_features, embedding_width
        )
        judged = part_of(arrays, "relevance")
        queries = get_array(judged, "queries", "i", (None,))
        documents = get_array(judged, "documents", "i", queries.shape)
        grades = get_array(judged, "grades", "f", queries.shape)
        _check_row_numbers(queries, rows.n_rows, "query")
        _check_row_numbers(documents, n_documents, "document")
        clicks = None
        if "clicks.events" in arrays:
            n_rows = n_documents + rows.n_rows
            clicks = _shown_rows(part_of(arrays, "clicks"), n_rows)
        return cls(rows, Relevance(queries, documents, grades), clicks)


def _shown_rows(arrays: Arrays, n_rows: int) -> ShownRows:
    """Return what was shown; ValueError if it is damaged."""
    events = get_array(arrays, "events", "i", (None,))
    shown = ShownRows(
        events=events,
        queries=get_array(arrays, "queries", "i", events.shape),
        rows=get_array(arrays, "rows", "i", events.shape),
        positions=get_array(arrays, "positions", "f", events.shape),
        are_clicked=get_array(arrays, "are_clicked", "b", events.shape),
    )
    _check_row_numbers(shown.queries, n_rows, "row")
    _check_row_numbers(shown.rows, n_rows, "row")
    if not (np.isfinite(shown.positions) & (shown.positions >= 1)).all():
        raise ValueError("clicks have a position that is not a number from 1")
    return shown


def _check_row_numbers(numbers: np.ndarray, n_rows: int, noun: str) -> None:
    """Raise ValueError unless all are numbers of rows."""
    if len(numbers) and not (numbers.min() >= 0 and numbers.max() < n_rows):
        raise ValueError(f"judgements name a {noun} beyond the {n_rows} that there are")
