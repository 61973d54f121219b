"""The labels of rows that may have several, and how much of them two rows share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..input.errors import NoTripletError
from ..input.labels import MIXED_LABELS, check_one_label_per_row
from ..input.matrices import as_user_sparse


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
