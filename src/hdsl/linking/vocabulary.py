"""The words and character n-grams of texts, weighted by how rare they are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from copy import copy
from typing import NamedTuple
from unicodedata import normalize

import numpy as np
import scipy.sparse as sp

from ..cpu.kernels.arrays import SparseArrays
from ..wide_matrices import index_dtype
from .blocks import row_blocks
from .rows import Rows

#: Lengths of character n-grams.
GRAM_LENGTHS = (3, 4)

#: In more texts than this, a feature must be in two.
MIN_TEXTS = 50


class Tokens(NamedTuple):
    """How often each text has each token; tokens are what spaces separate."""

    counts: sp.csr_array
    tokens: list[str]

    @classmethod
    def of_texts(cls, texts: list[str]) -> Tokens:
        """Return the tokens of texts, in lower case."""
        number_of_token: dict[str, int] = {}
        indices: list[int] = []
        indptr = [0]
        for text in texts:
            indices += [
                number_of_token.setdefault(token, len(number_of_token))
                for token in _fold_case(text).split()
            ]
            indptr.append(len(indices))
        counts = _counts(indices, indptr, n_columns=len(number_of_token))
        return cls(counts, list(number_of_token))

    @property
    def n_texts(self) -> int:
        """How many texts there are."""
        return int(self.counts.shape[0])


class Vocabulary:
    """The words and n-grams that count, and how much each does.

    Parameters
    ----------
    names : list of str
        Those of the first texts are sorted, so that the n-grams, in quotes, come before
        the words. Later ones follow in any order.
    idf : ndarray of shape (n_features,)
        Inverse frequency of each feature: larger if it is rarer.
    n_first : int
        Features of the first texts.
    n_texts : int
        How many these are.

    Attributes
    ----------
    gram_columns, word_columns : ndarray
        The features that are n-grams, and the words.
    has_digit : ndarray of bool of shape (n_words,)
        Which words have a digit.
    """

    def __init__(
        self, names: list[str], idf: np.ndarray, n_first: int, n_texts: int
    ) -> None:
        self.names = names
        self.idf = idf
        self.n_first = n_first
        self.n_texts = n_texts
        is_gram = np.array([_is_gram(name) for name in names], dtype=bool)
        self.gram_columns = np.flatnonzero(is_gram)
        self.word_columns = np.flatnonzero(~is_gram)
        words = [names[column] for column in self.word_columns.tolist()]
        self.has_digit = _have_digit(words)
        self._is_word = ~is_gram
        self._positions = np.where(is_gram, is_gram.cumsum(), (~is_gram).cumsum()) - 1
        self._numbers = {name: number for number, name in enumerate(names)}
        self._later_numbers: dict[str, int] = {}

    def _number(self, name: str) -> int | None:
        """Return the number of a feature; None if the vocabulary does not have it."""
        number = self._numbers.get(name)
        if number is None:
            number = self._later_numbers.get(name)
        return number

    @classmethod
    def of_tokens(cls, tokens: Tokens) -> Vocabulary:
        """Return the features of texts, and how rare they are among these."""
        names = {name for token in tokens.tokens for name in words_and_grams(token)}
        every_name = sorted(names)
        n_names = len(every_name)
        n_texts = tokens.n_texts
        every_feature = cls(every_name, np.ones(n_names), n_names, n_texts)
        frequencies = every_feature._frequencies(tokens)
        least = 2 if n_texts > MIN_TEXTS else 1
        kept = np.flatnonzero(frequencies >= least)
        if not len(kept):
            raise ValueError("No word is in two records: nothing to link by.")
        names_kept = [every_name[number] for number in kept.tolist()]
        idf = _idf(frequencies[kept], n_texts)
        return cls(names_kept, idf, len(kept), n_texts)

    def extended(self, names: list[str]) -> Vocabulary:
        """Return the vocabulary with features of two texts behind the others."""
        n_before = len(self.names)
        columns = np.arange(n_before, n_before + len(names))
        is_gram = np.array([_is_gram(name) for name in names], dtype=bool)
        idf = _idf(np.full(len(names), 2), self.n_texts)
        extended = copy(self)
        extended.names = self.names + names
        extended.idf = np.concatenate([self.idf, idf])
        extended.gram_columns = np.concatenate([self.gram_columns, columns[is_gram]])
        extended.word_columns = np.concatenate([self.word_columns, columns[~is_gram]])
        n_grams = len(self.gram_columns)
        n_words = len(self.word_columns)
        positions = np.where(
            is_gram, n_grams + is_gram.cumsum(), n_words + (~is_gram).cumsum()
        )
        extended._is_word = np.concatenate([self._is_word, ~is_gram])
        extended._positions = np.concatenate([self._positions, positions - 1])
        words = [name for name in names if not _is_gram(name)]
        extended.has_digit = np.concatenate([self.has_digit, _have_digit(words)])
        later_numbers = zip(names, columns.tolist(), strict=True)
        extended._later_numbers = self._later_numbers | dict(later_numbers)
        return extended

    @property
    def n_first_words(self) -> int:
        """How many words the first texts had."""
        return int((self.word_columns < self.n_first).sum())

    def are_words(self, numbers: list[int]) -> bool:
        """Return whether features are words, all of them."""
        return not any(_is_gram(self.names[number]) for number in numbers)

    def is_unchanged(self) -> bool:
        """Return whether all features are those of the first texts."""
        return len(self.names) == self.n_first

    def missing(self, tokens: Tokens) -> list[set[str]]:
        """Return the features of each text that the vocabulary has not."""
        missing_of_token = [
            {name for name in words_and_grams(token) if self._number(name) is None}
            for token in tokens.tokens
        ]
        numbers_of_text = np.split(tokens.counts.indices, tokens.counts.indptr[1:-1])
        missing = []
        for numbers in numbers_of_text:
            names = set[str]()
            for number in numbers.tolist():
                names |= missing_of_token[number]
            missing.append(names)
        return missing

    def weigh(self, tokens: Tokens) -> tuple[Rows, Rows]:
        """Return the n-grams of texts and their words, each numbered on its own.

        Their weights are TF-IDF with the logarithm of counts.
        """
        numbers, ends = self._numbers_of_tokens(tokens.tokens)
        is_word = self._is_word[numbers]
        return (
            self._weighted(tokens, numbers, ends, ~is_word),
            self._weighted(tokens, numbers, ends, is_word),
        )

    def _weighted(
        self, tokens: Tokens, numbers: np.ndarray, ends: np.ndarray, is_kept: np.ndarray
    ) -> Rows:
        """Return texts as rows of weights, of words alone or of n-grams alone."""
        kept = numbers[is_kept]
        n_before = np.concatenate([[0], np.cumsum(is_kept)])
        # No array is as long as the vocabulary: most of it may not occur.
        used, columns = np.unique(kept, return_inverse=True)
        features = _counts(columns, n_before[ends], n_columns=len(used))
        idf = self.idf[used]
        positions = self._positions[used].astype(np.int32)
        parts = []
        for texts in row_blocks(tokens.n_texts):
            weights = sp.csr_array(tokens.counts[texts] @ features)
            weights.sort_indices()
            arrays = SparseArrays(
                indptr=weights.indptr.astype(np.int64),
                indices=positions[weights.indices],
                data=(1.0 + np.log(weights.data)) * idf[weights.indices],
            )
            parts.append(Rows(arrays))
        return Rows.stacked(parts)

    def _frequencies(self, tokens: Tokens) -> np.ndarray:
        """Return the number of texts that have each feature."""
        numbers, ends = self._numbers_of_tokens(tokens.tokens)
        features = _counts(numbers, ends, n_columns=len(self.names))
        frequencies = np.zeros(len(self.names), dtype=np.int64)
        for texts in row_blocks(tokens.n_texts):
            counts = tokens.counts[texts] @ features
            frequencies += np.bincount(counts.indices, minlength=len(self.names))
        return frequencies

    def _numbers_of_tokens(self, tokens: list[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return the numbers of the features of tokens, and where those of each end.

        The ends begin with 0.
        """
        numbers: list[int] = []
        ends = [0]
        for token in tokens:
            for name in words_and_grams(token):
                number = self._number(name)
                if number is not None:
                    numbers.append(number)
            ends.append(len(numbers))
        return np.array(numbers, dtype=np.int64), np.array(ends)


