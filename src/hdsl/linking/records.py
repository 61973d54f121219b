"""Records as sparse rows of words and of character n-grams, and what two have in common."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from ..similarity.products import row_products
from ..similarity.rows import unit_rows
from .blocks import row_blocks
from .string_similarities import StringSimilarities
from .tables import Tables
from .vocabulary import Tokens, Vocabulary

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

    rows: sp.csr_array
    squares: np.ndarray

    def take(self, records: np.ndarray) -> Block:
        """Return the rows of some records."""
        return Block(self.rows[records], self.squares[records])

    def followed_by(self, later: Block) -> Block:
        """Return these rows and later ones."""
        squares = np.concatenate([self.squares, later.squares])
        return Block(_stacked(self.rows, later.rows), squares)

    def cosine(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Return the cosine of pairs of records, NaN where a record has nothing."""
        common = row_products(self.rows[left], self.rows[right])
        with np.errstate(invalid="ignore"):
            return common / np.sqrt(self.squares[left] * self.squares[right])

    def overlap(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Return what pairs of records have in common, shape (n_pairs, 4).

        How much of the left one is in the right one, and of the right one in the left
        one, NaN where a record has nothing; the largest value that only the left one
        has, and minus that of the right one.
        """
        left_rows = self.rows[left]
        right_rows = self.rows[right]
        common = row_products(left_rows, right_rows)
        difference = left_rows - right_rows
        with np.errstate(invalid="ignore"):
            share_of_left = common / self.squares[left]
            share_of_right = common / self.squares[right]
        only_left = difference.max(axis=1).toarray()
        only_right = difference.min(axis=1).toarray()
        return np.column_stack([share_of_left, share_of_right, only_left, only_right])


class RecordFeatures:
    """The records of tables as rows of features.

    Attributes
    ----------
    X : csr_array of shape (n_records, n_features)
        Words and n-grams, weighted by TF-IDF, at unit length.
    grams : csr_array of shape (n_records, n_grams)
        The n-grams alone, which tell spelling, at unit length.
    strings : StringSimilarities
        Comparisons of the texts.
    vocabulary : Vocabulary
        The features; the n-grams come before the words.
    """

    def __init__(
        self,
        X: sp.csr_array,
        grams: sp.csr_array,
        strings: StringSimilarities,
        blocks: list[Block],
        vocabulary: Vocabulary,
    ) -> None:
        self.X = X
        self.grams = grams
        self.strings = strings
        self.vocabulary = vocabulary
        self._blocks = blocks

    @classmethod
    def of_tables(
        cls,
        tables: Tables,
        vocabulary: Vocabulary | None = None,
        column_kinds: dict[str, str] | None = None,
    ) -> RecordFeatures:
        """Return the records of tables.

        Features, their weights and the kinds of columns are those of earlier records,
        or of these where they are None.
        """
        n = tables.n_records
        columns = tables.shared_columns()[:MAX_COLUMNS]
        texts = tables.texts()
        for name in columns:
            texts += tables.column(name)
        tokens = Tokens.of_texts(texts)
        if vocabulary is None:
            # Single columns do not say how rare a feature is.
            vocabulary = Vocabulary.of_tokens(tokens.first(n))
        strings = StringSimilarities.of_tables(tables, column_kinds)
        weights = vocabulary.weigh(tokens)
        grams = _columns(weights, vocabulary.gram_columns)
        words = _columns(weights[:n], vocabulary.word_columns)
        unit_grams = unit_rows(grams[:n])
        rows = unit_rows(sp.csr_array(sp.hstack([unit_grams, unit_rows(words)])))
        if not vocabulary.is_unchanged():
            columns_of_rows = [vocabulary.gram_columns, vocabulary.word_columns]
            rows = rows[:, np.argsort(np.concatenate(columns_of_rows))]
        firsts = [n * number for number in range(1 + len(columns))]
        gram_blocks = [grams[first : first + n] for first in firsts]
        blocks = [words, words[:, vocabulary.has_digit], *gram_blocks]
        return cls(
            X=rows,
            grams=unit_grams,
            strings=strings,
            blocks=[Block(block, row_products(block, block)) for block in blocks],
            vocabulary=vocabulary,
        )

    def resized(self, vocabulary: Vocabulary) -> RecordFeatures:
        """Return the records by a vocabulary that has more features, or fewer.

        They have none of those that come, and lose those that go.
        """
        n_grams = len(vocabulary.gram_columns)
        n_digits = int(vocabulary.has_digit.sum())
        widths = [len(vocabulary.word_columns), n_digits]
        widths += [n_grams] * (len(self._blocks) - len(widths))
        return RecordFeatures(
            X=resized(self.X, len(vocabulary.names)),
            grams=resized(self.grams, n_grams),
            strings=self.strings,
            blocks=[
                Block(resized(block.rows, width), block.squares)
                for block, width in zip(self._blocks, widths, strict=True)
            ],
            vocabulary=vocabulary,
        )

    def followed_by(self, later: RecordFeatures) -> RecordFeatures:
        """Return these records and later ones, by the same vocabulary."""
        blocks = zip(self._blocks, later._blocks, strict=True)
        return RecordFeatures(
            X=_stacked(self.X, later.X),
            grams=_stacked(self.grams, later.grams),
            strings=self.strings.followed_by(later.strings),
            blocks=[block.followed_by(later_block) for block, later_block in blocks],
            vocabulary=later.vocabulary,
        )

    def take(self, records: np.ndarray) -> RecordFeatures:
        """Return some of the records, in the order of their numbers in an array."""
        return RecordFeatures(
            X=self.X[records],
            grams=self.grams[records],
            strings=self.strings.take(records),
            blocks=[block.take(records) for block in self._blocks],
            vocabulary=self.vocabulary,
        )

    def overlap_names(self) -> list[tuple[str, list[str]]]:
        """Return the subjects of `overlap`, and what its columns are called."""
        subjects = [*SUBJECTS, *self.strings.columns]
        names = [
            (subject, [*OVERLAP_NAMES])
            for subject, width in zip(subjects, self._first_widths(), strict=True)
            if width
        ]
        return [*names, ("lengths", ["of the left", "of the right"])]

    def overlap(self, pairs: np.ndarray) -> np.ndarray:
        """Return what pairs have in common, by block of features, and their lengths.

        The blocks are words, words with a digit, n-grams, and the n-grams of each
        column that both tables have.
        """
        lengths = np.diff(self.X.indptr)
        overlaps = []
        for rows in row_blocks(len(pairs)):
            left = pairs[rows, 0]
            right = pairs[rows, 1]
            columns = [block.overlap(left, right) for block in self._first_blocks()]
            columns += [lengths[left], lengths[right]]
            overlaps.append(np.column_stack(columns))
        return np.concatenate(overlaps)

    @property
    def first_words(self) -> sp.csr_array:
        """TF-IDF weights of the words that the first records had."""
        n_words = (self.vocabulary.word_columns < self.vocabulary.n_first).sum()
        return resized(self._blocks[0].rows, int(n_words))

    def _first_blocks(self) -> list[Block]:
        """Return the blocks that had features from the first."""
        return [
            block
            for block, width in zip(self._blocks, self._first_widths(), strict=True)
            if width
        ]

    def _first_widths(self) -> list[int]:
        """Return how many features each block had from the first."""
        vocabulary = self.vocabulary
        n_words = int((vocabulary.word_columns < vocabulary.n_first).sum())
        n_digits = int(vocabulary.has_digit[:n_words].sum())
        n_grams = vocabulary.n_first - n_words
        widths = [n_words, n_digits]
        return widths + [n_grams] * (len(self._blocks) - len(widths))

    def cosines(self, pairs: np.ndarray) -> np.ndarray:
        """Return how alike pairs are, by block of features, the shared columns last.

        NaN where a record has nothing. The blocks are those of `overlap`.
        """
        blocks = self._first_blocks()
        cosines = np.empty((len(pairs), len(blocks)))
        for rows in row_blocks(len(pairs)):
            left = pairs[rows, 0]
            right = pairs[rows, 1]
            for number, block in enumerate(blocks):
                cosines[rows, number] = block.cosine(left, right)
        return cosines


def resized(X: sp.csr_array, n_columns: int) -> sp.csr_array:
    """Return rows with more columns, which are empty, or with the first ones only."""
    if n_columns < X.shape[1]:
        return X[:, :n_columns]
    return sp.csr_array((X.data, X.indices, X.indptr), shape=(X.shape[0], n_columns))


def _columns(X: sp.csr_array, columns: np.ndarray) -> sp.csr_array:
    """Return some columns, of which neighbouring ones are faster."""
    if len(columns) and columns[-1] - columns[0] == len(columns) - 1:
        return X[:, columns[0] : columns[-1] + 1]
    return X[:, columns]


def _stacked(first: sp.csr_array, second: sp.csr_array) -> sp.csr_array:
    return sp.csr_array(sp.vstack([first, second], format="csr"))
