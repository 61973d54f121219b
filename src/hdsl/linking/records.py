"""Records as sparse rows of words and of character n-grams, and what two have in common."""

from __future__ import annotations

from collections.abc import Iterable
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


class Block(NamedTuple):
    """Rows of all records over some features, and the square of the length of each."""

    rows: sp.csr_array
    squares: np.ndarray

    def take(self, records: np.ndarray) -> Block:
        """Return the rows of some records."""
        return Block(self.rows[records], self.squares[records])

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
    words : csr_array of shape (n_records, n_words)
        TF-IDF weights of the words alone.
    strings : StringSimilarities
        Comparisons of the texts.
    vocabulary : Vocabulary
        The features; the n-grams come before the words.
    """

    def __init__(
        self,
        X: sp.csr_array,
        grams: sp.csr_array,
        words: sp.csr_array,
        strings: StringSimilarities,
        blocks: list[Block],
        vocabulary: Vocabulary,
    ) -> None:
        self.X = X
        self.grams = grams
        self.words = words
        self.strings = strings
        self.vocabulary = vocabulary
        self._blocks = blocks

    @classmethod
    def of_tables(
        cls, tables: Tables, earlier: RecordFeatures | None = None
    ) -> RecordFeatures:
        """Return the records of tables.

        Features, their weights and the kinds of columns are as with earlier records, if
        there are any.
        """
        n = tables.n_records
        columns = tables.shared_columns()[:MAX_COLUMNS]
        texts = tables.texts()
        for name in columns:
            texts += tables.column(name)
        tokens = Tokens.of_texts(texts)
        if earlier is None:
            # Single columns do not say how rare a feature is.
            vocabulary = Vocabulary.of_tokens(tokens.first(n))
            strings = StringSimilarities.of_tables(tables)
        else:
            vocabulary = earlier.vocabulary
            strings = StringSimilarities.of_tables(tables, earlier.strings)
        weights = vocabulary.weigh(tokens)
        grams = weights[:, : vocabulary.n_grams]
        words = weights[:n, vocabulary.n_grams :]
        unit_grams = unit_rows(grams[:n])
        rows = sp.hstack([unit_grams, unit_rows(words)])
        firsts = range(0, n * (1 + len(columns)), n)
        gram_blocks = [grams[first : first + n] for first in firsts]
        blocks = [words, words[:, vocabulary.has_digit], *gram_blocks]
        return cls(
            X=unit_rows(sp.csr_array(rows)),
            grams=unit_grams,
            words=words,
            strings=strings,
            blocks=[
                Block(block, row_products(block, block))
                for block in blocks
                if block.shape[1]
            ],
            vocabulary=vocabulary,
        )

    @classmethod
    def joined(cls, features: Iterable[RecordFeatures]) -> RecordFeatures:
        """Return the records of several, one after the other, by the same vocabulary."""
        each = list(features)
        block_groups = zip(*(part._blocks for part in each), strict=True)
        return cls(
            X=_stacked(part.X for part in each),
            grams=_stacked(part.grams for part in each),
            words=_stacked(part.words for part in each),
            strings=StringSimilarities.joined(part.strings for part in each),
            blocks=[
                Block(
                    _stacked(block.rows for block in blocks),
                    np.concatenate([block.squares for block in blocks]),
                )
                for blocks in block_groups
            ],
            vocabulary=each[0].vocabulary,
        )

    def take(self, records: np.ndarray) -> RecordFeatures:
        """Return some of the records, in the order of their numbers in an array."""
        return RecordFeatures(
            X=self.X[records],
            grams=self.grams[records],
            words=self.words[records],
            strings=self.strings.take(records),
            blocks=[block.take(records) for block in self._blocks],
            vocabulary=self.vocabulary,
        )

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
            columns = [block.overlap(left, right) for block in self._blocks]
            columns += [lengths[left], lengths[right]]
            overlaps.append(np.column_stack(columns))
        return np.concatenate(overlaps)

    def cosines(self, pairs: np.ndarray) -> np.ndarray:
        """Return how alike pairs are, by block of features, the shared columns last.

        NaN where a record has nothing. The blocks are those of `overlap`.
        """
        cosines = np.empty((len(pairs), len(self._blocks)))
        for rows in row_blocks(len(pairs)):
            left = pairs[rows, 0]
            right = pairs[rows, 1]
            for number, block in enumerate(self._blocks):
                cosines[rows, number] = block.cosine(left, right)
        return cosines


def _stacked(matrices: Iterable[sp.csr_array]) -> sp.csr_array:
    return sp.csr_array(sp.vstack([*matrices], format="csr"))
