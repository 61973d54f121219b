"""Matrices with more columns than SciPy can index: leave out the columns that nothing uses."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp


def drop_unused_columns(*matrices: sp.csr_array) -> tuple[list[sp.csr_array], np.ndarray | None]:
    """Return matrices on the columns that at least one of them uses, and the numbers of these.

    SciPy allocates arrays as long as the number of columns when it multiplies matrices or selects
    columns. Features that are hashed to 2³¹ columns and more need this first. Matrices whose
    columns are few compared with their values come back unchanged.

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
    if matrices[0].shape[1] <= 4 * sum(X.nnz for X in matrices) + 1000:
        return list(matrices), None
    columns = np.unique(np.concatenate([X.indices for X in matrices]))
    return [
        sp.csr_array(
            (X.data, np.searchsorted(columns, X.indices), X.indptr),
            shape=(X.shape[0], len(columns)),
        )
        for X in matrices
    ], columns
