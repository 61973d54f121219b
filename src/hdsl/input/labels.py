"""Checks of labels, one per row."""

from typing import Any

import numpy as np

from .errors import NoTripletError, short

MIXED_LABELS = "Labels must be all strings or all numbers, not both."


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


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, or NA or NaT of pandas, which may be absent."""
    # By how it prints: pandas' NA equals nothing and has no truth value.
    return not isinstance(value, str) and str(value) in ("nan", "None", "<NA>", "NaT")


def check_one_label_per_row(y: Any, n_rows: int, which: str = "") -> None:
    """Raise ValueError if y has another length than X; `which` is the end of both names."""
    if len(y) != n_rows:
        raise ValueError(
            f"y{which} has {len(y)} labels, but X{which} has {n_rows} rows: one label "
            "per row is expected."
        )


def check_several_classes(owner: str, classes: np.ndarray) -> None:
    """Raise ValueError if there is only one class; `owner` is the estimator that asks."""
    if len(classes) < 2:
        raise ValueError(
            f"{owner} needs at least 2 classes to tell apart, but y has one class, "
            f"{classes.tolist()[0]!r}."
        )


def check_same_labels(new: np.ndarray, y: np.ndarray, name: str) -> None:
    """Raise ValueError where no label of `new` is in y: they are of another kind."""
    if len(new) and set(new.tolist()).isdisjoint(y.tolist()):
        few = f"such as {new.tolist()[0]!r}, is in y, which has {y.tolist()[0]!r}"
        raise ValueError(f"No label of {name}, {few}: give labels of the same kind.")


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
