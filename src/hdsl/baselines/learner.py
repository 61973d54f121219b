"""What the methods that learn from triplets share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning

from .. import checks, memory
from ..supervision import METHODS, Mining, Supervision, compare

#: Weights of triplets; None stands for equal ones.
Weights = np.ndarray | None


class TripletLearner(BaseEstimator, ABC):
    """An estimator that learns a similarity from triplets, made from labels as `HDSL` makes them.

    A subclass checks its own parameters in `_check_parameters` and learns in `_learn`.
    """

    mining: str | Callable[..., np.ndarray]
    n_targets: int
    n_impostors: int
    random_state: Any
    n_jobs: int | None
    warm_start = False
    max_iter = 0
    tol = 0.0

    def fit(self, X: Any, y: Any = None, *, triplets: Any = None) -> Any:
        """Learn the similarity from labels or from triplets.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
        y : array-like of shape (n_rows,), default=None
            Labels to make triplets from. Not needed if `triplets` is given.
        triplets : array-like of int of shape (n_triplets, 3), default=None
            Row numbers of X: the first is more like the second than like the third.

        Returns
        -------
        self
        """
        self._check_mining()
        self._check_parameters()
        rng = checks.generator(self.random_state)
        continues = self.warm_start and hasattr(self, "similarity_")
        X = checks.check_matrix(self, X, reset=not continues)
        X = checks.as_problem_matrix(X)
        supervision = Supervision.check(type(self).__name__, X, y, triplets=triplets)
        self._check_memory(X)
        data = compare(Mining.of(self), supervision, rng)
        self._learn(X, data.compared, data.compared_weights, rng)
        return self

    def _check_mining(self) -> None:
        if not callable(self.mining):
            also = " or a callable (X, y, rng)"
            checks.check_word(type(self).__name__, "mining", self.mining, METHODS, also=also)
        for parameter in ("n_targets", "n_impostors"):
            self._check_number(parameter, low=1, integer=True)

    def _check_number(self, parameter: str, **limits: Any) -> None:
        value = getattr(self, parameter)
        checks.check_number(type(self).__name__, parameter, value, **limits)

    @abstractmethod
    def _check_parameters(self) -> None:
        """Raise ValueError if a parameter of the subclass is wrong."""

    def _check_memory(self, X: sp.csr_array) -> None:
        """Raise MemoryError if the fit cannot fit into memory."""

    @abstractmethod
    def _learn(
        self, X: sp.csr_array, triplets: np.ndarray, weights: Weights, rng: np.random.Generator
    ) -> None:
        """Set the fitted attributes."""

    def _warn_not_converged(self, what: str, value: float) -> None:
        checks.warn(
            f"{type(self).__name__} stopped at max_iter={self.max_iter} with {what} {value:.1e} > "
            f"tol={self.tol:.0e}. Raise max_iter or tol.",
            ConvergenceWarning,
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags


def check_dense_memory(
    owner: str, X: sp.csr_array, n_matrices: int, memory_limit: str | float | None
) -> None:
    """Raise MemoryError if `n_matrices` dense matrices over the features of X do not fit."""
    checks.check_number(owner, "memory_limit", memory_limit, low=0, words=("auto", None))
    d = len(np.unique(X.indices))
    memory.check_fits(
        f"For {n_matrices} dense matrices of {d} x {d} features, {owner}",
        8 * n_matrices * d**2,
        memory_limit,
        (
            "project the rows first (random_projection and pca of hdsl.baselines, rp_oasis and "
            "pca_oasis)",
            "pass memory_limit=None to try anyway",
        ),
    )
