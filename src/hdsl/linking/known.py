"""What is known before: answers to pairs, what follows from them, and how files have them."""

from __future__ import annotations

from copy import copy
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from ..input.errors import first_few
from .tables import Tables

#: Share of the pairs that may name records that no table has: more are likely to be ids
#: of another column.
MAX_UNKNOWN = 0.5

#: Pairs of each kind that a sentence names.
N_NAMED = 3

Ids = tuple[str, str]


class LabelReport(NamedTuple):
    """Known pairs with a fault, as ids.

    `repeated` pairs count once; `contradictory` ones are both a match and a non-match,
    and `unknown` ones name an unknown record: these do not count.
    """

    repeated: list[Ids]
    contradictory: list[Ids]
    unknown: list[Ids]

    def sentences(self) -> list[str]:
        """Return a sentence per kind of pairs that occurs."""
        kinds = {
            "listed more than once, and count once": self.repeated,
            "both match and non-match, and are left out": self.contradictory,
            "of records that no table has, and are left out": self.unknown,
        }
        return [
            f"Known pairs that are {fault}: {len(pairs):,}, "
            f"{first_few(pairs, N_NAMED)}."
            for fault, pairs in kinds.items()
            if pairs
        ]

    def faults(self) -> dict[Ids, str]:
        """Return what is wrong with each pair that does not count as it stands."""
        return (
            dict.fromkeys(self.repeated, "listed more than once")
            | dict.fromkeys(self.unknown, "no such record: left out")
            | dict.fromkeys(self.contradictory, "both yes and no: left out")
        )


class Labels(NamedTuple):
    """Pairs of record numbers that match, pairs that do not, and what was left out."""

    matches: np.ndarray
    non_matches: np.ndarray
    report: LabelReport


class KnownPair(NamedTuple):
    """One line of a list of known pairs: ids, numbers of records, and the answer."""

    ids: Ids
    records: tuple[int, ...]
    is_match: bool


def read_labels(tables: Tables, matches: Any, non_matches: Any) -> Labels:
    """Return known pairs, each once; raise ValueError where most have unknown ids.

    Parameters
    ----------
    tables : Tables
    matches, non_matches : array-like of shape (n, 2)
        Pairs of ids.
    """
    every = _read(tables, matches, is_match=True)
    every += _read(tables, non_matches, is_match=False)
    unknown = [pair.ids for pair in every if pair.records[0] < 0]
    if len(unknown) > MAX_UNKNOWN * len(every):
        # Reading them one by one says which id it is.
        tables.pairs(matches, "matches")
        tables.pairs(non_matches, "non_matches")
    by_records: dict[tuple[int, ...], list[KnownPair]] = {}
    for pair in every:
        if pair.records[0] >= 0:
            by_records.setdefault(pair.records, []).append(pair)
    answers = {
        records: {pair.is_match for pair in pairs}
        for records, pairs in by_records.items()
    }
    repeated = []
    contradictory = []
    for records, pairs in by_records.items():
        if len(answers[records]) > 1:
            contradictory += [pair.ids for pair in pairs]
        elif len(pairs) > 1:
            repeated += [pair.ids for pair in pairs]
    return Labels(
        matches=_with_answer(answers, is_match=True),
        non_matches=_with_answer(answers, is_match=False),
        report=LabelReport(
            repeated=[*dict.fromkeys(repeated)],
            contradictory=[*dict.fromkeys(contradictory)],
            unknown=[*dict.fromkeys(unknown)],
        ),
    )


def _read(tables: Tables, pairs: Any, *, is_match: bool) -> list[KnownPair]:
    """Return known pairs with one answer; the records of an unknown id are -1 and -1."""
    name = "non_matches"
    if is_match:
        name = "matches"
    named = tables.named_pairs(pairs, name)
    known = []
    for ids, records in zip(named.ids, named.records.tolist(), strict=True):
        low, high = sorted(records)
        if low < 0:
            high = -1
        elif low == high:
            raise ValueError(
                f"The pair {ids} of {name} is of a record with itself: remove it."
            )
        known.append(KnownPair(ids, (low, high), is_match))
    return known


def _with_answer(
    answers: dict[tuple[int, ...], set[bool]], *, is_match: bool
) -> np.ndarray:
    """Return the pairs that have one answer, this one."""
    pairs = [pair for pair, known in answers.items() if known == {is_match}]
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


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

    def following(self, n_records: int) -> Consequences:
        """Return the answers with what follows from them."""
        return Consequences(
            self.matches, self.non_matches, n_records, is_complete=self.is_complete
        )

    def with_more(self, matches: np.ndarray, non_matches: np.ndarray) -> KnownPairs:
        """Return these pairs and others, by the numbers of records; others count more."""
        known = copy(self)
        known._answers = dict(self._answers)
        for pairs, answer in ((matches, 1.0), (non_matches, 0.0)):
            for pair in np.sort(pairs, axis=1).tolist():
                known._answers[tuple(pair)] = answer
        known.matches = known._with_answer(1.0)
        known.non_matches = known._with_answer(0.0)
        return known

    def _with_answer(self, answer: float) -> np.ndarray:
        pairs = [pair for pair, value in self._answers.items() if value == answer]
        return np.array(pairs, dtype=np.int64).reshape(-1, 2)


class Consequences:
    """Answers and their consequences.

    Records connected by matches are one thing, so that all their pairs match. If two
    things have a non-match, none of their pairs match. If answers contradict each
    other, only the answers themselves count.

    Parameters
    ----------
    matches, non_matches : ndarray of shape (n, 2)
        Pairs of records, the smaller one first.
    n_records : int
    is_complete : bool, default=False
        Whether a record of `matches` has no other match.
    """

    def __init__(
        self,
        matches: np.ndarray,
        non_matches: np.ndarray,
        n_records: int,
        *,
        is_complete: bool = False,
    ) -> None:
        self._n_records = n_records
        self._is_listed = np.zeros(n_records, dtype=bool)
        if is_complete:
            self._is_listed[matches] = True
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
        answers[self._is_listed[pairs].any(axis=1)] = 0.0
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
