"""The nearest records of each, by several similarities, and the candidates of links.

Records are searched by the cosine, and as learned, both exactly. The nearest by spelling
are found by comparing those near by the cosine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from ..files.container import Arrays, get_array
from ..hdsl import HDSL
from ..neighbor_lists import Neighbors
from ..progress import Progress
from ..search import neighbors_between, top_k
from ..search.products import Columns
from .blocking import Blocks
from .blocks import row_blocks
from .features import RecordFeatures
from .nearest import DEPTH, NearestRecords, Standing
from .rows import Rows
from .similarity import learned_rows
from .tables import Rule, Tables
from .text import Vocabulary

#: Nearest records by the cosine, among which those by other similarities are.
NEAREST = 50

#: Records that are searched for together.
QUERIES_AT_A_TIME = 2**16

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


#: Nothing that comes into lists.
NO_ENTRIES = Entries(
    np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0)
)


class SearchedRecords:
    """Records of tables, and the nearest ones of each by two or three similarities.

    Records are searched by the cosine, and as learned where that is another similarity.
    Those nearest by spelling are among the nearest by the cosine.

    Parameters
    ----------
    tables : Tables
    records : RecordFeatures
    rules : sequence of Rule
        Columns that candidates agree in; without any, all records can be candidates.
    blocks : Blocks
        The records by these rules.
    rows : list of Rows
        What is searched: unit rows, and those as learned.
    near : list of NearestRecords
        What was found by each.
    spelling : NearestRecords
    """

    def __init__(
        self,
        tables: Tables,
        records: RecordFeatures,
        *,
        rules: Sequence[Rule],
        blocks: Blocks,
        rows: list[Rows],
        near: list[NearestRecords],
        spelling: NearestRecords,
    ) -> None:
        self.tables = tables
        self.records = records
        self.rules = rules
        self.blocks = blocks
        self.rows = rows
        self.near = near
        self.spelling = spelling
        self._columns: dict[tuple[str, int], Columns] = {}

    @classmethod
    def of_tables(
        cls,
        tables: Tables,
        rules: Sequence[Rule],
        n_jobs: int | None,
        progress: Progress,
    ) -> SearchedRecords:
        """Return the records of tables, searched by the cosine."""
        records = RecordFeatures.of_tables(tables)
        searched = cls(
            tables,
            records,
            rules=rules,
            blocks=Blocks.of_tables(tables, rules),
            rows=[records.unit_rows],
            near=[],
            spelling=NearestRecords.empty(tables.n_records, DEPTH),
        )
        every = np.arange(tables.n_records)
        progress.stage("searching by cosine")
        searched.near.append(searched.search(records.unit_rows, every, NEAREST, n_jobs))
        progress.stage("comparing by spelling")
        searched.compare_spelling(every, n_jobs)
        return searched

    def as_learned(
        self, model: HDSL | None, n_jobs: int | None, progress: Progress
    ) -> SearchedRecords:
        """Return the records, searched by a learned similarity too; None is the cosine."""
        if model is None:
            return self
        progress.stage("searching as learned")
        learned = learned_rows(model, self.records)
        every = np.arange(self.n_records)
        near = self.search(learned, every, DEPTH, n_jobs)
        return SearchedRecords(
            self.tables,
            self.records,
            rules=self.rules,
            blocks=self.blocks,
            rows=[*self.rows, learned],
            near=[*self.near, near],
            spelling=self.spelling,
        )

    @property
    def n_records(self) -> int:
        """How many records there are."""
        return self.tables.n_records

    @property
    def nearest(self) -> list[NearestRecords]:
        """The nearest records by spelling, by the cosine, and perhaps as learned."""
        return [self.spelling, *(near.first(DEPTH) for near in self.near)]

    @property
    def by_cosine(self) -> NearestRecords:
        """The nearest records by the cosine."""
        return self.near[0].first(DEPTH)

    @property
    def by_learned(self) -> NearestRecords:
        """The nearest records by what was learned, or by the cosine."""
        return self.near[-1].first(DEPTH)

    # --- pairs ------------------------------------------------------------------------

    def similarities(self, pairs: np.ndarray, n_jobs: int | None) -> list[np.ndarray]:
        """Return how alike pairs are by each similarity."""
        searched = [rows.products(pairs, n_jobs) for rows in self.rows]
        return [self.records.spelling(pairs, n_jobs), *searched]

    def standings(self, pairs: np.ndarray, n_jobs: int | None) -> list[Standing]:
        """Return where pairs stand by each similarity."""
        similarities = self.similarities(pairs, n_jobs)
        return [
            nearest.standing(pairs, similarity)
            for nearest, similarity in zip(self.nearest, similarities, strict=True)
        ]

    def standing_as_learned(
        self, learned: Rows, pairs: np.ndarray, n_jobs: int | None
    ) -> tuple[NearestRecords, Standing]:
        """Return the nearest records of pairs by other rows, and where they stand.

        Records that are in no pair have no list.
        """
        nearest = self.search(learned, np.unique(pairs), DEPTH, n_jobs)
        similarity = learned.products(pairs, n_jobs)
        return nearest, nearest.standing(pairs, similarity)

    # --- lists ------------------------------------------------------------------------

    def search(
        self, rows: Rows, records: np.ndarray, depth: int, n_jobs: int | None
    ) -> NearestRecords:
        """Return the nearest records of some, exactly; others have no list.

        Records are near those of the other table, or other ones of the only table.
        Records with nothing in common are not near.

        Parameters
        ----------
        rows : Rows
            Their products are the similarity.
        records : ndarray of shape (n_queries,)
            In rising order.
        depth : int
            Records of each list.
        n_jobs : int or None
        """
        X = rows.matrix(rows.width)
        nearest = NearestRecords.empty(self.n_records, depth)
        if self.blocks.has_rules:
            self._search_blocks(X, records, nearest, n_jobs)
            return nearest
        if self.tables.is_single and len(records) == self.n_records:
            hits = top_k(X, X, depth, exclude_self=True, n_jobs=n_jobs)
            is_near = (hits.rows >= 0) & (hits.scores > 0.0)
            nearest.neighbors[is_near] = hits.rows[is_near]
            nearest.scores[is_near] = hits.scores[is_near]
            return nearest
        is_left = records < self.tables.n_left
        for side, queries in (("left", records[is_left]), ("right", records[~is_left])):
            index = np.array(self.searched_range(side))
            for block in row_blocks(len(queries), QUERIES_AT_A_TIME):
                chunk = queries[block]
                hits = top_k(X[chunk], X[index], depth + 1, n_jobs=n_jobs)
                _add_found(nearest, hits, chunk, index)
        return nearest

    def _search_blocks(
        self,
        X: sp.csr_array,
        records: np.ndarray,
        nearest: NearestRecords,
        n_jobs: int | None,
    ) -> None:
        """Find the nearest records of some, of those that agree by a rule."""
        is_query = np.zeros(self.n_records, dtype=bool)
        is_query[records] = True
        depth = nearest.neighbors.shape[1]
        for group in self.blocks.groups(is_query, self.tables.n_left, GROUP_SIZE):
            hits, _ = neighbors_between(
                (X[group.queries], group.query_keys),
                (X[group.others], group.other_keys),
                depth + 1,
                0,
                n_jobs=n_jobs,
            )
            _add_found(nearest, hits, group.queries, group.others)

    def compare_spelling(self, records: np.ndarray, n_jobs: int | None) -> None:
        """Find the nearest records of some by spelling, among those by the cosine."""
        for block in row_blocks(len(records), LISTS_AT_A_TIME):
            chunk = records[block]
            entries = Entries.of_lists(self.near[0].take(chunk))
            pairs = np.column_stack([chunk[entries.rows], entries.records])
            scores = self.records.spelling(pairs, n_jobs)
            lists = entries._replace(scores=scores).lists(len(chunk), DEPTH)
            self.spelling.neighbors[chunk] = lists.neighbors
            self.spelling.scores[chunk] = lists.scores

    # --- later records ----------------------------------------------------------------

    def searched_range(self, side: str) -> range:
        """Return the records among which those of a side are searched."""
        n_left = self.tables.n_left
        if side == "left" and not self.tables.is_single:
            return range(n_left, self.n_records)
        return range(n_left)

    def columns(self, side: str, number: int) -> Columns:
        """Return the records among which those of a side are searched, by their columns.

        `number` is that of the rows.
        """
        if (side, number) not in self._columns:
            searched = self.searched_range(side)
            X = self.rows[number].matrix(self.rows[number].width)
            self._columns[side, number] = Columns(X[searched.start : searched.stop])
        return self._columns[side, number]

    # --- files ------------------------------------------------------------------------

    def to_arrays(self) -> Arrays:
        """Return what a file holds of the features and of the nearest records."""
        vocabulary = self.records.vocabulary
        arrays = {"idf": vocabulary.idf, "rarest": np.array([vocabulary.rarest])}
        for number, nearest in enumerate([self.spelling, *self.near]):
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
        rows = [records.unit_rows]
        if model is not None:
            rows.append(learned_rows(model, records))
        spelling, *near = (
            _nearest_of_file(arrays, number, tables.n_records)
            for number in range(1 + len(rows))
        )
        return cls(
            tables,
            records,
            rules=rules,
            blocks=Blocks.of_tables(tables, rules),
            rows=rows,
            near=near,
            spelling=spelling,
        )


def _add_found(
    nearest: NearestRecords, hits: Neighbors, queries: np.ndarray, index: np.ndarray
) -> None:
    """Write what was found into the lists of queries, beside what they have.

    No record is near itself.
    """
    rows, ranks = np.nonzero((hits.rows >= 0) & (hits.scores > 0.0))
    records = index[hits.rows[rows, ranks]]
    entries = Entries(rows, records, hits.scores[rows, ranks])
    entries = entries.where(queries[rows] != records)
    before = Entries.of_lists(nearest.take(queries))
    depth = nearest.neighbors.shape[1]
    lists = Entries.joined(before, entries).lists(len(queries), depth)
    nearest.neighbors[queries] = lists.neighbors
    nearest.scores[queries] = lists.scores


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
