"""Errors with intervals, by cosine and as learned, and whether chance explains the difference."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from ..input.parameters import check_number


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


@dataclass(frozen=True, repr=False)
class ErrorComparison:
    """Errors by cosine and by the learned similarity, on the same trials, with a verdict.

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
        """Return the comparison of two vectors of errors, one from 0 to 1 per trial.

        Trials of one group, where there are `groups`, count together: they may go wrong
        together.
        """
        before = before.astype(np.float64)
        after = after.astype(np.float64)
        trials = _Trials.of(len(before), sample_weight, groups)
        return cls(
            before=trials.error_rate(before, confidence),
            after=trials.error_rate(after, confidence),
            test=trials.test(before, after),
            confidence=confidence,
            supervision=supervision,
        )

    @property
    def gain(self) -> float:
        """How many errors fewer the learned similarity makes."""
        return self.before.n_wrong - self.after.n_wrong

    @property
    def verdict(self) -> str:
        """Either "better", "worse", or "no difference", which chance may explain."""
        if not self.test.is_more_than_chance:
            return "no difference"
        if self.gain > 0:
            return "better"
        return "worse"

    @property
    def sentence(self) -> str:
        """The verdict, and what to do if there is no gain."""
        if self.before.n_wrong == self.after.n_wrong == 0:
            return (
                "Neither the cosine nor the learned similarity makes an error: this "
                "test is too easy to show a gain."
            )
        errors = self.test.sentence("the cosine", "the learned similarity")
        return f"{errors[0].upper()}{errors[1:]}.{self._advice()}"

    def _advice(self) -> str:
        """Return what to do if there is no gain, after a space."""
        if self.verdict == "better":
            return ""
        if self.verdict == "no difference" and self.gain > 0:
            return (
                f" A gain is not shown: give more {self.supervision}, measure on more, "
                "or use the cosine."
            )
        advice = f"was gained: use the cosine, or give more {self.supervision}."
        if self.verdict == "worse":
            return f" It is worse, and nothing {advice}"
        return f" Nothing {advice}"

    def __repr__(self) -> str:
        errors = f"cosine {self.before}, learned {self.after}"
        return f"<ErrorComparison: {errors}. {self.sentence}>"

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


@dataclass(frozen=True)
class _Trials:
    """Trials that errors are counted on.

    Parameters
    ----------
    weights : ndarray of shape (n_trials,)
        What each trial counts; they sum to the number of trials.
    groups : ndarray of shape (n_trials,)
        Numbers of groups from 0: trials of one group may go wrong together.
    """

    weights: np.ndarray
    groups: np.ndarray

    @classmethod
    def of(
        cls, n: int, sample_weight: np.ndarray | None, groups: np.ndarray | None
    ) -> _Trials:
        """Return n trials; None means equal weights, and a group for each trial."""
        weights = np.ones(n)
        if sample_weight is not None:
            weights = sample_weight * (n / sample_weight.sum())
        numbers = np.arange(n)
        if groups is not None:
            numbers = np.unique(groups, return_inverse=True)[1]
        return cls(weights, numbers)

    def test(self, before: np.ndarray, after: np.ndarray) -> McNemar:
        """Return the test of whether two methods make equally many errors."""
        counted = self.weights > 0
        unweighted = mcnemar(before[counted], after[counted])
        changes = self.weights * (before - after)
        gain: float | None = float(changes.sum())
        if gain == unweighted.only_a - unweighted.only_b:
            gain = None  # the numbers of errors say it
        return McNemar(
            only_a=unweighted.only_a,
            only_b=unweighted.only_b,
            p_value=sign_test(np.bincount(self.groups, changes)),
            gain=gain,
        )

    def error_rate(self, wrong: np.ndarray, confidence: float) -> ErrorRate:
        """Return the share of errors; groups that go wrong together widen the interval."""
        n = len(wrong)
        n_wrong = min(float((self.weights * wrong).sum()), float(n))
        share = n_wrong / n
        n_independent = self._n_independent(wrong, share)
        interval = wilson_interval(share * n_independent, n_independent, confidence)
        return ErrorRate(n_wrong, n, interval)

    def _n_independent(self, wrong: np.ndarray, share: float) -> float:
        """Return how many independent trials would have as uncertain a share of errors."""
        n = len(wrong)
        n_groups = len(np.unique(self.groups[self.weights > 0]))
        n_independent = float(n_groups)
        if n_groups > 1 and (n_groups < n or np.ptp(self.weights) > 0.0):
            deviations = np.bincount(self.groups, self.weights * (wrong - share))
            spread = np.square(deviations).sum()
            variance = n_groups / (n_groups - 1) * spread / n**2
            if variance > 0.0:
                n_independent = share * (1 - share) / variance
        return min(max(n_independent, 1.0), float(n))


#: A difference is more than chance if its p-value is at most this.
LEVEL = 0.05


#: Terms of a sum whose signs are all tried to tell it from chance; more have a normal
#: sum.
FEW_SIGNS = 12


