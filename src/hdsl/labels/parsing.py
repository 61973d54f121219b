"""Labels as users give them, read as label sets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import scipy.sparse as sp

from .. import memory
from ..input.labels import MIXED_LABELS, is_missing
from ..input.matrices import canonical
from ..input.sparse_structure import sound_csr
from .sets import LabelSets

#: What holds the labels of one row, where these are given as lists.
SETS = (list, tuple, set, frozenset, np.ndarray)


def label_sets(y: Any, *, are_sets: bool = False) -> LabelSets | None:
    """Return the labels if rows may have several, None if each row has one.

    Parameters
    ----------
    y : array-like
        Several labels are an array or a sparse matrix of shape (n_rows, n_labels) of 0
        and 1, two columns or more, or one list, tuple or set of labels per row. Lists
        of as many 0 and 1 are the rows of a matrix.
    are_sets : bool, default=False
        Whether lists are none, as those that a model predicts.

    Examples
    --------
    >>> labels = label_sets([["cat"], ["dog", "cat"], []])
    >>> labels.classes.tolist(), labels.indicator.toarray().tolist()
    (['cat', 'dog'], [[1.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    >>> label_sets(["cat", "dog"]) is None
    True
    """
    if y is None or isinstance(y, LabelSets):
        return y
    if sp.issparse(y):
        return _from_indicator(canonical(sound_csr(y, "y")), "sparse")
    if not isinstance(y, list | tuple):
        y = np.asarray(y)
        if y.ndim == 2 and y.shape[1] > 1:
            return _from_indicator(y, "dense")
        if y.ndim != 1 or y.dtype != object:
            return None
    n_sets = sum(isinstance(label, SETS) for label in y)
    if not n_sets:
        return None
    if n_sets < len(y):
        raise ValueError(
            f"y has a list of labels for {n_sets} rows of {len(y)}, and something else "
            "for the others: pass a list of labels for each row, empty for a row "
            "without labels."
        )
    lists = [list(labels) for labels in y]
    if not are_sets and _are_rows_of_bits(lists):
        # As lists of labels, all would have the same two.
        return _from_indicator(np.array(lists), "dense")
    return _from_lists(lists)


def split_labels(labels: Any, separator: str | None) -> Any:
    """Return strings as the labels that a separator is between; without one, as they are.

    Examples
    --------
    >>> split_labels(["cat; dog", "dog"], ";").as_given()
    [('cat', 'dog'), ('dog',)]
    """
    if separator is None or labels is None:
        return labels
    if not separator:
        raise ValueError(
            "The separator of labels is empty: pass what stands between two labels."
        )
    return _from_lists([_split(str(text), separator) for text in labels])


def _split(text: str, separator: str) -> list[str]:
    """Return the labels in a text, each once and without spaces around it."""
    labels = [label.strip() for label in text.split(separator)]
    return list(dict.fromkeys(label for label in labels if label))


def _are_rows_of_bits(lists: list[list[Any]]) -> bool:
    """Whether lists are the rows of a matrix of 0 and 1, of two columns or more."""
    width = len(lists[0])
    if width < 2:
        return False
    return all(len(row) == width and _is_bits(row) for row in lists)


def _is_bits(values: Iterable[Any]) -> bool:
    """Whether values, of any kind, are 0 and 1 only."""
    return all(map(_is_bit, values))


def _is_bit(value: Any) -> bool:
    is_number = isinstance(value, int | float | np.generic)
    return is_number and bool(value == 0 or value == 1)


def _are_bits(values: np.ndarray) -> bool:
    """Whether all values of an array are 0 and 1; objects may be anything."""
    if values.dtype.kind in "biuf":
        return bool(((values == 0) | (values == 1)).all())
    return _is_bits(values.flat)


def _from_indicator(y: Any, form: str) -> LabelSets:
    """Return the labels of a matrix with 1 where a row has a label."""
    values = y.data if sp.issparse(y) else y
    if not _are_bits(values):
        raise ValueError(
            f"y has {y.shape[1]} columns: it must then be an indicator matrix, with 1 "
            "where a row has a label and 0 elsewhere, but it has other values. Pass "
            "one label per row, or a list of labels per row."
        )
    way_out = "drop the columns of labels that no row has"
    memory.check_fits("The list of labels", 8 * y.shape[1], "auto", (way_out,))
    indicator = sp.csr_array(y, dtype=np.float64)
    indicator.eliminate_zeros()
    return LabelSets(indicator, np.arange(y.shape[1]), form)


def _from_lists(lists: list[list[Any]]) -> LabelSets:
    """Return the labels in a list per row."""
    size = np.array([len(labels) for labels in lists])
    flat = [label for labels in lists for label in labels]
    if any(isinstance(label, SETS) or is_missing(label) for label in flat):
        raise ValueError(
            "The labels of a row must be plain values, such as strings: got a list, "
            "None or NaN among them. A row without labels has an empty list."
        )
    try:
        classes, codes = np.unique(np.array(flat, dtype=object), return_inverse=True)
    except TypeError:
        raise ValueError(MIXED_LABELS) from None
    if all(isinstance(label, str) for label in flat):
        classes = classes.astype(str)
    starts = np.concatenate([[0], np.cumsum(size)])
    shape = (len(lists), len(classes))
    indicator = sp.csr_array((np.ones(len(flat)), codes, starts), shape=shape)
    indicator.sum_duplicates()
    if len(indicator.data) < len(flat):
        row = int(np.argmax(np.diff(indicator.indptr) < size))
        raise ValueError(
            f"Row {row} has a label twice, {lists[row]!r:.80}: list each label once."
        )
    return LabelSets(indicator, classes)
