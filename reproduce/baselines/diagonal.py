"""One weight per feature."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize

from hdsl.solver import losses

from .learner import COUNT, BilinearSimilarity, TripletLearner, Weights

#: Steps that L-BFGS remembers.
HISTORY = 20


class DiagonalSimilarity(TripletLearner):
    """Similarity Σ_j w_j x_j x'_j: one weight per feature, of any sign.

    Minimises (1/T) Σ_t ℓ(margin_t) + alpha·Ω(w), Ω = ‖w‖₁ or ‖w‖₂², by L-BFGS with
    bounds: for ‖w‖₁, w is the difference of two parts that are not negative. The
    products of rows that triplets compare are computed once.

    Parameters
    ----------
    penalty : {"l2", "l1"}, default="l2"
    alpha : float >= 0, default=1e-4
        Weight of the penalty. The best one depends on the lengths of the rows. The
        paper tries 1e-9, 1e-8, …, 1e8.
    loss : {"smoothed_hinge", "squared_hinge", "logistic", "exponential"}
        Loss of a triplet's margin S(x, y) - S(x, z).
    mining, n_targets, n_impostors
        How ``fit(X, y)`` makes triplets, as in `HDSL`.
    max_iter : int, default=2000
    tol : float >= 0, default=1e-3
        Stop when no feature violates the optimality conditions by more than this times
        the largest derivative of the loss at w = 0. An alpha below that product has
        little effect: early stopping regularises instead.
    random_state : int, RandomState or None, default=None
        For the triplets, where they are drawn.
    n_jobs : int or None, default=None
        Threads to make triplets and products with.

    Attributes
    ----------
    weights_ : ndarray of shape (n_features_in_,)
    n_active_features_ : int
        Number of non-zero weights.
    objective_ : float
        Mean loss plus penalty.
    n_iter_ : int
    similarity_ : BilinearSimilarity
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Where X has string column names.

    References
    ----------
    X. Gao, S. C. H. Hoi, Y. Zhang, J. Wan and J. Li. SOML: sparse online metric
    learning with application to image retrieval. AAAI, 2014.

    Examples
    --------
    >>> X = np.array([[2.0, 0, 1], [1, 0, 2], [0, 2, 1], [0, 1, 2]])
    >>> model = DiagonalSimilarity("l1", alpha=0.01, n_targets=1, n_impostors=1)
    >>> model.fit(X, [0, 0, 1, 1]).weights_[:2].round(2).tolist()
    [0.5, 0.5]
    """

    numbers = {"alpha": {"low": 0}, "max_iter": COUNT, "tol": {"low": 0}}  # noqa: RUF012
    words = {"penalty": ("l1", "l2"), "loss": losses.LOSSES}  # noqa: RUF012

    def __init__(
        self,
        penalty: str = "l2",
        *,
        alpha: float = 1e-4,
        loss: str = "smoothed_hinge",
        mining: str | Callable[..., np.ndarray] = "neighbors",
        n_targets: int = 3,
        n_impostors: int = 5,
        max_iter: int = 2000,
        tol: float = 1e-3,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.penalty = penalty
        self.alpha = alpha
        self.loss = loss
        self.mining = mining
        self.n_targets = n_targets
        self.n_impostors = n_impostors
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _learn(
        self,
        X: sp.csr_array,
        triplets: np.ndarray,
        weights: Weights,
        rng: np.random.Generator,
    ) -> None:
        objective = _DiagonalObjective(X, triplets, weights, self)
        minimum = objective.minimize(np.zeros(X.shape[1]), self.max_iter, self.tol)
        # Old versions of SciPy give up before max_iter: once more from there.
        if minimum.violation > self.tol and minimum.n_iter < self.max_iter:
            minimum = objective.minimize(minimum.w, self.max_iter, self.tol)
        if minimum.violation > self.tol and minimum.n_iter >= self.max_iter:
            self._warn_not_converged("a violation of", minimum.violation)
        self.weights_ = minimum.w
        self.objective_ = minimum.value
        self.n_iter_ = minimum.n_iter
        active = np.flatnonzero(minimum.w)
        self.n_active_features_ = len(active)
        matrix = sp.csr_array(sp.diags_array(minimum.w[active]))
        self.similarity_ = BilinearSimilarity(matrix, active, 0.0, X.shape[1])


class _Minimum(NamedTuple):
    """Where L-BFGS stopped."""

    w: np.ndarray
    #: Mean loss plus penalty.
    value: float
    n_iter: int
    #: Violation of the optimality conditions, relative to the gradient at w = 0.
    violation: float


class _DiagonalObjective:
    """Mean loss plus penalty, as a function of the feature weights w.

    Margins are differences of Zw, Z the products x_a ∘ x_b of the pairs of rows that
    are compared. With ‖w‖₁ the variables are two parts, whose difference is w.
    """

    def __init__(
        self,
        X: sp.csr_array,
        triplets: np.ndarray,
        weights: Weights,
        model: DiagonalSimilarity,
    ) -> None:
        self.is_split = model.penalty == "l1"
        self.alpha = float(model.alpha)
        self.loss = losses.get(model.loss)
        anchor, positive, negative = triplets.T
        n_rows = X.shape[0]
        n_triplets = len(triplets)
        keys = np.append(anchor * n_rows + positive, anchor * n_rows + negative)
        pairs, number = np.unique(keys, return_inverse=True)
        self.Z = sp.csr_array(X[pairs // n_rows] * X[pairs % n_rows])
        self.positive = number[:n_triplets]
        self.negative = number[n_triplets:]
        if weights is None:
            weights = np.ones(n_triplets)
        self.omega = weights / weights.sum()

    def loss_and_gradient(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the mean loss and its derivatives with respect to the weights."""
        scores = self.Z @ w
        margins = scores[self.positive] - scores[self.negative]
        slopes = self.omega * self.loss.derivative(margins)
        pair_slopes = np.bincount(self.positive, slopes, len(scores))
        pair_slopes -= np.bincount(self.negative, slopes, len(scores))
        mean_loss = float(self.omega @ self.loss.value(margins))
        return mean_loss, self.Z.T @ pair_slopes

    def with_penalty(self, variables: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the objective and its derivatives with respect to the variables."""
        if self.is_split:
            value, gradient = self.loss_and_gradient(self.weights(variables))
            penalty = self.alpha * float(variables.sum())
            return value + penalty, np.append(gradient, -gradient) + self.alpha
        value, gradient = self.loss_and_gradient(variables)
        penalty = self.alpha * float(variables @ variables)
        return value + penalty, gradient + 2.0 * self.alpha * variables

    def variables(self, w: np.ndarray) -> np.ndarray:
        """Return the variables of feature weights."""
        if not self.is_split:
            return w
        return np.append(w.clip(min=0.0), (-w).clip(min=0.0))

    def weights(self, variables: np.ndarray) -> np.ndarray:
        """Return the feature weights of variables."""
        if not self.is_split:
            return variables
        positive_part, negative_part = np.split(variables, 2)
        return positive_part - negative_part

    def minimize(self, w: np.ndarray, max_iter: int, tol: float) -> _Minimum:
        """Return where L-BFGS stops that starts at these feature weights."""
        unit = float(np.abs(self.loss_and_gradient(np.zeros_like(w))[1]).max())
        start = self.variables(w)
        bounds = None
        if self.is_split:
            bounds = [(0.0, None)] * len(start)
        end = minimize(
            self.with_penalty,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options={
                "maxiter": max_iter,
                "maxfun": 10 * max_iter,
                "maxcor": HISTORY,
                "ftol": 0.0,
                "gtol": tol * unit,
            },
        )
        slopes = end.jac
        if self.is_split:  # at its bound a variable may only want to fall
            slopes = np.where(end.x > 0, slopes, slopes.clip(max=0.0))
        violation = float(np.abs(slopes).max()) / (unit or 1.0)
        return _Minimum(self.weights(end.x), float(end.fun), int(end.nit), violation)
