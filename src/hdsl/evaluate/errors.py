"""Errors as shares with intervals, and those of the cosine beside those as learned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .chance import McNemar, mcnemar, sign_test
from .intervals import wilson_interval


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
    """Errors of the cosine and as learned, on the same trials, and what they show.

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
        """What the errors show, and what to do if nothing was gained."""
        if self.before.n_wrong == self.after.n_wrong == 0:
            return (
                "Neither the cosine nor the learned similarity makes an error: this "
                "test is too easy to show a gain."
            )
        errors = self.test.sentence("the cosine", "the learned similarity")
        return f"{errors[0].upper()}{errors[1:]}.{self._advice()}"

    def _advice(self) -> str:
        """Return what to do if nothing was gained, after a space."""
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
        """Return n trials, of equal weight and each its own group where it is None."""
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
