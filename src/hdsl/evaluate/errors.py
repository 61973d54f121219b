"""Errors of neighbors and of comparisons, with their uncertainty.

One error has an interval, and the difference of two has a test.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy import stats
from sklearn.base import BaseEstimator

from ..input.comparisons import check_comparisons, check_weights
from ..input.labels import check_one_label_per_row, check_same_labels
from ..input.matrices import check_matrix
from ..input.parameters import check_number
from ..labels import aligned, label_sets, overlap
from ..neighbors import SimilarityKNeighborsClassifier
from ..similarity import FixedPart, Similarity
from ..similarity.cosine import LearnedCosine
from ..similarity.judge import comparison_points
from ..similarity.pairwise import as_rewriter
from ..similarity.rewriter import Rewriter
from ..solver.atoms import NOTHING

#: A difference is more than chance if its p-value is at most this.
LEVEL = 0.05

#: Terms of a sum whose signs are all tried to tell it from chance; more have a normal
#: sum.
FEW_SIGNS = 12


# --- one error, two errors ------------------------------------------------------------


def wilson_interval(
    n_wrong: float, n: float, confidence: float = 0.95
) -> tuple[float, float]:
    """Return the Wilson interval of a share: where the true share lies with this confidence.

    It is inside [0, 1], and sensible for few rows and for 0 errors.

    Parameters
    ----------
    n_wrong : float
        From 0 to n; a tie may count one half.
    n : float
        Number of independent trials, > 0.
    confidence : float, default=0.95

    Returns
    -------
    low, high : float

    Examples
    --------
    >>> low, high = wilson_interval(0, 20)
    >>> round(low, 3), round(high, 3)
    (0.0, 0.161)
    """
    check_number("wilson_interval", "n", n, low=0, strict=True)
    check_number("wilson_interval", "n_wrong", n_wrong, low=0)
    check_number(
        "wilson_interval", "confidence", confidence, low=0, strict=True, high=1
    )
    if n_wrong > n:
        raise ValueError(f"n_wrong must be at most n. Got {n_wrong:g} of {n:g}.")
    share = n_wrong / n
    z2 = float(stats.norm.ppf(0.5 + confidence / 2)) ** 2
    center = share + z2 / (2 * n)
    half = np.sqrt(z2 * (share * (1 - share) / n + z2 / (4 * n**2)))
    low = (center - half) / (1 + z2 / n)
    high = (center + half) / (1 + z2 / n)
    return float(max(low, 0.0)) if n_wrong else 0.0, float(
        min(high, 1.0)
    ) if n_wrong < n else 1.0


@dataclass(frozen=True)
class McNemar:
    """The errors that only one of two methods makes, and how likely chance explains them.

    Parameters
    ----------
    only_a : int
        Trials that only A gets wrong.
    only_b : int
        Trials that only B gets wrong.
    p_value : float
        Two-sided.
    gain : float, default=None
        Errors of A less errors of B, where they are no whole numbers: fractions, or
        with weights.
    """

    only_a: int
    only_b: int
    p_value: float
    gain: float | None = None

    @property
    def is_more_than_chance(self) -> bool:
        """Whether the p-value is at most 0.05."""
        return self.p_value <= LEVEL

    @property
    def chance(self) -> str:
        """Whether the difference is more than chance, in words."""
        p = f"p = {self.p_value:.2g}" if self.p_value >= 0.001 else "p < 0.001"
        more = "more" if self.is_more_than_chance else "not more"
        return f"the difference is {more} than chance ({p})"

    def sentence(self, a: str = "A", b: str = "B") -> str:
        """Return the result in words, without a full stop."""
        if self.only_a == self.only_b == 0:
            return f"{b} makes the same errors as {a}"
        if self.gain is not None:
            fewer = f"{round(abs(self.gain), 1):g} errors {'fewer' if self.gain > 0 else 'more'}"
            return (
                f"{b} is worse than {a} on {self.only_b:,} and better on "
                f"{self.only_a:,}, {fewer} in all: {self.chance}"
            )
        errors = "error" if self.only_b == 1 else "errors"
        return (
            f"{b} makes {self.only_b:,} {errors} that {a} does not and avoids "
            f"{self.only_a:,}: {self.chance}"
        )

    def __str__(self) -> str:
        return self.sentence()


def mcnemar(wrong_a: Any, wrong_b: Any) -> McNemar:
    """Return McNemar's exact test of whether two methods make equally many errors.

    Only trials that one of them gets wrong and the other right say something. By chance
    each would be an error of A or of B with probability 1/2.

    Parameters
    ----------
    wrong_a, wrong_b : array-like of shape (n_trials,)
        Whether A and B are wrong, trial by trial. Numbers count too, such as 0.5 for a
        tie: then the larger one is the error (sign test).

    Returns
    -------
    McNemar

    Examples
    --------
    >>> print(mcnemar([1] * 31 + [0] * 12, [0] * 31 + [1] * 12))
    B makes 12 errors that A does not and avoids 31: the difference is more than chance (p = 0.0054)
    """
    a, b = (np.asarray(wrong, dtype=np.float64) for wrong in (wrong_a, wrong_b))
    if a.ndim != 1 or a.shape != b.shape:
        raise ValueError(
            "wrong_a and wrong_b must be two vectors about the same trials. Got shapes "
            f"{a.shape} and {b.shape}."
        )
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise ValueError(
            "wrong_a and wrong_b must be finite: a NaN is neither right nor wrong."
        )
    only_a = int((a > b).sum())
    only_b = int((b > a).sum())
    return McNemar(only_a, only_b, _chance(np.sign(a - b)))


def _chance(change: np.ndarray) -> float:
    """Return how likely a sum is to be as far from 0, if each term had a random sign."""
    change = change[change != 0.0]
    n = len(change)
    total = abs(change.sum())
    if n <= FEW_SIGNS:  # all signs
        signs = 1 - 2 * ((np.arange(2**n)[:, None] >> np.arange(n)) & 1)
        return float(np.mean(np.abs(signs @ change) >= (1.0 - 1e-9) * total))
    if np.allclose(np.abs(change), np.abs(change[0])):
        return float(stats.binomtest(int((change > 0).sum()), n).pvalue)
    return float(2.0 * stats.norm.sf(total / np.sqrt((change**2).sum())))


@dataclass(frozen=True)
class ErrorRate:
    """A share of errors with its interval.

    Parameters
    ----------
    n_wrong : float
        A tie counts one half.
    n : int
    interval : tuple of float
        Lower and upper limit of the share.
    """

    n_wrong: float
    n: int
    interval: tuple[float, float]

    @property
    def share(self) -> float:
        """The share of errors."""
        return self.n_wrong / self.n

    def __str__(self) -> str:
        low, high = self.interval
        return (
            f"{100 * self.share:.1f} % ({100 * low:.1f} to {100 * high:.1f} %), "
            f"{round(self.n_wrong, 1):g} of {self.n}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the facts as plain values."""
        return {
            "n_wrong": self.n_wrong,
            "error": self.share,
            "interval": list(self.interval),
        }


