"""What a fit learns from: rows with labels or comparisons, checked once, and comparisons made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from . import triplets as triplets_module
from .input.comparisons import check_comparisons, check_weights
from .input.errors import NoTripletError, warn
from .input.labels import check_classes, check_labels, check_same_labels
from .input.matrices import check_matrix
from .labels import LabelSets, label_sets, ranks

METHODS = ("neighbors", "random")

#: Rows differ in length if the 95th percentile is this many times the 5th.
SPREAD = 3.0

#: Most of the held-out triplets, as a share, whose pairs may be learned from with other
#: anchors.
MOST_KNOWN = 0.25

#: Rows (anchor, positive, negative) or (a, b, c, d), and one weight for each or None.
Compared = tuple[np.ndarray, np.ndarray | None]


@dataclass(frozen=True)
class Supervision:
    """Rows, and labels or comparisons of them.

    Parameters
    ----------
    X : csr_array of shape (n_rows, n_features)
        As they are compared: at unit length where the model says so.
    y : ndarray of shape (n_rows,), LabelSets or None
        One label per row, or several.
    weights : ndarray of shape (n_rows,) or None
        Weights of labelled rows.
    compared : ndarray of shape (n, 3) or (n, 4), or None
        Triplets or quadruplets, given or made from the labels.
    compared_weights : ndarray of shape (n,) or None
    rows : ndarray of shape (n_rows,) or None
        The numbers of labelled rows that are a part of others.
    """

    X: sp.csr_array
    y: Any = None
    weights: Any = None
    compared: Any = None
    compared_weights: Any = None
    rows: Any = None

    @property
    def is_judged(self) -> bool:
        """Whether there are judgements only, no labels."""
        return self.y is None

    @property
    def codes(self) -> np.ndarray:
        """Class numbers of the labels; rows with the same ones of several are a class."""
        if isinstance(self.y, LabelSets):
            return self.y.codes
        return np.unique(self.y, return_inverse=True)[1]

    @property
    def anchors(self) -> np.ndarray:
        """The rows that comparisons start from, sorted."""
        return np.flatnonzero(
            np.bincount(self.compared[:, 0], minlength=self.X.shape[0])
        )

    @classmethod
    def check(
        cls,
        owner: str,
        X: sp.csr_array,
        y: Any = None,
        *,
        triplets: Any = None,
        quadruplets: Any = None,
        sample_weight: Any = None,
    ) -> Supervision:
        """Return what was given to ``fit``, checked; X is checked already."""
        n_rows = X.shape[0]
        if triplets is not None and quadruplets is not None:
            raise ValueError(
                "fit takes triplets or quadruplets, but got both. A triplet (a, p, q) "
                "is the quadruplet (a, p, a, q): pass all judgements as quadruplets."
            )
        if triplets is not None or quadruplets is not None:
            kind, width = ("triplet", 3) if quadruplets is None else ("quadruplet", 4)
            given = triplets if quadruplets is None else quadruplets
            compared = check_comparisons(given, n_rows, f"{kind}s", width)
            weights = check_weights(sample_weight, len(compared), kind)
            return cls(X, compared=compared, compared_weights=weights)
        if y is None:
            raise ValueError(
                f"{owner} requires y to be passed, but the target y is None. Give "
                "labels, fit(X, y), or judgements, fit(X, triplets=T) or fit(X, "
                "quadruplets=Q)."
            )
        weights = check_weights(sample_weight, n_rows, "row of X")
        if (sets := label_sets(y)) is not None:
            return cls(X, sets.check(X).check_differ(), weights)
        check_labels(y, n_rows)
        return cls(X, np.asarray(y).ravel(), weights)

    def check_validation(
        self, owner: Any, X_val: Any, y_val: Any, triplets_val: Any
    ) -> Supervision | None:
        """Return validation data, checked, with the same features; None where none are given."""
        given = {"X_val": X_val, "y_val": y_val, "triplets_val": triplets_val}
        came = [name for name, value in given.items() if value is not None]
        if not came:
            return None
        if X_val is None or (y_val is None) == (triplets_val is None):
            raise ValueError(
                "Validation data are X_val with y_val, or X_val with triplets_val. Got "
                f"{' and '.join(came)}."
            )
        X = sp.csr_array(check_matrix(owner, X_val, reset=False, name="X_val"))
        X = X.astype(np.float64, copy=False)
        if triplets_val is not None:
            compared = check_comparisons(triplets_val, X.shape[0], "triplets_val")
            return Supervision(X, compared=compared)
        if self.is_judged:
            raise ValueError(
                "y_val needs labels of X to vote with, but fit was given judgements. "
                "Pass triplets_val=, judgements of the rows of X_val."
            )
        sets = label_sets(y_val)
        several = isinstance(self.y, LabelSets)
        is_plain = sets is None or (
            not several and (sets.size == 1).all()
        )  # a column of labels
        if several == is_plain:
            raise ValueError(
                "y and y_val must both have one label per row, or both several."
            )
        if sets is not None and several:
            return Supervision(X, sets.check(X, "_val"))
        y = check_classes("fit", np.ravel(y_val), X.shape[0], "_val")
        check_same_labels(y, self.y, "y_val")
        return Supervision(X, y)

    def take(self, rows: np.ndarray) -> Supervision:
        """Return the rows with their labels, or with the comparisons that lie inside them."""
        if not self.is_judged:
            weights = None if self.weights is None else self.weights[rows]
            numbers = rows if self.rows is None else self.rows[rows]
            return Supervision(self.X[rows], self.y[rows], weights, rows=numbers)
        part = self.with_compared(np.asarray(np.isin(self.compared, rows).all(axis=1)))
        compared = triplets_module.restrict(part.compared, rows, self.X.shape[0])
        return replace(part, X=self.X[rows], compared=compared)

    def with_compared(self, chosen: np.ndarray) -> Supervision:
        """Return the same rows with some of the comparisons."""
        weights = (
            None if self.compared_weights is None else self.compared_weights[chosen]
        )
        return replace(self, compared=self.compared[chosen], compared_weights=weights)

    def counts(self) -> bool:
        """Return whether there is a row with a label, or a comparison, of positive weight."""
        weights = self.compared_weights if self.is_judged else self.weights
        n = len(self.compared if self.is_judged else self.y)
        return bool(n if weights is None else weights.any())


# --- comparisons from labels ----------------------------------------------------------


class Mining(NamedTuple):
    """How comparisons are made from labels; the parameters of ``HDSL`` by these names."""

    mining: str | Callable[..., np.ndarray] = "neighbors"
    n_targets: int = 10
    n_impostors: int = 10
    max_anchors: int | None = None
    n_jobs: int | None = None
    device: str = "cpu"
    memory_limit: float | str | None = "auto"

    @classmethod
    def of(cls, model: Any) -> Mining:
        """Return how a model makes comparisons; what it has no parameter for is the default."""
        given = {
            name: getattr(model, name) for name in cls._fields if hasattr(model, name)
        }
        return cls(**given)


def compare(how: Mining, data: Supervision, rng: np.random.Generator) -> Supervision:
    """Return rows with comparisons: those given, or those made from the labels.

    Beyond `max_anchors` rows the comparisons are of a sample of the rows, and so is the
    result.
    """
    if data.compared is not None:
        return data
    if not callable(how.mining):
        data = (
            data.take(rows)
            if (rows := sample_rows(how, data, rng)) is not None
            else data
        )
    made, weights = _make(how, data, rng)
    return replace(data, compared=made, compared_weights=weights)


def sample_rows(
    how: Mining, data: Supervision, rng: np.random.Generator
) -> np.ndarray | None:
    """Return the rows that are compared, sorted; None where all are.

    Rows of weight 0 are not. Of more than `max_anchors` rows each class has its share.
    A class whose share is too small for its rows to have target neighbours is in the
    sample with rows enough for that, or not at all.
    """
    n_all = data.X.shape[0]
    rows = np.arange(n_all) if data.weights is None else np.flatnonzero(data.weights)
    n = len(rows)
    limit = how.max_anchors or len(rows)
    if n == n_all and n <= limit:
        return None
    codes = np.unique(data.codes[rows], return_inverse=True)[1]
    if n < n_all and not codes.any():
        raise NoTripletError(
            "No triplet can be built: sample_weight is 0 in all classes but one."
        )
    if n <= limit:
        return rows
    size = np.bincount(codes)
    rank = ranks(codes, np.argsort(rng.random(n)))
    share = limit / n * size
    least = np.minimum(size, how.n_targets + 1)
    # Shares are rounded so that they add up: a running sum crosses a whole number or
    # not.
    classes = rng.permutation(len(size))
    units = np.where(share < least, share / least, share)[classes]
    crossed = np.diff(np.floor(np.cumsum(units) + rng.random()), prepend=0.0)
    wanted = np.empty(len(size), dtype=np.int64)
    wanted[classes] = crossed.astype(np.int64)
    wanted = np.where(share < least, wanted * least, np.maximum(wanted, least))
    if np.count_nonzero(wanted) < 2:  # of one class nothing can be compared
        largest = np.argsort(-size, kind="stable")[:2]
        wanted[largest] = least[largest]
    return rows[rank < wanted[codes]]


def _make(how: Mining, data: Supervision, rng: np.random.Generator) -> Compared:
    """Return comparisons of rows by their labels, and their weights."""
    X = data.X
    y = data.y
    weights = data.weights
    several = isinstance(y, LabelSets)
    if callable(how.mining):
        made = how.mining(X, y.as_given() if several else y, rng)
        made = check_comparisons(made, X.shape[0], width=3)
        of_anchors = None if weights is None else weights[made[:, 0]]
        if of_anchors is not None and not of_anchors.any():
            raise NoTripletError(
                "All triplets have an anchor of weight 0: give a positive "
                "sample_weight to some row that has a neighbour of its own class."
            )
        return made, of_anchors
    if how.mining == "random":
        rows = np.arange(X.shape[0]) if weights is None else np.flatnonzero(weights)
        n_per_row = how.n_targets * how.n_impostors
        if several:
            made, degree = triplets_module.random_shared_triplets(
                y[rows], n_per_row, rng
            )
            made = rows[made]
            return made, degree if weights is None else degree * weights[made[:, 0]]
        seed = int(rng.integers(2**31 - 1))
        made = rows[
            triplets_module.random_triplets(y[rows], n_per_row, random_state=seed)
        ]
        return made, None if weights is None else weights[made[:, 0]]
    # Equal rows are one point that counts several times: as neighbours of each other
    # they would crowd out the others and say nothing.
    codes = data.codes
    rows, weight = triplets_module.distinct_rows(
        triplets_module.row_keys(X), codes, weights
    )
    options: Any = {
        "n_jobs": how.n_jobs,
        "device": how.device,
        "memory_limit": how.memory_limit,
    }
    given = X[rows], y[rows], how.n_targets, how.n_impostors
    if several:
        made, degree = triplets_module.shared_label_triplets(*given, **options)
        return rows[made], degree * weight[made[:, 0]]
    n_rows = len(codes) if weights is None else np.count_nonzero(weights)
    if n_rows > len(rows) and np.bincount(codes[rows]).max() == 1:
        raise NoTripletError(
            "No triplet can be built: the rows of each class are equal, at unit "
            "length with norm='l2', so no row has another one of its class to compare "
            "with. Pass triplets= to give judgements directly."
        )
    made = triplets_module.neighbor_triplets(*given, **options)
    weight = weight[made[:, 0]]
    return rows[made], None if (weight == weight[0]).all() else weight


# --- parts to learn from and parts to choose by ---------------------------------------


def split_rows(
    data: Supervision, n_folds: int, rng: np.random.Generator
) -> Iterator[tuple[Supervision, Supervision]]:
    """Yield folds of labelled rows, to learn from and to hold out; each class gives its share.

    A row of weight 0 is absent, and one of a class of one row always trains.
    """
    data = data if data.weights is None else data.take(np.flatnonzero(data.weights))
    n = data.X.shape[0]
    codes, is_split = _splittable(data)
    order = np.lexsort((rng.random(n), codes))
    order = order[is_split[order]]
    fold = np.full(n, -1)
    fold[order] = np.arange(len(order)) % n_folds  # consecutive along the classes
    for k in range(n_folds):
        yield data.take(np.flatnonzero(fold != k)), data.take(np.flatnonzero(fold == k))


def count_splittable(data: Supervision) -> int:
    """Return how many labelled rows may be held out in one of the folds."""
    return int(np.count_nonzero(_splittable(data)[1]))


def _splittable(data: Supervision) -> tuple[np.ndarray, np.ndarray]:
    """Return class numbers, and which rows have a weight and share their class with another."""
    codes = data.codes
    present = (
        np.ones(len(codes), dtype=bool) if data.weights is None else data.weights > 0
    )
    size = np.bincount(codes[present], minlength=codes.max() + 1)
    return codes, present & (size[codes] > 1)


def split_anchors(
    data: Supervision, n_folds: int, rng: np.random.Generator
) -> Iterator[tuple[Supervision, Supervision]]:
    """Yield the comparisons to learn from and those to hold out, for folds of the rows.

    Triplets with a held-out anchor are held out, and quadruplets with a held-out row in
    both pairs: a new row is compared with any others, as in use. The other triplets are
    learned from, and the quadruplets without a held-out row. A held-out triplet whose
    two pairs are learned from with other anchors measures nothing; where many are such,
    rows are held out of all triplets.
    """
    compared = data.compared
    n_rows = data.X.shape[0]
    anchors = compared[:, :1]
    others = compared[:, 1:]
    pairs = np.minimum(anchors, others) * n_rows + np.maximum(anchors, others)
    fold = rng.permutation(n_rows) % n_folds
    for k in range(n_folds):
        held = (fold == k)[compared]
        validates = held[:, 0]
        trains = ~held.any(axis=1)
        if compared.shape[1] == 4:
            validates = held[:, :2].any(axis=1) & held[:, 2:].any(axis=1)
        else:
            is_known = np.isin(pairs, pairs[~validates]).all(axis=1)
            if np.sum(is_known & validates) <= MOST_KNOWN * np.sum(validates):
                validates, trains = validates & ~is_known, ~validates
        yield data.with_compared(trains), data.with_compared(validates)


def warn_of_lengths(X: sp.csr_array) -> None:
    """Warn of rows of very different length that are compared as they are."""
    squares = np.asarray(X.multiply(X).sum(axis=1)).ravel()
    if not squares.any():
        return
    low, high = np.sqrt(np.percentile(squares[squares > 0], [5, 95]))
    if high > SPREAD * low:
        warn(
            f"Rows differ in length: 5 % are shorter than {low:.3g} and 5 % longer "
            f"than {high:.3g}. Long rows then look similar to everything: use "
            "norm='l2', or scale X."
        )
