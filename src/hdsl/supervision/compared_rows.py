"""Rows with comparisons of them: triplets or quadruplets, as people judged or as labels make."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from .. import triplets as triplets_module
from ..files.digests import digest
from ..triplets import Judgements
from ..triplets.graded_rows import rows_to_show
from .gains import SearchJudge, search_judged_rows
from .judges import Judge, judge_comparisons
from .mining import Mining
from .supervision import Supervision
from .turns import turns

#: Most of the held-out triplets, as a share, whose pairs may be learned from with other
#: anchors.
MOST_KNOWN = 0.25

#: Most comparisons per anchor of a sample, in the mean.
MOST_PER_ANCHOR = 100

#: A choice by fewer held-out anchors or comparisons is not made.
FEW_ANCHORS = 30

FEW_COMPARISONS = 200


#: The share of the rows that an anchor is compared with, from which on the comparisons
#: see what a search sees.
MOST_NAMED = 0.5


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
    said : Judgements or None
        What people said, in rows of all data, where more than comparisons is known.
    """

    X: sp.csr_array
    compared: np.ndarray
    weights: np.ndarray | None = None
    rows: np.ndarray | None = None
    is_mined: bool = False
    groups: np.ndarray | None = None
    said: Judgements | None = None

    @property
    def anchors(self) -> np.ndarray:
        """The rows that comparisons start from, sorted."""
        return np.flatnonzero(
            np.bincount(self.compared[:, 0], minlength=self.X.shape[0])
        )

    @property
    def n_units(self) -> int:
        """Number of anchors."""
        return len(self.anchors)

    @property
    def n_splittable(self) -> int:
        """Number of anchors."""
        return self.n_units

    def rows_that_count(self) -> sp.csr_array:
        """Return all rows."""
        return self.X

    def compare(self, mining: Mining, rng: np.random.Generator) -> ComparedRows:
        """Return the rows and comparisons as they are."""
        return self

    def take(self, rows: np.ndarray) -> ComparedRows:
        """Return some rows, with the comparisons that lie inside them."""
        is_inside = np.isin(self.compared, rows).all(axis=1)
        inside = self.with_compared(np.asarray(is_inside))
        compared = triplets_module.restrict(inside.compared, rows, self.X.shape[0])
        numbers = None if self.rows is None else self.rows[rows]
        return replace(inside, X=self.X[rows], compared=compared, rows=numbers)

    def with_compared(self, chosen: np.ndarray) -> ComparedRows:
        """Return the same rows with some of the comparisons, chosen by a mask or by numbers."""
        weights = None if self.weights is None else self.weights[chosen]
        groups = None if self.groups is None else self.groups[chosen]
        compared = self.compared[chosen]
        return replace(self, compared=compared, weights=weights, groups=groups)

    def sample(self, n_units: int, rng: np.random.Generator) -> ComparedRows:
        """Return the comparisons of at most so many anchors, and the rows that they name."""
        data = self._with_fewer_comparisons(MOST_PER_ANCHOR * n_units, rng)
        anchors = self.anchors
        if len(anchors) <= n_units:
            return data
        is_chosen = np.zeros(self.X.shape[0], dtype=bool)
        is_chosen[rng.choice(anchors, n_units, replace=False)] = True
        data = data.with_compared(is_chosen[data.compared[:, 0]])
        return data.take(np.unique(data.compared))

    def _with_fewer_comparisons(
        self, n_most: int, rng: np.random.Generator
    ) -> ComparedRows:
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

    def can_be_split(self) -> bool:
        """Return whether there are enough anchors and comparisons to hold some out."""
        return self.n_units >= FEW_ANCHORS and len(self.compared) >= FEW_COMPARISONS

    def splits(
        self, fraction: float, rng: np.random.Generator
    ) -> Iterator[tuple[ComparedRows, ComparedRows]]:
        """Yield the comparisons to learn from and those to hold out, by turns of the rows.

        Triplets with a held-out anchor are held out, and quadruplets with a held-out
        row in both pairs: a new row is compared with any others, as in use. The other
        triplets are learned from, and the quadruplets without a held-out row. A
        held-out triplet whose two pairs are learned from with other anchors measures
        nothing; where many are such, rows are held out of all triplets.
        """
        if self.compared.shape[1] == 3:
            split = self._split_triplets
        else:
            split = self._split_quadruplets
        positions = rng.permutation(self.X.shape[0])
        for is_held_out in turns(positions, fraction):
            yield split(is_held_out[self.compared])

    def _split_triplets(
        self, is_held_out: np.ndarray
    ) -> tuple[ComparedRows, ComparedRows]:
        """Return the triplets to learn from and to hold out; a mask says which rows are out."""
        pairs = self._pairs_of_triplets()
        validates: Any = is_held_out[:, 0]
        is_known = np.isin(pairs, pairs[~validates]).all(axis=1)
        if np.sum(is_known & validates) <= MOST_KNOWN * np.sum(validates):
            validates = validates & ~is_known
            trains: Any = ~is_held_out[:, 0]
        else:
            trains = ~is_held_out.any(axis=1)
        return self.with_compared(trains), self.with_compared(validates)

    def _pairs_of_triplets(self) -> np.ndarray:
        """Return a number for each of the two pairs of a triplet, equal for equal pairs."""
        anchors = self.compared[:, :1]
        others = self.compared[:, 1:]
        smaller = np.minimum(anchors, others)
        larger = np.maximum(anchors, others)
        return smaller * self.X.shape[0] + larger

    def _split_quadruplets(
        self, is_held_out: np.ndarray
    ) -> tuple[ComparedRows, ComparedRows]:
        """Return the quadruplets to learn from and to hold out."""
        validates: Any = is_held_out[:, :2].any(axis=1) & is_held_out[:, 2:].any(axis=1)
        trains: Any = ~is_held_out.any(axis=1)
        return self.with_compared(trains), self.with_compared(validates)

    def can_teach(self) -> bool:
        """Return whether a comparison has a positive weight."""
        return self.can_judge()

    def can_judge(self) -> bool:
        """Return whether a comparison has a positive weight."""
        if self.weights is None:
            return len(self.compared) > 0
        return bool(self.weights.any())

    def judge(self, train: Any, rng: np.random.Generator) -> Judge:
        """Return a judge by the share of comparisons that hold."""
        return judge_comparisons(self.X, self.compared, self.weights)

    def search(
        self, everything: ComparedRows, rng: np.random.Generator
    ) -> SearchJudge | None:
        """Return what searches for the positives of each anchor among all rows.

        Rows that are nothing but anchors are queries: they are never shown. None for
        quadruplets, which have no query, and where the comparisons of an anchor name
        most of the rows: their judge sees what a model brings up.
        """
        if self.compared.shape[1] != 3:
            return None
        shown = rows_to_show(everything.compared, everything.X.shape[0])
        if self._n_others() >= MOST_NAMED * len(shown):
            return None
        triplets = self.compared
        if self.rows is not None:
            triplets = self.rows[triplets]
        return search_judged_rows(everything.X, shown, triplets, self.weights, rng)

    def _n_others(self) -> float:
        """Return the mean number of rows that an anchor is compared with."""
        pairs = np.unique(self._pairs_of_anchors())
        return len(pairs) / max(1, self.n_units)

    def _pairs_of_anchors(self) -> np.ndarray:
        """Return a number for each anchor and a row that it is compared with."""
        return self.compared[:, :1] * np.int64(self.X.shape[0]) + self.compared[:, 1:]

    def check_validation(self, X: sp.csr_array, y_val: Any) -> Supervision:
        """Raise ValueError: labels cannot validate judgements."""
        raise ValueError(
            "y_val needs labels of X to vote with, but fit was given judgements. Pass "
            "triplets_val=, judgements of the rows of X_val."
        )

    def fingerprint(self) -> dict[str, str]:
        """Return a digest of the comparisons and their weights."""
        return digest(self.compared, self.weights, self.groups)
