"""The nearest records of each, by several similarities, and the candidates of links.

Records are searched by the cosine, and as learned, both exactly. The nearest by spelling
are found by comparing those near by the cosine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..files.container import Arrays, get_array
from ..hdsl import HDSL
from ..neighbor_lists import Neighbors
from ..progress import Progress
from ..rows import unit_rows
from ..search import neighbors_between, top_k
from ..search.products import Columns
from ..similarity import Similarity
from .features import RecordFeatures
from .rows import Rows, Vocabulary, folded, row_blocks
from .tables import Rule, Table, Tables

#: What separates the values of several columns.
SEPARATOR = "\x1f"


def blocking_rules(block_on: Any) -> list[Rule]:
    """Return the columns of each rule; candidates agree in all columns of one of them.

    Examples
    --------
    >>> blocking_rules(["email", ("surname", "postcode")])
    [('email',), ('surname', 'postcode')]
    """
    if block_on is None:
        return []
    rules = block_on if isinstance(block_on, list) else [block_on]
    rules = [(rule,) if isinstance(rule, str) else rule for rule in rules]
    if not rules or not all(map(_is_rule, rules)):
        raise ValueError(
            "block_on must be a column, or a list of columns and of tuples of columns. "
            f"Got {block_on!r}."
        )
    return rules


def _is_rule(rule: Any) -> bool:
    is_tuple = isinstance(rule, tuple) and len(rule) > 0
    return is_tuple and all(isinstance(name, str) for name in rule)


class Group(NamedTuple):
    """Whole blocks: records to search for, records among which they are, and their keys."""

    queries: np.ndarray
    others: np.ndarray
    query_keys: np.ndarray
    other_keys: np.ndarray


class Blocks:
    """The keys of records by each rule: candidates have the same key by one of them.

    Parameters
    ----------
    keys : ndarray of int64 of shape (n_rules, n_records)
        0 where a value is missing: such a record has no candidate by the rule. Without
        any rule, all records can be candidates.
    """

    def __init__(self, keys: np.ndarray) -> None:
        self.keys = keys

    @classmethod
    def of_tables(cls, tables: Tables, rules: Sequence[Rule]) -> Blocks:
        """Return the keys of the records of tables."""
        keys = np.zeros((len(rules), tables.n_records), dtype=np.int64)
        for number, rule in enumerate(rules):
            keys[number] = np.concatenate(
                [_keys_of(table, rule) for table in tables.each]
            )
        return cls(keys)

    @property
    def has_rules(self) -> bool:
        """Whether only some records can be candidates of each other."""
        return len(self.keys) > 0

    def joined(self, later: Blocks, records: np.ndarray) -> Blocks:
        """Return some of these records and of later ones, numbered after these."""
        return Blocks(np.concatenate([self.keys, later.keys], axis=1)[:, records])

    def agree(
        self, records: np.ndarray, others: Blocks, numbers: np.ndarray
    ) -> np.ndarray:
        """Return whether records and others, by number, can be candidates of each other."""
        if not self.has_rules:
            return np.ones(len(records), dtype=bool)
        agree = np.zeros(len(records), dtype=bool)
        for keys, other_keys in zip(self.keys, others.keys, strict=True):
            key = keys[records]
            agree |= (key != 0) & (key == other_keys[numbers])
        return agree

    def groups(self, is_query: np.ndarray, n_left: int, size: int) -> Iterator[Group]:
        """Yield groups of blocks, of each rule and side, of about `size` records.

        A block that is larger is a group of its own. `is_query` says which records are
        searched for.
        """
        for keys in self.keys:
            order = np.argsort(keys, kind="stable")
            order = order[keys[order] != 0]
            bounds = np.flatnonzero(np.diff(keys[order], prepend=0, append=0))
            start = 0
            for first, end in pairwise(bounds.tolist()):
                if end - start > size and first > start:
                    records = np.sort(order[start:first])
                    yield from _groups_of(records, is_query, keys, n_left)
                    start = first
            yield from _groups_of(np.sort(order[start:]), is_query, keys, n_left)


def _groups_of(
    records: np.ndarray, is_query: np.ndarray, keys: np.ndarray, n_left: int
) -> Iterator[Group]:
    """Yield records of whole blocks, as those of each side search the other one."""
    if n_left == len(keys):
        sides = [(records, records)]
    else:
        left = records[records < n_left]
        right = records[records >= n_left]
        sides = [(left, right), (right, left)]
    for queries, others in sides:
        queries = queries[is_query[queries] & np.isin(keys[queries], keys[others])]
        if len(queries):
            _, codes = np.unique(
                np.concatenate([keys[queries], keys[others]]), return_inverse=True
            )
            yield Group(queries, others, codes[: len(queries)], codes[len(queries) :])


def _keys_of(table: Table, rule: Rule) -> np.ndarray:
    """Return the keys of the records of a table, 0 where a value is missing."""
    values = [list(map(folded, table.blocked[name])) for name in rule]
    texts = [
        SEPARATOR.join(parts) if all(parts) else ""
        for parts in zip(*values, strict=True)
    ]
    key_of = {text: _key(text) for text in {*texts}}
    return np.array([key_of[text] for text in texts], dtype=np.int64)


def _key(text: str) -> int:
    """Return a number that hardly another text has; 0 where it is empty."""
    if not text:
        return 0
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True) or 1


#: Nearest records that are known of each, among which a pair has its ranks.
DEPTH = 20

#: Nearest records that are candidates.
N_CANDIDATES = 10

#: Scores that differ by less have the same rank.
SAME_SCORE = 1e-12


class Standing(NamedTuple):
    """Where pairs stand among the nearest records of both ends, one number per pair.

    The lead is the score minus that of the best other record, or minus 0. Ranks count
    from 1.
    """

    score: np.ndarray
    lead_left: np.ndarray
    lead_right: np.ndarray
    rank_left: np.ndarray
    rank_right: np.ndarray

    @classmethod
    def empty(cls, n_pairs: int) -> Standing:
        """Return arrays to fill."""
        return cls(*(np.empty(n_pairs) for _ in cls._fields))

    @classmethod
    def concatenate(cls, standings: list[Standing]) -> Standing:
        """Return where all pairs stand, those of the first standing first."""
        return cls(*map(np.concatenate, zip(*standings, strict=True)))

    def fill(self, rows: Any, standing: Standing) -> None:
        """Write the numbers of some of the pairs, by a slice or a mask."""
        for column, values in zip(self, standing, strict=True):
            column[rows] = values


class NearestRecords:
    """The nearest records of each one, of the other table, or of the only one.

    Parameters
    ----------
    neighbors, scores : ndarray of shape (n_records, depth)
        Nearest records of each, best first, and their scores. Where there is none: -1
        and -inf, which need not be at the end.
    """

    def __init__(self, neighbors: np.ndarray, scores: np.ndarray) -> None:
        self.neighbors = neighbors
        self.scores = scores

    @classmethod
    def empty(cls, n_records: int, depth: int) -> NearestRecords:
        """Return lists to fill."""
        shape = (n_records, depth)
        return cls(np.full(shape, -1, dtype=np.int32), np.full(shape, -np.inf))

    def take(self, records: np.ndarray) -> NearestRecords:
        """Return the lists of some records."""
        return NearestRecords(self.neighbors[records], self.scores[records])

    def first(self, depth: int) -> NearestRecords:
        """Return the beginnings of the lists."""
        return NearestRecords(self.neighbors[:, :depth], self.scores[:, :depth])

    def candidates(self) -> np.ndarray:
        """Return the pairs of each record with its nearest ones, each pair once."""
        is_pair = is_candidate(self.neighbors)
        records, _ = np.nonzero(is_pair)
        pairs = np.column_stack([records, self.neighbors[is_pair]])
        return unique_pairs(np.sort(pairs, axis=1))

    def standing(self, pairs: np.ndarray, score: np.ndarray) -> Standing:
        """Return where pairs stand among the nearest records of both ends.

        `score` is the similarity of each pair.
        """
        standing = Standing.empty(len(pairs))
        for rows in row_blocks(len(pairs)):
            standing.fill(rows, self._standing(pairs[rows], score[rows]))
        return standing

    def _standing(self, pairs: np.ndarray, score: np.ndarray) -> Standing:
        rivals_of_left = self._rivals(pairs[:, 0], pairs[:, 1])
        rivals_of_right = self._rivals(pairs[:, 1], pairs[:, 0])
        return Standing(
            score=score,
            lead_left=_lead(score, rivals_of_left),
            lead_right=_lead(score, rivals_of_right),
            rank_left=_rank(score, rivals_of_left),
            rank_right=_rank(score, rivals_of_right),
        )

    def _rivals(self, records: np.ndarray, partners: np.ndarray) -> np.ndarray:
        """Return the scores of records with their nearest ones but for their partners."""
        is_partner = self.neighbors[records] == partners[:, None]
        return np.where(is_partner, -np.inf, self.scores[records])


def is_candidate(neighbors: np.ndarray) -> np.ndarray:
    """Return which of the nearest records are candidates: the first ones of each list."""
    is_neighbor = neighbors >= 0
    return is_neighbor & (is_neighbor.cumsum(axis=1) <= N_CANDIDATES)


def unique_pairs(pairs: np.ndarray) -> np.ndarray:
    """Return each of some pairs of numbers once, sorted.

    Examples
    --------
    >>> unique_pairs(np.array([[1, 2], [0, 3], [1, 2]])).tolist()
    [[0, 3], [1, 2]]
    """
    width = 1 + pairs.max(initial=0)
    codes = np.unique(pairs[:, 0] * width + pairs[:, 1])
    return np.column_stack(np.divmod(codes, width))


def _lead(score: np.ndarray, rivals: np.ndarray) -> np.ndarray:
    return score - np.maximum(rivals.max(axis=1), 0.0)


def _rank(score: np.ndarray, rivals: np.ndarray) -> np.ndarray:
    return 1 + (rivals > score[:, None] + SAME_SCORE).sum(axis=1)


def widened(model: HDSL, n_features: int) -> Similarity:
    """Return what was learned, for rows with later features that nothing is learned of."""
    return replace(model.similarity_, n_features=n_features)


def learned_rows(model: HDSL, records: RecordFeatures) -> Rows:
    """Return records as learned: their products are the learned cosine.

    Pairs of features come first, then the features of the cosine, later ones last.
    """
    X = records.matrix()
    similarity = widened(model, X.shape[1])
    return Rows.stacked(
        [
            Rows.of_matrix(sp.csr_array(unit_rows(similarity.transform(X[block]))))
            for block in row_blocks(records.n_records)
        ]
    )


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

    Records are searched by the cosine, and by the learned similarity if there is one.
    The nearest by spelling are taken from the nearest by cosine.

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

        Near records are in the other table, or in the only one. Records with nothing in
        common are not near.

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
