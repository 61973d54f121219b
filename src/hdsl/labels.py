"""Several labels per row, and how much of them two rows share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
import scipy.sparse as sp

from . import memory
from .input.errors import NoTripletError
from .input.labels import MIXED_LABELS, check_one_label_per_row, is_missing
from .input.matrices import as_user_sparse, canonical, check_structure

#: What holds the labels of one row, where these are given as lists.
SETS = (list, tuple, set, frozenset, np.ndarray)


@dataclass(frozen=True, eq=False)
class LabelSets:
    """The labels of each row.

    Parameters
    ----------
    indicator : csr_array of shape (n_rows, n_labels)
        1 where a row has a label.
    classes : ndarray of shape (n_labels,)
        Sorted.
    form : {"dense", "sparse", "lists"}
        How they were given.
    """

    indicator: sp.csr_array
    classes: np.ndarray
    form: str = "lists"

    def __len__(self) -> int:
        return int(self.indicator.shape[0])

    def __getitem__(self, rows: Any) -> LabelSets:
        return replace(self, indicator=self.indicator[rows])

    @property
    def size(self) -> np.ndarray:
        """The number of labels of each row."""
        return np.diff(self.indicator.indptr)

    @property
    def codes(self) -> np.ndarray:
        """A number for each row, the same for rows with the same labels."""
        lists = np.split(self.indicator.indices, self.indicator.indptr[1:-1])[
            : len(self)
        ]
        number: dict[bytes, int] = {}
        codes = [number.setdefault(each.tobytes(), len(number)) for each in lists]
        return np.array(codes, dtype=np.int64)

    def as_given(self) -> Any:
        """Return the labels in the form they were given: an indicator matrix, or tuples."""
        if self.form == "lists":
            names = np.split(
                self.classes[self.indicator.indices], self.indicator.indptr[1:-1]
            )
            return [tuple(each.tolist()) for each in names]
        found = self.indicator.astype(np.int64)
        return as_user_sparse(found) if self.form == "sparse" else found.toarray()

    def shared(self, rows: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Return `overlap` of the labels of rows and of other rows, number by number."""
        return overlap(self.indicator[rows], self.indicator[others])

    def shared_with(self, others: LabelSets, near: np.ndarray) -> np.ndarray:
        """Return `overlap` of the labels of each row and of the other rows near it, as `near`."""
        row = np.repeat(np.arange(len(near)), near.shape[1])
        return overlap(self.indicator[row], others.indicator[near.ravel()]).reshape(
            near.shape
        )

    def votes(self, near: np.ndarray, weights: np.ndarray) -> sp.csr_array:
        """Return the share of each label in the weighted votes of the rows near each query."""
        shares = weights / weights.sum(axis=1, keepdims=True)
        starts = np.arange(len(near) + 1) * near.shape[1]
        shape = (len(near), len(self))
        found = (
            sp.csr_array((shares.ravel(), near.ravel(), starts), shape) @ self.indicator
        )
        found.data.clip(max=1.0, out=found.data)
        return found

    def voted(self, votes: Any) -> LabelSets:
        """Return the labels with more than half of the votes, a matrix (n_rows, n_labels)."""
        most = votes > 0.5 + 1e-9  # half of the votes may sum up to a little more
        return replace(self, indicator=sp.csr_array(most, dtype=np.float64))

    def check(self, X: Any, which: str = "") -> LabelSets:
        """Raise ValueError unless each row of X has its labels; `which` ends both names."""
        check_one_label_per_row(self, X.shape[0], which)
        return self

    def check_differ(self) -> LabelSets:
        """Raise NoTripletError unless some rows share labels and others do not."""
        counts = np.bincount(self.indicator.indices, minlength=1)
        if counts.max() < 2 or self.codes.max() == 0:
            raise NoTripletError(
                "No triplet can be built: rows must share labels, and not all the "
                f"same ones. Got {len(self)} rows with {len(counts)} labels, of which "
                f"{np.count_nonzero(counts > 1)} are of several rows."
            )
        return self


def overlap(a: sp.csr_array, b: sp.csr_array) -> np.ndarray:
    """Return the F1 score of the labels of each row of a and of b: 1 if they are the same.

    Examples
    --------
    >>> overlap(sp.csr_array([[1, 1, 0], [0, 0, 0]]), sp.csr_array([[0, 1, 0], [0, 0, 0]])).tolist()
    [0.6666666666666666, 1.0]
    """
    shared = np.asarray(a.multiply(b).sum(axis=1)).ravel()
    total = np.diff(a.indptr) + np.diff(b.indptr)
    return np.where(total > 0, 2.0 * shared / np.maximum(total, 1), 1.0)


def aligned(*parts: LabelSets) -> list[LabelSets]:
    """Return label sets that number the labels of all of them alike."""
    try:
        classes = reduce(np.union1d, (part.classes for part in parts))
    except TypeError:
        raise ValueError(MIXED_LABELS) from None
    found = []
    for part in parts:
        old = part.indicator
        columns = np.searchsorted(classes, part.classes)
        arrays = old.data, columns[old.indices], old.indptr
        indicator = sp.csr_array(arrays, (len(part), len(classes)))
        found.append(replace(part, indicator=indicator, classes=classes))
    return found


def ranks(codes: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Return the place of each row among those of its class, in this order."""
    order = order[np.argsort(codes[order], kind="stable")]
    sizes = np.bincount(codes)
    ranks = np.empty(len(codes), dtype=np.int64)
    ranks[order] = np.arange(len(order)) - (np.cumsum(sizes) - sizes)[codes[order]]
    return ranks


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
    >>> found = label_sets([["cat"], ["dog", "cat"], []])
    >>> found.classes.tolist(), found.indicator.toarray().tolist()
    (['cat', 'dog'], [[1.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    >>> label_sets(["cat", "dog"]) is None
    True
    """
    if y is None or isinstance(y, LabelSets):
        return y
    if sp.issparse(y):
        check_structure(y, "y")
        return _from_indicator(canonical(sp.csr_array(y)), "sparse")
    if not isinstance(y, list | tuple):
        y = np.asarray(y)
        if y.ndim == 2 and y.shape[1] > 1:
            return _from_indicator(y, "dense")
        if y.ndim != 1 or y.dtype != object:
            return None
    n_sets = sum(isinstance(each, SETS) for each in y)
    if not n_sets:
        return None
    if n_sets < len(y):
        raise ValueError(
            f"y has a list of labels for {n_sets} rows of {len(y)}, and something else "
            "for the others: pass a list of labels for each row, empty for a row "
            "without labels."
        )
    lists = [list(each) for each in y]
    n = len(lists[0])
    if (
        not are_sets
        and n > 1
        and all(len(each) == n and _is_bits(each) for each in lists)
    ):
        return _from_indicator(
            np.array(lists), "dense"
        )  # as lists all would be the same two
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
    parts = ([part.strip() for part in str(each).split(separator)] for each in labels)
    return _from_lists([list(dict.fromkeys(filter(None, each))) for each in parts])


def _is_bits(values: Iterable[Any]) -> bool:
    """Whether values, of any kind, are 0 and 1 only."""
    return all(
        isinstance(v, int | float | np.generic) and bool(v == 0 or v == 1)
        for v in values
    )


def _from_indicator(y: Any, form: str) -> LabelSets:
    values = y.data if sp.issparse(y) else y
    is_number = values.dtype.kind in "biuf"
    if not (
        ((values == 0) | (values == 1)).all() if is_number else _is_bits(values.flat)
    ):
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
    size = np.array([len(each) for each in lists])
    flat = [label for each in lists for label in each]
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