@dataclass(frozen=True)
class ErrorComparison:
    """Errors of the cosine and of a learned similarity on the same trials, and what they show.

    Parameters
    ----------
    before, after : ErrorRate
        Of the plain cosine and of the learned similarity.
    test : McNemar
        A is the cosine and B the learned similarity.
    confidence : float
        Of the intervals.
    supervision : {"labels", "judgements"}
        What the errors are counted against.
    """

    before: ErrorRate
    after: ErrorRate
    test: McNemar
    confidence: float = 0.95
    supervision: str = "labels"

    @classmethod
    def from_trials(
        cls,
        before: np.ndarray,
        after: np.ndarray,
        *,
        sample_weight: np.ndarray | None = None,
        groups: np.ndarray | None = None,
        confidence: float = 0.95,
        supervision: str = "labels",
    ) -> ErrorComparison:
        """Return the comparison of two vectors of errors, one number from 0 to 1 per trial.

        Trials of one group, where there are `groups`, count together: they may go wrong
        together.
        """
        before = before.astype(np.float64)
        after = after.astype(np.float64)
        n = len(before)
        used = slice(None) if sample_weight is None else sample_weight > 0
        weights = (
            np.ones(n)
            if sample_weight is None
            else sample_weight * (n / sample_weight.sum())
        )
        number = (
            np.arange(n)
            if groups is None
            else np.unique(groups, return_inverse=True)[1]
        )
        change = weights * (before - after)
        test = mcnemar(before[used], after[used])
        gain = float(change.sum())
        if gain != test.only_a - test.only_b:
            test = replace(test, gain=gain)
        test = replace(test, p_value=_chance(np.bincount(number, change)))
        first, second = (
            _rate(wrong, weights, number, confidence) for wrong in (before, after)
        )
        return cls(first, second, test, confidence, supervision)

    @property
    def gain(self) -> float:
        """How many errors fewer the learned similarity makes."""
        return self.before.n_wrong - self.after.n_wrong

    @property
    def verdict(self) -> str:
        """Either "better", "worse" or "no difference", which is one that chance may explain."""
        if not self.test.is_more_than_chance:
            return "no difference"
        return "better" if self.gain > 0 else "worse"

    @property
    def sentence(self) -> str:
        """What the errors show, and what to do if nothing was gained."""
        said = self.test.sentence("the cosine", "the learned similarity")
        return f"{said[0].upper()}{said[1:]}.{self._advice()}"

    def _advice(self) -> str:
        if self.verdict == "better":
            return ""
        if self.verdict == "no difference" and self.gain > 0:
            return (
                f" A gain is not shown: give more {self.supervision}, measure on more, "
                "or use the cosine."
            )
        said = " It is worse, and nothing" if self.verdict == "worse" else " Nothing"
        return f"{said} was gained: use the cosine, or give more {self.supervision}."

    def __str__(self) -> str:
        return f"cosine   {self.before}\nlearned  {self.after}\n{self.sentence}"

    def to_dict(self) -> dict[str, Any]:
        """Return the facts as plain values, for JSON."""
        return {
            "n": self.before.n,
            "confidence": self.confidence,
            "before": self.before.to_dict(),
            "after": self.after.to_dict(),
            "n_only_before_wrong": self.test.only_a,
            "n_only_after_wrong": self.test.only_b,
            "p_value": self.test.p_value,
            "verdict": self.verdict,
            "sentence": self.sentence,
        }


