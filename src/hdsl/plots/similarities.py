"""Display of the similarities of pairs of rows, of one class and of two."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from .. import checks
from ..explain import NEGATIVE, POSITIVE
from ..similarity import Similarity, row_products
from .display import Display, FittedModel, as_matrix, legend, similarity_of


@dataclass
class SimilarityDisplay(Display):
    """Similarities of pairs of one class against those of other pairs, before and after.

    Parameters
    ----------
    same : ndarray of shape (n_pairs,)
        Whether a pair is of one class.
    before, after : ndarray of shape (n_pairs,)
        Dot products and learned similarities of the pairs.
    """

    same: np.ndarray
    before: np.ndarray
    after: np.ndarray

    @classmethod
    def from_estimator(
        cls,
        estimator: FittedModel | Similarity,
        X: Any,
        y: Any,
        *,
        n_pairs: int = 10_000,
        random_state: Any = None,
        ax: Any = None,
    ) -> SimilarityDisplay:
        """Draw random pairs of rows, half of them of one class, and their similarities.

        Parameters
        ----------
        estimator : HDSL or Similarity
        X : array-like or sparse matrix of shape (n_rows, n_features)
        y : array-like of shape (n_rows,)
        n_pairs : int, default=10_000
        random_state : int, RandomState or None, default=None
        ax : pair of matplotlib axes, default=None

        Returns
        -------
        SimilarityDisplay
        """
        X = as_matrix(X)
        rng = checks.generator(random_state)
        left, right, same = pairs_of_classes(checks.check_labels(y, X.shape[0]), n_pairs, rng)
        A, B = X[left], X[right]
        after = similarity_of(estimator).pair_score(A, B)
        return cls(same, row_products(A, B), after).plot(ax)

    def plot(self, ax: Any = None) -> SimilarityDisplay:
        """Draw two histograms before and two after; the outer bins hold what lies beyond them."""
        axes = self.start(ax, 2, figsize=(9, 3.6))
        for one, name, scores in zip(
            axes, ("dot product", "learned similarity"), (self.before, self.after), strict=True
        ):
            low, high = np.quantile(scores, [0.005, 0.995])
            bins = np.linspace(low, high if high > low else low + 1.0, 41)
            handles = []
            for same, color, line in ((False, NEGATIVE, "--"), (True, POSITIVE, "-")):
                group = np.clip(scores[self.same == same], bins[0], bins[-1])
                share = np.full(len(group), 1 / max(len(group), 1))
                one.hist(group, bins, weights=share, color=color, alpha=0.25)
                *_, outline = one.hist(
                    group, bins, weights=share, color=color, histtype="step", ls=line, lw=1.3
                )
                handles += outline
            one.set(xlabel=name, ylabel="share of pairs", yscale="log")
            auc = roc_auc_score(self.same, scores)
            one.set_title(f"{name}, AUC {auc:.3f}", fontsize="medium")
            legend(one, handles, ["other pairs", "pairs of one class"])
        return self


def pairs_of_classes(
    codes: np.ndarray, n_pairs: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return pairs of different rows and whether they are of one class: half of them are."""
    order = np.argsort(codes, kind="stable")  # each class is a run of it
    n, count = len(codes), np.bincount(codes)
    start = np.cumsum(count) - count
    sorted_codes = codes[order]
    several = np.flatnonzero(count[sorted_codes] > 1)
    if not len(several):
        raise ValueError("No class of y has two rows: there is no pair of one class.")
    a = rng.choice(several, n_pairs // 2)
    size, first = count[sorted_codes[a]], start[sorted_codes[a]]
    b = first + (a - first + rng.integers(1, size)) % size
    c = rng.integers(n, size=n_pairs - n_pairs // 2)
    size, first = count[sorted_codes[c]], start[sorted_codes[c]]
    d = (first + size + rng.integers(0, n - size)) % n
    same = np.repeat([True, False], [len(a), len(c)])
    return order[np.concatenate([a, c])], order[np.concatenate([b, d])], same
