"""Checks of labels, triplets, quadruplets and weights."""

from typing import Any, NamedTuple

import numpy as np

from .errors import NoTripletError, short

MIXED_LABELS = "Labels must be all strings or all numbers, not both."


def check_labels(y: Any, n_rows: int) -> np.ndarray:
    """Return y as class numbers 0, 1, …; it must have two classes, and one label per row."""
    y = check_classes("fit", y, n_rows)
    classes, codes = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        known = "no label"
        if len(classes) == 1:
            known = f"one class, {classes.tolist()[0]!r}"
        raise NoTripletError(
            f"No triplet can be built: y has {known}. At least 2 classes are needed; "
            "pass triplets= to give judgements directly."
        )
    return codes


def check_classes(owner: str, y: Any, n_rows: int, which: str = "") -> np.ndarray:
    """Return y as one class label per row; `owner` asks, and `which` ends the names of X and y."""
    from sklearn.utils.multiclass import check_classification_targets, type_of_target
    from sklearn.utils.validation import assert_all_finite, column_or_1d

    if y is None:
        raise ValueError(
            f"{owner} requires y to be passed, but the target y is None: pass one "
            "label per row."
        )
    if isinstance(y, list | tuple) and _are_mixed(y):
        # None keeps numbers from becoming strings.
        y = np.array([*y, None], dtype=object)[:-1]
    y = column_or_1d(y, warn=True)
    check_one_label_per_row(y, n_rows, which)
    n_missing = _n_missing(y)
    if n_missing:
        raise ValueError(
            f"Input y{which} contains NaN: {n_missing} of {n_rows} rows have no label. "
            "Drop them, or give them a label of their own."
        )
    if y.dtype == object and _are_mixed(y.tolist()):
        raise ValueError(MIXED_LABELS)
    assert_all_finite(y, input_name=f"y{which}")
    if type_of_target(y) == "continuous":
        raise ValueError(
            f"Unknown label type: continuous. {owner} takes classes, but y{which} has "
            f"numbers that are not whole, such as {short(_fractions(y)[0])}: make "
            "classes of ranges, for example with pandas.qcut(y, 5)."
        )
    check_classification_targets(y)
    return y


def check_several_classes(owner: str, classes: np.ndarray) -> None:
    """Raise ValueError if there is only one class; `owner` is the estimator that asks."""
    if len(classes) < 2:
        raise ValueError(
            f"{owner} needs at least 2 classes to tell apart, but y has one class, "
            f"{classes.tolist()[0]!r}."
        )


def check_one_label_per_row(y: Any, n_rows: int, which: str = "") -> None:
    """Raise ValueError if y has another length than X; `which` is the end of both names."""
    if len(y) != n_rows:
        raise ValueError(
            f"y{which} has {len(y)} labels, but X{which} has {n_rows} rows: one label "
            "per row is expected."
        )


def check_same_labels(new: np.ndarray, y: np.ndarray, name: str) -> None:
    """Raise ValueError where no label of `new` is in y: they are of another kind."""
    if len(new) and set(new.tolist()).isdisjoint(y.tolist()):
        few = f"such as {new.tolist()[0]!r}, is in y, which has {y.tolist()[0]!r}"
        raise ValueError(f"No label of {name}, {few}: give labels of the same kind.")


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, or NA or NaT of pandas, which may be absent."""
    # By how it prints: pandas' NA equals nothing and has no truth value.
    return not isinstance(value, str) and str(value) in ("nan", "None", "<NA>", "NaT")


def _fractions(y: np.ndarray) -> list[float]:
    """Return the numbers that are not whole."""
    numbers = y.astype(float)
    return numbers[numbers != np.floor(numbers)].tolist()


def _are_mixed(labels: Any) -> bool:
    """Whether some labels are strings and some are not."""
    return {isinstance(label, str) for label in labels} == {True, False}


def _n_missing(y: np.ndarray) -> int:
    """Return how many labels are missing; those of most types cannot be."""
    if y.dtype.kind in "biuSU":
        return 0
    if y.dtype.kind == "f":
        return int(np.isnan(y).sum())
    return sum(map(is_missing, y.tolist()))


# --- comparisons and weights ---------------------------------------------------------


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