def _rate(
    wrong: np.ndarray, weights: np.ndarray, number: np.ndarray, confidence: float
) -> ErrorRate:
    """Return the share of errors; groups that go wrong together make the interval wider."""
    n = len(wrong)
    n_wrong = min(float((weights * wrong).sum()), float(len(wrong)))
    share = n_wrong / n
    n_groups = len(np.unique(number[weights > 0]))
    n_independent = float(n_groups)
    if n_groups > 1 and (n_groups < n or np.ptp(weights) > 0.0):
        spread = np.square(np.bincount(number, weights * (wrong - share))).sum()
        variance = n_groups / (n_groups - 1) * spread / n**2
        n_independent = (
            share * (1 - share) / variance if variance > 0.0 else n_independent
        )
    n_independent = min(max(n_independent, 1.0), float(n))
    interval = wilson_interval(share * n_independent, n_independent, confidence)
    return ErrorRate(n_wrong, n, interval)


# --- nearest neighbors ----------------------------------------------------------------


def knn_error(
    model: Rewriter | None,
    X: Any,
    y: Any,
    X_test: Any,
    y_test: Any,
    *,
    n_neighbors: int = 3,
    cosine: bool = False,
    n_jobs: int | None = None,
) -> float:
    """Return the share of test rows that the vote of their most similar rows of X gets wrong.

    Parameters
    ----------
    model : HDSL, Similarity or None
        Fitted, or another object with ``rewrite(X)``; None is the plain dot product,
        which is the cosine for rows of length 1.
    X, X_test : array-like or sparse matrix of shape (n_rows or n_test, n_features)
    y, y_test : array-like of shape (n_rows,), (n_test,)
        A test row whose label is not in `y` counts as wrong. Of several labels per row,
        as in ``HDSL.fit``, the error is 1 - F1 of those that the row has and those that
        win the vote.
    n_neighbors : int, default=3
    cosine : bool, default=False
        Compare by the learned cosine, as in ``SimilarityKNeighborsClassifier``.
    n_jobs : int or None, default=None
        Threads. The result does not depend on their number.

    Returns
    -------
    float

    Examples
    --------
    >>> X, X_test = np.eye(3), np.array([[2.0, 1, 0], [0, 1, 3]])
    >>> knn_error(None, X, ["a", "b", "b"], X_test, ["a", "a"], n_neighbors=1)
    0.5
    """
    knn = SimilarityKNeighborsClassifier(
        n_neighbors, similarity=model, cosine=cosine, n_jobs=n_jobs
    ).fit(X, y)
    return float(_wrong(knn, X_test, y_test, "_test").mean())


