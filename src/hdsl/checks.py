"""Checks of user input: X, y, triplets, quadruplets, weights and parameters.

The rest of the library trusts what these functions return. A message says what was
expected, what came, and the way out if there is one. scikit-learn is loaded where it is
asked, since workers of a cluster check blocks of rows without it.
"""

import inspect
import math
import numbers
import os
import re
import reprlib
import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp

from . import memory

FilePath = str | os.PathLike[str]

_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = 80

INDEX_LIMIT = np.iinfo(np.int32).max

#: Memory that the name of a column takes, as a Python string in an array.
BYTES_PER_NAME = 64

#: No margin may be larger: losses square them.
MARGIN_LIMIT = 1e150


# --- errors ---------------------------------------------------------------------------


class ParameterError(ValueError):
    """A parameter with a value that it cannot have.

    Parameters
    ----------
    owner : str
        The class or function.
    name : str
        The parameter.
    wanted : str
        What it must be.
    got : str
        What came.
    in_python : str, default=""
        What else it may be, in Python only.

    Examples
    --------
    >>> error = ParameterError("HDSL", "batch_size", "an int >= 1", "0", " or None")
    >>> print(error)
    The 'batch_size' parameter of HDSL must be an int >= 1 or None. Got 0 instead.
    >>> error.message("--batch-size")
    '--batch-size must be an int >= 1. Got 0 instead.'
    """

    def __init__(
        self, owner: str, name: str, wanted: str, got: str, in_python: str = ""
    ) -> None:
        super().__init__(owner, name, wanted, got, in_python)  # for pickle
        self.owner = owner
        self.name = name
        self.wanted = wanted
        self.got = got
        self.in_python = in_python

    def __str__(self) -> str:
        return (
            f"The {self.name!r} parameter of {self.owner} must be "
            f"{self.wanted}{self.in_python}. Got {self.got} instead."
        )

    def message(self, option: str) -> str:
        """Return the message of a front end that has an option instead of the parameter."""
        return f"{option} must be {self.wanted}. Got {self.got} instead."


class WayOutError(ValueError):
    """A fault of the input, and what a Python user can do about it.

    Parameters
    ----------
    facts : str
        What is wrong; without its full stop if there is a way out.
    way_out : str, default=""
        What to do in Python.
    remedy : str, default=""
        A word for it, by which another front end finds its own way out.

    Examples
    --------
    >>> error = WayOutError("Line 3 has an index 0", "pass zero_based=True", "zero_based")
    >>> print(error)
    Line 3 has an index 0: pass zero_based=True.
    >>> error.message("pass --zero-based")
    'Line 3 has an index 0: pass --zero-based.'
    """

    def __init__(self, facts: str, way_out: str = "", remedy: str = "") -> None:
        super().__init__(facts, way_out, remedy)  # for pickle
        self.facts = facts
        self.way_out = way_out
        self.remedy = remedy

    def __str__(self) -> str:
        return self.message(self.way_out)

    def message(self, way_out: str) -> str:
        """Return the facts with the caller's way out."""
        return f"{self.facts}: {way_out}." if way_out else self.facts


MIXED_LABELS = "Labels must be all strings or all numbers, not both."


class NoTripletError(ValueError):
    """No triplet can be built from these rows and labels."""


