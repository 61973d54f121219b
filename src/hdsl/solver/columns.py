"""Numbers of columns: those of features, and of matrices with more columns than SciPy can index."""

from collections.abc import Iterable

import numpy as np
import scipy.sparse as sp

from ..input.matrices import INDEX_LIMIT


def check_count(n: int, what: str, fewer: str) -> None:
    """Raise ValueError for more things than 32 bits can number."""
    if n > INDEX_LIMIT:
        raise ValueError(
            f"There are {n} {what}, but at most {INDEX_LIMIT} can be numbered: give "
            f"fewer {fewer}."
        )


def number_features(
    length: np.ndarray,
    names: np.ndarray | None,
    min_rows: int,
    wanted: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray, int]:
    """Return the columns that are features, a number for each column, and how many have one.

    Features are the columns of `min_rows` rows and more, or as full as the second
    fullest, the fullest first, and those wanted. The other columns have the last
    numbers. With this numbering nothing depends on the number of columns, and loops
    over one column after the other have nearly equal lengths, which processors predict.

    Parameters
    ----------
    length : ndarray of shape (n_columns,)
        Rows per column; empty ones have no number.
    names : ndarray of shape (n_columns,) or None
        What the columns are called in `wanted` and in the answer; None is 0, 1, 2, …
    min_rows : int
    wanted : ndarray or None

    Examples
    --------
    >>> features, number, n = number_features(np.array([1, 3, 0, 2]), None, 2, np.array([2]))
    >>> features.tolist(), number[[1, 3, 0]].tolist(), n
    ([1, 3, 2], [0, 1, 3], 4)
    """
    order = np.argsort(-length, kind="stable")[: np.count_nonzero(length)]
    check_count(len(order), "features with a non-zero value", "columns")
    used = order if names is None else names[order].astype(np.int64)
    is_feature = length[order] >= length[order[:2]].min(
        initial=min_rows
    )  # a pair has two
    if wanted is not None:
        is_feature |= np.isin(used, wanted)
    features = used[is_feature]
    if wanted is not None:
        features = np.append(features, np.setdiff1d(wanted, used))
    n_others = int(np.count_nonzero(~is_feature))
    number = np.zeros(len(length), dtype=np.int32)
    number[order[is_feature]] = np.arange(len(order) - n_others)
    number[order[~is_feature]] = len(features) + np.arange(n_others)
    return features, number, len(features) + n_others


def sides_of(columns: Iterable[np.ndarray]) -> tuple[np.ndarray, ...]:
    """Return rows a, b, c and d of comparisons S(a, b) > S(c, d), triplets or quadruplets."""
    a, b, *others = columns
    return (a, b, *others) if len(others) == 2 else (a, b, a, *others)


#: Anchors of the sample that pairs and products of rows are estimated from.
SAMPLE = 500


def per_comparison(X: sp.csr_array, compared: np.ndarray) -> tuple[float, float]:
    """Guess the distinct pairs of rows per comparison, and the shared features per pair."""
    is_anchor = np.zeros(X.shape[0], dtype=bool)
    is_anchor[compared[:, 0]] = True
    anchors = np.flatnonzero(is_anchor)
    if len(anchors) > SAMPLE:
        is_anchor[:] = False
        is_anchor[anchors[np.linspace(0, len(anchors) - 1, SAMPLE).astype(int)]] = True
    sample = compared[is_anchor[compared[:, 0]]]
    a, b, c, d = sides_of(sample.T)
    # Numbers, not rows: an interrupt while rows are compared is no KeyboardInterrupt.
    pairs = np.unique(
        np.append(a * np.int64(X.shape[0]) + b, c * np.int64(X.shape[0]) + d)
    )
    few = pairs[np.linspace(0, len(pairs) - 1, min(len(pairs), SAMPLE)).astype(int)]
    a, b = np.divmod(few, X.shape[0])
    held = sp.csr_array(
        (np.ones(X.nnz, dtype=np.int8), X.indices, X.indptr), shape=X.shape
    )
    return len(pairs) / len(sample), held[a].multiply(held[b]).nnz / len(few)


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
    place = np.minimum(np.searchsorted(columns, X.indices), len(columns) - 1)
    is_taken = columns[place] == X.indices
    n_before = np.concatenate([[0], np.cumsum(is_taken)])
    # Learners of scikit-learn take indices of 32 bits where these are enough.
    kind = (
        np.int32
        if max(n_before[-1], len(columns)) <= np.iinfo(np.int32).max
        else np.int64
    )
    arrays = (
        X.data[is_taken],
        place[is_taken].astype(kind),
        n_before[X.indptr].astype(kind),
    )
    return sp.csr_array(arrays, shape=(X.shape[0], len(columns)))


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
        arrays = X.data, np.searchsorted(columns, X.indices), X.indptr
        narrow.append(sp.csr_array(arrays, shape=(X.shape[0], len(columns))))
    return narrow, columns
