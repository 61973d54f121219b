"""One weight per feature."""

from collections.abc import Callable
from typing import Any

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
        zero = np.zeros(X.shape[1])
        w, found, violation = objective.minimize(zero, self.max_iter, self.tol)
        if (
            violation > self.tol and found.nit < self.max_iter
        ):  # old versions of SciPy give up
            w, found, violation = objective.minimize(w, self.max_iter, self.tol)
        if violation > self.tol and found.nit >= self.max_iter:
            self._warn_not_converged("a violation of", violation)
        self.weights_ = w
        self.objective_ = float(found.fun)
        self.n_iter_ = int(found.nit)
        active = np.flatnonzero(w)
        self.n_active_features_ = len(active)
        matrix = sp.csr_array(sp.diags_array(w[active]))
        self.similarity_ = BilinearSimilarity(matrix, active, 0.0, X.shape[1])


class _DiagonalObjective:
    """Mean loss plus penalty, as a function of the feature weights w.

    Margins are differences of Zw, Z the products x_a ∘ x_b of the pairs of rows that
    are compared.
    """

    def __init__(
        self,
        X: sp.csr_array,
        triplets: np.ndarray,
        weights: Weights,
        model: DiagonalSimilarity,
    ) -> None:
        self.penalty = model.penalty
        self.alpha = float(model.alpha)
        self.loss = losses.get(model.loss)
        a, p, q = triplets.T
        n = X.shape[0]
        n_triplets = len(triplets)
        pairs, place = np.unique(np.append(a * n + p, a * n + q), return_inverse=True)
        self.Z = sp.csr_array(X[pairs // n] * X[pairs % n])
        self.positive = place[:n_triplets]
        self.negative = place[n_triplets:]
        omega = np.ones(n_triplets) if weights is None else weights
        self.omega = omega / omega.sum()

    def loss_and_gradient(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the mean loss and its derivatives with respect to the weights."""
        scores = self.Z @ w
        margins = scores[self.positive] - scores[self.negative]
        slopes = self.omega * self.loss.derivative(margins)
        of_pairs = np.bincount(self.positive, slopes, len(scores))
        of_pairs -= np.bincount(self.negative, slopes, len(scores))
        return float(self.omega @ self.loss.value(margins)), self.Z.T @ of_pairs

    def of_parts(self, parts: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the objective and its derivatives at w, or at w as the difference of two parts."""
        if self.penalty == "l2":
            value, gradient = self.loss_and_gradient(parts)
            return value + self.alpha * float(
                parts @ parts
            ), gradient + 2.0 * self.alpha * parts
        plus, minus = np.split(parts, 2)
        value, gradient = self.loss_and_gradient(plus - minus)
        slopes = np.concatenate([gradient, -gradient]) + self.alpha
        return value + self.alpha * float(parts.sum()), slopes

    def minimize(
        self, w: np.ndarray, max_iter: int, tol: float
    ) -> tuple[np.ndarray, Any, float]:
        """Return the weights, what the solver says, and the relative violation that is left."""
        unit = float(np.abs(self.loss_and_gradient(np.zeros_like(w))[1]).max())
        is_split = self.penalty == "l1"
        start = np.concatenate([w.clip(min=0.0), (-w).clip(min=0.0)]) if is_split else w
        found = minimize(
            self.of_parts,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=[(0.0, None)] * len(start) if is_split else None,
            options={
                "maxiter": max_iter,
                "maxfun": 10 * max_iter,
                "maxcor": HISTORY,
                "ftol": 0.0,
                "gtol": tol * unit,
            },
        )
        w = np.subtract(*np.split(found.x, 2)) if is_split else found.x
        slopes = np.where(
            (found.x > 0) | (not is_split), found.jac, found.jac.clip(max=0.0)
        )
        return w, found, float(np.abs(slopes).max()) / (unit or 1.0)