@dataclass(frozen=True)
class McNemar:
    """Errors that only one of two methods makes, and the probability of such a difference.

    Parameters
    ----------
    only_a : int
        Trials that only A gets wrong.
    only_b : int
        Trials that only B gets wrong.
    p_value : float
        Two-sided.
    gain : float, default=None
        Errors of A minus errors of B, if they are not whole numbers: fractions, or with
        weights.
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
        p = "p < 0.001"
        if self.p_value >= 0.001:
            p = f"p = {self.p_value:.2g}"
        if self.is_more_than_chance:
            return f"the difference is more than chance ({p})"
        return f"the difference is not more than chance ({p})"

    def sentence(self, a: str = "A", b: str = "B") -> str:
        """Return the result in words, without a full stop."""
        if self.only_a == self.only_b == 0:
            return f"{b} makes the same errors as {a}"
        if self.gain is not None:
            shown = f"{round(abs(self.gain), 1):g}"
            errors = "error" if shown == "1" else "errors"
            difference = f"{shown} {errors} {'fewer' if self.gain > 0 else 'more'}"
            return (
                f"{b} is worse than {a} on {self.only_b:,} and better on "
                f"{self.only_a:,}, {difference} in all: {self.chance}"
            )
        errors = "errors"
        if self.only_b == 1:
            errors = "error"
        return (
            f"{b} makes {self.only_b:,} {errors} that {a} does not and avoids "
            f"{self.only_a:,}: {self.chance}"
        )

    def __str__(self) -> str:
        return self.sentence()


def mcnemar(wrong_a: Any, wrong_b: Any) -> McNemar:
    """Return McNemar's exact test of whether two methods make equally many errors.

    Only trials that exactly one of them gets wrong count. By chance each would be an
    error of A or of B with probability 1/2.

    Parameters
    ----------
    wrong_a, wrong_b : array-like of shape (n_trials,)
        Whether A and B are wrong, trial by trial. They may be numbers, such as 0.5 for
        a tie: the larger one is then the error (sign test).

    Returns
    -------
    McNemar

    Examples
    --------
    >>> print(mcnemar([1] * 31 + [0] * 12, [0] * 31 + [1] * 12))
    B makes 12 errors that A does not and avoids 31: the difference is more than chance (p = 0.0054)
    """
    a = np.asarray(wrong_a, dtype=np.float64)
    b = np.asarray(wrong_b, dtype=np.float64)
    if a.ndim != 1 or a.shape != b.shape:
        raise ValueError(
            "wrong_a and wrong_b must be two vectors about the same trials. Got shapes "
            f"{a.shape} and {b.shape}."
        )
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise ValueError(
            "wrong_a and wrong_b must be finite: a NaN is neither right nor wrong."
        )
    return McNemar(
        only_a=int((a > b).sum()),
        only_b=int((b > a).sum()),
        p_value=sign_test(np.sign(a - b)),
    )


def sign_test(changes: np.ndarray) -> float:
    """Return how likely the sum is to be as far from 0 if each term had a random sign.

    It is exact for few terms and for terms of one size, and else that of a normal sum.
    """
    changes = changes[changes != 0.0]
    n = len(changes)
    total = abs(changes.sum())
    if n <= FEW_SIGNS:
        bits = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
        all_signs = 1 - 2 * bits
        is_as_far = np.abs(all_signs @ changes) >= (1.0 - 1e-9) * total
        return float(np.mean(is_as_far))
    if np.allclose(np.abs(changes), np.abs(changes[0])):
        return float(stats.binomtest(int((changes > 0).sum()), n).pvalue)
    return float(2.0 * stats.norm.sf(total / np.sqrt((changes**2).sum())))


def wilson_interval(
    n_wrong: float, n: float, confidence: float = 0.95
) -> tuple[float, float]:
    """Return the Wilson confidence interval of a share.

    It is inside [0, 1], and sensible for few rows and for 0 errors. Unlike SciPy's, it
    takes numbers that are not whole.

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
    owner = "wilson_interval"
    check_number(owner, "n", n, low=0, strict=True)
    check_number(owner, "n_wrong", n_wrong, low=0)
    check_number(owner, "confidence", confidence, low=0, strict=True, high=1)
    if n_wrong > n:
        raise ValueError(f"n_wrong must be at most n. Got {n_wrong:g} of {n:g}.")
    share = float(n_wrong / n)
    z2 = float(stats.norm.ppf(0.5 + confidence / 2)) ** 2
    center = share + z2 / (2 * n)
    half = math.sqrt(z2 * (share * (1 - share) / n + z2 / (4 * n**2)))
    low = 0.0
    if n_wrong:
        low = max((center - half) / (1 + z2 / n), 0.0)
    high = 1.0
    if n_wrong < n:
        high = min((center + half) / (1 + z2 / n), 1.0)
    return low, high


def mean_interval(values: np.ndarray, confidence: float = 0.95) -> tuple[float, float]:
    """Return Student's interval of a mean; infinite for fewer than 2 values.

    Examples
    --------
    >>> low, high = mean_interval(np.array([0.0, 1.0, 2.0]))
    >>> round(low, 2), round(high, 2)
    (-1.48, 3.48)
    """
    n = len(values)
    if n < 2:
        return -np.inf, np.inf
    error = float(np.std(values, ddof=1) / np.sqrt(n))
    half = float(stats.t.ppf(0.5 + confidence / 2, n - 1)) * error
    return float(values.mean()) - half, float(values.mean()) + half


def share_interval(values: np.ndarray, confidence: float) -> tuple[float, float]:
    """Return Student's interval of a mean that lies in [0, 1]."""
    low, high = mean_interval(values, confidence)
    return max(low, 0.0), min(high, 1.0)
