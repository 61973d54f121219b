"""Sparse rows as engines take them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp

from .. import checks

#: Most non-zeros of a sparsevec of pgvector, and of one in its HNSW index.
SPARSEVEC_LIMIT, HNSW_LIMIT = 16_000, 1_000


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
        Pairs (indices, values) of lists, sorted by index; with `names`, dicts {term: weight} in
        the order of the columns. Zeros are left out. All numbers are plain Python numbers, as JSON
        and the clients of engines take them.

    Examples
    --------
    >>> sparse_rows([[0.0, 2.0, -1.0]])
    [([1, 2], [2.0, -1.0])]
    >>> sparse_rows([[0.0, 2.0, -1.0]], ["cat", "dog", "pet"])
    [{'dog': 2.0, 'pet': -1.0}]
    """
    X = as_sparse(X, "X")
    pairs = [
        (X.indices[a:b].tolist(), X.data[a:b].tolist())
        for a, b in zip(X.indptr[:-1], X.indptr[1:], strict=True)
    ]
    if names is None:
        return pairs
    terms = [str(name) for name in np.asarray(names, dtype=object).ravel()]
    if len(terms) != X.shape[1]:
        raise ValueError(
            f"There are {len(terms)} names, but X has {X.shape[1]} columns: one name per column is "
            "expected."
        )
    if len(set(terms)) < len(terms):
        twice = next(term for k, term in enumerate(terms) if term in terms[:k])
        raise ValueError(f"Two columns are named {twice!r}: weights by name need different names.")
    return [
        dict(zip((terms[i] for i in indices), values, strict=True)) for indices, values in pairs
    ]


def to_sparsevec(X: Any) -> list[str]:
    """Return each row as a text that the type ``sparsevec`` of pgvector reads.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_rows, n_features)

    Returns
    -------
    list of str of length n_rows
        ``{index:value,…}/n_features``, indices from 1, values as float32. Values that are 0 in
        float32 are left out.

    Raises
    ------
    ValueError
        If a row has more than 16,000 non-zeros, or a value is too large for float32: pgvector
        refuses both.

    Warns
    -----
    UserWarning
        If a row has more than 1,000 non-zeros, the most that an HNSW index of pgvector holds.

    Examples
    --------
    >>> to_sparsevec([[0.0, 2.0, -0.1]])
    ['{2:2.0,3:-0.1}/3']
    """
    X = as_sparse(X, "X")
    with np.errstate(over="ignore", under="ignore"):
        X = checks.canonical(X.astype(np.float32))
    large = np.flatnonzero(~np.isfinite(X.data))
    if len(large):
        row = int(np.searchsorted(X.indptr, large[0], side="right")) - 1
        raise ValueError(
            f"X[{row}, {X.indices[large[0]]}] is too large for float32, in which pgvector stores "
            "values: scale X to smaller values."
        )
    sizes = np.diff(X.indptr)
    longest = int(sizes.max(initial=0))
    if longest > SPARSEVEC_LIMIT:
        raise ValueError(
            f"Row {int(sizes.argmax())} has {longest:,} non-zeros, but pgvector takes at most "
            f"{SPARSEVEC_LIMIT:,}: keep the largest, as model.rewrite(X, max_terms=...) does."
        )
    if longest > HNSW_LIMIT:
        warnings.warn(
            f"The HNSW index of pgvector refuses rows with more than {HNSW_LIMIT:,} non-zeros, "
            f"which pgvector stores: {int((sizes > HNSW_LIMIT).sum()):,} of {X.shape[0]:,}, with "
            f"up to {longest:,}.",
            UserWarning,
            stacklevel=2,
        )
    d = X.shape[1]
    values = X.data.astype(str)  # the shortest text that float32 reads back
    entries = np.char.add(np.char.add((X.indices.astype(np.int64) + 1).astype(str), ":"), values)
    return [
        f"{{{','.join(entries[a:b])}}}/{d}"
        for a, b in zip(X.indptr[:-1], X.indptr[1:], strict=True)
    ]


def as_sparse(X: Any, name: str) -> sp.csr_array:
    """Return X as a finite canonical CSR array of floats."""
    return checks.canonical(sp.csr_array(checks.as_rows(X, name)))
