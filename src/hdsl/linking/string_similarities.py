"""How alike the texts of two records are, by letters, by words and by numbers."""

from __future__ import annotations

import re
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain
from typing import Any, Self

import numpy as np
from rapidfuzz import fuzz, process
from rapidfuzz.distance import JaroWinkler, Levenshtein

from ..cpu.kernels.compiled import SparseArrays
from .column_values import (
    NUMBER,
    amount,
    are_values,
    day,
    first_number,
    read_values,
    relative_difference,
)
from .rows import Rows, joined_values
from .tables import Tables
from .text import WORD, folded

#: Most columns that are compared one by one.
MAX_COLUMNS = 12

#: Pairs from which on several threads compare texts: to start them takes milliseconds.
MIN_PAIRS_OF_THREADS = 5000

#: Characters of a text that are compared; the time grows with their square.
MAX_LENGTH = 500

Scorer = Callable[..., float]

#: Similarities of whole records whose words are in order, and of whole records.
OF_SORTED_RECORDS: dict[str, Scorer] = {"words in any order": fuzz.ratio}
OF_RECORDS: dict[str, Scorer] = {
    "words that both have": fuzz.token_set_ratio,
    "letters": Levenshtein.normalized_similarity,
}

#: Similarities of the values of a column.
OF_VALUES: dict[str, Scorer] = {
    "beginning": JaroWinkler.normalized_similarity,
    "letters": Levenshtein.normalized_similarity,
    "words that both have": fuzz.token_set_ratio,
}

#: Kinds of words that are counted, each by the pattern of a whole word.
KINDS = {
    "numbers": re.compile(r"\d+"),
    "words with digits": re.compile(r"\w*\d\w*"),
    "words of letters and digits": re.compile(r"(?=\w*\d)\w*[^\W\d_]\w*"),
}

#: Hashes of words: two words rarely have the same.
N_HASHES = 2**31 - 1


@dataclass(frozen=True)
class Comparison(ABC):
    """What is known of each record, and how two of them are compared.

    `subject` says what is compared; all other fields have a row per record.
    """

    subject: str

    @property
    @abstractmethod
    def names(self) -> list[str]:
        """What the numbers of a pair are called."""

    @abstractmethod
    def compare(self, left: np.ndarray, right: np.ndarray, n_jobs: int) -> np.ndarray:
        """Return the numbers of pairs, shape (n_pairs, n_names)."""

    def joined(self, later: Self, records: np.ndarray) -> Self:
        """Return the comparison of some of these records and of later ones.

        The later ones are numbered after these.
        """
        rows_of_later = later._rows()
        rows = {
            name: _joined(values, rows_of_later[name], records)
            for name, values in self._rows().items()
        }
        return replace(self, **rows)

    def _rows(self) -> dict[str, Any]:
        return {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if field.name != "subject"
        }


@dataclass(frozen=True)
class WholeRecords(Comparison):
    """Whole records, compared as texts; `in_order` has their words in order.

    The words are put in order once: ``fuzz.token_sort_ratio`` would do it for each pair,
    which takes five times as long.
    """

    texts: np.ndarray
    in_order: np.ndarray

    @classmethod
    def of_texts(cls, texts: Sequence[str]) -> WholeRecords:
        """Return records as texts."""
        in_order = [" ".join(sorted(text.split())) for text in texts]
        return cls("whole record", _as_array(texts), _as_array(in_order))

    @property
    def names(self) -> list[str]:
        """What the numbers of a pair are called."""
        return [*OF_SORTED_RECORDS, *OF_RECORDS]

    def compare(self, left: np.ndarray, right: np.ndarray, n_jobs: int) -> np.ndarray:
        """Return the similarities of pairs."""
        of_sorted = _similarities(
            OF_SORTED_RECORDS, self.in_order[left], self.in_order[right], n_jobs
        )
        of_texts = _similarities(
            OF_RECORDS, self.texts[left], self.texts[right], n_jobs
        )
        return np.column_stack([of_sorted, of_texts])


