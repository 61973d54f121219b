"""Scores of a model on held-out rows or comparisons that are on a cluster."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..search import Neighbors, top_k
from ..similarity import LearnedCosine, Similarity, comparison_points
from .blocks import Blocks
from .mapping import merge
from .sources import held, is_usable
from .tasks import take_rows
from .team import WorkerLost

#: How often a score is computed again after workers were lost, and seconds before it is.
ATTEMPTS, PAUSE = 5, 1.0

#: Comparisons of a piece, whose rows a worker holds.
PIECE = 1 << 18


# --- on the workers ------------------------------------------------------------------------------


def index_side(block: sp.csr_array, rows: np.ndarray, similarity: Similarity) -> Any:
    """Return some rows of a block as queries are compared with them, by the learned cosine."""
    return LearnedCosine(similarity).index_rows(sp.csr_array(block)[rows])


def query_side(block: sp.csr_array, similarity: Similarity) -> Any:
    """Return the rows of a block as queries by the learned cosine."""
    return LearnedCosine(similarity).rewrite(sp.csr_array(block))


def best(queries: Any, index: Any, k: int, first: int) -> Neighbors:
    """Return the best rows of a part of the index; `first` is the number of its first row."""
    found = top_k(queries, index, k)
    return found._replace(rows=np.where(found.rows < 0, -1, found.rows + first))


def share_of_label(found: Neighbors, codes: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Return the share of each query's rows that have its label."""
    return (codes[found.rows] == truth[:, None]).mean(axis=1)


def stacked(*parts: sp.csr_array) -> sp.csr_array:
    """Return blocks of rows as one."""
    return sp.csr_array(sp.vstack(parts, format="csr"))


def points(X: sp.csr_array, compared: np.ndarray, similarity: Similarity) -> np.ndarray:
    """Return which comparisons hold."""
    return comparison_points(X, compared)(similarity)


# --- on the client -------------------------------------------------------------------------------


class LabelShares:
    """For each validation row the share of its nearest rows that have its label.

    Parameters
    ----------
    rows : Blocks
    kept : ndarray
        Rising numbers of the rows that count.
    labels : ndarray
        Their labels.
    queries : Blocks
        The validation rows.
    labels_val : ndarray
        Their labels.
    n_neighbors : int
    """

    def __init__(
        self,
        rows: Blocks,
        kept: np.ndarray,
        labels: np.ndarray,
        queries: Blocks,
        labels_val: np.ndarray,
        n_neighbors: int,
    ) -> None:
        self._rows, self._queries, self._kept = rows, queries, rows.cut(kept)
        classes, self._codes = np.unique(labels, return_inverse=True)
        self._truth = np.searchsorted(classes, labels_val)
        self._truth[~np.isin(labels_val, classes)] = -1  # no row has this label
        self._k = min(n_neighbors, len(kept))

    def __call__(self, similarity: Similarity) -> np.ndarray:
        """Return the shares."""
        return retried(lambda: self._shares(similarity))

    def _shares(self, similarity: Similarity) -> np.ndarray:
        client, rows, queries = self._rows.client, self._rows, self._queries
        learned, codes = held(client, similarity), held(client, self._codes)
        index, first = [], 0
        for block, part in zip(rows.source.futures(), self._kept, strict=True):
            if len(part):
                made = client.submit(index_side, block, part, learned, pure=False)
                index.append((made, first))
                first += len(part)
        shares, starts = [], queries.starts
        for block, a, b in zip(queries.source.futures(), starts[:-1], starts[1:], strict=True):
            if b > a:
                asked = client.submit(query_side, block, learned, pure=False)
                parts = [
                    client.submit(best, asked, part, self._k, begin, pure=False)
                    for part, begin in index
                ]
                found = client.submit(merge, self._k, *parts, pure=False)
                truth = self._truth[a:b]
                shares.append(client.submit(share_of_label, found, codes, truth, pure=False))
        found = np.concatenate(rows.results(shares))
        rows.source.release()
        queries.source.release()
        return found


class ComparisonPoints:
    """For each held-out comparison 1 where it holds, 0.5 for a tie, else 0.

    Parameters
    ----------
    rows : Blocks
    compared : ndarray of shape (n, 3) or (n, 4)
    """

    def __init__(self, rows: Blocks, compared: np.ndarray) -> None:
        self._rows, self._pieces = rows, []
        self._parts: list[Any] = []  # of the rows that each piece names
        for first in range(0, len(compared), PIECE):
            piece = compared[first : first + PIECE]
            named, numbers = np.unique(piece, return_inverse=True)
            self._pieces.append((named, numbers.reshape(piece.shape)))

    def __call__(self, similarity: Similarity) -> np.ndarray:
        """Return the points."""
        return retried(lambda: self._points(similarity))

    def _points(self, similarity: Similarity) -> np.ndarray:
        client, rows = self._rows.client, self._rows
        if not self._parts or not all(map(is_usable, self._parts)):
            self._parts, blocks = [], rows.source.futures()
            for named, _ in self._pieces:
                pairs = zip(blocks, rows.starts[:-1].tolist(), strict=True)
                taken = [
                    client.submit(take_rows, b, named, first, pure=False) for b, first in pairs
                ]
                self._parts.append(client.submit(stacked, *taken, pure=False))
        learned = held(client, similarity)
        asked = [
            client.submit(points, part, numbers, learned, pure=False)
            for part, (_, numbers) in zip(self._parts, self._pieces, strict=True)
        ]
        found = np.concatenate(rows.results(asked))
        rows.source.release()
        return found


def retried(compute: Callable[[], np.ndarray]) -> np.ndarray:
    """Return a result, computed again where workers are lost in the meantime."""
    for attempt in range(ATTEMPTS):
        try:
            return compute()
        except WorkerLost:
            if attempt == ATTEMPTS - 1:
                raise
            time.sleep(PAUSE)  # until the scheduler knows
    raise AssertionError
