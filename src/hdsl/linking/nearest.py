"""The nearest records of each, and where pairs stand among them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..search import top_k
from ..similarity.products import row_products
from .blocks import row_blocks
from .layers import LayeredIndex, LayeredRows
from .records import RecordFeatures

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

    def score_by_rank(self) -> np.ndarray:
        """Return scores divided by ranks: the order of pairs where nothing is learned."""
        score = np.clip(self.score, 0.0, 1.0)
        return score / np.sqrt(self.rank_left * self.rank_right)


class NearestRecords:
    """The nearest records of each one, of the other table, or of the only one.

    Parameters
    ----------
    X : csr_array of shape (n_records, n_features)
        Rows whose dot products are the scores.
    neighbors, scores : ndarray of shape (n_records, depth)
        Nearest records of each, best first, and their scores. Where there is none: -1
        and -inf, which need not be at the end.
    """

    def __init__(
        self, X: sp.csr_array, neighbors: np.ndarray, scores: np.ndarray
    ) -> None:
        self.X = X
        self.neighbors = neighbors
        self.scores = scores

    @classmethod
    def search(
        cls, X: sp.csr_array, n_left: int, n_jobs: int | None, records: Any = None
    ) -> NearestRecords:
        """Return the nearest records by the dot products of rows.

        Parameters
        ----------
        X : csr_array of shape (n_records, n_features)
        n_left : int
            Records of the left table; all of them if there is one table.
        n_jobs : int or None
        records : array of int, default=None
            Records to search for; None is all.
        """
        nearest = cls(X, *_empty_lists(X.shape[0], n_left))
        records = np.arange(X.shape[0]) if records is None else np.unique(records)
        for side in _sides(X.shape[0], n_left, records):
            found = top_k(
                X[side.queries], X[side.searched], nearest.depth, n_jobs=n_jobs
            )
            nearest._fill(side, found.rows, found.scores)
        nearest._drop_self()
        return nearest

    @classmethod
    def search_layers(
        cls, records: RecordFeatures, n_left: int, n_jobs: int | None
    ) -> tuple[NearestRecords, NearestRecords]:
        """Return the nearest records by spelling and by cosine, searched for at once."""
        n = records.X.shape[0]
        layered = LayeredRows.of_records(records)
        by_spelling = cls(records.grams, *_empty_lists(n, n_left))
        by_cosine = cls(records.X, *_empty_lists(n, n_left))
        for side in _sides(n, n_left, np.arange(n)):
            index = LayeredIndex(layered.take(side.searched))
            queries = layered.take(side.queries)
            neighbors, scores = index.top(queries, by_cosine.depth, n_jobs)
            for layer, nearest in enumerate([by_spelling, by_cosine]):
                nearest._fill(side, neighbors[layer], scores[layer])
        by_spelling._drop_self()
        by_cosine._drop_self()
        return by_spelling, by_cosine

    @property
    def depth(self) -> int:
        """Longest list of nearest records, a record itself included in one table."""
        return self.neighbors.shape[1]

    def _fill(self, side: Side, neighbors: np.ndarray, scores: np.ndarray) -> None:
        """Write the nearest records of the queries, numbered from that of the index on."""
        is_empty = neighbors < 0
        first_row = side.searched.start
        self.neighbors[side.queries] = np.where(is_empty, -1, neighbors + first_row)
        self.scores[side.queries] = scores

    def _drop_self(self) -> None:
        """Remove each record from its own neighbors."""
        is_self = self.neighbors == np.arange(len(self.neighbors))[:, None]
        self.neighbors[is_self] = -1
        self.scores[is_self] = -np.inf

    def candidates(self) -> np.ndarray:
        """Return the pairs of each record with its nearest ones, each pair once."""
        is_pair = is_candidate(self.neighbors)
        records, _ = np.nonzero(is_pair)
        pairs = np.column_stack([records, self.neighbors[is_pair]])
        return np.unique(np.sort(pairs, axis=1), axis=0)

    def standing(self, pairs: np.ndarray) -> Standing:
        """Return where pairs stand among the nearest records of both ends."""
        standing = Standing.empty(len(pairs))
        for rows in row_blocks(len(pairs)):
            standing.fill(rows, self._standing(pairs[rows, 0], pairs[rows, 1]))
        return standing

    def _standing(self, left: np.ndarray, right: np.ndarray) -> Standing:
        score = row_products(self.X[left], self.X[right])
        rivals_of_left = self._rivals(left, right)
        rivals_of_right = self._rivals(right, left)
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


class Side(NamedTuple):
    """Records to search for, and the rows among which they are searched."""

    queries: np.ndarray
    searched: slice


def _sides(n_records: int, n_left: int, records: np.ndarray) -> list[Side]:
    """Return the searches among the only table, or of each table in the other one."""
    if n_left == n_records:
        return [Side(records, slice(0, n_records))]
    left = records[records < n_left]
    right = records[records >= n_left]
    return [Side(left, slice(n_left, n_records)), Side(right, slice(0, n_left))]


def _empty_lists(n_records: int, n_left: int) -> tuple[np.ndarray, np.ndarray]:
    """Return lists of nearest records without any yet, and their scores."""
    depth = DEPTH
    if n_left == n_records:
        depth += 1  # each finds itself
    shape = (n_records, depth)
    return np.full(shape, -1), np.full(shape, -np.inf)


def _lead(score: np.ndarray, rivals: np.ndarray) -> np.ndarray:
    return score - np.maximum(rivals.max(axis=1), 0.0)


def _rank(score: np.ndarray, rivals: np.ndarray) -> np.ndarray:
    return 1 + (rivals > score[:, None] + SAME_SCORE).sum(axis=1)
