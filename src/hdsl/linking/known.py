"""What is known before: pairs that match, pairs that do not, and what to learn from."""

from __future__ import annotations

from copy import copy
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from .labels import read_labels
from .tables import Tables

#: Fewer groups of matches teach nothing.
MIN_MATCHES = 5

#: Folds of the matches.
N_FOLDS = 4

#: Known non-matches that are enough for the classifier, if they are as many as matches.
#: Near pairs of records with another match count as non-matches else, which is less
#: certain.
ENOUGH_NON_MATCHES = 200

#: How much such a near pair counts where there are known non-matches, though not enough.
#: Of 0, 0.1, 0.3 and 1, it has the lowest log loss, or nearly so, on validation pairs of
#: three benchmarks with 20 to 30 matches and 10 to 30 non-matches.
NEAR_WEIGHT = 0.3


class KnownPairs:
    """Pairs of records that are known to match, or known not to.

    Parameters
    ----------
    tables : Tables
    matches, non_matches : array-like of shape (n, 2)
        Pairs of ids.
    """

    def __init__(self, tables: Tables, matches: Any, non_matches: Any) -> None:
        labels = read_labels(tables, matches, non_matches)
        self.matches = labels.matches
        self.non_matches = labels.non_matches
        self.report = labels.report
        self._answers: dict[tuple[int, ...], float] = {}
        for pair in self.matches.tolist():
            self._answers[tuple(pair)] = 1.0
        for pair in self.non_matches.tolist():
            self._answers[tuple(pair)] = 0.0

    def renumbered(self, numbers: np.ndarray) -> KnownPairs:
        """Return the pairs after records have got new numbers."""
        known = copy(self)
        known.matches = np.sort(numbers[self.matches], axis=1)
        known.non_matches = np.sort(numbers[self.non_matches], axis=1)
        known._answers = {
            tuple(sorted(numbers[list(pair)].tolist())): answer
            for pair, answer in self._answers.items()
        }
        return known

    def answers(self, pairs: np.ndarray) -> np.ndarray:
        """Return 1 for known matches, 0 for known non-matches, NaN for other pairs."""
        keys = map(tuple, pairs.tolist())
        return np.array([self._answers.get(key, np.nan) for key in keys])


class TrainingPairs(NamedTuple):
    """Pairs to learn from, 1 for those that match and 0 for others, and their folds.

    All matches that hang together by records are in one fold, with the non-matches of
    these records. `is_known` marks the pairs that were given as matches or non-matches.
    """

    pairs: np.ndarray
    labels: np.ndarray
    fold: np.ndarray
    is_known: np.ndarray

    def take(self, rows: np.ndarray) -> TrainingPairs:
        """Return some of the pairs, by a mask or by numbers."""
        return TrainingPairs(*(column[rows] for column in self))

    @property
    def is_match(self) -> np.ndarray:
        """Which pairs match."""
        return self.labels == 1.0

    def weight(self) -> np.ndarray:
        """Return how much each pair counts for the classifier."""
        weight = np.ones(len(self.labels))
        is_non_match = ~self.is_match
        if (is_non_match & self.is_known).any():
            weight[is_non_match & ~self.is_known] = NEAR_WEIGHT
        return weight

    def for_classifier(self) -> TrainingPairs:
        """Return the pairs for the classifier: the known ones where they are enough.

        They are enough if non-matches are many, and in several folds.
        """
        is_non_match = self.is_known & ~self.is_match
        n_enough = max(self.is_match.sum(), ENOUGH_NON_MATCHES)
        is_spread = len(np.unique(self.fold[is_non_match])) > 1
        if is_non_match.sum() >= n_enough and is_spread:
            return self.take(self.is_known)
        return self


def training_pairs(
    known: KnownPairs, candidates: np.ndarray, n_records: int, seed: int
) -> TrainingPairs | None:
    """Return the pairs to learn from; None where matches are too few, or no pair differs.

    They are the known pairs, and the candidates that share a record with a match.
    """
    has_match = np.isin(candidates, known.matches).any(axis=1)
    is_unknown = np.isnan(known.answers(candidates))
    near_pairs = candidates[has_match & is_unknown]
    sizes = [len(known.matches), len(known.non_matches), len(near_pairs)]
    pairs = np.concatenate([known.matches, known.non_matches, near_pairs])
    groups = _match_groups(known.matches, n_records)
    matched_groups = np.unique(groups[known.matches])
    if len(matched_groups) < MIN_MATCHES or len(pairs) == len(known.matches):
        return None
    return TrainingPairs(
        pairs=pairs,
        labels=np.repeat([1.0, 0.0, 0.0], sizes),
        fold=_folds(pairs, groups, matched_groups, seed),
        is_known=np.repeat([True, True, False], sizes),
    )


def _match_groups(matches: np.ndarray, n_records: int) -> np.ndarray:
    """Return the group of each record; matches hold the records of a group together."""
    ends = (matches[:, 0], matches[:, 1])
    graph = sp.coo_array((np.ones(len(matches)), ends), shape=(n_records, n_records))
    _, groups = connected_components(graph, directed=False)
    return groups


def _folds(
    pairs: np.ndarray, groups: np.ndarray, matched_groups: np.ndarray, seed: int
) -> np.ndarray:
    """Return the fold of each pair, that of its group of matches if it touches one."""
    rng = np.random.default_rng(seed)
    fold_of_group = rng.integers(N_FOLDS, size=groups.max() + 1)
    fold_of_group[matched_groups] = rng.permutation(len(matched_groups)) % N_FOLDS
    left = groups[pairs[:, 0]]
    right = groups[pairs[:, 1]]
    is_matched = np.isin(left, matched_groups)
    return np.where(is_matched, fold_of_group[left], fold_of_group[right])
