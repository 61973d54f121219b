"""The nearest records of each, by several similarities, and the candidates of links.

Records are searched once, by the cosine: the first `NEAREST` of each are exact. Of
these, the nearest by spelling and as learned are found by comparing them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ..files.container import Arrays
from ..files.tables import get_array
from ..hdsl import HDSL
from ..neighbor_lists import Neighbors
from ..progress import Progress
from ..search import neighbors_between, top_k
from ..search.products import Columns
from .blocking import Blocks
from .blocks import row_blocks
from .features import RecordFeatures
from .nearest import DEPTH, NearestRecords, Standing
from .similarity import LearnedRows, learned_rows
from .tables import Rule, Tables
from .text import Vocabulary

#: Nearest records by the cosine, among which those by other similarities are.
NEAREST = 50

#: Records that are searched for together, so that progress is shown.
QUERIES_AT_A_TIME = 2**14

#: Records of blocks that are searched together.
GROUP_SIZE = 2**12

#: Lists that are compared at a time.
LISTS_AT_A_TIME = 2**14


class Entries(NamedTuple):
    """Records that come into lists: the row of each list, the record and its score."""

    rows: np.ndarray
    records: np.ndarray
    scores: np.ndarray

    @classmethod
    def of_lists(cls, nearest: NearestRecords) -> Entries:
        """Return what lists hold."""
        rows, ranks = np.nonzero(nearest.neighbors >= 0)
        neighbors = nearest.neighbors[rows, ranks].astype(np.int64)
        return cls(rows, neighbors, nearest.scores[rows, ranks])

    def where(self, is_kept: np.ndarray) -> Entries:
        """Return some of the entries, by a mask."""
        return Entries(*(column[is_kept] for column in self))

    @classmethod
    def joined(cls, *several: Entries) -> Entries:
        """Return all entries together."""
        return cls(*map(np.concatenate, zip(*several, strict=True)))

    def lists(self, n_lists: int, depth: int) -> NearestRecords:
        """Return the first entries of each list, best first, of equal ones the first.

        An entry that comes twice counts once.
        """
        order = np.lexsort((self.records, -self.scores, self.rows))
        rows, records, scores = (column[order] for column in self)
        is_again = np.zeros(len(rows), dtype=bool)
        is_again[1:] = (rows[1:] == rows[:-1]) & (records[1:] == records[:-1])
        rows, records, scores = (each[~is_again] for each in (rows, records, scores))
        rank = np.arange(len(rows)) - np.searchsorted(rows, rows)
        is_kept = rank < depth
        nearest = NearestRecords.empty(n_lists, depth)
        nearest.neighbors[rows[is_kept], rank[is_kept]] = records[is_kept]
        nearest.scores[rows[is_kept], rank[is_kept]] = scores[is_kept]
        return nearest


class SearchedRecords:
    """Records of tables, and the nearest ones of each by two or three similarities.

    Parameters
    ----------
    tables : Tables
    records : RecordFeatures
    rules : sequence of Rule
        Columns that candidates agree in; without any, all records can be candidates.
    blocks : Blocks
        The records by these rules.
    near : NearestRecords
        The first `NEAREST` records of each by the cosine.
    learned : LearnedRows or None
        Records as learned, where that is not the cosine.
    nearest : list of NearestRecords
        By spelling, by the cosine, and as learned where that is another one.
    """

    def __init__(
        self,
        tables: Tables,
        records: RecordFeatures,
        *,
        rules: Sequence[Rule],
        blocks: Blocks,
        near: NearestRecords,
        learned: LearnedRows | None,
        nearest: list[NearestRecords],
    ) -> None:
        self.tables = tables
        self.records = records
        self.rules = rules
        self.blocks = blocks
        self.near = near
        self.learned = learned
        self.nearest = nearest
        self._columns: dict[range, Columns] = {}

    @classmethod
    def of_tables(
        cls,
        tables: Tables,
        rules: Sequence[Rule],
        n_jobs: int | None,
        progress: Progress,
    ) -> SearchedRecords:
        """Return the records of tables, searched by the cosine and by spelling."""
        records = RecordFeatures.of_tables(tables)
        blocks = Blocks.of_tables(tables, rules)
        searched = cls(
            tables,
            records,
            rules=rules,
            blocks=blocks,
            near=search(records, blocks, tables.n_left, n_jobs, progress),
            learned=None,
            nearest=[],
        )
        every = np.arange(tables.n_records)
        progress.stage("comparing by spelling")
        searched.nearest = searched.nearest_of(every, n_jobs)
        return searched

    def as_learned(
        self, model: HDSL | None, n_jobs: int | None, progress: Progress
    ) -> SearchedRecords:
        """Return the records, compared by a learned similarity too; None is the cosine."""
        if model is None:
            return self
        progress.stage("comparing as learned")
        learned = learned_rows(model, self.records)
        every = np.arange(self.tables.n_records)
        nearest = [*self.nearest, self.nearest_as_learned(learned, every, n_jobs)]
        return SearchedRecords(
            self.tables,
            self.records,
            rules=self.rules,
            blocks=self.blocks,
            near=self.near,
            learned=learned,
            nearest=nearest,
        )

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

    # --- pairs ------------------------------------------------------------------------

    def similarities(self, pairs: np.ndarray, n_jobs: int | None) -> list[np.ndarray]:
        """Return how alike pairs are by each similarity."""
        cosine = self.records.unit_rows.products(pairs, n_jobs)
        every = [self.records.spelling(pairs, n_jobs), cosine]
        if self.learned is not None:
            every.append(self.learned.similarity(pairs, cosine, n_jobs))
        return every

    def standings(self, pairs: np.ndarray, n_jobs: int | None) -> list[Standing]:
        """Return where pairs stand by each similarity."""
        similarities = self.similarities(pairs, n_jobs)
        return [
            nearest.standing(pairs, similarity)
            for nearest, similarity in zip(self.nearest, similarities, strict=True)
        ]

    def standing_as_learned(
        self, learned: LearnedRows, pairs: np.ndarray, n_jobs: int | None
    ) -> tuple[NearestRecords, Standing]:
        """Return the nearest records of pairs by another similarity, and where they stand.

        Records that are in no pair have no list.
        """
        records = np.unique(pairs)
        nearest = NearestRecords.empty(self.n_records, DEPTH)
        of_pairs = self.nearest_as_learned(learned, records, n_jobs)
        nearest.neighbors[records] = of_pairs.neighbors
        nearest.scores[records] = of_pairs.scores
        cosine = self.records.unit_rows.products(pairs, n_jobs)
        similarity = learned.similarity(pairs, cosine, n_jobs)
        return nearest, nearest.standing(pairs, similarity)

    # --- lists ------------------------------------------------------------------------

    def nearest_of(
        self, records: np.ndarray, n_jobs: int | None
    ) -> list[NearestRecords]:
        """Return the nearest records of some, by each similarity."""

        def spelling(pairs: np.ndarray, cosine: np.ndarray) -> np.ndarray:
            return self.records.spelling(pairs, n_jobs)

        every = [
            self._nearest(records, spelling),
            NearestRecords(
                self.near.neighbors[records, :DEPTH], self.near.scores[records, :DEPTH]
            ),
        ]
        if self.learned is not None:
            every.append(self.nearest_as_learned(self.learned, records, n_jobs))
        return every

    def nearest_as_learned(
        self, learned: LearnedRows, records: np.ndarray, n_jobs: int | None
    ) -> NearestRecords:
        """Return the nearest records of some, as learned."""

        def similarity(pairs: np.ndarray, cosine: np.ndarray) -> np.ndarray:
            return learned.similarity(pairs, cosine, n_jobs)

        return self._nearest(records, similarity)

    def _nearest(
        self,
        records: np.ndarray,
        similarity: Callable[[np.ndarray, np.ndarray], np.ndarray],
    ) -> NearestRecords:
        """Return the nearest of the records near some, by a similarity.

        `similarity` takes pairs, and their cosines.
        """
        nearest = NearestRecords.empty(len(records), DEPTH)
        for block in row_blocks(len(records), LISTS_AT_A_TIME):
            some = records[block]
            near = NearestRecords(self.near.neighbors[some], self.near.scores[some])
            entries = Entries.of_lists(near)
            pairs = np.column_stack([some[entries.rows], entries.records])
            scores = similarity(pairs, entries.scores)
            lists = entries._replace(scores=scores).lists(len(some), DEPTH)
            nearest.neighbors[block] = lists.neighbors
            nearest.scores[block] = lists.scores
        return nearest

    # --- later records ----------------------------------------------------------------

    def columns(self, side: str) -> Columns:
        """Return the records among which those of a side are searched, by their columns."""
        searched = searched_range(side, self.tables.n_left, self.n_records)
        if searched not in self._columns:
            X = self.records.matrix(slice(searched.start, searched.stop))
            self._columns[searched] = Columns(X)
        return self._columns[searched]

    # --- files ------------------------------------------------------------------------

    def to_arrays(self) -> Arrays:
        """Return what a file holds of the features and of the nearest records."""
        vocabulary = self.records.vocabulary
        arrays = {"idf": vocabulary.idf, "rarest": np.array([vocabulary.rarest])}
        for number, nearest in enumerate([self.near, *self.nearest]):
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
        rules: Sequence[Rule],
        model: HDSL | None,
    ) -> SearchedRecords:
        """Return what `to_arrays` was called on, from tables and names of features."""
        idf = get_array(arrays, "idf", "f", (None,))
        rarest = get_array(arrays, "rarest", "f", (1,))
        if len(idf) > len(names) or len({*names}) < len(names):
            raise ValueError("idf has more features than there are names")
        vocabulary = Vocabulary(names, idf, float(rarest[0]))
        records = RecordFeatures.of_tables(tables, vocabulary, column_kinds)
        learned = None
        if model is not None:
            learned = learned_rows(model, records)
        n_similarities = 2 + (learned is not None)
        near, *nearest = (
            _nearest_of_file(arrays, number, tables.n_records)
            for number in range(1 + n_similarities)
        )
        return cls(
            tables,
            records,
            rules=rules,
            blocks=Blocks.of_tables(tables, rules),
            near=near,
            learned=learned,
            nearest=nearest,
        )


def searched_range(side: str, n_left: int, n_records: int) -> range:
    """Return the records among which those of a side are searched.

    Examples
    --------
    >>> searched_range("left", 2, 5), searched_range("right", 2, 5)
    (range(2, 5), range(0, 2))
    >>> searched_range("left", 5, 5)
    range(0, 5)
    """
    if side == "left" and n_left < n_records:
        return range(n_left, n_records)
    return range(n_left)


def search(
    records: RecordFeatures,
    blocks: Blocks,
    n_left: int,
    n_jobs: int | None,
    progress: Progress,
) -> NearestRecords:
    """Return the first `NEAREST` records of each by the cosine, of the other table.

    Of one table, they are other records. Records without a common feature are not near.
    """
    X = records.matrix()
    n_records = X.shape[0]
    near = NearestRecords.empty(n_records, NEAREST)
    if blocks.has_rules:
        groups = [*blocks.groups(n_left, GROUP_SIZE)]
        progress.stage("searching by cosine", len(groups))
        every = []
        for group in progress.each(groups):
            found, _ = neighbors_between(
                (X[group.queries], group.query_keys),
                (X[group.index], group.index_keys),
                NEAREST,
                0,
                exclude_self=n_left == n_records,
                n_jobs=n_jobs,
            )
            every.append(_entries(found, group.queries, group.index))
        if every:
            return Entries.joined(*every).lists(n_records, NEAREST)
        return near
    sides = ("left",) if n_left == n_records else ("left", "right")
    progress.stage("searching by cosine", len(sides))
    for side in progress.each(sides):
        queries = range(n_left) if side == "left" else range(n_left, n_records)
        searched = searched_range(side, n_left, n_records)
        found = top_k(
            X[queries.start : queries.stop],
            X[searched.start : searched.stop],
            NEAREST,
            exclude_self=n_left == n_records,
            n_jobs=n_jobs,
        )
        is_near = (found.rows >= 0) & (found.scores > 0.0)
        rows = slice(queries.start, queries.stop)
        near.neighbors[rows] = np.where(is_near, found.rows + searched.start, -1)
        near.scores[rows] = np.where(is_near, found.scores, -np.inf)
    return near


def _entries(found: Neighbors, queries: np.ndarray, index: np.ndarray) -> Entries:
    """Return what was found, by the numbers of records."""
    rows, ranks = np.nonzero((found.rows >= 0) & (found.scores > 0.0))
    return Entries(
        queries[rows], index[found.rows[rows, ranks]], found.scores[rows, ranks]
    )


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
