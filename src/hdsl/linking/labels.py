"""Known pairs as label files have them: repeated, contradictory and unknown ones."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..input.errors import first_few
from .tables import Tables

#: Share of the pairs that may name records that no table has: more are likely to be ids
#: of another column.
MAX_UNKNOWN = 0.5

#: Pairs of each kind that a sentence names.
N_NAMED = 3

Ids = tuple[str, str]


class LabelReport(NamedTuple):
    """Known pairs that do not count as they stand, as ids.

    `repeated` pairs count once, `contradictory` ones are both a match and a non-match,
    `unknown` ones name a record that no table has: these do not count.
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
