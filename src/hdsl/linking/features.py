"""Records as rows of words and n-grams and as texts, and what two have in common.

Texts are compared whole, by their words with digits, and column by column: as strings,
numbers and dates.
"""

from __future__ import annotations

import re
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import date
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from rapidfuzz import fuzz, process
from rapidfuzz.distance import JaroWinkler, Levenshtein

from ..cpu.kernels.compiled import SparseArrays
from .rows import WORD, Rows, Vocabulary, folded, joined_values, row_blocks
from .tables import Tables

#: Share of the values of a column of numbers that are numbers; of dates likewise.
MIN_SHARE = 0.9

#: A number, perhaps with thousands, a currency before it or a unit behind it. More than
#: 15 digits are a code and no amount; they would overflow, too.
AMOUNT = re.compile(
    r"[^\w\s-]?\s*(-?\d{1,15}|-?\d{1,3}(?:,\d{3}){1,4})(\.\d{1,15})?\s*[^\W\d_]{0,3}\W?"
)

#: Year, month and day, as ISO writes them, perhaps with a time.
DATE = re.compile(r"(\d{4})([-/.]?)(\d\d)\2(\d\d)(?:[ T]\d\d:\d\d.*)?")

#: The first number anywhere in a text.
NUMBER = re.compile(r"\d{1,15}(?:\.\d{1,15})?")


def amount(text: str) -> float:
    """Return the number that a text is, NaN if it is none.

    Examples
    --------
    >>> [amount(text) for text in ("$1,299.50", "12", "4 GB", "DSC-12")]
    [1299.5, 12.0, 4.0, nan]
    """
    match = AMOUNT.fullmatch(text)
    if match is None:
        return np.nan
    return float(match[1].replace(",", "") + (match[2] or ""))


def day(text: str) -> float:
    """Return the number of the day that a text names, NaN if it names none.

    Examples
    --------
    >>> day("2024-03-01") - day("20240229"), day("2024-13-01")
    (1.0, nan)
    """
    match = DATE.fullmatch(text)
    if match is None:
        return np.nan
    try:
        return float(date(int(match[1]), int(match[3]), int(match[4])).toordinal())
    except ValueError:
        return np.nan


def first_number(text: str) -> float:
    """Return the first number in a text, NaN if there is none."""
    match = NUMBER.search(text)
    if match is None:
        return np.nan
    return float(match[0])


def read_values(texts: Sequence[str], read: Callable[[str], float]) -> np.ndarray:
    """Return the texts of a column as values, NaN where they are none."""
    return np.array([read(text) for text in texts], dtype=np.float64)


def are_values(texts: Sequence[str], values: np.ndarray) -> bool:
    """Return whether nearly all texts of a column that are not empty are values.

    Examples
    --------
    >>> texts = ["3", "", "5"]
    >>> are_values(texts, read_values(texts, amount))
    True
    >>> are_values(["red", "5"], read_values(["red", "5"], amount))
    False
    """
    n_filled = sum(text != "" for text in texts)
    n_values = int(np.sum(~np.isnan(values)))
    return n_filled > 0 and n_values >= MIN_SHARE * n_filled


