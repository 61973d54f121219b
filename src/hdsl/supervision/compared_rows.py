"""What each kind of supervision can do, and rows with comparisons of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from .. import triplets as triplets_module
from ..files.checkpoint import digest
from ..rows import Rows
from ..triplets import Judgements
from ..triplets.grades import group_numbers

METHODS = ("neighbors", "random")


class Miner(NamedTuple):
    """Makes comparisons from labels, by the parameters of `hdsl.Mining` and on a machine."""

    mining: str | Callable[..., np.ndarray] = "neighbors"
    n_targets: int = 10
    n_impostors: int = 10
    max_anchors: int | None = None
    n_jobs: int | None = None
    device: str = "cpu"
    memory_limit: float | str | None = "auto"

    @classmethod
    def of(cls, model: Any) -> Miner:
        """Return how a model makes comparisons; what it has no parameter for is the default."""
        parameters = {
            name: getattr(model, name) for name in cls._fields if hasattr(model, name)
        }
        return cls(**parameters)

    @property
    def search_options(self) -> dict[str, Any]:
        """How neighbors are searched."""
        return {
            "n_jobs": self.n_jobs,
            "device": self.device,
            "memory_limit": self.memory_limit,
        }

    def with_at_most(self, n_neighbors: int) -> Miner:
        """Return the same with at most so many neighbors of each kind per row."""
        return self._replace(
            n_targets=min(self.n_targets, n_neighbors),
            n_impostors=min(self.n_impostors, n_neighbors),
        )


def with_columns(X: Any, columns: np.ndarray) -> Any:
    """Return rows with their features in another order; a dense block stays as it is."""
    if isinstance(X, Rows):
        return Rows(with_columns(X.sparse, columns), X.dense)
    reordered = sp.csr_array(X[:, columns])
    reordered.sort_indices()
    return reordered


class Supervision(ABC):
    """Rows, and what is known of them: labels, or comparisons.

    Attributes
    ----------
    X : csr_array or Rows of shape (n_rows, n_features)
        As they are compared: at unit length where the model says so.
    weights : ndarray or None
        One per label or per comparison; None is 1 for all.
    """

    X: sp.csr_array
    weights: np.ndarray | None

    @abstractmethod
    def rows_that_count(self) -> sp.csr_array:
        """Return the rows that something is known of."""

    @abstractmethod
    def compare(self, miner: Miner, rng: np.random.Generator) -> ComparedRows:
        """Return rows with comparisons: those that are known, or those that labels make."""

    @abstractmethod
    def sample(self, n_units: int, rng: np.random.Generator) -> Any:
        """Return at most so many rows, of each class its share, or so many anchors."""

    # --- holding out ------------------------------------------------------------------

    @property
    @abstractmethod
    def n_comparisons(self) -> int:
        """Number of comparisons, or of those that a choice makes of labels."""

    @abstractmethod
    def with_fewer(self, n_most: int, rng: np.random.Generator) -> Any:
        """Return at most so many of the comparisons; labels as they are."""

    @abstractmethod
    def present(self) -> Any:
        """Return what has a weight."""

    @abstractmethod
    def reordered(self, rows: np.ndarray, columns: np.ndarray) -> Any:
        """Return the same data with rows and columns in another order.

        Names of labels and the order of comparisons are lost too.
        """

    @abstractmethod
    def unit_rows(self) -> np.ndarray:
        """Return the row that each judged thing is about: a label's own, or the anchor."""

    @abstractmethod
    def units(self, keys: np.ndarray) -> np.ndarray:
        """Return numbers of units that are held out as one; equal rows have equal keys."""

    @abstractmethod
    def classes_of_units(self) -> np.ndarray | None:
        """Return the class of each judged thing, of which each turn holds out a share."""

    @abstractmethod
    def is_enough(self, n_units: int) -> bool:
        """Return whether enough is known to hold some of it out."""

    @abstractmethod
    def split(self, is_held_out: np.ndarray) -> tuple[Any, Any, np.ndarray]:
        """Return what is learned from, what is held out, and the numbers of the latter.

        A mask says which judged things are held out.
        """

    @abstractmethod
    def can_teach(self) -> bool:
        """Return whether comparisons can be made of it, as far as is known beforehand."""

    @abstractmethod
    def can_judge(self) -> bool:
        """Return whether a label or a comparison of it has a positive weight."""

    @abstractmethod
    def check_validation(self, X: sp.csr_array, y_val: Any) -> Supervision:
        """Return rows with labels like these, checked; raise ValueError if they differ."""

    @abstractmethod
    def fingerprint(self) -> dict[str, str]:
        """Return a digest of the labels or comparisons and their weights."""


