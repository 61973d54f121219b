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
from .input.matrices import as_user_sparse, canonical, sound_csr


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
        ends = self.indicator.indptr[1:-1]
        lists = np.split(self.indicator.indices, ends)[: len(self)]
        number: dict[bytes, int] = {}
        codes = [number.setdefault(labels.tobytes(), len(number)) for labels in lists]
        return np.array(codes, dtype=np.int64)

    def as_given(self) -> Any:
        """Return the labels in the form they were given: an indicator matrix, or tuples."""
        if self.form == "lists":
            names = self.classes[self.indicator.indices]
            lists = np.split(names, self.indicator.indptr[1:-1])
            return [tuple(labels.tolist()) for labels in lists]
        indicator = self.indicator.astype(np.int64)
        if self.form == "sparse":
            return as_user_sparse(indicator)
        return indicator.toarray()

    def shared(self, rows: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Return `overlap` of the labels of rows and of other rows, number by number."""
        return overlap(self.indicator[rows], self.indicator[others])

    def shared_with(self, others: LabelSets, neighbors: np.ndarray) -> np.ndarray:
        """Return `overlap` of the labels of each row and of its neighbors among other rows.

        Both `neighbors`, row numbers of the others, and the result have shape (n_rows,
        n_neighbors).
        """
        row = np.repeat(np.arange(len(neighbors)), neighbors.shape[1])
        shared = overlap(self.indicator[row], others.indicator[neighbors.ravel()])
        return shared.reshape(neighbors.shape)

    def votes(self, neighbors: np.ndarray, weights: np.ndarray) -> sp.csr_array:
        """Return the share of each label in the weighted votes of each query's neighbors."""
        n_queries, n_neighbors = neighbors.shape
        shares = weights / weights.sum(axis=1, keepdims=True)
        starts = np.arange(n_queries + 1) * n_neighbors
        arrays = (shares.ravel(), neighbors.ravel(), starts)
        votes = sp.csr_array(arrays, (n_queries, len(self))) @ self.indicator
        votes.data.clip(max=1.0, out=votes.data)
        return votes

    def voted(self, votes: Any) -> LabelSets:
        """Return the labels with more than half of the votes, a matrix (n_rows, n_labels)."""
        has_label = votes > 0.5 + 1e-9  # half of the votes may sum up to a little more
        return replace(self, indicator=sp.csr_array(has_label, dtype=np.float64))

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
                f"same ones. Got {len(self)} rows with {len(counts)} labels; "
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


def aligned(*label_sets: LabelSets) -> list[LabelSets]:
    """Return label sets that number the labels of all of them alike."""
    try:
        classes = reduce(np.union1d, (labels.classes for labels in label_sets))
    except TypeError:
        raise ValueError(MIXED_LABELS) from None
    return [_renumbered(labels, classes) for labels in label_sets]


def _renumbered(labels: LabelSets, classes: np.ndarray) -> LabelSets:
    """Return label sets whose labels are numbered by classes that contain theirs."""
    old = labels.indicator
    columns = np.searchsorted(classes, labels.classes)
    indicator = sp.csr_array(
        (old.data, columns[old.indices], old.indptr), (len(labels), len(classes))
    )
    return replace(labels, indicator=indicator, classes=classes)


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
            "The separator of labels is empty: pass the text between two labels."
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
            "if a row has a label and 0 otherwise, but it has other values. Pass one "
            "label per row, or a list of labels per row."
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


def ranks(codes: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Return the place of each row among those of its class, in this order."""
    order = order[np.argsort(codes[order], kind="stable")]
    sizes = np.bincount(codes)
    ranks = np.empty(len(codes), dtype=np.int64)
    ranks[order] = np.arange(len(order)) - (np.cumsum(sizes) - sizes)[codes[order]]
    return ranks
