"""Records as sparse rows of words and of character n-grams, and what two have in common."""

from __future__ import annotations

import re
from typing import NamedTuple
from unicodedata import normalize

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer

from ..similarity.products import row_products
from ..similarity.rows import unit_rows
from .blocks import row_blocks
from .tables import Tables

#: Most columns that are compared one by one.
MAX_COLUMNS = 12

#: Lengths of character n-grams.
GRAM_LENGTHS = (3, 4)

#: In more records than this, a word must be in two.
MIN_RECORDS = 50


class Block(NamedTuple):
    """Rows of all records over some features, and the square of the length of each."""

    rows: sp.csr_array
    squares: np.ndarray

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
    names : list of str
        Names of the features; the n-grams, in quotes, come before the words.
    n_grams : int
    """

    def __init__(self, tables: Tables) -> None:
        n = tables.n_records
        columns = tables.shared_columns()[:MAX_COLUMNS]
        texts = tables.texts()
        for name in columns:
            texts += tables.column(name)
        weights, self.names = _weigh(texts, n)
        self.n_grams = sum(is_gram(name) for name in self.names)
        grams = weights[:, : self.n_grams]
        words = weights[:n, self.n_grams :]
        self.grams = unit_rows(grams[:n])
        rows = sp.hstack([self.grams, unit_rows(words)])
        self.X = unit_rows(sp.csr_array(rows))
        word_names = self.names[self.n_grams :]
        has_digit = [any(map(str.isdigit, word)) for word in word_names]
        firsts = range(0, n * (1 + len(columns)), n)
        gram_blocks = [grams[first : first + n] for first in firsts]
        blocks = [words, words[:, has_digit], *gram_blocks]
        self._blocks = [
            Block(block, row_products(block, block))
            for block in blocks
            if block.shape[1]
        ]

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


def _weigh(texts: list[str], n_records: int) -> tuple[sp.csr_array, list[str]]:
    """Return the TF-IDF weights of texts, and the names of the features.

    Only the first texts, those of whole records, say which features there are and how
    rare they are; the others are single columns.
    """
    tokens = CountVectorizer(
        preprocessor=_fold_case, tokenizer=str.split, token_pattern=None
    )
    token_counts = tokens.fit_transform(texts)
    # The words and n-grams of each token are found once, however often it occurs.
    words = CountVectorizer(analyzer=words_and_grams)
    counts_of_token = words.fit_transform(tokens.get_feature_names_out())
    counts = sp.csr_array(token_counts @ counts_of_token)
    whole = counts[:n_records]
    frequencies = np.bincount(whole.indices, minlength=counts.shape[1])
    least = 2 if n_records > MIN_RECORDS else 1
    kept = np.flatnonzero(frequencies >= least)
    if not len(kept):
        raise ValueError("No word is in two records: nothing to link by.")
    tfidf = TfidfTransformer(sublinear_tf=True, norm=None).fit(whole[:, kept])
    weights = sp.csr_array(tfidf.transform(counts[:, kept]))
    return weights, words.get_feature_names_out()[kept].tolist()


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
