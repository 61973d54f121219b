"""Records that were searched: the nearest ones of each by three similarities."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..files.container import Arrays
from ..files.tables import get_array
from ..hdsl import HDSL
from .layers import LayeredRows
from .nearest import NearestRecords, Standing
from .records import RecordFeatures
from .shortlist import Shortlist
from .sides import Sides
from .similarity import learned_layer
from .string_similarities import StringSimilarities
from .tables import Tables
from .vocabulary import TextReader, Tokens, Vocabulary


class SearchedRecords(NamedTuple):
    """Records of tables, and the nearest ones of each by two or three similarities.

    Attributes
    ----------
    tables : Tables
    records : RecordFeatures
    sides : Sides
        The records by spelling, by cosine, and as learned where that is another one.
    nearest : list of NearestRecords
        By each of these similarities.
    shortlist : Shortlist or None
        More of those by cosine, until a similarity is learned.
    """

    tables: Tables
    records: RecordFeatures
    sides: Sides
    nearest: list[NearestRecords]
    shortlist: Shortlist | None = None

    @classmethod
    def of_tables(cls, tables: Tables, n_jobs: int | None) -> SearchedRecords:
        """Return the records of tables, searched by spelling and by cosine."""
        records = RecordFeatures.of_tables(tables)
        sides = Sides(LayeredRows.of_records(records), tables.n_left)
        nearest, shortlist = sides.search(n_jobs)
        return cls(tables, records, sides, nearest, shortlist)

    def as_learned(self, model: HDSL | None, n_jobs: int | None) -> SearchedRecords:
        """Return the records, searched by a learned similarity too; None is the cosine."""
        if model is None or self.shortlist is None:
            return self._replace(shortlist=None)
        sides = self.sides.with_layer(learned_layer(model, self.records))
        by_learned = sides.search_last(self.shortlist, n_jobs)
        nearest = [*self.nearest, by_learned]
        return self._replace(sides=sides, nearest=nearest, shortlist=None)

    @property
    def n_records(self) -> int:
        """How many records there are."""
        return self.tables.n_records

    @property
    def by_cosine(self) -> NearestRecords:
        """The nearest records by the cosine."""
        return self.nearest[1]

    @property
    def by_learned(self) -> NearestRecords:
        """The nearest records by what was learned, or by the cosine."""
        return self.nearest[-1]

    def standings(self, pairs: np.ndarray, n_jobs: int | None) -> list[Standing]:
        """Return where pairs stand by each similarity."""
        similarities = self.sides.layered.similarities(pairs, n_jobs)
        return [
            nearest.standing(pairs, similarity)
            for nearest, similarity in zip(self.nearest, similarities, strict=True)
        ]

    def lone_features(self) -> dict[str, int]:
        """Return the record of each feature that no other has, so that it does not count."""
        tokens = Tokens.of_texts(self.tables.texts())
        reader = TextReader(self.records.vocabulary, keeps_missing=True)
        missing = reader.missing(tokens)
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
        model: HDSL | None,
    ) -> SearchedRecords:
        """Return what `to_arrays` was called on, from tables and names of features."""
        idf = get_array(arrays, "idf", "f", (len(names),))
        sizes = get_array(arrays, "vocabulary_sizes", "iu", (2,))
        n_first, n_texts = sizes.tolist()
        vocabulary = Vocabulary(names, idf, n_first, n_texts)
        strings = StringSimilarities.of_tables(tables, column_kinds)
        records = RecordFeatures.of_tables(tables, TextReader(vocabulary), strings)
        layered = LayeredRows.of_records(records)
        if model is not None:
            layered = layered.with_layer(learned_layer(model, records))
        nearest = [
            _nearest_of_file(arrays, number, tables.n_records)
            for number in range(layered.n_layers)
        ]
        return cls(tables, records, Sides(layered, tables.n_left), nearest)


def check_numbers(numbers: np.ndarray, n_records: int, what: str) -> np.ndarray:
    """Return numbers of records; raise ValueError where there is no such record."""
    if numbers.size and not -1 <= numbers.min() <= numbers.max() < n_records:
        raise ValueError(f"{what} number records that are not there")
    return numbers.astype(np.int64)


def _nearest_of_file(arrays: Arrays, number: int, n_records: int) -> NearestRecords:
    name = f"neighbors{number}"
    stored = get_array(arrays, name, "iu", (n_records, None))
    neighbors = check_numbers(stored, n_records, name).astype(np.int32)
    scores = get_array(arrays, f"scores{number}", "f", neighbors.shape)
    return NearestRecords(neighbors, np.where(neighbors < 0, -np.inf, scores))
