"""What follows from answers: a match of a match is a match."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components


class Consequences:
    """Answers, and what follows from them.

    Records that matches hold together are one thing, so that all their pairs match. If
    two things have a pair that does not match, none of their pairs does. Where answers
    contradict one another, only what was answered counts.

    Parameters
    ----------
    matches, non_matches : ndarray of shape (n, 2)
        Pairs of records, the smaller one first.
    n_records : int
    """

    def __init__(
        self, matches: np.ndarray, non_matches: np.ndarray, n_records: int
    ) -> None:
        self._n_records = n_records
        self.thing = things_of(matches, n_records)
        non_matches = np.asarray(non_matches, dtype=np.int64).reshape(-1, 2)
        pairs_of_things = np.sort(self.thing[non_matches], axis=1)
        is_torn = pairs_of_things[:, 0] == pairs_of_things[:, 1]
        self._torn = np.unique(pairs_of_things[is_torn, 0])
        self._different = np.unique(self._codes(pairs_of_things[~is_torn]))
        self._matches = np.unique(self._codes(matches))
        self._non_matches = np.unique(self._codes(non_matches))

    def answers(self, pairs: np.ndarray) -> np.ndarray:
        """Return 1 for matches, 0 for non-matches, NaN for pairs that are unknown."""
        things = np.sort(self.thing[pairs], axis=1)
        is_same = (things[:, 0] == things[:, 1]) & ~np.isin(things[:, 0], self._torn)
        is_different = np.isin(self._codes(things), self._different)
        codes = self._codes(pairs)
        answers = np.full(len(pairs), np.nan)
        answers[is_same] = 1.0
        answers[is_different] = 0.0
        answers[np.isin(codes, self._matches)] = 1.0
        answers[np.isin(codes, self._non_matches)] = 0.0
        return answers

    def _codes(self, pairs: np.ndarray) -> np.ndarray:
        """Return one number per pair."""
        pairs = np.asarray(pairs, dtype=np.int64).reshape(-1, 2)
        return pairs[:, 0] * self._n_records + pairs[:, 1]


def things_of(matches: np.ndarray, n_records: int) -> np.ndarray:
    """Return the number of the thing that each record is, by matches.

    Examples
    --------
    >>> things_of(np.array([[0, 2], [2, 3]]), 5).tolist()
    [0, 1, 0, 0, 2]
    """
    ends = (matches[:, 0], matches[:, 1])
    graph = sp.coo_array((np.ones(len(matches)), ends), shape=(n_records, n_records))
    _, thing = connected_components(graph, directed=False)
    return np.asarray(thing, dtype=np.int64)