# --- warnings -------------------------------------------------------------------------


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn of the line outside the package that led to the warning."""
    package = os.path.dirname(os.path.abspath(__file__)) + os.sep
    level = 1
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(package):
        level = level + 1
        frame = frame.f_back
    warnings.warn(message, category, stacklevel=level)


# --- parameters -----------------------------------------------------------------------


def check_number(
    owner: str,
    name: str,
    value: Any,
    *,
    low: float,
    strict: bool = False,
    integer: bool = False,
    high: float | None = None,
    words: tuple[str | None, ...] = (),
) -> None:
    """Raise ValueError unless `value` is a finite number in range, or one of `words`.

    The range is >= `low`, or > `low` if `strict`, and < `high` if given.
    """
    if any(
        value is word or (isinstance(value, str) and value == word) for word in words
    ):
        return
    kind = numbers.Integral if integer else numbers.Real
    good = isinstance(value, kind) and not isinstance(value, bool | np.bool_)
    if good and isinstance(value, numbers.Integral) and abs(int(value)) >= 2**63:
        raise ParameterError(owner, name, "a number of at most 64 bits", short(value))
    good = good and math.isfinite(value) and (high is None or value < high)
    if good and (value > low if strict else value >= low):
        return
    article = "an int" if integer else "a float"
    wanted = f"{article} {'>' if strict else '>='} {low:g}"
    wanted += "" if high is None else f" and < {high:g}"
    wanted += "".join(f" or {word!r}" for word in words if word is not None)
    raise ParameterError(
        owner, name, wanted, short(value), " or None" if None in words else ""
    )


def short(value: Any) -> str:
    """Return any value for a message, at most some hundred characters."""
    try:
        found = _REPR.repr(value)
    except ValueError:  # Python does not print thousands of digits
        found = f"a large {type(value).__name__}"
    return found if len(found) <= 200 else found[:199] + "…"


def check_word(owner: str, name: str, value: Any, known: Any, also: str = "") -> None:
    """Raise ValueError unless `value` is one of the known words."""
    if isinstance(value, str) and value in known:
        return
    listed = ", ".join(repr(word) for word in known)
    raise ParameterError(owner, name, f"one of {listed}", short(value), also)


def check_device(owner: str, device: Any) -> None:
    """Raise ValueError unless `device` is a word for the CPU or a GPU."""
    if (
        not isinstance(device, str)
        or re.fullmatch(r"cpu|cuda(:[0-9]{1,3})?", device) is None
    ):
        wanted = "'cpu', 'cuda' or 'cuda:1' and so on"
        raise ParameterError(owner, "device", wanted, short(device))


def generator(random_state: Any) -> np.random.Generator:
    """Return a NumPy generator seeded by a scikit-learn style ``random_state``."""
    from sklearn.utils import check_random_state

    if (
        isinstance(random_state, numbers.Integral)
        and not 0 <= int(random_state) < 2**32
    ):
        wanted = "an int from 0 to 2**32 - 1"
        raise ParameterError("fit", "random_state", wanted, short(random_state))
    seed = check_random_state(random_state).randint(0, 2**31 - 1, size=4)
    return np.random.default_rng(seed.tolist())


def replace_fitted(estimator: Any, learned: Any) -> None:
    """Replace all fitted attributes of an estimator by those of another.

    One assignment does it, so that an interrupt never leaves a half-fitted estimator.
    """
    fitted = {
        name: value for name, value in vars(learned).items() if name.endswith("_")
    }
    others = {
        name: value for name, value in vars(estimator).items() if not name.endswith("_")
    }
    estimator.__dict__ = others | fitted


class TakesSparse:
    """What scikit-learn asks of an estimator of sparse rows; a transformer keeps their dtype."""

    needs_y = True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.sparse = True
        tags.target_tags.required = self.needs_y
        if tags.transformer_tags is not None:
            tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


# --- data -----------------------------------------------------------------------------


def check_matrix(estimator: Any, X: Any, *, reset: bool, name: str = "X") -> Any:
    """Return X as a finite 2-D array or a canonical CSR array, of float32 or float64 as given."""
    from sklearn.utils.validation import validate_data

    if hasattr(X, "__dask_graph__"):
        raise TypeError(
            f"{name} is a Dask collection, and {type(estimator).__name__} takes rows "
            "that are in memory. hdsl.dask.HDSL learns from blocks on a cluster; or "
            "call compute() first."
        )
    check_structure(X, name)
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
        raise
    X = canonical(X) if sp.issparse(X) else X
    check_finite(X, name)
    return X


def check_names(model: Any, X: Any) -> None:
    """Raise ValueError where the columns of X have other names, or another order, than a model's.

    For rows that its similarity will compare, which knows numbers of columns alone.
    """
    from sklearn.utils.validation import validate_data

    if hasattr(model, "feature_names_in_"):
        validate_data(model, X, reset=False, skip_check_array=True)


def as_rows(X: Any, name: str = "X") -> Any:
    """Return X as `check_matrix` does, where there is no estimator to remember the columns."""
    check_structure(X, name)
    X = sp.csr_array(X) if sp.issparse(X) else np.asarray(X)
    if X.ndim != 2:
        raise ValueError(
            f"{name} must have shape (n_rows, n_features). Got shape {X.shape}: "
            "reshape a single row with x.reshape(1, -1)."
        )
    if X.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: {name} has dtype {X.dtype}.")
    X = X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)
    X = canonical(X) if sp.issparse(X) else X
    check_finite(X, name)
    return X


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


def check_structure(X: Any, name: str = "X") -> None:
    """Raise ValueError unless the index arrays of a sparse X are valid; compiled code trusts them.

    It takes a pass over ``indptr`` and one over the indices. What is not sparse passes.
    """
    if not sp.issparse(X):
        return
    if min(X.shape) < 0:
        raise ValueError(f"{name} has the shape {X.shape}: sizes must be 0 or larger.")
    if X.format == "coo":
        lists = zip(X.coords, X.shape, strict=True)
        if any(len(part) != len(X.data) for part in X.coords):
            raise ValueError(f"{name} is damaged: its index arrays differ in length.")
    elif X.format in ("csr", "csc", "bsr"):
        major, minor = X.shape[::-1] if X.format == "csc" else X.shape
        if X.format == "bsr":
            major = major // X.blocksize[0]
            minor = minor // X.blocksize[1]
        indptr = X.indptr
        n = min(len(X.indices), len(X.data))
        if len(indptr) != major + 1 or indptr[0] != 0 or indptr[-1] > n:
            raise ValueError(
                f"{name} is damaged: indptr must have {major + 1} entries from 0 to at "
                f"most {n}."
            )
        # Differences may overflow, comparisons do not.
        if (indptr[1:] < indptr[:-1]).any():
            raise ValueError(f"{name} is damaged: indptr must not decrease.")
        lists = [(X.indices[: indptr[-1]], minor)]  # type: ignore[assignment]
    else:
        return
    for numbers_, size in lists:
        if len(numbers_) and not (numbers_.min() >= 0 and numbers_.max() < size):
            raise ValueError(
                f"{name} is damaged: it names a column or row {numbers_.min()} to "
                f"{numbers_.max()}, but has {size}."
            )


def used_columns(X: sp.csr_array) -> np.ndarray:
    """Return the columns with a stored value, sorted."""
    if (
        X.shape[1] > 8 * X.nnz + 2**20
    ):  # a flag per column would be longer than the values
        return np.unique(X.indices).astype(np.int64)
    is_used = np.zeros(X.shape[1], dtype=bool)
    is_used[X.indices] = True
    return np.flatnonzero(is_used)


def narrow(X: Any) -> Any:
    """Return a sparse X with 32-bit indices where they suffice: liblinear takes no others."""
    if (
        not sp.issparse(X)
        or X.indices.dtype == np.int32
        or max(X.nnz, *X.shape) >= INDEX_LIMIT
    ):
        return X
    return type(X)(
        (X.data, *(part.astype(np.int32) for part in (X.indices, X.indptr))), X.shape
    )


def as_user_sparse(X: sp.csr_array) -> Any:
    """Return a sparse matrix or array, as scikit-learn is configured."""
    from sklearn import get_config

    if (
        sp.issparse(X)
        and get_config().get("sparse_interface", "spmatrix") == "spmatrix"
    ):
        return sp.csr_matrix(X)
    return X


def check_finite(X: Any, name: str = "X") -> None:
    """Raise ValueError with the first NaN or infinite value of X and its place."""
    values = X.data if sp.issparse(X) else X
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum()):  # one pass and no memory if all are finite
            return
    bad = ~np.isfinite(values)
    if not bad.any():
        return
    if sp.issparse(X):
        k = int(np.flatnonzero(bad)[0])
        row = int(np.searchsorted(X.indptr, k, side="right")) - 1
        column = int(X.indices[k])
        value = X.data[k]
    else:
        row, column = (int(part) for part in np.argwhere(bad)[0])
        value = X[row, column]
    what = "NaN" if np.isnan(value) else "inf" if value > 0 else "-inf"
    raise ValueError(
        f"{name}[{row}, {column}] is {what}. All values must be finite: impute or drop "
        f"NaN and infinity first ({int(bad.sum())} in {name})."
    )


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


def as_problem_matrix(X: Any) -> sp.csr_array:
    """Return a checked X as the CSR array of float64 that a problem takes."""
    X = X if sp.issparse(X) else canonical(sp.csr_array(X))
    if X.shape[0] >= INDEX_LIMIT or X.nnz >= 2 * INDEX_LIMIT:
        raise ValueError(
            f"X has {X.shape[0]} rows and {X.nnz} stored values. At most "
            f"{INDEX_LIMIT - 1} rows and {2 * INDEX_LIMIT - 1} values can be handled: "
            "fit on a sample of the rows."
        )
    live = np.unique(X.indices[: 1 << 16])
    if live.size < 2:
        live = np.unique(X.indices)
    check_live_features(live.size, X.shape[1])
    check_largest(largest_value(X.data))
    return X.astype(np.float64, copy=False)


def check_margins(X: sp.csr_array, scale: float, prior: float) -> None:
    """Raise ValueError if margins, or their squares in a loss, may overflow."""
    largest = largest_value(X.data)
    width = float(np.diff(X.indptr).max())
    bound = largest * (8.0 * scale + 2.0 * prior * width) * largest
    if not bound < MARGIN_LIMIT:
        raise ValueError(
            f"Margins may be as large as {bound:.3g}, but must be below "
            f"{MARGIN_LIMIT:g}: X has values up to {largest:.3g}, scale is {scale:.3g} "
            f"and prior is {prior:.3g}. Scale X, for example with "
            "sklearn.preprocessing.MaxAbsScaler, or lower scale and prior."
        )


def check_classes(owner: str, y: Any, n_rows: int, which: str = "") -> np.ndarray:
    """Return y as one class label per row; `owner` asks, and `which` ends the names of X and y."""
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import assert_all_finite, column_or_1d

    if y is None:
        raise ValueError(
            f"{owner} requires y to be passed, but the target y is None: pass one "
            "label per row."
        )
    if isinstance(y, list | tuple) and _are_mixed(y):
        y = np.array([*y, None], dtype=object)[
            :-1
        ]  # else a number would become a string
    y = column_or_1d(y, warn=True)
    check_one_label_per_row(y, n_rows, which)
    if n := _n_missing(y):
        facts = f"Input y{which} contains NaN: {n} of {n_rows} rows have no label."
        raise ValueError(f"{facts} Drop them, or give them a label of their own.")
    if y.dtype == object and _are_mixed(y.tolist()):
        raise ValueError(MIXED_LABELS)
    assert_all_finite(y, input_name=f"y{which}")
    check_classification_targets(y)
    return y


def _are_mixed(labels: Any) -> bool:
    """Whether some labels are strings and some are not."""
    return {isinstance(label, str) for label in labels} == {True, False}


def _n_missing(y: np.ndarray) -> int:
    """Return how many labels are missing; those of most types cannot be."""
    if y.dtype.kind in "biuSU":
        return 0
    if y.dtype.kind == "f":
        return int(np.isnan(y).sum())
    return sum(map(is_missing, y.tolist()))


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, or NA or NaT of pandas, which may be absent."""
    # By how it prints: pandas' NA equals nothing and has no truth value.
    return not isinstance(value, str) and str(value) in ("nan", "None", "<NA>", "NaT")