def _have_digit(words: list[str]) -> np.ndarray:
    return np.array([any(map(str.isdigit, word)) for word in words], dtype=bool)


def _idf(frequencies: np.ndarray, n_texts: int) -> np.ndarray:
    return np.log((n_texts + 1) / (frequencies + 1)) + 1.0


def _counts(
    indices: Sequence[int] | np.ndarray,
    indptr: Sequence[int] | np.ndarray,
    n_columns: int,
) -> sp.csr_array:
    """Return how often each row has each column, from the columns that it names."""
    dtype = index_dtype(max(len(indices), n_columns))
    arrays = (
        np.ones(len(indices)),
        np.array(indices, dtype=dtype),
        np.array(indptr, dtype=dtype),
    )
    counts = sp.csr_array(arrays, shape=(len(indptr) - 1, n_columns))
    counts.sum_duplicates()
    return counts


def words_and_grams(token: str) -> list[str]:
    """Return the words of a token, and its character n-grams in quotes.

    Examples
    --------
    >>> words_and_grams("x-10")
    ['x', '10', "' x-'", "'x-1'", "'-10'", "'10 '", "' x-1'", "'x-10'", "'-10 '"]
    """
    padded = f" {token} "
    features = re.findall(r"\w+", token)
    for length in GRAM_LENGTHS:
        starts = range(len(padded) - length + 1)
        features += [repr(padded[start : start + length]) for start in starts]
    return features


def _is_gram(name: str) -> bool:
    """Return whether a feature is an n-gram, by its name, and no word."""
    return name.startswith(("'", '"'))


def _fold_case(text: str) -> str:
    """Return a text in lower case, the same for all ways to write its characters."""
    return normalize("NFKC", text).lower()