def relative_difference(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return differences divided by the larger number of both, 0 of equal ones.

    Examples
    --------
    >>> relative_difference(np.array([4.0, 0.0]), np.array([5.0, 0.0])).tolist()
    [0.2, 0.0]
    """
    largest = np.maximum(abs(left), abs(right))
    return abs(left - right) / np.where(largest == 0.0, 1.0, largest)


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


#: What whole records are compared by.
SUBJECTS = ("words in common", "words with digits", "letters in common")

#: What is known of each subject.
OVERLAP_NAMES = (
    "share of the left",
    "share of the right",
    "rarest that only the left has",
    "rarest that only the right has",
)


class Block(NamedTuple):
    """Rows of all records over some features, and the square of the length of each."""

    rows: Rows
    squares: np.ndarray

    @classmethod
    def of_rows(cls, rows: Rows) -> Block:
        """Return rows with their lengths."""
        return cls(rows, rows.squares())

    @property
    def inverse_lengths(self) -> np.ndarray:
        """What makes rows as long as 1; 1 for empty rows."""
        return 1.0 / np.sqrt(np.where(self.squares > 0.0, self.squares, 1.0))

    def joined(self, later: Block, records: np.ndarray) -> Block:
        """Return some of these rows and of later ones, numbered after these."""
        squares = joined_values(self.squares, later.squares, records)
        return Block(self.rows.joined(later.rows, records), squares)

    def cosine(self, pairs: np.ndarray, n_jobs: int | None) -> np.ndarray:
        """Return the cosine of pairs of records, NaN where a record has nothing."""
        common = self.rows.products(pairs, n_jobs)
        squares = self.squares[pairs]
        with np.errstate(invalid="ignore"):
            return common / np.sqrt(squares[:, 0] * squares[:, 1])

    def overlap(self, pairs: np.ndarray, n_jobs: int | None) -> np.ndarray:
        """Return what pairs of records have in common, shape (n_pairs, 4).

        How much of the left one is in the right one, and of the right one in the left
        one, NaN where a record has nothing; the largest value that only the left one
        has, and minus that of the right one.
        """
        overlaps = self.rows.overlaps(pairs, n_jobs)
        with np.errstate(invalid="ignore"):
            shares = overlaps[:, :1] / self.squares[pairs]
        return np.column_stack([shares, overlaps[:, 1:]])


class RecordFeatures:
    """The records of tables as rows of features.

    Attributes
    ----------
    grams, words : Block
        Weights of n-grams and of words by TF-IDF, each numbered on its own.
    strings : StringSimilarities
        Comparisons of the texts.
    vocabulary : Vocabulary
    """

    def __init__(
        self,
        grams: Block,
        words: Block,
        columns: list[Block],
        strings: StringSimilarities,
        vocabulary: Vocabulary,
    ) -> None:
        self.grams = grams
        self.words = words
        self.strings = strings
        self.vocabulary = vocabulary
        self._columns = columns

    @classmethod
    def of_tables(
        cls,
        tables: Tables,
        vocabulary: Vocabulary | None = None,
        column_kinds: dict[str, str] | None = None,
    ) -> RecordFeatures:
        """Return the records of tables.

        Features and their weights are those of a vocabulary, or of these records where
        it is None; `column_kinds` are those of earlier records.
        """
        texts = tables.texts()
        if vocabulary is None:
            # Single columns do not say how rare a feature is.
            vocabulary = Vocabulary.of_texts(texts)
        grams, words = map(Block.of_rows, vocabulary.rows(texts))
        columns = []
        for name in tables.shared_columns()[:MAX_COLUMNS]:
            if tables.have_only(name):
                columns.append(grams)
                continue
            grams_of_column, _ = vocabulary.rows(tables.column(name))
            columns.append(Block.of_rows(grams_of_column))
        strings = StringSimilarities.of_tables(tables, column_kinds)
        return cls(grams, words, columns, strings, vocabulary)

    @property
    def n_records(self) -> int:
        """How many records there are."""
        return self.grams.rows.n_rows

    def joined(self, later: RecordFeatures, records: np.ndarray) -> RecordFeatures:
        """Return some of these records and of later ones, numbered after these.

        The vocabulary is that of the later ones.
        """
        columns = zip(self._columns, later._columns, strict=True)
        joined = RecordFeatures(
            grams=self.grams.joined(later.grams, records),
            words=self.words.joined(later.words, records),
            columns=[block.joined(others, records) for block, others in columns],
            strings=self.strings.joined(later.strings, records),
            vocabulary=later.vocabulary,
        )
        joined.unit_rows = self.unit_rows.joined(later.unit_rows, records)
        return joined

    @cached_property
    def unit_rows(self) -> Rows:
        """N-grams at unit length and words at unit length, and both together too.

        Their products are cosines. Features are numbered as in `vocabulary`.
        """
        vocabulary = self.vocabulary
        lengths = np.column_stack([self.grams.squares, self.words.squares])
        share = 1.0 / np.sqrt(np.maximum((lengths > 0.0).sum(axis=1), 1))
        chunks = []
        for block in row_blocks(self.n_records):
            records = np.arange(self.n_records)[block]
            grams, words = (
                each.rows.take(records).times((share * each.inverse_lengths)[block])
                for each in (self.grams, self.words)
            )
            grams = grams.numbered(vocabulary.gram_columns)
            words = words.numbered(vocabulary.word_columns)
            X, Y = (each.matrix(vocabulary.n_features) for each in (grams, words))
            chunks.append(Rows.of_matrix(sp.csr_array(X + Y)))
        return Rows.stacked(chunks)

    def matrix(self) -> sp.csr_array:
        """Return `unit_rows` as a matrix, shape (n_records, n_features)."""
        return self.unit_rows.matrix(self.vocabulary.n_features)

    def spelling(self, pairs: np.ndarray, n_jobs: int | None) -> np.ndarray:
        """Return the cosine of the n-grams of pairs, 0 where a record has none."""
        return np.nan_to_num(self.grams.cosine(pairs, n_jobs), copy=False)

    @cached_property
    def first_words(self) -> Rows:
        """Weights of the words that the first records had, at unit length."""
        is_first = self.words.rows.arrays.indices < self.vocabulary.n_first_words
        words = self.words
        if not is_first.all():
            words = Block.of_rows(words.rows.with_features(is_first))
        return words.rows.times(words.inverse_lengths)

    # --- pairs of records -------------------------------------------------------------

    def overlap_names(self) -> list[tuple[str, list[str]]]:
        """Return the subjects of `overlap`, and what its columns are called."""
        subjects = [*SUBJECTS, *self.strings.columns]
        names = [
            (subject, [*OVERLAP_NAMES])
            for subject, width in zip(subjects, self._first_widths(), strict=True)
            if width
        ]
        return [*names, ("lengths", ["of the left", "of the right"])]

    def overlap(self, pairs: np.ndarray, n_jobs: int | None) -> np.ndarray:
        """Return what pairs have in common, by block of features, and their lengths.

        The blocks are words, words with a digit, n-grams, and the n-grams of each
        column that both tables have.
        """
        lengths = self.grams.rows.sizes + self.words.rows.sizes
        overlaps = []
        for rows in row_blocks(len(pairs)):
            columns = [
                block.overlap(pairs[rows], n_jobs) for block in self._first_blocks()
            ]
            columns.append(lengths[pairs[rows]])
            overlaps.append(np.column_stack(columns))
        return np.concatenate(overlaps)

    def cosine_of_column(
        self, name: str, pairs: np.ndarray, n_jobs: int | None
    ) -> np.ndarray:
        """Return how alike pairs are in a column, by its n-grams."""
        return self._columns[self.strings.columns.index(name)].cosine(pairs, n_jobs)

    def cosine_of_records(
        self, pairs: np.ndarray, n_jobs: int | None, *, kind: str
    ) -> np.ndarray:
        """Return how alike whole records are, by n-grams or by words with digits.

        NaN where a record has none.
        """
        if kind == "words with digits":
            return self._digits.cosine(pairs, n_jobs)
        return self.grams.cosine(pairs, n_jobs)

    def _first_blocks(self) -> list[Block]:
        """Return the blocks that had features from the first."""
        blocks = [self.words, self._digits, self.grams, *self._columns]
        return [
            block
            for block, width in zip(blocks, self._first_widths(), strict=True)
            if width
        ]

    def _first_widths(self) -> list[int]:
        """Return how many features each block had from the first."""
        vocabulary = self.vocabulary
        n_words = vocabulary.n_first_words
        n_digits = int(vocabulary.has_digit[:n_words].sum())
        n_grams = vocabulary.n_first_grams
        return [n_words, n_digits] + [n_grams] * (1 + len(self._columns))

    @cached_property
    def _digits(self) -> Block:
        """Words with a digit."""
        rows = self.words.rows
        is_kept = self.vocabulary.has_digit[rows.arrays.indices]
        return Block.of_rows(rows.with_features(is_kept))
