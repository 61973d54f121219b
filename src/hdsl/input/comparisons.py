"""Checks of triplets, quadruplets and weights."""

from typing import Any, NamedTuple

import numpy as np


class Kind(NamedTuple):
    """A kind of comparison.

    Parameters
    ----------
    name : str
    width : int
        How many rows a comparison names.
    columns : str
        What these are.
    """

    name: str
    width: int
    columns: str


TRIPLET = Kind("triplet", 3, "of anchor, positive and negative")
QUADRUPLET = Kind("quadruplet", 4, "a, b, c, d of S(a, b) > S(c, d)")


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
    kind = TRIPLET
    if width == 4 or (width is None and array.shape[1:] == (4,)):
        kind = QUADRUPLET
    if array.shape[1:] != (kind.width,):
        raise ValueError(
            f"{name} must have shape (n_{kind.name}s, {kind.width}): the row numbers "
            f"{kind.columns}. Got {shape}."
        )
    if len(array) == 0:
        raise ValueError(f"{name} is empty: at least one {kind.name} is needed.")
    if not np.issubdtype(array.dtype, np.integer):
        raise ValueError(
            f"{name} must hold integers, row numbers of X. Got dtype {array.dtype}: "
            "convert with .astype(int) if the values are whole."
        )
    _check_rows_exist(array, n_rows, name, kind)
    _check_pairs_differ(array, name, kind)
    return array.astype(np.int64, copy=False)


def _check_rows_exist(array: np.ndarray, n_rows: int, name: str, kind: Kind) -> None:
    """Raise ValueError with the first comparison that names a row that X has not."""
    matrix = "X_val" if "_val" in name else "X"
    outside = np.argwhere((array < 0) | (array >= n_rows))
    if len(outside):
        t, column = outside[0]
        raise ValueError(
            f"{name}[{t}] names row {array[t, column]}, but {matrix} has {n_rows} "
            f"rows. {kind.name.capitalize()}s number the rows of {matrix} from 0."
        )


def _check_pairs_differ(array: np.ndarray, name: str, kind: Kind) -> None:
    """Raise ValueError with the first comparison of a pair with itself."""
    if kind is QUADRUPLET:
        pairs = np.sort(array.reshape(-1, 2, 2), axis=2)
    else:
        pairs = array[:, 1:, None]
    same = np.flatnonzero((pairs[:, 0] == pairs[:, 1]).all(axis=1))
    if len(same):
        a, b = array[same[0], :2]
        raise ValueError(
            f"{name}[{same[0]}] compares the pair ({a}, {b}) with itself. Such "
            f"{kind.name}s say nothing: drop them ({len(same)} of {len(array)})."
        )


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
