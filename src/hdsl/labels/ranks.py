"""The rank of each row within its class."""

from __future__ import annotations

import numpy as np


def ranks(codes: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Return the place of each row among those of its class, in this order."""
    order = order[np.argsort(codes[order], kind="stable")]
    sizes = np.bincount(codes)
    ranks = np.empty(len(codes), dtype=np.int64)
    ranks[order] = np.arange(len(order)) - (np.cumsum(sizes) - sizes)[codes[order]]
    return ranks