def _wrong(knn: Any, X_test: Any, y_test: Any, which: str) -> np.ndarray:
    """Return the error of each test row, from 0 to 1; X_test is None for the fitted rows."""
    predicted = knn.predict(X_test)
    are_sets = isinstance(predicted, list)
    found, truth = (label_sets(y, are_sets=are_sets) for y in (predicted, y_test))
    if found is not None or truth is not None:
        return label_errors(found, truth, which)
    y_test = np.ravel(y_test)
    check_one_label_per_row(y_test, len(predicted), which)
    return np.asarray(predicted != y_test)


def label_errors(found: Any, truth: Any, which: str = "_test") -> np.ndarray:
    """Return 1 - F1 of the labels that each row has, and of those that were found."""
    if found is None or truth is None:
        raise ValueError(
            "y and y_test must both have one label per row, or both several."
        )
    check_one_label_per_row(truth, len(found), which)
    found, truth = aligned(found, truth)
    return 1.0 - overlap(found.indicator, truth.indicator)


def compare_errors(
    model: Rewriter,
    X: Any,
    y: Any,
    X_test: Any = None,
    y_test: Any = None,
    *,
    n_neighbors: int = 3,
    cosine: bool = False,
    n_jobs: int | None = None,
) -> ErrorComparison:
    """Return the errors of nearest neighbors by plain cosine and as learned, and a verdict.

    Parameters
    ----------
    model : HDSL, Similarity
        Fitted, or another object with ``rewrite(X)``.
    X, X_test : array-like or sparse matrix of shape (n_rows or n_test, n_features)
        Neighbors of test rows are rows of X. Without test rows, each row of X is tested
        with the other rows as its neighbors. Rows that the model learned from say
        little about new rows.
    y, y_test : array-like of shape (n_rows,), (n_test,)
        A test row whose label is not in `y` counts as wrong. Of several labels per row,
        as in ``HDSL.fit``, the error is 1 - F1 of those that the row has and those that
        win the vote.
    n_neighbors : int, default=3
    cosine : bool, default=False
        Compare by the learned cosine, as in ``SimilarityKNeighborsClassifier``.
    n_jobs : int or None, default=None
        Threads. The result does not depend on their number.

    Returns
    -------
    ErrorComparison

    Examples
    --------
    >>> from hdsl.similarity import FixedPart, Similarity
    >>> atom = np.array([[0, 1, -1]]), np.array([1.0])
    >>> learned = Similarity(*atom, 1.0, (FixedPart("prior", 0.0),), n_features=3)
    >>> X, y = np.array([[1.0, 0, 3], [0, 1, 1]]), ["a", "b"]
    >>> X_test, y_test = [[3.0, 2, 3], [2, 3, 9], [2, 3, 1]], ["a", "b", "b"]
    >>> found = compare_errors(learned, X, y, X_test, y_test, n_neighbors=1)
    >>> print(found.before, found.after, sep=chr(10))
    33.3 % (6.1 to 79.2 %), 1 of 3
    0.0 % (0.0 to 56.1 %), 0 of 3
    >>> found.verdict
    'no difference'
    """
    if (X_test is None) != (y_test is None):
        raise ValueError("X_test and y_test go together: pass both or none.")
    truth, which = (y, "") if y_test is None else (y_test, "_test")
    if y_test is not None and label_sets(y_test) is None and label_sets(y) is None:
        check_same_labels(np.ravel(y_test), np.ravel(y), "y_test")

    def wrong(similarity: Rewriter | None, cosine: bool) -> np.ndarray:
        knn = SimilarityKNeighborsClassifier(
            n_neighbors, similarity=similarity, cosine=cosine, n_jobs=n_jobs
        )
        return _wrong(knn.fit(X, y), X_test, truth, which)

    return ErrorComparison.from_trials(wrong(None, True), wrong(model, cosine))


