"""Scores of the models along a path: when to take one, how, and which model to choose."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from . import search
from .similarity import LearnedCosine, Rewriter, Similarity, comparison_points

if TYPE_CHECKING:
    from .solver.loop import State


class Estimate(NamedTuple):
    """A score and its standard error; larger is better."""

    value: float
    error: float = 0.0


Score = Callable[[Similarity], Estimate]

#: Nearest rows of X that the score of labels looks at.
N_NEIGHBORS = 10

#: A path is scored every EVERY iterations, later whenever it is a GROWTH-th longer.
EVERY, GROWTH = 10, 10


def next_mark(n_iter: int) -> int:
    """Return the iteration to score next: a path of k iterations is scored about 24·log10(k) times.

    Models change much at first and little later. The marks depend on the iteration alone, so paths
    can be compared and averaged.

    Examples
    --------
    >>> marks = [0]
    >>> while marks[-1] < 150:
    ...     marks.append(next_mark(marks[-1]))
    >>> marks[-7:]
    [90, 100, 110, 121, 133, 146, 160]
    """
    return n_iter + max(EVERY, n_iter // GROWTH)


class Monitor:
    """A callback of the solver that scores models and stops a run that no longer improves.

    Parameters
    ----------
    score : callable
        From a Similarity to an Estimate.
    scale, prior : float
    n_features : int
    patience : int or None, default=None
        Stop the run after this many iterations without a better score; None never stops it.

    Attributes
    ----------
    scores : dict of int to Estimate
        Iteration to score.
    best_n_iter : int
        The first iteration with the best score.
    gave_up : bool
        Whether the run was stopped because the score did not improve.
    """

    def __init__(
        self,
        score: Score,
        scale: float,
        prior: float,
        n_features: int,
        patience: int | None = None,
    ) -> None:
        self.score, self.scale, self.prior = score, scale, prior
        self.n_features, self.patience = n_features, patience
        self.scores: dict[int, Estimate] = {}
        self.best_n_iter, self.gave_up, self._mark = 0, False, 0

    @property
    def last_score(self) -> float:
        """The newest score; NaN before the first."""
        return next(reversed(self.scores.values()), Estimate(np.nan)).value

    @property
    def chosen_n_iter(self) -> int:
        """The last iteration whose score is within one standard error of the best.

        Scores of a few dozen rows have many ties. Of models that they cannot tell apart, the
        longest has learned most.
        """
        best = self.scores.get(self.best_n_iter, Estimate(np.nan))
        lowest = best.value - best.error
        close = (n_iter for n_iter, score in self.scores.items() if score.value >= lowest)
        return max(close, default=self.best_n_iter)

    def __call__(self, state: State) -> bool:
        """Score the model if a mark is reached; return whether the run should stop."""
        if state.n_iter < self._mark:
            return False
        self.add_model(state)
        n_without_gain = state.n_iter - self.best_n_iter
        self.gave_up = self.patience is not None and n_without_gain >= self.patience
        return self.gave_up

    def add(self, n_iter: int, atoms: np.ndarray, weights: np.ndarray) -> None:
        """Score one model of the path, unless it has a score."""
        self.add_similarity(
            n_iter, lambda: Similarity(atoms, weights, self.scale, self.prior, self.n_features)
        )

    def add_model(self, found: Any) -> None:
        """Score the model of a state or a result, unless it has a score."""
        self.add(found.n_iter, found.atoms, found.weights)

    def add_similarity(self, n_iter: int, make_similarity: Callable[[], Any]) -> None:
        """Score the similarity after `n_iter` iterations, unless it has a score."""
        if n_iter in self.scores:
            return
        self._move_mark(n_iter)
        score = self.score(make_similarity())
        best = self.scores.get(self.best_n_iter, Estimate(np.nan)).value
        if not self.scores or score.value > best or (np.isnan(best) and not np.isnan(score.value)):
            self.best_n_iter = n_iter
        self.scores[n_iter] = score

    def _move_mark(self, n_iter: int) -> None:
        while self._mark <= n_iter:
            self._mark = next_mark(self._mark)

    def snapshot(self) -> dict[str, np.ndarray]:
        """Return the scores so far, as arrays."""
        scores = np.array(list(self.scores.values()), dtype=np.float64).reshape(-1, 2)
        return {
            "n_iter": np.array(list(self.scores), dtype=np.int64),
            "score": scores[:, 0].copy(),
            "error": scores[:, 1].copy(),
            "best": np.array(self.best_n_iter),
        }

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Continue from a snapshot; raise ValueError if it holds no scores of a path."""
        try:
            n_iter, score, error, best = (
                arrays[name] for name in ("n_iter", "score", "error", "best")
            )
        except KeyError as missing:
            raise ValueError(f"the snapshot of the scores has no array {missing}.") from None
        if (
            [a.dtype.str[1:] for a in (n_iter, score, error, best)] != ["i8", "f8", "f8", "i8"]
            or not n_iter.shape == score.shape == error.shape
            or n_iter.ndim != 1
            or best.ndim
            or (np.diff(n_iter) <= 0).any()
            or (error < 0).any()
            or not set(best.ravel().tolist()) <= {0, *n_iter.tolist()}
        ):
            raise ValueError("the scores are not those of a path.")
        estimates = map(Estimate, score.tolist(), error.tolist())
        self.scores = dict(zip(n_iter.tolist(), estimates, strict=True))
        self.best_n_iter = int(best)
        if self.scores:
            self._move_mark(max(self.scores))


