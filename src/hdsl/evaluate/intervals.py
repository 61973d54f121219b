"""Where the truth behind a share or a mean lies: confidence intervals."""

import math

import numpy as np
from scipy import stats

from ..input.parameters import check_number


def wilson_interval(
    n_wrong: float, n: float, confidence: float = 0.95
) -> tuple[float, float]:
    """Return the Wilson interval of a share: where the true share lies.

    It is inside [0, 1], and sensible for few rows and for 0 errors. Unlike that of
    SciPy, it takes numbers that are not whole.

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
