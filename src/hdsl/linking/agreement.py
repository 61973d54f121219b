"""How far two records agree in each column: levels, from equal to different."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from rapidfuzz import process
from rapidfuzz.distance import OSA, JaroWinkler

from .candidates import SearchedRecords
from .column_values import relative_difference
from .features import RecordFeatures
from .nearest import N_CANDIDATES, NearestRecords

#: Levels of agreement: equal, four steps of alike, different, and exchanged with another
#: column. A missing value has none.
N_LEVELS = 7
EQUAL = 0
UNLIKE = 4
DIFFERENT = 5
EXCHANGED = 6
MISSING = -1

#: Least Jaro-Winkler similarity of letters for each step of alike.
LETTERS = (0.94, 0.88, 0.80, 0.65)

#: Least cosine of long texts.
COSINES = (0.75, 0.55, 0.40, 0.25)

#: Most relative difference of amounts.
DIFFERENCES = (0.01, 0.05, 0.15, 0.40)

#: Most single edits of codes; those that change half of a code make another one.
MAX_EDITS = 4

#: A column is of long texts where its values have so many words on average.
LONG_TEXT = 3.0

#: Where one of two records stands among those that are near the other: of long texts,
#: this says more than how alike they are.
RANK = "the most similar record"

#: Most of both ranks for each level, the first one that of equal.
RANKS = (1, 2, 3, 5, 10)

#: Kinds of long texts.
WIDE = ("long text", "whole record")

#: Share of the values of a column that tells its kind.
MOST = 0.9

#: Amounts are told from codes by a point or a currency in this share of them.
MIN_POINTS = 0.1

#: A code: it has a digit, and no three letters that stand together.
CODE = re.compile(r"(?=.*\d)(?!.*[^\W\d_]{3}).*", re.DOTALL)
POINT = re.compile(r"\d\.\d|[^\w\s.,:/-]")

#: Values that are looked at to tell the kind of a column.
N_LOOKED_AT = 2000


class Column(NamedTuple):
    """What is known of the values of a column.

    Attributes
    ----------
    name : str
    kind : {"letters", "code", "amount", "long text", "whole record", ...}
        "words with digits" are those of whole records.
    shares : dict of str to float
        How many of the records have a value, for values that several have.
    least : float
        The share of any other value.
    """

    name: str
    kind: str
    shares: dict[str, float]
    least: float

    @classmethod
    def of_values(cls, name: str, texts: Sequence[str], kind: str) -> Column:
        """Return what the values of a column, empty where missing, are like."""
        counts = Counter(filter(None, texts))
        total = max(counts.total(), 1)
        shares = {text: n / total for text, n in counts.items() if n > 1}
        return cls(name, kind, shares, 1.0 / total)

    @property
    def typical(self) -> float:
        """The log of how often two values are equal by chance."""
        squares = sum(share**2 for share in self.shares.values())
        rest = max(1.0 - sum(self.shares.values()), 0.0)
        return float(np.log(max(squares + rest * self.least, self.least)))

    def rarity(self, texts: np.ndarray) -> np.ndarray:
        """Return the log of how much rarer values are than equal ones mostly are."""
        shares = [self.shares.get(text, self.least) for text in texts.tolist()]
        return self.typical - np.log(np.array(shares, dtype=np.float64))


class Agreement(NamedTuple):
    """How the columns of records are compared.

    Attributes
    ----------
    columns : list of Column
        Those that both tables have. Where one is of long texts, the words with digits of
        whole records follow, and where one record stands among those near the other.
    """

    columns: list[Column]

    @classmethod
    def of_records(cls, records: RecordFeatures) -> Agreement:
        """Return how the columns of these records are compared."""
        strings = records.strings
        amounts = {
            name for name, kind in strings.column_kinds.items() if kind != "days"
        }
        columns: list[Column] = []
        if not strings.columns:
            columns.append(Column("text", "whole record", {}, 1.0))
        for name in strings.columns:
            texts = strings.values(name).tolist()
            kind = kind_of(texts, is_amount=name in amounts)
            columns.append(Column.of_values(name, texts, kind))
        kinds = {column.kind for column in columns}
        if not kinds.isdisjoint(WIDE):
            columns.append(Column("words with digits", "words with digits", {}, 1.0))
            columns.append(Column(RANK, RANK, {}, 1.0))
        return cls(columns)

    @property
    def is_wide(self) -> bool:
        """Whether a column is of long texts, in which words count differently."""
        return any(column.kind in WIDE for column in self.columns)

    def to_json(self) -> list[list[Any]]:
        """Return what a file holds."""
        return [[*column] for column in self.columns]

    @classmethod
    def from_json(cls, columns: list[list[Any]]) -> Agreement:
        """Return what `to_json` was called on; raise ValueError if it is none."""
        read = [Column(*column) for column in columns]
        for column in read:
            if not isinstance(column.shares, dict):
                raise ValueError("shares must be those of values")
            shares = [*column.shares.values(), column.least]
            if not all(0.0 < float(share) <= 1.0 for share in shares):
                raise ValueError("shares of values must be above 0, and 1 at most")
        return cls(read)

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [column.name for column in self.columns]

    def compare(
        self, searched: SearchedRecords, pairs: np.ndarray, n_jobs: int | None
    ) -> Compared:
        """Return how far pairs of records agree in each column."""
        records = searched.records
        levels = np.empty((len(pairs), len(self.columns)), dtype=np.int8)
        rarity = np.zeros((len(pairs), len(self.columns)), dtype=np.float32)
        left, right = pairs.T
        for number, column in enumerate(self.columns):
            if column.kind == RANK:
                cosine = records.unit_rows.products(pairs, n_jobs)
                levels[:, number] = of_ranks(searched.by_cosine, pairs, cosine)
                continue
            if column.kind in ("whole record", "words with digits"):
                cosine = records.cosine_of_records(pairs, n_jobs, kind=column.kind)
                levels[:, number] = of_cosines(cosine)
                continue
            texts = records.strings.values(column.name)
            first, second = texts[left], texts[right]
            levels[:, number] = self._levels(
                column, records, pairs, first, second, n_jobs
            )
            are_equal = levels[:, number] == EQUAL
            rarity[are_equal, number] = column.rarity(first[are_equal])
        self._exchange(records, pairs, levels)
        return Compared(levels, rarity)

    def _levels(
        self,
        column: Column,
        records: RecordFeatures,
        pairs: np.ndarray,
        first: np.ndarray,
        second: np.ndarray,
        n_jobs: int | None,
    ) -> np.ndarray:
        if column.kind == "long text":
            levels = of_cosines(records.cosine_of_column(column.name, pairs, n_jobs))
        elif column.kind == "amount":
            amounts = records.strings.amounts(column.name)
            levels = of_amounts(amounts[pairs[:, 0]], amounts[pairs[:, 1]])
        elif column.kind == "code":
            levels = of_codes(first, second, n_jobs)
        else:
            levels = of_letters(first, second, n_jobs)
        levels[first == second] = EQUAL
        levels[(first == "") | (second == "")] = MISSING
        return levels

    def _exchange(
        self, records: RecordFeatures, pairs: np.ndarray, levels: np.ndarray
    ) -> None:
        """Mark where records have the values of two columns the other way round.

        The first of both columns is exchanged, and the second one then says nothing.
        """
        names = [
            (number, records.strings.values(column.name))
            for number, column in enumerate(self.columns)
            if column.kind == "letters"
        ]
        left, right = pairs.T
        for position, (k, first) in enumerate(names):
            for j, second in names[position + 1 :]:
                rows = np.flatnonzero(
                    (levels[:, k] >= UNLIKE - 1) & (levels[:, j] >= UNLIKE - 1)
                )
                is_exchanged = (first[left[rows]] == second[right[rows]]) & (
                    second[left[rows]] == first[right[rows]]
                )
                levels[rows[is_exchanged], k] = EXCHANGED
                levels[rows[is_exchanged], j] = MISSING


class Compared(NamedTuple):
    """How far pairs agree, shape (n_pairs, n_columns).

    `levels` count from equal on, and a missing value is -1. `rarity` is, of equal values,
    the log of how much rarer the value is than equal ones mostly are, and 0 of others.
    """

    levels: np.ndarray
    rarity: np.ndarray

    def take(self, rows: Any) -> Compared:
        """Return some of the pairs."""
        return Compared(self.levels[rows], self.rarity[rows])


def kind_of(texts: Sequence[str], *, is_amount: bool) -> str:
    """Return how the values of a column are compared.

    Examples
    --------
    >>> kind_of(["2600", "2612"], is_amount=True), kind_of(["9.50"], is_amount=True)
    ('code', 'amount')
    >>> kind_of(["anna", "jon"], is_amount=False)
    'letters'
    """
    filled = [text for text in texts if text][:N_LOOKED_AT]
    if not filled:
        return "letters"
    n_points = sum(POINT.search(text) is not None for text in filled)
    if is_amount and n_points >= MIN_POINTS * len(filled):
        return "amount"
    n_codes = sum(CODE.fullmatch(text) is not None for text in filled)
    if n_codes >= MOST * len(filled):
        return "code"
    if np.mean([len(text.split()) for text in filled]) >= LONG_TEXT:
        return "long text"
    return "letters"


def of_letters(first: np.ndarray, second: np.ndarray, n_jobs: int | None) -> np.ndarray:
    """Return the levels of texts by the similarity of Jaro and Winkler."""
    similarity = process.cpdist(
        first,
        second,
        scorer=JaroWinkler.normalized_similarity,
        workers=n_jobs or 1,
        dtype=np.float32,
    )
    return _steps(-similarity, [-edge for edge in LETTERS])


def of_codes(first: np.ndarray, second: np.ndarray, n_jobs: int | None) -> np.ndarray:
    """Return the levels of codes by single edits, of which one may swap two characters.

    Examples
    --------
    >>> codes = np.array(["1980", "1980", "19801201"], dtype=object)
    >>> of_codes(codes, np.array(["1908", "2071", "19781210"], dtype=object), 1).tolist()
    [1, 5, 3]
    """
    edits = process.cpdist(
        first, second, scorer=OSA.distance, workers=n_jobs or 1, dtype=np.int32
    )
    lengths = [max(len(a), len(b)) for a, b in zip(first, second, strict=True)]
    is_other = 2 * edits >= np.array(lengths, dtype=np.int64)
    return np.where(is_other | (edits > MAX_EDITS), DIFFERENT, edits)


def of_amounts(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the levels of amounts by their relative difference."""
    difference = relative_difference(np.nan_to_num(first), np.nan_to_num(second))
    levels = _steps(difference, DIFFERENCES)
    levels[np.isnan(first) | np.isnan(second)] = MISSING
    return levels


def of_cosines(cosine: np.ndarray) -> np.ndarray:
    """Return the levels of cosines, of which NaN is a missing value."""
    levels = _steps(-np.nan_to_num(cosine), [-edge for edge in COSINES])
    levels[np.isnan(cosine)] = MISSING
    return levels


def of_ranks(
    nearest: NearestRecords, pairs: np.ndarray, similarity: np.ndarray
) -> np.ndarray:
    """Return the levels of pairs by their ranks among the nearest records of both.

    A pair that is no candidate has none: that it is not near is known already.
    """
    standing = nearest.standing(pairs, similarity)
    first = np.minimum(standing.rank_left, standing.rank_right)
    levels = np.searchsorted(
        RANKS, np.maximum(standing.rank_left, standing.rank_right), side="left"
    )
    has_any = nearest.neighbors.max(axis=1, initial=-1) >= 0
    is_candidate = (first <= N_CANDIDATES) & has_any[pairs].any(axis=1)
    return np.where(is_candidate, levels, MISSING)


def _steps(distance: np.ndarray, edges: Sequence[float]) -> np.ndarray:
    """Return levels from 1 on, by the largest distance of each."""
    return 1 + np.searchsorted(edges, distance, side="left")
