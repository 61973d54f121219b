"""Scores of classes beside words: which of them are kept, and the words behind them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..similarity import unit_rows
from .parts import Explanation

#: Scores below are 0, at unit length: a column with a value in every row takes time for nothing.
SMALLEST = 0.01

#: Words that stand for a score.
N_WORDS = 3


def largest_scores(scores: np.ndarray, n_scores: int | None) -> np.ndarray:
    """Return the largest scores of each row, at unit length; the others are 0.

    Examples
    --------
    >>> largest_scores(np.array([[0.9, 0.001, 0.8, 0.7]]), 2).round(2).tolist()
    [[0.75, 0.0, 0.66, 0.0]]
    """
    if n_scores is not None and n_scores < scores.shape[1]:
        scores = scores.copy()
        small = np.argsort(-scores, axis=1, kind="stable")[:, n_scores:]
        np.put_along_axis(scores, small, 0.0, axis=1)
    scores = unit_rows(scores)
    return np.where(scores < SMALLEST, 0.0, scores)


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
        The features that weights are of; None is all.
    n_words : int, default=3
        Most features per score.

    Returns
    -------
    list of dict of int to list of int, one per row
        For each class with a score the features that add to it, the largest first.
    """
    Z = sp.csr_array(rows)
    coef = np.vstack([-coef, coef]) if len(coef) == 1 else coef
    found = []
    for begin, end in pairwise(Z.indptr.tolist()):
        column, value = Z.indices[begin:end], Z.data[begin:end]
        classes = column[column >= n_features] - n_features
        seen = column < n_features if columns is None else np.isin(column, columns)
        column, value = column[seen], value[seen]
        place = column if columns is None else np.searchsorted(columns, column)
        parts = coef[np.ix_(classes, place)] * value
        order = np.argsort(-parts, axis=1, kind="stable")[:, :n_words]
        found.append(
            {
                label: [int(column[k]) for k in best if part[k] > 0]
                for label, part, best in zip(classes.tolist(), parts, order, strict=True)
            }
        )
    return found


def with_words(found: Explanation, scores: Any, rows: Mapping[str, Any], names: Any) -> Explanation:
    """Return an explanation that names the words behind the scores of classes.

    Parameters
    ----------
    found : Explanation
    scores : object
        With ``words(X)``, which returns what `words_behind` does or raises ValueError, and
        ``n_features_in_``.
    rows : dict of str to sparse array of shape (1, n_features)
        The rows of the explanation, without scores, by their names in it.
    names : array of str
    """
    words: dict[int, dict[str, list[str]]] = {}
    for name, row in rows.items():
        try:
            of_row = scores.words(row)[0]
        except ValueError:  # not linear
            return found
        for label, columns in of_row.items():
            of_class = words.setdefault(scores.n_features_in_ + label, {})
            of_class[name] = [str(names[column]) for column in columns]
    return replace(found, words=words)
