"""The features of largest C_jj among others."""

import numpy as np


def best_others(diagonal: np.ndarray, features: np.ndarray) -> np.ndarray:
    """Return for each feature the other one of largest C_jj, the smallest of equals, or -1.

    Examples
    --------
    >>> best_others(np.array([5.0, 7.0, 7.0]), np.array([0, 1, 2])).tolist()
    [1, 2, 1]
    """
    best = int(diagonal.argmax())
    second = -1
    if len(diagonal) > 1:
        others = diagonal.copy()
        others[best] = -np.inf
        second = int(others.argmax())
    return np.where(features == best, second, best)


def best_later(diagonal: np.ndarray, features: np.ndarray) -> np.ndarray:
    """Return for each feature the later one of largest C_jj, the smallest of equals, or -1.

    Examples
    --------
    >>> best_later(np.array([5.0, 7.0, 7.0]), np.array([0, 1, 2])).tolist()
    [1, 2, -1]
    """
    n = len(diagonal)
    backward = diagonal[::-1]
    is_largest = backward == np.maximum.accumulate(backward)
    positions = np.where(is_largest, np.arange(n), 0)
    best_from = n - 1 - np.maximum.accumulate(positions)[::-1]
    return np.append(best_from, -1)[features + 1]
