"""Words: texts as TF-IDF rows."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..files import tables
from ..files.container import Arrays
from ..files.tables import get_array, get_value
from ..input.errors import short
from ..input.matrices import INDEX_LIMIT, canonical
from ..input.parameters import check_number, check_word
from ..similarity.rows import unit_rows
from .counts import inverse_frequencies, weigh_counts

TOKENS = ("words", "identifiers")

STOP_WORDS = ("english", "none")

#: Where camelCase and snake_case words begin.
_WORD_BREAK = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|_")


class Words:
    """TF-IDF rows of texts: logarithmic counts times weights of words, at unit length.

    Parameters
    ----------
    tokens : {"words", "identifiers"}, default="words"
        A word has two or more letters or digits. With "identifiers", for texts about
        programs, it has only letters, and ``camelCase`` and ``snake_case`` are two
        words each.
    ngrams : int, default=1
        Longest sequence of consecutive words that is a feature.
    stop_words : {"english", "none"} or list of str, default="english"
        Words to leave out before n-grams are made.
    min_df, max_df : int or float
        Fewest and most documents that contain a word, as a number or as a share.

    Attributes
    ----------
    names : ndarray of shape (n_features,)
        The words, sorted.
    idf : ndarray of shape (n_features,)
        1 + ln((1 + n) / (1 + n_w)) for a word in n_w of n documents.

    Examples
    --------
    >>> Words("identifiers", ngrams=2).fit(["call readLine or read_all"]).names.tolist()
    ['line', 'line read', 'read', 'read line']
    """

    def __init__(
        self,
        tokens: str = "words",
        *,
        ngrams: int = 1,
        stop_words: str | Sequence[str] = "english",
        min_df: int | float = 1,
        max_df: int | float = 1.0,
    ) -> None:
        check_word("Words", "tokens", tokens, TOKENS)
        check_number("Words", "ngrams", ngrams, low=1, integer=True)
        if isinstance(stop_words, str):
            check_word("Words", "stop_words", stop_words, STOP_WORDS)
        self.tokens = tokens
        self.ngrams = int(ngrams)
        self.stop_words = stop_words
        self.min_df = min_df
        self.max_df = max_df
        self.names = np.empty(0, dtype=object)
        self.idf = np.empty(0)
        self._index: dict[str, int] = {}
        if tokens == "identifiers":
            pattern = r"[^\W\d_]{2,}"
        else:
            pattern = r"\b\w\w+\b"
        self._find_words = re.compile(pattern).findall

    def split(self, text: str) -> list[str]:
        """Return the words of a text, without those that are left out."""
        if self.tokens == "identifiers":
            text = _WORD_BREAK.sub(" ", text)
        words = self._find_words(text.lower())
        return [word for word in words if word not in self.left_out]

    def _described_words(self) -> str:
        """Return what a word is, for the middle of a message."""
        if self.tokens == "identifiers":
            return "a word is two or more letters in a row"
        return "a word is two or more letters or digits in a row"

    @cached_property
    def left_out(self) -> frozenset[str]:
        """The words that are left out."""
        if self.stop_words == "none":
            return frozenset()
        if self.stop_words != "english":
            return frozenset(word.lower() for word in self.stop_words)
        from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

        return ENGLISH_STOP_WORDS

    def _terms(self, words: list[str]) -> Iterable[str]:
        """Yield words and sequences of words."""
        yield from words
        for n in range(2, self.ngrams + 1):
            for k in range(len(words) - n + 1):
                yield " ".join(words[k : k + n])

    def unknown(self, text: str) -> list[str]:
        """Return the words of a text that no row has a column for, each once."""
        return [
            word for word in dict.fromkeys(self.split(text)) if word not in self._index
        ]

    def fit(self, texts: Iterable[str]) -> Words:
        """Learn the words and their weights; raise ValueError where none is left."""
        index: dict[str, int] = {}
        counts = self._count(texts, index, grow=True)
        n = counts.shape[0]
        n_with = np.bincount(counts.indices, minlength=len(index))
        low = _number_of_texts(self.min_df, n)
        high = _number_of_texts(self.max_df, n)
        is_kept = (n_with >= low) & (n_with <= high)
        names = np.sort(np.array(list(index), dtype=object)[is_kept])
        if not index:
            raise ValueError(
                f"The {n} texts have no words: {self._described_words()} that is not "
                "a stop word. Change tokens= or stop_words=."
            )
        if not len(names):
            raise ValueError(
                f"No word is in {low:g} to {high:g} of the {n} texts: change min_df= or "
                "max_df=."
            )
        columns = [index[name] for name in names]
        self._set(names, inverse_frequencies(counts)[columns])
        return self

    def transform(self, texts: Iterable[str]) -> sp.csr_array:
        """Return texts as rows; words that are not known are ignored."""
        if not self._index:
            raise ValueError("Words.transform: fit comes first.")
        counts = self._count(texts, self._index, grow=False)
        return unit_rows(weigh_counts(counts, self.idf))

    def _set(self, names: np.ndarray, idf: np.ndarray) -> None:
        """Take words and their weights."""
        self.names = names
        self.idf = idf
        self._index = {name: k for k, name in enumerate(names.tolist())}

    def _count(
        self, texts: Iterable[str], index: dict[str, int], *, grow: bool
    ) -> sp.csr_array:
        """Return how often each text has each term; terms that are new grow the index.

        Without `grow` they are ignored.
        """
        columns = array("q")
        ends = array("q", [0])
        for text in _checked_texts(texts):
            for term in self._terms(self.split(text)):
                if grow:
                    columns.append(index.setdefault(term, len(index)))
                elif term in index:
                    columns.append(index[term])
            ends.append(len(columns))
        n_texts = len(ends) - 1
        n_terms = max(len(index), 1)
        dtype: type[np.integer] = np.int64
        if max(n_texts, n_terms, len(columns)) <= INDEX_LIMIT:
            dtype = np.int32
        indices = np.array(columns, dtype=dtype)
        indptr = np.array(ends, dtype=dtype)
        ones = np.ones(len(indices))
        counts = sp.csr_array((ones, indices, indptr), shape=(n_texts, n_terms))
        return canonical(counts)

    def to_arrays(self) -> tuple[Arrays, dict[str, Any]]:
        """Return all but `min_df` and `max_df`, as `from_arrays` takes them."""
        arrays = tables.pack_strings("names", self.names.tolist()) | {"idf": self.idf}
        header = {
            "tokens": self.tokens,
            "ngrams": self.ngrams,
            "stop_words": sorted(self.left_out),
        }
        return arrays, header

    @classmethod
    def from_arrays(cls, arrays: Arrays, header: dict[str, Any]) -> Words:
        """Return the words of `to_arrays`; raise ValueError where they are damaged."""
        stop_words = get_value(header, "stop_words", list)
        if not all(isinstance(word, str) for word in stop_words):
            raise ValueError("stop words are not words")
        tokens = get_value(header, "tokens", str)
        ngrams = get_value(header, "ngrams", int)
        words = cls(tokens, ngrams=min(ngrams, 100), stop_words=stop_words)
        names = tables.get_strings(arrays, "names")
        words._set(names, get_array(arrays, "idf", "f", (len(names),)))
        if len(words._index) < len(names):
            raise ValueError("a word is in the vocabulary twice")
        return words


def _checked_texts(texts: Iterable[str]) -> Iterator[str]:
    """Yield the texts; raise ValueError where one is no text, or all are one text."""
    if isinstance(texts, str):
        raise ValueError(f"Words takes a list of texts. Got {short(texts)}.")
    for text in texts:
        if not isinstance(text, str):
            raise ValueError(f"Words takes a list of texts. Got {short(texts)}.")
        yield text


def _number_of_texts(number: int | float, n_texts: int) -> float:
    """Return a number of texts that may be a share of them."""
    if isinstance(number, int | np.integer):
        return number
    return number * n_texts
