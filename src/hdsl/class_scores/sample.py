"""The rows that a linear classifier is fitted on: a sample where all would take too long.

A pass of liblinear's dual solver costs as much as there are values of rows, times the
classes. A sample bounds a pass, and `MAX_PASSES` bounds their number.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..labels import LabelSets, ranks
from ..rows import blocks_of, sparse_block

#: Values times classes of a pass: a second or so.
PASS_SIZE = 5 * 10**7

#: Rows that are never too many, however many values and classes there are.
FEWEST_ROWS = 20_000

#: Fewest rows of a class in a sample, where it has as many.
ROWS_PER_CLASS = 10

#: Most passes over a sample. Some twenty are enough for the default tolerance.
MAX_PASSES = 100


def n_affordable_rows(X: Any, n_classes: int, pass_size: int = PASS_SIZE) -> int:
    """Return how many rows of X a classifier of `n_classes` classes is fitted on at most.

    Examples
    --------
    >>> X = sp.csr_array((240_000, 57_000))
    >>> X.indptr[:] = 10 * np.arange(240_001)  # as if there were ten values per row
    >>> n_affordable_rows(X, n_classes=50)
    100000
    """
    n_rows = X.shape[0]
    n_values = sum(_n_values(block) for block in blocks_of(X))
    cost_of_row = max(n_values / max(n_rows, 1), 1.0) * n_classes
    return min(n_rows, max(FEWEST_ROWS, int(pass_size / cost_of_row)))


def _n_values(X: Any) -> int:
    """Return the number of values of a dense or sparse X."""
    if sp.issparse(X):
        return int(X.indptr[-1])
    return int(X.shape[0] * X.shape[1])


def sample_rows(
    y: Any,
    n_rows: int,
    random_state: np.random.RandomState,
    sample_weight: np.ndarray | None = None,
) -> np.ndarray:
    """Return about `n_rows` rows, sorted: the same share of each class, and some of each.

    Rows of weight 0 are no candidates. Rows with several labels are drawn as they come.

    Examples
    --------
    >>> y = np.repeat(["often", "rare"], [990, 10])
    >>> rows = sample_rows(y, 100, np.random.RandomState(0))
    >>> np.unique(y[rows], return_counts=True)[1].tolist()
    [99, 10]
    """
    candidates = np.arange(len(y))
    if sample_weight is not None:
        candidates = np.flatnonzero(sample_weight > 0)
    codes = np.zeros(len(candidates), dtype=np.int64)
    if not isinstance(y, LabelSets):
        _, codes = np.unique(y[candidates], return_inverse=True)
    sizes = np.bincount(codes)
    shares = [math.ceil(n_rows * size / len(candidates)) for size in sizes.tolist()]
    n_drawn = np.maximum(shares, np.minimum(sizes, ROWS_PER_CLASS))
    rank_in_class = ranks(codes, random_state.permutation(len(candidates)))
    return candidates[rank_in_class < n_drawn[codes]]


def limit_passes(classifier: Any, X: Any) -> None:
    """Set a LinearSVC to the solver of known cost: the dual one, with few passes."""
    classifier.set_params(max_iter=MAX_PASSES)
    if sp.issparse(sparse_block(X)):
        classifier.set_params(dual=True)


@contextmanager
def ended_early_on_purpose(is_limited: bool) -> Iterator[None]:
    """Hide the warning that a solver was ended, where the passes over a sample are limited."""
    from sklearn.exceptions import ConvergenceWarning  # measuring loads it late

    with warnings.catch_warnings():
        if is_limited:
            warnings.simplefilter("ignore", ConvergenceWarning)
        yield