def mean_estimate(
    values: np.ndarray, weights: np.ndarray | None = None, clusters: np.ndarray | None = None
) -> Estimate:
    """Return the weighted mean of values and its standard error.

    Parameters
    ----------
    values : ndarray of shape (n,)
    weights : ndarray of shape (n,), default=None
    clusters : ndarray of int of shape (n,), default=None
        Values of one cluster depend on each other; None makes each value its own cluster.

    Returns
    -------
    Estimate
        The error is 0 where one cluster has all the weight.

    Examples
    --------
    >>> mean_estimate(np.array([0.0, 1.0, 1.0, 0.0]))
    Estimate(value=0.5, error=0.28867513459481287)
    """
    weights = np.ones(len(values)) if weights is None else np.divide(weights, np.max(weights))
    clusters = np.arange(len(values)) if clusters is None else clusters
    mean = float(np.average(values, weights=weights))
    sums = np.bincount(clusters, weights * (values - mean))
    n = np.count_nonzero(np.bincount(clusters, weights))
    if n < 2:
        return Estimate(mean)
    return Estimate(mean, float(np.sqrt(n / (n - 1) * np.square(sums).sum()) / weights.sum()))


def label_score(
    X: sp.csr_array,
    labels: np.ndarray,
    X_val: sp.csr_array | np.ndarray,
    labels_val: np.ndarray,
    weights_val: np.ndarray | None = None,
    *,
    n_neighbors: int = N_NEIGHBORS,
    n_jobs: int | None = None,
    device: str = "cpu",
) -> Score:
    """Return a score: the mean share of a validation row's nearest rows of X that have its label.

    The nearest rows are those of the largest learned cosine. A share tells models apart that the
    vote of the same rows does not.

    Parameters
    ----------
    X, X_val : csr_array of shape (n_rows, n_features), (n_val, n_features)
    labels, labels_val : ndarray of shape (n_rows,), (n_val,)
    weights_val : ndarray of shape (n_val,), default=None
        Weight of each validation row.
    n_neighbors : int, default=10
        All rows of X where it has fewer.
    n_jobs : int, default=None
    device : str, default="cpu"
        Where neighbors are searched for.

    Returns
    -------
    callable
        From a Similarity to an Estimate.
    """
    classes, codes = np.unique(labels, return_inverse=True)
    truth = np.searchsorted(classes, labels_val)
    truth[~np.isin(labels_val, classes)] = -1  # no row of X has this label
    k = min(n_neighbors, X.shape[0])

    def score(similarity: Rewriter) -> Estimate:
        cosine = LearnedCosine(similarity)
        found = search.top_k(
            cosine.rewrite(X_val), cosine.index_rows(X), k, n_jobs=n_jobs, device=device
        )
        return mean_estimate((codes[found.rows] == truth[:, None]).mean(axis=1), weights_val)

    return score


def triplet_score(
    X: sp.csr_array, triplets: np.ndarray, weights: np.ndarray | None = None
) -> Score:
    """Return a score: the share of comparisons that hold; those of one anchor are a cluster.

    Parameters are those of `triplet_accuracy`.
    """
    hold = comparison_points(X, triplets)
    return lambda similarity: mean_estimate(hold(similarity), weights, triplets[:, 0])


def triplet_accuracy(
    X: sp.csr_array, triplets: np.ndarray, weights: np.ndarray | None = None
) -> Callable[[Rewriter], float]:
    """Return a function: the share of comparisons that hold; a tie counts one half.

    Parameters
    ----------
    X : csr_array of shape (n_rows, n_features)
    triplets : ndarray of shape (n_triplets, 3) or (n_quadruplets, 4)
        Rows (a, b, c) say S(a, b) > S(a, c); rows (a, b, c, d) say S(a, b) > S(c, d).
    weights : ndarray of shape (n_triplets,), default=None

    Returns
    -------
    callable
        From a Similarity to the accuracy.
    """
    points = comparison_points(X, triplets)
    return lambda similarity: float(np.average(points(similarity), weights=weights))
