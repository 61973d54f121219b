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
