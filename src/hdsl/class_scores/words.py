"""The words behind class scores: the features that add most to each of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..explain import Explanation
from ..explain.parts import MEANING

#: Words that stand for a score of a row.
N_WORDS = 3

#: What stands for an embedding among the numbers of words.
EMBEDDING = -1


def words_behind(
    rows: Any,
    coef: np.ndarray,
    n_features: int,
    columns: np.ndarray | None = None,
    n_words: int = N_WORDS,
    embedding_parts: np.ndarray | None = None,
) -> list[dict[int, list[int]]]:
    """Return the features that add most to the scores of each row.

    Parameters
    ----------
    rows : sparse array of shape (n_rows, n_features + n_classes)
        Features, then scores.
    coef : ndarray of shape (n_classes, n_seen)
        Weights of features in the scores before they are squashed.
    n_features : int
    columns : ndarray of shape (n_seen,), default=None
        The features that the weights belong to, sorted; None is all.
    n_words : int, default=3
        Most features per score.
    embedding_parts : ndarray of shape (n_rows, n_classes), default=None
        What the embedding of each row adds to each score before it is squashed.

    Returns
    -------
    list of dict of int to list of int, one per row
        For each class with a score the features that add to it, the largest first;
        `EMBEDDING` is the embedding.
    """
    Z = sp.csr_array(rows)
    words = []
    for row, (begin, end) in enumerate(pairwise(Z.indptr.tolist())):
        features = Z.indices[begin:end]
        values = Z.data[begin:end]
        classes = features[features >= n_features] - n_features
        if columns is None:
            is_seen = features < n_features
            places = features[is_seen]
        else:
            is_seen = np.isin(features, columns)
            places = np.searchsorted(columns, features[is_seen])
        parts = coef[np.ix_(classes, places)] * values[is_seen]
        numbers = features[is_seen]
        if embedding_parts is not None:
            parts = np.column_stack([parts, embedding_parts[row, classes]])
            numbers = np.append(numbers, EMBEDDING)
        row_words = {
            label: _largest_positive(numbers, label_parts, n_words)
            for label, label_parts in zip(classes.tolist(), parts, strict=True)
        }
        words.append(row_words)
    return words


def both_classes(coef: np.ndarray) -> np.ndarray:
    """Return one line of weights per class: two classes have one for the second alone."""
    if len(coef) == 1:
        return np.vstack([-coef, coef])
    return coef


def word_name(number: int, name_of: Callable[[int], str]) -> str:
    """Return the name of a word, or of the embedding."""
    if number == EMBEDDING:
        return MEANING
    return name_of(number)


def _largest_positive(
    features: np.ndarray, parts: np.ndarray, n_words: int
) -> list[int]:
    """Return the features with the largest positive parts, the largest first."""
    largest = np.argsort(-parts, kind="stable")[:n_words]
    return [int(features[k]) for k in largest if parts[k] > 0]


def with_words(
    explanation: Explanation, scores: Any, rows: Mapping[str, Any], names: Any
) -> Explanation:
    """Return an explanation that names the words behind the scores of classes.

    Parameters
    ----------
    explanation : Explanation
    scores : object
        With ``words(X)``, which returns what `words_behind` does or raises ValueError,
        and ``n_features_in_``.
    rows : dict of str to sparse array or Rows of shape (1, n_features)
        The rows of the explanation, without scores, by their names in it.
    names : array of str
    """
    words: dict[int, dict[str, list[str]]] = {}
    for row_name, row in rows.items():
        try:
            row_words = scores.words(row)[0]
        except ValueError:  # not linear
            return explanation
        for label, columns in row_words.items():
            label_words = words.setdefault(scores.n_features_in_ + label, {})
            label_words[row_name] = [
                word_name(column, lambda number: str(names[number]))
                for column in columns
            ]
    return replace(explanation, words=words)
