"""Rows with one label each, and rows with several."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from .. import triplets as triplets_module
from ..files.checkpoint import digest
from ..input.errors import NoTripletError
from ..input.labels import check_classes, check_comparisons, check_same_labels
from ..labels import label_sets, ranks
from ..triplets.grades import group_numbers
from .compared_rows import ComparedRows, Miner, Supervision, with_columns

#: Most neighbours of one kind per row that a choice learns from: they tell priors apart
#: at half the time.
MOST_MINED = 5

#: A choice by fewer held-out rows is not made.
FEW_ROWS = 50

#: Triplets, and one weight for each or None.
WeightedTriplets = tuple[np.ndarray, np.ndarray | None]


@dataclass(frozen=True)
class LabeledRows(Supervision):
    """Rows with one label each.

    Parameters
    ----------
    X : csr_array of shape (n_rows, n_features)
    y : ndarray of shape (n_rows,)
    weights : ndarray of shape (n_rows,) or None
        One per row.
    rows : ndarray of shape (n_rows,) or None
        The numbers of the rows where they are a sample of others.
    groups : ndarray of shape (n_rows,) or None
        Numbers of groups that are held out together; None: each row is one.
    """

    X: sp.csr_array
    y: Any
    weights: np.ndarray | None = None
    rows: np.ndarray | None = None
    groups: np.ndarray | None = None

    @property
    def codes(self) -> np.ndarray:
        """Class numbers of the labels."""
        return np.unique(self.y, return_inverse=True)[1]

    def rows_that_count(self) -> sp.csr_array:
        """Return the rows of positive weight."""
        if self.weights is None or self.weights.all():
            return self.X
        return self.X[self.weights > 0]

    def take(self, rows: np.ndarray) -> Any:
        """Return some rows with their labels."""
        weights = None if self.weights is None else self.weights[rows]
        numbers = rows if self.rows is None else self.rows[rows]
        groups = None if self.groups is None else self.groups[rows]
        return type(self)(self.X[rows], self.y[rows], weights, numbers, groups)

    def sample(self, n_units: int, rng: np.random.Generator) -> Any:
        """Return at most so many rows, of each class its share."""
        return self._sample_to_compare(Miner(max_anchors=n_units), rng)

    def _sample_to_compare(self, miner: Miner, rng: np.random.Generator) -> Any:
        """Return the rows that are compared: those of positive weight, and not too many."""
        rows = sample_rows(
            self.codes, self.weights, miner.max_anchors, miner.n_targets, rng
        )
        return self if rows is None else self.take(rows)

    # --- comparisons ------------------------------------------------------------------

    def compare(self, miner: Miner, rng: np.random.Generator) -> ComparedRows:
        """Return rows with the comparisons that their labels make.

        Beyond `max_anchors` rows the comparisons are of a sample of the rows, and so is
        the result.
        """
        if callable(miner.mining):
            data = self
            triplets, weights = self._triplets_by_function(miner.mining, rng)
        else:
            data = self._sample_to_compare(miner, rng)
            if miner.mining == "random":
                n_per_row = miner.n_targets * miner.n_impostors
                triplets, weights = data._random_triplets(n_per_row, rng)
            else:
                triplets, weights = data._neighbor_triplets(miner)
        return ComparedRows(data.X, triplets, weights, data.rows, is_mined=True)

    def labels_as_given(self) -> Any:
        """Return the labels in the form in which the user gave them."""
        return self.y

    def _triplets_by_function(
        self, make_triplets: Any, rng: np.random.Generator
    ) -> WeightedTriplets:
        """Return the triplets that a function of the user makes, checked."""
        comparisons = make_triplets(self.X, self.labels_as_given(), rng)
        triplets = check_comparisons(comparisons, self.X.shape[0], width=3)
        if self.weights is None:
            return triplets, None
        weights = self.weights[triplets[:, 0]]
        if not weights.any():
            raise NoTripletError(
                "All triplets have an anchor of weight 0: give a positive "
                "sample_weight to some row that has a neighbour of its own class."
            )
        return triplets, weights

    def _random_triplets(
        self, n_per_row: int, rng: np.random.Generator
    ) -> WeightedTriplets:
        """Return random triplets of the rows of positive weight."""
        rows = self._weighted_rows()
        seed = int(rng.integers(2**31 - 1))
        triplets = rows[
            triplets_module.random_triplets(self.y[rows], n_per_row, random_state=seed)
        ]
        weights = None if self.weights is None else self.weights[triplets[:, 0]]
        return triplets, weights

    def _weighted_rows(self) -> np.ndarray:
        """Return the rows of positive weight."""
        if self.weights is None:
            return np.arange(self.X.shape[0])
        return np.flatnonzero(self.weights)

    def _neighbor_triplets(self, miner: Miner) -> WeightedTriplets:
        """Return triplets of neighbors, and their weights."""
        rows, weights = self._distinct_rows()
        self._check_distinct(rows)
        triplets = triplets_module.neighbor_triplets(
            self.X[rows],
            self.y[rows],
            miner.n_targets,
            miner.n_impostors,
            **miner.search_options,
        )
        of_anchors = weights[triplets[:, 0]]
        if (of_anchors == of_anchors[0]).all():
            return rows[triplets], None
        return rows[triplets], of_anchors

    def _distinct_rows(self) -> tuple[np.ndarray, np.ndarray]:
        """Return one row for all equal ones of a class, and their weight together.

        Equal rows are one point that counts several times: as neighbors of each other
        they would crowd out the others and say nothing.
        """
        keys = triplets_module.row_keys(self.X)
        return triplets_module.distinct_rows(keys, self.codes, self.weights)

    def _check_distinct(self, rows: np.ndarray) -> None:
        """Raise NoTripletError where the rows of each class are all equal."""
        codes = self.codes
        if len(self._weighted_rows()) <= len(rows):
            return
        if np.bincount(codes[rows]).max() == 1:
            raise NoTripletError(
                "No triplet can be built: the rows of each class are equal, at unit "
                "length with norm='l2', so no row has a different row of its class "
                "to compare with. Pass triplets= to give judgements directly."
            )

    # --- holding out ------------------------------------------------------------------

    @property
    def n_comparisons(self) -> int:
        """Number of comparisons that a choice makes: 5 times 5 per row."""
        return MOST_MINED**2 * int(self.X.shape[0])

    def with_fewer(self, n_most: int, rng: np.random.Generator) -> Any:
        """Return the rows as they are: fewer are mined."""
        return self

    def present(self) -> Any:
        """Return the rows that have a weight."""
        if self.weights is None or self.weights.all():
            return self
        return self.take(self._weighted_rows())

    def reordered(self, rows: np.ndarray, columns: np.ndarray) -> Any:
        """Return the same data with rows and columns in another order, labels as numbers."""
        data = self.take(rows)
        X = with_columns(data.X, columns)
        return replace(data, X=X, y=self._plain_labels(data.y))

    def _plain_labels(self, y: Any) -> Any:
        """Return numbers of labels by first appearance: no name says anything."""
        return group_numbers(y)

    def unit_rows(self) -> np.ndarray:
        """Return the numbers of all rows."""
        return np.arange(self.X.shape[0])

    def units(self, keys: np.ndarray) -> np.ndarray:
        """Return numbers of units: rows of one group are one, and equal rows."""
        return groups_and_equals(self.groups, keys)

    def classes_of_units(self) -> np.ndarray:
        """Return the class of each row."""
        return self.codes

    def is_enough(self, n_units: int) -> bool:
        """Return whether enough rows may be held out, of several units."""
        n_rows = int(np.count_nonzero(self._may_be_held_out()))
        return n_units > 1 and n_rows >= FEW_ROWS

    def _may_be_held_out(self) -> np.ndarray:
        """Return which rows have a weight and share their class with another."""
        codes = self.codes
        has_weight = np.zeros(len(codes), dtype=bool)
        has_weight[self._weighted_rows()] = True
        sizes = np.bincount(codes[has_weight], minlength=codes.max() + 1)
        return has_weight & (sizes[codes] > 1)

    def split(self, is_held_out: np.ndarray) -> tuple[Any, Any, np.ndarray]:
        """Return the rows to learn from and those held out; a row of weight 0 is absent.

        A row that is alone in its class is nothing to hold out.
        """
        held_out = np.flatnonzero(is_held_out & self._may_be_held_out())
        is_absent = np.ones(self.X.shape[0], dtype=bool)
        is_absent[self._weighted_rows()] = False
        train = np.flatnonzero(~is_held_out & ~is_absent)
        return self.take(train), self.take(held_out), held_out

    def can_teach(self) -> bool:
        """Return whether there are two classes."""
        return self.can_judge() and len(np.unique(self.codes)) > 1

    def can_judge(self) -> bool:
        """Return whether a row has a positive weight."""
        return len(self._weighted_rows()) > 0

    # --- validation data --------------------------------------------------------------

    def check_validation(self, X: sp.csr_array, y_val: Any) -> LabeledRows:
        """Return validation rows with one label each, checked."""
        sets = label_sets(y_val)
        is_column = sets is not None and (sets.size == 1).all()
        if sets is not None and not is_column:
            raise ValueError(ONE_OR_SEVERAL)
        y = check_classes("fit", np.ravel(y_val), X.shape[0], "_val")
        check_same_labels(y, self.y, "y_val")
        return LabeledRows(X, y)

    def fingerprint(self) -> dict[str, str]:
        """Return a digest of the labels and their weights."""
        return digest(self.y, self.weights, self.groups)


#: Where labels to learn from and labels to validate with are of two kinds.
ONE_OR_SEVERAL = "y and y_val must both have one label per row, or both several."


@dataclass(frozen=True)
class LabelSetRows(LabeledRows):
    """Rows with several labels each: rows that share more of them are more alike.

    Parameters are those of `LabeledRows`; `y` is a `LabelSets`.
    """

    @property
    def codes(self) -> np.ndarray:
        """Class numbers: rows with the same labels are a class."""
        return self.y.codes

    def labels_as_given(self) -> Any:
        """Return the labels in the form in which the user gave them."""
        return self.y.as_given()

    def _random_triplets(
        self, n_per_row: int, rng: np.random.Generator
    ) -> WeightedTriplets:
        """Return random triplets, each with the weight of its degree."""
        rows = self._weighted_rows()
        numbers, degrees = triplets_module.random_shared_triplets(
            self.y[rows], n_per_row, rng
        )
        triplets = rows[numbers]
        if self.weights is None:
            return triplets, degrees
        return triplets, degrees * self.weights[triplets[:, 0]]

    def _neighbor_triplets(self, miner: Miner) -> WeightedTriplets:
        """Return triplets of neighbors, each with the weight of its degree."""
        rows, weights = self._distinct_rows()
        triplets, degrees = triplets_module.shared_label_triplets(
            self.X[rows],
            self.y[rows],
            miner.n_targets,
            miner.n_impostors,
            **miner.search_options,
        )
        return rows[triplets], degrees * weights[triplets[:, 0]]

    def _plain_labels(self, y: Any) -> Any:
        """Return the labels: as columns they have no names that matter."""
        return y

    def check_validation(self, X: sp.csr_array, y_val: Any) -> LabelSetRows:
        """Return validation rows with several labels each, checked."""
        sets = label_sets(y_val)
        if sets is None:
            raise ValueError(ONE_OR_SEVERAL)
        return LabelSetRows(X, sets.check(X, "_val"))

    def fingerprint(self) -> dict[str, str]:
        """Return a digest of the labels and their weights."""
        return digest(self.y.indicator, self.weights, self.groups)


def sample_rows(
    codes: np.ndarray,
    weights: np.ndarray | None,
    limit: int | None,
    n_targets: int,
    rng: np.random.Generator,
) -> np.ndarray | None:
    """Return the rows that are compared, sorted; None where all are.

    Rows of weight 0 are not. Of more than `limit` rows each class has its share. A
    class whose share is too small for its rows to have target neighbors is in the
    sample with rows enough for that, or not at all.

    Parameters
    ----------
    codes : ndarray of int of shape (n_rows,)
        Class number of each row.
    weights : ndarray of shape (n_rows,) or None
    limit : int or None
        None is no limit.
    n_targets : int
        Rows of its own class that a row is compared with.
    rng : numpy.random.Generator
    """
    n_all = len(codes)
    rows = np.arange(n_all) if weights is None else np.flatnonzero(weights)
    n_rows = len(rows)
    limit = limit or n_rows
    if n_rows == n_all and n_rows <= limit:
        return None
    codes = np.unique(codes[rows], return_inverse=True)[1]
    if n_rows < n_all and not codes.any():
        raise NoTripletError(
            "No triplet can be built: sample_weight is 0 in all classes but one."
        )
    if n_rows <= limit:
        return rows
    class_sizes = np.bincount(codes)
    rank = ranks(codes, np.argsort(rng.random(n_rows)))
    sizes = _sample_sizes(class_sizes, limit, n_targets, rng)
    return rows[rank < sizes[codes]]


def _sample_sizes(
    class_sizes: np.ndarray, limit: int, n_targets: int, rng: np.random.Generator
) -> np.ndarray:
    """Return how many rows of each class a sample of `limit` rows has."""
    share = limit / class_sizes.sum() * class_sizes
    least = np.minimum(class_sizes, n_targets + 1)
    # Shares are rounded so that they add up: a running sum crosses a whole number or
    # not.
    classes = rng.permutation(len(class_sizes))
    units = np.where(share < least, share / least, share)[classes]
    crossed = np.diff(np.floor(np.cumsum(units) + rng.random()), prepend=0.0)
    sizes = np.empty(len(class_sizes), dtype=np.int64)
    sizes[classes] = crossed.astype(np.int64)
    sizes = np.where(share < least, sizes * least, np.maximum(sizes, least))
    # Rows of one class alone may judge; to compare, there must be two.
    if np.count_nonzero(sizes) < min(2, len(class_sizes)):
        largest = np.argsort(-class_sizes, kind="stable")[:2]
        sizes[largest] = least[largest]
    return sizes


def groups_and_equals(groups: np.ndarray | None, keys: np.ndarray) -> np.ndarray:
    """Return numbers of units that are held out as one: those of a group, and equal ones.

    Examples
    --------
    >>> groups_and_equals(np.array([0, 0, 1, 2]), np.array([7, 8, 8, 9])).tolist()
    [0, 0, 0, 1]
    """
    _, equals = np.unique(keys, return_inverse=True)
    if groups is None:
        return group_numbers(equals)
    n_groups = int(groups.max(initial=-1)) + 1
    n_nodes = n_groups + int(equals.max(initial=-1)) + 1
    ones = np.ones(len(groups))
    links = sp.coo_array((ones, (groups, n_groups + equals)), shape=(n_nodes, n_nodes))
    _, component = connected_components(links, directed=False)
    return group_numbers(component[groups])
