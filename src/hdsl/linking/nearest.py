"""The nearest records of each, and where pairs stand among them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .blocks import row_blocks

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
