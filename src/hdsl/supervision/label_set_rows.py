"""Rows with several labels each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from .. import triplets as triplets_module
from ..files.checkpoint import digest
from ..labels import label_sets
from .labeled_rows import ONE_OR_SEVERAL, LabeledRows, WeightedTriplets
from .mining import Miner


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