# --- comparisons ----------------------------------------------------------------------


def triplet_accuracy(
    model: Rewriter | None, X: Any, triplets: Any, *, sample_weight: Any = None
) -> float:
    """Return the share of triplets or quadruplets that hold; a tie counts one half.

    Parameters
    ----------
    model : HDSL, Similarity or None
        As in `knn_error`.
    X : array-like or sparse matrix of shape (n_rows, n_features)
    triplets : array-like of int of shape (n_triplets, 3) or (n_quadruplets, 4)
        Row numbers of X. A triplet (a, b, c) says S(a, b) > S(a, c), a quadruplet (a,
        b, c, d) says S(a, b) > S(c, d).
    sample_weight : array-like of shape (n_triplets,), default=None

    Returns
    -------
    float

    Examples
    --------
    >>> X = np.array([[1.0, 0], [2, 1], [0, 3], [0, 4]])
    >>> triplet_accuracy(None, X, [[0, 1, 2], [0, 2, 3]])
    0.75
    >>> triplet_accuracy(None, X, [[2, 3, 0, 1], [0, 2, 1, 3]])
    0.5
    """
    X, triplets, weights = _check(model, X, triplets, sample_weight)
    model = _plain(X.shape[1], norm=None) if model is None else model
    right = comparison_points(X, triplets)(as_rewriter(model, X.shape[1], "model"))
    return float(np.average(right, weights=weights))


def compare_triplets(
    model: Rewriter,
    X: Any,
    triplets: Any,
    *,
    sample_weight: Any = None,
    cosine: bool = False,
) -> ErrorComparison:
    """Return the shares of comparisons that do not hold by plain cosine and as learned.

    The intervals and the test take comparisons of different anchors (first rows) as
    independent. Where they share other rows they say less than that.

    Parameters
    ----------
    model : HDSL, Similarity
        Fitted, or another object with ``rewrite(X)``.
    X, triplets, sample_weight
        As in `triplet_accuracy`.
    cosine : bool, default=False
        Compare by the learned cosine.

    Returns
    -------
    ErrorComparison

    Examples
    --------
    >>> X = np.array([[1.0, 0], [2, 1], [0, 3], [0, 4]])
    >>> nothing = np.empty((0, 3), int), np.empty(0)
    >>> same = Similarity(*nothing, 1.0, (FixedPart("prior", 1.0),), n_features=2)
    >>> compare_triplets(same, X, [[0, 1, 2], [0, 2, 3]]).after.n_wrong
    0.5
    """
    X, triplets, weights = _check(model, X, triplets, sample_weight)
    learned = as_rewriter(model, X.shape[1], "model")
    learned = LearnedCosine(learned) if cosine else learned
    points = comparison_points(X, triplets)
    before, after = (
        1.0 - points(each) for each in (_plain(X.shape[1], norm="l2"), learned)
    )
    return ErrorComparison.from_trials(
        before,
        after,
        sample_weight=weights,
        groups=triplets[:, 0],
        supervision="judgements",
    )


def checked_rows(model: Any, X: Any) -> sp.csr_array:
    """Return X as a CSR array of float64, with the features of the model where it knows them."""
    is_estimator = isinstance(model, BaseEstimator)
    owner = model if is_estimator else BaseEstimator()
    return sp.csr_array(
        check_matrix(owner, X, reset=not is_estimator), dtype=np.float64
    )


def _check(
    model: Rewriter | None, X: Any, triplets: Any, sample_weight: Any
) -> tuple[sp.csr_array, np.ndarray, np.ndarray | None]:
    """Return rows, comparisons and weights as arrays; raise ValueError if they do not match."""
    X = checked_rows(model, X)
    triplets = check_comparisons(triplets, X.shape[0])
    return X, triplets, check_weights(sample_weight, len(triplets), "triplet")


def _plain(n_features: int, norm: str | None) -> Similarity:
    """Return the dot product, or the cosine with ``norm="l2"``."""
    fixed = (FixedPart("prior", 1.0, norm),)
    return Similarity(*NOTHING, scale=1.0, fixed=fixed, n_features=n_features)
