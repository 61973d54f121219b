"""Matrices with so many columns that no array should have one item for each."""

import numpy as np
import scipy.sparse as sp


def is_wide(*matrices: sp.csr_array) -> bool:
    """Return whether columns are so many that no array should have one item for each."""
    return matrices[0].shape[1] > 4 * sum(X.nnz for X in matrices) + 1000


def take_columns(X: sp.csr_array, columns: np.ndarray) -> sp.csr_array:
    """Return some columns of X, at no cost per column of X.

    Parameters
    ----------
    X : csr_array of shape (n_rows, n_columns)
    columns : ndarray of shape (n_taken,)
        Ascending.

    Examples
    --------
    >>> X = sp.csr_array(([1.0, 2.0], [7, 9], [0, 2]), shape=(1, 2**40))
    >>> take_columns(X, np.array([3, 9])).toarray().tolist()
    [[0.0, 2.0]]
    """
    if not len(columns):
        return sp.csr_array((X.shape[0], 0), dtype=X.dtype)
    position = np.minimum(np.searchsorted(columns, X.indices), len(columns) - 1)
    is_taken = columns[position] == X.indices
    n_before = np.concatenate([[0], np.cumsum(is_taken)])
    # Learners of scikit-learn take indices of 32 bits where these are enough.
    dtype = index_dtype(max(n_before[-1], len(columns)))
    data = X.data[is_taken]
    indices = position[is_taken].astype(dtype)
    indptr = n_before[X.indptr].astype(dtype)
    return sp.csr_array((data, indices, indptr), shape=(X.shape[0], len(columns)))


def index_dtype(largest: int) -> type[np.signedinteger]:
    """Return the type of indices up to a number, of 32 bits where these are enough."""
    if largest <= np.iinfo(np.int32).max:
        return np.int32
    return np.int64


def drop_unused_columns(
    *matrices: sp.csr_array,
) -> tuple[list[sp.csr_array], np.ndarray | None]:
    """Return matrices on the columns that at least one of them uses, and the numbers of these.

    SciPy allocates arrays as long as the number of columns when it multiplies matrices
    or selects columns. Features that are hashed to 2³¹ columns and more need this
    first. Matrices whose columns are few compared with their values come back
    unchanged.

    Parameters
    ----------
    *matrices : csr_array of shape (n_rows, n_columns)
        All have the same columns.

    Returns
    -------
    matrices : list of csr_array of shape (n_rows, n_used)
        The values and their order are the same.
    columns : ndarray of shape (n_used,) or None
        Ascending; None where the matrices come back unchanged.

    Examples
    --------
    >>> X, Y = (sp.csr_array(([1.0], [k], [0, 1]), shape=(1, 2**40)) for k in (7, 9))
    >>> (X, Y), columns = drop_unused_columns(X, Y)
    >>> X.shape, columns.tolist()
    ((1, 2), [7, 9])
    """
    if not is_wide(*matrices):
        return list(matrices), None
    columns = np.unique(np.concatenate([X.indices for X in matrices]))
    narrow = []
    for X in matrices:
        numbers = np.searchsorted(columns, X.indices)
        shape = (X.shape[0], len(columns))
        narrow.append(sp.csr_array((X.data, numbers, X.indptr), shape=shape))
    return narrow, columns
