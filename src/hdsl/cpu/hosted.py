"""What the host knows of a problem of one machine, whoever computes: this processor or a card."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..solver.atoms import positioned, renumbered
from ..solver.protocols import Loss, Problem
from ..solver.snapshot import check_arrays, check_finite
from .comparisons import Comparisons
from .corrective import Sample

#: Stands in for a zero that is divided by.
TINY = float(np.finfo(np.float64).tiny)


class HostedProblem(Problem):
    """Mean loss of the margins of a convex combination of atoms, of which others compute most.

    Parameters
    ----------
    comparisons : Comparisons
    features : ndarray of shape (n_features,)
        The user's number of each feature.
    loss : Loss
    scale : float
        λ of the domain.
    prior : float, default=0.0
        Weight of the plain dot product under the learned part.
    sample : Sample, default=None
        What second derivatives are estimated from; None chooses by these comparisons alone.
    """

    def __init__(
        self,
        comparisons: Comparisons,
        features: np.ndarray,
        loss: Loss,
        scale: float,
        prior: float = 0.0,
        sample: Sample | None = None,
    ) -> None:
        self.comparisons, self.features, self.loss = comparisons, features, loss
        self.scale, self.prior, self.sample = float(scale), float(prior), sample
        self.n_comparisons, self.n_features = comparisons.n_comparisons, len(features)

    def weight_of(self, batch: np.ndarray) -> float:
        """Return the weight of a batch, as `batch_weight` counts it."""
        of = self.comparisons
        return float(of.omega[batch].sum()) if of.omega_step else float(len(batch))

    def batch_total(self, batch: np.ndarray, batch_weight: float | None) -> float:
        """Return what the weights of a batch are divided by."""
        return max(self.weight_of(batch) if batch_weight is None else batch_weight, TINY)

    def exact_search_cost(self) -> float:
        """Return the number of multiplications of a search of all pairs of features."""
        return float(self.comparisons.pairs.row_cost.sum())

    def to_user(self, atoms: np.ndarray) -> np.ndarray:
        """Return atoms in the feature numbers of the user's X; (-1, -1, 0) stays."""
        return renumbered(atoms, self.features)

    def from_user(self, atoms: np.ndarray) -> np.ndarray:
        """Return atoms in the problem's own feature numbers."""
        return positioned(atoms, self.features)

    def check_snapshot(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Raise ValueError unless the arrays are margins and known feature pairs."""
        margins = (np.float64, (self.n_comparisons,))
        check_arrays(arrays, {"margins": margins, "known": (np.int64, (-1, 2))})
        low, high = arrays["known"].T
        if not ((low >= 0) & (low < high) & (high < self.n_features)).all():
            raise ValueError("'known' has a feature pair that does not exist.")
        check_finite(arrays, "margins")

    def check_gradient(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Raise ValueError unless the arrays are those of a gradient: a number per pair of rows."""
        check_arrays(arrays, {"w": (np.float64, (self.comparisons.pairs.n_pairs,))})
        check_finite(arrays, "w")
