"""Guesses, from a sample, of how large the layout of comparisons is."""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from .sides import sides_of

#: Anchors of the sample, and pairs of rows.
SAMPLE = 500


class PerComparison(NamedTuple):
    """How much a comparison adds to a layout, in the mean."""

    pairs: float  # distinct pairs of rows per comparison
    shared: float  # features that both rows of a pair have


def per_comparison(X: sp.csr_array, compared: np.ndarray) -> PerComparison:
    """Guess the distinct pairs of rows per comparison, and the shared features per pair."""
    n_rows = np.int64(X.shape[0])
    sample = sample_by_anchors(compared, X.shape[0])
    a, b, c, d = sides_of(sample.T)
    # Numbers, not rows: an interrupt while rows are compared is no KeyboardInterrupt.
    pairs = np.unique(np.append(a * n_rows + b, c * n_rows + d))
    first, second = np.divmod(evenly_spaced(pairs), n_rows)
    ones = np.ones(X.nnz, dtype=np.int8)
    has_feature = sp.csr_array((ones, X.indices, X.indptr), shape=X.shape)
    n_shared = has_feature[first].multiply(has_feature[second]).nnz
    return PerComparison(len(pairs) / len(sample), n_shared / len(first))


def sample_by_anchors(compared: np.ndarray, n_rows: int) -> np.ndarray:
    """Return the comparisons that start from a sample of the anchors."""
    is_anchor = np.zeros(n_rows, dtype=bool)
    is_anchor[compared[:, 0]] = True
    anchors = np.flatnonzero(is_anchor)
    is_sampled = np.zeros(n_rows, dtype=bool)
    is_sampled[evenly_spaced(anchors)] = True
    return compared[is_sampled[compared[:, 0]]]


def evenly_spaced(items: np.ndarray) -> np.ndarray:
    """Return a sample of items: all where there are few."""
    n_sampled = min(len(items), SAMPLE)
    return items[np.linspace(0, len(items) - 1, n_sampled).astype(int)]
