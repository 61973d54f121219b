"""The nearest records of each, and where pairs stand among them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..search import top_k
from ..similarity.products import row_products
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
    n_left : int
        Records of the left table; all of them if there is one table.
    n_jobs : int or None
    records : array of int, default=None
        Records to search for; None is all.
    """

    def __init__(
        self, X: sp.csr_array, n_left: int, n_jobs: int | None, records: Any = None
    ) -> None:
        n = X.shape[0]
        is_single = n_left == n
        depth = DEPTH
        if is_single:
            depth += 1  # each finds itself
        self.X = X
        self.neighbors = np.full((n, depth), -1)
        self.scores = np.full((n, depth), -np.inf)
        records = np.arange(n) if records is None else np.unique(records)
        left = records[records < n_left]
        right = records[records >= n_left]
        if is_single:
            self._search(left, X, first_row=0, n_jobs=n_jobs)
            self._drop_self()
        else:
            self._search(left, X[n_left:], first_row=n_left, n_jobs=n_jobs)
            self._search(right, X[:n_left], first_row=0, n_jobs=n_jobs)

    def _search(
        self, records: np.ndarray, index: Any, first_row: int, n_jobs: int | None
    ) -> None:
        """Fill in the neighbors of records in an index that begins at a row of X."""
        depth = self.neighbors.shape[1]
        nearest = top_k(self.X[records], index, depth, n_jobs=n_jobs)
        is_empty = nearest.rows < 0
        self.neighbors[records] = np.where(is_empty, -1, nearest.rows + first_row)
        self.scores[records] = nearest.scores

    def _drop_self(self) -> None:
        """Remove each record from its own neighbors."""
        is_self = self.neighbors == np.arange(len(self.neighbors))[:, None]
        self.neighbors[is_self] = -1
        self.scores[is_self] = -np.inf

    def candidates(self) -> np.ndarray:
        """Return the pairs of each record with its nearest ones, each pair once."""
        is_neighbor = self.neighbors >= 0
        is_candidate = is_neighbor & (is_neighbor.cumsum(axis=1) <= N_CANDIDATES)
        records, _ = np.nonzero(is_candidate)
        pairs = np.column_stack([records, self.neighbors[is_candidate]])
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


def _lead(score: np.ndarray, rivals: np.ndarray) -> np.ndarray:
    return score - np.maximum(rivals.max(axis=1), 0.0)


def _rank(score: np.ndarray, rivals: np.ndarray) -> np.ndarray:
    return 1 + (rivals > score[:, None] + SAME_SCORE).sum(axis=1)
