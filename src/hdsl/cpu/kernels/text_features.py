"""The compiled loop that counts the features of texts."""

from typing import NamedTuple

import numpy as np

from .compiled import kernel


class TokenFeatures(NamedTuple):
    """The features of each token, or the tokens of each text.

    Attributes
    ----------
    indptr : ndarray of shape (n + 1,), int64
        Where those of each begin and end.
    numbers : ndarray, int64
        Their numbers, each as often as it occurs.
    """

    indptr: np.ndarray
    numbers: np.ndarray


@kernel()
def count_features(tokens, features, space, counts):
    """Write how often each text has each feature, features in order.

    `space` has room for all features of a text, `counts` for those of all.
    """
    n_entries = 0
    counts.indptr[0] = 0
    for text in range(len(tokens.indptr) - 1):
        n_features = 0
        for k in range(tokens.indptr[text], tokens.indptr[text + 1]):
            token = tokens.numbers[k]
            for feature in range(features.indptr[token], features.indptr[token + 1]):
                space[n_features] = features.numbers[feature]
                n_features += 1
        _sort(space, n_features)
        for k in range(n_features):
            if k > 0 and space[k] == space[k - 1]:
                counts.data[n_entries - 1] += 1.0
                continue
            counts.indices[n_entries] = space[k]
            counts.data[n_entries] = 1.0
            n_entries += 1
        counts.indptr[text + 1] = n_entries


@kernel()
def _sort(values, n):
    """Sort the first n of some numbers by Shell's method, which is short to compile."""
    gap = 1
    while gap < n:
        gap = 3 * gap + 1
    while gap > 1:
        gap //= 3
        for k in range(gap, n):
            value = values[k]
            position = k
            while position >= gap and values[position - gap] > value:
                values[position] = values[position - gap]
                position -= gap
            values[position] = value
