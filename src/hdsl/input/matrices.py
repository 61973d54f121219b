"""Checks of matrices: X, dense or sparse.

scikit-learn is loaded where it is asked, since workers of a cluster check blocks of rows
without it.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp

from ..rows import Rows, has_embedding, sparse_block
from .errors import first_few

INDEX_LIMIT = np.iinfo(np.int32).max


#: No margin may be larger: losses square them.
MARGIN_LIMIT = 1e150


#: No value of an embedding may be larger: lengths of rows are taken in float32.
LARGEST_OF_EMBEDDING = 1e15


#: Stored values that are looked at first, as they tell of two features nearly always.
FIRST_VALUES = 2**16


def check_matrix(estimator: Any, X: Any, *, reset: bool, name: str = "X") -> Any:
    """Return X as a finite 2-D array or a canonical CSR array, of float32 or float64 as given."""
    from sklearn.utils.validation import validate_data

    if hasattr(X, "__dask_graph__"):
        raise TypeError(
            f"{name} is a Dask collection, and {type(estimator).__name__} takes rows "
            "that are in memory. hdsl.dask.HDSL learns from blocks on a cluster; or "
            "call compute() first."
        )
    _check_is_one(X, name)
    _check_columns_differ(X, name)
    if sp.issparse(X):
        X = sound_csr(X, name)
    try:
        X = validate_data(
            estimator,
            X,
            reset=reset,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            ensure_all_finite=False,
        )
    except ValueError as error:
        if str(error).startswith("X has "):  # scikit-learn calls it X
            raise ValueError(name + str(error)[1:]) from None
        if "could not convert string" in str(error):
            raise ValueError(
                f"{name} has texts ({str(error)[:100]}), but {type(estimator).__name__} "
                "takes rows of numbers. hdsl.text.learn(texts, y) learns from texts; or "
                "make rows of them with scikit-learn's TfidfVectorizer."
            ) from None
        raise
    if sp.issparse(X):
        X = canonical(X)
    check_finite(X, name)
    return X


def _check_columns_differ(X: Any, name: str) -> None:
    """Raise ValueError if two columns of a frame have one name."""
    columns = getattr(X, "columns", None)
    if columns is None or getattr(columns, "is_unique", True):
        return
    repeated = columns[columns.duplicated()].unique().tolist()
    raise ValueError(
        f"{name} has more than one column of the name {first_few(repeated)}: rename "
        "all but one."
    )


def check_names(model: Any, X: Any) -> None:
    """Raise ValueError where the columns of X have other names, or another order, than a model's.

    For rows that its similarity will compare, which knows numbers of columns alone.
    """
    from sklearn.utils.validation import validate_data

    if hasattr(model, "feature_names_in_"):
        validate_data(model, X, reset=False, skip_check_array=True)


def as_rows(X: Any, name: str = "X") -> Any:
    """Return X as `check_matrix` does, where there is no estimator to remember the columns.

    A tuple (features, embedding) becomes Rows.
    """
    if has_embedding(X):
        return as_checked_rows(X, name)
    _check_is_one(X, name)
    is_sparse = sp.issparse(X)
    X = sound_csr(X, name) if is_sparse else np.asarray(X)
    if X.ndim != 2:
        raise ValueError(
            f"{name} must have shape (n_rows, n_features). Got shape {X.shape}: "
            "reshape a single row with x.reshape(1, -1)."
        )
    if X.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: {name} has dtype {X.dtype}.")
    if X.dtype not in (np.float32, np.float64):
        X = X.astype(np.float64)
    if is_sparse:
        X = canonical(X)
    check_finite(X, name)
    return X


def _check_is_one(X: Any, name: str) -> None:
    """Raise ValueError where X is a list of matrices."""
    if isinstance(X, list | tuple) and any(map(sp.issparse, X)):
        raise ValueError(
            f"{name} is a {type(X).__name__} of {len(X)} matrices: features and an "
            "embedding are hdsl.Rows(features, embedding), or a tuple of two."
        )


def as_checked_rows(X: Any, name: str = "X") -> Rows:
    """Return Rows, or a tuple (features, embedding), as Rows whose values are checked."""
    if not isinstance(X, Rows):
        X = _pair_as_rows(X, name)
    features = as_rows(X.sparse, f"{name}[0]")
    dense = np.ascontiguousarray(as_rows(X.dense, f"{name}[1]"))
    return Rows(features, dense)


def _pair_as_rows(pair: Any, name: str) -> Rows:
    """Return a tuple (features, embedding) as Rows; raise ValueError where it is none."""
    features, embedding = pair
    if sp.issparse(features):
        features = sound_csr(features, f"{name}[0]")
    try:
        return Rows(features, embedding)
    except ValueError as error:
        raise ValueError(f"{name} is a pair (features, embedding). {error}") from None


def check_embedding_size(embedding: np.ndarray) -> None:
    """Raise ValueError where the length of a row of an embedding may leave float32."""
    largest = largest_value(embedding)
    if largest > LARGEST_OF_EMBEDDING:
        raise ValueError(
            f"The largest absolute value of the embedding is {largest:.3g}, but must "
            f"be at most {LARGEST_OF_EMBEDDING:g}, as lengths are taken in float32: "
            "divide it by that."
        )


def canonical(X: Any) -> sp.csr_array:
    """Return a sparse X as a CSR array with sorted indices, no duplicates and no stored zeros.

    X itself is not changed. It is copied only if necessary. Its structure must be
    sound.
    """
    X_csr = sp.csr_array(X)
    if not X_csr.has_canonical_format or not X_csr.data.all():
        X_csr = X_csr.copy()
        X_csr.sum_duplicates()
        X_csr.eliminate_zeros()
    return X_csr


def used_columns(X: sp.csr_array) -> np.ndarray:
    """Return the columns with a stored value, sorted."""
    if X.shape[1] > 8 * X.nnz + 2**20:
        # A flag per column would be longer than the values.
        return np.unique(X.indices).astype(np.int64)
    is_used = np.zeros(X.shape[1], dtype=bool)
    is_used[X.indices] = True
    return np.flatnonzero(is_used)


def narrow(X: Any) -> Any:
    """Return a sparse X with 32-bit indices where they suffice: liblinear takes no others."""
    if not sp.issparse(X) or X.indices.dtype == np.int32:
        return X
    if max(X.nnz, *X.shape) >= INDEX_LIMIT:
        return X
    indices = X.indices.astype(np.int32)
    indptr = X.indptr.astype(np.int32)
    return type(X)((X.data, indices, indptr), X.shape)


def as_user_sparse(X: sp.csr_array) -> Any:
    """Return a sparse matrix or array, as scikit-learn is configured."""
    from sklearn import get_config

    interface = get_config().get("sparse_interface", "spmatrix")
    if sp.issparse(X) and interface == "spmatrix":
        return sp.csr_matrix(X)
    return X


def check_finite(X: Any, name: str = "X") -> None:
    """Raise ValueError with the first NaN or infinite value of X and its place."""
    values = X.data if sp.issparse(X) else X
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum()):  # one pass and no memory if all are finite
            return
    is_bad = ~np.isfinite(values)
    if not is_bad.any():
        return
    if sp.issparse(X):
        k = int(np.flatnonzero(is_bad)[0])
        row = int(np.searchsorted(X.indptr, k, side="right")) - 1
        column = int(X.indices[k])
        value = X.data[k]
    else:
        row, column = np.argwhere(is_bad)[0].tolist()
        value = X[row, column]
    raise ValueError(
        f"{name}[{row}, {column}] is {_infinity(value)}. All values must be finite: "
        f"impute or drop NaN and infinity first ({int(is_bad.sum())} in {name})."
    )


def _infinity(value: float) -> str:
    """Return what a value is that is not finite."""
    if np.isnan(value):
        return "NaN"
    return "inf" if value > 0 else "-inf"


def check_live_features(n_live: int, n_features: int) -> None:
    """Raise ValueError if fewer than two features of X have a non-zero value."""
    if n_live < 2:
        raise ValueError(
            "At least 2 features with a non-zero value are needed to learn a "
            f"similarity. X has {n_live} (n_features={n_features})."
        )


def largest_value(values: np.ndarray) -> float:
    """Return the largest absolute value, 0 of no values; makes no copy of them."""
    return max(float(values.max(initial=0)), -float(values.min(initial=0)))


def check_largest(largest: float) -> None:
    """Raise ValueError if products of four values as large as `largest` leave the floats."""
    if not 1e-70 < largest < 1e70:
        raise ValueError(
            f"The largest absolute value of X is {largest:.3g}: products of four "
            "values must be ordinary numbers. Scale X, for example with "
            "sklearn.preprocessing.MaxAbsScaler."
        )


def as_problem_matrix(X: Any) -> Any:
    """Return a checked X as the CSR array of float64 that a problem takes.

    Of Rows these are the features, and the embedding is in float32.
    """
    if isinstance(X, Rows):
        features = X.sparse.astype(np.float64)
        if features.shape[1]:
            features = as_problem_matrix(features)
        # Half the memory, and embeddings come as float32.
        return Rows(features, X.dense.astype(np.float32))
    if not sp.issparse(X):
        X = canonical(sp.csr_array(X))
    if X.shape[0] >= INDEX_LIMIT or X.nnz >= 2 * INDEX_LIMIT:
        raise ValueError(
            f"X has {X.shape[0]} rows and {X.nnz} stored values. At most "
            f"{INDEX_LIMIT - 1} rows and {2 * INDEX_LIMIT - 1} values can be handled: "
            "fit on a sample of the rows."
        )
    live = np.unique(X.indices[:FIRST_VALUES])
    if live.size < 2:
        live = np.unique(X.indices)
    check_live_features(live.size, X.shape[1])
    check_largest(largest_value(X.data))
    return X.astype(np.float64, copy=False)


def check_margins(X: sp.csr_array | Rows, scale: float, prior: float) -> None:
    """Raise ValueError if margins, or their squares in a loss, may overflow."""
    features = sparse_block(X)
    largest = largest_value(features.data)
    width = float(np.diff(features.indptr).max())
    if isinstance(X, Rows):
        width += X.dense.shape[1]
        largest = max(largest, largest_value(X.dense))
    bound = largest * (8.0 * scale + 2.0 * prior * width) * largest
    if not bound < MARGIN_LIMIT:
        raise ValueError(
            f"Margins may be as large as {bound:.3g}, but must be below "
            f"{MARGIN_LIMIT:g}: X has values up to {largest:.3g}, scale is {scale:.3g} "
            f"and prior is {prior:.3g}. Scale X, for example with "
            "sklearn.preprocessing.MaxAbsScaler, or lower scale and prior."
        )


# --- the structure of sparse matrices, which compiled code trusts --------------------


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
