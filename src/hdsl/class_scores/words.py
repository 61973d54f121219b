"""The words behind class scores: the features that add most to each of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..explain import Explanation
from ..mixed_rows import sparse_block

#: Words that stand for a score of a row.
N_WORDS = 3


def words_behind(
    rows: Any,
    coef: np.ndarray,
    n_features: int,
    columns: np.ndarray | None = None,
    n_words: int = N_WORDS,
) -> list[dict[int, list[int]]]:
    """Return the features that add most to the scores of each row.

    Parameters
    ----------
    rows : sparse array of shape (n_rows, n_features + n_classes)
        Features, then scores.
    coef : ndarray of shape (n_classes, n_seen), or (1, n_seen) for two classes
        Weights of features in the scores before they are squashed.
    n_features : int
    columns : ndarray of shape (n_seen,), default=None
        The features that the weights belong to, sorted; None is all.
    n_words : int, default=3
        Most features per score.

    Returns
    -------
    list of dict of int to list of int, one per row
        For each class with a score the features that add to it, the largest first.
    """
    Z = sp.csr_array(rows)
    if len(coef) == 1:  # the score of the second of two classes
        coef = np.vstack([-coef, coef])
    words = []
    for begin, end in pairwise(Z.indptr.tolist()):
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
        row_words = {
            label: _largest_positive(features[is_seen], label_parts, n_words)
            for label, label_parts in zip(classes.tolist(), parts, strict=True)
        }
        words.append(row_words)
    return words


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
    rows : dict of str to sparse array of shape (1, n_features)
        The rows of the explanation, without scores, by their names in it.
    names : array of str
    """
    words: dict[int, dict[str, list[str]]] = {}
    for row_name, row in rows.items():
        try:
            row_words = scores.words(sparse_block(row))[0]
        except ValueError:  # not linear
            return explanation
        for label, columns in row_words.items():
            label_words = words.setdefault(scores.n_features_in_ + label, {})
            label_words[row_name] = [str(names[column]) for column in columns]
    return replace(explanation, words=words)
