"""What class scores are learned from: rows for a classifier, their folds, a sample of many."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.dummy import DummyClassifier

from ..labels import LabelSets, ranks
from ..rows import blocks_of, sparse_block
from .scores import EVEN_SCORE, fit_each_label, one_matrix, squashed_scores

#: Values times classes of a pass: a second or so.
PASS_SIZE = 5 * 10**7


#: Rows that are never too many, however many values and classes there are.
FEWEST_ROWS = 20_000


#: Fewest rows of a class in a sample, where it has as many.
ROWS_PER_CLASS = 10


#: Most passes over a sample. Some twenty are enough for the default tolerance.
MAX_PASSES = 100


@dataclass(frozen=True)
class Training:
    """A classifier, and the rows that it is fitted on, all or a fold of them.

    Attributes
    ----------
    classifier : classifier
        It is cloned before it is fitted.
    rows : array or csr_array of shape (n_rows, n_features)
        At unit length.
    X : array, csr_array or Rows of shape (n_rows, n_seen)
        The columns that the classifier sees.
    y : ndarray of shape (n_rows,) or LabelSets
    sample_weight : ndarray of shape (n_rows,) or None
    classes : ndarray of shape (n_classes,)
    is_sampled : ndarray of shape (n_rows,), dtype bool, or None
        Rows that a classifier may be fitted on; None is all.
    """

    classifier: Any
    rows: Any
    X: Any
    y: Any
    sample_weight: np.ndarray | None
    classes: np.ndarray
    is_sampled: np.ndarray | None = None

    def on_sample(self, rows: np.ndarray) -> Training:
        """Return the training whose classifiers are fitted on a sample of the rows."""
        is_sampled = np.zeros(len(self.y), dtype=bool)
        is_sampled[rows] = True
        return replace(self, is_sampled=is_sampled)

    def on_rows(self, rows: np.ndarray) -> Training:
        """Return the training on some of the rows alone."""
        weights = self.sample_weight
        if weights is not None:
            weights = weights[rows]
        return replace(
            self,
            rows=self.rows[rows],
            X=self.X[rows],
            y=self.y[rows],
            sample_weight=weights,
        )

    def fit(self, rows: np.ndarray) -> Any:
        """Return a classifier fitted on those of some rows that are in the sample."""
        fit_params = {}
        if self.is_sampled is not None:
            rows = rows[self.is_sampled[rows]]
        if self.sample_weight is not None:
            rows = rows[self.sample_weight[rows] > 0]
            fit_params["sample_weight"] = self.sample_weight[rows]
        X = one_matrix(self.X[rows])
        y = self.y[rows]
        if isinstance(y, LabelSets):
            return fit_each_label(self._new_classifier, X, y, **fit_params)
        if len(np.unique(y)) < 2:
            return DummyClassifier().fit(X, y)
        return self._new_classifier().fit(X, y, **fit_params)

    def fit_and_score(self, train: np.ndarray, test: np.ndarray) -> np.ndarray:
        """Return the scores that a classifier fitted on some rows gives others."""
        return squashed_scores(self.fit(train), self.X[test], self.classes)

    def count_errors(self, train: np.ndarray, test: np.ndarray) -> int:
        """Return how many labels of some rows a classifier fitted on others gets wrong."""
        scores = self.fit_and_score(train, test)
        y = self.y[test]
        if isinstance(y, LabelSets):
            has_label = y.indicator.toarray() > 0
            return int(np.sum((scores > EVEN_SCORE) != has_label))
        return int(np.sum(self.classes[scores.argmax(axis=1)] != y))

    def _new_classifier(self) -> Any:
        """Return a classifier that is not fitted."""
        return clone(self.classifier)


def columns_with_values(X: Any) -> np.ndarray | None:
    """Return the columns that have a value; None if all have one, or none has."""
    if sp.issparse(X):
        columns = np.unique(X.indices)
    else:
        columns = np.flatnonzero(X.any(axis=0))
    if len(columns) in (0, X.shape[1]):
        return None
    return columns.astype(np.int64)


def stratified_folds(
    y: np.ndarray, n_folds: int, random_state: np.random.RandomState
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return folds with the same share of each class, up to one row.

    Unlike scikit-learn's, they may be more than the rows of a class.
    """
    order = random_state.permutation(len(y))
    order = order[np.argsort(y[order], kind="stable")]
    fold = np.empty(len(y), dtype=np.int64)
    fold[order] = np.arange(len(y)) % n_folds
    numbers = range(min(n_folds, len(y)))
    return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in numbers]


# --- a sample of many rows -----------------------------------------------------------


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
