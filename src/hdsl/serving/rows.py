"""Sparse rows as the clients of engines take them: lists, dicts and texts."""

from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..input.errors import warn
from ..input.matrices import as_rows, canonical

#: Most non-zeros of a sparsevec of pgvector.
SPARSEVEC_LIMIT = 16_000

#: Most non-zeros of a sparsevec in an HNSW index of pgvector.
HNSW_LIMIT = 1_000


def sparse_rows(X: Any, names: Any = None) -> list[Any]:
    """Return each row as plain lists of indices and values, or as a dict of terms and weights.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_rows, n_features)
    names : array-like of str of shape (n_features,), default=None
        One term per column, all different.

    Returns
    -------
    list of length n_rows
        Pairs (indices, values) of lists, sorted by index; with `names`, dicts {term:
        weight} in the order of the columns. Zeros are left out. All numbers are plain
        Python numbers, as JSON and the clients of engines take them.

    Examples
    --------
    >>> sparse_rows([[0.0, 2.0, -1.0]])
    [([1, 2], [2.0, -1.0])]
    >>> sparse_rows([[0.0, 2.0, -1.0]], ["cat", "dog", "pet"])
    [{'dog': 2.0, 'pet': -1.0}]
    """
    X = as_sparse(X, "X")
    rows = [
        (X.indices[begin:end].tolist(), X.data[begin:end].tolist())
        for begin, end in pairwise(X.indptr)
    ]
    if names is None:
        return rows
    terms = _distinct_terms(names, X.shape[1])
    return [
        {terms[i]: value for i, value in zip(indices, values, strict=True)}
        for indices, values in rows
    ]


def _distinct_terms(names: Any, n_features: int) -> list[str]:
    """Return one term per column; raise ValueError unless all are different."""
    terms = [str(name) for name in np.asarray(names, dtype=object).ravel()]
    if len(terms) != n_features:
        raise ValueError(
            f"There are {len(terms)} names, but X has {n_features} columns: one name "
            "per column is expected."
        )
    if len(set(terms)) < len(terms):
        twice, _ = Counter(terms).most_common(1)[0]
        raise ValueError(
            f"Two columns are named {twice!r}: weights by name need different names."
        )
    return terms


def to_sparsevec(X: Any) -> list[str]:
    """Return each row as a text that the type ``sparsevec`` of pgvector reads.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_rows, n_features)

    Returns
    -------
    list of str of length n_rows
        ``{index:value,…}/n_features``, indices from 1, values as float32. Values that
        are 0 in float32 are left out.

    Raises
    ------
    ValueError
        If a row has more than 16,000 non-zeros, or a value is too large for float32:
        pgvector refuses both.

    Warns
    -----
    UserWarning
        If a row has more than 1,000 non-zeros, the most that an HNSW index of pgvector
        holds.

    Examples
    --------
    >>> to_sparsevec([[0.0, 2.0, -0.1]])
    ['{2:2.0,3:-0.1}/3']
    """
    X = _as_float32(as_sparse(X, "X"))
    _check_sizes(np.diff(X.indptr))
    indices = (X.indices.astype(np.int64) + 1).astype(str)
    values = X.data.astype(str)  # the shortest text that float32 reads back
    entries = np.char.add(np.char.add(indices, ":"), values)
    return [
        f"{{{','.join(entries[begin:end])}}}/{X.shape[1]}"
        for begin, end in pairwise(X.indptr)
    ]


def dense_rows(Z: np.ndarray) -> list[list[float]]:
    """Return the rows of an embedding as plain lists of numbers with the digits of float32.

    Examples
    --------
    >>> dense_rows(np.array([[0.1, -2.0]], dtype=np.float32))
    [[0.1, -2.0]]
    """
    return [[float(value) for value in row] for row in _digits(Z)]


def to_vector(Z: np.ndarray) -> list[str]:
    """Return the rows of an embedding as texts that the type ``vector`` of pgvector reads.

    Examples
    --------
    >>> to_vector(np.array([[0.1, -2.0]]))
    ['[0.1,-2.0]']
    """
    return [f"[{','.join(row)}]" for row in _digits(Z)]


def _digits(Z: np.ndarray) -> list[list[str]]:
    """Return the shortest texts that float32 reads back."""
    with np.errstate(under="ignore"):
        short = Z.astype(np.float32)
    return short.astype(str).tolist()


def _as_float32(X: sp.csr_array) -> sp.csr_array:
    """Return X as pgvector stores it; raise ValueError if a value is too large."""
    with np.errstate(over="ignore", under="ignore"):
        X = canonical(X.astype(np.float32))
    too_large = np.flatnonzero(~np.isfinite(X.data))
    if len(too_large):
        entry = too_large[0]
        row = int(np.searchsorted(X.indptr, entry, side="right")) - 1
        raise ValueError(
            f"X[{row}, {X.indices[entry]}] is too large for float32, in which "
            "pgvector stores values: scale X to smaller values."
        )
    return X


def _check_sizes(sizes: np.ndarray) -> None:
    """Raise ValueError or warn where rows have too many non-zeros for pgvector."""
    longest = int(sizes.max(initial=0))
    if longest > SPARSEVEC_LIMIT:
        raise ValueError(
            f"Row {int(sizes.argmax())} has {longest:,} non-zeros, but pgvector takes "
            f"at most {SPARSEVEC_LIMIT:,}: keep the largest, as model.rewrite(X, "
            "max_terms=...) does."
        )
    if longest > HNSW_LIMIT:
        warn(
            f"The HNSW index of pgvector refuses rows with more than {HNSW_LIMIT:,} "
            f"non-zeros, which pgvector stores: {int((sizes > HNSW_LIMIT).sum()):,} of "
            f"{len(sizes):,}, with up to {longest:,}."
        )


def as_sparse(X: Any, name: str) -> sp.csr_array:
    """Return X as a finite canonical CSR array of floats."""
    return canonical(sp.csr_array(as_rows(X, name)))
