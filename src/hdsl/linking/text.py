"""The words and character n-grams of texts, weighted by how rare they are."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from itertools import chain
from unicodedata import normalize

import numpy as np
import scipy.sparse as sp

from .blocks import row_blocks
from .rows import Rows

#: Lengths of character n-grams.
GRAM_LENGTHS = (3, 4)

#: What is a word.
WORD = re.compile(r"\w+")


class Vocabulary:
    """The words and n-grams of texts, and how much each counts.

    The first texts say how rare a feature is. A feature that comes later counts as if
    one of the first texts had it, so that the weights of a text depend on no other later
    text.

    Parameters
    ----------
    names : list of str
        The features in the order in which they came; n-grams are in quotes.
    idf : ndarray of shape (n_first,)
        Inverse frequency of each feature of the first texts: larger if it is rarer.
    rarest : float
        That of a feature of one text.

    Attributes
    ----------
    gram_columns, word_columns : ndarray
        The features that are n-grams, and the words.
    has_digit : ndarray of bool of shape (n_words,)
        Which words have a digit.
    """

    def __init__(self, names: Sequence[str], idf: np.ndarray, rarest: float) -> None:
        self.idf = idf
        self.rarest = rarest
        n_first = len(idf)
        self._numbers = {name: number for number, name in enumerate(names[:n_first])}
        self._later: dict[str, int] = {}
        self._is_word = np.zeros(0, dtype=bool)
        self._has_digit = np.zeros(0, dtype=bool)
        self._append(names[:n_first])
        for name in names[n_first:]:
            self._later[name] = n_first + len(self._later)
        self._append(names[n_first:])

    def _append(self, names: Iterable[str]) -> None:
        """Take note which of some names are words, and have a digit."""
        names = [*names]
        is_word = np.array([not _is_gram(name) for name in names], dtype=bool)
        has_digit = np.array(
            [any(map(str.isdigit, name)) for name in names], dtype=bool
        )
        self._is_word = is_word = np.concatenate([self._is_word, is_word])
        self._has_digit = np.concatenate([self._has_digit, has_digit])
        self.gram_columns = np.flatnonzero(~is_word)
        self.word_columns = np.flatnonzero(is_word)
        self.has_digit = self._has_digit[is_word]
        self._position = np.where(is_word, is_word.cumsum(), (~is_word).cumsum()) - 1

    @classmethod
    def of_texts(cls, texts: Sequence[str]) -> Vocabulary:
        """Return the features of the first texts, and how rare they are.

        Raises
        ------
        ValueError
            If no text has a word.
        """
        numbers: dict[str, int] = {}
        n_with = np.zeros(0, dtype=np.int64)
        # The counts of all texts at once would be larger than all that is kept of them.
        for block in row_blocks(len(texts)):
            counts = _counts(
                texts[block], lambda name: numbers.setdefault(name, len(numbers))
            )
            in_block = np.bincount(counts.indices, minlength=len(numbers))
            in_block[: len(n_with)] += n_with
            n_with = in_block
        if not numbers:
            raise ValueError("No record has a word: nothing to link by.")
        # Smoothed as scikit-learn does it, as if one more text had every feature.
        idf = np.log((1 + len(texts)) / (1 + n_with)) + 1.0
        rarest = float(np.log((1 + len(texts)) / 2)) + 1.0
        return cls([*numbers], idf, rarest)

    def with_texts(self, texts: Iterable[str]) -> Vocabulary:
        """Return the vocabulary with the features of later texts behind the others."""
        later = dict(self._later)
        tokens = dict.fromkeys(chain.from_iterable(map(tokens_of, texts)))
        for token in tokens:
            for name in words_and_grams(token):
                if name not in self._numbers:
                    later.setdefault(name, len(self._numbers) + len(later))
        names = [*later][len(self._later) :]
        if not names:
            return self
        extended = copy(self)
        extended._later = later
        extended._append(names)
        return extended

    @property
    def names(self) -> list[str]:
        """The features, by number."""
        return [*self._numbers, *self._later]

    @property
    def n_features(self) -> int:
        """How many features there are, later ones included."""
        return len(self._is_word)

    @property
    def n_first_words(self) -> int:
        """How many words the first texts had."""
        return int(self._is_word[: len(self.idf)].sum())

    @property
    def n_first_grams(self) -> int:
        """How many n-grams the first texts had."""
        return len(self.idf) - self.n_first_words

    def are_words(self, numbers: list[int]) -> bool:
        """Return whether features are words, all of them."""
        return bool(self._is_word[numbers].all())

    def rows(self, texts: Sequence[str]) -> tuple[Rows, Rows]:
        """Return the n-grams of texts and their words, each numbered on its own.

        Their weights are TF-IDF with the logarithm of counts. Features that the
        vocabulary does not have do not count.
        """
        n_later = self.n_features - len(self.idf)
        idf = np.concatenate([self.idf, np.full(n_later, self.rarest)])
        grams = []
        words = []
        for block in row_blocks(len(texts)):
            counts = _counts(texts[block], self._find, self.n_features)
            counts.data = (1.0 + np.log(counts.data)) * idf[counts.indices]
            every = Rows.of_matrix(counts)
            is_word = self._is_word[counts.indices]
            grams.append(every.with_features(~is_word).numbered(self._position))
            words.append(every.with_features(is_word).numbered(self._position))
        return Rows.stacked(grams), Rows.stacked(words)

    def _find(self, name: str) -> int:
        """Return the number of a feature, -1 where there is none."""
        number = self._numbers.get(name, -1)
        if number < 0:
            number = self._later.get(name, -1)
        return number


def _counts(
    texts: Sequence[str], number_of: Callable[[str], int], n_features: int = 0
) -> sp.csr_array:
    """Return how often texts have each feature, features in order.

    The features of a token are looked up once, however often it occurs. Those whose
    number is -1 do not count. There are `n_features`, or as many as have a number.
    """
    number_of_token: dict[str, int] = {}
    numbers: list[int] = []
    ends = [0]
    for text in texts:
        numbers += [
            number_of_token.setdefault(token, len(number_of_token))
            for token in tokens_of(text)
        ]
        ends.append(len(numbers))
    tokens = _ones(np.array(numbers, dtype=np.int64), ends, len(number_of_token))
    features: list[np.ndarray] = []
    for token in number_of_token:
        numbers = [number_of(name) for name in words_and_grams(token)]
        features.append(np.array([k for k in numbers if k >= 0], dtype=np.int32))
    ends = np.cumsum([0, *map(len, features)]).tolist()
    indices = np.concatenate([*features, np.zeros(0, dtype=np.int32)])
    n_features = max(n_features, 1 + int(indices.max(initial=-1)))
    counts = tokens @ _ones(indices, ends, n_features)
    counts.sort_indices()
    return sp.csr_array(counts)


def _ones(indices: np.ndarray, ends: Sequence[int], n_columns: int) -> sp.csr_array:
    """Return rows with a 1 for each of their indices, which may come twice."""
    shape = (len(ends) - 1, n_columns)
    return sp.csr_array((np.ones(len(indices)), indices, np.array(ends)), shape=shape)


def tokens_of(text: str) -> list[str]:
    """Return what spaces separate in a text, in lower case."""
    return folded(text).split()


def folded(text: str) -> str:
    """Return a text in lower case, the same for all ways to write its characters."""
    return normalize("NFKC", text).lower()


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
