"""What queries gain by a search as learned beside that by plain cosine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class SearchGain:
    """The mean gain of queries over the plain cosine, with its interval.

    Parameters
    ----------
    gain, low, high : float
    n_better, n_worse, n_queries : int
    """

    gain: float
    low: float
    high: float
    n_better: int
    n_worse: int
    n_queries: int

    @classmethod
    def of(
        cls,
        before: np.ndarray,
        after: np.ndarray,
        interval: Callable[[np.ndarray], tuple[float, float]],
    ) -> SearchGain:
        """Return what each query gains from before to after; the interval is that of a mean.

        Examples
        --------
        >>> gains = np.array([0.1, 0.2, 0.3, -0.1])
        >>> gain = SearchGain.of(np.zeros(4), gains, lambda values: (-0.147, 0.397))
        >>> print(gain.sentence)
        3 of 4 queries better, 1 worse: +0.125 (-0.147 to +0.397). Nothing certain is gained.
        """
        gains = after - before
        low, high = interval(gains)
        return cls(
            gain=float(gains.mean()),
            low=float(low),
            high=float(high),
            n_better=int(np.count_nonzero(gains > 0)),
            n_worse=int(np.count_nonzero(gains < 0)),
            n_queries=len(gains),
        )

    @property
    def verdict(self) -> str:
        """Either "better", "worse", or "no difference": 0 is in the interval."""
        if self.low > 0.0:
            return "better"
        if self.high < 0.0:
            return "worse"
        return "no difference"

    @property
    def sentence(self) -> str:
        """The numbers in words."""
        sentence = (
            f"{self.n_better:,} of {self.n_queries:,} queries better, "
            f"{self.n_worse:,} worse: {self.gain:+.3f} "
            f"({self.low:+.3f} to {self.high:+.3f})."
        )
        if self.verdict == "better":
            return sentence
        if self.verdict == "worse":
            return f"{sentence} Use the cosine, or give more judgements."
        return f"{sentence} Nothing certain is gained."

    def to_dict(self) -> dict[str, Any]:
        """Return the facts as plain values, for JSON."""
        return {
            "gain": self.gain,
            "gain_interval": [
                limit if np.isfinite(limit) else None for limit in (self.low, self.high)
            ],
            "n_better": self.n_better,
            "n_worse": self.n_worse,
            "n_queries": self.n_queries,
            "verdict": self.verdict,
            "sentence": self.sentence,
        }
