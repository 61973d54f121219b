"""Texts as sparse rows of words and n-grams, weighted by how rare they are.

Rows are plain arrays, so that few records take no time. Words are counted here and not
by scikit-learn's vectorizers: later texts bring features that no earlier one had, each
token is looked up once, and all counts of a large table are never there at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from itertools import chain
from typing import Any, NamedTuple
from unicodedata import normalize

import numpy as np
import scipy.sparse as sp

from ..cpu.kernels.compiled import SparseArrays
from ..cpu.kernels.record_pairs import (
    pair_overlaps,
    pair_products,
    pair_sums,
    take_rows,
)
from ..cpu.rows import arrays_of
from ..cpu.workers import Workers
from ..wide_matrices import index_dtype

#: Pairs of records that are compared together.
BLOCK_SIZE = 2**16


def row_blocks(n: int, size: int = BLOCK_SIZE) -> Iterator[slice]:
    """Yield slices that cut n rows into blocks.

    Examples
    --------
    >>> [(block.start, block.stop) for block in row_blocks(5, size=2)]
    [(0, 2), (2, 4), (4, 6)]
    """
    for first in range(0, n, size):
        yield slice(first, first + size)


#: Multiplications that a step along the features of a pair takes, about.
STEP_COST = 4

#: Pairs that one thread compares sooner than others could be asked.
FEW_PAIRS = 100


class Rows(NamedTuple):
    """Rows of numbered features in order, whose number is not limited."""

    arrays: SparseArrays

    @classmethod
    def of_matrix(cls, X: sp.csr_array) -> Rows:
        """Return the rows of a matrix."""
        if not X.has_sorted_indices:
            X = X.sorted_indices()
        return cls(arrays_of(X))

    @classmethod
    def stacked(cls, chunks: Sequence[Rows]) -> Rows:
        """Return the rows of several parts, one after the other."""
        every = [chunk.arrays for chunk in chunks]
        n_entries = np.cumsum([0, *(arrays.indptr[-1] for arrays in every)])
        ends = [
            arrays.indptr[1:] + first
            for arrays, first in zip(every, n_entries, strict=False)
        ]
        return cls(
            SparseArrays(
                indptr=np.concatenate([np.zeros(1, dtype=np.int64), *ends]),
                indices=np.concatenate([arrays.indices for arrays in every]),
                data=np.concatenate([arrays.data for arrays in every]),
            )
        )

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return len(self.arrays.indptr) - 1

    @property
    def width(self) -> int:
        """The largest number of a feature, and one."""
        return 1 + int(self.arrays.indices.max(initial=-1))

    @property
    def sizes(self) -> np.ndarray:
        """How many features each row has."""
        return np.diff(self.arrays.indptr)

    def matrix(self, n_columns: int) -> sp.csr_array:
        """Return a matrix of the rows, with so many columns."""
        # Learners of scikit-learn take indices of 32 bits where these are enough.
        dtype = index_dtype(max(int(self.arrays.indptr[-1]), n_columns))
        arrays = (
            self.arrays.data,
            self.arrays.indices.astype(dtype, copy=False),
            self.arrays.indptr.astype(dtype, copy=False),
        )
        return sp.csr_array(arrays, shape=(self.n_rows, n_columns))

    def take(self, numbers: np.ndarray) -> Rows:
        """Return some rows, by number."""
        numbers = np.ascontiguousarray(numbers, dtype=np.int64)
        indptr = _ends(self._sizes_of(numbers))
        taken = SparseArrays(
            indptr=indptr,
            indices=np.empty(indptr[-1], dtype=self.arrays.indices.dtype),
            data=np.empty(indptr[-1]),
        )
        positions = np.arange(len(numbers))
        take_rows(0, len(numbers), numbers, self.arrays, positions, taken)
        return Rows(taken)

    def joined(self, later: Rows, numbers: np.ndarray) -> Rows:
        """Return some of these rows and of later ones, numbered after these."""
        numbers = np.ascontiguousarray(numbers, dtype=np.int64)
        is_later = numbers >= self.n_rows
        own_numbers = numbers[~is_later]
        later_numbers = numbers[is_later] - self.n_rows
        sizes = np.empty(len(numbers), dtype=np.int64)
        sizes[~is_later] = self._sizes_of(own_numbers)
        sizes[is_later] = later._sizes_of(later_numbers)
        indptr = _ends(sizes)
        joined = SparseArrays(
            indptr=indptr,
            indices=np.empty(indptr[-1], dtype=self.arrays.indices.dtype),
            data=np.empty(indptr[-1]),
        )
        positions = np.flatnonzero(~is_later)
        take_rows(0, len(positions), own_numbers, self.arrays, positions, joined)
        positions = np.flatnonzero(is_later)
        take_rows(0, len(positions), later_numbers, later.arrays, positions, joined)
        return Rows(joined)

    def _sizes_of(self, numbers: np.ndarray) -> np.ndarray:
        """Return how many features some rows have."""
        return self.arrays.indptr[numbers + 1] - self.arrays.indptr[numbers]

    def with_features(self, is_kept: np.ndarray) -> Rows:
        """Return the rows with some of their entries, by a mask."""
        n_before = _ends(is_kept)
        arrays = SparseArrays(
            indptr=n_before[self.arrays.indptr],
            indices=self.arrays.indices[is_kept],
            data=self.arrays.data[is_kept],
        )
        return Rows(arrays)

    def numbered(self, numbers: np.ndarray) -> Rows:
        """Return the rows with other numbers of features, in the same order."""
        indices = numbers[self.arrays.indices].astype(np.int32)
        return Rows(self.arrays._replace(indices=indices))

    def times(self, factors: np.ndarray) -> Rows:
        """Return the rows, each times a factor."""
        data = self.arrays.data * np.repeat(factors, self.sizes)
        return Rows(self.arrays._replace(data=data))

    def squares(self) -> np.ndarray:
        """Return the square of the length of each row."""
        numbers = np.arange(self.n_rows)
        return self.products(np.column_stack([numbers, numbers]), n_jobs=1)

    def products(self, pairs: np.ndarray, n_jobs: int | None) -> np.ndarray:
        """Return the inner products of pairs of rows, shape (n_pairs,)."""
        return self.products_with(self, pairs, n_jobs)

    def products_with(
        self, others: Rows, pairs: np.ndarray, n_jobs: int | None
    ) -> np.ndarray:
        """Return the inner products of pairs of a row and one of others."""
        out = np.empty(len(pairs))
        self._run(pair_products, pairs, n_jobs, others.arrays, out)
        return out

    def overlaps(self, pairs: np.ndarray, n_jobs: int | None) -> np.ndarray:
        """Return the products of pairs, and their largest and smallest differences.

        Of a feature that only one row has, the difference is its value, or minus it.

        Returns
        -------
        ndarray of shape (n_pairs, 3)
        """
        out = np.empty((len(pairs), 3))
        self._run(pair_overlaps, pairs, n_jobs, out)
        return out

    def weighted_sums(
        self, pairs: np.ndarray, weights: np.ndarray, n_jobs: int | None
    ) -> np.ndarray:
        """Return sums of the smaller values of both rows of pairs, and of differences.

        Parameters
        ----------
        pairs : ndarray of shape (n_pairs, 2)
        weights : ndarray of shape (n_features, 2)
            Of the smaller value of each feature, and of the absolute difference. Later
            features do not count.
        n_jobs : int or None
        """
        out = np.empty(len(pairs))
        self._run(pair_sums, pairs, n_jobs, weights, out)
        return out

    def _run(
        self,
        kernel: Callable[..., Any],
        pairs: np.ndarray,
        n_jobs: int | None,
        *args: Any,
    ) -> None:
        """Call a kernel for all pairs, on several threads where that pays."""
        pairs = np.ascontiguousarray(pairs, dtype=np.int64)
        if len(pairs) <= FEW_PAIRS:
            kernel(0, len(pairs), pairs, self.arrays, *args)
            return
        n_steps = 2 * self.arrays.indptr[-1] / max(self.n_rows, 1)
        with Workers(n_jobs) as workers:
            workers.run_pieces(
                kernel, len(pairs), STEP_COST * n_steps, pairs, self.arrays, *args
            )


def joined_values(
    first: np.ndarray, later: np.ndarray, numbers: np.ndarray
) -> np.ndarray:
    """Return some values of two arrays, those of the later one numbered after the others.

    Examples
    --------
    >>> joined_values(np.array([5, 6]), np.array([7, 8]), np.array([3, 0])).tolist()
    [8, 5]
    """
    is_later = numbers >= len(first)
    values = np.empty((len(numbers), *first.shape[1:]), dtype=first.dtype)
    values[~is_later] = first[numbers[~is_later]]
    values[is_later] = later[numbers[is_later] - len(first)]
    return values


def _ends(sizes: np.ndarray) -> np.ndarray:
    """Return where parts of some sizes begin, and where the last one ends."""
    ends = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=ends[1:])
    return ends


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
