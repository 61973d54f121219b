"""The words and character n-grams of texts, weighted by how rare they are."""

from __future__ import annotations

import re
from copy import copy
from itertools import chain, pairwise
from typing import NamedTuple
from unicodedata import normalize

import numpy as np

from ..cpu.kernels.arrays import SparseArrays
from ..cpu.kernels.text_features import TokenFeatures, count_features
from .blocks import row_blocks
from .rows import Rows

#: Lengths of character n-grams.
GRAM_LENGTHS = (3, 4)

#: What is a word.
WORD = re.compile(r"\w+")

#: In more texts than this, a feature must be in two.
MIN_TEXTS = 50


class Tokens(NamedTuple):
    """The tokens of texts; tokens are what spaces separate.

    Attributes
    ----------
    indptr : ndarray of shape (n_texts + 1,)
        Where the tokens of each text begin and end.
    numbers : ndarray of shape (n,)
        Their numbers, one that occurs twice in a text twice.
    tokens : list of str
    """

    indptr: np.ndarray
    numbers: np.ndarray
    tokens: list[str]

    @classmethod
    def of_texts(cls, texts: list[str]) -> Tokens:
        """Return the tokens of texts, in lower case."""
        number_of_token: dict[str, int] = {}
        numbers: list[int] = []
        indptr = [0]
        for text in texts:
            numbers += [
                number_of_token.setdefault(token, len(number_of_token))
                for token in _fold_case(text).split()
            ]
            indptr.append(len(numbers))
        return cls(
            np.array(indptr, dtype=np.int64),
            np.array(numbers, dtype=np.int64),
            list(number_of_token),
        )

    @property
    def n_texts(self) -> int:
        """How many texts there are."""
        return len(self.indptr) - 1


class TokenNames(NamedTuple):
    """The features of a token: numbers of those that count, and names of the others."""

    numbers: list[int]
    missing: list[str]


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

    @classmethod
    def of_tokens(cls, tokens: Tokens) -> Vocabulary:
        """Return the features of texts, and how rare they are among these."""
        names = {name for token in tokens.tokens for name in words_and_grams(token)}
        every_name = sorted(names)
        n_names = len(every_name)
        n_texts = tokens.n_texts
        every_feature = cls(every_name, np.ones(n_names), n_names, n_texts)
        frequencies = TextReader(every_feature).frequencies(tokens)
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

    def read(self, token: str) -> TokenNames:
        """Return the features of a token: those that count, and the others."""
        numbers = []
        missing = []
        for name in words_and_grams(token):
            number = self._numbers.get(name)
            if number is None:
                number = self._later_numbers.get(name)
            if number is None:
                missing.append(name)
            else:
                numbers.append(number)
        return TokenNames(numbers, missing)

    def read_again(self, names: TokenNames) -> TokenNames:
        """Return the features of a token that was read before features were added."""
        if self._later_numbers.keys().isdisjoint(names.missing):
            return names
        added = [self._later_numbers.get(name) for name in names.missing]
        pairs = [*zip(names.missing, added, strict=True)]
        return TokenNames(
            numbers=names.numbers + [number for number in added if number is not None],
            missing=[name for name, number in pairs if number is None],
        )

    def rows(self, counts: SparseArrays) -> tuple[Rows, Rows]:
        """Return the n-grams of texts and their words, each numbered on its own.

        Their weights are TF-IDF with the logarithm of counts.
        """
        weights = (1.0 + np.log(counts.data)) * self.idf[counts.indices]
        positions = self._positions[counts.indices].astype(np.int32)
        is_word = self._is_word[counts.indices]
        rows = Rows(counts._replace(indices=positions, data=weights))
        return rows.with_features(~is_word), rows.with_features(is_word)


