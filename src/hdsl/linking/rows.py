"""Sparse rows of records as plain arrays: no time is lost where there are few of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..cpu.kernels.compiled import SparseArrays
from ..cpu.kernels.record_pairs import (
    pair_overlaps,
    pair_products,
    pair_sums,
    take_rows,
)
from ..cpu.rows import arrays_of
from ..cpu.workers import Workers
from ..wide_matrices import index_dtype

#: Multiplications that a step along the features of a pair takes, about.
STEP_COST = 4

#: Pairs that one thread compares sooner than others could be asked.
FEW_PAIRS = 100


class Rows(NamedTuple):
    """Rows of numbered features in order, whose number is not limited."""

    arrays: SparseArrays

    @classmethod
    def of_matrix(cls, X: sp.csr_array) -> Rows:
        """Return the rows of a matrix."""
        if not X.has_sorted_indices:
            X = X.sorted_indices()
        return cls(arrays_of(X))

    @classmethod
    def stacked(cls, chunks: Sequence[Rows]) -> Rows:
        """Return the rows of several parts, one after the other."""
        every = [chunk.arrays for chunk in chunks]
        n_entries = np.cumsum([0, *(arrays.indptr[-1] for arrays in every)])
        ends = [
            arrays.indptr[1:] + first
            for arrays, first in zip(every, n_entries, strict=False)
        ]
        return cls(
            SparseArrays(
                indptr=np.concatenate([np.zeros(1, dtype=np.int64), *ends]),
                indices=np.concatenate([arrays.indices for arrays in every]),
                data=np.concatenate([arrays.data for arrays in every]),
            )
        )

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return len(self.arrays.indptr) - 1

    @property
    def width(self) -> int:
        """The largest number of a feature, and one."""
        return 1 + int(self.arrays.indices.max(initial=-1))

    @property
    def sizes(self) -> np.ndarray:
        """How many features each row has."""
        return np.diff(self.arrays.indptr)

    def matrix(self, n_columns: int) -> sp.csr_array:
        """Return a matrix of the rows, with so many columns."""
        # Learners of scikit-learn take indices of 32 bits where these are enough.
        dtype = index_dtype(max(int(self.arrays.indptr[-1]), n_columns))
        arrays = (
            self.arrays.data,
            self.arrays.indices.astype(dtype, copy=False),
            self.arrays.indptr.astype(dtype, copy=False),
        )
        return sp.csr_array(arrays, shape=(self.n_rows, n_columns))

    def take(self, numbers: np.ndarray) -> Rows:
        """Return some rows, by number."""
        numbers = np.ascontiguousarray(numbers, dtype=np.int64)
        indptr = _ends(self._sizes_of(numbers))
        taken = SparseArrays(
            indptr=indptr,
            indices=np.empty(indptr[-1], dtype=self.arrays.indices.dtype),
            data=np.empty(indptr[-1]),
        )
        positions = np.arange(len(numbers))
        take_rows(0, len(numbers), numbers, self.arrays, positions, taken)
        return Rows(taken)

    def joined(self, later: Rows, numbers: np.ndarray) -> Rows:
        """Return some of these rows and of later ones, numbered after these."""
        numbers = np.ascontiguousarray(numbers, dtype=np.int64)
        is_later = numbers >= self.n_rows
        own_numbers = numbers[~is_later]
        later_numbers = numbers[is_later] - self.n_rows
        sizes = np.empty(len(numbers), dtype=np.int64)
        sizes[~is_later] = self._sizes_of(own_numbers)
        sizes[is_later] = later._sizes_of(later_numbers)
        indptr = _ends(sizes)
        joined = SparseArrays(
            indptr=indptr,
            indices=np.empty(indptr[-1], dtype=self.arrays.indices.dtype),
            data=np.empty(indptr[-1]),
        )
        positions = np.flatnonzero(~is_later)
        take_rows(0, len(positions), own_numbers, self.arrays, positions, joined)
        positions = np.flatnonzero(is_later)
        take_rows(0, len(positions), later_numbers, later.arrays, positions, joined)
        return Rows(joined)

    def _sizes_of(self, numbers: np.ndarray) -> np.ndarray:
        """Return how many features some rows have."""
        return self.arrays.indptr[numbers + 1] - self.arrays.indptr[numbers]

    def with_features(self, is_kept: np.ndarray) -> Rows:
        """Return the rows with some of their entries, by a mask."""
        n_before = _ends(is_kept)
        arrays = SparseArrays(
            indptr=n_before[self.arrays.indptr],
            indices=self.arrays.indices[is_kept],
            data=self.arrays.data[is_kept],
        )
        return Rows(arrays)

    def numbered(self, numbers: np.ndarray) -> Rows:
        """Return the rows with other numbers of features, in the same order."""
        indices = numbers[self.arrays.indices].astype(np.int32)
        return Rows(self.arrays._replace(indices=indices))

    def times(self, factors: np.ndarray) -> Rows:
        """Return the rows, each times a factor."""
        data = self.arrays.data * np.repeat(factors, self.sizes)
        return Rows(self.arrays._replace(data=data))

    def squares(self) -> np.ndarray:
        """Return the square of the length of each row."""
        numbers = np.arange(self.n_rows)
        return self.products(np.column_stack([numbers, numbers]), n_jobs=1)

    def products(self, pairs: np.ndarray, n_jobs: int | None) -> np.ndarray:
        """Return the inner products of pairs of rows, shape (n_pairs,)."""
        return self.products_with(self, pairs, n_jobs)

    def products_with(
        self, others: Rows, pairs: np.ndarray, n_jobs: int | None
    ) -> np.ndarray:
        """Return the inner products of pairs of a row and one of others."""
        out = np.empty(len(pairs))
        self._run(pair_products, pairs, n_jobs, others.arrays, out)
        return out

    def overlaps(self, pairs: np.ndarray, n_jobs: int | None) -> np.ndarray:
        """Return the products of pairs, and their largest and smallest differences.

        Of a feature that only one row has, the difference is its value, or minus it.

        Returns
        -------
        ndarray of shape (n_pairs, 3)
        """
        out = np.empty((len(pairs), 3))
        self._run(pair_overlaps, pairs, n_jobs, out)
        return out

    def weighted_sums(
        self, pairs: np.ndarray, weights: np.ndarray, n_jobs: int | None
    ) -> np.ndarray:
        """Return sums of the smaller values of both rows of pairs, and of differences.

        Parameters
        ----------
        pairs : ndarray of shape (n_pairs, 2)
        weights : ndarray of shape (n_features, 2)
            Of the smaller value of each feature, and of the absolute difference. Later
            features do not count.
        n_jobs : int or None
        """
        out = np.empty(len(pairs))
        self._run(pair_sums, pairs, n_jobs, weights, out)
        return out

    def _run(
        self,
        kernel: Callable[..., Any],
        pairs: np.ndarray,
        n_jobs: int | None,
        *args: Any,
    ) -> None:
        """Call a kernel for all pairs, on several threads where that pays."""
        pairs = np.ascontiguousarray(pairs, dtype=np.int64)
        if len(pairs) <= FEW_PAIRS:
            kernel(0, len(pairs), pairs, self.arrays, *args)
            return
        n_steps = 2 * self.arrays.indptr[-1] / max(self.n_rows, 1)
        with Workers(n_jobs) as workers:
            workers.run_pieces(
                kernel, len(pairs), STEP_COST * n_steps, pairs, self.arrays, *args
            )


def joined_values(
    first: np.ndarray, later: np.ndarray, numbers: np.ndarray
) -> np.ndarray:
    """Return some values of two arrays, those of the later one numbered after the others.

    Examples
    --------
    >>> joined_values(np.array([5, 6]), np.array([7, 8]), np.array([3, 0])).tolist()
    [8, 5]
    """
    is_later = numbers >= len(first)
    values = np.empty((len(numbers), *first.shape[1:]), dtype=first.dtype)
    values[~is_later] = first[numbers[~is_later]]
    values[is_later] = later[numbers[is_later] - len(first)]
    return values


def _ends(sizes: np.ndarray) -> np.ndarray:
    """Return where parts of some sizes begin, and where the last one ends."""
    ends = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=ends[1:])
    return ends