#: Most of the held-out triplets, as a share, whose pairs may be learned from with other
#: anchors.
MOST_KNOWN = 0.25

#: Most comparisons per anchor of a sample, in the mean.
MOST_PER_ANCHOR = 100

#: A choice by fewer anchors (or groups) and comparisons is not made.
FEW_ANCHORS = 20

FEW_COMPARISONS = 100


@dataclass(frozen=True)
class ComparedRows(Supervision):
    """Rows with comparisons of them.

    Parameters
    ----------
    X : csr_array of shape (n_rows, n_features)
    compared : ndarray of shape (n, 3) or (n, 4)
        Triplets or quadruplets.
    weights : ndarray of shape (n,) or None
        One per comparison.
    rows : ndarray of shape (n_rows,) or None
        The numbers of the rows where they are a sample of others.
    is_mined : bool
        Whether the comparisons were made from labels.
    groups : ndarray of shape (n,) or None
        Numbers of groups that are held out together; None: anchors.
    judgements : Judgements or None
        What people said, where more than comparisons is known.
    documents : ndarray of int or None
        Rows that a search may show, sorted, where that is known.
    """

    X: sp.csr_array
    compared: np.ndarray
    weights: np.ndarray | None = None
    rows: np.ndarray | None = None
    is_mined: bool = False
    groups: np.ndarray | None = None
    judgements: Judgements | None = None
    documents: np.ndarray | None = None

    @property
    def anchors(self) -> np.ndarray:
        """The rows that comparisons start from, sorted."""
        return np.flatnonzero(
            np.bincount(self.compared[:, 0], minlength=self.X.shape[0])
        )

    def rows_that_count(self) -> sp.csr_array:
        """Return all rows."""
        return self.X

    def compare(self, miner: Miner, rng: np.random.Generator) -> ComparedRows:
        """Return the rows and comparisons as they are."""
        return self

    def take(self, rows: np.ndarray) -> ComparedRows:
        """Return some rows, with the comparisons that lie inside them."""
        is_inside = np.isin(self.compared, rows).all(axis=1)
        inside = self.with_compared(np.asarray(is_inside))
        compared = triplets_module.restrict(inside.compared, rows, self.X.shape[0])
        numbers = None if self.rows is None else self.rows[rows]
        return replace(
            inside,
            X=self.X[rows],
            compared=compared,
            rows=numbers,
            documents=None,
            judgements=None,
        )

    def with_compared(self, chosen: np.ndarray) -> ComparedRows:
        """Return the same rows with some of the comparisons, chosen by a mask or by numbers."""
        weights = None if self.weights is None else self.weights[chosen]
        groups = None if self.groups is None else self.groups[chosen]
        compared = self.compared[chosen]
        return replace(self, compared=compared, weights=weights, groups=groups)

    def sample(self, n_units: int, rng: np.random.Generator) -> ComparedRows:
        """Return the comparisons of at most so many anchors, and the rows that they name."""
        anchors = self.anchors
        if len(anchors) <= n_units:
            return self.with_fewer(MOST_PER_ANCHOR * n_units, rng)
        is_chosen = np.zeros(self.X.shape[0], dtype=bool)
        is_chosen[rng.choice(anchors, n_units, replace=False)] = True
        data = self.with_compared(np.flatnonzero(is_chosen[self.compared[:, 0]]))
        data = data.with_fewer(MOST_PER_ANCHOR * n_units, rng)
        return data.take(np.unique(data.compared))

    def with_fewer(self, n_most: int, rng: np.random.Generator) -> ComparedRows:
        """Return at most so many of the comparisons that have a weight."""
        if self.weights is None:
            weighted = np.arange(len(self.compared))
        else:
            weighted = np.flatnonzero(self.weights)
        if len(weighted) <= n_most:
            return self
        chosen = rng.choice(weighted, n_most, replace=False)
        return self.with_compared(np.sort(chosen))

    # --- holding out ------------------------------------------------------------------

    @property
    def n_comparisons(self) -> int:
        """Number of comparisons."""
        return len(self.compared)

    def present(self) -> ComparedRows:
        """Return the comparisons that have a weight."""
        if self.weights is None or self.weights.all():
            return self
        return self.with_compared(np.flatnonzero(self.weights))

    def reordered(self, rows: np.ndarray, columns: np.ndarray) -> ComparedRows:
        """Return the same data with rows and columns in another order, and comparisons sorted."""
        position = np.empty(len(rows), dtype=np.int64)
        position[rows] = np.arange(len(rows))
        compared = position[self.compared]
        order = np.lexsort(compared.T[::-1])
        data = replace(self.with_compared(order), compared=compared[order])
        groups = data.groups
        if groups is not None:
            groups = group_numbers(groups)
        documents = self.documents
        if documents is not None:
            documents = np.sort(position[documents])
        judgements = self.judgements
        if judgements is not None:
            judgements = judgements.renumbered(position)
        return replace(
            data,
            X=with_columns(self.X[rows], columns),
            groups=groups,
            documents=documents,
            judgements=judgements,
        )

    def unit_rows(self) -> np.ndarray:
        """Return the anchor of each comparison."""
        return self.compared[:, 0]

    def units(self, keys: np.ndarray) -> np.ndarray:
        """Return numbers of units: comparisons of a group, else of equal anchors.

        Groups may compare the same rows, as users do items.
        """
        if self.groups is not None:
            return group_numbers(self.groups)
        return group_numbers(keys[self.compared[:, 0]])

    def classes_of_units(self) -> None:
        """Return None: comparisons have no classes."""
        return

    def is_enough(self, n_units: int) -> bool:
        """Return whether there are enough anchors and comparisons to hold some out."""
        return n_units >= FEW_ANCHORS and len(self.compared) >= FEW_COMPARISONS

    def split(
        self, is_held_out: np.ndarray
    ) -> tuple[ComparedRows, ComparedRows, np.ndarray]:
        """Return the comparisons to learn from and those held out.

        Triplets of a held-out anchor are held out, and quadruplets with a held-out row
        in both pairs: a new row is compared with any others, as in use. The other
        triplets are learned from, and the quadruplets without a held-out row. A
        held-out triplet whose two pairs are learned from with other anchors measures
        nothing; where many are such, rows are held out of all triplets. Groups are held
        out as they are.
        """
        out_of_training = is_held_out
        is_row_out = np.zeros(self.X.shape[0], dtype=bool)
        is_row_out[self.compared[is_held_out, 0]] = True
        if self.compared.shape[1] == 4:
            names_out = is_row_out[self.compared]
            is_held_out = names_out[:, :2].any(axis=1) & names_out[:, 2:].any(axis=1)
            out_of_training = names_out.any(axis=1)
        elif self.groups is None:
            pairs = self._pairs_of_triplets()
            is_known = np.isin(pairs, pairs[~is_held_out]).all(axis=1) & is_held_out
            if is_known.sum() <= MOST_KNOWN * is_held_out.sum():
                is_held_out = is_held_out & ~is_known
            else:
                out_of_training = is_row_out[self.compared].any(axis=1)
        chosen = np.flatnonzero(is_held_out)
        train = self.with_compared(~out_of_training)
        return train, self.with_compared(chosen), chosen

    def _pairs_of_triplets(self) -> np.ndarray:
        """Return a number for each of the two pairs of a triplet, equal for equal pairs."""
        anchors = self.compared[:, :1]
        others = self.compared[:, 1:]
        smaller = np.minimum(anchors, others)
        larger = np.maximum(anchors, others)
        return smaller * self.X.shape[0] + larger

    def can_teach(self) -> bool:
        """Return whether a comparison has a positive weight."""
        return self.can_judge()

    def can_judge(self) -> bool:
        """Return whether a comparison has a positive weight."""
        if self.weights is None:
            return len(self.compared) > 0
        return bool(self.weights.any())

    def check_validation(self, X: sp.csr_array, y_val: Any) -> Supervision:
        """Raise ValueError: labels cannot validate judgements."""
        raise ValueError(
            "y_val needs labels of X to vote with, but fit got judgements. Pass "
            "triplets_val=, judgements of the rows of X_val."
        )

    def fingerprint(self) -> dict[str, str]:
        """Return a digest of the comparisons and their weights."""
        return digest(self.compared, self.weights, self.groups)
