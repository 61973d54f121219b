"""Whether chance explains that two methods make different errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

#: A difference is more than chance if its p-value is at most this.
LEVEL = 0.05

#: Terms of a sum whose signs are all tried to tell it from chance; more have a normal
#: sum.
FEW_SIGNS = 12


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
            difference = f"{round(abs(self.gain), 1):g} errors more"
            if self.gain > 0:
                difference = f"{round(self.gain, 1):g} errors fewer"
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
