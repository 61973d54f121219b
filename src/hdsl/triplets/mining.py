"""Triplets from labels, mined among neighbours or drawn at random, and which rows are equal."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from .. import search
from ..input.errors import NoTripletError, warn
from ..input.labels import check_labels
from ..input.matrices import as_rows, canonical
from ..input.parameters import check_device, check_number, generator
from ..labels import LabelSets, label_sets
from ..rows import Rows, features_as_float64, sparse_block
from .rows import Judgements

#: What a pair of rows with the same labels gains over one that shares none, over the
#: largest |x|² of a row: labels decide first, then the inner product.
FIRST = 1e4


def neighbor_triplets(
    X: Any,
    y: Any,
    n_targets: int = 3,
    n_impostors: int = 5,
    *,
    similarity: Any = None,
    n_jobs: int | None = None,
    device: str = "cpu",
    memory_limit: float | str | None = "auto",
) -> np.ndarray:
    """Return, for each row, all pairs of a target neighbour and an impostor.

    Targets are the nearest rows of the same label, impostors the nearest of other
    labels, by inner product. Ties are broken by row number.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_rows, n_features)
    y : array-like of shape (n_rows,)
        Labels of at least two classes.
    n_targets, n_impostors : int
        Number per row. If a class is too small, all its rows are taken, with a warning.
    similarity : object, default=None
        Any object with a method ``transform(X)``, such as a fitted HDSL. Neighbours are
        found by the inner products of the transformed rows.
    n_jobs : int, default=None
        Number of threads.
    device, memory_limit
        Device of the search, as in ``hdsl.search.top_k``.

    Returns
    -------
    ndarray of shape (n_triplets, 3)
        n_targets * n_impostors triplets per row, in the order of the rows.

    Examples
    --------
    >>> X = [[1, 0], [2, 0], [0, 3], [1, 1]]
    >>> neighbor_triplets(X, ["a", "a", "b", "b"], n_targets=1, n_impostors=1).tolist()
    [[0, 1, 3], [1, 0, 3], [2, 3, 0], [3, 2, 1]]
    """
    owner = "neighbor_triplets"
    check_number(owner, "n_targets", n_targets, low=1, integer=True)
    check_number(owner, "n_impostors", n_impostors, low=1, integer=True)
    check_device(owner, device)
    if similarity is not None:
        if not callable(getattr(similarity, "transform", None)):
            raise TypeError(
                "similarity must have a transform(X) method, as a fitted HDSL does. "
                f"Got {similarity!r}."
            )
        if not hasattr(similarity, "feature_names_in_"):
            X = _matrix(X)  # one that was fitted on named columns needs them
        X = similarity.transform(X)
    X = _matrix(X)
    codes = check_labels(y, X.shape[0])
    warn_of_single_rows(y, codes)
    same, other = search.neighbors_by_label(
        X,
        codes,
        n_targets,
        n_impostors,
        n_jobs=n_jobs,
        device=device,
        memory_limit=memory_limit,
    )
    valid = (same.rows >= 0)[:, :, None] & (other.rows >= 0)[:, None, :]
    anchor, target, impostor = np.nonzero(valid)
    triplets = np.column_stack(
        [anchor, same.rows[anchor, target], other.rows[anchor, impostor]]
    )
    return check_not_empty(triplets)


def random_triplets(
    y: Any, n_per_row: int = 15, *, random_state: Any = None
) -> np.ndarray:
    """Return random triplets with a positive of the anchor's class and a negative of another.

    Parameters
    ----------
    y : array-like of shape (n_rows,)
    n_per_row : int, default=15
    random_state : int, RandomState or None, default=None

    Returns
    -------
    ndarray of shape (n_triplets, 3)
        `n_per_row` triplets for each row whose class has another row.

    Examples
    --------
    >>> random_triplets(["a", "a", "b", "b"], n_per_row=1, random_state=0)[:, 1].tolist()
    [1, 0, 3, 2]
    """
    check_number("random_triplets", "n_per_row", n_per_row, low=1, integer=True)
    if label_sets(y) is not None:
        raise ValueError("y has several labels per row: take shared_label_triplets.")
    codes = check_labels(y, np.size(y))
    warn_of_single_rows(y, codes)
    rng = generator(random_state)
    n = len(codes)
    by_class = np.argsort(codes, kind="stable")
    position = np.empty(n, dtype=np.int64)
    position[by_class] = np.arange(n)
    size = np.bincount(codes)[codes]
    start = np.searchsorted(codes[by_class], codes)
    anchor = np.repeat(np.flatnonzero(size > 1), n_per_row)
    # The positive skips the anchor itself, the negative the whole class.
    positive = start[anchor] + rng.integers(size[anchor] - 1)
    positive += positive >= position[anchor]
    negative = rng.integers(n - size[anchor])
    negative += np.where(negative >= start[anchor], size[anchor], 0)
    triplets = np.column_stack([anchor, by_class[positive], by_class[negative]])
    return check_not_empty(triplets)


def shared_label_triplets(
    X: Any,
    y: Any,
    n_targets: int = 10,
    n_impostors: int = 10,
    *,
    n_jobs: int | None = None,
    device: str = "cpu",
    memory_limit: float | str | None = "auto",
) -> Judgements:
    """Return comparisons of rows with several labels: those that share more are more alike.

    Targets of a row are the rows with the most similar labels, by cosine, and impostors
    those with the least similar ones; ties go to the nearest by inner product. A target
    is compared with each impostor, and with each target that shares less. Two rows
    share as much as the F1 score of their labels; the weight of a comparison is the
    difference of two such scores.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_rows, n_features)
    y : array or sparse matrix of shape (n_rows, n_labels), or list of lists
        1 if a row has a label, else 0; or the labels of each row.
    n_targets, n_impostors : int, default=10
        Number per row. Rows without a label have none.
    n_jobs, device, memory_limit
        As in ``hdsl.search.top_k``.

    Returns
    -------
    Judgements
        ``triplets`` and ``weights``.

    Examples
    --------
    >>> T, weights = shared_label_triplets(np.eye(3), [["a", "b"], ["a"], ["c"]], 1, 1)
    >>> T.tolist(), weights.round(2).tolist()
    ([[0, 1, 2], [1, 0, 2]], [0.67, 0.67])
    """
    owner = "shared_label_triplets"
    check_number(owner, "n_targets", n_targets, low=1, integer=True)
    check_number(owner, "n_impostors", n_impostors, low=1, integer=True)
    X = _matrix(X)
    sets = label_sets(y)
    if sets is None:
        raise ValueError(
            "y has one label per row: neighbor_triplets makes triplets of these."
        )
    sets.check(X).check_differ()
    weighted_labels = _weighted_labels(X, sets)
    index = search.Index(_side_by_side(X, weighted_labels))
    n_others = X.shape[0] - 1
    options: Any = {"n_jobs": n_jobs, "device": device, "memory_limit": memory_limit}
    targets = index.top_k(
        index.rows, min(n_targets, n_others), exclude_self=True, **options
    ).rows
    impostors = index.top_k(
        _side_by_side(X, -weighted_labels),
        min(n_impostors, n_others),
        exclude_self=True,
        **options,
    ).rows
    others = np.hstack([targets, impostors])
    difference = _differences(sets, targets, impostors)
    anchor, target, other = np.nonzero(difference > 0)
    triplets = np.column_stack([anchor, targets[anchor, target], others[anchor, other]])
    return Judgements(check_not_empty(triplets), difference[anchor, target, other])


def _side_by_side(X: Any, labels: sp.csr_array) -> Any:
    """Return rows with labels as further sparse columns."""
    if isinstance(X, Rows):
        return Rows(_side_by_side(X.sparse, labels), X.dense)
    return sp.csr_array(sp.hstack([X, labels], format="csr"))


def _weighted_labels(X: Any, sets: LabelSets) -> sp.csr_array:
    """Return the labels as columns that decide before the inner product of X does."""
    features = sparse_block(X)
    squares = np.asarray(features.multiply(features).sum(axis=1))
    if isinstance(X, Rows):
        squares = squares + np.einsum("ij,ij->i", X.dense, X.dense)
    largest = float(squares.max())
    if largest == 0.0:
        largest = 1.0
    indicator = sets.indicator
    values = np.repeat(1.0 / np.sqrt(np.maximum(sets.size, 1)), sets.size)
    values *= np.sqrt(FIRST * largest)
    return sp.csr_array((values, indicator.indices, indicator.indptr), indicator.shape)


def _differences(
    sets: LabelSets, targets: np.ndarray, impostors: np.ndarray
) -> np.ndarray:
    """Return how much more a row shares with a target than with another row.

    Returns
    -------
    ndarray of shape (n_rows, n_targets, n_targets + n_impostors)
        0 for rows without a label and for impostors that are targets too.
    """
    n_targets = targets.shape[1]
    degree = sets.shared_with(sets, np.hstack([targets, impostors]))
    difference = degree[:, :n_targets, None] - degree[:, None, :]
    is_target = (impostors[:, :, None] == targets[:, None, :]).any(axis=2)
    to_impostors = difference[:, :, n_targets:]
    to_impostors[np.repeat(is_target[:, None], n_targets, axis=1)] = 0.0
    difference[sets.size == 0] = 0.0
    return difference


def random_shared_triplets(
    sets: LabelSets, n_per_row: int, rng: np.random.Generator
) -> Judgements:
    """Return random comparisons: a row that shares a label, and any other that shares less."""
    of_row = sets.indicator
    of_label = sp.csc_array(sets.indicator)
    anchor = np.repeat(np.flatnonzero(sets.size), n_per_row)
    label = of_row.indices[of_row.indptr[anchor] + rng.integers(sets.size[anchor])]
    first = of_label.indptr[label]
    stop = of_label.indptr[label + 1]
    target = of_label.indices[first + rng.integers(stop - first)]
    other = rng.integers(len(sets), size=len(anchor))
    difference = sets.shared(anchor, target) - sets.shared(anchor, other)
    is_kept = (difference > 0) & (target != anchor) & (other != anchor)
    triplets = np.column_stack([anchor, target, other])[is_kept]
    return Judgements(check_not_empty(triplets), difference[is_kept])


def _matrix(X: Any) -> Any:
    """Return X as a canonical float64 CSR array; an embedding beside it as it is."""
    X = as_rows(X)
    if isinstance(X, Rows):
        return features_as_float64(X)
    if not sp.issparse(X):
        X = canonical(sp.csr_array(X))
    return X.astype(np.float64)


def warn_of_single_rows(y: Any, codes: np.ndarray) -> None:
    """Warn of classes whose only row cannot be an anchor."""
    single = np.flatnonzero(np.bincount(codes) == 1)
    if len(single):
        names = np.unique(np.asarray(y)).tolist()
        shown = ", ".join(repr(names[c]) for c in single[:5])
        if len(single) > 5:
            shown += f" and {len(single) - 5} more"
        warn(
            "There is one row only, or several that are equal, of class "
            f"{shown}: such a row has no other row to be near to, so it is only a negative."
        )


def check_not_empty(triplets: np.ndarray) -> np.ndarray:
    """Return triplets as int64; raise NoTripletError if there are none."""
    if len(triplets) == 0:
        raise NoTripletError(
            "No triplet can be built: every class of y has one row only, so no row "
            "has a neighbour of its own class. Pass triplets= to give judgements "
            "directly."
        )
    return triplets.astype(np.int64, copy=False)


#: Entries of X that are hashed at a time, so that they stay in the cache.
BLOCK = 1 << 16


#: A key has two words. Each begins with a constant of its own, as a hash does not
#: depend on the other.
SEEDS = np.array([0x9E3779B97F4A7C15, 0xD1B54A32D192ED03], dtype=np.uint64)


def row_keys(X: sp.csr_array | Rows) -> np.ndarray:
    """Return a key of 128 bits per row: equal for equal rows, and different for others.

    Each entry is hashed with its column, and a key is the sum of these hashes, so that
    the order of the entries does not matter. Two of a billion different rows have the
    same key with a probability of about 10^-21.

    Parameters
    ----------
    X : csr_array or Rows of shape (n_rows, n_columns)
        Canonical: no duplicates, no stored zeros. The number of columns does not
        matter.

    Returns
    -------
    ndarray of uint64 of shape (n_rows, 2)

    Examples
    --------
    >>> X = sp.csr_array(([1.0, 1.0, 1.0], ([0, 1, 2], [5, 5 + 2**32, 5])))
    >>> keys = row_keys(X)
    >>> (keys[0] == keys[1]).any(), (keys[0] == keys[2]).all()
    (np.False_, np.True_)
    """
    if isinstance(X, Rows):
        return row_keys(X.sparse) + _dense_keys(X.dense, X.sparse.shape[1])
    keys = np.zeros((X.shape[0], len(SEEDS)), dtype=np.uint64)
    n_entries = int(X.indptr[-1])
    ends = np.searchsorted(X.indptr, np.arange(BLOCK, n_entries, BLOCK), side="right")
    bounds = np.unique(np.concatenate([[0], ends, [X.shape[0]]]))
    for start, stop in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        ptr = X.indptr[start : stop + 1]
        is_full = ptr[1:] > ptr[:-1]
        if not is_full.any():
            continue
        entries = slice(ptr[0], ptr[-1])
        columns = X.indices[entries].astype(np.uint64)
        values = X.data[entries].astype(np.float64).view(np.uint64)
        first = ptr[:-1][is_full] - ptr[0]
        rows = start + np.flatnonzero(is_full)
        for k, seed in enumerate(SEEDS):
            hashes = mixed(mixed(columns + seed) ^ values)
            keys[rows, k] = np.add.reduceat(hashes, first)
    return keys


def _dense_keys(dense: np.ndarray, first_column: int) -> np.ndarray:
    """Return the keys of the rows of an embedding whose columns follow other ones."""
    n_rows, width = dense.shape
    keys = np.zeros((n_rows, len(SEEDS)), dtype=np.uint64)
    columns = first_column + np.arange(width, dtype=np.uint64)
    n_at_once = max(1, BLOCK // max(1, width))
    for k, seed in enumerate(SEEDS):
        hashed_columns = mixed(columns + seed)
        for start in range(0, n_rows, n_at_once):
            rows = slice(start, start + n_at_once)
            # Zero has one sign.
            values = (dense[rows].astype(np.float64) + 0.0).view(np.uint64)
            keys[rows, k] = mixed(hashed_columns ^ values).sum(axis=1, dtype=np.uint64)
    return keys


def mixed(words: np.ndarray) -> np.ndarray:
    """Return numbers of 64 bits whose bits each depend on all bits of the given ones.

    This is the finisher of splitmix64 (Steele, Lea and Flood, 2014). It is one to one.
    """
    words = words ^ (words >> np.uint64(30))
    words *= np.uint64(0xBF58476D1CE4E5B9)
    words ^= words >> np.uint64(27)
    words *= np.uint64(0x94D049BB133111EB)
    words ^= words >> np.uint64(31)
    return words


def distinct_rows(
    keys: np.ndarray, labels: np.ndarray, weights: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the first of each group of equal rows with equal labels, and the weight of each group.

    Rows of weight 0 are left out. Without weights each row weighs 1, so the weight of a
    group is the number of its rows.

    Parameters
    ----------
    keys : ndarray of shape (n_rows, 2)
        Those of `row_keys`.
    labels : ndarray of shape (n_rows,)
    weights : ndarray of shape (n_rows,) or None

    Examples
    --------
    >>> keys = np.array([[7, 7], [4, 4], [7, 7]], dtype=np.uint64)
    >>> rows, weights = distinct_rows(keys, np.array([0, 0, 0]), None)
    >>> rows.tolist(), weights.tolist()
    ([0, 1], [2.0, 1.0])
    """
    if weights is None:
        rows = np.arange(len(keys))
        weights = np.ones(len(keys))
    else:
        rows = np.flatnonzero(weights)
        weights = weights[rows]
    columns = [labels[rows], keys[rows, 1], keys[rows, 0]]
    order = np.lexsort(columns)  # stable: the first of a group leads it
    is_new = np.ones(len(rows), dtype=bool)
    is_new[1:] = False
    for column in columns:
        is_new[1:] |= np.diff(column[order]) != 0
    group = np.empty(len(rows), dtype=np.int64)
    group[order] = np.cumsum(is_new) - 1
    first = order[is_new]
    by_appearance = np.argsort(first)
    return rows[first[by_appearance]], np.bincount(group, weights)[by_appearance]
