"""The structure of sparse matrices: whether it is sound, and as CSR.

Compiled code trusts index arrays: a wrong number there ends the process.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp


def sound_csr(X: Any, name: str = "X") -> sp.csr_array:
    """Return a sparse X of any format as a CSR array whose structure is sound.

    Raises
    ------
    ValueError
        The structure of X is damaged.
    """
    if X.ndim != 2:
        raise ValueError(
            f"{name} must have shape (n_rows, n_features). Got shape {X.shape}: "
            "reshape a single row with x.reshape(1, -1)."
        )
    check_structure(X, name)
    try:
        X_csr = sp.csr_array(X)
    except (IndexError, OverflowError, TypeError, ValueError) as error:
        raise ValueError(f"{name} is damaged: {error}.") from None
    if X.format != "csr":
        check_structure(X_csr, name)
    return X_csr


def check_structure(X: Any, name: str = "X") -> None:
    """Raise ValueError unless the index arrays of a sparse X are valid; compiled code trusts them.

    It takes a pass over ``indptr`` and one over the indices. The numbers in lists
    (LIL) are checked by `sound_csr`, and those in a dictionary (DOK) by SciPy.
    """
    if min(X.shape) < 0:
        raise ValueError(f"{name} has the shape {X.shape}: sizes must be 0 or larger.")
    if X.format == "coo":
        _check_coordinates(X, name)
    elif X.format in ("csr", "csc", "bsr"):
        _check_compressed(X, name)
    elif X.format == "lil":
        _check_lists(X, name)
    elif X.format == "dia":
        _check_diagonals(X, name)


def _check_coordinates(X: Any, name: str) -> None:
    """Raise ValueError unless each value of a COO matrix has a row and a column."""
    if any(len(numbers) != len(X.data) for numbers in X.coords):
        raise ValueError(f"{name} is damaged: its index arrays differ in length.")
    for numbers, size in zip(X.coords, X.shape, strict=True):
        _check_numbers(numbers, size, name)


def _check_lists(X: Any, name: str) -> None:
    """Raise ValueError unless each row of a LIL matrix has as many columns as values."""
    lists = [*X.rows, *X.data]
    if not all(isinstance(numbers, list) for numbers in lists):
        raise ValueError(f"{name} is damaged: a row is not a list.")
    n_columns = [len(columns) for columns in X.rows]
    n_values = [len(values) for values in X.data]
    if len(n_columns) != X.shape[0] or n_columns != n_values:
        raise ValueError(
            f"{name} is damaged: its lists of columns and of values differ in length."
        )


def _check_diagonals(X: Any, name: str) -> None:
    """Raise ValueError unless a DIA matrix has one offset per diagonal, each inside of it."""
    n_rows, n_columns = X.shape
    if X.data.ndim != 2 or len(X.data) != len(X.offsets):
        raise ValueError(
            f"{name} is damaged: it has {len(X.offsets)} offsets for data of shape "
            f"{X.data.shape}."
        )
    if len(np.unique(X.offsets)) != len(X.offsets):
        raise ValueError(f"{name} is damaged: an offset occurs twice.")
    is_outside = (X.offsets <= -n_rows) | (X.offsets >= n_columns)
    if is_outside.any():
        offset = X.offsets[is_outside][0]
        raise ValueError(
            f"{name} is damaged: its diagonal {offset} is outside of the shape {X.shape}."
        )


def _check_compressed(X: Any, name: str) -> None:
    """Raise ValueError unless ``indptr`` cuts the indices into lists of numbers that exist."""
    n_lists, size = _compressed_shape(X)
    indptr = X.indptr
    n = min(len(X.indices), len(X.data))
    if len(indptr) != n_lists + 1 or indptr[0] != 0 or indptr[-1] > n:
        raise ValueError(
            f"{name} is damaged: indptr must have {n_lists + 1} entries from 0 to at "
            f"most {n}."
        )
    # Differences may overflow, comparisons do not.
    if (indptr[1:] < indptr[:-1]).any():
        raise ValueError(f"{name} is damaged: indptr must not decrease.")
    _check_numbers(X.indices[: indptr[-1]], size, name)


def _compressed_shape(X: Any) -> tuple[int, int]:
    """Return how many lists of indices X has, and how many rows or columns they may name."""
    n_rows, n_columns = X.shape
    if X.format == "csc":
        return n_columns, n_rows
    if X.format == "bsr":
        height, width = X.blocksize
        return n_rows // height, n_columns // width
    return n_rows, n_columns


def _check_numbers(numbers: np.ndarray, size: int, name: str) -> None:
    """Raise ValueError unless all numbers are from 0 to below a size."""
    if not len(numbers):
        return
    low = numbers.min()
    high = numbers.max()
    if low < 0 or high >= size:
        raise ValueError(
            f"{name} is damaged: it names a column or row {low} to {high}, but has "
            f"{size}."
        )
