"""Scores of the models along a path: when one is taken, how, and which model was the best."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from .. import neighbors, search, user_input
from ..similarity import Similarity

if TYPE_CHECKING:
    from ..core.solver import State

Score = Callable[[Similarity], float]

#: A path is scored every so many iterations at first, later when it is a GROWTH-th longer.
EVERY, GROWTH = 10, 10


def next_mark(n_iter: int) -> int:
    """Return the iteration to score next: a path of k iterations is scored some 24·log10(k) times.

    Models change much at first and little later. The marks depend on nothing but the number, so
    paths can be compared and averaged.

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
    """A callback of the solver that scores models as they come, and ends a run that got stuck.

    Parameters
    ----------
    score : callable
        From a Similarity to a number; the larger the better.
    scale, prior : float
    n_features : int
    patience : int or None, default=None
        End the run after so many iterations without a better score; None never does.

    Attributes
    ----------
    scores : dict of int to float
        Iteration to score, as far as the run came.
    best_n_iter : int
        The first iteration of the best score.
    gave_up : bool
        Whether the run was ended for want of a better score.
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
        self.scores: dict[int, float] = {}
        self.best_n_iter, self.gave_up, self._mark = 0, False, 0

    @property
    def last_score(self) -> float:
        """The newest score; NaN before the first."""
        return next(reversed(self.scores.values()), np.nan)

    def __call__(self, state: State) -> bool:
        """Score the model where it is time to; return whether the run should end."""
        if state.n_iter < self._mark:
            return False
        self.add(state.n_iter, state.atoms, state.weights)
        stuck = state.n_iter - self.best_n_iter
        self.gave_up = self.patience is not None and stuck >= self.patience
        return self.gave_up

    def add(self, n_iter: int, atoms: np.ndarray, weights: np.ndarray) -> None:
        """Score one model of the path, if it was not yet."""
        if n_iter in self.scores:
            return
        self._pass(n_iter)
        model = Similarity(atoms, weights, self.scale, self.prior, self.n_features)
        score = float(self.score(model))
        best = self.scores.get(self.best_n_iter, np.nan)
        if not self.scores or score > best or (np.isnan(best) and not np.isnan(score)):
            self.best_n_iter = n_iter
        self.scores[n_iter] = score

    def _pass(self, n_iter: int) -> None:
        while self._mark <= n_iter:
            self._mark = next_mark(self._mark)

    def memory(self) -> dict[str, np.ndarray]:
        """Return the scores so far, as arrays."""
        return {
            "n_iter": np.array(list(self.scores), dtype=np.int64),
            "score": np.array(list(self.scores.values()), dtype=np.float64),
            "best": np.array(self.best_n_iter),
        }

    def recall(self, memory: Mapping[str, np.ndarray]) -> None:
        """Go on from the scores of another object."""
        n_iter, score = memory["n_iter"], memory["score"]
        best = memory["best"]
        if (
            [a.dtype.str[1:] for a in (n_iter, score, best)] != ["i8", "f8", "i8"]
            or n_iter.shape != score.shape
            or n_iter.ndim != 1
            or best.ndim
            or (np.diff(n_iter) <= 0).any()
            or not set(best.ravel().tolist()) <= {0, *n_iter.tolist()}
        ):
            raise ValueError("the scores are not those of a path.")
        self.scores = dict(zip(n_iter.tolist(), score.tolist(), strict=True))
        self.best_n_iter = int(best)
        if self.scores:
            self._pass(max(self.scores))


def knn_accuracy(
    X: sp.csr_array,
    labels: np.ndarray,
    X_val: Any,
    labels_val: np.ndarray,
    weights_val: np.ndarray | None = None,
    *,
    n_neighbors: int = 3,
    n_jobs: int | None = None,
) -> Score:
    """Return a score: the share of validation rows that their nearest rows of X vote right.

    Parameters
    ----------
    X, X_val : csr_array of shape (n_rows, n_features), (n_val, n_features)
    labels, labels_val : ndarray of shape (n_rows,), (n_val,)
    weights_val : ndarray of shape (n_val,), default=None
        How much each validation row counts.
    n_neighbors : int, default=3
        Or as many as there are.
    n_jobs : int, default=None

    Returns
    -------
    callable
        From a Similarity to the accuracy.
    """
    classes, codes = np.unique(labels, return_inverse=True)
    # A label that no row of X has cannot be voted for: it is always wrong.
    truth = np.searchsorted(classes, labels_val)
    truth[~np.isin(labels_val, classes)] = -1
    k = min(n_neighbors, X.shape[0])

    def score(similarity: Similarity) -> float:
        found = search.top_k(similarity.rewrite(X_val), X, k, n_jobs=n_jobs)
        told = neighbors.knn_predict(found.rows, found.scores, codes, len(classes))
        return float(np.average(told == truth, weights=weights_val))

    return score


def triplet_accuracy(X: Any, triplets: np.ndarray, weights: np.ndarray | None = None) -> Score:
    """Return a score: the share of triplets that are judged as given; a draw counts a half.

    Parameters
    ----------
    X : csr_array of shape (n_rows, n_features)
    triplets : ndarray of shape (n_triplets, 3)
    weights : ndarray of shape (n_triplets,), default=None

    Returns
    -------
    callable
        From a Similarity to the accuracy.
    """
    anchors, anchor = np.unique(triplets[:, 0], return_inverse=True)
    pairs, pair = np.unique(
        np.concatenate([anchor, anchor]) * np.int64(X.shape[0]) + triplets[:, 1:].T.ravel(),
        return_inverse=True,
    )
    left, right = np.divmod(pairs, X.shape[0])
    others = X[right]
    asked = X[anchors]

    def score(similarity: Similarity) -> float:
        rewritten = sp.csr_array(similarity.rewrite(asked))
        with np.errstate(over="ignore", invalid="ignore"):
            scores = np.asarray(rewritten[left].multiply(others).sum(axis=1)).ravel()[pair]
        positive, negative = np.split(user_input.check_result(scores, "The similarity"), 2)
        right_ones = 0.5 * (1.0 + np.sign(positive - negative))
        return float(np.average(right_ones, weights=weights))

    return score