def check_one_label_per_row(y: Any, n_rows: int, which: str = "") -> None:
    """Raise ValueError if y has another length than X; `which` is the end of both names."""
    if len(y) != n_rows:
        raise ValueError(
            f"y{which} has {len(y)} labels, but X{which} has {n_rows} rows: one label "
            "per row is expected."
        )


def check_several_classes(owner: str, classes: np.ndarray) -> None:
    """Raise ValueError if there is only one class; `owner` is the estimator that asks."""
    if len(classes) < 2:
        raise ValueError(
            f"{owner} needs at least 2 classes to tell apart, but y has one class, "
            f"{classes.tolist()[0]!r}."
        )


def check_same_labels(new: np.ndarray, y: np.ndarray, name: str) -> None:
    """Raise ValueError where no label of `new` is in y: they are of another kind."""
    if len(new) and set(new.tolist()).isdisjoint(y.tolist()):
        few = f"such as {new.tolist()[0]!r}, is in y, which has {y.tolist()[0]!r}"
        raise ValueError(f"No label of {name}, {few}: give labels of the same kind.")


def check_labels(y: Any, n_rows: int) -> np.ndarray:
    """Return y as class numbers 0, 1, …; it must have two classes, and one label per row."""
    y = check_classes("fit", y, n_rows)
    classes, codes = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        there = f"one class, {classes.tolist()[0]!r}" if len(classes) else "no label"
        raise NoTripletError(
            f"No triplet can be built: y has {there}. At least 2 classes are needed; "
            "pass triplets= to give judgements directly."
        )
    return codes


