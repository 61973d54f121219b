"""Checks of the rows of an estimator that may have an embedding beside their features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..rows import Rows, has_embedding, split_columns
from .errors import ParameterError
from .matrices import (
    as_checked_rows,
    as_user_sparse,
    check_embedding_size,
    check_matrix,
)

#: What the 'embedding' parameter may be.
FORMS = "'auto', a number of columns, a slice or names of columns"

#: Dense rows of so many columns are an embedding as a whole if nearly every value is
#: there, and nearly every column has both signs: a single column then means nothing,
#: and neither does a pair of columns. Fewer columns are paired at no cost, and more are
#: no embedding that anybody has.
LEAST_WIDTH = 32
MOST_WIDTH = 4096
NEARLY = 0.99

#: Rows that are looked at.
SAMPLE = 1000


def check_rows(estimator: Any, X: Any, *, reset: bool, name: str = "X") -> Any:
    """Return checked rows of an estimator, mixed where it has an embedding.

    Parameters
    ----------
    estimator : object
        Its 'embedding' parameter says which columns are one, where it has that. With
        `reset` it learns the columns: ``n_features_in_``, ``embedding_width_`` and
        ``feature_names_in_``.
    X : array-like, sparse matrix, Rows, or tuple (features, embedding)
    reset : bool
    name : str
        What messages call X.
    """
    if has_embedding(X):
        return _check_pair(estimator, X, reset, name)
    if not reset:
        _check_both(estimator, X, name)
    X = check_matrix(estimator, X, reset=reset, name=name)
    if reset:
        embedding = getattr(estimator, "embedding", None)
        names = getattr(estimator, "feature_names_in_", None)
        if isinstance(embedding, str) and names is None and is_embedding(X):
            embedding = X.shape[1]
        estimator.embedding_width_ = embedding_width(embedding, X.shape[1], names)
    width = getattr(estimator, "embedding_width_", 0)
    if width == 0:
        return X
    if width == X.shape[1] and sp.issparse(X):
        raise ValueError(
            f"All {width} columns of {name} are to be an embedding, but {name} is "
            "sparse: features must stand before an embedding, or pass a dense array."
        )
    rows = split_columns(X, X.shape[1] - width)
    check_embedding_size(rows.dense)
    return rows


def _check_pair(estimator: Any, X: Any, reset: bool, name: str) -> Any:
    """Return Rows or a pair, checked; where the embedding has no columns, the features."""
    rows = as_checked_rows(X, name)
    check_embedding_size(rows.dense)
    take_pair_widths(estimator, rows.sparse.shape[1], rows.dense.shape[1], reset, name)
    if not rows.dense.shape[1]:
        return rows.sparse
    return rows


def _check_both(estimator: Any, X: Any, name: str) -> None:
    """Raise ValueError for words alone, or vectors alone, where a model was fitted on both."""
    width = getattr(estimator, "embedding_width_", 0)
    shape: tuple[Any, ...] = getattr(X, "shape", ())
    if width in (0, estimator.n_features_in_) or len(shape) != 2:
        return
    n_features = estimator.n_features_in_ - width
    if shape[1] == n_features:
        parts = f"features alone ({n_features} columns), without an embedding"
        rows = f"Z of {width} columns; zeros compare by the features alone"
    elif shape[1] == width:
        parts = f"an embedding alone ({width} columns), without features"
        rows = f"X of {n_features} columns; zeros compare by the embedding alone"
    else:
        return
    raise ValueError(
        f"{name} has {parts}, but {type(estimator).__name__} was fitted on both: pass "
        f"hdsl.Rows(X, Z) with {rows}."
    )


def take_pair_widths(
    estimator: Any, n_sparse: int, width: int, reset: bool, name: str = "X"
) -> None:
    """Check the numbers of columns of a pair; with `reset` an estimator learns them."""
    if reset:
        embedding = getattr(estimator, "embedding", None)
        is_open = embedding is None or isinstance(embedding, str)
        if not is_open and embedding != width:
            raise ValueError(
                f"{name} is a pair with an embedding of {width} columns, but the "
                f"'embedding' parameter is {embedding!r}: set it to {width} or None."
            )
        estimator.n_features_in_ = n_sparse + width
        estimator.embedding_width_ = width
        vars(estimator).pop("feature_names_in_", None)
        return
    learned_width = getattr(estimator, "embedding_width_", 0)
    learned = (estimator.n_features_in_ - learned_width, learned_width)
    came = (n_sparse, width)
    if came == learned:
        return
    way_out = ""
    if learned_width == 0:
        way_out = ": pass the features alone, rows.sparse of hdsl.Rows"
    raise ValueError(
        f"{name} has {came[0]} features and an embedding of {came[1]} columns, but "
        f"{type(estimator).__name__} was fitted on {learned[0]} and {learned[1]}"
        f"{way_out}."
    )


def check_embedding(owner: str, embedding: Any) -> None:
    """Raise ParameterError unless the 'embedding' parameter has one of its forms."""
    if embedding is None or isinstance(embedding, slice):
        return
    if isinstance(embedding, str) and embedding == "auto":
        return
    is_list = isinstance(embedding, list | tuple | np.ndarray) and len(embedding) > 0
    if is_list and all(isinstance(column, str) for column in embedding):
        return
    is_count = isinstance(embedding, int | np.integer) and not isinstance(
        embedding, bool
    )
    if not is_count or embedding < 1:
        raise ParameterError(owner, "embedding", FORMS, repr(embedding), " or None")


def embedding_width(embedding: Any, n_columns: int, names: np.ndarray | None) -> int:
    """Return how many of the last columns are an embedding; raise ValueError if they are not last.

    Examples
    --------
    >>> embedding_width(slice(-384, None), 10_384, None), embedding_width(None, 100, None)
    (384, 0)
    """
    if embedding is None or isinstance(embedding, str):
        return 0
    if isinstance(embedding, int | np.integer):
        width = int(embedding)
    elif isinstance(embedding, slice):
        width = _width_of_slice(embedding, n_columns)
    else:
        width = _width_of_names(list(embedding), names)
    if width > n_columns:
        raise ValueError(
            f"The embedding has {width} columns, but X has {n_columns}: give the number "
            "of its last columns."
        )
    return width


def is_embedding(X: Any) -> bool:
    """Return whether dense rows look like an embedding as a whole.

    Examples
    --------
    >>> Z = np.random.default_rng(0).normal(size=(50, 64))
    >>> is_embedding(Z), is_embedding(np.abs(Z)), is_embedding(Z[:, :8])
    (True, False, False)
    """
    return are_embedding([count_signs(X)])


def count_signs(X: Any) -> np.ndarray | None:
    """Return how many rows of a sample are above, below and at 0, per column.

    None for what is no dense array of real numbers as wide as an embedding may be.
    """
    if not isinstance(X, np.ndarray) or X.ndim != 2 or X.dtype.kind != "f":
        return None
    if not LEAST_WIDTH <= X.shape[1] <= MOST_WIDTH:
        return None
    rows = X[:: max(1, len(X) // SAMPLE)]
    n_above = np.count_nonzero(rows > 0, axis=0)
    n_below = np.count_nonzero(rows < 0, axis=0)
    return np.array([n_above, n_below, len(rows) - n_above - n_below])


def are_embedding(signs: Sequence[np.ndarray | None]) -> bool:
    """Return whether blocks of rows with these signs look like an embedding as a whole."""
    counts = [block for block in signs if block is not None]
    if len(counts) < len(signs) or len({block.shape for block in counts}) > 1:
        return False
    n_above, n_below, n_zero = np.sum(counts, axis=0)
    has_both_signs = (n_above > 0) & (n_below > 0)
    share_of_values = 1.0 - n_zero.sum() / max(1, np.sum(counts))
    return bool(share_of_values >= NEARLY and has_both_signs.mean() >= NEARLY)


def _width_of_slice(columns: slice, n_columns: int) -> int:
    """Return the number of columns of a slice, which must end at the last one."""
    start, stop, step = columns.indices(n_columns)
    if step != 1 or stop != n_columns or start >= stop:
        raise ValueError(
            f"The embedding must be the last columns of X, such as slice(-384, None). "
            f"Got {columns} for {n_columns} columns: put it behind the features, or "
            "pass a pair (features, embedding)."
        )
    return stop - start


def _width_of_names(columns: list[str], names: np.ndarray | None) -> int:
    """Return the number of named columns, which must be the last ones."""
    if names is None:
        raise ValueError(
            "The 'embedding' parameter names columns, but X has no column names: give "
            "the number of its last columns."
        )
    if names[-len(columns) :].tolist() != columns:
        raise ValueError(
            f"The embedding must be the last columns of X, in their order. The last "
            f"{len(columns)} are {names[-len(columns) :].tolist()[:3]} ..., and the "
            f"'embedding' parameter is {columns[:3]} ...: reorder the columns."
        )
    return len(columns)


def as_given(Z: Any, X: Any) -> Any:
    """Return rows in the form in which X came: Rows, sparse or dense.

    For Rows and for a pair these are Rows, whatever the weight of the embedding is: one
    of weight 0 has no columns.
    """
    if has_embedding(X):
        if isinstance(Z, Rows):
            return Z
        return Rows(Z, np.zeros((Z.shape[0], 0), dtype=Z.dtype))
    if not isinstance(Z, Rows):
        return as_user_sparse(Z)
    if sp.issparse(X):
        return as_user_sparse(Z.to_sparse())
    return np.hstack([Z.sparse.toarray(), Z.dense])
