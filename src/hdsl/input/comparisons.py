"""Checks of triplets, quadruplets and weights."""

from typing import Any

import numpy as np


def check_comparisons(
    comparisons: Any, n_rows: int, name: str = "triplets", width: int | None = None
) -> np.ndarray:
    """Return comparisons as an int64 array of shape (n, 3) or (n, 4) whose rows exist.

    `name` is the parameter they came as. Without a `width` they are quadruplets if
    there are 4 columns, else triplets.
    """
    try:
        array = np.asarray(comparisons)
        shape = f"shape {array.shape}"
    except ValueError:
        array = np.empty(0)
        shape = "rows of unequal length"
    width = width or (4 if array.shape[1:] == (4,) else 3)
    kind = "triplet" if width == 3 else "quadruplet"
    matrix = "X_val" if "_val" in name else "X"
    if array.shape[1:] != (width,):
        columns = "of anchor, positive and negative", "a, b, c, d of S(a, b) > S(c, d)"
        raise ValueError(
            f"{name} must have shape (n_{kind}s, {width}): the row numbers "
            f"{columns[width - 3]}. Got {shape}."
        )
    if len(array) == 0:
        raise ValueError(f"{name} is empty: at least one {kind} is needed.")
    if not np.issubdtype(array.dtype, np.integer):
        raise ValueError(
            f"{name} must hold integers, row numbers of X. Got dtype {array.dtype}: "
            "convert with .astype(int) if the values are whole."
        )
    outside = np.argwhere((array < 0) | (array >= n_rows))
    if len(outside):
        t, column = outside[0]
        raise ValueError(
            f"{name}[{t}] names row {array[t, column]}, but {matrix} has {n_rows} "
            f"rows. {kind.capitalize()}s number the rows of {matrix} from 0."
        )
    pairs = (
        np.sort(array.reshape(-1, 2, 2), axis=2) if width == 4 else array[:, 1:, None]
    )
    same = np.flatnonzero((pairs[:, 0] == pairs[:, 1]).all(axis=1))
    if len(same):
        a, b = array[same[0], :2]
        raise ValueError(
            f"{name}[{same[0]}] compares the pair ({a}, {b}) with itself. Such {kind}s "
            f"say nothing: drop them ({len(same)} of {len(array)})."
        )
    return array.astype(np.int64, copy=False)


def check_weights(sample_weight: Any, n: int, unit: str) -> np.ndarray | None:
    """Return weights as a float64 vector of length n, non-negative and not all zero."""
    if sample_weight is None:
        return None
    weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.ndim == 0:
        weights = np.full(n, float(weights))
    if weights.shape != (n,):
        raise ValueError(
            f"sample_weight must have shape ({n},), one per {unit}. Got shape "
            f"{weights.shape}."
        )
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if len(bad):
        raise ValueError(
            f"sample_weight[{bad[0]}] is {weights[bad[0]]}: weights must be finite and "
            ">= 0."
        )
    if not weights.any():
        raise ValueError(
            "sample_weight is zero everywhere: at least one weight must be positive."
        )
    if not 1e-150 < weights.max() < 1e150:
        raise ValueError(
            f"The largest sample_weight is {weights.max():.3g}, but must be in "
            "(1e-150, 1e150). Only the ratios of weights matter: divide them by the "
            "largest."
        )
    return weights
