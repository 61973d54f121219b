"""Records of the arrays that several kernels take.

The types of their arrays never change: a kernel is compiled for them once.
"""

from typing import NamedTuple

import numpy as np


class SparseArrays(NamedTuple):
    """A sparse matrix: the rows of a CSR matrix, or the columns of a CSC matrix.

    Attributes
    ----------
    indptr : ndarray of shape (n + 1,), int64
        Where the entries of each row or column begin and end.
    indices : ndarray of shape (nnz,), int32
        Their column or row numbers.
    data : ndarray of shape (nnz,), float64
        Their values.
    """

    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray


class PairsByRow(NamedTuple):
    """The pairs {a, b}, a ≤ b, of rows that are compared, sorted by a and then b.

    Attributes
    ----------
    indptr : ndarray of shape (n_rows + 1,), int64
        Where the pairs of each row a begin and end.
    second : ndarray of shape (n_pairs,), int32
        Row b of each pair.
    """

    indptr: np.ndarray
    second: np.ndarray


class Links(NamedTuple):
    """For each row of X, the rows that it is compared with.

    Attributes
    ----------
    indptr : ndarray of shape (n_rows + 1,), int64
        Where the links of each row begin and end.
    neighbors : ndarray of shape (n_links,), int32
        The other row of each link.
    pairs : ndarray of shape (n_links,), int32
        The number of the pair that the two rows form.
    """

    indptr: np.ndarray
    neighbors: np.ndarray
    pairs: np.ndarray


class MixedArrays(NamedTuple):
    """Rows with sparse features and a dense embedding.

    Attributes
    ----------
    sparse : SparseArrays
        The rows of a CSR matrix.
    dense : ndarray of shape (n_rows, width), float32 or float64
    """

    sparse: SparseArrays
    dense: np.ndarray
