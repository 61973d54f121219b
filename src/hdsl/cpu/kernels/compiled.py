"""How kernels are compiled, and records of the arrays that several kernels take.

The types of their arrays never change: a kernel is compiled for them once.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import njit

#: Sums that may be taken in another order than written, so that they fill vector
#: registers. The order is fixed when a kernel is compiled: same bits in every run, for
#: any number of threads. No other kernel may call such a one.
REORDERED = {"reassoc", "nsz"}


def kernel(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile without the GIL, and keep the result on disk where a folder can be written to.

    No C function is made of a kernel, and of one whose name starts with an underscore,
    which only other kernels call, no Python function either, and divisors are not
    compared with zero: that saves time to compile. Short loops take less of it than
    slices, and work arrays that the caller makes less than ``np.zeros`` here.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        options.update(nogil=True, no_cfunc_wrapper=True, error_model="numpy")
        options.setdefault("no_cpython_wrapper", function.__name__.startswith("_"))
        try:
            return njit(cache=True, **options)(function)
        except (
            RuntimeError
        ):  # a read-only install without a home: each process compiles
            return njit(**options)(function)

    return decorate


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