@dataclass(frozen=True)
class WordCounts(Comparison):
    """Words of one kind, and how many of them two records have in common.

    `words` has a 1 for each word of a record, by its hash.
    """

    words: Rows

    @classmethod
    def of_kind(cls, kind: str, words: Sequence[Sequence[str]]) -> WordCounts:
        """Return the words of records that are of a kind."""
        pattern = KINDS[kind]
        every_word = {*chain.from_iterable(words)}
        hash_of = {word: _hash(word) for word in every_word if pattern.fullmatch(word)}
        hashes = [
            sorted({hash_of[word] for word in record if word in hash_of})
            for record in words
        ]
        return cls(kind, _indicators(hashes))

    @property
    def names(self) -> list[str]:
        """What the numbers of a pair are called."""
        return ["both have", "only the left has", "only the right has"]

    def compare(self, left: np.ndarray, right: np.ndarray, n_jobs: int) -> np.ndarray:
        """Return how many words both records of pairs have, and only one of them."""
        sizes = self.words.sizes
        common = self.words.products(np.column_stack([left, right]), n_jobs)
        return np.column_stack([common, sizes[left] - common, sizes[right] - common])


@dataclass(frozen=True)
class ColumnTexts(Comparison):
    """The texts of one column, empty where they are missing, and the numbers in them.

    `first` is the first number of each, `numbers` are all of them.
    """

    texts: np.ndarray
    first: np.ndarray
    numbers: np.ndarray

    @classmethod
    def of_column(cls, name: str, texts: Sequence[str]) -> ColumnTexts:
        """Return the texts of a column."""
        return cls(
            name,
            texts=_as_array(texts),
            first=np.array([first_number(text) for text in texts]),
            numbers=_as_array([" ".join(NUMBER.findall(text)) for text in texts]),
        )

    @property
    def names(self) -> list[str]:
        """What the numbers of a pair are called."""
        return [*OF_VALUES, "equal", "first number", "same numbers"]

    def compare(self, left: np.ndarray, right: np.ndarray, n_jobs: int) -> np.ndarray:
        """Return the numbers of pairs, NaN where a value is missing."""
        left_texts = self.texts[left]
        right_texts = self.texts[right]
        similarities = _similarities(OF_VALUES, left_texts, right_texts, n_jobs)
        is_equal = left_texts == right_texts
        left_first = self.first[left]
        right_first = self.first[right]
        has_numbers = ~np.isnan(left_first) | ~np.isnan(right_first)
        is_same = self.numbers[left] == self.numbers[right]
        numbers = np.column_stack(
            [
                similarities,
                is_equal,
                relative_difference(left_first, right_first),
                np.where(has_numbers, is_same, np.nan),
            ]
        )
        numbers[(left_texts == "") | (right_texts == "")] = np.nan
        return numbers


@dataclass(frozen=True)
class ColumnAmounts(Comparison):
    """A column of numbers, NaN where they are missing: how far two are apart."""

    amounts: np.ndarray

    @property
    def names(self) -> list[str]:
        """What the numbers of a pair are called."""
        return ["difference", "relative difference"]

    def compare(self, left: np.ndarray, right: np.ndarray, n_jobs: int) -> np.ndarray:
        """Return the numbers of pairs, NaN where a value is missing."""
        left_amounts = self.amounts[left]
        right_amounts = self.amounts[right]
        difference = np.log1p(abs(left_amounts - right_amounts))
        relative = relative_difference(left_amounts, right_amounts)
        return np.column_stack([difference, relative])


@dataclass(frozen=True)
class ColumnDays(Comparison):
    """A column of dates, as numbers of days: how many days two are apart."""

    days: np.ndarray

    @property
    def names(self) -> list[str]:
        """What the numbers of a pair are called."""
        return ["days apart"]

    def compare(self, left: np.ndarray, right: np.ndarray, n_jobs: int) -> np.ndarray:
        """Return the numbers of pairs, NaN where a value is missing."""
        return np.log1p(abs(self.days[left] - self.days[right]))[:, None]


