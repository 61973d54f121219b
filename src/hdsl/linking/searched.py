"""Records that were searched: the nearest ones of each by three similarities."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from ..files.container import Arrays
from ..files.tables import get_array
from .layers import LayeredIndex, LayeredRows
from .nearest import NearestRecords
from .records import RecordFeatures
from .tables import Tables
from .vocabulary import Tokens, Vocabulary

#: Returns rows whose dot products are the learned similarity.
Rewrite = Callable[[sp.csr_array], sp.csr_array]


class SearchedRecords(NamedTuple):
    """Records of tables, and the nearest ones of each by three similarities."""

    tables: Tables
    records: RecordFeatures
    by_spelling: NearestRecords
    by_cosine: NearestRecords
    by_learned: NearestRecords

    @classmethod
    def of_tables(cls, tables: Tables, n_jobs: int | None) -> SearchedRecords:
        """Return the records of tables, searched by spelling and by cosine."""
        records = RecordFeatures.of_tables(tables)
        by_spelling, by_cosine = NearestRecords.search_layers(
            records, tables.n_left, n_jobs
        )
        return cls(
            tables=tables,
            records=records,
            by_spelling=by_spelling,
            by_cosine=by_cosine,
            by_learned=by_cosine,
        )

    def as_learned(
        self, rewrite: Rewrite | None, n_jobs: int | None
    ) -> SearchedRecords:
        """Return the records, searched by a learned similarity too; None is the cosine."""
        if rewrite is None:
            return self
        rows = rewrite(self.records.X)
        by_learned = NearestRecords.search(rows, self.tables.n_left, n_jobs)
        return self._replace(by_learned=by_learned)

    @property
    def nearest(self) -> list[NearestRecords]:
        """The nearest records by each similarity that is one of its own."""
        if self.by_learned is self.by_cosine:
            return [self.by_spelling, self.by_cosine]
        return [self.by_spelling, self.by_cosine, self.by_learned]

    def searched_records(self, side: str) -> slice:
        """Return the records among which those of a side are searched."""
        n_left = self.tables.n_left
        if self.tables.is_single:
            return slice(0, n_left)
        if side == "left":
            return slice(n_left, self.tables.n_records)
        return slice(0, n_left)

    def side_index(self, side: str) -> LayeredIndex:
        """Return an index of the records among which those of a side are searched."""
        learned = None
        if self.by_learned is not self.by_cosine:
            learned = self.by_learned.X
        layered = LayeredRows.of_records(self.records, learned)
        return LayeredIndex(layered.take(self.searched_records(side)))

    def lone_features(self) -> dict[str, int]:
        """Return the record of each feature that no other has, so that it does not count."""
        tokens = Tokens.of_texts(self.tables.texts())
        missing = self.records.vocabulary.missing(tokens)
        return {name: record for record, names in enumerate(missing) for name in names}

    def to_arrays(self) -> Arrays:
        """Return what a file holds of the features and of the nearest records."""
        vocabulary = self.records.vocabulary
        sizes = np.array([vocabulary.n_first, vocabulary.n_texts])
        arrays = {"idf": vocabulary.idf, "vocabulary_sizes": sizes}
        for number, nearest in enumerate(self.nearest):
            arrays[f"neighbors{number}"] = nearest.neighbors.astype(np.int32)
            arrays[f"scores{number}"] = np.where(
                nearest.neighbors < 0, 0.0, nearest.scores
            )
        return arrays

    @classmethod
    def from_arrays(
        cls,
        arrays: Arrays,
        tables: Tables,
        names: list[str],
        column_kinds: dict[str, str],
        rewrite: Rewrite | None,
    ) -> SearchedRecords:
        """Return what `to_arrays` was called on, from tables and names of features."""
        idf = get_array(arrays, "idf", "f", (len(names),))
        sizes = get_array(arrays, "vocabulary_sizes", "iu", (2,))
        n_first, n_texts = sizes.tolist()
        vocabulary = Vocabulary(names, idf, n_first, n_texts)
        records = RecordFeatures.of_tables(tables, vocabulary, column_kinds)
        rows = [records.grams, records.X]
        if rewrite is not None:
            rows.append(rewrite(records.X))
        nearest = [_nearest_of_file(arrays, number, X) for number, X in enumerate(rows)]
        return cls(tables, records, nearest[0], nearest[1], nearest[-1])


def check_numbers(numbers: np.ndarray, n_records: int, what: str) -> np.ndarray:
    """Return numbers of records; raise ValueError where there is no such record."""
    if numbers.size and not -1 <= numbers.min() <= numbers.max() < n_records:
        raise ValueError(f"{what} number records that are not there")
    return numbers.astype(np.int64)


def _nearest_of_file(arrays: Arrays, number: int, X: sp.csr_array) -> NearestRecords:
    n_records = X.shape[0]
    name = f"neighbors{number}"
    stored = get_array(arrays, name, "iu", (n_records, None))
    neighbors = check_numbers(stored, n_records, name)
    scores = get_array(arrays, f"scores{number}", "f", neighbors.shape)
    return NearestRecords(X, neighbors, np.where(neighbors < 0, -np.inf, scores))
