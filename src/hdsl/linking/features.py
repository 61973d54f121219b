"""Records as sparse rows of words and of character n-grams, and what two have in common."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from .blocks import row_blocks
from .rows import Rows, joined_values
from .string_similarities import StringSimilarities
from .tables import Tables
from .text import Vocabulary

#: Most columns that are compared one by one.
MAX_COLUMNS = 12


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

    def cosines(self, pairs: np.ndarray, n_jobs: int | None) -> np.ndarray:
        """Return how alike pairs are, by block of features, the shared columns last.

        NaN where a record has nothing. The blocks are those of `overlap`.
        """
        cosines = [block.cosine(pairs, n_jobs) for block in self._first_blocks()]
        return np.column_stack(cosines)

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
