"""The words and character n-grams of texts, weighted by how rare they are."""

from __future__ import annotations

import re
from typing import NamedTuple
from unicodedata import normalize

import numpy as np
import scipy.sparse as sp

from ..wide_matrices import index_dtype

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

    def first(self, n_texts: int) -> Tokens:
        """Return the tokens of the first texts."""
        return Tokens(self.counts[:n_texts], self.tokens)


class Vocabulary:
    """The words and n-grams that count, and how much each does.

    Parameters
    ----------
    names : list of str
        Sorted, so that the n-grams, in quotes, come before the words.
    idf : ndarray of shape (n_features,)
        Inverse frequency of each feature: larger if it is rarer.

    Attributes
    ----------
    n_grams : int
    has_digit : ndarray of bool of shape (n_words,)
        Which words have a digit.
    """

    def __init__(self, names: list[str], idf: np.ndarray) -> None:
        self.names = names
        self.idf = idf
        self.n_grams = sum(is_gram(name) for name in names)
        words = names[self.n_grams :]
        self.has_digit = np.array(
            [any(map(str.isdigit, word)) for word in words], dtype=bool
        )
        self._number_of_name = {name: number for number, name in enumerate(names)}

    @classmethod
    def of_tokens(cls, tokens: Tokens) -> Vocabulary:
        """Return the features of texts, and how rare they are among these."""
        names = {name for token in tokens.tokens for name in words_and_grams(token)}
        every_name = sorted(names)
        every_feature = cls(every_name, np.ones(len(every_name)))
        counts = every_feature.count(tokens)
        n_texts = counts.shape[0]
        frequencies = np.bincount(counts.indices, minlength=len(every_name))
        least = 2 if n_texts > MIN_TEXTS else 1
        kept = np.flatnonzero(frequencies >= least)
        if not len(kept):
            raise ValueError("No word is in two records: nothing to link by.")
        idf = np.log((n_texts + 1) / (frequencies[kept] + 1)) + 1.0
        return cls([every_name[number] for number in kept.tolist()], idf)

    def count(self, tokens: Tokens) -> sp.csr_array:
        """Return how often texts have each feature, shape (n_texts, n_features)."""
        # The features of each token are looked up once, however often it occurs.
        indices: list[int] = []
        indptr = [0]
        for token in tokens.tokens:
            for name in words_and_grams(token):
                number = self._number_of_name.get(name)
                if number is not None:
                    indices.append(number)
            indptr.append(len(indices))
        features_of_token = _counts(indices, indptr, n_columns=len(self.names))
        counts = sp.csr_array(tokens.counts @ features_of_token)
        counts.sort_indices()
        return counts

    def weigh(self, tokens: Tokens) -> sp.csr_array:
        """Return texts as rows of weights: TF-IDF with the logarithm of counts."""
        weights = self.count(tokens)
        weights.data = (1.0 + np.log(weights.data)) * self.idf[weights.indices]
        return weights


def _counts(indices: list[int], indptr: list[int], n_columns: int) -> sp.csr_array:
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


def is_gram(name: str) -> bool:
    """Return whether a feature is an n-gram, by its name, and no word."""
    return name.startswith(("'", '"'))


def _fold_case(text: str) -> str:
    """Return a text in lower case, the same for all ways to write its characters."""
    return normalize("NFKC", text).lower()