class StringSimilarities:
    """Comparisons of whole records, of their words with digits, and of each column."""

    def __init__(self, comparisons: Sequence[Comparison]) -> None:
        self.comparisons = comparisons

    @classmethod
    def of_tables(
        cls, tables: Tables, column_kinds: dict[str, str] | None = None
    ) -> StringSimilarities:
        """Return the comparisons of the records of tables.

        Which columns are numbers or dates is as with earlier records, or by the values
        where `column_kinds` is None.
        """
        texts = [folded(text) for text in tables.texts()]
        words = [WORD.findall(text) for text in texts]
        whole = WholeRecords.of_texts([text[:MAX_LENGTH] for text in texts])
        comparisons: list[Comparison] = [whole]
        comparisons += [WordCounts.of_kind(kind, words) for kind in KINDS]
        for name in tables.shared_columns()[:MAX_COLUMNS]:
            values = [folded(text)[:MAX_LENGTH] for text in tables.column(name)]
            comparisons.append(ColumnTexts.of_column(name, values))
            amounts = read_values(values, amount)
            days = read_values(values, day)
            if column_kinds is None:
                has_days = are_values(values, days)
                has_amounts = are_values(values, amounts) and not has_days
            else:
                has_days = column_kinds.get(name) == "days"
                has_amounts = column_kinds.get(name) == "amounts"
            if has_days:
                comparisons.append(ColumnDays(name, days))
            if has_amounts:
                comparisons.append(ColumnAmounts(name, amounts))
        return cls(comparisons)

    @property
    def columns(self) -> list[str]:
        """The columns that are compared one by one."""
        return [
            each.subject for each in self.comparisons if isinstance(each, ColumnTexts)
        ]

    @property
    def column_kinds(self) -> dict[str, str]:
        """Which columns are of amounts, and which of days."""
        kinds = {}
        for each in self.comparisons:
            if isinstance(each, ColumnAmounts):
                kinds[each.subject] = "amounts"
            elif isinstance(each, ColumnDays):
                kinds[each.subject] = "days"
        return kinds

    def values(self, name: str) -> np.ndarray:
        """Return the values of a column, in lower case, empty where they are missing."""
        [column] = [
            each
            for each in self.comparisons
            if isinstance(each, ColumnTexts) and each.subject == name
        ]
        return column.texts

    def amounts(self, name: str) -> np.ndarray:
        """Return the numbers of a column of amounts, NaN where they are missing."""
        [column] = [
            each
            for each in self.comparisons
            if isinstance(each, ColumnAmounts) and each.subject == name
        ]
        return column.amounts

    def joined(
        self, later: StringSimilarities, records: np.ndarray
    ) -> StringSimilarities:
        """Return the comparisons of some of these records and of later ones.

        The later ones are numbered after these.
        """
        pairs = zip(self.comparisons, later.comparisons, strict=True)
        return StringSimilarities(
            [first.joined(second, records) for first, second in pairs]
        )

    def compare(self, pairs: np.ndarray, n_jobs: int | None = None) -> np.ndarray:
        """Return the numbers of pairs, shape (n_pairs, n_numbers)."""
        left = pairs[:, 0]
        right = pairs[:, 1]
        return np.column_stack(
            [each.compare(left, right, n_jobs or 1) for each in self.comparisons]
        )


def _similarities(
    scorers: Mapping[str, Scorer], left: np.ndarray, right: np.ndarray, n_jobs: int
) -> np.ndarray:
    """Return similarities of texts, those of a row by all scorers, in 32 bits."""
    n_threads = 1
    if len(left) >= MIN_PAIRS_OF_THREADS:
        n_threads = n_jobs
    columns = [
        process.cpdist(left, right, scorer=scorer, workers=n_threads, dtype=np.float32)
        for scorer in scorers.values()
    ]
    return np.column_stack(columns)


def _as_array(texts: Sequence[str]) -> np.ndarray:
    array = np.empty(len(texts), dtype=object)
    array[:] = texts
    return array


def _indicators(hashes: list[list[int]]) -> Rows:
    """Return a row per list of numbers, with a 1 for each."""
    indices = np.array([*chain.from_iterable(hashes)], dtype=np.int32)
    arrays = SparseArrays(
        indptr=np.cumsum([0, *map(len, hashes)], dtype=np.int64),
        indices=indices,
        data=np.ones(len(indices)),
    )
    return Rows(arrays)


def _hash(word: str) -> int:
    return zlib.crc32(word.encode("utf-8", "surrogatepass")) % N_HASHES


def _joined(first: Any, later: Any, records: np.ndarray) -> Any:
    """Return the rows of some records, of two arrays or as sparse rows."""
    if isinstance(first, Rows):
        return first.joined(later, records)
    return joined_values(first, later, records)
