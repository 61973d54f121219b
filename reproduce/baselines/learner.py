"""What the methods that learn from triplets share, and the similarity that they learn."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning

from hdsl import memory
from hdsl.input.errors import warn
from hdsl.input.estimators import TakesSparse, replace_fitted
from hdsl.input.matrices import as_problem_matrix, check_matrix
from hdsl.input.parameters import check_number, check_word, generator
from hdsl.similarity.cosine import PRODUCT, Pairwise
from hdsl.supervision.check import check_supervision
from hdsl.supervision.compared_rows import METHODS, Miner

#: Weights of triplets; None stands for equal ones.
Weights = np.ndarray | None

#: Limits of a parameter that counts.
COUNT: dict[str, Any] = {"low": 1, "integer": True}

#: Limits of a parameter that is a number > 0.
POSITIVE: dict[str, Any] = {"low": 0, "strict": True}

#: What to do where dense matrices do not fit.
LESS_MEMORY = (
    "project the rows first (rp_oasis and pca_oasis of reproduce.baselines)",
    "pass memory_limit=None to try anyway",
)


@dataclass(frozen=True)
class BilinearSimilarity(Pairwise):
    """S(x, x') = xᵀWx' with a matrix on listed features, and one weight for the rest.

    Parameters
    ----------
    matrix : ndarray or sparse array of shape (n_listed, n_listed)
        W on the listed features. It need be neither symmetric nor positive definite.
    features : ndarray of shape (n_listed,)
        Their numbers.
    rest : float
        Diagonal of W elsewhere.
    n_features : int

    Examples
    --------
    >>> W = np.array([[0.0, 2], [1, 0]])
    >>> similarity = BilinearSimilarity(W, np.array([0, 2]), 3.0, 3)
    >>> similarity.rewrite(np.array([[1.0, 1, 0]])).tolist()
    [[0.0, 3.0, 2.0]]
    """

    matrix: Any
    features: np.ndarray
    rest: float
    n_features: int

    #: S(x, x) may be negative: there is no cosine.
    ranking = PRODUCT

    def rewrite(self, X: Any) -> Any:
        """Return XW, the query side: its dot products with rows y are S(x, y)."""
        listed = X[:, self.features]
        if not sp.issparse(X):
            rewritten = self.rest * np.asarray(X, dtype=np.float64)
            rewritten[:, self.features] = listed @ self.matrix
            return rewritten
        n_listed = len(self.features)
        to_all_features = sp.csr_array(
            (np.ones(n_listed), (np.arange(n_listed), self.features)),
            shape=(n_listed, self.n_features),
        )
        rewritten = sp.csr_array(listed @ self.matrix) @ to_all_features
        if self.rest == 0:
            return rewritten
        unlisted = X - listed @ to_all_features
        return sp.csr_array(rewritten + self.rest * unlisted)


class TripletLearner(TakesSparse, BaseEstimator, ABC):
    """An estimator that learns a similarity from triplets, made as `HDSL` makes them.

    A subclass lists the limits of its own parameters and learns in `_learn`.
    """

    #: Limits of the parameters that are numbers, as `check_number` takes them.
    numbers: ClassVar[dict[str, dict[str, Any]]] = {}
    #: The words that other parameters may be.
    words: ClassVar[dict[str, Any]] = {}
    #: Dense matrices, of the features that X has, that a fit keeps in memory.
    n_matrices: ClassVar[int] = 0
    #: Rows are ranked by S as it is, as in the paper.
    ranking = PRODUCT

    mining: str | Callable[..., np.ndarray]
    n_targets: int
    n_impostors: int
    random_state: Any
    n_jobs: int | None
    memory_limit: str | float | None
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
        self._check_parameters()
        name = type(self).__name__
        rng = generator(self.random_state)
        learned = copy(self)  # self changes at the end, all at once
        X = as_problem_matrix(check_matrix(learned, X, reset=True))
        supervision = check_supervision(name, X, y, triplets=triplets)
        self._check_memory(n_features=len(np.unique(X.indices)))
        data = supervision.compare(Miner.of(self), rng)
        learned._learn(X, data.compared, data.weights, rng)
        replace_fitted(self, learned)
        return self

    def _check_parameters(self) -> None:
        """Raise ValueError unless each parameter is within its limits."""
        name = type(self).__name__
        if not callable(self.mining):
            also = " or a callable (X, y, rng)"
            check_word(name, "mining", self.mining, METHODS, also=also)
        for parameter, known in self.words.items():
            check_word(name, parameter, getattr(self, parameter), known)
        limits = {"n_targets": COUNT, "n_impostors": COUNT, **self.numbers}
        for parameter, limit in limits.items():
            check_number(name, parameter, getattr(self, parameter), **limit)

    def _check_memory(self, n_features: int) -> None:
        """Raise MemoryError if the dense matrices do not fit."""
        if not self.n_matrices:
            return
        what = (
            f"For {self.n_matrices} dense matrices of {n_features} x {n_features} "
            f"features, {type(self).__name__}"
        )
        n_bytes = 8 * self.n_matrices * n_features**2
        memory.check_fits(what, n_bytes, self.memory_limit, LESS_MEMORY)

    @abstractmethod
    def _learn(
        self,
        X: sp.csr_array,
        triplets: np.ndarray,
        weights: Weights,
        rng: np.random.Generator,
    ) -> None:
        """Set the fitted attributes."""

    def _warn_not_converged(self, what: str, value: float) -> None:
        warn(
            f"{type(self).__name__} stopped at max_iter={self.max_iter} with {what} "
            f"{value:.1e} > tol={self.tol:.0e}. Raise max_iter or tol.",
            ConvergenceWarning,
        )