class TextReader:
    """Texts as rows of the features of a vocabulary; each token is looked up once.

    Parameters
    ----------
    vocabulary : Vocabulary
    keeps_missing : bool, default=False
        Whether the features that the vocabulary has not are known too; they take much
        memory.
    """

    def __init__(self, vocabulary: Vocabulary, *, keeps_missing: bool = False) -> None:
        self.vocabulary = vocabulary
        self._keeps_missing = keeps_missing
        self._names_of: dict[str, TokenNames] = {}

    def extended(self, names: list[str]) -> TextReader:
        """Return a reader that knows more features, and the tokens that this one read."""
        assert self._keeps_missing
        vocabulary = self.vocabulary.extended(names)
        reader = TextReader(vocabulary, keeps_missing=True)
        reader._names_of = {
            token: reader.vocabulary.read_again(token_names)
            for token, token_names in self._names_of.items()
        }
        return reader

    def _names(self, tokens: Tokens) -> list[TokenNames]:
        """Return the features of tokens."""
        for token in tokens.tokens:
            if token not in self._names_of:
                names = self.vocabulary.read(token)
                if not self._keeps_missing:
                    names = TokenNames(names.numbers, [])
                self._names_of[token] = names
        return [self._names_of[token] for token in tokens.tokens]

    def missing(self, tokens: Tokens) -> list[set[str]]:
        """Return the features of each text that the vocabulary has not."""
        assert self._keeps_missing
        names = self._names(tokens)
        numbers = tokens.numbers.tolist()
        bounds = pairwise(tokens.indptr.tolist())
        return [
            {name for number in numbers[start:stop] for name in names[number].missing}
            for start, stop in bounds
        ]

    def weigh(self, tokens: Tokens) -> tuple[Rows, Rows]:
        """Return the n-grams of texts and their words, with their weights."""
        features = self._features(tokens)
        grams = []
        words = []
        for texts in row_blocks(tokens.n_texts):
            counts = _counts(tokens, features, texts)
            grams_of_texts, words_of_texts = self.vocabulary.rows(counts)
            grams.append(grams_of_texts)
            words.append(words_of_texts)
        return Rows.stacked(grams), Rows.stacked(words)

    def frequencies(self, tokens: Tokens) -> np.ndarray:
        """Return the number of texts that have each feature."""
        features = self._features(tokens)
        n_features = len(self.vocabulary.names)
        frequencies = np.zeros(n_features, dtype=np.int64)
        for texts in row_blocks(tokens.n_texts):
            counts = _counts(tokens, features, texts)
            frequencies += np.bincount(counts.indices, minlength=n_features)
        return frequencies

    def _features(self, tokens: Tokens) -> TokenFeatures:
        """Return the features of tokens."""
        every = [names.numbers for names in self._names(tokens)]
        sizes = [len(numbers) for numbers in every]
        return TokenFeatures(
            indptr=np.cumsum([0, *sizes], dtype=np.int64),
            numbers=np.fromiter(chain.from_iterable(every), np.int64, sum(sizes)),
        )


def _counts(tokens: Tokens, features: TokenFeatures, texts: slice) -> SparseArrays:
    """Return how often texts have each feature, features in order."""
    bounds = tokens.indptr[texts.start : texts.stop + 1]
    numbers = tokens.numbers[bounds[0] : bounds[-1]]
    text_tokens = TokenFeatures(bounds - bounds[0], numbers)
    n_features = np.diff(features.indptr)[numbers]
    most = np.concatenate([[0], np.cumsum(n_features)])[text_tokens.indptr]
    counts = SparseArrays(
        indptr=np.zeros(len(bounds), dtype=np.int64),
        indices=np.empty(most[-1], dtype=np.int32),
        data=np.empty(most[-1]),
    )
    longest = int(np.diff(most).max(initial=0))
    count_features(text_tokens, features, np.empty(longest, dtype=np.int64), counts)
    n_entries = counts.indptr[-1]
    return counts._replace(
        indices=counts.indices[:n_entries], data=counts.data[:n_entries]
    )


def _have_digit(words: list[str]) -> np.ndarray:
    return np.array([any(map(str.isdigit, word)) for word in words], dtype=bool)


def _idf(frequencies: np.ndarray, n_texts: int) -> np.ndarray:
    return np.log((n_texts + 1) / (frequencies + 1)) + 1.0


def words_and_grams(token: str) -> list[str]:
    """Return the words of a token, and its character n-grams in quotes.

    Examples
    --------
    >>> words_and_grams("x-10")
    ['x', '10', "' x-'", "'x-1'", "'-10'", "'10 '", "' x-1'", "'x-10'", "'-10 '"]
    """
    padded = f" {token} "
    features = WORD.findall(token)
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
