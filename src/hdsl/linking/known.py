"""What is known before: pairs that match, pairs that do not, and what to learn from."""

from __future__ import annotations

from copy import copy
from typing import Any, NamedTuple

import numpy as np

from .consequences import Consequences, things_of
from .labels import read_labels
from .sure_pairs import SurePairs
from .tables import Tables

#: Fewer groups of matches teach nothing.
MIN_MATCHES = 5

#: Folds of the matches.
N_FOLDS = 4

#: Known non-matches that are enough for the classifier, if they are as many as matches.
#: Near pairs of records with another match count as non-matches else, which is less
#: certain.
ENOUGH_NON_MATCHES = 200

#: Share of these near pairs that are taken where there are known non-matches, though not
#: enough. Of the weights 0, 0.1, 0.3 and 1, it has the lowest log loss, or nearly so, on
#: validation pairs of three benchmarks with 20 to 30 matches and 10 to 30 non-matches.
NEAR_SHARE = 0.3


class KnownPairs:
    """Pairs of records that are known to match, or known not to.

    Parameters
    ----------
    tables : Tables
    matches, non_matches : array-like of shape (n, 2)
        Pairs of ids.
    is_complete : bool, default=False
        Whether all matches of each record in `matches` are there.
    """

    def __init__(
        self,
        tables: Tables,
        matches: Any,
        non_matches: Any,
        *,
        is_complete: bool = False,
    ) -> None:
        self.is_complete = is_complete
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

    @property
    def has_answers(self) -> bool:
        """Whether any pair is known."""
        return bool(self._answers)

    def answers(self, pairs: np.ndarray) -> np.ndarray:
        """Return 1 for known matches, 0 for known non-matches, NaN for other pairs."""
        keys = map(tuple, pairs.tolist())
        return np.array([self._answers.get(key, np.nan) for key in keys])


class TrainingPairs(NamedTuple):
    """Pairs to learn from, 1 for those that match and 0 for others, and their folds.

    All matches that hang together by records are in one fold, with the non-matches of
    these records. `is_known` marks the pairs that were given as matches or non-matches,
    and those that follow from them; `stands_for` is the number of candidates that a
    pair was drawn for.
    """

    pairs: np.ndarray
    labels: np.ndarray
    fold: np.ndarray
    is_known: np.ndarray
    stands_for: np.ndarray

    def take(self, rows: np.ndarray) -> TrainingPairs:
        """Return some of the pairs, by a mask or by numbers."""
        return TrainingPairs(*(column[rows] for column in self))

    @property
    def is_match(self) -> np.ndarray:
        """Which pairs match."""
        return self.labels == 1.0

    def share_first(self, score: np.ndarray) -> float:
        """Return the share of known matches that are ahead of pairs that nobody answered.

        Ahead of all those of the left record, or of all of the right one, by scores of
        shape (n_pairs,).
        """
        others = ~self.is_match & ~self.is_known
        best_other = np.full(self.pairs.max() + 1, -np.inf)
        for side in (0, 1):
            np.maximum.at(best_other, self.pairs[others, side], score[others])
        known_matches = self.is_match & self.is_known
        ahead = score[known_matches, None] >= best_other[self.pairs[known_matches]]
        return float(ahead.any(axis=1).mean())

    @property
    def near_share(self) -> float:
        """The share of the pairs that nobody answered that count as non-matches.

        None of them where known non-matches are many, and in several folds; a part where
        there are some; all where there are none.
        """
        is_non_match = self.is_known & ~self.is_match
        n_enough = max(self.is_match.sum(), ENOUGH_NON_MATCHES)
        is_spread = len(np.unique(self.fold[is_non_match])) > 1
        if is_non_match.sum() >= n_enough and is_spread:
            return 0.0
        if is_non_match.any():
            return NEAR_SHARE
        return 1.0

    def for_classifier(self, seed: int, *, draws: bool) -> TrainingPairs:
        """Return the pairs for the classifier: the known ones where they are enough.

        Where there are some non-matches, a part of the others is drawn if `draws`.
        """
        share = self.near_share
        if share == 1.0 or (share > 0.0 and not draws):
            return self
        is_drawn = self.draw(share, seed)
        keeps_matches = self.is_match & (share > 0.0)
        return self.take(self.is_known | keeps_matches | is_drawn)

    def draw(self, share: float, seed: int) -> np.ndarray:
        """Return which pairs are in a random share of them."""
        return np.random.default_rng(seed).random(len(self.labels)) < share

    def with_others(
        self, others: np.ndarray, fold: int, is_known: bool
    ) -> TrainingPairs:
        """Return these pairs and others of a fold, which count as non-matches."""
        n_others = len(others)
        return TrainingPairs(
            pairs=np.concatenate([self.pairs, others]),
            labels=np.append(self.labels, np.zeros(n_others)),
            fold=np.append(self.fold, np.repeat(fold, n_others)),
            is_known=np.append(self.is_known, np.repeat(is_known, n_others)),
            stands_for=np.append(self.stands_for, np.ones(n_others)),
        )


def training_pairs(
    known: KnownPairs,
    consequences: Consequences,
    candidates: np.ndarray,
    sure: SurePairs | None,
    seed: int,
) -> TrainingPairs | None:
    """Return the pairs to learn from; None where matches are too few, or no pair differs.

    They are the known pairs, what follows from them, and a part of the rest: sure pairs
    where there are such, and otherwise candidates that share a record with a match, as
    if they did not match.
    """
    if len(np.unique(consequences.thing[known.matches])) < MIN_MATCHES:
        return None
    answers = consequences.answers(candidates)
    is_new = np.isnan(known.answers(candidates))
    matches = np.concatenate([known.matches, candidates[is_new & (answers == 1.0)]])
    others = np.concatenate([known.non_matches, candidates[is_new & (answers == 0.0)]])
    knows_rest = known.is_complete and sure is None
    if sure is None:
        near_pairs = unanswered_pairs(candidates, known.matches, consequences)
        n_near = len(near_pairs)
        sure = SurePairs(near_pairs, np.zeros(n_near), np.ones(n_near))
    pairs = np.concatenate([matches, others, sure.pairs])
    answered_labels = np.repeat([1.0, 0.0], [len(matches), len(others)])
    labels = np.concatenate([answered_labels, sure.labels])
    if labels.all():
        return None
    is_answered = np.arange(len(pairs)) < len(answered_labels)
    all_matches = pairs[labels == 1.0]
    things = things_of(all_matches, len(consequences.thing))
    return TrainingPairs(
        pairs=pairs,
        labels=labels,
        fold=_folds(pairs, things, np.unique(things[all_matches]), seed),
        is_known=is_answered | knows_rest,
        stands_for=np.append(np.ones(len(answered_labels)), sure.stands_for),
    )


def unanswered_pairs(
    candidates: np.ndarray, matches: np.ndarray, consequences: Consequences
) -> np.ndarray:
    """Return candidates that share a record with a match, and have no answer."""
    has_match = np.isin(candidates, matches).any(axis=1)
    return candidates[has_match & np.isnan(consequences.answers(candidates))]


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