def numbered_names(n_features: int, why: str) -> np.ndarray:
    """Return x0, x1, …; raise ValueError where so many names do not fit in memory.

    `why` says what needs them, as the start of the message.
    """
    needed = BYTES_PER_NAME * n_features
    free = memory.available()
    if free is not None and needed > free:
        raise ValueError(
            f"{why}: the names of {n_features} columns need about "
            f"{memory.format_bytes(needed)}, but only {memory.format_bytes(free)} are "
            "free."
        )
    return np.array([f"x{i}" for i in range(n_features)], dtype=object)


def check_comparisons(
    comparisons: Any, n_rows: int, name: str = "triplets", width: int | None = None
) -> np.ndarray:
    """Return comparisons as an int64 array of shape (n, 3) or (n, 4) whose rows exist.

    `name` is the parameter they came as. Without a `width` they are quadruplets if
    there are 4 columns, else triplets.
    """
    try:
        array = np.asarray(comparisons)
        shape = f"shape {array.shape}"
    except ValueError:
        array = np.empty(0)
        shape = "rows of unequal length"
    width = width or (4 if array.shape[1:] == (4,) else 3)
    kind = "triplet" if width == 3 else "quadruplet"
    matrix = "X_val" if "_val" in name else "X"
    if array.shape[1:] != (width,):
        columns = "of anchor, positive and negative", "a, b, c, d of S(a, b) > S(c, d)"
        raise ValueError(
            f"{name} must have shape (n_{kind}s, {width}): the row numbers "
            f"{columns[width - 3]}. Got {shape}."
        )
    if len(array) == 0:
        raise ValueError(f"{name} is empty: at least one {kind} is needed.")
    if not np.issubdtype(array.dtype, np.integer):
        raise ValueError(
            f"{name} must hold integers, row numbers of X. Got dtype {array.dtype}: "
            "convert with .astype(int) if the values are whole."
        )
    outside = np.argwhere((array < 0) | (array >= n_rows))
    if len(outside):
        t, column = outside[0]
        raise ValueError(
            f"{name}[{t}] names row {array[t, column]}, but {matrix} has {n_rows} "
            f"rows. {kind.capitalize()}s number the rows of {matrix} from 0."
        )
    pairs = (
        np.sort(array.reshape(-1, 2, 2), axis=2) if width == 4 else array[:, 1:, None]
    )
    same = np.flatnonzero((pairs[:, 0] == pairs[:, 1]).all(axis=1))
    if len(same):
        a, b = array[same[0], :2]
        raise ValueError(
            f"{name}[{same[0]}] compares the pair ({a}, {b}) with itself. Such {kind}s "
            f"say nothing: drop them ({len(same)} of {len(array)})."
        )
    return array.astype(np.int64, copy=False)


def check_weights(sample_weight: Any, n: int, unit: str) -> np.ndarray | None:
    """Return weights as a float64 vector of length n, non-negative and not all zero."""
    if sample_weight is None:
        return None
    weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.ndim == 0:
        weights = np.full(n, float(weights))
    if weights.shape != (n,):
        raise ValueError(
            f"sample_weight must have shape ({n},), one per {unit}. Got shape "
            f"{weights.shape}."
        )
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if len(bad):
        raise ValueError(
            f"sample_weight[{bad[0]}] is {weights[bad[0]]}: weights must be finite and "
            ">= 0."
        )
    if not weights.any():
        raise ValueError(
            "sample_weight is zero everywhere: at least one weight must be positive."
        )
    if not 1e-150 < weights.max() < 1e150:
        raise ValueError(
            f"The largest sample_weight is {weights.max():.3g}, but must be in "
            "(1e-150, 1e150). Only the ratios of weights matter: divide them by the "
            "largest."
        )
    return weights
